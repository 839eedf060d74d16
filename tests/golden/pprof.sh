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

export HOME="$dir" PPROF_TMPDIR="$dir" GOCACHE="$dir"
"$go" tool pprof -raw "$dir/prof.pb.gz" >"$dir/raw"
grep -q '^Samples:' "$dir/raw"
"$go" tool pprof -top "$dir/prof.pb.gz" >"$dir/top" 2>"$dir/err"
grep -q '^File: shop$' "$dir/top"
# pprof found nothing to look up for itself.
if grep -q 'ymboliz' "$dir/err"; then
	cat "$dir/err"
	exit 1
fi
