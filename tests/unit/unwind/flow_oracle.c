/*
 * Frames that are read out of code (daemon/unwind/flow.h) against what the compiler says of the same
 * code: all descriptions of a real file are kept from the reader, and at each instruction that it
 * has a frame for, CFA and the place of the saved frame pointer are to be those of the file's table.
 * Nothing that it answers may be wrong; how much it answers is a share of the described bytes.
 *
 *	flow_oracle [-f] PERCENT PATTERN...	the first file that matches
 *
 * With -f it is known where functions begin, as from symbols; else the file is as it is, mostly stripped.
 */
#include "common/cleanup.h"
#include "daemon/unwind/build.h"
#include "daemon/unwind/section.h"
#include "daemon/unwind/undescribed.h"

#include "common/arch/arch.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SKIP 77
#define SHOWN_MAX 20

struct oracle {
	const char *path;
	struct kp_image image;
	struct kp_table table;
	struct kp_flow *flow;
	uint64_t described, answered, wrong, wrong_fp, lost_fp, forgotten, shown, last;
	/* The instruction before. */
	struct kp_x86_frame frame;
	struct kp_table_rule rule;
	uint64_t behind; /* its end */
	struct kp_entries entries;
	const struct kp_fde *wrong_fde;
};

static int by_start(const void *a, const void *b)
{
	const struct kp_fde *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static const struct kp_fde *find_fde(const struct oracle *o, uint64_t address)
{
	size_t low = 0, high = o->entries.fde_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (o->entries.fde[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < o->entries.fde_count && o->entries.fde[low].start <= address
		       ? &o->entries.fde[low]
		       : NULL;
}

/* What the compiler describes in a way that frames can be compared with. */
static bool is_comparable(const struct kp_table_rule *rule)
{
	return rule->cfa == KP_CFA_SP || rule->cfa == KP_CFA_FP || rule->cfa == KP_CFA_STOP;
}

static bool has_cfa(const struct kp_x86_frame *frame, const struct kp_table_rule *rule)
{
	if (rule->cfa == KP_CFA_STOP || frame->root != KP_X86_CALLED)
		return rule->cfa == KP_CFA_STOP && frame->root == KP_X86_ROOT;
	if (rule->cfa == KP_CFA_SP && frame->sp != KP_X86_UNKNOWN)
		return frame->sp == rule->cfa_off;
	if (rule->cfa == KP_CFA_FP && frame->fp_is == KP_X86_FP_FRAME)
		return frame->fp == rule->cfa_off;
	return false;
}

/* Whether both can be asked for the same register's distance. */
static bool is_answer(const struct kp_x86_frame *frame, const struct kp_table_rule *rule)
{
	if (frame->root != KP_X86_CALLED || rule->cfa == KP_CFA_STOP)
		return true;
	return (rule->cfa == KP_CFA_SP && frame->sp != KP_X86_UNKNOWN) ||
	       (rule->cfa == KP_CFA_FP && frame->fp_is == KP_X86_FP_FRAME);
}

/*
 * Some descriptions are wrong, all of hand-written code: the instruction before moves the stack
 * pointer, and the file passes over it. The rest of such a function is not compared.
 */
static bool is_forgotten(struct oracle *o, uint64_t address, const struct kp_x86_frame *frame,
			 const struct kp_table_rule *rule)
{
	const struct kp_fde *fde = find_fde(o, address);

	if (fde && fde == o->wrong_fde)
		return true;
	if (!fde || address != o->behind || rule->cfa != KP_CFA_SP || o->rule.cfa != KP_CFA_SP ||
	    !has_cfa(&o->frame, &o->rule) || frame->sp == o->frame.sp ||
	    rule->cfa_off != o->rule.cfa_off)
		return false;
	o->wrong_fde = fde;
	return true;
}

static void show(struct oracle *o, const char *what, uint64_t address,
		 const struct kp_x86_frame *frame, const struct kp_table_rule *rule)
{
	if (o->last && address - o->last < 64 && (o->last = address))
		return;
	o->last = address;
	if (o->shown++ < SHOWN_MAX)
		printf("%s: %#llx: %s: root %u sp %d fp %u %d saved %d; file: cfa %u %d, fp %u "
		       "%d\n",
		       o->path, (unsigned long long)address, what, frame->root, frame->sp,
		       frame->fp_is, frame->fp, frame->saved, rule->cfa, rule->cfa_off, rule->fp,
		       rule->fp_off);
}

static void compare(struct oracle *o, uint64_t address, const struct kp_x86_frame *frame,
		    uint8_t length, const struct kp_table_rule *rule)
{
	bool forgotten;

	if (!is_answer(frame, rule))
		return;
	o->answered += length;
	forgotten = !has_cfa(frame, rule) && is_forgotten(o, address, frame, rule);
	o->frame = *frame;
	o->rule = *rule;
	o->behind = address + length;
	if (forgotten) {
		o->forgotten++;
	} else if (!has_cfa(frame, rule)) {
		o->wrong++;
		show(o, "CFA", address, frame, rule);
	} else if (rule->fp == KP_REG_CFA && frame->saved && rule->fp_off != -frame->saved) {
		o->wrong_fp++;
		show(o, "fp", address, frame, rule);
	}
	o->lost_fp += !frame->saved && frame->fp_is != KP_X86_FP_CALLERS ? length : 0;
}

static void compare_section(struct oracle *o, const struct kp_image_part *section)
{
	uint64_t behind = 0;

	for (uint64_t i = 0; i < section->size; i++) {
		uint64_t address = section->address + i;
		struct kp_table_rule rule;
		struct kp_x86_frame frame;
		uint8_t length;

		if (kp_table_find(&o->table, address, &rule) < 0 || !is_comparable(&rule))
			continue;
		o->described++;
		if (address < behind || !kp_flow_frame(o->flow, address, &frame, &length))
			continue;
		behind = address + length;
		compare(o, address, &frame, length, &rule);
	}
}

/* What would be known if the file had symbols: where its functions begin, but for moved parts. */
static void add_functions(const struct oracle *o, struct kp_flow *flow)
{
	const struct kp_x86_frame called = kp_x86_frame_called();

	for (size_t i = 0; i < o->entries.fde_count; i++) {
		uint64_t start = o->entries.fde[i].start;
		struct kp_table_rule rule;

		if (kp_table_find(&o->table, start, &rule) == 0 && is_comparable(&rule))
			kp_flow_add_function(flow, start,
					     has_cfa(&called, &rule) ? KP_FLOW_NAMED
								     : KP_FLOW_PART);
	}
}

static int read_code(struct oracle *o, bool with_functions)
{
	struct kp_entries none = { .image = &o->image };
	struct kp_image_part section;

	if (!with_functions)
		return kp_undescribed_read(&none, &o->flow);
	o->flow = kp_flow_create(&o->image);
	for (uint64_t at = 1; kp_image_code_section(&o->image, &at, &section); at++)
		kp_flow_add_range(o->flow, section.address, section.address + section.size);
	add_functions(o, o->flow);
	return kp_flow_run(o->flow);
}

static int read_entries(struct oracle *o)
{
	struct kp_entry_section section;
	int r = -1;

	o->entries.image = &o->image;
	if (kp_section_find_eh_frame(&o->image, &section))
		r = kp_entries_add(&o->entries, &section);
	if (r == 0)
		qsort(o->entries.fde, o->entries.fde_count, sizeof(*o->entries.fde), by_start);
	return r;
}

static int verdict(const struct oracle *o, double percent)
{
	double answered = o->described ? 100 * (double)o->answered / (double)o->described : 0;

	printf("%s: %.2f %% of %llu described bytes are answered; wrong CFA at %llu instructions, "
	       "frame pointer at %llu, which is lost in %.3f %%; the file itself is wrong at "
	       "%llu\n",
	       o->path, answered, (unsigned long long)o->described, (unsigned long long)o->wrong,
	       (unsigned long long)o->wrong_fp, 100 * (double)o->lost_fp / (double)o->described,
	       (unsigned long long)o->forgotten);
	return o->wrong || o->wrong_fp || answered < percent;
}

static int run(struct oracle *o, const void *image, size_t size, bool with_functions)
{
	_cleanup_(kp_freep) void *table = NULL;
	struct kp_image_part section;
	struct kp_err err = { 0 };
	size_t bytes;

	if (kp_unwind_build(image, size, o->path, &table, &bytes, NULL, &err) != 0 ||
	    kp_image_open(&o->image, image, size, o->path, &err) < 0 ||
	    kp_table_open(&o->table, table, bytes, o->image.arch->elf_machine) < 0 ||
	    read_entries(o) < 0)
		return kp_fail(&err, KP_EBADDATA, "%s: cannot be read", o->path);
	o->image.entry =
		0; /* of a library that also is a program, the file says that it is called */
	if (read_code(o, with_functions) < 0 || !o->flow)
		return -1;
	for (uint64_t at = 1; kp_image_code_section(&o->image, &at, &section); at++)
		compare_section(o, &section);
	return 0;
}

int main(int argc, char **argv)
{
	bool with_functions = argc > 1 && strcmp(argv[1], "-f") == 0;
	struct oracle oracle = { 0 };
	glob_t found = { 0 };
	struct stat st;
	void *image;
	int fd, r = 1;

	argv += with_functions;
	for (int i = 2; argv[1] && argv[i]; i++)
		glob(argv[i], i > 2 ? GLOB_APPEND : 0, NULL, &found);
	if (found.gl_pathc == 0) {
		printf("no such file\n");
		return SKIP;
	}
	oracle.path = found.gl_pathv[0];
	fd = open(oracle.path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return 1;
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image != MAP_FAILED && run(&oracle, image, (size_t)st.st_size, with_functions) == 0)
		r = verdict(&oracle, atof(argv[1]));
	kp_flow_destroy(oracle.flow);
	kp_entries_deinit(&oracle.entries);
	globfree(&found);
	return r;
}
