/* Workers that crash, hang, run out of memory or of time, in place of the real look-up. */
#include "daemon/symbol/crew.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNT 5000u

static struct kp_arena arena;
static uint64_t offset[2][COUNT];
static struct kp_frames frames[2][COUNT];
static struct kp_crew_job job[2];

/* What a module does at an offset. */
static struct fate {
	uint64_t from, to; /* offsets */
	enum { CRASHES, HANGS, EXITS, TAKES_MEMORY, LIES } how;
} fate[2];

static void meet(const struct fate *f, uint64_t at)
{
	static const char lie[64] = { 0 };

	if (at < f->from || at >= f->to)
		return;
	if (f->how == CRASHES)
		raise(SIGKILL); /* no sanitizer and no core file has a say in this one */
	if (f->how == EXITS)
		_exit(3);
	while (f->how == HANGS)
		pause();
	/* On whatever its socket is: a result that nobody asked for in this form. */
	for (int fd = 0; f->how == LIES && fd < 16; fd++)
		if (write(fd, lie, sizeof(lie)) < 0)
			continue;
}

static int look_up(void *ctx, uint32_t module, uint64_t at, struct kp_frames *ret,
		   struct kp_err *err)
{
	static struct kp_frame frame = { "f", "f", NULL, 0, 0, false };

	(void)ctx;
	meet(&fate[module], at);
	if (fate[module].how == TAKES_MEMORY && at >= fate[module].from && at < fate[module].to)
		return kp_fail_nomem(err);
	*ret = (struct kp_frames){ &frame, 1, at + 1 };
	return 0;
}

static const char *note(void *ctx, uint32_t module)
{
	(void)ctx;
	return module ? "second" : NULL;
}

static const struct kp_crew_options options = {
	.work = { .look_up = look_up, .note = note },
	.arena = &arena,
	.workers = 2,
	.timeout_ms = 5000,
};

static void begin(uint32_t first, uint32_t second)
{
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned j = 0; j < COUNT; j++)
			offset[i][j] = 10 * (uint64_t)j;
		job[i] = (struct kp_crew_job){ .module = i,
					       .offset = offset[i],
					       .frames = frames[i],
					       .count = i ? second : first };
	}
}

static void run(const struct kp_crew_options *o)
{
	struct kp_err err = { .text = "" };

	cr_assert_eq(kp_crew_run(o, job, 2, &err), 0, "%s", err.text);
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(job[i].answered + job[i].lost + job[i].late, job[i].count);
}

/* How many have their own answer; none may have another one. */
static uint32_t right(unsigned i)
{
	uint32_t n = 0;

	for (unsigned j = 0; j < job[i].count; j++) {
		if (!frames[i][j].count)
			continue;
		cr_assert_eq(frames[i][j].address, offset[i][j] + 1);
		cr_assert_str_eq(frames[i][j].frame[0].name, "f");
		n++;
	}
	return n;
}

static void end(void)
{
	cr_assert_eq(right(0), job[0].answered);
	cr_assert_eq(right(1), job[1].answered);
	kp_arena_deinit(&arena);
}

Test(crew, answers_everything)
{
	begin(COUNT, 3);
	run(&options);
	cr_assert_eq(job[0].answered, COUNT);
	cr_assert_eq(job[1].answered, 3);
	cr_assert_null(job[0].note);
	cr_assert_str_eq(job[1].note, "second");
	end();
}

Test(crew, does_nothing_where_nothing_is_asked)
{
	begin(0, 0);
	run(&options);
	end();
}

Test(crew, loses_the_one_address_that_ends_a_worker)
{
	begin(COUNT, 3);
	fate[0] = (struct fate){ 12340, 12341, CRASHES };
	run(&options);
	cr_assert_eq(job[0].lost, 1);
	cr_assert_eq(frames[0][1234].count, 0);
	cr_assert_eq(job[0].answered, COUNT - 1);
	cr_assert_eq(job[1].answered, 3);
	cr_assert_not_null(strstr(job[0].why, "signal 9"));
	end();
}

Test(crew, passes_a_damaged_part)
{
	begin(COUNT, 3);
	fate[0] = (struct fate){ 12000, 12400, EXITS };
	run(&options);
	cr_assert_geq(job[0].lost, 40);
	cr_assert_leq(job[0].lost, 100);
	cr_assert_eq(job[1].answered, 3);
	cr_assert_not_null(strstr(job[0].why, "status 3"));
	end();
}

Test(crew, leaves_a_module_alone_that_cannot_be_opened)
{
	begin(COUNT, COUNT);
	fate[0] = (struct fate){ 0, UINT64_MAX, CRASHES };
	run(&options);
	cr_assert_eq(job[0].lost, COUNT);
	cr_assert_eq(job[1].answered, COUNT);
	end();
}

Test(crew, leaves_a_module_alone_that_hangs)
{
	begin(COUNT, COUNT);
	fate[0] = (struct fate){ 20000, UINT64_MAX, HANGS };
	run(&options);
	cr_assert_geq(job[0].lost, 1);
	cr_assert_leq(job[0].answered, 2000);
	cr_assert_eq(job[1].answered, COUNT);
	cr_assert_not_null(strstr(job[0].why, "too long"));
	end();
}

Test(crew, leaves_a_module_alone_that_takes_too_much_memory)
{
	begin(COUNT, COUNT);
	fate[0] = (struct fate){ 0, UINT64_MAX, TAKES_MEMORY };
	run(&options);
	cr_assert_eq(job[0].lost, COUNT);
	cr_assert_eq(job[1].answered, COUNT);
	end();
}

Test(crew, does_not_believe_a_worker)
{
	begin(COUNT, 3);
	fate[0] = (struct fate){ 30000, 30001, LIES };
	run(&options);
	cr_assert_geq(job[0].lost, 1);
	cr_assert_eq(job[1].answered, 3);
	end();
}

static int look_up_slowly(void *ctx, uint32_t module, uint64_t at, struct kp_frames *ret,
			  struct kp_err *err)
{
	while (at >= 40000)
		pause();
	return look_up(ctx, module, at, ret, err);
}

Test(crew, stops_when_the_time_is_over_and_keeps_what_it_has)
{
	struct kp_crew_options o = options;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	begin(COUNT, 3);
	o.work.look_up = look_up_slowly;
	o.timeout_ms = 0;
	o.deadline_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + 500000000;
	run(&o);
	cr_assert_geq(job[0].late, 1000);
	cr_assert_eq(job[0].lost, 0);
	end();
}

static void count_calls(void *ctx, size_t jobs_done, uint64_t answered)
{
	uint64_t *last = ctx;

	cr_assert_leq(jobs_done, 2);
	cr_assert_geq(answered, *last);
	*last = answered;
}

Test(crew, tells_how_far_it_is)
{
	struct kp_crew_options o = options;
	uint64_t last = 0;

	begin(COUNT, 3);
	o.progress = count_calls;
	o.progress_ctx = &last;
	run(&o);
	cr_assert_eq(last, COUNT + 3);
	end();
}
