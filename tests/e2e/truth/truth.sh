# What the scripts of this folder share, on top of lib.sh. Meson also gives
#	RAWDUMP		prints a raw profile as text (tests/support/rawdump.c)
#	VICTIMS		directory of the programs of this folder, built
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# equal WHAT GOT WANTED
equal() {
	[ "$2" = "$3" ] || fail "$1: \"$2\", expected \"$3\""
}

# has FILE PATTERN (extended regular expression)
has() {
	grep -qE -e "$2" "$1" || fail "no line of $1 matches: $2"
}

has_not() {
	! grep -qE -e "$2" "$1" || fail "a line of $1 matches: $2"
}

# run_says STATUS COMMAND...: its exit status; stdout and stderr are in out and err.log.
run_says() {
	local wanted=$1 got=0

	shift
	"$@" >out 2>err.log || got=$?
	equal "exit status of $*" "$got" "$wanted"
}

# burner NAME COMMAND...: start, and wait until it is past its own start: it has used CPU time.
burner() {
	start "$@"
	until_true 20 uses_more "$pid" 0 3 || fail "$1 does not run"
}

# raw_end FILE KEY: a number of the END record.
raw_end() {
	"$RAWDUMP" "$1" | sed -n "s/^end.* $2=\([0-9]*\).*/\1/p"
}

# account FILE [LOW HIGH]: the books of a raw profile balance; with LOW and HIGH also: the samples
# explain that many percent of the CPU time that the kernel counted.
account() {
	"$RAWDUMP" "$1" >account.txt || fail "$1 is not a whole raw profile"
	awk -v low="${2-0}" -v high="${3-1e9}" '
		function field(key, at) {
			for (at = 2; at <= NF; at++)
				if (index($at, key "=") == 1)
					return substr($at, length(key) + 2) + 0
			print "no field " key; exit 1
		}
		$1 == "sample" { samples++; weight += field("weight_ns"); overruns += field("overrun") }
		$1 == "end" {
			taken = field("taken"); kept = field("kept"); cpu = field("cpu_ns")
			dropped = field("dropped_full") + field("dropped_cap") + field("abandoned") + field("bad")
			said = field("overruns")
		}
		END {
			explained = cpu ? 100 * weight / cpu : 0
			printf "taken %d kept %d dropped %d explained %.1f %%\n", taken, kept, dropped, explained
			exit !(taken == kept + dropped && kept == samples && overruns == said &&
				explained >= low && explained <= high)
		}' account.txt >books || fail "$1: the books do not balance: $(cat books)"
	cat books
}

# shares FOLDED COUNT NAME=PERCENT...: the self shares of functions lie within $sigma times the standard
# deviation that COUNT random samples would have.
sigma=3
shares() {
	awk -v count="$2" -v wanted="${*:3}" -v sigma="$sigma" '
		{
			weight = $NF
			sub(/ [0-9]+$/, "")
			self[substr($0, match($0, /[^;]*$/))] += weight
			all += weight
		}
		END {
			for (n = split(wanted, want, " "); n; n--) {
				split(want[n], part, "=")
				p = part[2] / 100
				bound = sigma * sqrt(p * (1 - p) / count)
				got = all ? self[part[1]] / all : 0
				off = got > p ? got - p : p - got
				printf "%s %.1f %% (%.1f +- %.1f)\n", part[1], 100 * got, part[2], 100 * bound
				bad += off > bound
			}
			exit bad || !all
		}' "$1" >shares.txt || fail "shares of $1: $(cat shares.txt)"
	cat shares.txt
}

# self FOLDED NAME: percent of the weight whose leaf has that name.
self() {
	awk -v name="$2" '
		{
			weight = $NF
			sub(/ [0-9]+$/, "")
			if (substr($0, match($0, /[^;]*$/)) == name)
				self += weight
			all += weight
		}
		END { printf "%.1f\n", all ? 100 * self / all : 0 }' "$1"
}

# at_least WHAT GOT WANTED, of numbers that may have a fraction
at_least() {
	awk -v got="$2" -v wanted="$3" 'BEGIN { exit !(got >= wanted) }' || fail "$1: $2, expected at least $3"
}
