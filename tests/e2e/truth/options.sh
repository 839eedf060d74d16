#!/bin/bash
# options.sh errors|outputs|daemon: what the command line says is done, and a mistake in it is named.
. "$(dirname "$0")/truth.sh"

# wrong STATUS PATTERN COMMAND...: one line on stderr, nothing else, no file.
wrong() {
	local status=$1 pattern=$2

	shift 2
	run_says "$status" "$@"
	has err.log "^kitprofd?: .*$pattern"
	equal "lines of the message for $*" "$(wc -l <err.log)" 1
	equal "stdout of $*" "$(cat out)" ""
	equal "files of $*" "$(ls | grep '^prof')" ""
}

# files NAME...: these are the results, and no others.
files() {
	equal "result files" "$(ls -A results | sort | tr '\n' ' ')" "${*:+$* }"
	rm -rf results
	mkdir results
}

case $1 in
errors)
	run=("$KITPROF" run)
	wrong 125 '--wat' "${run[@]}" --wat -- true
	wrong 125 '-Z' "${run[@]}" -Z -- true
	wrong 125 '--pid.*record' "${run[@]}" --pid 1 -- true
	wrong 125 '-p.*record' "${run[@]}" -p 1 -- true
	wrong 125 '--rate needs a value' "${run[@]}" --rate
	wrong 125 '-o needs a value' "${run[@]}" -o
	wrong 125 '--quiet takes no value' "${run[@]}" --quiet=yes -- true
	for value in fast 0 -1 0hz 10001 1h 99hzz 1e9 nan ''; do
		wrong 125 "--rate $value:" "${run[@]}" --rate "$value" -- true
	done
	for value in 0 1025 -1 x 1.5 18446744073709551617 ''; do
		wrong 125 "--depth $value:" "${run[@]}" --depth "$value" -- true
	done
	for value in 0 -5 many; do
		wrong 125 "--cap $value:" "${run[@]}" --cap "$value" -- true
	done
	for value in 0 -1 soon 5x; do
		wrong 125 "--duration $value:" "${run[@]}" -d "$value" -- true
	done
	for value in KILL SEGV CHLD 0 35 NONE -3; do
		wrong 125 "--signal $value:" "${run[@]}" --signal "$value" -- true
	done
	wrong 125 '--clock quartz:' "${run[@]}" --clock quartz -- true
	wrong 125 '--format svgz:.*pprof' "${run[@]}" -f svgz -- true
	wrong 125 'no program' "${run[@]}"
	wrong 125 'no program' "${run[@]}" -q --
	wrong 2 '--wat' "$KITPROF" record --wat --pid 1
	wrong 2 'which process' "$KITPROF" record
	wrong 2 '--pid many:' "$KITPROF" record --pid many
	wrong 2 '--pid 0:' "$KITPROF" record --pid 0
	wrong 2 'unexpected argument true' "$KITPROF" record --pid 1 true
	wrong 2 '--cap.*kitprof run' "$KITPROF" report --cap 5 file
	wrong 2 'give one raw profile' "$KITPROF" report
	wrong 2 'give one raw profile' "$KITPROF" report a b
	wrong 2 'give one process' "$KITPROF" cleanup
	wrong 2 'give one process' "$KITPROF" cleanup x
	wrong 2 'no command wat' "$KITPROF" wat
	# The program's own options are not ours.
	run_says 0 "$KITPROF" run -q --no-raw --no-folded --no-flat sh -c 'echo "$@"' sh --wat -o x
	equal "the program's words" "$(cat out)" "--wat -o x"

	for command in "$KITPROF" "$KITPROFD" "$KITPROF run" "$KITPROF record" "$KITPROF report" \
		"$KITPROF cleanup"; do
		for option in -V --version; do
			run_says 0 $command $option
			has out '^kitprof [0-9]+\.[0-9]+\.[0-9]+$'
			equal "lines of $option" "$(cat out err.log | wc -l)" 1
		done
		for option in -h --help; do
			run_says 0 $command $option
			has out '^Usage: kitprof'
			equal "stderr of $option" "$(cat err.log)" ""
		done
	done
	;;
outputs)
	mkdir results
	run=("$KITPROF" run)
	program=("$VICTIMS/shares" 2 1 0)

	run_says 0 "${run[@]}" -o results/a.folded -- "${program[@]}"
	files a.flat a.folded a.kitprof
	run_says 0 "${run[@]}" -o results/a.txt -- "${program[@]}"
	files a.txt a.txt.flat a.txt.kitprof
	run_says 0 "${run[@]}" -o results/a.folded --no-folded -- "${program[@]}"
	files a.flat a.kitprof
	run_says 0 "${run[@]}" -o results/a.folded --no-flat --no-raw -- "${program[@]}"
	files a.folded
	run_says 0 "${run[@]}" -o results/a.folded --no-flat --no-raw --no-folded -f pprof -f flat:results/f \
		-f folded:results/g -- "${program[@]}"
	has err.log 'wrote results/a.pb.gz, results/f, results/g \(go tool pprof .*results/a.pb.gz\)'
	gzip -t results/a.pb.gz || fail "pprof's file is no gzip file"
	has results/f ' fifty '
	has results/g 'fifty [0-9]+$'
	files a.pb.gz f g
	run_says 0 "${run[@]}" --no-raw --no-flat -o - -- "${program[@]}"
	has out '^shares;.*fifty [0-9]+$'
	has out '^done$'
	has_not err.log wrote
	run_says 0 "${run[@]}" --no-raw --no-flat --no-folded -f flat:- -- "${program[@]}"
	has out ' fifty '
	equal "files where -o was -" "$(ls | grep '^prof')" ""
	run_says 0 "${run[@]}" -q -o results/a.folded -f pprof -- "${program[@]}"
	equal "stderr under -q" "$(cat err.log)" ""
	equal "stdout" "$(cat out)" done
	files a.flat a.folded a.kitprof a.pb.gz

	# A result that cannot be written is said, does not take the others along, and is no success.
	run_says 125 "${run[@]}" -o results/a.folded -f pprof:/no/such/folder/x -- "${program[@]}"
	has err.log '^kitprof: .*/no/such/folder/x'
	files a.flat a.folded a.kitprof
	run_says 7 "${run[@]}" --no-raw -o /no/such/folder/x -- "$VICTIMS/shares" 2 1 7
	has err.log '^kitprof: .*/no/such/folder/x'
	run_says 125 "${run[@]}" -o /no/such/folder/x -- "${program[@]}"
	equal "output of a program that was not to start" "$(cat out)" ""
	# -d ends the window, not the program.
	run_says 7 "${run[@]}" -d 200ms -o results/a.folded -- "$VICTIMS/shares" 8 1 7
	equal stdout "$(cat out)" done
	equal why "$(raw_end results/a.kitprof why)" 2
	awk -v ns="$(raw_end results/a.kitprof window_ns)" 'BEGIN { exit !(ns >= 200e6 && ns < 400e6) }' ||
		fail "the window of 200 ms is $(raw_end results/a.kitprof window_ns) ns long"
	;;
daemon)
	need_ptrace
	burner victim "$VICTIMS/shares" 400 1 0
	target=$pid
	proc_state "$target" before
	for signal in TERM INT; do
		set -m
		start daemon "$KITPROFD" --pid "$target" -f pprof
		set +m
		until_true 20 has_agent "$target" || fail "the daemon does not begin"
		says daemon "^kitprofd: sampling pid $target; SIGINT or SIGTERM ends it" || fail "it does not say so"
		sleep 1
		kill -"$signal" "$pid"
		wait "$pid"
		equal "exit status after SIG$signal" $? 0
		says daemon '^kitprofd: wrote prof.folded, prof.flat, prof.pb.gz, prof.kitprof' || fail "nothing written"
		equal why "$(raw_end prof.kitprof why)" 3
		account prof.kitprof 80 120
		has prof.folded ';fifty '
		same_state "$target" before "after SIG$signal"
		rm prof.*
	done
	run_says 0 "$KITPROFD" --pid "$target" -d 1 -q
	equal "output under -q" "$(cat out err.log)" ""
	equal why "$(raw_end prof.kitprof why)" 2
	kill -KILL "$target"
	wait "$target" 2>/dev/null

	# Nothing to sample is not an error of the target, but no success either.
	start sleeper sleep 60
	run_says 3 "$KITPROF" record --pid "$pid" -d 0.3
	has err.log '^kitprof: no samples of sleep'
	;;
esac
