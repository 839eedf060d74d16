/*
 * Unit tests of the statistics: what the golden files do not show. Unknown is not 0.
 */
#include "daemon/render/json.h"
#include "daemon/render/render.h"
#include "daemon/render/signal_text.h"
#include "daemon/render/stats.h"
#include "tests/support/test.h"
#include "tests/unit/render/maker.h"

#include <json-c/json.h>
#include <string.h>

static struct maker m;
static struct kp_truth *t;
static struct kp_err err;

static void begin(void)
{
	maker_init(&m);
	t = &m.p->truth;
	t->why = KP_END_TARGET;
	t->run = true;
}

static struct json_object *render_json(void)
{
	char *text = maker_render(&m, &kp_render_stats_json, NULL);
	struct json_object *object;

	cr_assert_not_null(text);
	object = json_tokener_parse(text);
	cr_assert_not_null(object);
	free(text);
	return object;
}

static bool is_null(struct json_object *object, const char *key)
{
	struct json_object *value;

	cr_assert(json_object_object_get_ex(object, key, &value));
	return value == NULL;
}

static uint64_t number(struct json_object *object, const char *key)
{
	cr_assert_not(is_null(object, key));
	return json_object_get_uint64(json_object_object_get(object, key));
}

Test(stats_json, says_null_where_something_is_not_known)
{
	static const char *const unknown[] = {
		"command",
		"host",
		"pid",
		"start_unix_ns",
		"exit_status",
		"exit_signal",
		"window_ns",
		"rate_achieved_hz",
		"cpu_ns",
		"rate_achieved_per",
		"explained_percent",
		"stop_attach_ns",
		"own_cpu_ns",
		"stop_detach_ns",
		"own_cpu_percent",
		"threads_seen",
		"threads_unsampled",
	};
	struct json_object *object;

	begin();
	t->why = KP_END_CUT_OFF;
	object = render_json();
	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		cr_assert(is_null(object, unknown[i]));
	cr_assert_str_eq(json_object_get_string(json_object_object_get(object, "end")), "cut_off");
	cr_assert_eq(number(object, "samples_taken"), 0);
	json_object_put(object);
	maker_deinit(&m);
}

Test(stats_json, says_0_where_that_is_known)
{
	struct json_object *object;

	begin();
	t->window_ns = 1000;
	object = render_json();
	cr_assert_eq(number(object, "threads_unsampled"), 0);
	cr_assert_eq(number(object, "own_cpu_ns"), 0);
	cr_assert_eq(number(object, "exit_status"), 0);
	cr_assert(is_null(object, "exit_signal"));
	json_object_put(object);
	maker_deinit(&m);
}

Test(stats_json, gives_a_thread_back_byte_for_byte)
{
	static const char name[] = "\"\\\n\x1b[2J\x7f\xc2\x9b\xc3\xa9/";
	struct json_object *object, *thread;
	char *text;

	begin();
	maker_add_of(&m, (struct maker_who){ 7, 8, "app", name }, 3, 30, STACK("main"));
	text = maker_render(&m, &kp_render_stats_json, NULL);
	cr_assert_not_null(strstr(text, "\"\\\"\\\\\\n\\u001b[2J\\u007f\\u009b\xc3\xa9/\""));
	free(text);
	object = render_json();
	thread = json_object_array_get_idx(json_object_object_get(object, "threads"), 0);
	cr_assert_str_eq(json_object_get_string(json_object_object_get(thread, "name")), name);
	cr_assert_eq(number(thread, "pid"), 7);
	cr_assert_eq(number(thread, "tid"), 8);
	cr_assert_eq(number(thread, "samples"), 3);
	cr_assert_eq(number(thread, "cpu_explained_ns"), 30);
	json_object_put(object);
	maker_deinit(&m);
}

Test(stats_json, keeps_large_numbers_whole)
{
	struct json_object *object;

	begin();
	t->start_unix_ns = UINT64_MAX;
	object = render_json();
	cr_assert_eq(number(object, "start_unix_ns"), UINT64_MAX);
	json_object_put(object);
	maker_deinit(&m);
}

/* ---- lines ---- */

/* Whether there is such a line. */
static bool has_line(const char *line)
{
	char *text = maker_render(&m, &kp_render_stats, NULL), *rest = text, *at;
	bool found = false;

	cr_assert_not_null(text);
	while ((at = strsep(&rest, "\n")))
		found |= strcmp(at, line) == 0;
	free(text);
	return found;
}

Test(stats, says_how_the_program_ended)
{
	begin();
	t->exit_status = 3u << 8;
	cr_assert(has_line("end        the target ended, exit status 3"));
	t->exit_status = 11 | 0x80; /* and dumped core */
	cr_assert(has_line("end        the target ended, killed by SIGSEGV"));
	t->run = false;
	cr_assert(has_line("end        the target ended"));
	t->run = true;
	t->why = KP_END_FULL;
	cr_assert(has_line("end        buffer_full: as many samples as --cap allows"));
	t->why = KP_END_CUT_OFF;
	cr_assert(has_line("end        not known: the raw profile was cut off"));
	maker_deinit(&m);
}

Test(stats, says_what_is_known_of_the_cpu_time)
{
	begin();
	t->explained_ns = 990000000;
	cr_assert(has_line("cpu        0.990 s explained"));
	t->cpu_ns = 1000000000;
	cr_assert(has_line("cpu        1.000 s used, 0.990 s explained (99.0 %)"));
	maker_deinit(&m);
}

Test(stats, keeps_a_hostile_name_on_its_line)
{
	begin();
	maker_add_of(&m, (struct maker_who){ 7, 8, "", "e\nvil\x1b" }, 1, 1000000000, STACK("x"));
	t->explained_ns = 1000000000;
	cr_assert(has_line("thread     e vil  (tid 8) of [unknown] (pid 7): 1.000 s explained "
			   "(100.0 %), 1 sample"));
	maker_deinit(&m);
}

/* ---- parts ---- */

Test(stats_exit, is_as_a_shell_has_it)
{
	struct kp_truth truth = { .run = true, .why = KP_END_TARGET, .exit_status = 0xff00 };

	cr_assert(kp_stats_exit(&truth).known);
	cr_assert_eq(kp_stats_exit(&truth).status, 255);
	cr_assert_eq(kp_stats_exit(&truth).signal, 0);
	truth.exit_status = 9;
	cr_assert_eq(kp_stats_exit(&truth).status, 137);
	cr_assert_eq(kp_stats_exit(&truth).signal, 9);
	truth.why = KP_END_TIME; /* the program went on */
	cr_assert_not(kp_stats_exit(&truth).known);
}

Test(signal_text, is_of_linux_on_every_system)
{
	cr_assert_str_eq(kp_signal_text(1).text, "SIGHUP");
	cr_assert_str_eq(kp_signal_text(23).text, "SIGURG");
	cr_assert_str_eq(kp_signal_text(27).text, "SIGPROF");
	cr_assert_str_eq(kp_signal_text(31).text, "SIGSYS");
	cr_assert_str_eq(kp_signal_text(0).text, "signal 0");
	cr_assert_str_eq(kp_signal_text(32).text, "signal 32");
	cr_assert_str_eq(kp_signal_text(36).text, "SIGRTMIN+2");
	cr_assert_str_eq(kp_signal_text(4000000000).text, "signal 4000000000");
}

static void expect_decimal(const char *text, const char *expected)
{
	struct kp_text_number number;
	char *written = NULL;
	struct kp_json j;
	size_t size;
	FILE *out = open_memstream(&written, &size);

	snprintf(number.text, sizeof(number.text), "%s", text);
	kp_json_init(&j);
	kp_json_put_decimal(&j, j.root, "x", number);
	cr_assert_eq(kp_json_write(&j, out, &err), 0);
	kp_json_deinit(&j);
	fclose(out);
	cr_assert_not_null(strstr(written, expected));
	free(written);
}

Test(json, writes_decimals_without_zeros_at_the_end)
{
	expect_decimal("88.800", ": 88.8\n");
	expect_decimal("999.000", ": 999\n");
	expect_decimal("100", ": 100\n");
	expect_decimal("0.000", ": 0\n");
	expect_decimal("", ": null\n");
}

/* What failed inside is told at the end, and what was put in is freed. */
Test(json, tells_of_a_failure_at_the_end)
{
	struct kp_json j;

	kp_json_init(&j);
	kp_json_put_text(&j, NULL, "x", "no object to put it into");
	kp_json_put_number(&j, j.root, "y", 1);
	cr_assert_eq(kp_json_write(&j, stderr, &err), -KP_ENOMEM);
	kp_json_deinit(&j);
}
