#!/bin/bash
# lazy.sh: stacks are whole through the dynamic linker, when it binds a function at its first call.
. "$(dirname "$0")/unwind.sh"

profile "$VICTIMS/lazy"
are_whole prof.kitprof 99
# An ifunc has the address of the function that chooses.
chain prof.folded ';main;outer;.*;lazy_work(;|$)' 97
