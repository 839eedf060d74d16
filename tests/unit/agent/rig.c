/*
 * See rig.h. Plain libc; runs in the test's process. Stacks are compared by the sections that the
 * functions are in, so that no symbol table is needed.
 */
#include "rig.h"

#include "agent/syscall.h"
#include "proto/mailbox.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MY_ARCH kp_arch_x86_64
#define REG_OF_PC(mc) ((mc).gregs[REG_RIP])
#define REG_OF_SP(mc) ((mc).gregs[REG_RSP])
#define REG_OF_FP(mc) ((mc).gregs[REG_RBP])
#define REGISTERS 16
static const uint8_t register_place[REGISTERS] = {
	REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
	REG_R8,	 REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
};
#define REGISTER(mc, n) ((mc).gregs[register_place[n]])
#define JUMP(sp, entry)                                                                            \
	__asm__ volatile("mov %0, %%rsp\n\tjmp *%1" ::"r"(sp), "r"(entry) : "memory")
#elif defined(__aarch64__)
#define MY_ARCH kp_arch_aarch64
#define REG_OF_PC(mc) ((mc).pc)
#define REG_OF_SP(mc) ((mc).sp)
#define REG_OF_FP(mc) ((mc).regs[29])
#define REGISTERS 32
#define REGISTER(mc, n) (*((n) == 31 ? &(mc).sp : &(mc).regs[n]))
#define JUMP(sp, entry) __asm__ volatile("mov sp, %0\n\tbr %1" ::"r"(sp), "r"(entry) : "memory")
#else
#define MY_ARCH kp_arch_riscv64
#define REG_OF_PC(mc) ((mc).__gregs[REG_PC])
#define REG_OF_SP(mc) ((mc).__gregs[REG_SP])
#define REG_OF_FP(mc) ((mc).__gregs[REG_S0])
#define REGISTERS 32
#define REGISTER(mc, n) (*((n) ? &(mc).__gregs[n] : &nowhere)) /* x0 is no register to write to */
static unsigned long nowhere;
#define JUMP(sp, entry) __asm__ volatile("mv sp, %0\n\tjr %1" ::"r"(sp), "r"(entry) : "memory")
#endif

#define SA_RESTORER_FLAG UINT64_C(0x04000000)

const uint32_t RIG_REGISTERS = REGISTERS;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

bool rig_is_emulated(void)
{
	return getenv("KP_EMULATED") != NULL;
}

bool rig_skips(const char *what)
{
	if (rig_is_emulated())
		fprintf(stderr, "skipped under emulation: %s\n", what);
	return rig_is_emulated();
}

const struct kp_arch *rig_arch(void)
{
	return &MY_ARCH;
}

uint32_t rig_tid(void)
{
	return (uint32_t)gettid();
}

const struct kp_agent_header *rig_header(const struct rig *rig)
{
	return (const struct kp_agent_header *)(const void *)rig->code;
}

/* ---- the mapping ---- */

static void load_image(int fd)
{
	const char *path = getenv("KP_AGENT_IMAGE");
	char code[KP_SHM_CODE_BYTES + 1];
	ssize_t n;
	int image;

	image = open(path ? path : "", O_RDONLY | O_CLOEXEC);
	if (image < 0)
		die("KP_AGENT_IMAGE");
	n = read(image, code, sizeof(code));
	close(image);
	if (n < (ssize_t)sizeof(struct kp_agent_header) || n > (ssize_t)KP_SHM_CODE_BYTES ||
	    pwrite(fd, code, (size_t)n, 0) != n)
		die("agent's image");
}

static char *map(void *addr, size_t bytes, int prot, int flags, int fd)
{
	void *p = mmap(addr, bytes, prot, MAP_SHARED | flags, fd, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static void fill_head(struct kp_shm_head *head, uint32_t depth)
{
	head->magic = KP_SHM_MAGIC;
	head->version = KP_SHM_VERSION;
	head->signal = RIG_SIGNAL;
	head->depth = depth;
	head->period_ns = 4100000;
	head->timer_mode = KP_TIMER_ALL;
	head->lease = 1000000;
	head->on = 1;
}

/* ---- the handler ---- */

typedef void (*handler_fn)(int sig, siginfo_t *info, void *ucontext);

static handler_fn image_handler;
static siginfo_t meant; /* what the emulator is not trusted to deliver */

static void relay(int sig, siginfo_t *info, void *ucontext)
{
	(void)info;
	image_handler(sig, &meant, ucontext);
}

static void install_relay(void)
{
	struct sigaction action = { .sa_sigaction = relay, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigfillset(&action.sa_mask);
	if (sigaction(RIG_SIGNAL, &action, NULL))
		die("sigaction");
}

static void install_image(const struct rig *rig)
{
	uint64_t flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
	uint64_t handler = (uint64_t)(uintptr_t)rig->code + rig_header(rig)->handler_off;
	uint64_t restorer = (uint64_t)(uintptr_t)rig->code + rig_header(rig)->restorer_off;
	struct kp_sigaction action = { handler, flags, 0, UINT64_MAX };

	if (rig_header(rig)->restorer_off) {
		action.flags |= SA_RESTORER_FLAG;
		action.restorer = restorer;
	}
	/* riscv64 has no restorer; then the mask is the third word. */
	if (rig_arch() == &kp_arch_riscv64)
		action.restorer = action.mask;
	if (kp_syscall(__NR_rt_sigaction, RIG_SIGNAL, kp_syscall_ptr(&action), 0, 8))
		die("rt_sigaction");
}

void rig_open(struct rig *rig, uint32_t cell_count, uint32_t depth)
{
	rig_open_with(rig, cell_count, depth, 0);
}

void rig_open_with(struct rig *rig, uint32_t cell_count, uint32_t words, uint64_t tables_bytes)
{
	size_t tables_off = (size_t)kp_shm_tables_off(cell_count, words);
	size_t bytes = tables_off + (size_t)tables_bytes;
	int fd = memfd_create(KP_SHM_NAME, MFD_CLOEXEC);
	char *outside;

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		die("memfd");
	load_image(fd);
	outside = map(NULL, bytes, PROT_READ | PROT_WRITE, 0, fd);
	rig->code = map(NULL, bytes, PROT_READ | PROT_WRITE, 0, fd);
	map(rig->code, KP_SHM_CODE_BYTES, PROT_READ | PROT_EXEC, MAP_FIXED, fd);
	if (tables_bytes && mprotect(rig->code + tables_off, (size_t)tables_bytes, PROT_READ))
		die("mprotect");
	close(fd);

	rig->head = (struct kp_shm_head *)(void *)(outside + KP_SHM_HEAD_OFFSET);
	rig->ring = (struct kp_ring *)(void *)(outside + KP_SHM_RING_OFFSET);
	rig->tables = tables_bytes ? (uint8_t *)outside + tables_off : NULL;
	rig->tables_bytes = tables_bytes;
	kp_ring_format(rig->ring, cell_count, words, UINT64_MAX);
	kp_ring_reader_init(&rig->reader, rig->ring, cell_count, words);
	fill_head(rig->head, words < KP_DEPTH_MAX ? words : KP_DEPTH_MAX);
	rig->head->tables_off = tables_off;
	rig->head->tables_bytes = tables_bytes;

	image_handler = (handler_fn)(uintptr_t)(rig->code + rig_header(rig)->handler_off);
	rig_install(rig);
}

void rig_install(const struct rig *rig)
{
	if (rig_is_emulated())
		install_relay();
	else
		install_image(rig);
}

void rig_enter_handler(siginfo_t *info, void *ucontext)
{
	image_handler(RIG_SIGNAL, info, ucontext);
}

const struct kp_ring_record *rig_read(struct rig *rig)
{
	static uint64_t space[2 + KP_RING_WORDS_MAX];
	struct kp_ring_record *record = (struct kp_ring_record *)(void *)space;

	return kp_ring_read(&rig->reader, record, 0) == KP_RING_RECORD ? record : NULL;
}

/* ---- signals ---- */

siginfo_t rig_timer_info(int32_t timer_id, uint32_t overrun)
{
	siginfo_t info = { .si_signo = RIG_SIGNAL, .si_code = SI_TIMER };

	info.si_timerid = timer_id;
	info.si_overrun = (int)overrun;
	info.si_ptr = (void *)(uintptr_t)((uint64_t)KP_SHM_COOKIE << 32 | rig_tid());
	return info;
}

siginfo_t rig_event_info(int fd)
{
	siginfo_t info = { .si_signo = RIG_SIGNAL, .si_code = POLL_IN };

	info.si_fd = fd;
	return info;
}

siginfo_t rig_plain_info(int code, int pid)
{
	siginfo_t info = { .si_signo = RIG_SIGNAL, .si_code = code };

	info.si_pid = pid;
	return info;
}

/* ---- a stack that is known ---- */

struct shot {
	long nr, a, b, c, d;
	bool (*done)(void *arg);
	void *arg;
};

/* Through volatile pointers, so that the compiler keeps each function whole and as it is. */
typedef void (*frame_fn)(const struct shot *shot, uint32_t frames);
static frame_fn volatile next_frame, last_frame;
static volatile uint64_t frame_sink;

#define FRAME(name)                                                                                \
	extern const char __start_code_of_##name[], __stop_code_of_##name[];                       \
	static bool in_##name(uint64_t pc)                                                         \
	{                                                                                          \
		return pc >= (uintptr_t)__start_code_of_##name &&                                  \
		       pc < (uintptr_t)__stop_code_of_##name;                                      \
	}                                                                                          \
	__attribute__((noinline, section("code_of_" #name))) static void name(                     \
		const struct shot *shot, uint32_t frames)

FRAME(rig_fire_code)
{
	/* GCC gives a leaf no frame, whatever it is told, unless something is in it. */
	volatile long nr = shot->nr;

	(void)frames;
	kp_syscall(nr, shot->a, shot->b, shot->c, shot->d);
}

FRAME(rig_burn_code)
{
	while (!shot->done(shot->arg)) {
		for (uint32_t i = 0; i < 100000; i++)
			frame_sink += frames + i;
	}
}

FRAME(rig_recurse_code)
{
	if (frames > 1)
		next_frame(shot, frames - 1);
	else
		last_frame(shot, 0);
	frame_sink++;
}

FRAME(rig_outer_code)
{
	next_frame(shot, frames);
	frame_sink++;
}

bool rig_in_fire(uint64_t pc)
{
	return in_rig_fire_code(pc);
}

bool rig_in_burn(uint64_t pc)
{
	return in_rig_burn_code(pc);
}

bool rig_is_stack(const struct kp_ring_record *record, bool (*in_last)(uint64_t pc),
		  uint32_t frames)
{
	if (!record || record->depth < frames + 2 || !in_last(record->pc[0]))
		return false;
	for (uint32_t i = 1; i <= frames; i++) {
		if (!in_rig_recurse_code(record->pc[i]))
			return false;
	}
	return in_rig_outer_code(record->pc[frames + 1]);
}

void rig_signal(struct rig *rig, const siginfo_t *info, uint32_t frames)
{
	struct shot shot = {
		.nr = __NR_rt_tgsigqueueinfo,
		.a = getpid(),
		.b = gettid(),
		.c = RIG_SIGNAL,
		.d = kp_syscall_ptr(info),
	};

	(void)rig;
	if (rig_is_emulated()) {
		meant = *info;
		shot.nr = __NR_tgkill;
	}
	next_frame = rig_recurse_code;
	last_frame = rig_fire_code;
	rig_outer_code(&shot, frames);
}

void rig_burn(uint32_t frames, bool (*done)(void *arg), void *arg)
{
	struct shot shot = { .done = done, .arg = arg };

	next_frame = rig_recurse_code;
	last_frame = rig_burn_code;
	rig_outer_code(&shot, frames);
}

static void call_handler(const siginfo_t *info, ucontext_t *context)
{
	siginfo_t copy = *info;
	sigset_t all, before;

	/* As under sa_mask ~0: the probe of the reader counts on it. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	image_handler(RIG_SIGNAL, &copy, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void rig_call_handler(struct rig *rig, const siginfo_t *info, const struct kp_regs *regs)
{
	ucontext_t context;

	(void)rig;
	memset(&context, 0, sizeof(context));
	REG_OF_PC(context.uc_mcontext) = (__typeof__(REG_OF_PC(context.uc_mcontext)))regs->pc;
	REG_OF_SP(context.uc_mcontext) = (__typeof__(REG_OF_SP(context.uc_mcontext)))regs->sp;
	REG_OF_FP(context.uc_mcontext) = (__typeof__(REG_OF_FP(context.uc_mcontext)))regs->fp;
	call_handler(info, &context);
}

void rig_call_handler_with(struct rig *rig, const siginfo_t *info, uint64_t pc,
			   const uint64_t registers[32])
{
	ucontext_t context;

	(void)rig;
	memset(&context, 0, sizeof(context));
	for (uint32_t i = 0; i < REGISTERS; i++)
		REGISTER(context.uc_mcontext, i) =
			(__typeof__(REGISTER(context.uc_mcontext, i)))registers[i];
	REG_OF_PC(context.uc_mcontext) = (__typeof__(REG_OF_PC(context.uc_mcontext)))pc;
	call_handler(info, &context);
}

/* ---- mail ---- */

struct kp_mail *rig_post_to(struct rig *rig, pid_t pid, enum kp_mail_op op, uint32_t tid,
			    int32_t timer_id)
{
	struct kp_mail mail = { .op = op,
				.pid = (uint32_t)pid,
				.tid = tid,
				.timer_id = timer_id,
				.first_ns = 1000000 };
	uint32_t slot = kp_mailbox_post(rig->head, &mail);

	if (slot == KP_MAILBOX_NONE)
		abort();
	rig->head->mail[slot].result = 1;
	return &rig->head->mail[slot];
}

struct kp_mail *rig_post(struct rig *rig, enum kp_mail_op op, uint32_t tid, int32_t timer_id)
{
	return rig_post_to(rig, getpid(), op, tid, timer_id);
}

static void *enter_call(void *arg)
{
	struct rig *rig = arg;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	JUMP(rig->code + KP_SHM_STACK_OFFSET + KP_SHM_STACK_BYTES,
	     rig->code + rig_header(rig)->call_off);
	return NULL;
}

void rig_call(struct rig *rig)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, enter_call, rig))
		die("pthread_create");
	pthread_detach(thread);
}
