#!/bin/bash
# pprof.sh CHECK GO: the pprof output of a real program is what pprof itself takes, passes the strict
# checker, and says the same as the folded output.
. "$(dirname "$0")/truth.sh"

check=$1 go=$2
export HOME=$work PPROF_TMPDIR=$work GOCACHE=$work

verify() {
	"$check" prof.pb.gz prof.folded >stacks.txt 2>err.log || fail "the checker says: $(cat err.log)"
	at_least stacks "$(wc -l <stacks.txt)" "$1"
	"$go" tool pprof -raw prof.pb.gz >raw.txt 2>err.log || fail "pprof says: $(cat err.log)"
	has raw.txt '^Samples:'
	"$go" tool pprof -top prof.pb.gz >top.txt 2>err.log || fail "pprof says: $(cat err.log)"
	has_not err.log ymboliz
}

run_says 0 "$KITPROF" run -f pprof -- "$VICTIMS/shares" 4 3 0
verify 4
has top.txt '^File: shares$'
awk '$NF == "fifty" { exit !($2 + 0 > 40 && $2 + 0 < 60) }' top.txt || fail "fifty has not 50 % in pprof"
has top.txt ' fifty$'
# By thread, as its labels say.
"$go" tool pprof -tags prof.pb.gz >tags.txt 2>err.log
for thread in w0 w1 w2; do
	has tags.txt "$thread"
done

run_says 0 "$KITPROF" run -f pprof -- "$VICTIMS/templates"
verify 1
has top.txt 'shop::Basket'

if command -v python3 >/dev/null; then
	run_says 0 "$KITPROF" run -f pprof -- python3 -c 'print(sum(len(str(i)) for i in range(2000000)))'
	verify 5
fi
