# What the scripts of this folder share, on top of lib.sh. Meson also gives
#	RAWDUMP		prints a raw profile as text (tests/support/rawdump.c)
#	VICTIMS		directory of the programs of this folder, built
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# A stack of which the outermost frame was reached: KP_WALK_ROOT, ZERO_PC and OUTERMOST.
whole='walk_end=(1|2|9)$'

# samples FILE: how many there are, and how many are whole.
samples() {
	"$RAWDUMP" "$1" | awk -v whole="$whole" '
		$1 == "sample" {
			all++
			for (i = 2; i <= NF; i++)
				found += $i ~ ("^" whole)
		}
		END { print all + 0, found + 0 }'
}

# is_part PART ALL PERCENT: whether PART is that much of ALL or more.
is_part() {
	awk -v part="$1" -v all="$2" -v percent="$3" 'BEGIN { exit !(all > 0 && part * 100 >= all * percent) }'
}

# are_whole FILE PERCENT: at least so many of its stacks, of a number that says something.
are_whole() {
	local all found
	read -r all found <<<"$(samples "$1")"
	echo "$found of $all stacks are whole"
	[ "$all" -ge 300 ] || fail "$1: $all samples only"
	is_part "$found" "$all" "$2" || fail "$1: $found of $all stacks are whole: $(ends "$1")"
}

# How walks ended, for whoever looks into a failure.
ends() {
	"$RAWDUMP" "$1" | grep '^sample' | grep -o 'walk_end=[0-9]*' | sort | uniq -c | sort -rn | tr -s '\n ' ' '
}

# chain FOLDED PATTERN PERCENT: at least so much of the weight has a stack that matches.
chain() {
	local part all
	read -r part all <<<"$(awk -v pattern="$2" '
		{ all += $NF }
		$0 ~ pattern { part += $NF }
		END { print part + 0, all + 0 }' "$1")"
	is_part "$part" "$all" "$3" || {
		awk -v pattern="$2" '$0 !~ pattern' "$1" | sort -t' ' -k2 -rn | head -n 5 >&2
		fail "$1: $part of $all match: $2"
	}
}

# profile COMMAND...: twice, with a file prof.kitprof and prof.folded of the second time: tables of
# the first are found then, and none comes late.
profile() {
	"$KITPROF" run -q -- "$@" >out 2>err.log || fail "$1 ends with $?: $(cat err.log)"
	"$KITPROF" run -q "${options[@]}" -- "$@" >out 2>err.log || fail "$1 ends with $?: $(cat err.log)"
}
options=(-r 999)
