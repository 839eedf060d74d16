#!/bin/bash
# explained.sh redis|compile: of real programs under load, as much of the CPU time as is asked for.
. "$(dirname "$0")/truth.sh"

# explains PERCENT: as the report says, threads without samples and what was too short left out.
explains() {
	account prof.kitprof
	"$KITPROF" report --stats prof.kitprof | grep -E '^(cpu|sampled|missed) ' || true
	sed -n 's/.*explained \([0-9.]*\) % of .*/\1/p' err.log >explained
	awk -v wanted="$1" '{ exit !($1 >= wanted && $1 <= 101) }' explained || fail "explained $(cat explained) %, expected $1"
}

case $1 in
redis)
	need_ptrace
	need_tool redis-server
	need_tool redis-benchmark
	start redis redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --appendonly no --dir "$work"
	target=$pid
	until_true 20 redis-cli -s redis.sock ping >/dev/null || fail "redis does not start: $(cat redis.log)"
	start load redis-benchmark -s redis.sock -n 100000000 -c 20 -t get,set -q
	until_true 20 uses_more "$target" 0 3 || fail "redis does not run"
	# At 99 Hz a sample is a third of a percent of what it uses in 8 s.
	for how in '99 8' '999 3'; do
		run_says 0 "$KITPROF" record -r "${how% *}" --pid "$target" -d "${how#* }"
		explains 99
	done
	;;
compile)
	need_tool make
	# Two at a time, each some tenths of a second: a shell, a driver, a compiler, an assembler.
	cat >Makefile <<'END'
all: c1.o c2.o c3.o c4.o c5.o c6.o
c%.o: program.c
	gcc -O2 -DNUMBER=$* -c -o $@ $<
END
	awk 'BEGIN {
		for (i = 0; i < 250; i++)
			printf "int f%d(int *a, int n)\n{\n\tint s = NUMBER;\n\tfor (int i = 0; i < n; i++)\n" \
				"\t\ts += a[i] * %d ^ (s >> %d) ? a[s & 7] : s / (i + %d);\n\treturn s;\n}\n",
				i, i, i % 13, i + 1
	}' >program.c
	run_says 0 "$KITPROF" run -- make -j2
	explains 99
	;;
esac
