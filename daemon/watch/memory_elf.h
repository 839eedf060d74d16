/*
 * The last resort for names: a module whose file cannot be opened (deleted and not ours to reach
 * through /proc, a program in a memfd) is still mapped. What a loader needs of it is in memory: the
 * program headers, the build id, the exported symbols.
 */
#pragma once

#include "common/err.h"
#include "daemon/linux/maps.h"

#include <stddef.h>
#include <sys/types.h>

/* There is no ELF header where the module starts, or it cannot be read. */
#define KP_MEMORY_ELF_NONE 1

/* Bytes of the result at most. */
#define KP_MEMORY_ELF_MAX ((size_t)12 << 20)

/*
 * An ELF file made of it: program headers with the offsets that the module's own file has, the note
 * with the build id, .dynsym, and a section for each executable segment, without content. Without
 * exported symbols (a static program) or with too many of them only the rest. map: the executable
 * mapping; pid: a thread that has the memory. *ret is to be freed.
 */
int kp_memory_elf_read(pid_t pid, const struct kp_maps *maps, const struct kp_map *map, void **ret,
		       size_t *ret_size, struct kp_err *err);
