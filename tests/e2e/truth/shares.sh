#!/bin/bash
# shares.sh WAY: CPU time of 50 : 30 : 15 : 5 comes out as that, whatever clock and way in.
. "$(dirname "$0")/truth.sh"

portions="fifty=50 thirty=30 fifteen=15 five=5"

check() {
	account prof.kitprof 95 105
	kept=$(raw_end prof.kitprof kept)
	at_least samples "$kept" "$1"
	shares prof.folded "$kept" $portions
}

case $1 in
run)
	run_says 0 "$KITPROF" run -- "$VICTIMS/shares" 20 1 0
	has err.log 'asked 999 Hz, got (9[5-9]|10[0-4])'
	check 400 # 2000 where there are task-clock events
	;;
timer)
	run_says 0 "$KITPROF" run --clock timer -- "$VICTIMS/shares" 30 1 0
	has err.log '\(cpu-timer, SIG'
	has_not prof.flat task-clock
	check 300
	;;
record)
	need_ptrace
	burner victim "$VICTIMS/shares" 200 1 0
	run_says 0 "$KITPROF" record --pid "$pid" -d 6
	has err.log 'asked 99 Hz, got (9[5-9]|10[0-3]) '
	check 100
	;;
threads)
	run_says 0 "$KITPROF" run -- "$VICTIMS/shares" 6 8 0
	check 600
	"$RAWDUMP" prof.kitprof | awk '
		$1 == "thread" { name[substr($3, 5)] = substr($4, 6) }
		$1 == "sample" { tid = substr($3, 5); print "threads;" (tid in name ? name[tid] : "?") }' |
		sort | uniq -c | awk '{ print $2, $1 }' >threads.folded
	shares threads.folded "$kept" w0=12.5 w1=12.5 w2=12.5 w3=12.5 w4=12.5 w5=12.5 w6=12.5 w7=12.5
	;;
esac
