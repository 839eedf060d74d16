#!/bin/sh
# What sampling costs a busy program: overhead.sh BUILD [ROUNDS]
# CPU time of the same work, arms taking turns; the ratio to the unprofiled run of the same round.
set -eu
build=$1
rounds=${2:-7}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
work="$build/tests/bench/bench-spin 2 300"

sampled() {
	"$build/kitprof" run -q --no-raw --no-flat -o /dev/null "$@" -- $work
}

median() {
	sort -n "$1" | awk '{ v[NR] = $1 } END { printf "%.4f", v[int((NR + 1) / 2)] }'
}

for i in $(seq "$rounds"); do
	base=$($work)
	for arm in "--rate 99" "--rate 999" "--rate 999 --clock timer" "--rate 4000"; do
		name=$(echo "$arm" | tr -d ' -')
		echo "$arm" >"$dir/$name.arm"
		sampled $arm | awk -v base="$base" '{ print $1 / base }' >>"$dir/$name.ratio"
	done
done
printf '%-30s %s\n' "CPU time against unprofiled" "median of $rounds"
for file in "$dir"/*.arm; do
	printf '%-30s %s\n' "$(cat "$file")" "$(median "${file%.arm}.ratio")"
done
