/*
 * The debug file that a stripped module carries in itself, packed: the section .gnu_debugdata (GDB
 * manual, "Debugging information in a special section"). It has the symbols of functions that are
 * not exported, and nothing else.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/elffile.h"

/* There is none. */
#define KP_MINIDEBUG_NONE 1

/* Unpacks it in memory, at most 128 MiB. KP_EBADDATA: it is there, and cannot be used. */
int kp_minidebug_open(const struct kp_elf_file *file, struct kp_elf_file **ret, struct kp_err *err);
