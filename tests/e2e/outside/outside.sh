# What the tests of sampling from outside have in common. Sourced; besides what lib.sh needs
#	RAWDUMP		the program that prints a raw profile
#	HARM		directory of the victims of the harm tests
. "$(dirname "$0")/../lib.sh"

# end_of FILE FIELD: a figure of the raw profile's END record.
end_of() {
	"$RAWDUMP" "$1" | sed -n "s/^end .*\b$2=\([0-9]*\).*/\1/p"
}

# samples_of FILE SOURCE [TID]: how many samples that source made (of that thread).
samples_of() {
	"$RAWDUMP" "$1" | grep -c "^sample .*tid=${3:-[0-9]*} .*source=$2 "
}

# thread_of PID NAME: the tid of the first thread of that name.
thread_of() {
	local comm
	for comm in /proc/"$1"/task/*/comm; do
		[ "$(cat "$comm" 2>/dev/null)" = "$2" ] && basename "$(dirname "$comm")" && return
	done
	return 1
}

# thread_cpu_ms PID TID
thread_cpu_ms() {
	local ns rest
	read -r ns rest <"/proc/$1/task/$2/schedstat"
	echo $((ns / 1000000))
}

# have_used PID MS TID...: the threads have that much CPU time together.
have_used() {
	local pid=$1 ms=$2 tid sum=0
	shift 2
	for tid in "$@"; do
		sum=$((sum + $(thread_cpu_ms "$pid" "$tid")))
	done
	[ "$sum" -ge "$ms" ]
}

# adds_up FILE: taken = kept + dropped, and as many samples are there as were kept.
adds_up() {
	local taken kept dropped there
	taken=$(end_of "$1" taken)
	kept=$(end_of "$1" kept)
	dropped=$(($(end_of "$1" dropped_full) + $(end_of "$1" dropped_cap) + $(end_of "$1" abandoned) + $(end_of "$1" bad)))
	there=$("$RAWDUMP" "$1" | grep -c '^sample ')
	[ "$taken" -eq $((kept + dropped)) ] || fail "$taken taken, $kept kept, $dropped dropped"
	[ "$there" -eq "$kept" ] || fail "$kept kept, $there in the file"
}

# weight_of FOLDED PATTERN: the time of the stacks that have it, in periods.
weight_of() {
	awk -v pattern="$2" '$0 ~ pattern { n += $NF } END { print n + 0 }' "$1"
}

# ms_of FILE TID [SOURCE]: the time in samples of a thread.
ms_of() {
	"$RAWDUMP" "$1" | sed -n "s/^sample .*tid=$2 weight_ns=\([0-9]*\) source=${3:-[0-9]*} .*/\1/p" |
		awk '{ ns += $1 } END { printf "%.0f\n", ns / 1000000 }'
}

# is_share PART WHOLE PERCENT POINTS NAME
is_share() {
	awk -v part="$1" -v whole="$2" -v percent="$3" -v points="$4" 'BEGIN {
		is = whole ? part * 100 / whole : -1
		exit !(is >= percent - points && is <= percent + points)
	}' || fail "$5: $1 of $2 is not $3 % (+- $4)"
}

# kill_onlooker RECORDER: by SIGKILL, if there is one.
kill_onlooker() {
	local child
	for child in $(cat "/proc/$1/task/$1/children"); do
		[ "$(cat "/proc/$child/comm" 2>/dev/null)" = kitprof-look ] && kill -KILL "$child" 2>/dev/null
	done
	return 0
}
