#!/bin/sh
# One golden test: golden.sh BUILD RENDER SCENARIO FORMAT EXPECTED [PROTOC PROTO_DIR]
#
# Builds the raw profile of SCENARIO (or copies it, where BUILD is cp), renders it as FORMAT and compares with EXPECTED byte for byte.
# pprof is compared as protoc's text: zlib versions compress differently, and text can be reviewed.
#
# After a change that is meant to change the output: KP_GOLDEN_UPDATE=1 meson test -C BUILD --suite
# golden writes the expected files anew; review them with git diff.
set -eu

build=$1 render=$2 scenario=$3 format=$4 expected=$5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$build" "$scenario" "$dir/in.kitprof"
"$render" "$format" "$dir/in.kitprof" "$dir/out"
case $format in
pprof*)
	gzip -dc "$dir/out" |
		"$6" --proto_path="$7" --decode=perftools.profiles.Profile profile.proto >"$dir/text"
	mv "$dir/text" "$dir/out"
	;;
json)
	python3 -m json.tool "$dir/out" >"$dir/text" # others read it too
	;;
esac
if [ -n "${KP_GOLDEN_UPDATE:-}" ]; then
	cp "$dir/out" "$expected"
fi
diff -u "$expected" "$dir/out"
