/*
 * Walks by table at every instruction of a program that runs: prologues, epilogues, PLTs and the
 * linker behind them, libc, the vdso, a signal handler. The program steps itself with the CPU's trap
 * flag; in the trap's handler the walk must find the frames that libgcc's unwinder finds, which reads
 * the same descriptions by itself.
 *
 * x86-64 only: other CPUs of ours cannot be stepped from within.
 */
#include "common/cleanup.h"
#include "common/unwind/walk.h"
#include "daemon/unwind/build.h"

#include <stdio.h>

#define SKIP 77

#ifdef __x86_64__

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <ucontext.h>
#include <unwind.h>

#define MODULES_MAX 64
#define FRAMES_MAX 64
#define SHOWN_MAX 10
#define TRAP_FLAG 0x100

/* ---- tables of all that is mapped ---- */

struct module {
	char name[256];
	uint64_t start, end, bias;
	struct kp_table table;
	uint32_t steps;
};
static struct module modules[MODULES_MAX];
static uint32_t module_count;

static int build(struct module *module, const void *image, size_t size)
{
	struct kp_err err;
	size_t bytes;
	void *table;

	if (kp_unwind_build(image, size, module->name, &table, &bytes, NULL, &err))
		return -1;
	return kp_table_open(&module->table, table, bytes, kp_arch_x86_64.elf_machine);
}

/* A dl_iterate_phdr() callback. */
static int add_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
	const char *path = info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
	_cleanup_(kp_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct module *module = &modules[module_count];
	uint64_t memory_end = 0;
	struct stat st;
	void *image;

	(void)size;
	(void)ctx;
	if (module_count == MODULES_MAX)
		return -1;
	snprintf(module->name, sizeof(module->name), "%s", path);
	module->bias = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;

		if (segment->p_type != PT_LOAD)
			continue;
		memory_end = end;
		if (!(segment->p_flags & PF_X))
			continue;
		module->start = info->dlpi_addr + segment->p_vaddr;
		module->end = end;
	}
	if (fd < 0) /* the vdso */
		image = (void *)(uintptr_t)info->dlpi_addr;
	else if (fstat(fd, &st))
		return -1;
	else
		image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED)
		return -1;
	if (build(module, image, fd < 0 ? memory_end - info->dlpi_addr : (size_t)st.st_size))
		return -1;
	module_count++;
	return 0;
}

static struct module *find_module(uint64_t pc)
{
	for (uint32_t i = 0; i < module_count; i++) {
		if (pc >= modules[i].start && pc < modules[i].end)
			return &modules[i];
	}
	return NULL;
}

static int find_rule(void *ctx, uint64_t pc, struct kp_table_rule *ret)
{
	const struct module *module = find_module(pc);

	(void)ctx;
	return module ? kp_table_find(&module->table, pc - module->bias, ret) : -1;
}

static int read_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	(void)ctx;
	*ret = *(const volatile uint64_t *)(uintptr_t)addr;
	return 0;
}

/* By DWARF's number: psABI, figure 3.36. */
static int leaf_register(void *ctx, uint32_t number, uint64_t *ret)
{
	static const int registers[] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
					 REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
					 REG_R12, REG_R13, REG_R14, REG_R15 };
	const ucontext_t *interrupted = ctx;

	if (number >= sizeof(registers) / sizeof(registers[0]))
		return -1;
	*ret = (uint64_t)interrupted->uc_mcontext.gregs[registers[number]];
	return 0;
}

/* ---- two opinions ---- */

struct stack {
	uint64_t pc[FRAMES_MAX];
	uint32_t n;
	int whole;
};

static struct stack walk_by_table(ucontext_t *interrupted)
{
	const greg_t *gregs = interrupted->uc_mcontext.gregs;
	const struct kp_regs regs = {
		.pc = (uint64_t)gregs[REG_RIP],
		.sp = (uint64_t)gregs[REG_RSP],
		.fp = (uint64_t)gregs[REG_RBP],
	};
	const struct kp_walk walk = {
		.arch = &kp_arch_x86_64,
		.mode = KP_UNWIND_TABLE,
		.read_word = read_word,
		.find_rule = find_rule,
		.leaf_register = leaf_register,
		.leaf_ctx = interrupted,
	};
	struct stack stack;
	uint32_t how;

	stack.whole = kp_walk_is_whole(kp_walk(&walk, regs, stack.pc, FRAMES_MAX, &stack.n, &how));
	return stack;
}

struct trace {
	struct stack stack;
	uint64_t leaf_pc; /* the trace begins there: what is before is the handler's */
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *ctx)
{
	struct trace *trace = ctx;
	int before_instruction = 0;
	uint64_t pc = _Unwind_GetIPInfo(context, &before_instruction);

	if (!trace->stack.n && !(before_instruction && pc == trace->leaf_pc))
		return _URC_NO_REASON;
	if (trace->stack.n == FRAMES_MAX || !pc)
		return _URC_END_OF_STACK;
	/* Code that a signal interrupted is written as pc + 1, the leaf left out. */
	trace->stack.pc[trace->stack.n] = pc + (before_instruction && trace->stack.n);
	trace->stack.n++;
	return _URC_NO_REASON;
}

static struct stack walk_by_libgcc(const ucontext_t *interrupted)
{
	struct trace trace = { .leaf_pc = (uint64_t)interrupted->uc_mcontext.gregs[REG_RIP] };

	_Unwind_Backtrace(add_frame, &trace);
	return trace.stack;
}

/* ---- in the trap ---- */

static volatile int stepping;
static uint32_t steps, wrong, cut, deepest, through_signal;

static void show(const char *who, const struct stack *stack)
{
	for (uint32_t i = 0; i < stack->n; i++) {
		Dl_info info = { .dli_sname = NULL };

		dladdr((void *)(uintptr_t)stack->pc[i], &info);
		fprintf(stderr, "%s %2u %#lx %s %s+%#lx\n", who, i, stack->pc[i],
			info.dli_sname ? info.dli_sname : "?", info.dli_fname,
			stack->pc[i] - (uint64_t)(uintptr_t)info.dli_fbase);
	}
}

/* Whether the table's last frame has a rule that only a leaf could follow, or none can hold. */
static int may_end(const struct stack *stack)
{
	struct kp_table_rule rule;

	return !find_rule(NULL, stack->pc[stack->n - 1] - (stack->n > 1), &rule) &&
	       (rule.cfa == KP_CFA_REG || rule.cfa == KP_CFA_INVALID);
}

static int has_same_frames(const struct stack *a, const struct stack *b, uint32_t n)
{
	return a->n >= n && b->n >= n && !memcmp(a->pc, b->pc, n * sizeof(a->pc[0]));
}

static void on_trap(int sig, siginfo_t *info, void *ucontext)
{
	ucontext_t *interrupted = ucontext;
	greg_t *flags = &interrupted->uc_mcontext.gregs[REG_EFL];
	struct module *module = find_module((uint64_t)interrupted->uc_mcontext.gregs[REG_RIP]);
	struct stack ours = walk_by_table(interrupted), theirs = walk_by_libgcc(interrupted);

	(void)sig;
	(void)info;
	steps++;
	if (module)
		module->steps++;
	if (ours.n > deepest)
		deepest = ours.n;
	/*
	 * One that ends early says so, and what there is of it is right. It is so above the linker's
	 * _dl_runtime_resolve, whose CFA is in rbx.
	 */
	if (!ours.whole && may_end(&ours) && has_same_frames(&ours, &theirs, ours.n)) {
		cut++;
	} else if (ours.n != theirs.n || !has_same_frames(&ours, &theirs, ours.n)) {
		wrong++;
		if (wrong <= SHOWN_MAX) {
			show("table ", &ours);
			show("libgcc", &theirs);
		}
	}
	*flags = stepping ? *flags | TRAP_FLAG : *flags & ~(greg_t)TRAP_FLAG;
}

/* ---- what is stepped through ---- */

static volatile uint64_t sink;

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static void sort(void)
{
	int numbers[40];

	for (int i = 0; i < 40; i++)
		numbers[i] = i * 7919 % 101;
	qsort(numbers, 40, sizeof(numbers[0]), compare);
	sink += (uint64_t)numbers[3];
}

/* A frame pointer for the sake of alloca(). */
__attribute__((noinline)) static void use_alloca(size_t n)
{
	char *text = __builtin_alloca(n);

	memset(text, 'x', n - 1);
	text[n - 1] = 0;
	sink += strlen(text);
}

/* A stack pointer that is aligned by hand, with arguments that need the old one (DRAP). */
__attribute__((noinline)) static void realign(int n, ...)
{
	char aligned[64] __attribute__((aligned(64)));
	va_list args;

	va_start(args, n);
	vsnprintf(aligned, sizeof(aligned), "%d %s %g", args);
	va_end(args);
	sink += (uint64_t)aligned[1];
}

__attribute__((noinline)) static uint64_t recurse(uint64_t n)
{
	return n ? 1 + 3 * recurse(n - 1) : sink;
}

__attribute__((noinline)) static void jump(void)
{
	jmp_buf back;

	if (setjmp(back) == 0)
		longjmp(back, 1);
}

__attribute__((noinline)) static void ask_the_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	sink += (uint64_t)now.tv_nsec;
}

__attribute__((noinline)) static void allocate(void)
{
	char *text = strdup("some text to copy"), *more;

	more = realloc(text, 1000);
	sink += strtoul(more ? more : "12", NULL, 0);
	free(more);
}

/* The kernel has cleared the trap flag for the handler. */
static void on_user_signal(int sig)
{
	(void)sig;
	raise(SIGTRAP);
	through_signal = steps;
	sort();
	through_signal = steps - through_signal;
}

/* Each twice: the first call goes through the linker. */
__attribute__((noinline)) static void work(void)
{
	for (int i = 0; i < 2; i++) {
		sort();
		use_alloca(70);
		realign(3, 5, "words", 0.5);
		sink += recurse(20);
		jump();
		ask_the_time();
		allocate();
		raise(SIGUSR1);
	}
}

int main(void)
{
	static char altstack[1 << 16];
	struct sigaction trap = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER };
	struct sigaction user = { .sa_handler = on_user_signal, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_sp = altstack, .ss_size = sizeof(altstack) };

	if (dl_iterate_phdr(add_module, NULL) || sigaltstack(&stack, NULL) ||
	    sigaction(SIGTRAP, &trap, NULL) || sigaction(SIGUSR1, &user, NULL)) {
		fprintf(stderr, "cannot prepare\n");
		return 1;
	}
	stepping = 1;
	raise(SIGTRAP);
	work();
	stepping = 0;
	sink += recurse(1); /* the next trap sees that it is over */

	for (uint32_t i = 0; i < module_count; i++)
		printf("%8u in %s\n", modules[i].steps, modules[i].name);
	printf("%u instructions, up to %u frames, %u above a signal frame: %u wrong, %u cut\n",
	       steps, deepest, through_signal, wrong, cut);
	return wrong || cut > steps / 4 || steps < 20000 || through_signal < 1000;
}

#else

int main(void)
{
	printf("skipped: this CPU cannot be stepped from within\n");
	return SKIP;
}

#endif
