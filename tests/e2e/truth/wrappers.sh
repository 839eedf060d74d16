#!/bin/bash
# Programs that start others, in their own place or as a child: the one that comes out is profiled.
. "$(dirname "$0")/truth.sh"

cat >script <<END
#!/bin/sh
exec "$VICTIMS/shares" 3 1 7
END
chmod +x script
cp script plain-text # no "#!": execvp() gives such a file to sh
sed -i 1d plain-text

victim=("$VICTIMS/shares" 3 1 7)

named() {
	rm -f prof.*
	run_says 7 "$KITPROF" run -- "$@"
	equal "output of $*" "$(cat out)" done
	account prof.kitprof
	at_least "share of fifty under $*" "$(self prof.folded fifty)" 35
	has prof.folded '^shares;.*fifty [0-9]+$'
}

named env X=1 "${victim[@]}"
named env env env env "${victim[@]}"
named sh -c 'exec "$@"' sh "${victim[@]}"
named nice "${victim[@]}"
named setsid "${victim[@]}"
named ./script
named sh ./plain-text

# Those that start it as a child and wait for it.
named timeout 60 "${victim[@]}"
named sh -c '"$@"; exit $?' sh "${victim[@]}"
