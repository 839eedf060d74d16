/*
 * Writes a raw profile of one thread of one program: profile MODULE OUT OFFSET... MODULE is mapped
 * whole; each offset in it (hexadecimal) is the innermost frame of one sample, the first one its
 * caller.
 */
#include "proto/rawfile.h"
#include "common/unwind/fp.h"
#include "proto/ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EM_X86_64_NUMBER 62u
#define PID 100u
#define BASE UINT64_C(0x7f0000000000)
#define PERIOD_NS UINT64_C(1001001)

static struct kp_raw_writer writer;
static struct kp_err err;

static int to_file(void *ctx, const void *data, size_t size, struct kp_err *e)
{
	return fwrite(data, 1, size, ctx) == size ? 0 : kp_fail_errno(e, "cannot write");
}

static void must(int result)
{
	if (result < 0) {
		fprintf(stderr, "profile: %s\n", err.text);
		exit(1);
	}
}

static void begin(const char *path)
{
	struct kp_raw_session session = { .elf_machine = EM_X86_64_NUMBER,
					  .rate_mhz = 999000,
					  .depth = 128,
					  .mode = KP_RAW_MODE_ATTACH,
					  .command = kp_raw_string(""),
					  .host = kp_raw_string("test"),
					  .creator = kp_raw_string("test") };
	struct kp_raw_process process = { PID, 0, kp_raw_string("prog"), kp_raw_string(path) };
	struct kp_raw_thread thread = { PID, PID, kp_raw_string("prog") };
	struct kp_raw_module module = { .pid = PID,
					.start = BASE,
					.end = BASE + ((uint64_t)1 << 40),
					.path = kp_raw_string(path) };
	struct kp_raw_clock clock = { .source = KP_SOURCE_EVENT,
				      .signal = 23,
				      .period_ns = PERIOD_NS,
				      .name = kp_raw_string("task-clock") };

	must(kp_raw_put_header(&writer, &err));
	must(kp_raw_put_session(&writer, &session, &err));
	must(kp_raw_put_process(&writer, &process, &err));
	must(kp_raw_put_thread(&writer, &thread, &err));
	must(kp_raw_put_module(&writer, &module, &err));
	must(kp_raw_put_clock(&writer, &clock, &err));
}

static void sample(uint64_t leaf, uint64_t caller)
{
	uint64_t pc[] = { BASE + leaf, BASE + caller + 1 };
	struct kp_raw_sample s = { .pid = PID,
				   .tid = PID,
				   .weight_ns = PERIOD_NS,
				   .source = KP_SOURCE_EVENT,
				   .walk_end = KP_WALK_ROOT,
				   .depth = 2,
				   .pc = pc };

	must(kp_raw_put_sample(&writer, &s, &err));
}

static void end(uint64_t samples)
{
	struct kp_raw_lost lost = { .taken = samples, .kept = samples };
	struct kp_raw_end e = { .window_ns = samples * PERIOD_NS,
				.cpu_ns = samples * PERIOD_NS,
				.why = KP_RAW_END_TIME,
				.threads_seen = 1,
				.lost = lost };

	must(kp_raw_put_lost(&writer, &lost, &err));
	must(kp_raw_put_end(&writer, &e, &err));
}

int main(int argc, char **argv)
{
	FILE *out = argc > 3 ? fopen(argv[2], "w") : NULL;
	uint64_t caller;

	if (!out) {
		fputs("profile: profile MODULE OUT OFFSET...\n", stderr);
		return 1;
	}
	caller = strtoull(argv[3], NULL, 16);
	writer = (struct kp_raw_writer){ to_file, out };
	begin(argv[1]);
	for (int i = 3; i < argc; i++)
		sample(strtoull(argv[i], NULL, 16), caller);
	end((uint64_t)argc - 3);
	return fclose(out) == 0 ? 0 : 1;
}
