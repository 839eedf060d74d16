#!/bin/bash
# names.sh deleted|mounts|chroot|overlay|memfd|mapped|dlopen|vdso|templates|python|jit|jitdump: code is named, wherever it comes from.
. "$(dirname "$0")/truth.sh"

is_called() {
	[ "$(cat "/proc/$1/comm" 2>/dev/null)" = "$2" ]
}

# inside SCRIPT: a shell in a mount and a pid namespace of its own runs it; it executes "program" at
# the end, whose pid, as seen from here, is in $inside. It ends with this test.
inside() {
	start unshare unshare --mount --propagation private --pid --fork --kill-child sh -ec "$1"
	inside=
	until_true 20 has_child "$pid" || fail "unshare runs nothing: $(cat unshare.log)"
	until_true 20 is_called "$inside" program || fail "the program does not start: $(cat unshare.log)"
	until_true 20 uses_more "$inside" 0 3 || fail "the program does not run"
}

has_child() {
	inside=$(cut -d' ' -f1 "/proc/$1/task/$1/children" 2>/dev/null)
	[ -n "$inside" ]
}

need_namespaces() {
	need_ptrace
	need_tool unshare
	unshare --mount --propagation private --pid --fork sh -c 'mount -t tmpfs none /mnt' 2>unshare.err ||
		skip "no mount namespaces here: $(cat unshare.err)"
}

# The names of shares are there, and those of the decoy at the same path are not.
has_names() {
	run_says 0 "$KITPROF" record --pid "$inside" -d 1
	at_least "share of fifty $1" "$(self prof.folded fifty)" 35
	has prof.folded '^program;.*main;'
	# With the raw profile alone this machine's file of that name is looked at, and turned down.
	run_says 0 "$KITPROF" report prof.kitprof -q --no-flat -o later.folded
	has_not later.folded fifty
}

case $1 in
deleted)
	need_ptrace
	cp "$VICTIMS/shares" program
	start kitprof "$KITPROF" run -- ./program 10 1 7
	until_true 20 test -s prof.kitprof || fail "sampling does not begin"
	rm program
	wait "$pid"
	equal "exit status" $? 7
	at_least "share of fifty" "$(self prof.folded fifty)" 35
	has_not prof.folded deleted

	cp "$VICTIMS/shares" program
	burner program ./program 200 1 7
	rm program
	run_says 0 "$KITPROF" record --pid "$pid" -d 1
	at_least "share of fifty" "$(self prof.folded fifty)" 35
	has prof.folded '^program;.*main;'
	# Upgraded: another file has the name now, and its names are not taken.
	cp "$VICTIMS/shares-O2-nofp-static" program
	run_says 0 "$KITPROF" record --pid "$pid" -d 1
	at_least "share of fifty" "$(self prof.folded fifty)" 35
	has prof.folded '^program;.*main;'
	;;
mounts)
	# Where the program is, this machine has another one.
	need_namespaces
	mkdir place
	cp "$VICTIMS/shares-O2-nofp-static" place/program
	inside "mount -t tmpfs none '$work/place'; cp '$VICTIMS/shares' place/program
		exec place/program 200 1 7"
	has_names "in a namespace"
	# The same from its start, as a child of what is profiled.
	run_says 7 "$KITPROF" run -o run.folded -- unshare --mount --propagation private --pid --fork sh -ec \
		"mount -t tmpfs none '$work/place'; cp '$VICTIMS/shares' place/program; exec place/program 3 1 7"
	at_least "share of fifty from the start" "$(self run.folded fifty)" 35
	;;
chroot)
	need_namespaces
	need_tool chroot
	mkdir root
	cp "$VICTIMS/shares-O0-fp-static" root/program
	inside "exec chroot '$work/root' /program 200 1 7"
	run_says 0 "$KITPROF" record --pid "$inside" -d 1
	at_least "share of fifty in a chroot" "$(self prof.folded fifty)" 35
	# Deleted there, and another one in its place.
	rm root/program
	cp "$VICTIMS/shares-O2-nofp-static" root/program
	has_names "in a chroot, replaced"
	;;
overlay)
	# A container's way to have files: the mapped file's device is not that of the overlay.
	need_namespaces
	mkdir lower layers merged
	cp "$VICTIMS/shares" lower/program
	overlay="mount -t tmpfs none '$work/layers'; mkdir layers/upper layers/work
		mount -t overlay none '$work/merged' \
			-o 'lowerdir=$work/lower,upperdir=$work/layers/upper,workdir=$work/layers/work'"
	unshare --mount --propagation private sh -ec "$overlay" 2>unshare.err ||
		skip "no overlay here: $(cat unshare.err)"
	inside "$overlay
		sh -c 'while [ ! -e layers/upper/replace ]; do sleep 0.05; done
			rm merged/program; cp $VICTIMS/shares-O2-nofp-static merged/program; : >layers/upper/replaced' &
		exec merged/program 200 1 7"
	has_names "in an overlay"
	: >"/proc/$inside/root$work/layers/upper/replace"
	until_true 20 test -e "/proc/$inside/root$work/layers/upper/replaced" || fail "the program is not replaced"
	has_names "in an overlay, replaced"
	;;
memfd)
	# A program that never was a file.
	need_ptrace
	need_tool python3
	burner program python3 -c 'import os, sys
fd = os.memfd_create("program")
os.write(fd, open(sys.argv[1], "rb").read())
os.execv("/proc/self/fd/%d" % fd, sys.argv[1:])' "$VICTIMS/shares" 200 1 7
	run_says 0 "$KITPROF" record --pid "$pid" -d 1
	at_least "share of fifty" "$(self prof.folded fifty)" 35
	has prof.folded ';main;'
	;;
mapped)
	# Deleted, and not ours to open through /proc: that takes a capability which most users have not.
	need_ptrace
	need_tool strip
	user=()
	if [ "$(id -u)" -eq 0 ]; then
		need_tool setpriv
		user=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)
		chmod 777 "$work"
		"${user[@]}" test -x "$KITPROF" -a -x "$VICTIMS/loader" || skip "another user cannot run $KITPROF"
	fi
	strip -o lib.so "$VICTIMS/alpha.so"
	burner loader "${user[@]}" "$VICTIMS/loader" gone "$work/lib.so"
	[ ! -e lib.so ] || fail "lib.so is not deleted"
	run_says 0 "${user[@]}" "$KITPROF" record -v --pid "$pid" -d 1 -o mapped.folded
	has mapped.folded ';(work_in;)?plugin_work;\[lib.so\+0x[0-9a-f]+\] [0-9]+$'
	has err.log 'lib.so: the file that ran could not be opened'
	# What was in memory is in the raw profile.
	run_says 0 "$KITPROF" report mapped.kitprof -q --no-flat -o later.folded
	cmp mapped.folded later.folded || fail "names are lost in a later report"
	# The file itself has more to say, another one nothing.
	cp "$VICTIMS/beta.so" lib.so
	run_says 0 "$KITPROF" report mapped.kitprof -q --no-flat -o later.folded
	cmp mapped.folded later.folded || fail "names are those of another library"
	mkdir there
	cp "$VICTIMS/alpha.so" there/lib.so
	run_says 0 "$KITPROF" report mapped.kitprof -q --no-flat -o later.folded --symbols there
	has later.folded ';(work_in;)?plugin_work;in_alpha [0-9]+$'
	;;
dlopen)
	run_says 0 "$KITPROF" run -- "$VICTIMS/loader" "$VICTIMS/alpha.so" "$VICTIMS/beta.so"
	for function in in_alpha in_beta; do
		at_least "share of $function" "$(self prof.folded "$function")" 30
		has prof.folded ";main;(work_in;)?plugin_work;$function [0-9]+\$"
	done
	;;
vdso)
	run_says 0 "$KITPROF" run -- "$VICTIMS/loader" vdso
	# Itself or, with some clocks of the host, a function of it that the vdso has no symbol for.
	sed -E 's/;\[vdso\+0x[0-9a-f]+\] / /' prof.folded >vdso.folded
	at_least "share of the vdso" "$(self vdso.folded __vdso_clock_gettime)" 50
	has "prof.flat" '__vdso_clock_gettime  \[vdso\]'
	;;
templates)
	run_says 0 "$KITPROF" run -f pprof -- "$VICTIMS/templates"
	has prof.folded ';main;long shop::Basket<shop::Apple>::weigh<7>\(char const\*\) [0-9]+$|;main;shop::Basket<shop::Apple>::weigh<7>\(char const\*\) [0-9]+$'
	has prof.flat 'shop::Basket<shop::Apple>::weigh<7>\(char const\*\)  .*templates.cc:'
	has_not prof.folded _Z
	;;
python)
	need_tool python3
	cat >work.py <<'END'
import hashlib, json
n = 0
for i in range(600000):
    n += len(json.dumps({"a": i, "b": [i, str(i)]}))
print(n)
END
	python=$(python3 -c 'import sys; print(sys.executable)') # not a script in front of it
	"$python" work.py >expected
	run_says 0 "$KITPROF" run -- "$python" work.py
	cmp out expected || fail "python3 prints something else"
	account prof.kitprof 85 110
	has prof.flat ' _?Py[A-Z][A-Za-z]*_'
	awk '/^ / && $6 ~ /^(_?Py|\[|__|mem|str|[a-z_]+$)/ { named += $1 } END { exit !(named > 50) }' prof.flat ||
		fail "most of python3 has no name"
	;;
jit | jitdump)
	need_tool node
	cat >work.js <<'END'
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function spin(ms) { const t = Date.now(); let s = 0; while (Date.now() - t < ms) s += fib(18); return s; }
console.log(spin(Number(process.argv[2])) > 0);
END
	option=--perf-basic-prof
	[ "$1" = jit ] || option=--perf-prof # into a file in this directory
	start kitprof "$KITPROF" run -- node "$option" work.js 2500
	until_true 20 test -s prof.kitprof || fail "sampling does not begin"
	for child in $(cat "/proc/$pid/task/$pid/children"); do
		litter+=("/tmp/perf-$child.map")
	done
	wait "$pid" || fail "node ends with $?: $(cat kitprof.log)"
	awk '{ all += $NF } /(JS|LazyCompile|Function):[*~^]?fib / { fib += $NF } END { exit !(fib * 2 > all) }' prof.folded ||
		fail "fib has no name: $(sort -t' ' -k2 -rn prof.folded | head -n 5)"
	"$RAWDUMP" prof.kitprof | grep -q '^symbol .*fib' || fail "the raw profile has no name for fib"
	# Later, where the program's file is gone.
	rm -f jit-*.dump
	cp prof.folded before.folded
	run_says 0 "$KITPROF" report prof.kitprof
	cmp prof.folded before.folded || fail "names are lost in a later report"
	;;
esac
