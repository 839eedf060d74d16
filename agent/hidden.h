/*
 * Included by the compiler before each source of the agent's image (-include). Everything is
 * within the image, declarations of other files' data included, so that it is addressed relative
 * to the program counter and needs neither GOT nor relocation. (-fvisibility=hidden speaks of
 * definitions only.)
 */
#pragma GCC visibility push(hidden)
