#!/bin/bash
# debuginfod.sh fetched|missing|unreachable|silent|liar|absent: names and lines that a stripped program
# has from a debuginfod server on loopback, if the option is given, and what is said when it has not.
. "$(dirname "$0")/truth.sh"

need_ptrace
need_tool debuginfod-find
need_tool objcopy
need_tool python3
unset DEBUGINFOD_TIMEOUT DEBUGINFOD_MAXTIME DEBUGINFOD_MAXSIZE DEBUGINFOD_VERBOSE DEBUGINFOD_PROGRESS
export DEBUGINFOD_CACHE_PATH=$work/fetched
export TMPDIR=$work/tmp
mkdir served tmp bin

objcopy --only-keep-debug "$VICTIMS/shares" served/shares.debug
objcopy --strip-all "$VICTIMS/shares" program
id=$(readelf -n program | sed -n 's/.*Build ID: //p')
[ -n "$id" ] || skip "programs have no build id here"
run_says 0 env -u DEBUGINFOD_URLS "$KITPROF" run -q -- ./program 5 1 0
has_not prof.folded fifty
cp prof.folded poor.folded

# Nobody listens there.
free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

answers() {
	python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1] + "/metrics", timeout=2)' "$1" 2>/dev/null
}

# knows URL KIND: whether the server has found that file of the program by now.
knows() {
	python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=2)' "$1/buildid/$id/$2" 2>/dev/null
}

# serve OPTIONS...: Debian's server over served/; its address is in $url.
serve() {
	local tries
	need_tool debuginfod
	for tries in 1 2 3; do
		url=http://127.0.0.1:$(free_port)
		start server debuginfod -v -d "$work/server.sqlite" -p "${url##*:}" -F "$work/served"
		until_true 20 answers "$url" && break
		end_quietly "$pid"
	done
	answers "$url" || skip "debuginfod does not start: $(tail -n 3 server.log)"
}

# A command in front of the real one's place.
fake_find() {
	printf '#!/bin/sh\n%s\n' "$1" >bin/debuginfod-find
	chmod 755 bin/debuginfod-find
	PATH=$work/bin:$PATH
}

report() {
	run_says 0 env DEBUGINFOD_URLS="$url" "$KITPROF" report prof.kitprof -o new.folded "$@"
	[ -z "$(ls -A "$TMPDIR")" ] || fail "left in TMPDIR: $(ls -A "$TMPDIR")"
}

# Names are what they are without the option.
as_before() {
	cmp poor.folded new.folded || fail "what is fetched in vain changes names"
}

requests() {
	grep -c 'GET /buildid' server.log
}

case $1 in
fetched)
	serve
	until_true 20 knows "$url" debuginfo || fail "the server does not find the file: $(tail server.log)"
	before=$(requests)
	# Nothing is asked for without the option.
	report
	as_before
	equal "requests without the option" "$(requests)" "$before"
	report --debuginfod
	has new.folded '^program;(.*;)?main;go_round;fifty [0-9]+$'
	has new.flat ' fifty  .*shares\.c:'
	has err.log "^kitprof: fetched debug information of $work/program: [0-9.]+ [kM]B from $url\$"
	[ "$(requests)" -gt "$before" ] || fail "the server was not asked"
	# What is in the cache is not asked for again.
	cp new.folded rich.folded
	before=$(requests)
	report --debuginfod=20s
	cmp new.folded rich.folded || fail "other names out of the cache"
	has err.log "fetched debug information of $work/program: .* from debuginfod's cache\$"
	equal "requests with a cache" "$(requests)" "$before"
	rm -r fetched
	one=$url
	url="http://127.0.0.1:1 $one"
	report --debuginfod
	cmp new.folded rich.folded || fail "other names with two servers"
	has err.log "fetched debug information of $work/program: .* from $one\$"
	url=$one
	report --debuginfod -q
	[ ! -s err.log ] || fail "-q says: $(cat err.log)"
	# In one go; and the program's own file, where it is gone.
	run_says 0 env DEBUGINFOD_URLS="$url" "$KITPROF" run --debuginfod -o once.folded -- ./program 5 1 0
	has once.folded ';main;go_round;fifty [0-9]+$'
	cp program served/
	rm -r fetched
	mv program elsewhere
	end_quietly "$pid"
	serve
	until_true 20 knows "$url" debuginfo || fail "the server does not find the file: $(tail server.log)"
	until_true 20 knows "$url" executable || fail "the server does not find the program: $(tail server.log)"
	report --debuginfod
	has err.log "fetched file $work/program: .* from $url\$"
	has err.log "fetched debug information of $work/program: .* from $url\$"
	has new.folded ';main;go_round;fifty [0-9]+$'
	;;
missing)
	rm served/shares.debug
	serve
	report --debuginfod
	as_before
	has err.log "^kitprof: no debug information of $work/program from $url: No such file or directory\$"
	;;
unreachable)
	url=http://user:secret@127.0.0.1:$(free_port)
	report --debuginfod
	as_before
	has err.log "no debug information of $work/program from http://127.0.0.1:[0-9]*: Connection refused\$"
	has_not err.log secret
	url="$url $url/x"
	report --debuginfod
	as_before
	has err.log "no debug information of $work/program from any of 2 servers: "
	url=
	report --debuginfod
	as_before
	has err.log 'nothing is fetched: DEBUGINFOD_URLS names no server'
	;;
silent)
	# Takes the connection and says nothing more.
	start server python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 0))
print("ready", s.getsockname()[1], flush=True)
time.sleep(600)'
	until_true 20 says server '^ready' || fail "no server"
	url=http://127.0.0.1:$(sed -n 's/^ready //p' server.log)
	report --debuginfod=500ms
	as_before
	has err.log "no debug information of $work/program from $url: time is up\$"
	pgrep -f "debuginfod-find debuginfo $id" && fail "debuginfod-find still runs"
	;;
liar)
	objcopy --only-keep-debug "$VICTIMS/born" other.debug
	url=http://127.0.0.1:1
	fake_find "echo '$work/other.debug'"
	report --debuginfod
	as_before
	has err.log "other.debug: not used: it is not debug information of build id $id\$"
	mkfifo fifo
	fake_find "echo '$work/fifo'"
	report --debuginfod
	as_before
	has err.log 'debuginfod-find names no regular file'
	fake_find 'kill -SEGV $$'
	report --debuginfod
	as_before
	has err.log 'debuginfod-find was ended by signal 11'
	# Not a program for the output of which there is any hope.
	fake_find 'yes /; exec sleep 600'
	report --debuginfod=500ms
	as_before
	has err.log 'time is up'
	;;
absent)
	url=http://127.0.0.1:1
	for tool in env rm ls; do
		ln -s "$(command -v "$tool")" bin/
	done
	PATH=$work/bin run_says 0 env DEBUGINFOD_URLS="$url" "$KITPROF" report --debuginfod prof.kitprof -o new.folded
	as_before
	has err.log 'debuginfod-find is not installed \(Debian: package debuginfod\)'
	;;
esac
exit 0
