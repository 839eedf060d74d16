/*
 * Which system call a thread was in: told by the instructions around the place where it was sampled.
 * The number is loaded just before the call nearly everywhere, so that code alone says it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define KP_SYSCALL_LOOK 48u /* bytes before the place that are looked at, at most */
#define KP_SYSCALL_NONE -1 /* not in a system call */
#define KP_SYSCALL_UNKNOWN -2 /* in one, but its number is not in the code */

/*
 * The number of the system call that returns to code + before (or, since some are to be made again
 * after a signal, begins there): KP_SYSCALL_NONE, KP_SYSCALL_UNKNOWN or >= 0. code: size bytes, of
 * which before lie ahead of the place. machine: e_machine.
 */
int kp_syscall_number(uint16_t machine, const uint8_t *code, size_t before, size_t size);

/* Its name, or NULL: of another CPU than this program's, or newer than it. */
const char *kp_syscall_name(uint16_t machine, int number);
