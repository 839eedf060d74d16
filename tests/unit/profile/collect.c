/*
 * Unit tests of the collector: raw profiles built in memory, with an ELF image that gives names.
 */
#include "daemon/profile/collect.h"
#include "common/unwind/fp.h"
#include "proto/ring.h"
#include "tests/golden/tiny_elf.h"
#include "tests/support/test.h"
#include "tests/unit/profile/raw_memory.h"

#include <stdio.h>

#define APP UINT64_C(0x555500000000)
#define LIB UINT64_C(0x7f0000000000)

static const uint8_t app_id[TINY_BUILD_ID_BYTES] = "collect's own id";
static struct kp_err err;
static struct raw_memory *raw;

/* The functions of app, 0x10 bytes each. */
enum { START, MAIN, WORK, LEAF, FUNCTIONS };

static uint64_t code(uint32_t function, uint32_t offset)
{
	return APP + TINY_TEXT_OFFSET + 0x10 * function + offset;
}

static void process(uint32_t pid, const char *comm, const char *exe)
{
	struct kp_raw_process r = { pid, 0, kp_raw_string(comm), kp_raw_string(exe) };

	cr_assert_eq(kp_raw_put_process(&raw->writer, &r, &err), 0);
}

static void thread(uint32_t pid, uint32_t tid, const char *comm)
{
	struct kp_raw_thread r = { pid, tid, kp_raw_string(comm) };

	cr_assert_eq(kp_raw_put_thread(&raw->writer, &r, &err), 0);
}

static void module(uint32_t pid, uint64_t start, uint64_t end, const char *path)
{
	struct kp_raw_module r = {
		.pid = pid, .start = start, .end = end, .path = kp_raw_string(path)
	};

	if (strcmp(path, "/no/app") == 0)
		r.build_id = (struct kp_raw_string){ (const char *)app_id, sizeof(app_id) };
	cr_assert_eq(kp_raw_put_module(&raw->writer, &r, &err), 0);
}

static void image_of(const char *path)
{
	static const char *const name[FUNCTIONS] = { "_start", "main", "work", "leaf" };
	static uint8_t bytes[4096];
	struct tiny_symbol symbol[FUNCTIONS];
	struct kp_raw_image r = { kp_raw_string(path), { (const char *)bytes, 0 } };

	for (uint32_t i = 0; i < FUNCTIONS; i++)
		symbol[i] = (struct tiny_symbol){ name[i], TINY_TEXT_OFFSET + 0x10 * i, 0x10 };
	r.bytes.len = (uint32_t)tiny_elf(bytes, sizeof(bytes), symbol, FUNCTIONS, app_id);
	cr_assert_gt(r.bytes.len, 0);
	cr_assert_eq(kp_raw_put_image(&raw->writer, &r, &err), 0);
}

/* Process 1, thread 1, app with names and a library without. */
static void begin(void)
{
	raw = raw_memory_create();
	process(1, "app", "/no/app");
	thread(1, 1, "app");
	image_of("/no/app");
	module(1, LIB, LIB + 0x10000, "/no/lib.so");
	module(1, APP, APP + 0x1000, "/no/app");
}

static void symbol(uint32_t pid, uint64_t start, uint64_t end, const char *name)
{
	struct kp_raw_symbol r = { pid, start, end, kp_raw_string(name) };

	cr_assert_eq(kp_raw_put_symbol(&raw->writer, &r, &err), 0);
}

/* Leaf first, up to 0. */
static void sample(uint32_t pid, uint32_t tid, enum kp_walk_end end, const uint64_t *pc)
{
	struct kp_raw_sample r = { .pid = pid,
				   .tid = tid,
				   .weight_ns = 1000,
				   .source = KP_SOURCE_TIMER,
				   .walk_end = (uint8_t)end,
				   .pc = pc };

	while (pc[r.depth])
		r.depth++;
	cr_assert_eq(kp_raw_put_sample(&raw->writer, &r, &err), 0);
}
#define PCS(...)                                                                                   \
	(const uint64_t[])                                                                         \
	{                                                                                          \
		__VA_ARGS__, 0                                                                     \
	}

static void end(uint64_t kept)
{
	struct kp_raw_end r = { .window_ns = 5000, .why = KP_RAW_END_TIME };

	r.lost = (struct kp_raw_lost){ .taken = kept + 7,
				       .kept = kept,
				       .dropped_full = 4,
				       .dropped_cap = 1,
				       .abandoned = 1,
				       .bad = 1 };
	cr_assert_eq(kp_raw_put_end(&raw->writer, &r, &err), 0);
}

static char remarks[4096];

static void remark(void *ctx, const char *line)
{
	(void)ctx;
	strcat(strcat(remarks, line), "\n");
}

static struct kp_profile *collect(void)
{
	static const char *const no_dirs[] = { NULL };
	struct kp_collect_options options = { .name = "test.kitprof",
					      .debug_dirs = no_dirs,
					      .remark = remark };
	struct kp_profile *p = NULL;

	remarks[0] = 0;
	cr_assert_eq(kp_collect(raw->words, raw->size, &options, &p, &err), 0);
	return p;
}

/* The stack of a sample as text, root first: "main;work", with a "+" for each further line. */
static const char *path(const struct kp_profile *p, uint32_t number)
{
	static char text[4096];
	uint32_t stack = p->samples[number].stack;

	text[0] = 0;
	for (; stack; stack = p->stacks[stack].parent) {
		const struct kp_location *l = &p->locations[p->stacks[stack].location];
		char longer[sizeof(text)];

		cr_assert_eq(l->line_count, 1);
		snprintf(longer, sizeof(longer), "%s%s%.2000s",
			 p->strings[p->functions[p->lines[l->first_line].function].name],
			 *text ? ";" : "", text);
		strcpy(text, longer);
	}
	return text;
}

static void finish(struct kp_profile *p)
{
	kp_profile_destroy(p);
	free(raw);
}

Test(collect, names_the_leaf_by_its_pc_and_callers_by_the_call)
{
	struct kp_profile *p;

	begin();
	/* A call at the end of main returns to the first byte of work. */
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 0), code(WORK, 0), code(MAIN, 1)));
	end(1);
	p = collect();
	cr_assert_str_eq(path(p, 0), "main;main;leaf");
	cr_assert_eq(p->locations[p->stacks[p->samples[0].stack].location].address, code(LEAF, 0));
	cr_assert_eq(p->samples[0].value[0], 1);
	cr_assert_eq(p->samples[0].value[1], 1000);
	cr_assert_eq(p->default_value, 1);
	finish(p);
}

Test(collect, shows_code_without_names)
{
	struct kp_profile *p;

	begin();
	module(1, 0x10000, 0x20000, "//anon");
	module(1, 0x30000, 0x40000, "[vdso]");
	module(1, 0x50000, 0x60000, "/no/gone.so (deleted)");
	sample(1, 1, KP_WALK_ROOT, PCS(LIB + 0x123));
	sample(1, 1, KP_WALK_ROOT, PCS(0x10020));
	sample(1, 1, KP_WALK_ROOT, PCS(0x30040));
	sample(1, 1, KP_WALK_ROOT, PCS(0x50040));
	sample(1, 1, KP_WALK_ROOT, PCS(0x70000));
	sample(1, 1, KP_WALK_ROOT, PCS(0x80000, code(MAIN, 2)));
	end(6);
	p = collect();
	cr_assert_str_eq(path(p, 0), "[truncated];[lib.so+0x123]");
	cr_assert_str_eq(path(p, 1), "[truncated];[anon]");
	cr_assert_str_eq(path(p, 2), "[truncated];[vdso+0x40]");
	cr_assert_str_eq(path(p, 3), "[truncated];[gone.so+0x40]");
	cr_assert_str_eq(path(p, 4), "[truncated];[unknown]");
	cr_assert_str_eq(path(p, 5), "main;[unknown]");
	cr_assert_eq(p->truth.frames, 7);
	cr_assert_eq(p->truth.unnamed_frames, 6);
	cr_assert_eq(p->truth.truncated, 5);
	cr_assert_not_null(strstr(remarks, "/no/lib.so"));
	cr_assert_null(strstr(remarks, "anon"));
	finish(p);
}

Test(collect, tells_functions_of_one_name_in_two_modules_apart)
{
	const uint64_t twin = LIB + 0x100000;
	struct kp_profile *p;
	uint32_t named_main = 0;

	begin();
	image_of("/no/twin");
	module(1, twin, twin + 0x1000, "/no/twin");
	sample(1, 1, KP_WALK_ROOT, PCS(code(MAIN, 2), code(START, 4)));
	sample(1, 1, KP_WALK_ROOT, PCS(code(MAIN, 5), code(START, 4)));
	sample(1, 1, KP_WALK_ROOT, PCS(code(MAIN, 2) - APP + twin, code(START, 4)));
	end(3);
	p = collect();
	for (uint32_t i = 0; i < p->function_count; i++)
		named_main += strcmp(p->strings[p->functions[i].name], "main") == 0;
	cr_assert_eq(named_main, 2);
	cr_assert_str_eq(path(p, 2), "_start;main");
	finish(p);
}

Test(collect, names_what_programs_compile_for_themselves)
{
	struct kp_profile *p;

	begin();
	process(2, "other", "/no/app");
	module(1, 0x10000, 0x20000, "//anon");
	module(2, 0x10000, 0x20000, "//anon");
	sample(1, 1, KP_WALK_ROOT, PCS(0x10020, code(MAIN, 2)));
	sample(1, 1, KP_WALK_ROOT, PCS(0x10050));
	sample(1, 1, KP_WALK_ROOT, PCS(0x10080));
	sample(1, 1, KP_WALK_ROOT, PCS(0x10100));
	sample(2, 2, KP_WALK_ROOT, PCS(0x10020, code(MAIN, 2)));
	/* Its space grows; what was sampled before is still there. */
	module(1, 0x10000, 0x30000, "//anon");
	sample(1, 1, KP_WALK_ROOT, PCS(0x10020, code(MAIN, 2)));
	symbol(1, 0x10000, 0x10100, "JS:old");
	symbol(1, 0x10040, 0x10060, "JS:new \xff;");
	symbol(2, 0x10000, 0x10100, "of another");
	/* A name for code in a file is not asked for. */
	symbol(1, LIB, LIB + 0x1000, "wrong");
	sample(1, 1, KP_WALK_ROOT, PCS(LIB + 0x20, code(MAIN, 2)));
	end(7);
	p = collect();
	cr_assert_str_eq(path(p, 0), "main;JS:old");
	cr_assert_str_eq(path(p, 1), "[truncated];JS:new \\xff;");
	cr_assert_str_eq(path(p, 2), "[truncated];JS:old");
	cr_assert_str_eq(path(p, 3), "[truncated];[anon]");
	cr_assert_str_eq(path(p, 4), "[truncated];of another");
	cr_assert_str_eq(path(p, 5), "main;JS:old");
	cr_assert_str_eq(path(p, 6), "main;[lib.so+0x20]");
	finish(p);
}

Test(collect, later_module_replaces_from_there_on)
{
	struct kp_profile *p;

	begin();
	sample(1, 1, KP_WALK_ROOT, PCS(LIB + 0x2010));
	module(1, LIB + 0x2000, LIB + 0x3000, "/no/plugin.so");
	sample(1, 1, KP_WALK_ROOT, PCS(LIB + 0x2010));
	sample(1, 1, KP_WALK_ROOT, PCS(LIB + 0x3010));
	end(3);
	p = collect();
	cr_assert_str_eq(path(p, 0), "[truncated];[lib.so+0x2010]");
	cr_assert_str_eq(path(p, 1), "[truncated];[plugin.so+0x10]");
	cr_assert_str_eq(path(p, 2), "[truncated];[lib.so+0x3010]");
	finish(p);
}

Test(collect, exec_of_another_program_forgets_what_was_mapped)
{
	struct kp_profile *p;

	begin();
	sample(1, 1, KP_WALK_ROOT, PCS(LIB + 0x10));
	process(1, "renamed", "/no/app");
	sample(1, 1, KP_WALK_ROOT, PCS(LIB + 0x10));
	process(1, "other", "/no/other");
	sample(1, 1, KP_WALK_ROOT, PCS(LIB + 0x10));
	end(3);
	p = collect();
	cr_assert_eq(p->sample_count, 3);
	cr_assert_str_eq(path(p, 1), "[truncated];[lib.so+0x10]");
	cr_assert_str_eq(p->strings[p->labels[p->samples[1].label].comm], "renamed");
	cr_assert_str_eq(path(p, 2), "[truncated];[unknown]");
	cr_assert_str_eq(p->strings[p->truth.main_comm], "app");
	finish(p);
}

Test(collect, with_all_no_process_is_the_target)
{
	struct kp_raw_session session = { .mode = KP_RAW_MODE_ALL, .depth = 64 };
	struct kp_profile *p;

	raw = raw_memory_create();
	cr_assert_eq(kp_raw_put_session(&raw->writer, &session, &raw->err), 0);
	process(1, "app", "/no/app");
	module(1, LIB, LIB + 0x10000, "/no/lib.so");
	sample(1, 1, KP_WALK_ROOT, PCS(LIB + 0x10));
	end(1);
	p = collect();
	cr_assert_str_eq(p->strings[p->truth.main_comm], "all processes");
	cr_assert_eq(p->truth.main_pid, 0);
	cr_assert_str_eq(p->strings[p->labels[p->samples[0].label].comm], "app");
	finish(p);
}

Test(collect, processes_have_their_own_address_spaces)
{
	struct kp_profile *p;

	begin();
	process(2, "child", "/no/app");
	module(2, APP, APP + 0x1000, "/no/app");
	sample(2, 2, KP_WALK_ROOT, PCS(code(LEAF, 1)));
	sample(2, 2, KP_WALK_ROOT, PCS(LIB + 1));
	sample(3, 3, KP_WALK_ROOT, PCS(code(LEAF, 1))); /* of a process that nobody told of */
	end(3);
	p = collect();
	cr_assert_str_eq(path(p, 0), "[truncated];leaf");
	cr_assert_str_eq(path(p, 1), "[truncated];[unknown]");
	cr_assert_str_eq(path(p, 2), "[truncated];[unknown]");
	cr_assert_str_eq(p->strings[p->labels[p->samples[0].label].thread_name], "child");
	cr_assert_eq(p->labels[p->samples[2].label].pid, 3);
	cr_assert_eq(p->labels[p->samples[2].label].comm, 0);
	finish(p);
}

/* One place in a file, mapped at two addresses: looked up once, named at both. */
Test(collect, names_a_file_that_is_mapped_at_several_addresses)
{
	const uint64_t moved = UINT64_C(0x1000000000);
	struct kp_profile *p;

	begin();
	process(2, "child", "/no/app");
	module(2, APP + moved, APP + moved + 0x1000, "/no/app");
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1), code(WORK, 2)));
	sample(2, 2, KP_WALK_ROOT, PCS(code(LEAF, 1) + moved, code(WORK, 2) + moved));
	sample(2, 2, KP_WALK_ROOT, PCS(code(MAIN, 1) + moved));
	end(3);
	p = collect();
	cr_assert_str_eq(path(p, 0), "work;leaf");
	cr_assert_str_eq(path(p, 1), "work;leaf");
	cr_assert_str_eq(path(p, 2), "[truncated];main");
	cr_assert_neq(p->samples[0].stack, p->samples[1].stack);
	cr_assert_eq(p->mapping_count, 3);
	finish(p);
}

/* What the walk took for a return address, where code has no frame pointers. */
Test(collect, stack_ends_before_a_caller_that_cannot_be_code)
{
	struct kp_profile *p;

	begin();
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1), code(WORK, 2), 0x7000, code(MAIN, 3)));
	sample(1, 1, KP_WALK_ROOT, PCS(0x7000, code(MAIN, 3), code(START, 2)));
	end(2);
	p = collect();
	cr_assert_str_eq(path(p, 0), "[truncated];work;leaf");
	cr_assert_str_eq(path(p, 1), "_start;main;[unknown]");
	cr_assert_eq(p->truth.truncated, 1);
	finish(p);
}

/* A register that happens to be 0 is no chain of frames that ended. */
Test(collect, lone_frame_is_whole_only_where_it_is_a_root)
{
	struct kp_profile *p;

	begin();
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1)));
	sample(1, 1, KP_WALK_ROOT, PCS(code(START, 1)));
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1), code(WORK, 2)));
	end(3);
	p = collect();
	cr_assert_str_eq(path(p, 0), "[truncated];leaf");
	cr_assert_str_eq(path(p, 1), "_start");
	cr_assert_str_eq(path(p, 2), "work;leaf");
	finish(p);
}

Test(collect, forked_child_starts_with_what_its_parent_had_mapped)
{
	struct kp_raw_process child = { 2, 1, kp_raw_string("app"), kp_raw_string("/no/app") };
	struct kp_profile *p;

	begin();
	cr_assert_eq(kp_raw_put_process(&raw->writer, &child, &err), 0);
	module(1, LIB, LIB + 0x1000, "/no/later.so");
	sample(2, 2, KP_WALK_ROOT, PCS(code(LEAF, 1), code(MAIN, 2)));
	sample(2, 2, KP_WALK_ROOT, PCS(LIB + 1, code(MAIN, 2)));
	end(2);
	p = collect();
	cr_assert_str_eq(path(p, 0), "main;leaf");
	cr_assert_str_eq(path(p, 1), "main;[lib.so+0x1]");
	finish(p);
}

Test(collect, a_thread_bears_its_name_of_the_time)
{
	struct kp_profile *p;

	begin();
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1)));
	thread(1, 1, "busy");
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1)));
	end(2);
	p = collect();
	cr_assert_eq(p->sample_count, 2);
	cr_assert_eq(p->samples[0].stack, p->samples[1].stack);
	cr_assert_str_eq(p->strings[p->labels[p->samples[0].label].thread_name], "app");
	cr_assert_str_eq(p->strings[p->labels[p->samples[1].label].thread_name], "busy");
	finish(p);
}

/* The rule of collect.c: whole by how the walk ended, or by what the outermost frames are. */
Test(collect, marks_stacks_that_are_not_whole)
{
	struct kp_profile *p;

	begin();
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1), code(WORK, 1)));
	sample(1, 1, KP_WALK_ZERO_PC, PCS(code(LEAF, 2), code(WORK, 1)));
	sample(1, 1, KP_WALK_MISALIGNED, PCS(code(LEAF, 3), code(WORK, 1)));
	sample(1, 1, KP_WALK_DEPTH, PCS(code(LEAF, 4), code(WORK, 1)));
	sample(1, 1, KP_WALK_UNREADABLE, PCS(code(LEAF, 5), code(START, 2)));
	sample(1, 1, KP_WALK_BAD_PC, PCS(code(LEAF, 6), code(MAIN, 2), LIB + 5));
	sample(1, 1, KP_WALK_TOO_FAR, PCS(code(LEAF, 7), code(MAIN, 2)));
	sample(1, 1, KP_WALK_TOO_FAR, PCS(code(MAIN, 3)));
	end(8);
	p = collect();
	cr_assert_str_eq(path(p, 0), "work;leaf");
	cr_assert_str_eq(path(p, 1), "work;leaf");
	cr_assert_str_eq(path(p, 2), "[truncated];work;leaf");
	cr_assert_str_eq(path(p, 3), "[truncated];work;leaf");
	cr_assert_str_eq(path(p, 4), "_start;leaf");
	cr_assert_str_eq(path(p, 5), "[lib.so+0x4];main;leaf");
	cr_assert_str_eq(path(p, 6), "[truncated];main;leaf");
	cr_assert_str_eq(path(p, 7), "[truncated];main");
	cr_assert_eq(p->truth.truncated, 4);
	cr_assert_eq(p->truth.frames, 16);
	finish(p);
}

/* Only there, and only those that end in code which it may have compiled. */
Test(collect, counts_stacks_that_are_cut_in_java)
{
	static const char *const library[] = { "/no/jvm.so", "/jdk/lib/server/libjvm.so" };

	for (unsigned i = 0; i < 2; i++) {
		struct kp_profile *p;

		begin();
		module(1, 0x10000, 0x20000, "//anon");
		module(1, LIB + 0x20000, LIB + 0x30000, library[i]);
		sample(1, 1, KP_WALK_NO_RULE, PCS(0x10010));
		sample(1, 1, KP_WALK_NOT_ADVANCING, PCS(code(LEAF, 1), 0x10010));
		sample(1, 1, KP_WALK_DEPTH, PCS(0x10010));
		sample(1, 1, KP_WALK_NO_RULE, PCS(0x10010, LIB + 0x10));
		sample(1, 1, KP_WALK_ROOT, PCS(0x10010, code(MAIN, 1), code(START, 1)));
		end(5);
		p = collect();
		cr_assert_eq(p->truth.truncated, 4);
		cr_assert_eq(p->truth.truncated_java, i ? 2 : 0);
		kp_profile_destroy(p);
		free(raw);
	}
}

Test(collect, puts_the_program_first_among_the_mappings)
{
	struct kp_profile *p;

	begin();
	sample(1, 1, KP_WALK_ROOT, PCS(LIB + 0x10));
	end(1);
	p = collect();
	cr_assert_eq(p->mapping_count, 3);
	cr_assert_str_eq(p->strings[p->mappings[1].filename], "/no/app");
	cr_assert_eq(p->mappings[1].start, APP);
	cr_assert_str_eq(p->strings[p->mappings[1].build_id],
			 "636f6c6c6563742773206f776e20696400000000");
	cr_assert_str_eq(p->strings[p->mappings[2].filename], "/no/lib.so");
	finish(p);
}

Test(collect, takes_what_was_mapped_first_for_a_program_that_is_not_mapped)
{
	struct kp_profile *p;

	raw = raw_memory_create();
	process(1, "app", "/no/other");
	module(1, LIB, LIB + 0x1000, "/no/lib.so");
	module(1, APP, APP + 0x1000, "/no/app");
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1)));
	end(1);
	p = collect();
	cr_assert_str_eq(p->strings[p->mappings[1].filename], "/no/lib.so");
	cr_assert_str_eq(p->strings[p->mappings[2].filename], "/no/app");
	finish(p);
}

Test(collect, accounts_for_what_was_lost)
{
	struct kp_raw_clock clock = { .source = KP_SOURCE_TIMER,
				      .signal = 27,
				      .period_ns = 1000,
				      .name = kp_raw_string("cpu-timer") };
	struct kp_profile *p;

	begin();
	cr_assert_eq(kp_raw_put_clock(&raw->writer, &clock, &err), 0);
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1)));
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1)));
	end(2);
	p = collect();
	cr_assert_eq(p->truth.kept, 2);
	cr_assert_eq(p->truth.taken, 9);
	cr_assert_eq(p->truth.dropped_full, 4);
	cr_assert_eq(p->truth.explained_ns, 2000);
	cr_assert_eq(p->truth.why, KP_END_TIME);
	cr_assert_eq(p->truth.clock_count, 1);
	cr_assert_eq(p->truth.clock[0].samples, 2);
	cr_assert_str_eq(p->strings[p->truth.clock[0].name], "cpu-timer");
	cr_assert_str_eq(remarks, "");
	finish(p);
}

/* Sums that would not fit into 64 bits do not turn into small numbers. */
static void timed_sample(enum kp_sample_source source, uint64_t weight_ns, uint32_t overrun)
{
	struct kp_raw_sample r = { .pid = 1,
				   .tid = 1,
				   .weight_ns = weight_ns,
				   .source = (uint8_t)source,
				   .overrun = overrun,
				   .depth = 1,
				   .pc = PCS(APP + 0x10) };

	cr_assert_eq(kp_raw_put_sample(&raw->writer, &r, &err), 0);
}

Test(collect, time_waited_is_wall_time_and_no_cpu_time)
{
	struct kp_raw_clock timer = { .source = KP_SOURCE_TIMER,
				      .signal = 23,
				      .period_ns = 1000,
				      .name = kp_raw_string("cpu-timer") };
	struct kp_raw_clock wall = { .source = KP_SOURCE_WAIT,
				     .period_ns = 1000,
				     .name = kp_raw_string("wall") };
	struct kp_profile *p;

	begin();
	cr_assert_eq(kp_raw_put_clock(&raw->writer, &timer, &err), 0);
	cr_assert_eq(kp_raw_put_clock(&raw->writer, &wall, &err), 0);
	timed_sample(KP_SOURCE_TIMER, 3000, 2);
	timed_sample(KP_SOURCE_STOP, 1000, 0);
	timed_sample(KP_SOURCE_WAIT, 50000, 49);
	p = collect();
	cr_assert_eq(p->value_count, 3);
	cr_assert_eq(kp_profile_value(p, "wall"), p->default_value);
	cr_assert_eq(p->sample_count, 1);
	cr_assert_eq(p->samples[0].value[kp_profile_value(p, "samples")], 3);
	cr_assert_eq(p->samples[0].value[kp_profile_value(p, "wall")], 54000);
	cr_assert_eq(p->samples[0].value[kp_profile_value(p, "cpu")], 4000);
	cr_assert(p->truth.wall);
	cr_assert_eq(p->truth.explained_ns, 4000);
	cr_assert_eq(p->truth.waited_ns, 50000);
	cr_assert_eq(p->truth.waits, 1);
	cr_assert_eq(p->truth.overruns, 2);
	finish(p);
}

Test(collect, takes_no_absurd_losses)
{
	struct kp_raw_lost lost = { .dropped_full = UINT64_MAX, .abandoned = UINT64_MAX, .bad = 3 };
	struct kp_profile *p;

	begin();
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1)));
	cr_assert_eq(kp_raw_put_lost(&raw->writer, &lost, &err), 0);
	p = collect();
	cr_assert_eq(p->truth.dropped_full, UINT64_C(1) << 60);
	cr_assert_eq(p->truth.abandoned, UINT64_C(1) << 60);
	cr_assert_eq(p->truth.bad, 3);
	cr_assert_eq(p->truth.taken, (UINT64_C(1) << 61) + 4);
	finish(p);
}

Test(collect, says_when_samples_are_missing_from_the_file)
{
	struct kp_profile *p;

	begin();
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1)));
	end(3);
	p = collect();
	cr_assert_eq(p->truth.kept, 1);
	cr_assert_not_null(strstr(remarks, "has 1 samples, but its END record speaks of 3"));
	finish(p);
}

/* Whatever is left of a file, it gives a profile of it or a plain refusal, and a remark. */
Test(collect, shows_what_every_prefix_of_a_file_has)
{
	static const char *const no_dirs[] = { NULL };
	struct kp_collect_options options = { .name = "test.kitprof",
					      .debug_dirs = no_dirs,
					      .remark = remark };
	uint64_t samples = 0;

	begin();
	for (int i = 0; i < 3; i++)
		sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1), code(MAIN, 1)));
	end(3);
	for (size_t size = 0; size < raw->size; size++) {
		struct kp_profile *p = NULL;
		int r;

		remarks[0] = 0;
		r = kp_collect(raw->words, size, &options, &p, &err);
		if (size < sizeof(struct kp_raw_file_header)) {
			cr_assert_eq(r, -KP_EBADDATA);
			continue;
		}
		cr_assert_eq(r, 0);
		cr_assert_not_null(strstr(remarks, "test.kitprof"));
		cr_assert_not_null(strstr(remarks, "offset"));
		cr_assert_eq(p->truth.why, KP_END_CUT_OFF);
		cr_assert_geq(p->truth.kept, samples);
		samples = p->truth.kept;
		kp_profile_destroy(p);
	}
	cr_assert_eq(samples, 3);
	free(raw);
}

Test(collect, shows_what_comes_before_damage)
{
	struct kp_profile *p;
	size_t good;

	begin();
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1)));
	good = raw->size;
	sample(1, 1, KP_WALK_ROOT, PCS(code(LEAF, 1)));
	((struct kp_raw_head *)((char *)raw->words + good))->size = 3;
	p = collect();
	cr_assert_eq(p->truth.kept, 1);
	cr_assert_not_null(strstr(remarks, "what comes before is shown"));
	finish(p);
}

Test(collect, refuses_other_files)
{
	static const uint64_t words[4] = { 1, 2, 3, 4 };
	struct kp_collect_options options = { .name = "other" };
	struct kp_profile *p = NULL;

	cr_assert_eq(kp_collect(words, sizeof(words), &options, &p, &err), -KP_EBADDATA);
	cr_assert_null(p);
	cr_assert_not_null(strstr(err.text, "other"));
}

/* Any byte of the file may be anything: no crash, and sums that hold. Runs under ASan too. */
Test(collect, survives_flipped_bytes)
{
	static const char *const no_dirs[] = { NULL };
	struct kp_collect_options options = { .name = "test.kitprof", .debug_dirs = no_dirs };

	begin();
	sample(1, 1, KP_WALK_DEPTH, PCS(code(LEAF, 1), code(MAIN, 1), LIB + 7));
	end(1);
	for (size_t at = sizeof(struct kp_raw_file_header); at < raw->size; at++) {
		struct kp_profile *p = NULL;
		uint8_t *byte = (uint8_t *)raw->words + at, was = *byte;

		*byte ^= (uint8_t)(1 + at * 7 % 255);
		if (kp_collect(raw->words, raw->size, &options, &p, &err) == 0)
			cr_assert_eq(p->truth.taken - p->truth.kept,
				     p->truth.dropped_full + p->truth.dropped_cap +
					     p->truth.abandoned + p->truth.bad);
		kp_profile_destroy(p);
		*byte = was;
	}
	free(raw);
}
