/*
 * Writes the raw profiles that the golden tests render: build SCENARIO FILE. Nothing in them comes
 * from this machine. The program of all scenarios is "/opt/shop/bin/shop", whose ELF image the file
 * brings along; its libraries are missing, so their code has no names.
 */
#include "proto/rawfile.h"
#include "common/unwind/fp.h"
#include "proto/ring.h"
#include "tests/golden/tiny_elf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EM_X86_64_NUMBER 62u
#define SIGNAL_URG 23u
#define SIGNAL_PROF 27u
#define MS UINT64_C(1000000)
#define PERIOD_NS (UINT64_C(1000000000) / 999)

/* Where things are mapped. */
#define SHOP UINT64_C(0x555555554000)
#define PLAIN UINT64_C(0x7f0000000000) /* a library without a file here */
#define PLUGIN UINT64_C(0x7f0000100000) /* loaded later, over the end of the former */
#define JIT UINT64_C(0x7f0000200000)
#define NOWHERE UINT64_C(0x1000) /* mapped by nobody */

static const uint8_t shop_id[TINY_BUILD_ID_BYTES] = "\xde\xad\xbe\xef shop, test";
static const uint8_t plain_id[TINY_BUILD_ID_BYTES] = "\x01\x02\x03\x04 libplain";

/* Functions of shop; 0x20 bytes each, one after the other. */
enum function {
	F_START,
	F_MAIN,
	F_TOTAL, /* C++ */
	F_DROP, /* Rust, as of old */
	F_PARSE, /* Rust, v0 */
	F_NEW,
	F_FIB,
	F_ODD, /* a name as C never has it */
	F_COUNT
};

static const char *const names[F_COUNT] = {
	[F_START] = "_start",
	[F_MAIN] = "main",
	[F_TOTAL] = "_ZN4shop4Cart5totalERKSt6vectorIiSaIiEE",
	[F_DROP] = "_ZN4core3ptr13drop_in_place17h0123456789abcdefE",
	[F_PARSE] = "_RNvNtCs1234_4shop5order5parse",
	[F_NEW] = "_Znwm",
	[F_FIB] = "fib",
	[F_ODD] = "odd;name\twith\x80 12",
};

static uint64_t code(enum function f, unsigned int offset)
{
	return SHOP + TINY_TEXT_OFFSET + 0x20u * f + offset;
}

/* ---- writing ---- */

static struct kp_raw_writer writer;
static struct kp_err err;

static int to_file(void *ctx, const void *data, size_t size, struct kp_err *e)
{
	return fwrite(data, 1, size, ctx) == size ? 0 : kp_fail_errno(e, "cannot write");
}

static void must(int result)
{
	if (result < 0) {
		fprintf(stderr, "build: %s\n", err.text);
		exit(1);
	}
}

static void session(uint32_t mode)
{
	struct kp_raw_session s = {
		.start_unix_ns = UINT64_C(1793000000000000000),
		.elf_machine = EM_X86_64_NUMBER,
		.rate_mhz = 999000,
		.depth = 128,
		.mode = mode,
		.command =
			kp_raw_string(mode == KP_RAW_MODE_RUN ? "shop --serve 'two\nlines'" : ""),
		.host = kp_raw_string("golden"),
		.creator = kp_raw_string("kitprof test"),
	};

	must(kp_raw_put_header(&writer, &err));
	must(kp_raw_put_session(&writer, &s, &err));
}

static void process(uint32_t pid, const char *comm)
{
	struct kp_raw_process p = { pid, 0, kp_raw_string(comm),
				    kp_raw_string("/opt/shop/bin/shop") };

	must(kp_raw_put_process(&writer, &p, &err));
}

static void thread(uint32_t pid, uint32_t tid, const char *comm)
{
	struct kp_raw_thread t = { pid, tid, kp_raw_string(comm) };

	must(kp_raw_put_thread(&writer, &t, &err));
}

static void module(uint32_t pid, uint64_t start, uint64_t size, const char *path, const uint8_t *id)
{
	struct kp_raw_module m = {
		.pid = pid,
		.start = start,
		.end = start + size,
		.path = kp_raw_string(path),
		.build_id = { (const char *)id, id ? TINY_BUILD_ID_BYTES : 0 },
	};

	must(kp_raw_put_module(&writer, &m, &err));
}

static void image(void)
{
	static uint8_t bytes[8192];
	struct tiny_symbol symbol[F_COUNT];
	struct kp_raw_image i = { kp_raw_string("/opt/shop/bin/shop"), { (const char *)bytes, 0 } };

	for (uint32_t f = 0; f < F_COUNT; f++)
		symbol[f] = (struct tiny_symbol){ names[f], TINY_TEXT_OFFSET + 0x20u * f, 0x20 };
	i.bytes.len = (uint32_t)tiny_elf(bytes, sizeof(bytes), symbol, F_COUNT, shop_id);
	must(kp_raw_put_image(&writer, &i, &err));
}

static void clock_of(uint32_t source, uint32_t signal, uint64_t period_ns, const char *name)
{
	struct kp_raw_clock c = { .source = source,
				  .signal = signal,
				  .period_ns = period_ns,
				  .kernel = source == KP_SOURCE_TIMER ? 2 : 0,
				  .name = kp_raw_string(name) };

	must(kp_raw_put_clock(&writer, &c, &err));
}

struct shot {
	uint32_t pid, tid;
	enum kp_sample_source source;
	uint32_t overrun;
	enum kp_walk_end end;
};

static const struct shot on_main = { 100, 100, KP_SOURCE_EVENT, 0, KP_WALK_ROOT };
static const struct shot on_worker = { 100, 101, KP_SOURCE_EVENT, 0, KP_WALK_ROOT };

/* One sample; the addresses are leaf first and end with 0. */
static void sample(struct shot s, const uint64_t *pc)
{
	uint64_t period_ns = s.source == KP_SOURCE_EVENT ? PERIOD_NS : 4 * MS;
	struct kp_raw_sample r = { .pid = s.pid,
				   .tid = s.tid,
				   .weight_ns = period_ns * (1 + s.overrun),
				   .source = (uint8_t)s.source,
				   .walk_end = (uint8_t)s.end,
				   .overrun = s.overrun,
				   .pc = pc };

	while (pc[r.depth])
		r.depth++;
	must(kp_raw_put_sample(&writer, &r, &err));
}
#define PCS(...)                                                                                   \
	(const uint64_t[])                                                                         \
	{                                                                                          \
		__VA_ARGS__, 0                                                                     \
	}

/* status: as wait(2) gives it. */
static void end(uint32_t why, uint32_t status, uint64_t cpu_ns, struct kp_raw_lost lost)
{
	struct kp_raw_end e = {
		.window_ns = 10000 * MS,
		.cpu_ns = cpu_ns,
		.stop_attach_ns = 160000,
		.stop_detach_ns = 110000,
		.own_cpu_ns = 40 * MS,
		.why = why,
		.threads_seen = 3,
		.threads_unsampled = 1,
		.exit_status = status,
		.overruns = 2,
		.lost = lost,
	};

	must(kp_raw_put_lost(&writer, &lost, &err));
	must(kp_raw_put_end(&writer, &e, &err));
}

/* ---- scenarios ---- */

static void begin_shop(uint32_t mode)
{
	session(mode);
	process(100, "shop app;1");
	thread(100, 100, "shop app;1");
	thread(100, 101, "worker\n2");
	image();
	module(100, PLAIN, 0x101000, "/opt/shop/lib/libplain.so.1", plain_id);
	module(100, SHOP, 0x1000, "/opt/shop/bin/shop", shop_id);
	module(100, JIT, 0x1000, "//anon", NULL);
	clock_of(KP_SOURCE_EVENT, SIGNAL_URG, PERIOD_NS, "task-clock");
	clock_of(KP_SOURCE_TIMER, SIGNAL_PROF, 4 * MS, "cpu-timer");
}

/* A return address right behind the last instruction of main belongs to main, not to total. */
static void named_code(void)
{
	uint64_t start = code(F_START, 0x10), main_end = code(F_TOTAL, 0);

	for (int i = 0; i < 30; i++)
		sample(on_main, PCS(code(F_TOTAL, 4), main_end, start));
	for (int i = 0; i < 12; i++)
		sample(on_main, PCS(code(F_DROP, 8), code(F_TOTAL, 9), main_end, start));
	sample(on_main, PCS(code(F_PARSE, 0), main_end, start));
	sample(on_main, PCS(code(F_NEW, 1), code(F_PARSE, 7), main_end, start));
	sample(on_main, PCS(code(F_ODD, 1), main_end, start));
	for (int i = 0; i < 5; i++)
		sample(on_worker, PCS(code(F_FIB, 2), code(F_FIB, 9), code(F_FIB, 9)));
	/* Kernel time: another clock, with expirations that shared a signal. */
	sample((struct shot){ 100, 101, KP_SOURCE_TIMER, 2, KP_WALK_ROOT }, PCS(code(F_FIB, 2)));
}

static void unnamed_code(void)
{
	struct shot broken = on_main;

	broken.end = KP_WALK_MISALIGNED;
	/* libc below main has no frame pointer: whole all the same. */
	sample(broken, PCS(code(F_TOTAL, 4), code(F_MAIN, 9), PLAIN + 0x27000));
	sample(broken, PCS(code(F_TOTAL, 4), code(F_MAIN, 9), code(F_START, 9)));
	/* Not whole: nobody knows who called total. */
	sample(broken, PCS(PLAIN + 0x1230, code(F_TOTAL, 4)));
	sample(on_main, PCS(JIT + 0x40, JIT + 0x80, code(F_MAIN, 9), code(F_START, 9)));
	sample(on_main, PCS(NOWHERE, code(F_MAIN, 9), code(F_START, 9)));
	/* Before and after a dlopen that takes the end of libplain's range. */
	sample(on_main, PCS(PLUGIN + 0x10, code(F_MAIN, 9), code(F_START, 9)));
	module(100, PLUGIN, 0x1000, "/opt/shop/lib/plugin.so (deleted)", NULL);
	sample(on_main, PCS(PLUGIN + 0x10, code(F_MAIN, 9), code(F_START, 9)));
}

static void a_child(void)
{
	struct shot child = { 200, 200, KP_SOURCE_EVENT, 0, KP_WALK_ZERO_PC };

	process(200, "child");
	thread(200, 200, "child");
	module(200, SHOP, 0x1000, "/opt/shop/bin/shop", shop_id);
	sample(child, PCS(code(F_FIB, 2), code(F_MAIN, 9), code(F_START, 9)));
	/* Not mapped there. */
	sample(child, PCS(JIT + 0x40, code(F_MAIN, 9), code(F_START, 9)));
}

static void shop(void)
{
	begin_shop(KP_RAW_MODE_RUN);
	named_code();
	unnamed_code();
	a_child();
	end(KP_RAW_END_TARGET, 0, 80 * MS,
	    (struct kp_raw_lost){ .taken = 83, .kept = 60, .dropped_full = 20, .abandoned = 3 });
}

/* The daemon was killed: no END, and the last record lacks its second half (see main). */
static void cut(void)
{
	struct kp_raw_time t = { 3210 * MS };

	begin_shop(KP_RAW_MODE_ATTACH);
	must(kp_raw_put_time(&writer, &t, &err));
	named_code();
}

static void full(void)
{
	begin_shop(KP_RAW_MODE_ATTACH);
	sample(on_main, PCS(code(F_FIB, 2), code(F_MAIN, 9), code(F_START, 9)));
	end(KP_RAW_END_FULL, 0, 30 * MS,
	    (struct kp_raw_lost){ .taken = 30, .kept = 1, .dropped_cap = 29 });
}

static void idle(void)
{
	begin_shop(KP_RAW_MODE_ATTACH);
	end(KP_RAW_END_TIME, 0, 0, (struct kp_raw_lost){ 0 });
}

/* Samples of a thread, all in the same place. */
static void work(uint32_t pid, uint32_t tid, int count)
{
	struct shot shot = { pid, tid, KP_SOURCE_EVENT, 0, KP_WALK_ROOT };

	for (int i = 0; i < count; i++)
		sample(shot, PCS(code(F_FIB, 2), code(F_MAIN, 9), code(F_START, 9)));
}

static void start(uint32_t pid, const char *comm)
{
	process(pid, comm);
	thread(pid, pid, comm);
	module(pid, SHOP, 0x1000, "/opt/shop/bin/shop", shop_id);
}

/* Names that break lines, terminals, JSON or UTF-8, and a thread that nobody named. */
static void hostile_threads(void)
{
	thread(300, 301, "we/b 1;2"); /* its creator's name at first */
	work(300, 301, 1);
	thread(300, 301, "a/b-7;x\n\x1b[2J");
	work(300, 301, 6);
	thread(300, 302, "\xff\xfe caf\xc3\xa9");
	work(300, 302, 3);
	thread(300, 303, "");
	work(300, 303, 1);
	thread(300, 304, "\xc2\x9b\"q\"\\ \x7f");
	work(300, 304, 2);
	work(300, 305, 1);
}

/*
 * Threads and processes: two processes of one name, one of which executes another program; and two
 * threads that would have one spelling if a process's name could have a '/' there.
 */
static void crew(void)
{
	session(KP_RAW_MODE_RUN);
	start(300, "we/b 1;2");
	image();
	clock_of(KP_SOURCE_EVENT, SIGNAL_URG, PERIOD_NS, "task-clock");
	clock_of(KP_SOURCE_TIMER, SIGNAL_PROF, 4 * MS, "cpu-timer");
	sample((struct shot){ 300, 300, KP_SOURCE_TIMER, 1, KP_WALK_ROOT },
	       PCS(code(F_DROP, 2), code(F_MAIN, 9), code(F_START, 9)));
	hostile_threads();
	start(400, "we/b 1;2");
	work(400, 400, 2);
	thread(400, 401, "worker");
	work(400, 401, 5);
	process(400, "tool");
	thread(400, 400, "tool");
	work(400, 400, 4);
	start(1, "a");
	thread(1, 9, "b-2/c");
	work(1, 9, 1);
	start(2, "a-1/b");
	thread(2, 9, "c");
	work(2, 9, 1);
	end(KP_RAW_END_TARGET, 3u << 8, 36 * MS,
	    (struct kp_raw_lost){ .taken = 33, .kept = 28, .dropped_full = 3, .bad = 2 });
}

static const struct scenario {
	const char *name;
	void (*write)(void);
	long cut_bytes; /* taken off the end */
} scenarios[] = {
	{ "shop", shop, 0 }, { "cut", cut, 12 },  { "full", full, 0 },
	{ "idle", idle, 0 }, { "crew", crew, 0 },
};

static int build(const struct scenario *s, const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file) {
		perror(path);
		return 1;
	}
	writer = (struct kp_raw_writer){ to_file, file };
	s->write();
	if (fflush(file) != 0 || ftruncate(fileno(file), ftell(file) - s->cut_bytes) != 0 ||
	    fclose(file) != 0) {
		perror(path);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 3 && i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (strcmp(scenarios[i].name, argv[1]) == 0)
			return build(&scenarios[i], argv[2]);
	}
	fprintf(stderr, "usage: build SCENARIO FILE\n");
	return 2;
}
