/*
 * Where a module's debug information lies when it is not in the module's own file. Only local
 * files are looked at, and only regular ones.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/elffile.h"

/* There is none. */
#define KP_DEBUGFILE_NONE 1

/*
 * The separate debug file of file, in this order: DIR/.build-id/ab/cdef.debug for each DIR of
 * dirs (NULL-terminated); the name in .gnu_debuglink beside the file, in .debug/ there, in DIR + the
 * file's directory, and in DIR itself. By build id the id must be the same; by name the CRC must, and the
 * build id if both have one. KP_DEBUGFILE_NONE: err says why if one was found and turned down,
 * else err is left alone.
 */
int kp_debugfile_find(const struct kp_elf_file *file, const char *const *dirs,
		      struct kp_elf_file **ret, struct kp_err *err);

/*
 * The module itself, where its own place has not got it: DIR + path, the name of path in DIR, and
 * DIR/.build-id/ab/cdef, for each DIR of dirs. Its build id must be id. KP_DEBUGFILE_NONE: there is
 * none.
 */
int kp_debugfile_find_module(const char *path, const uint8_t *id, size_t id_len,
			     const char *const *dirs, struct kp_elf_file **ret, struct kp_err *err);

/*
 * The file that .gnu_debugaltlink of file names (what dwz moved out of several files).
 * KP_DEBUGFILE_NONE with *ret_wanted: there is such a link, but not the file.
 */
int kp_debugfile_find_alt(const struct kp_elf_file *file, const char *const *dirs, bool *ret_wanted,
			  struct kp_elf_file **ret, struct kp_err *err);

/* The build id that .gnu_debugaltlink of file gives; NULL: there is no such link. */
const uint8_t *kp_debugfile_alt_id(const struct kp_elf_file *file, size_t *ret_len);

/*
 * Where a file of split DWARF may lie: the i-th place, to be freed; NULL behind the last one, or
 * when out of memory. A package of file's units: FILE.dwp beside it and below each DIR, as DIR +
 * path and DIR + name. The half of one unit, which is called name and was written in comp_dir (or
 * NULL): in comp_dir, beside file, below each DIR.
 */
char *kp_debugfile_package_path(const struct kp_elf_file *file, const char *const *dirs, size_t i);
char *kp_debugfile_split_path(const struct kp_elf_file *file, const char *name,
			      const char *comp_dir, const char *const *dirs, size_t i);
