#!/bin/sh
# How long a thread of the target stands still: attach.sh BUILD [CYCLES]
# As kitprof itself measures it, from asking the thread to stop until it goes on.
set -eu
build=$1
cycles=${2:-60}
dir=$(mktemp -d)
target=
trap '[ -z "$target" ] || kill "$target" 2>/dev/null || true; rm -rf "$dir"' EXIT

# numbers FILE: min, median, 90 % and max of a file of numbers
numbers() {
	sort -n "$1" | awk '{ v[NR] = $1 } END {
		if (NR == 0) { print "no figures"; exit }
		printf "%8.2f %8.2f %8.2f %8.2f\n", v[1], v[int((NR + 1) / 2)], v[int(NR * 0.9 + 0.5)], v[NR]
	}'
}

cycle() {
	: >"$dir/attach"
	: >"$dir/detach"
	for i in $(seq "$cycles"); do
		"$build/kitprof" record --pid "$target" -d 20ms --no-raw -o /dev/null --no-flat 2>"$dir/err" || true
		sed -n 's/.*stopped \([0-9.]*\) ms to attach.*/\1/p' "$dir/err" >>"$dir/attach"
		sed -n 's/.* \([0-9.]*\) ms to detach.*/\1/p' "$dir/err" >>"$dir/detach"
	done
	printf '%-34s %s\n' "$1: attach" "$(numbers "$dir/attach")"
	printf '%-34s %s\n' "$1: detach (two stops)" "$(numbers "$dir/detach")"
}

printf '%-34s %8s %8s %8s %8s\n' "a thread stands still, ms" min median 90% max
sleep 600 &
target=$!
cycle "sleeping, 1 thread"
kill "$target"
for threads in 1 8; do
	"$build/tests/bench/bench-spin" "$threads" 1 forever >/dev/null &
	target=$!
	cycle "busy, $threads thread(s)"
	kill "$target"
done
target=
