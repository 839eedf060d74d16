/*
 * The table of a real file against libdw, which has been reading the same bytes for many years: at
 * 200,000 random addresses in its code and at both edges of every row, CFA, return address and
 * frame pointer are to be the same, expressions operation for operation. What the table calls
 * INVALID or UNDEFINED has to be something that its format cannot hold, judged here anew. Code that
 * nothing describes is left out.
 *
 *	oracle [-r] PATTERN...	the first file that matches; with -r there has to be one
 */
#include "common/cleanup.h"
#include "daemon/unwind/build.h"

#include "common/arch/arch.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define RANDOM_COUNT 200000
#define SKIP 77
#define SHOWN_MAX 10 /* mismatches that are printed */
/* Of addresses with a rule: how many may have one that the format cannot hold. */
#define INVALID_SHARE_MAX 0.005
#define LOST_FP_SHARE_MAX 0.001

struct oracle {
	const char *path;
	int fd;
	size_t size;
	void *image;
	Elf *elf;
	Dwarf *dwarf;
	Dwarf_CFI *eh_cfi, *debug_cfi; /* either may be missing */
	const struct kp_arch *arch;
	struct kp_table table;
	size_t asked, mismatches, kinds[KP_CFA_COUNT], lost_fp;
};

/* What libdw says of a frame: for each, its operations and their number. */
struct answer {
	Dwarf_Op *cfa, *sp, *fp, *ra, *base, memory[4][3];
	size_t cfa_count, sp_count, fp_count, ra_count, base_count;
	bool signal;
	int ra_column;
};

static bool fits(Dwarf_Word value)
{
	return (int64_t)value >= INT32_MIN && (int64_t)value <= INT32_MAX;
}

static uint8_t base_register(const Dwarf_Op *op, Dwarf_Word *ret_off)
{
	if (op->atom == DW_OP_bregx && op->number < UINT8_MAX) {
		*ret_off = op->number2;
		return (uint8_t)op->number;
	}
	*ret_off = op->number;
	return op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31 ? op->atom - DW_OP_breg0
								   : UINT8_MAX;
}

/* breg7 8; breg16 0; lit15; and; litK; ge; lit3; shl; plus */
static bool is_plt(const Dwarf_Op *op, size_t count)
{
	static const uint8_t atoms[] = { DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and, 0,
					 DW_OP_ge,    DW_OP_lit3,   DW_OP_shl,	 DW_OP_plus };

	if (count != sizeof(atoms))
		return false;
	for (size_t i = 0; i < count; i++)
		if (atoms[i] && op[i].atom != atoms[i])
			return false;
	return op[1].number == 0 && op[4].atom >= DW_OP_lit0 && op[4].atom <= DW_OP_lit15;
}

static void expect_cfa(const struct oracle *o, const struct answer *a, struct kp_table_rule *rule)
{
	Dwarf_Word off, add = 0;
	uint8_t base = base_register(a->cfa, &off);

	rule->cfa = KP_CFA_INVALID;
	if (is_plt(a->cfa, a->cfa_count)) {
		rule->cfa = KP_CFA_PLT;
		rule->reg = a->cfa[4].atom - DW_OP_lit0;
	} else if (a->cfa_count == 1 && base == o->arch->dwarf.sp) {
		rule->cfa = KP_CFA_SP;
	} else if (a->cfa_count == 1 && base == o->arch->dwarf.fp) {
		rule->cfa = KP_CFA_FP;
	} else if (a->cfa_count == 1 && base != UINT8_MAX) {
		rule->cfa = KP_CFA_REG;
		rule->reg = base;
	} else if ((a->cfa_count == 2 || a->cfa_count == 3) && a->cfa[1].atom == DW_OP_deref) {
		if (a->cfa_count == 3 && a->cfa[2].atom != DW_OP_plus_uconst)
			return;
		add = a->cfa_count == 3 ? a->cfa[2].number : 0;
		if (base == o->arch->dwarf.sp)
			rule->cfa = KP_CFA_DEREF_SP;
		if (base == o->arch->dwarf.fp)
			rule->cfa = KP_CFA_DEREF_FP;
	}
	if (!fits(off) || !fits(add))
		rule->cfa = KP_CFA_INVALID;
	rule->cfa_off = (int32_t)off;
	rule->add = (int32_t)add;
}

/* UNDEFINED: nowhere, or where the format cannot say. */
static uint8_t expect_saved(const struct oracle *o, const Dwarf_Op *op, size_t count,
			    int32_t *ret_off)
{
	Dwarf_Word off = 0;
	uint8_t base;

	if (!op)
		return KP_REG_SAME;
	if (count == 0 || op[0].atom != DW_OP_call_frame_cfa)
		return KP_REG_UNDEFINED;
	if (count == 1)
		return KP_REG_CFA;
	if (count == 2 && op[1].atom == DW_OP_plus_uconst && fits(op[1].number)) {
		*ret_off = (int32_t)op[1].number;
		return KP_REG_CFA;
	}
	base = base_register(&op[1], &off);
	if (count != 2 || !fits(off) || (base != o->arch->dwarf.sp && base != o->arch->dwarf.fp))
		return KP_REG_UNDEFINED;
	*ret_off = (int32_t)off;
	return base == o->arch->dwarf.sp ? KP_REG_SP : KP_REG_FP;
}

/* The caller's sp is the CFA. */
static bool sp_is_cfa(const struct answer *a)
{
	return a->sp && a->sp_count == 2 && a->sp[0].atom == DW_OP_call_frame_cfa &&
	       a->sp[1].atom == DW_OP_stack_value;
}

static struct kp_table_rule expect(const struct oracle *o, const struct answer *a)
{
	const struct kp_table_rule invalid = { .cfa = KP_CFA_INVALID };
	struct kp_table_rule rule = { 0 };

	if (a->signal)
		return (struct kp_table_rule){ .cfa = KP_CFA_SIGNAL };
	/* libdw calls undefined as well what is not said. */
	if (a->ra && a->ra_count == 0)
		return a->ra_column == o->arch->dwarf.ra
			       ? (struct kp_table_rule){ .cfa = KP_CFA_STOP }
			       : invalid;
	expect_cfa(o, a, &rule);
	rule.ra = expect_saved(o, a->ra, a->ra_count, &rule.ra_off);
	rule.fp = expect_saved(o, a->fp, a->fp_count, &rule.fp_off);
	/* Of rbx libdw 0.188 does not know that it is callee-saved: undefined if nothing is said. */
	if (a->base_count)
		rule.base = expect_saved(o, a->base, a->base_count, &rule.base_off);
	if (rule.cfa == KP_CFA_INVALID || rule.ra == KP_REG_UNDEFINED || !sp_is_cfa(a))
		return invalid;
	if (rule.ra == KP_REG_SAME &&
	    (a->ra_column != o->arch->dwarf.ra || o->arch->dwarf.ra == 16))
		return invalid;
	return rule;
}

/* False: libdw knows no FDE there, or cannot make sense of it. */
static bool ask(const struct oracle *o, Dwarf_Addr pc, struct answer *ret, Dwarf_Frame **ret_frame)
{
	if (dwarf_cfi_addrframe(o->eh_cfi, pc, ret_frame) < 0 &&
	    dwarf_cfi_addrframe(o->debug_cfi, pc, ret_frame) < 0)
		return false;
	ret->ra_column = dwarf_frame_info(*ret_frame, NULL, NULL, &ret->signal);
	return dwarf_frame_cfa(*ret_frame, &ret->cfa, &ret->cfa_count) == 0 &&
	       dwarf_frame_register(*ret_frame, o->arch->dwarf.sp, ret->memory[0], &ret->sp,
				    &ret->sp_count) == 0 &&
	       dwarf_frame_register(*ret_frame, o->arch->dwarf.fp, ret->memory[1], &ret->fp,
				    &ret->fp_count) == 0 &&
	       (o->arch->dwarf.base == KP_DWARF_NONE ||
		dwarf_frame_register(*ret_frame, o->arch->dwarf.base, ret->memory[3], &ret->base,
				     &ret->base_count) == 0) &&
	       dwarf_frame_register(*ret_frame, ret->ra_column, ret->memory[2], &ret->ra,
				    &ret->ra_count) == 0;
}

static void show(const struct oracle *o, Dwarf_Addr pc, const struct kp_table_rule *ours,
		 const struct kp_table_rule *libdw)
{
	const struct kp_table_rule *rules[] = { ours, libdw };

	printf("%s: %#llx:\n", o->path, (unsigned long long)pc);
	for (int i = 0; i < 2; i++)
		printf("  %s cfa %u reg %u %d add %d, fp %u %d, ra %u %d, base %u %d\n",
		       i ? "libdw" : "table", rules[i]->cfa, rules[i]->reg, rules[i]->cfa_off,
		       rules[i]->add, rules[i]->fp, rules[i]->fp_off, rules[i]->ra,
		       rules[i]->ra_off, rules[i]->base, rules[i]->base_off);
}

/* What is read out of code (flow.h) has a test of its own, flow_oracle.c. */
static bool is_read_out(const struct kp_table_rule *ours, const struct kp_table_rule *libdw)
{
	return libdw->cfa == KP_CFA_GAP &&
	       (ours->base == KP_REG_UNDEFINED || ours->cfa == KP_CFA_STOP ||
		ours->cfa == KP_CFA_SIGNAL || ours->cfa == KP_CFA_INVALID);
}

static void compare(struct oracle *o, Dwarf_Addr pc)
{
	struct kp_table_rule ours = { .cfa = KP_CFA_GAP }, libdw = { .cfa = KP_CFA_GAP };
	_cleanup_(kp_freep) Dwarf_Frame *frame = NULL;
	struct answer answer;

	kp_table_find(&o->table, pc, &ours);
	if (ask(o, pc, &answer, &frame))
		libdw = expect(o, &answer);
	else if (frame)
		libdw.cfa = KP_CFA_INVALID;
	if (is_read_out(&ours, &libdw))
		ours = libdw;
	o->asked++;
	o->kinds[ours.cfa]++;
	o->lost_fp += ours.fp == KP_REG_UNDEFINED;
	if (memcmp(&ours, &libdw, sizeof(ours)) != 0 && o->mismatches++ < SHOWN_MAX)
		show(o, pc, &ours, &libdw);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return *state >> 33 ^ *state << 31;
}

/* The nth byte of the executable sections; n less than their size, which comes back if n is not. */
static uint64_t code_at(Elf *elf, uint64_t n, uint64_t *ret_size)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	*ret_size = 0;
	while ((scn = elf_nextscn(elf, scn))) {
		if (!gelf_getshdr(scn, &shdr) || !(shdr.sh_flags & SHF_EXECINSTR))
			continue;
		if (n >= *ret_size && n - *ret_size < shdr.sh_size)
			return shdr.sh_addr + (n - *ret_size);
		*ret_size += shdr.sh_size;
	}
	return 0;
}

static void compare_random(struct oracle *o)
{
	uint64_t state = 1, size, unused;

	code_at(o->elf, UINT64_MAX, &size);
	for (int i = 0; i < RANDOM_COUNT && size; i++)
		compare(o, code_at(o->elf, next_random(&state) % size, &unused));
}

static void compare_edges(struct oracle *o)
{
	const uint32_t *pages = (const void *)(o->table.data + o->table.pages_off);
	const struct kp_table_row *row = (const void *)(o->table.data + o->table.rows_off);

	for (uint32_t page = 0; page < o->table.page_count; page++) {
		for (uint32_t i = pages[page]; i < pages[page + 1]; i++) {
			uint64_t pc = o->table.first + ((uint64_t)page << 16) + row[i].pc_low;

			compare(o, pc);
			compare(o, pc - 1);
		}
	}
}

static int verdict(const struct oracle *o)
{
	double ruled = (double)(o->asked - o->kinds[KP_CFA_GAP]);
	double invalid = (double)o->kinds[KP_CFA_INVALID] / ruled;
	double lost_fp = (double)o->lost_fp / ruled;

	printf("%s: %zu addresses, %zu mismatches; gap %.2f %%; of the rest "
	       "stop %zu, sp %zu, fp %zu, reg %zu, deref %zu, plt %zu, signal %zu, "
	       "invalid %zu (%.3f %%), fp lost %zu\n",
	       o->path, o->asked, o->mismatches,
	       100 * (double)o->kinds[KP_CFA_GAP] / (double)o->asked, o->kinds[KP_CFA_STOP],
	       o->kinds[KP_CFA_SP], o->kinds[KP_CFA_FP], o->kinds[KP_CFA_REG],
	       o->kinds[KP_CFA_DEREF_SP] + o->kinds[KP_CFA_DEREF_FP], o->kinds[KP_CFA_PLT],
	       o->kinds[KP_CFA_SIGNAL], o->kinds[KP_CFA_INVALID], 100 * invalid, o->lost_fp);
	return o->mismatches || o->asked < RANDOM_COUNT || !(ruled > 0) ||
	       invalid > INVALID_SHARE_MAX || lost_fp > LOST_FP_SHARE_MAX;
}

static int run(struct oracle *o)
{
	_cleanup_(kp_freep) void *table = NULL;
	struct kp_err err = { 0 };
	GElf_Ehdr header;
	size_t bytes;

	if (kp_unwind_build(o->image, o->size, o->path, &table, &bytes, NULL, &err) != 0) {
		printf("%s: no table: %s\n", o->path, err.text);
		return 1;
	}
	elf_version(EV_CURRENT);
	o->elf = elf_begin(o->fd, ELF_C_READ_MMAP, NULL);
	o->dwarf = dwarf_begin_elf(o->elf, DWARF_C_READ, NULL);
	o->eh_cfi = dwarf_getcfi_elf(o->elf);
	o->debug_cfi = dwarf_getcfi(o->dwarf);
	if ((!o->eh_cfi && !o->debug_cfi) || !gelf_getehdr(o->elf, &header)) {
		printf("%s: libdw has no CFI: %s\n", o->path, dwarf_errmsg(-1));
		return 1;
	}
	o->arch = kp_arch_by_machine(header.e_machine);
	if (!o->arch || kp_table_open(&o->table, table, bytes, header.e_machine) < 0) {
		printf("%s: the table cannot be read\n", o->path);
		return 1;
	}
	compare_random(o);
	compare_edges(o);
	dwarf_cfi_end(o->eh_cfi);
	dwarf_end(o->dwarf);
	elf_end(o->elf);
	return verdict(o);
}

/* Opens the first file that matches; 1 if there is one. */
static int open_first(struct oracle *o, char *const *pattern, glob_t *found)
{
	int flags = 0;
	struct stat st;

	for (; *pattern; pattern++, flags = GLOB_APPEND)
		glob(*pattern, flags, NULL, found);
	if (found->gl_pathc == 0)
		return 0;
	o->path = found->gl_pathv[0];
	o->fd = open(o->path, O_RDONLY | O_CLOEXEC);
	if (o->fd < 0 || fstat(o->fd, &st) < 0)
		return 0;
	o->size = (size_t)st.st_size;
	o->image = mmap(NULL, o->size, PROT_READ, MAP_PRIVATE, o->fd, 0);
	return o->image != MAP_FAILED;
}

int main(int argc, char **argv)
{
	bool required = argc > 1 && strcmp(argv[1], "-r") == 0;
	struct oracle oracle = { .fd = -1 };
	glob_t found = { 0 };
	int r;

	if (open_first(&oracle, argv + 1 + required, &found)) {
		r = run(&oracle);
		munmap(oracle.image, oracle.size);
		close(oracle.fd);
	} else {
		printf("no file matches %s\n", argv[1 + required]);
		r = required ? 1 : SKIP;
	}
	globfree(&found);
	return r;
}
