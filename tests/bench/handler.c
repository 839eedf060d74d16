/*
 * What a sample costs: the agent's image, driven by real signals, against a handler that does
 * nothing, at several depths of the walk and for each way to unwind; and its handler alone, called
 * as a function. One thread, everything in the caches but the ring: the floor of the cost, not what
 * a busy program pays. Tables are those of this very program.
 *
 * Arms take turns in each round, so that a host that slows down slows all of them; medians.
 */
#include "tests/unit/agent/rig.h"

#include "agent/syscall.h"
#include "common/cleanup.h"
#include "common/unwind/walk.h"
#include "daemon/unwind/build.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 41
#define BATCH 256u /* samples a round; the ring has room for them */
#define FRAMES 70 /* of the stack; the walk is cut at the depth asked for */
#define SLICE_BYTES 16384u
#define AREA_BYTES (UINT64_C(4) << 20)

enum arm {
	ARM_EMPTY, /* a handler that does nothing */
	ARM_OFF, /* ours, switched off */
	ARM_FP,
	ARM_TABLE,
	ARM_SLICE,
	ARM_COUNT,
};

static const struct {
	const char *name;
	enum kp_unwind_mode mode;
} arms[ARM_COUNT] = {
	[ARM_EMPTY] = { "empty", KP_UNWIND_FP },    [ARM_OFF] = { "off", KP_UNWIND_FP },
	[ARM_FP] = { "fp", KP_UNWIND_FP },	    [ARM_TABLE] = { "table", KP_UNWIND_TABLE },
	[ARM_SLICE] = { "slice", KP_UNWIND_SLICE },
};

struct run {
	struct rig *rig;
	siginfo_t info;
	enum arm arm;
	bool direct; /* the handler called over and over, not by signals */
	double ns; /* per sample */
	uint64_t bytes; /* of its record in the ring */
};

static struct run *current; /* for handle_direct() */

static void die(const char *what)
{
	fprintf(stderr, "bench-handler: %s\n", what);
	exit(1);
}

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* ---- this program's own table ---- */

/* The program's executable segment; it comes first. */
static int describe(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct kp_tables_module *module = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		module->address = segment->p_vaddr;
		module->start = info->dlpi_addr + segment->p_vaddr;
		module->end = module->start + segment->p_memsz;
	}
	return 1;
}

static void publish_self(struct rig *rig)
{
	struct kp_tables_module module = { .table_off = KP_TABLES_DIRECTORY_BYTES };
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_(kp_freep) void *table = NULL;
	struct kp_err err;
	struct stat st;
	void *image;
	size_t bytes = 0;

	if (fd < 0 || fstat(fd, &st) != 0)
		die("/proc/self/exe");
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED || kp_unwind_build(image, (size_t)st.st_size, "/proc/self/exe",
						   &table, &bytes, NULL, &err) != 0)
		die("no table for this program");
	if (bytes > rig->tables_bytes - module.table_off)
		die("its table is too large");
	memcpy(rig->tables + module.table_off, table, bytes);
	module.table_bytes = bytes;
	dl_iterate_phdr(describe, &module);
	kp_tables_publish((struct kp_tables_directory *)(void *)rig->tables, &module, 1);
	munmap(image, (size_t)st.st_size);
	close(fd);
}

/* ---- one batch ---- */

static void handle_nothing(int sig, siginfo_t *info, void *ucontext)
{
	(void)sig;
	(void)info;
	(void)ucontext;
}

/* One real signal, then the handler over and over with its registers. */
static void handle_direct(int sig, siginfo_t *info, void *ucontext)
{
	double start = now_ns();

	(void)sig;
	for (uint32_t i = 0; i < BATCH; i++)
		rig_enter_handler(info, ucontext);
	current->ns = (now_ns() - start) / BATCH;
}

static void install(const struct run *run)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };

	action.sa_sigaction = run->direct ? handle_direct : handle_nothing;
	sigfillset(&action.sa_mask);
	if (run->direct || run->arm == ARM_EMPTY)
		sigaction(RIG_SIGNAL, &action, NULL);
	else
		rig_install(run->rig);
	run->rig->head->on = run->arm != ARM_OFF;
	run->rig->head->unwind = arms[run->arm].mode;
}

/* At the end of the known stack. */
static bool fire(void *arg)
{
	struct run *run = arg;
	uint32_t n = run->direct ? 1 : BATCH;
	long pid = getpid(), tid = gettid();
	double start = now_ns();

	for (uint32_t i = 0; i < n; i++)
		kp_syscall(__NR_rt_tgsigqueueinfo, pid, tid, RIG_SIGNAL,
			   kp_syscall_ptr(&run->info));
	if (!run->direct)
		run->ns = (now_ns() - start) / BATCH;
	return true;
}

static bool is_as_asked(const struct kp_ring_record *record, enum arm arm, uint32_t depth)
{
	if (arm == ARM_SLICE)
		return record->how & KP_HOW_SLICE;
	return record->depth == depth &&
	       record->how == (arm == ARM_TABLE ? KP_HOW_TABLE : KP_HOW_FP);
}

static struct run measure(struct rig *rig, enum arm arm, bool direct, uint32_t depth)
{
	struct run run = { .rig = rig, .info = rig_timer_info(0, 0), .arm = arm, .direct = direct };
	const struct kp_ring_record *record;
	uint32_t n = 0;

	current = &run;
	rig->head->depth = depth;
	install(&run);
	rig_burn(FRAMES, fire, &run);
	while ((record = rig_read(rig))) {
		n++;
		run.bytes = sizeof(struct kp_ring_record) + record->depth * UINT64_C(8);
		if (!is_as_asked(record, arm, depth))
			die("a sample is not what it should be");
	}
	if (n != (arm >= ARM_FP ? BATCH : 0))
		die("a signal was lost");
	return run;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS / 2];
}

static void bench_depth(struct rig *rig, uint32_t depth)
{
	static double by_signal[ARM_COUNT][ROUNDS], alone[ARM_COUNT][ROUNDS];
	uint64_t bytes[ARM_COUNT] = { 0 };
	double empty;

	for (int round = 0; round < ROUNDS; round++) {
		for (enum arm arm = 0; arm < ARM_COUNT; arm++) {
			struct run run = measure(rig, arm, false, depth);

			by_signal[arm][round] = run.ns;
			bytes[arm] = run.bytes;
			if (arm >= ARM_FP)
				alone[arm][round] = measure(rig, arm, true, depth).ns;
		}
	}
	empty = median(by_signal[ARM_EMPTY]);
	for (enum arm arm = 0; arm < ARM_COUNT; arm++) {
		double ns = median(by_signal[arm]);

		printf("%6u %-6s %10.0f %8.2f", depth, arms[arm].name, ns, ns / empty);
		if (arm >= ARM_FP)
			printf(" %14.0f %12lu", median(alone[arm]), (unsigned long)bytes[arm]);
		printf("\n");
	}
}

int main(void)
{
	static const uint32_t depths[] = { 5, 20, 60 };
	struct rig rig;

	setenv("KP_AGENT_IMAGE", KP_AGENT_IMAGE_PATH, 0);
	rig_open_with(&rig, 2 * BATCH, KP_SLICE_HEAD_WORDS + SLICE_BYTES / 8, AREA_BYTES);
	publish_self(&rig);
	rig.head->lease = UINT64_MAX;
	rig.head->slice_bytes = SLICE_BYTES;
	printf("ns per sample, medians of %d rounds of %u; a slice has %u bytes of stack at most\n",
	       ROUNDS, BATCH, SLICE_BYTES);
	printf("%6s %-6s %10s %8s %14s %12s\n", "frames", "unwind", "by signal", "ratio",
	       "handler alone", "bytes in ring");
	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
		bench_depth(&rig, depths[i]);
	return 0;
}
