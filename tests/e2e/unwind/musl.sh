#!/bin/bash
# musl.sh PLACE PROGRAM: stacks are whole through musl's libc, which has neither unwind information
# nor frame pointers: its code is read. The way to the leaf is the one that the program takes.
. "$(dirname "$0")/unwind.sh"

[ -x "$VICTIMS/$2" ] || skip "no musl-gcc when this was built"
case $1 in
print) profile "$VICTIMS/$2" 2 ;;
*) profile "$VICTIMS/$2" "$1" 2 ;;
esac
are_whole prof.kitprof 99
case $1 in
print) chain prof.folded '(;main|;work);print_all;print_some($| |;)' 97 ;;
sort) chain prof.folded ';main;outer;middle;sort_all;.*;compare' 97 ;;
thread) chain prof.folded ';work;deepen;deepen;deepen;deepen;deepen;deepen;bottom' 98 ;;
signal) chain prof.folded ';main;outer;middle;interrupted;.*;on_other_stack;handle;use_time' 90 ;;
*) fail "no such place: $1" ;;
esac
# In a program with musl's symbols inside, the functions on the way have names.
case $1-$2 in
sort-*-static) chain prof.folded ';sort_all;__qsort_r;([a-z]*;)*compare' 97 ;;
print-*-static) chain prof.folded ';print_some;(snprintf|printf);(vsnprintf|vfprintf)' 80 ;;
esac
exit 0
