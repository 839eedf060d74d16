/* Separate debug files: see debugfile.h. Runs in the daemon; reads files and asks nobody. */
#include "daemon/symbol/debugfile.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static bool same_build_id(const struct kp_elf_file *file, const uint8_t *id, size_t len)
{
	return file->build_id && file->build_id_len == len && memcmp(file->build_id, id, len) == 0;
}

static char *join(const char *a, size_t a_len, const char *b, const char *c)
{
	char *path;

	return asprintf(&path, "%.*s%s%s", (int)a_len, a, b, c) < 0 ? NULL : path;
}

/* Length of the directory part of a path with its last slash; 0 if there is none. */
static size_t dir_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) + 1 : 0;
}

/* "ab/cdef" + suffix below DIR/.build-id/. */
static char *build_id_path(const char *dir, const uint8_t *id, size_t len, const char *suffix)
{
	char *path = NULL;
	size_t size;
	FILE *f = open_memstream(&path, &size);

	if (!f)
		return NULL;
	fprintf(f, "%s/.build-id/%02x/", dir, id[0]);
	for (size_t i = 1; i < len; i++)
		fprintf(f, "%02x", id[i]);
	fputs(suffix, f);
	if (fclose(f) != 0) {
		free(path);
		return NULL;
	}
	return path;
}

/*
 * Opens a candidate. 0: taken. KP_DEBUGFILE_NONE: not there, or not the one; the reason, if it is
 * worth telling, is in err.
 */
static int try(const char *path, const uint8_t *id, size_t id_len, struct kp_elf_file **ret,
	       struct kp_err *err)
{
	_cleanup_(kp_elf_file_destroyp) struct kp_elf_file *file = NULL;
	int r;

	if (access(path, R_OK) < 0)
		return KP_DEBUGFILE_NONE;
	r = kp_elf_file_open(path, &file, err);
	if (r < 0)
		return r == -KP_ENOMEM ? r : KP_DEBUGFILE_NONE;
	if (id && !same_build_id(file, id, id_len)) {
		kp_fail(err, KP_EBADDATA, "%s: not used, its build id is another", path);
		return KP_DEBUGFILE_NONE;
	}
	*ret = kp_take(file);
	return 0;
}

static int find_by_build_id(const uint8_t *id, size_t len, const char *const *dirs,
			    struct kp_elf_file **ret, struct kp_err *err)
{
	int r = KP_DEBUGFILE_NONE;

	if (len < 2)
		return r;
	for (; *dirs && r == KP_DEBUGFILE_NONE; dirs++) {
		_cleanup_(kp_freep) char *path = build_id_path(*dirs, id, len, ".debug");

		if (!path)
			return kp_fail_nomem(err);
		r = try(path, id, len, ret, err);
	}
	return r;
}

/* What .gnu_debuglink says (Debugging with GDB, "Separate Debug Files"). */
struct link {
	const char *name;
	uint32_t crc;
};

static bool read_link(const struct kp_elf_file *file, struct link *ret)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = kp_elf_file_section(file, ".gnu_debuglink", &shdr);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	Elf_Data crc = { 0 }, word = { 0 };
	size_t len, at;

	if (!data || !data->d_buf)
		return false;
	len = strnlen(data->d_buf, data->d_size);
	at = (len + 4) & ~(size_t)3; /* behind the NUL byte, aligned */
	if (len == 0 || data->d_size < at + 4 || memchr(data->d_buf, '/', len))
		return false;
	crc = (Elf_Data){ .d_type = ELF_T_WORD,
			  .d_buf = (char *)data->d_buf + at,
			  .d_size = 4,
			  .d_version = EV_CURRENT };
	word = (Elf_Data){
		.d_type = ELF_T_WORD, .d_buf = &ret->crc, .d_size = 4, .d_version = EV_CURRENT
	};
	ret->name = data->d_buf;
	return gelf_xlatetom(file->elf, &word, &crc, elf_getident(file->elf, NULL)[EI_DATA]);
}

static bool crc_matches(const char *path, uint32_t wanted)
{
	_cleanup_(kp_closep) int fd = kp_open_regular(path);
	_cleanup_(kp_freep) unsigned char *buffer = malloc((size_t)1 << 16);
	uLong crc = crc32(0, NULL, 0);
	ssize_t n = -1;

	while (fd >= 0 && buffer && (n = read(fd, buffer, (size_t)1 << 16)) > 0)
		crc = crc32(crc, buffer, (uInt)n);
	return n == 0 && crc == wanted;
}

/* Takes path over. */
static int try_link(const struct kp_elf_file *file, char *path, uint32_t crc,
		    struct kp_elf_file **ret, struct kp_err *err)
{
	_cleanup_(kp_freep) char *owner = path;
	struct kp_elf_file *found;
	int r;

	if (!owner)
		return kp_fail_nomem(err);
	r = try(owner, NULL, 0, &found, err);
	if (r != 0)
		return r;
	if (file->build_id && found->build_id &&
	    !same_build_id(found, file->build_id, file->build_id_len)) {
		kp_fail(err, KP_EBADDATA, "%s: not used, its build id is another", path);
		r = KP_DEBUGFILE_NONE;
	} else if (!crc_matches(path, crc)) {
		kp_fail(err, KP_EBADDATA, "%s: not used, its CRC is not that of the debug link",
			path);
		r = KP_DEBUGFILE_NONE;
	}
	if (r == 0)
		*ret = found;
	else
		kp_elf_file_destroy(found);
	return r;
}

static int find_by_link(const struct kp_elf_file *file, const char *const *dirs,
			struct kp_elf_file **ret, struct kp_err *err)
{
	size_t len = dir_len(file->path);
	struct link link;
	int r;

	if (len == 0 || !read_link(file, &link))
		return KP_DEBUGFILE_NONE;
	r = try_link(file, join(file->path, len, "", link.name), link.crc, ret, err);
	if (r == KP_DEBUGFILE_NONE)
		r = try_link(file, join(file->path, len, ".debug/", link.name), link.crc, ret, err);
	for (; *dirs && r == KP_DEBUGFILE_NONE; dirs++) {
		_cleanup_(kp_freep) char *dir = join(file->path, len, "", "");

		if (!dir)
			return kp_fail_nomem(err);
		r = try_link(file, join(*dirs, strlen(*dirs), dir, link.name), link.crc, ret, err);
		if (r == KP_DEBUGFILE_NONE)
			r = try_link(file, join(*dirs, strlen(*dirs), "/", link.name), link.crc,
				     ret, err);
	}
	return r;
}

int kp_debugfile_find(const struct kp_elf_file *file, const char *const *dirs,
		      struct kp_elf_file **ret, struct kp_err *err)
{
	int r = KP_DEBUGFILE_NONE;

	if (file->build_id)
		r = find_by_build_id(file->build_id, file->build_id_len, dirs, ret, err);
	return r == KP_DEBUGFILE_NONE ? find_by_link(file, dirs, ret, err) : r;
}

/* Takes path over. */
static int try_module(char *path, const uint8_t *id, size_t id_len, struct kp_elf_file **ret,
		      struct kp_err *err)
{
	_cleanup_(kp_freep) char *owner = path;

	return owner ? try(owner, id, id_len, ret, err) : kp_fail_nomem(err);
}

int kp_debugfile_find_module(const char *path, const uint8_t *id, size_t id_len,
			     const char *const *dirs, struct kp_elf_file **ret, struct kp_err *err)
{
	const char *name = path + dir_len(path);
	int r = KP_DEBUGFILE_NONE;

	for (; id_len >= 2 && *dirs && r == KP_DEBUGFILE_NONE; dirs++) {
		size_t len = strlen(*dirs);

		if (path[0] == '/')
			r = try_module(join(*dirs, len, path, ""), id, id_len, ret, err);
		if (r == KP_DEBUGFILE_NONE)
			r = try_module(join(*dirs, len, "/", name), id, id_len, ret, err);
		if (r == KP_DEBUGFILE_NONE)
			r = try_module(build_id_path(*dirs, id, id_len, ""), id, id_len, ret, err);
	}
	return r;
}

/* What .gnu_debugaltlink says. */
struct alt_link {
	const char *name;
	const uint8_t *id;
	size_t id_len;
};

static bool read_alt_link(const struct kp_elf_file *file, bool *ret_is_there, struct alt_link *ret)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = kp_elf_file_section(file, ".gnu_debugaltlink", &shdr);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	const char *name = data ? data->d_buf : NULL;
	size_t len = name ? strnlen(name, data->d_size) : 0;

	*ret_is_there = scn != NULL;
	if (len == 0 || len + 3 > data->d_size)
		return false;
	*ret = (struct alt_link){ .name = name,
				  .id = (const uint8_t *)name + len + 1, /* to the end */
				  .id_len = data->d_size - len - 1 };
	return true;
}

int kp_debugfile_find_alt(const struct kp_elf_file *file, const char *const *dirs, bool *ret_wanted,
			  struct kp_elf_file **ret, struct kp_err *err)
{
	_cleanup_(kp_freep) char *path = NULL;
	struct alt_link link;
	int r;

	if (!read_alt_link(file, ret_wanted, &link))
		return KP_DEBUGFILE_NONE;
	r = find_by_build_id(link.id, link.id_len, dirs, ret, err);
	if (r != KP_DEBUGFILE_NONE)
		return r;
	path = join(file->path, link.name[0] == '/' ? 0 : dir_len(file->path), "", link.name);
	if (!path)
		return kp_fail_nomem(err);
	return try(path, link.id, link.id_len, ret, err);
}

const uint8_t *kp_debugfile_alt_id(const struct kp_elf_file *file, size_t *ret_len)
{
	struct alt_link link;
	bool is_there;

	if (!read_alt_link(file, &is_there, &link))
		return NULL;
	*ret_len = link.id_len;
	return link.id;
}

/* NULL where there are fewer than i. */
static const char *nth(const char *const *dirs, size_t i)
{
	while (*dirs && i--)
		dirs++;
	return *dirs;
}

char *kp_debugfile_package_path(const struct kp_elf_file *file, const char *const *dirs, size_t i)
{
	const char *name = file->path + dir_len(file->path), *dir;
	char *path;

	if (i == 0)
		return join(file->path, strlen(file->path), ".dwp", "");
	dir = nth(dirs, (i - 1) / 2);
	if (!dir)
		return NULL;
	if (i % 2 && file->path[0] == '/')
		return join(dir, strlen(dir), file->path, ".dwp");
	if (asprintf(&path, "%s/%s.dwp", dir, name) < 0)
		return NULL;
	return path;
}

char *kp_debugfile_split_path(const struct kp_elf_file *file, const char *name,
			      const char *comp_dir, const char *const *dirs, size_t i)
{
	_cleanup_(kp_freep) char *built = NULL;
	size_t beside = dir_len(file->path);
	const char *last = name + dir_len(name), *dir;

	if (name[0] != '/' && comp_dir)
		built = join(comp_dir, strlen(comp_dir), "/", name);
	else
		built = strdup(name);
	if (!built || i == 0)
		return kp_take(built);
	if (i == 1 || i == 2)
		return join(file->path, beside, "", i == 1 && name[0] != '/' ? name : last);
	dir = nth(dirs, (i - 3) / 2);
	if (!dir)
		return NULL;
	if (i % 2)
		return join(dir, strlen(dir), built[0] == '/' ? "" : "/", built);
	return join(dir, strlen(dir), "/", last);
}
