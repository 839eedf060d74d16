/* The truth about a compiled fixture: see fixture.h. */
#include "tests/unit/symbol/fixture.h"

#include <fcntl.h>
#include <ftw.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void need(bool ok, const char *what, const char *name)
{
	if (ok)
		return;
	fprintf(stderr, "fixture: %s: %s\n", name, what);
	abort();
}

struct fixture fixture_open_path(const char *path)
{
	struct fixture f = { 0 };
	struct stat st;
	FILE *file = fopen(path, "re");

	need(file && fstat(fileno(file), &st) == 0, "cannot be opened", path);
	f.size = (size_t)st.st_size;
	f.bytes = malloc(f.size);
	need(f.bytes && fread(f.bytes, 1, f.size, file) == f.size, "cannot be read", path);
	fclose(file);
	snprintf(f.path, sizeof(f.path), "%s", path);
	return f;
}

struct fixture fixture_open(const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", KP_FIXTURE_DIR, name);
	return fixture_open_path(path);
}

static Elf *begin(const struct fixture *f)
{
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_memory((char *)f->bytes, f->size);
	need(elf != NULL, "no ELF file", f->path);
	return elf;
}

static bool find_in(Elf *elf, Elf_Scn *scn, const char *name, uint64_t *ret)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	GElf_Shdr shdr;
	GElf_Sym sym;

	if (!data || !gelf_getshdr(scn, &shdr))
		return false;
	for (int i = 0; gelf_getsym(data, i, &sym); i++) {
		const char *found = elf_strptr(elf, shdr.sh_link, sym.st_name);

		if (found && sym.st_shndx != SHN_UNDEF && strcmp(found, name) == 0) {
			*ret = sym.st_value;
			return true;
		}
	}
	return false;
}

bool fixture_symbol(const struct fixture *f, const char *name, uint64_t *ret)
{
	Elf *elf = begin(f);
	Elf_Scn *scn = NULL;
	bool found = false;

	while (!found && (scn = elf_nextscn(elf, scn))) {
		GElf_Shdr shdr;

		if (gelf_getshdr(scn, &shdr) &&
		    (shdr.sh_type == SHT_SYMTAB || shdr.sh_type == SHT_DYNSYM))
			found = find_in(elf, scn, name, ret);
	}
	elf_end(elf);
	return found;
}

uint64_t fixture_value(const struct fixture *f, const char *name)
{
	uint64_t value = 0;

	need(fixture_symbol(f, name, &value), "no such symbol", name);
	return value;
}

uint64_t fixture_offset(const struct fixture *f, uint64_t address)
{
	Elf *elf = begin(f);
	uint64_t ret = 0;
	bool found = false;
	GElf_Phdr phdr;

	for (int i = 0; gelf_getphdr(elf, i, &phdr); i++) {
		if (phdr.p_type == PT_LOAD && address >= phdr.p_vaddr &&
		    address - phdr.p_vaddr < phdr.p_filesz) {
			ret = address - phdr.p_vaddr + phdr.p_offset;
			found = true;
		}
	}
	elf_end(elf);
	need(found, "no segment at the address", f->path);
	return ret;
}

void fixture_make_dir(char path[256])
{
	const char *tmp = getenv("TMPDIR");

	snprintf(path, 256, "%s/kp-symbol-XXXXXX", tmp ? tmp : "/tmp");
	need(mkdtemp(path) != NULL, "cannot be made", path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void fixture_remove_tree(const char *path)
{
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void fixture_copy(const struct fixture *f, const char *to)
{
	char dir[4096];
	FILE *file;

	snprintf(dir, sizeof(dir), "%s", to);
	for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		mkdir(dir, 0700);
		*p = '/';
	}
	file = fopen(to, "we");
	need(file && fwrite(f->bytes, 1, f->size, file) == f->size && fclose(file) == 0,
	     "cannot be written", to);
}

struct question question_open(const struct kp_module_file *file, const char *debug_dir)
{
	const char *dirs[] = { debug_dir, NULL };
	struct kp_symbolizer_options options = { .debug_dirs = dirs };
	struct question q = { 0 };

	need(kp_symbolizer_create(&options, &q.symbolizer, NULL) == 0, "create", file->path);
	need(kp_symbolizer_module(q.symbolizer, file, &q.module, NULL) == 0, "module", file->path);
	return q;
}

struct kp_frames question_ask(const struct question *q, uint64_t offset)
{
	struct kp_frames frames = { .count = 99 };

	need(kp_symbolizer_resolve(q->symbolizer, q->module, &offset, 1, &frames, NULL) == 0,
	     "resolve", "symbolizer");
	return frames;
}

void question_close(struct question *q)
{
	kp_symbolizer_destroy(q->symbolizer);
}
