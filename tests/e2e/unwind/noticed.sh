#!/bin/bash
# A library is known to the handler within 20 ms of its loading, where task events tell of it.
. "$(dirname "$0")/unwind.sh"
need_ptrace

in_time() {
	"$KITPROF" run -q -r 99 --no-raw -- "$VICTIMS/noticed" 40 "$VICTIMS"/plugin_*.so >times 2>err.log ||
		fail "noticed ends with $?: $(cat err.log)"
	sort -n times | awk '
		{ us[NR] = $1 }
		END {
			printf "%d times: median %d us, longest %d us\n", NR, us[int(NR / 2) + 1], us[NR]
			exit !(NR == 40 && us[20] <= 20000)
		}'
}

# Half of them: on a busy machine kitprof may have to wait for a CPU.
in_time || in_time || in_time || fail "libraries are noticed late: $(sort -n times | tr '\n' ' ')"
