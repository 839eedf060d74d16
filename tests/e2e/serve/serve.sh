# What the scripts of this folder share, on top of lib.sh.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
export XDG_RUNTIME_DIR=$work # the socket is in the test's own directory
socket=$work/kitprofd.sock

# equal WHAT GOT WANTED
equal() {
	[ "$2" = "$3" ] || fail "$1: \"$2\", expected \"$3\""
}

# serve OPTIONS...: starts a server; its pid is in $server. Results go to results/.
serve() {
	mkdir -p results
	start server "$KITPROFD" --dir results "$@"
	server=$pid
	until_true 10 says server 'serving at' || fail "no server: $(cat server.log)"
}

# asks STATUS COMMAND WORDS...: kitprof as a client; what it prints is in out and err.
asks() {
	local wanted=$1 got=0
	shift
	"$KITPROF" "$@" >out 2>err || got=$?
	[ "$got" -eq "$wanted" ] || fail "kitprof $* says $got, expected $wanted: $(cat out err)"
}

# state_in_status PID: the state column.
state_in_status() {
	"$KITPROF" status | awk -v pid="$1" '$1 == pid { state = $3 } END { print state }'
}

is_in_status() {
	[ "$(state_in_status "$1")" = "$2" ]
}

samples_in_status() {
	"$KITPROF" status | awk -v pid="$1" '$1 == pid { n = $5 } END { print n + 0 }'
}

has_samples_in_status() {
	[ "$(samples_in_status "$1")" -gt "${2:-5}" ]
}

# has_profile PID NAME: there is one folded and one raw profile of it, with samples of burn's work().
has_profile() {
	local folded=(results/"$2-$1"-*.folded) raw=(results/"$2-$1"-*.kitprof)
	[ -s "${folded[0]}" ] && [ -s "${raw[0]}" ] && grep -q work "${folded[0]}" &&
		"$KITPROF" report -q -o again.folded --no-flat "${raw[0]}" && cmp -s again.folded "${folded[0]}"
}

has_no_agent() {
	! has_agent "$1"
}

# says_raw TEXT: sends bytes as they are, prints the first line of the answer.
says_raw() {
	python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
s.connect(sys.argv[1])
try:
    s.sendall(sys.stdin.buffer.read())
except BrokenPipeError:
    pass
print(s.makefile("rb").readline().decode().strip())' "$socket"
}
