#!/bin/sh
# pprof.sh BUILD RENDER SCENARIO CHECK GO: is the pprof output what pprof's own code takes, and does
# it say the same as the folded output?
set -eu

build=$1 render=$2 scenario=$3 check=$4 go=$5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$build" "$scenario" "$dir/in.kitprof"
"$render" pprof "$dir/in.kitprof" "$dir/prof.pb.gz"
"$render" folded "$dir/in.kitprof" "$dir/prof.folded"
"$check" "$dir/prof.pb.gz" "$dir/prof.folded"
for split in processes threads; do
	"$render" "folded-$split" "$dir/in.kitprof" "$dir/prof.$split"
	"$check" "$dir/prof.pb.gz" "$dir/prof.$split" "$split"
done

export HOME="$dir" PPROF_TMPDIR="$dir" GOCACHE="$dir"
"$go" tool pprof -raw "$dir/prof.pb.gz" >"$dir/raw"
grep -q '^Samples:' "$dir/raw"
"$go" tool pprof -top "$dir/prof.pb.gz" >"$dir/top" 2>"$dir/err"
grep -q '^File: shop$' "$dir/top"
# Threads can be told apart by their names, as the root of all that they did.
case $scenario in
full) thread='shop app;1' ;;
crew) thread='b-2/c' ;;
*) thread='worker 2' ;;
esac
"$go" tool pprof -symbolize=none -traces -tagroot=thread_name "$dir/prof.pb.gz" >"$dir/traces" 2>"$dir/err"
grep -qx " *$thread" "$dir/traces"
# pprof found nothing to look up for itself.
if grep -q 'ymboliz' "$dir/err"; then
	cat "$dir/err"
	exit 1
fi
