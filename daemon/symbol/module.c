/*
 * A module's files, found and judged: see module.h. Runs in the daemon. A file that is not the
 * one that ran is worse than none, so the build id decides.
 */
#include "daemon/symbol/module.h"

#include "common/cleanup.h"
#include "daemon/symbol/debugfile.h"
#include "daemon/symbol/minidebug.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Build ids are 20 bytes, seldom 8 or 16; what is longer is cut in messages. */
#define ID_TEXT_BYTES 20

struct id_text {
	char text[2 * ID_TEXT_BYTES + 1];
};

static struct id_text id_text(const uint8_t *id, size_t len)
{
	struct id_text ret = { "" };

	for (size_t i = 0; i < len && i < ID_TEXT_BYTES; i++)
		snprintf(ret.text + 2 * i, 3, "%02x", id[i]);
	return ret;
}

/* The first thing to say is the one that matters most. */
__attribute__((format(printf, 2, 3))) static void note(struct kp_module *m, const char *fmt, ...)
{
	va_list args;

	if (m->note[0])
		return;
	va_start(args, fmt);
	vsnprintf(m->note, sizeof(m->note), fmt, args);
	va_end(args);
}

int kp_module_create(const struct kp_module_file *known, struct kp_module **ret, struct kp_err *err)
{
	struct kp_module *m = calloc(1, sizeof(*m));
	uint8_t *id;

	if (!m)
		return kp_fail_nomem(err);
	m->known = *known;
	m->known.path = strdup(known->path);
	id = known->build_id_len ? malloc(known->build_id_len) : NULL;
	m->known.build_id = id;
	if (!m->known.path || (known->build_id_len && !id)) {
		kp_module_destroy(m);
		return kp_fail_nomem(err);
	}
	if (id)
		memcpy(id, known->build_id, known->build_id_len);
	*ret = m;
	return 0;
}

void kp_module_destroy(struct kp_module *m)
{
	if (!m)
		return;
	kp_module_close(m);
	free((void *)(uintptr_t)m->known.path);
	free((void *)(uintptr_t)m->known.build_id);
	free(m);
}

bool kp_module_is(const struct kp_module *m, const struct kp_module_file *known)
{
	return m->known.build_id_len == known->build_id_len &&
	       (!known->build_id_len ||
		memcmp(m->known.build_id, known->build_id, known->build_id_len) == 0) &&
	       strcmp(m->known.path, known->path) == 0;
}

void kp_module_close(struct kp_module *m)
{
	kp_dwarf_close(m->dwarf);
	kp_plt_destroy(m->plt);
	kp_symtab_destroy(m->symtab);
	kp_elf_file_destroy(m->mini);
	kp_elf_file_destroy(m->alt);
	kp_elf_file_destroy(m->debug);
	kp_elf_file_destroy(m->file);
	m->dwarf = NULL;
	m->plt = NULL;
	m->symtab = NULL;
	m->mini = m->alt = m->debug = m->file = NULL;
	m->found = m->alt_missing = m->open = false;
}

/* Takes file as the module's if its build id is the one that ran. */
static bool judge(struct kp_module *m, struct kp_elf_file *file)
{
	const struct kp_module_file *known = &m->known;

	if (known->build_id_len == 0 ||
	    (file->build_id_len == known->build_id_len &&
	     memcmp(file->build_id, known->build_id, known->build_id_len) == 0)) {
		m->file = file;
		return true;
	}
	note(m, "%s: the file is another build than the one that ran (build id %s, not %s)",
	     file->path, file->build_id ? id_text(file->build_id, file->build_id_len).text : "none",
	     id_text(known->build_id, known->build_id_len).text);
	kp_elf_file_destroy(file);
	return false;
}

/* What lies at the path below another root. */
static int open_below(struct kp_module *m, const char *sysroot, struct kp_err *err)
{
	const struct kp_module_file *known = &m->known;
	_cleanup_(kp_freep) char *path = NULL;
	struct kp_elf_file *file;
	struct kp_err why = { 0 };
	int r;

	if (asprintf(&path, "%s%s", sysroot, known->path) < 0) {
		path = NULL;
		return kp_fail_nomem(err);
	}
	r = kp_elf_file_open(path, &file, &why);
	if (r == -KP_ENOMEM)
		return kp_fail_nomem(err);
	if (r < 0) {
		note(m, "%s", why.text);
	} else if (known->build_id_len) {
		judge(m, file);
	} else {
		note(m, "%s: not taken: the profile has no build id to know it by", path);
		kp_elf_file_destroy(file);
	}
	return 0;
}

/* Modules without a path have an image only. */
static bool has_path(const struct kp_module *m)
{
	return m->known.path[0] == '/';
}

static int open_image(struct kp_module *m, struct kp_err *err)
{
	const struct kp_module_file *known = &m->known;
	struct kp_elf_file *file;
	struct kp_err why = { 0 };
	int r = kp_elf_file_open_image(known->image, known->image_size, known->path, &file, &why);

	if (r == -KP_ENOMEM)
		return kp_fail_nomem(err);
	if (r < 0)
		note(m, "%s", why.text);
	else
		judge(m, file);
	return 0;
}

/* Opens what ran: the image, the pinned file, or what lies at the path now. */
static int open_file(struct kp_module *m, const char *sysroot, struct kp_err *err)
{
	const struct kp_module_file *known = &m->known;
	struct kp_elf_file *file = NULL;
	struct kp_err why = { 0 };
	int r = 0;

	if (!has_path(m) && known->image)
		return open_image(m, err);
	if (known->fd >= 0)
		r = kp_elf_file_open_fd(known->fd, known->path, &file, &why);
	if (r == -KP_ENOMEM)
		return kp_fail_nomem(err);
	if (r == 0 && file && judge(m, file))
		return 0;
	if (r < 0)
		note(m, "%s", why.text);
	if (!has_path(m)) {
		note(m, "%s: is no file, and there is no image of it", known->path);
		return 0;
	}
	if (sysroot)
		r = open_below(m, sysroot, err);
	if (r < 0 || m->file || ((sysroot || known->image) && !known->build_id_len))
		return r; /* a path alone says too little of another machine's, or a deleted, file */
	r = kp_elf_file_open(known->path, &file, &why);
	if (r == -KP_ENOMEM)
		return kp_fail_nomem(err);
	if (r < 0)
		note(m, "%s", why.text);
	else if (judge(m, file))
		m->note[0] = '\0'; /* what was wrong with the pinned one does not matter any more */
	return 0;
}

/* The last resort: what was found in the target's memory where its file could not be opened. */
static int open_mapped(struct kp_module *m, struct kp_err *err)
{
	m->note[0] = '\0';
	m->mapped = true;
	return open_image(m, err);
}

/* Elsewhere, where that is wanted. */
static int open_from_dirs(struct kp_module *m, const char *const *dirs, struct kp_err *err)
{
	const struct kp_module_file *known = &m->known;
	struct kp_elf_file *file;
	struct kp_err why = { 0 };
	int r = kp_debugfile_find_module(known->path, known->build_id, known->build_id_len, dirs,
					 &file, &why);

	if (r < 0)
		return kp_fail_nomem(err);
	if (r == 0 && judge(m, file))
		m->note[0] =
			'\0'; /* what was wrong with the one at its own place does not matter */
	return 0;
}

static bool has_section(const struct kp_elf_file *file, const char *name, bool with_data)
{
	GElf_Shdr shdr;

	return kp_elf_file_section(file, name, &shdr) &&
	       (!with_data || (shdr.sh_type != SHT_NOBITS && shdr.sh_size > 0));
}

static bool has_debug_info(const struct kp_elf_file *file)
{
	return has_section(file, ".debug_info", true) || has_section(file, ".zdebug_info", true);
}

static const struct kp_elf_file *dwarf_file(const struct kp_module *m)
{
	const struct kp_elf_file *debug = m->debug ? m->debug : m->file;

	return has_debug_info(debug) ? debug : NULL;
}

static int find_alt(struct kp_module *m, const char *const *dirs, struct kp_err *err)
{
	const struct kp_elf_file *debug = dwarf_file(m);
	struct kp_err why = { 0 };
	bool wants_alt;
	int r;

	if (!debug)
		return 0;
	r = kp_debugfile_find_alt(debug, dirs, &wants_alt, &m->alt, &why);
	if (r < 0)
		return kp_fail_nomem(err);
	if (r == KP_DEBUGFILE_NONE && wants_alt) {
		/* libdw would look by itself, and open whatever the file names */
		m->alt_missing = true;
		note(m, "%s: the file that .gnu_debugaltlink names is missing: no source lines",
		     debug->path);
	}
	return 0;
}

static int open_dwarf(struct kp_module *m, const char *const *dirs, struct kp_err *err)
{
	const struct kp_elf_file *debug = dwarf_file(m);
	struct kp_err why = { 0 };
	int r;

	if (!debug || m->alt_missing)
		return 0;
	r = kp_dwarf_open(debug, m->alt, m->file, dirs, &m->dwarf, &why);
	if (r == -KP_ENOMEM)
		return kp_fail_nomem(err);
	if (r < 0)
		note(m, "%s", why.text);
	return 0;
}

/* *ret is NULL where the sources have no symbols. */
static int try_symtab(const struct kp_symtab_source *source, size_t count, struct kp_symtab **ret,
		      struct kp_err *err)
{
	int r = kp_symtab_create(source, count, ret, err);

	if (r == 0 && kp_symtab_count(*ret) == 0) {
		kp_symtab_destroy(*ret);
		*ret = NULL;
	}
	return r;
}

/* The exported functions and, where the file has them packed in itself, the others. */
static int open_stripped_symtab(struct kp_module *m, struct kp_err *err)
{
	struct kp_symtab_source source[2] = { { m->file, SHT_DYNSYM } };
	struct kp_err why = { 0 };
	size_t count = 1;
	int r = kp_minidebug_open(m->file, &m->mini, &why);

	if (r == -KP_ENOMEM)
		return kp_fail_nomem(err);
	if (r < 0)
		note(m, "%s: only exported functions have names", why.text);
	else if (r == 0)
		source[count++] = (struct kp_symtab_source){ m->mini, SHT_SYMTAB };
	r = try_symtab(source, count, &m->symtab, err);
	if (r == 0 && m->symtab && !m->mini && !m->dwarf && has_path(m))
		note(m, "%s: %s: only exported functions have names", m->known.path,
		     m->mapped ? "the file that ran could not be opened" : "stripped");
	return r;
}

/* The fullest table there is: of the debug file, of the file, what is left in a stripped one. */
static int open_symtab(struct kp_module *m, struct kp_err *err)
{
	struct kp_symtab_source debug = { m->debug, SHT_SYMTAB }, own = { m->file, SHT_SYMTAB };
	int r = 0;

	if (m->debug)
		r = try_symtab(&debug, 1, &m->symtab, err);
	if (r == 0 && !m->symtab)
		r = try_symtab(&own, 1, &m->symtab, err);
	return r < 0 || m->symtab ? r : open_stripped_symtab(m, err);
}

/* What to look for, where the file itself is not enough. */
static void note_missing(struct kp_module *m)
{
	if (m->dwarf || m->symtab)
		return;
	if (m->file->build_id)
		note(m, "%s: stripped, and there is no debug file for build id %s", m->known.path,
		     id_text(m->file->build_id, m->file->build_id_len).text);
	else
		note(m, "%s: stripped, and without a build id to find a debug file by",
		     m->known.path);
}

void kp_module_note_missing(struct kp_module *m)
{
	const char *missing = m->dwarf ? kp_dwarf_note(m->dwarf) : NULL;

	if (missing)
		note(m, "%s", missing);
}

int kp_module_find(struct kp_module *m, const char *sysroot, const char *const *debug_dirs,
		   struct kp_err *err)
{
	struct kp_err why = { 0 };
	int r;

	if (m->found)
		return 0;
	m->note[0] = '\0';
	m->mapped = false;
	r = open_file(m, sysroot, err);
	if (r < 0)
		return r;
	m->found = true;
	if (!m->file && has_path(m))
		r = open_from_dirs(m, debug_dirs, err);
	if (r == 0 && !m->file && m->known.image)
		r = open_mapped(m, err);
	if (r < 0 || !m->file)
		return r;
	if (!has_debug_info(m->file) && has_path(m)) {
		r = kp_debugfile_find(m->file, debug_dirs, &m->debug, &why);
		if (r < 0)
			return kp_fail_nomem(err);
		if (r == KP_DEBUGFILE_NONE && why.text[0])
			note(m, "%s", why.text);
	}
	return find_alt(m, debug_dirs, err);
}

int kp_module_open(struct kp_module *m, const char *sysroot, const char *const *debug_dirs,
		   struct kp_err *err)
{
	int r;

	if (m->open)
		return 0;
	r = kp_module_find(m, sysroot, debug_dirs, err);
	if (r < 0)
		return r;
	m->open = true;
	if (!m->file)
		return 0;
	r = open_dwarf(m, debug_dirs, err);
	if (r == 0)
		r = open_symtab(m, err);
	if (r == 0)
		r = kp_plt_create(m->file, m->symtab, &m->plt, err);
	if (r == 0)
		note_missing(m);
	return r;
}

/* ---- what names are made of ---- */

/* FNV-1a over what changes when a file is replaced. False: it may be anybody's. */
static bool add_file(uint64_t *hash, const struct kp_elf_file *file, int pinned_fd)
{
	uint64_t word[6] = { 0 };
	struct stat st;

	if (file) {
		if (fstat(file->fd >= 0 ? file->fd : pinned_fd, &st) != 0 || !kp_cache_trusts(&st))
			return false;
		word[0] = st.st_dev;
		word[1] = st.st_ino;
		word[2] = (uint64_t)st.st_size;
		word[3] = (uint64_t)st.st_mtim.tv_sec;
		word[4] = (uint64_t)st.st_mtim.tv_nsec;
		word[5] = (uint64_t)st.st_ctim.tv_sec;
	}
	for (size_t i = 0; i < sizeof(word); i++)
		*hash = (*hash ^ ((const uint8_t *)word)[i]) * 0x100000001b3;
	return true;
}

void kp_module_source(const struct kp_module *m, struct kp_answer_source *ret)
{
	const struct kp_elf_file *dwarf = m->file ? dwarf_file(m) : NULL;
	uint64_t hash = 0xcbf29ce484222325;
	GElf_Ehdr ehdr;

	*ret = (struct kp_answer_source){ 0 };
	/* Split halves are found unit by unit, so nobody knows all the files beforehand. */
	if (!m->file || m->file->image || !m->file->build_id ||
	    m->file->build_id_len > sizeof(ret->build_id) ||
	    (dwarf && has_section(dwarf, ".debug_addr", false)) ||
	    !gelf_getehdr(m->file->elf, &ehdr) || !add_file(&hash, m->file, m->known.fd) ||
	    !add_file(&hash, m->debug, -1) || !add_file(&hash, m->alt, -1))
		return;
	memcpy(ret->build_id, m->file->build_id, m->file->build_id_len);
	ret->build_id_len = (uint32_t)m->file->build_id_len;
	ret->machine = ehdr.e_machine;
	ret->variant = (uint32_t)(hash ^ hash >> 32) | 1;
}

bool kp_module_lacks(const struct kp_module *m, struct kp_module_lack *ret)
{
	const struct kp_elf_file *debug = m->debug ? m->debug : m->file;

	*ret = (struct kp_module_lack){ 0 };
	if (!has_path(m))
		return false;
	if (!m->file || m->mapped) {
		ret->executable = true;
		ret->id = m->known.build_id;
		ret->id_len = m->known.build_id_len;
	} else if (!has_debug_info(debug)) {
		ret->id = m->file->build_id;
		ret->id_len = m->file->build_id_len;
	} else if (!m->alt) {
		ret->id = kp_debugfile_alt_id(debug, &ret->id_len);
	}
	return ret->id != NULL && ret->id_len > 0;
}
