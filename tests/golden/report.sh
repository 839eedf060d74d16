#!/bin/sh
# report.sh BUILD KITPROF EXPECTED CHECK: the options of `kitprof report` that tell processes and
# threads apart or print figures. They are wired to what the golden tests show, and figures agree.
set -eu

self=$(realpath "$0") build=$(realpath "$1") kitprof=$(realpath "$2") expected=$3 check=$(realpath "$4")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

fail() {
	printf '%s\n' "$*" >&2
	exit 1
}

# refused STATUS TEXT ARGS...: exits with STATUS, says TEXT and prints nothing.
refused() {
	status=$1 text=$2
	shift 2
	code=0
	"$kitprof" report "$@" >out 2>err || code=$?
	[ "$code" = "$status" ] || fail "report $*: exit status $code"
	grep -q -e "$text" err || fail "report $*: $(cat err)"
	[ ! -s out ] || fail "report $*: prints $(cat out)"
}

mkdir stats
for scenario in shop cut full idle crew; do
	"$build" $scenario stats/$scenario.kitprof
	"$kitprof" report --stats stats/$scenario.kitprof >out 2>err
	diff -u "$expected/$scenario.stats" out
	"$kitprof" report --stats --json stats/$scenario.kitprof >out 2>>err
	diff -u "$expected/$scenario.json" out
	python3 "$check" <out
	[ ! -s err ] || fail "report --stats: $(cat err)"
done
rm -f stats/*.kitprof
rmdir stats || fail "report --stats writes files"

"$build" crew crew.kitprof
for split in threads processes; do
	option=--per-process
	[ $split = processes ] || option=-t
	"$kitprof" report $option -q -o $split.folded crew.kitprof
	diff -u "$expected/crew.folded-$split" $split.folded
	diff -u "$expected/crew.flat-$split" $split.flat
done
# Threads are told apart more finely than processes: both is threads.
"$kitprof" report --threads --per-process -q -o both.folded crew.kitprof
cmp threads.folded both.folded

refused 2 'json.*--stats' --json crew.kitprof
refused 2 'leave out' --stats -t crew.kitprof
refused 2 'leave out' --stats -o x.folded crew.kitprof
refused 2 'leave out' --stats -f pprof crew.kitprof
refused 1 report.sh --stats "$self"
"$kitprof" report --stats crew.kitprof >/dev/full 2>err && fail "a full disk is not noticed"
grep -q 'No space left' err
