/*
 * Unit tests of formats that tell processes and threads apart.
 */
#include "daemon/render/render.h"
#include "tests/support/test.h"
#include "tests/unit/render/maker.h"

#include <string.h>

#define MS 1000000

static struct maker m;

static void begin(enum kp_split split)
{
	maker_init(&m);
	m.options.split = split;
}

static void add(uint32_t pid, uint32_t tid, const char *comm, const char *thread_name, int64_t ms)
{
	maker_add_of(&m, (struct maker_who){ pid, tid, comm, thread_name }, 1, ms * MS,
		     STACK("main", "work"));
}

static void expect(const struct kp_renderer *r, const char *expected)
{
	char *text = maker_render(&m, r, NULL);

	cr_assert_not_null(text);
	cr_assert_str_eq(text, expected);
	free(text);
	maker_deinit(&m);
}

/* The lines that begin with prefix, in their order. */
static void expect_lines(const char *prefix, const char *expected)
{
	char *text = maker_render(&m, &kp_render_flat, NULL), *rest = text, *line;
	char found[1024] = "";

	cr_assert_not_null(text);
	while ((line = strsep(&rest, "\n"))) {
		if (strncmp(line, prefix, strlen(prefix)) == 0)
			strcat(strcat(found, line), "\n");
	}
	cr_assert_str_eq(found, expected);
	free(text);
	maker_deinit(&m);
}

/* ---- folded ---- */

static void add_three(void)
{
	maker_clock(&m, "task-clock", 23, MS);
	add(10, 10, "app", "app", 1);
	add(10, 11, "app", "io pool", 2);
	add(20, 20, "app", "app", 4);
}

Test(folded_split, joins_processes_of_one_name_by_default)
{
	begin(KP_SPLIT_NONE);
	add_three();
	expect(&kp_render_folded, "app;main;work 7\n");
}

Test(folded_split, shows_the_pid_of_processes)
{
	begin(KP_SPLIT_PROCESS);
	add_three();
	expect(&kp_render_folded, "app-10;main;work 3\n"
				  "app-20;main;work 4\n");
}

Test(folded_split, shows_name_and_tid_of_threads)
{
	begin(KP_SPLIT_THREAD);
	add_three();
	expect(&kp_render_folded, "app-10/app-10;main;work 1\n"
				  "app-10/io_pool-11;main;work 2\n"
				  "app-20/app-20;main;work 4\n");
}

/* Otherwise both would read "a-1/b-2/c-9". */
Test(folded_split, has_one_spelling_for_one_thread)
{
	begin(KP_SPLIT_THREAD);
	add(1, 9, "a", "b-2/c", 1);
	add(2, 9, "a-1/b", "c", 1);
	expect(&kp_render_folded, "a-1/b-2/c-9;main;work 1000000\n"
				  "a-1:b-2/c-9;main;work 1000000\n");
}

Test(folded_split, keeps_hostile_names_within_their_frame)
{
	begin(KP_SPLIT_THREAD);
	add(1, 2, "", "", 1);
	add(1, 3, "p;q\n", "a;b c\x1b[2J\xff 12", 1);
	expect(&kp_render_folded, "[unknown]-1/[unknown]-2;main;work 1000000\n"
				  "p:q_-1/a:b_c_[2J\\xff_12-3;main;work 1000000\n");
}

/* ---- flat ---- */

Test(flat_split, has_a_section_for_each_thread_the_busiest_first)
{
	begin(KP_SPLIT_THREAD);
	add_three();
	expect_lines(
		"# thread",
		"# thread app (tid 20) of app (pid 20): cpu 0.004 s, 57.14 % of all, 1 sample\n"
		"# thread io pool (tid 11) of app (pid 10): cpu 0.002 s, 28.57 % of all, 1 sample\n"
		"# thread app (tid 10) of app (pid 10): cpu 0.001 s, 14.29 % of all, 1 sample\n");
}

Test(flat_split, has_a_section_for_each_process)
{
	begin(KP_SPLIT_PROCESS);
	add_three();
	expect_lines("# process",
		     "# process app (pid 20): cpu 0.004 s, 57.14 % of all, 1 sample\n"
		     "# process app (pid 10): cpu 0.003 s, 42.86 % of all, 2 samples\n");
}

Test(flat_split, gives_shares_of_the_section_and_of_all)
{
	begin(KP_SPLIT_PROCESS);
	maker_add_of(&m, (struct maker_who){ 1, 1, "a", "a" }, 3, 3 * MS, STACK("main", "f"));
	maker_add_of(&m, (struct maker_who){ 1, 1, "a", "a" }, 1, 1 * MS, STACK("main"));
	maker_add_of(&m, (struct maker_who){ 2, 2, "b", "b" }, 4, 4 * MS, STACK("main", "f"));
	expect_lines(" ",
		     "   75.00      0.003    75.00      0.003    37.50         3  f  made\n"
		     "   25.00      0.001   100.00      0.004    12.50         1  main  made\n"
		     "  100.00      0.004   100.00      0.004    50.00         4  f  made\n"
		     "    0.00      0.000   100.00      0.004     0.00         0  main  made\n");
}

Test(flat_split, says_what_its_shares_are_of)
{
	begin(KP_SPLIT_THREAD);
	add_three();
	expect_lines("# self % and",
		     "# self % and cum %: of the thread; all %: self, of all of the profile\n");
	begin(KP_SPLIT_NONE);
	add_three();
	expect_lines("# self % and", "");
}

Test(flat_split, keeps_a_hostile_name_on_its_line)
{
	begin(KP_SPLIT_THREAD);
	add(1, 3, "p\n", "evil\n\x1b[2J\xff", 1);
	expect_lines("# thread", "# thread evil  [2J\\xff (tid 3) of p  (pid 1): cpu 0.001 s, "
				 "100.00 % of all, 1 sample\n");
}

Test(flat_split, gives_other_units_as_they_are)
{
	begin(KP_SPLIT_PROCESS);
	m.p->value_type[1] = (struct kp_value_type){ maker_string(&m, "instructions"),
						     maker_string(&m, "count") };
	add(1, 3, "p", "p", 2);
	expect_lines("# process",
		     "# process p (pid 1): instructions 2000000 count, 100.00 % of all, "
		     "1 sample\n");
}
