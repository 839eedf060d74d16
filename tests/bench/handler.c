/*
 * What a sample costs: the agent's image, driven by real signals, against a handler that does
 * nothing, at several depths of the walk; and its handler alone, called as a function. One thread,
 * everything in the caches: the floor of the cost, not what a busy program pays.
 *
 * Arms take turns in each round, so that a host that slows down slows all of them; medians.
 */
#include "tests/unit/agent/rig.h"

#include "agent/syscall.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 41
#define BATCH 256u /* samples a round; the ring has room for them */
#define FRAMES 70 /* of the stack; the walk is cut at the depth asked for */

enum arm { ARM_EMPTY, ARM_OFF, ARM_SAMPLE, ARM_DIRECT, ARM_COUNT };

struct run {
	struct rig *rig;
	siginfo_t info;
	enum arm arm;
	double ns; /* per sample */
};

static struct run *current; /* for handle_direct() */

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

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

	action.sa_sigaction = run->arm == ARM_DIRECT ? handle_direct : handle_nothing;
	sigfillset(&action.sa_mask);
	if (run->arm == ARM_EMPTY || run->arm == ARM_DIRECT)
		sigaction(RIG_SIGNAL, &action, NULL);
	else
		rig_install(run->rig);
	run->rig->head->on = run->arm != ARM_OFF;
}

/* At the end of the known stack. */
static bool fire(void *arg)
{
	struct run *run = arg;
	uint32_t n = run->arm == ARM_DIRECT ? 1 : BATCH;
	long pid = getpid(), tid = gettid();
	double start = now_ns();

	for (uint32_t i = 0; i < n; i++)
		kp_syscall(__NR_rt_tgsigqueueinfo, pid, tid, RIG_SIGNAL,
			   kp_syscall_ptr(&run->info));
	if (run->arm != ARM_DIRECT)
		run->ns = (now_ns() - start) / BATCH;
	return true;
}

static void die(const char *what)
{
	fprintf(stderr, "bench-handler: %s\n", what);
	exit(1);
}

static double measure(struct rig *rig, enum arm arm, uint32_t depth)
{
	struct run run = { .rig = rig, .info = rig_timer_info(0, 0), .arm = arm };
	const struct kp_ring_record *record;
	uint32_t n = 0;

	current = &run;
	rig->head->depth = depth;
	install(&run);
	rig_burn(FRAMES, fire, &run);
	while ((record = rig_read(rig))) {
		n++;
		if (record->depth != depth)
			die("a sample is not as deep as it should be");
	}
	if (n != (arm >= ARM_SAMPLE ? BATCH : 0))
		die("a signal was lost");
	return run.ns;
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
	double ns[ARM_COUNT][ROUNDS], m[ARM_COUNT];

	for (int round = 0; round < ROUNDS; round++) {
		for (enum arm arm = 0; arm < ARM_COUNT; arm++)
			ns[arm][round] = measure(rig, arm, depth);
	}
	for (enum arm arm = 0; arm < ARM_COUNT; arm++)
		m[arm] = median(ns[arm]);
	printf("%6u %14.0f %14.0f %14.0f %8.2f %14.0f %10.1f\n", depth, m[ARM_EMPTY], m[ARM_OFF],
	       m[ARM_SAMPLE], m[ARM_SAMPLE] / m[ARM_EMPTY], m[ARM_DIRECT], m[ARM_DIRECT] / depth);
}

int main(void)
{
	static const uint32_t depths[] = { 5, 20, 60 };
	struct rig rig;

	setenv("KP_AGENT_IMAGE", KP_AGENT_IMAGE_PATH, 0);
	rig_open(&rig, 2 * BATCH, FRAMES);
	rig.head->lease = UINT64_MAX;
	printf("ns per sample, medians of %d rounds of %u\n", ROUNDS, BATCH);
	printf("%6s %14s %14s %14s %8s %14s %10s\n", "frames", "signal, empty", "signal, off",
	       "signal, sample", "ratio", "handler alone", "per frame");
	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
		bench_depth(&rig, depths[i]);
	return 0;
}
