/*
 * Go's code: see go.h. Runs in the daemon.
 *
 * The runtime has a stack for each thread beside those of goroutines, and goes from one to the other
 * in a few functions that have no frame of their own. What they call saves the frame pointer of the
 * function that went over, so the chain of frame pointers leads from one stack to the other.
 * Whether what it leads to is still true depends on the function:
 *
 *  - systemstack() and its like come back to where they were called from: the goroutine waits.
 *  - mcall() does not come back. It lets the scheduler have the thread, and the goroutine may go on
 *    elsewhere meanwhile, or be no more. Since 1.21 the runtime clears the frame pointer there.
 *  - a new thread starts with the frame pointer of the one that made it.
 *
 * Names and what the functions do are those of src/runtime/{asm,sys_linux}_{amd64,arm64}.s.
 */
#include "daemon/unwind/go.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

struct known {
	const char *name;
	struct kp_table_rule rule;
};

static const struct known known[] = {
	/* To the thread's stack, to come back: for the runtime, for C, for the vdso. */
	{ "runtime.systemstack", { .cfa = KP_CFA_SWITCH } },
	{ "runtime.morestack", { .cfa = KP_CFA_SWITCH } },
	{ "runtime.asmcgocall", { .cfa = KP_CFA_SWITCH } },
	{ "runtime.nanotime1", { .cfa = KP_CFA_SWITCH } },
	{ "runtime.walltime", { .cfa = KP_CFA_SWITCH } },
	{ "time.now", { .cfa = KP_CFA_SWITCH } },
	/* Called by the kernel, on the stack for signals. */
	{ "runtime.sigtramp", { .cfa = KP_CFA_SWITCH } },
	/* Back to a goroutine: first its stack pointer, then its frame pointer. */
	{ "runtime.gogo", { .cfa = KP_CFA_SWITCH } },
	{ "gogo", { .cfa = KP_CFA_SWITCH } },
	/* To the thread's stack, for good. The last two get there by morestack as well. */
	{ "runtime.mcall", { .cfa = KP_CFA_LEFT } },
	{ "runtime.gopreempt_m", { .cfa = KP_CFA_STOP } },
	{ "runtime.preemptPark", { .cfa = KP_CFA_STOP } },
	/* Where goroutines and threads start. */
	{ "runtime.goexit", { .cfa = KP_CFA_STOP } },
	{ "runtime.mstart", { .cfa = KP_CFA_STOP } },
	{ "runtime.rt0_go", { .cfa = KP_CFA_STOP } },
};

/*
 * They have no frame, and who calls them makes one below its stack pointer, where the call puts the
 * return address into it (cmd/internal/obj/x86/asm6.go, Zcallduff).
 */
static const char *const duff[] = { "runtime.duffzero", "runtime.duffcopy" };
static const struct kp_table_rule duff_rule = {
	.cfa = KP_CFA_SP,
	.cfa_off = 8,
	.ra = KP_REG_CFA,
	.ra_off = -8,
	.fp = KP_REG_CFA,
	.fp_off = -16,
};

bool kp_go_made(const struct kp_image *image)
{
	struct kp_image_part unused;

	return kp_image_section(image, ".note.go.buildid", &unused) ||
	       kp_image_section(image, ".gopclntab", &unused);
}

/*
 * The symbol's name, or "" where it is cut off. What is written in assembly and called from Go has
 * its name twice, the assembly itself with ".abi0" (cmd/link/internal/ld/symtab.go).
 */
static const char *name_of(const struct kp_image_part *names, const Elf64_Sym *symbol)
{
	const char *name;

	if (symbol->st_name >= names->size)
		return "";
	name = (const char *)names->data + symbol->st_name;
	return memchr(name, 0, names->size - symbol->st_name) ? name : "";
}

static bool is_named(const char *name, const char *wanted)
{
	size_t length = strlen(wanted);

	return strncmp(name, wanted, length) == 0 &&
	       (name[length] == 0 || strcmp(name + length, ".abi0") == 0);
}

static const struct kp_table_rule *find_known(uint16_t machine, const char *name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (is_named(name, known[i].name))
			return &known[i].rule;
	for (size_t i = 0; machine == EM_X86_64 && i < sizeof(duff) / sizeof(duff[0]); i++)
		if (is_named(name, duff[i]))
			return &duff_rule;
	return NULL;
}

static void add(struct kp_go_code *code, uint16_t machine, const char *name,
		const Elf64_Sym *symbol)
{
	const struct kp_table_rule *rule = find_known(machine, name);

	if (!rule || code->count == KP_GO_RANGES_MAX ||
	    symbol->st_value + symbol->st_size < symbol->st_value)
		return;
	code->range[code->count++] = (struct kp_go_range){
		.start = symbol->st_value,
		.end = symbol->st_value + symbol->st_size,
		.rule = *rule,
	};
}

static void read_symbols(const struct kp_image *image, struct kp_go_code *code)
{
	struct kp_image_part symbols, names;
	Elf64_Sym symbol;

	if (!kp_image_section(image, ".symtab", &symbols) ||
	    !kp_image_section(image, ".strtab", &names))
		return;
	for (size_t at = 0; symbols.size - at >= sizeof(symbol); at += sizeof(symbol)) {
		const char *name;

		memcpy(&symbol, symbols.data + at, sizeof(symbol));
		name = name_of(&names, &symbol);
		if (strcmp(name, "runtime.text") == 0)
			code->start = symbol.st_value;
		else if (strcmp(name, "runtime.etext") == 0)
			code->end = symbol.st_value;
		else
			add(code, image->arch->elf_machine, name, &symbol);
	}
}

static int compare(const void *a, const void *b)
{
	const struct kp_go_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* To [start, end) of the code, and apart from each other. */
static void trim(struct kp_go_code *code)
{
	uint64_t since = code->start;
	size_t kept = 0;

	qsort(code->range, code->count, sizeof(code->range[0]), compare);
	for (size_t i = 0; i < code->count; i++) {
		struct kp_go_range range = code->range[i];

		if (range.start < since)
			range.start = since;
		if (range.end > code->end)
			range.end = code->end;
		if (range.start >= range.end)
			continue;
		since = range.end;
		code->range[kept++] = range;
	}
	code->count = kept;
}

void kp_go_find(const struct kp_image *image, uint64_t first, uint64_t end, struct kp_go_code *ret)
{
	*ret = (struct kp_go_code){ .start = 0 };
	/* Its compiler keeps frame pointers on these two (internal/buildcfg). */
	if (!kp_go_made(image) ||
	    (image->arch->elf_machine != EM_X86_64 && image->arch->elf_machine != EM_AARCH64))
		return;
	read_symbols(image, ret);
	if (ret->start < first)
		ret->start = first;
	if (ret->end > end)
		ret->end = end;
	if (ret->start >= ret->end)
		*ret = (struct kp_go_code){ .start = 0 };
	trim(ret);
}

uint64_t kp_go_at(const struct kp_go_code *code, uint64_t address, struct kp_table_rule *ret)
{
	*ret = (struct kp_table_rule){ .cfa = KP_CFA_GAP };
	if (address < code->start)
		return code->start;
	if (address >= code->end)
		return UINT64_MAX;
	ret->cfa = KP_CFA_CHAIN;
	for (size_t i = 0; i < code->count; i++) {
		const struct kp_go_range *range = &code->range[i];

		if (address < range->start)
			return range->start;
		if (address < range->end) {
			*ret = range->rule;
			return range->end;
		}
	}
	return code->end;
}
