/*
 * This machine's cycles counter, for the proof: counter.h. Daemon; counts the calling thread.
 *
 * Whether the counter interrupts is seen by the kernel's writing a record: into a buffer of one
 * page, and a look at data_head (perf_event_open(2), "MMAP layout"). The records are not read.
 */
#include "daemon/clock/counter.h"
#include "daemon/clock/perf_event.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define OVERFLOW_CYCLES 500000 /* some tenths of a millisecond */
#define BURN_STEPS 100000

struct counter {
	int fd;
	size_t bytes;
	struct perf_event_mmap_page *page;
};

static int open_counter(void *ctx)
{
	struct counter *c = ctx;
	void *page;
	int code;

	c->fd = kp_perf_event_open(KP_EVENT_CYCLES, 0, OVERFLOW_CYCLES);
	if (c->fd < 0)
		return -errno;
	c->bytes = 2 * (size_t)sysconf(_SC_PAGESIZE);
	page = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (page == MAP_FAILED) {
		code = errno;
		close(c->fd);
		return -code;
	}
	c->page = page;
	return 0;
}

static int enable_counter(void *ctx)
{
	const struct counter *c = ctx;

	return ioctl(c->fd, PERF_EVENT_IOC_ENABLE, 0) == 0 ? 0 : -errno;
}

static int read_counter(void *ctx, struct kp_counter_reading *ret)
{
	const struct counter *c = ctx;
	struct {
		uint64_t count, wanted_ns, had_ns;
	} words;
	ssize_t n = read(c->fd, &words, sizeof(words));

	if (n != (ssize_t)sizeof(words))
		return n < 0 ? -errno : -EIO;
	*ret = (struct kp_counter_reading){
		.count = words.count,
		.wanted_ns = words.wanted_ns,
		.had_ns = words.had_ns,
		.overflowed = __atomic_load_n(&c->page->data_head, __ATOMIC_ACQUIRE) != 0,
	};
	return 0;
}

static uint64_t cpu_ns(void *ctx)
{
	struct timespec ts;

	(void)ctx;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void burn(void *ctx)
{
	(void)ctx;
	for (volatile uint32_t i = 0; i < BURN_STEPS; i++)
		;
}

static void close_counter(void *ctx)
{
	struct counter *c = ctx;

	munmap(c->page, c->bytes);
	close(c->fd);
}

static const struct kp_counter_ops cycles_ops = {
	.open = open_counter,
	.enable = enable_counter,
	.read = read_counter,
	.cpu_ns = cpu_ns,
	.burn = burn,
	.close = close_counter,
};

void kp_cycles_prove(struct kp_counter_proof *ret)
{
	struct counter counter = { .fd = -1 };

	kp_counter_prove(&cycles_ops, &counter, ret);
}
