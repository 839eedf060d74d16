/*
 * What unwind tables cost: rows, rules, bytes, share of the code that has a usable rule, and the
 * time to build one, against the time in which libdw answers the same questions (each row's CFA,
 * frame pointer and return address). Files as arguments, else large ones that may be installed.
 */
#include "daemon/unwind/build.h"

#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/arch/arch.h"

#define ROUNDS 5

static const char *const default_files[] = {
	"/lib/x86_64-linux-gnu/libc.so.6",
	"/lib64/ld-linux-x86-64.so.2",
	"/usr/bin/redis-server",
	"/usr/bin/python3",
	"/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
	"/usr/bin/node",
	"/lib/x86_64-linux-gnu/libLLVM-14.so.1",
	"/lib/x86_64-linux-gnu/libclang-cpp.so.14",
	"/usr/aarch64-linux-gnu/lib/libc.so.6",
	"/usr/riscv64-linux-gnu/lib/libc.so.6",
};

struct file {
	const char *path;
	int fd;
	size_t size;
	void *image;
};

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int open_file(struct file *file, const char *path)
{
	struct stat st;

	file->path = path;
	file->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (file->fd < 0 || fstat(file->fd, &st) < 0)
		return -1;
	file->size = (size_t)st.st_size;
	file->image = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, file->fd, 0);
	return file->image == MAP_FAILED ? -1 : 0;
}

static void close_file(struct file *file)
{
	munmap(file->image, file->size);
	close(file->fd);
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void ask(Dwarf_CFI *cfi, Dwarf_Addr pc, const struct kp_arch *arch)
{
	Dwarf_Op *ops, mem[3];
	Dwarf_Frame *frame;
	size_t count;
	bool signal;
	int ra;

	if (dwarf_cfi_addrframe(cfi, pc, &frame) < 0)
		return;
	dwarf_frame_cfa(frame, &ops, &count);
	ra = dwarf_frame_info(frame, NULL, NULL, &signal);
	dwarf_frame_register(frame, arch->dwarf.fp, mem, &ops, &count);
	dwarf_frame_register(frame, ra, mem, &ops, &count);
	free(frame);
}

/* Asks libdw at each row that is no gap. */
static double time_libdw(const struct file *file, const void *table)
{
	const struct kp_table_head *head = table;
	const struct kp_table_rule *rule = (const void *)(head + 1);
	const uint32_t *pages = (const void *)(rule + head->rule_count);
	const struct kp_table_row *row = (const void *)(pages + head->page_count + 1);
	const struct kp_arch *arch = kp_arch_by_machine(head->machine);
	double start = now_ms();
	Dwarf_CFI *cfi;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(file->fd, ELF_C_READ_MMAP, NULL);
	cfi = elf ? dwarf_getcfi_elf(elf) : NULL;
	for (uint32_t page = 0; cfi && page < head->page_count; page++) {
		for (uint32_t i = pages[page]; i < pages[page + 1]; i++)
			if (rule[row[i].rule].cfa != KP_CFA_GAP)
				ask(cfi, head->first + ((Dwarf_Addr)page << 16) + row[i].pc_low,
				    arch);
	}
	dwarf_cfi_end(cfi);
	elf_end(elf);
	return now_ms() - start;
}

static void print(const struct file *file, const struct kp_unwind_stats *stats, size_t bytes,
		  double ms, double libdw_ms)
{
	double code = (double)stats->code_bytes, gap = (double)stats->cfa_bytes[KP_CFA_GAP];
	double odd = (double)(stats->cfa_bytes[KP_CFA_INVALID] + stats->cfa_bytes[KP_CFA_REG]);

	printf("%-44s %6.1f %7u %4u %8u %5u %8.3f %5.2f %8.1f %8.1f %7.2f %7.2f %7.3f\n",
	       file->path, code / 0x100000, stats->fdes, stats->bad_fdes, stats->rows, stats->rules,
	       (double)bytes / 0x100000, (double)bytes / stats->rows, ms, libdw_ms,
	       100 * (code - gap) / code, 100 * (code - gap - odd) / (code - gap),
	       100 * (double)stats->lost_fp_bytes / (code - gap));
}

static int bench(const struct file *file)
{
	struct kp_unwind_stats stats;
	double ms[ROUNDS], libdw_ms = 0;
	size_t bytes = 0;
	struct kp_err err;

	for (int i = 0; i < ROUNDS; i++) {
		void *table = NULL;
		double start = now_ms();
		int r = kp_unwind_build(file->image, file->size, file->path, &table, &bytes, &stats,
					&err);

		ms[i] = now_ms() - start;
		if (r != 0) {
			printf("%s: %s\n", file->path, r < 0 ? err.text : "no unwind information");
			return 1;
		}
		if (i == ROUNDS - 1)
			libdw_ms = time_libdw(file, table);
		free(table);
	}
	qsort(ms, ROUNDS, sizeof(*ms), compare);
	print(file, &stats, bytes, ms[ROUNDS / 2], libdw_ms);
	return 0;
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? (size_t)argc - 1 : sizeof(default_files) / sizeof(*default_files);
	int failed = 0;

	printf("build: median of %d; libdw: CFA, fp, ra of each row, once; ms of CPU time\n"
	       "%%FDE: of the code; %%usable, %%no fp: of that\n",
	       ROUNDS);
	printf("%-44s %6s %7s %4s %8s %5s %8s %5s %8s %8s %7s %7s %7s\n", "file", "MiB", "FDEs",
	       "bad", "rows", "rules", "table MiB", "B/row", "build", "libdw", "%FDE", "%usable",
	       "%no fp");
	for (size_t i = 0; i < count; i++) {
		const char *path = argc > 1 ? argv[i + 1] : default_files[i];
		struct file file;

		if (open_file(&file, path) < 0) {
			printf("%-44s not here\n", path);
			continue;
		}
		failed |= bench(&file);
		close_file(&file);
	}
	return failed;
}
