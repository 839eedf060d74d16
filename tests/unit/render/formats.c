/*
 * Unit tests of the formats: what the golden files do not show, on profiles made by hand.
 */
#include "daemon/render/render.h"
#include "profile.pb-c.h"
#include "tests/support/test.h"
#include "tests/unit/render/maker.h"

#include <string.h>
#include <zlib.h>

#define MS 1000000

static struct maker m;

/* ---- folded ---- */

static void expect_folded(const char *expected)
{
	char *text = maker_render(&m, &kp_render_folded, NULL);

	cr_assert_not_null(text);
	cr_assert_str_eq(text, expected);
	free(text);
	maker_deinit(&m);
}

Test(folded, shows_inlined_frames_like_others)
{
	maker_init(&m);
	maker_add(&m, "app", 3, 3, STACK("main", "outer>middle>inner"));
	expect_folded("app;main;outer;middle;inner 3\n");
}

Test(folded, bends_names_that_would_break_a_line)
{
	maker_init(&m);
	maker_add(&m, "my app;1\n", 1, 1, STACK("a;b", "c\td\ne"));
	expect_folded("my_app:1_;a:b;c d e 1\n");
}

/* flamegraph.pl would take "foo 12 1" for two weights. */
Test(folded, joins_a_number_at_the_end_of_a_leaf)
{
	maker_init(&m);
	maker_add(&m, "app", 1, 1, STACK("foo 12"));
	maker_add(&m, "app", 1, 1, STACK("foo 12", "bar 7.5"));
	maker_add(&m, "app", 1, 1, STACK("foo 12x"));
	maker_add(&m, "app", 1, 1, STACK("foo12"));
	expect_folded("app;foo 12;bar_7.5 1\n"
		      "app;foo 12x 1\n"
		      "app;foo12 1\n"
		      "app;foo_12 1\n");
}

Test(folded, joins_stacks_whose_names_became_the_same)
{
	maker_init(&m);
	maker_add(&m, "app", 1, 1, STACK("a;b"));
	maker_add(&m, "app", 2, 2, STACK("a:b"));
	maker_add(&m, "", 4, 4, STACK("x"));
	expect_folded("[unknown];x 4\napp;a:b 3\n");
}

/* As `LC_ALL=C sort` does: whole lines, weights included. */
Test(folded, is_sorted_by_the_bytes_of_whole_lines)
{
	maker_init(&m);
	maker_add(&m, "p", 2, 2, STACK("f"));
	maker_add(&m, "p", 1, 1, STACK("f", "g"));
	maker_add(&m, "p", 1, 1, STACK("f-1"));
	maker_add(&m, "p", 1, 1, STACK("f 1x"));
	maker_add(&m, "p", 1, 1, STACK("\xc3\xa9"));
	expect_folded("p;f 1x 1\np;f 2\np;f-1 1\np;f;g 1\np;\xc3\xa9 1\n");
}

/* A sample of the slow clock stands for four of the fast one, and looks like it. */
Test(folded, weighs_by_time_in_periods_of_the_fastest_clock)
{
	maker_init(&m);
	maker_clock(&m, "task-clock", 23, 1 * MS);
	maker_clock(&m, "cpu-timer", 27, 4 * MS);
	maker_add(&m, "p", 8, 8 * MS, STACK("user"));
	maker_add(&m, "p", 2, 8 * MS, STACK("kernel"));
	maker_add(&m, "p", 1, 1 * MS + MS / 2, STACK("rounded_up"));
	maker_add(&m, "p", 1, 1 * MS + MS / 2 - 1, STACK("rounded_down"));
	maker_add(&m, "p", 1, 1, STACK("tiny"));
	expect_folded("p;kernel 8\np;rounded_down 1\np;rounded_up 2\np;tiny 1\np;user 8\n");
}

Test(folded, ignores_clocks_that_gave_no_samples)
{
	maker_init(&m);
	maker_clock(&m, "cpu-timer", 27, 4 * MS);
	maker_clock(&m, "task-clock", 23, 1 * MS);
	m.p->truth.clock[1].samples = 0;
	maker_add(&m, "p", 2, 8 * MS, STACK("f"));
	expect_folded("p;f 2\n");
}

Test(folded, of_nothing_is_nothing)
{
	maker_init(&m);
	expect_folded("");
}

/* ---- flat ---- */

/* The line of a function, or NULL. */
static const char *flat_line(const char *text, const char *function)
{
	static char line[512];
	const char *at = strstr(text, function), *start = at;

	if (!at)
		return NULL;
	while (start > text && start[-1] != '\n')
		start--;
	snprintf(line, sizeof(line), "%.*s", (int)(strchrnul(at, '\n') - start), start);
	return line;
}

Test(flat_report, gives_shares_of_what_was_delivered)
{
	char *text;

	maker_init(&m);
	m.p->truth.rate_mhz = 1000000; /* ten times what came */
	m.p->truth.window_ns = UINT64_C(1000000000);
	maker_add(&m, "p", 3, 3 * MS, STACK("main", "foo", "bar", "foo"));
	maker_add(&m, "p", 1, 1 * MS, STACK("main"));
	text = maker_render(&m, &kp_render_flat, NULL);
	cr_assert_str_eq(flat_line(text, "  foo"),
			 "   75.00      0.003    75.00      0.003         3  foo  made");
	cr_assert_str_eq(flat_line(text, "  main"),
			 "   25.00      0.001   100.00      0.004         1  main  made");
	cr_assert_str_eq(flat_line(text, "  bar"),
			 "    0.00      0.000    75.00      0.003         0  bar  made");
	free(text);
	maker_deinit(&m);
}

Test(flat_report, gives_other_units_as_they_are)
{
	char *text;

	maker_init(&m);
	m.p->value_type[1] = (struct kp_value_type){ maker_string(&m, "instructions"),
						     maker_string(&m, "count") };
	maker_add(&m, "p", 1, 12345, STACK("foo"));
	text = maker_render(&m, &kp_render_flat, NULL);
	cr_assert_str_eq(flat_line(text, "  foo"),
			 "  100.00      12345   100.00      12345         1  foo  made");
	cr_assert_str_eq(flat_line(text, "self count"),
			 "# self % self count    cum %  cum count   samples  function");
	free(text);
	maker_deinit(&m);
}

/* ---- pprof ---- */

static Perftools__Profiles__Profile *unpack(const char *gz, size_t size)
{
	static uint8_t bytes[1 << 20];
	z_stream z = { .next_in = (Bytef *)(uintptr_t)gz,
		       .avail_in = (uInt)size,
		       .next_out = bytes,
		       .avail_out = sizeof(bytes) };

	cr_assert_eq(inflateInit2(&z, 15 + 16), Z_OK);
	cr_assert_eq(inflate(&z, Z_FINISH), Z_STREAM_END);
	cr_assert_eq(z.avail_in, 0);
	inflateEnd(&z);
	return perftools__profiles__profile__unpack(NULL, z.total_out, bytes);
}

static Perftools__Profiles__Profile *render_pprof(void)
{
	Perftools__Profiles__Profile *profile;
	size_t size = 0;
	char *gz = maker_render(&m, &kp_render_pprof, &size);

	cr_assert_not_null(gz);
	/* gzip, deflate, no name, no time */
	cr_assert_arr_eq(gz, "\x1f\x8b\x08\0\0\0\0\0", 8);
	profile = unpack(gz, size);
	cr_assert_not_null(profile);
	free(gz);
	return profile;
}

static const char *function_name(const Perftools__Profiles__Profile *profile, uint64_t location,
				 size_t line)
{
	uint64_t id = profile->location[location - 1]->line[line]->function_id;

	return profile->string_table[profile->function[id - 1]->name];
}

Test(pprof, has_one_location_with_a_line_for_each_inlined_frame)
{
	Perftools__Profiles__Profile *profile;
	const Perftools__Profiles__Location *l;

	maker_init(&m);
	maker_add(&m, "app", 3, 30, STACK("main", "outer>middle>inner"));
	profile = render_pprof();
	cr_assert_eq(profile->n_sample, 1);
	cr_assert_eq(profile->sample[0]->n_location_id, 2);
	cr_assert_eq(profile->sample[0]->value[0], 3);
	cr_assert_eq(profile->sample[0]->value[1], 30);
	l = profile->location[profile->sample[0]->location_id[0] - 1]; /* leaf first */
	cr_assert_eq(l->n_line, 3);
	cr_assert_str_eq(function_name(profile, l->id, 0), "inner");
	cr_assert_str_eq(function_name(profile, l->id, 1), "middle");
	cr_assert_str_eq(function_name(profile, l->id, 2), "outer");
	cr_assert_str_eq(function_name(profile, profile->sample[0]->location_id[1], 0), "main");
	perftools__profiles__profile__free_unpacked(profile, NULL);
	maker_deinit(&m);
}

Test(pprof, ids_have_no_gaps_in_a_large_profile)
{
	Perftools__Profiles__Profile *profile;
	char name[16];

	maker_init(&m);
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		maker_add(&m, "app", 1, 10, STACK("main", name));
	}
	profile = render_pprof();
	cr_assert_eq(profile->n_sample, 3000);
	cr_assert_eq(profile->n_location, 6000);
	cr_assert_eq(profile->n_function, 3001);
	for (size_t i = 0; i < profile->n_location; i++)
		cr_assert_eq(profile->location[i]->id, i + 1);
	for (size_t i = 0; i < profile->n_function; i++)
		cr_assert_eq(profile->function[i]->id, i + 1);
	cr_assert_str_eq(profile->string_table[0], "");
	perftools__profiles__profile__free_unpacked(profile, NULL);
	maker_deinit(&m);
}

static const Perftools__Profiles__Label *label(const Perftools__Profiles__Profile *profile,
					       const char *key)
{
	const Perftools__Profiles__Sample *s = profile->sample[0];

	for (size_t i = 0; i < s->n_label; i++) {
		if (strcmp(profile->string_table[s->label[i]->key], key) == 0)
			return s->label[i];
	}
	return NULL;
}

/* Far more than a buffer of compressed bytes comes out of one piece. */
Test(pprof, keeps_a_name_that_hardly_compresses)
{
	static char name[400001];
	Perftools__Profiles__Profile *profile;
	uint32_t random = 1;

	for (size_t i = 0; i + 1 < sizeof(name); i++) {
		random = random * 1664525 + 1013904223;
		name[i] = (char)('A' + (random >> 26) % 58);
	}
	maker_init(&m);
	maker_add(&m, "app", 1, 10, STACK("main"));
	m.p->truth.host = maker_string(&m, name); /* any string of the profile is written */
	profile = render_pprof();
	cr_assert_str_eq(profile->string_table[m.p->truth.host], name);
	perftools__profiles__profile__free_unpacked(profile, NULL);
	maker_deinit(&m);
}

Test(pprof, labels_have_a_number_or_a_text_and_are_left_out_when_empty)
{
	Perftools__Profiles__Profile *profile;

	maker_init(&m);
	maker_add(&m, "app", 1, 10, STACK("main"));
	profile = render_pprof();
	cr_assert_eq(label(profile, "pid")->num, 1);
	cr_assert_eq(label(profile, "pid")->str, 0);
	cr_assert_eq(label(profile, "tid")->num, 2);
	cr_assert_eq(label(profile, "comm")->num, 0);
	cr_assert_str_eq(profile->string_table[label(profile, "comm")->str], "app");
	cr_assert_not_null(label(profile, "thread_name"));
	perftools__profiles__profile__free_unpacked(profile, NULL);
	maker_deinit(&m);

	maker_init(&m);
	maker_add(&m, "", 1, 10, STACK("main"));
	profile = render_pprof();
	cr_assert_null(label(profile, "comm"));
	cr_assert_null(label(profile, "thread_name"));
	perftools__profiles__profile__free_unpacked(profile, NULL);
	maker_deinit(&m);
}

/* Tools print names as they are. */
Test(pprof, has_no_control_characters)
{
	Perftools__Profiles__Profile *profile;

	maker_init(&m);
	maker_add(&m, "a\n\x1b[2J\x7f\xc2\x9b\xff;", 1, 10, STACK("main"));
	profile = render_pprof();
	cr_assert_str_eq(profile->string_table[label(profile, "comm")->str], "a  [2J  \\xff;");
	perftools__profiles__profile__free_unpacked(profile, NULL);
	maker_deinit(&m);
}

/* Readers sum over labels that they do not ask for; left out, nobody could ask. */
Test(pprof, tells_threads_apart_whatever_the_options)
{
	Perftools__Profiles__Profile *profile;

	maker_init(&m);
	maker_add_of(&m, (struct maker_who){ 1, 2, "app", "one" }, 1, 10, STACK("main"));
	maker_add_of(&m, (struct maker_who){ 1, 3, "app", "two" }, 1, 10, STACK("main"));
	for (int split = KP_SPLIT_NONE; split <= KP_SPLIT_THREAD; split++) {
		m.options.split = (enum kp_split)split;
		profile = render_pprof();
		cr_assert_eq(profile->n_sample, 2);
		cr_assert_eq(profile->sample[0]->n_label, 4);
		cr_assert_eq(profile->sample[1]->n_label, 4);
		perftools__profiles__profile__free_unpacked(profile, NULL);
	}
	maker_deinit(&m);
}

Test(pprof, carries_the_losses_as_comments)
{
	Perftools__Profiles__Profile *profile;
	bool found = false;

	maker_init(&m);
	maker_add(&m, "app", 1, 10, STACK("main"));
	m.p->truth.kept = 1;
	m.p->truth.taken = 4;
	m.p->truth.dropped_full = 3;
	profile = render_pprof();
	for (size_t i = 0; i < profile->n_comment; i++)
		found |= strstr(profile->string_table[profile->comment[i]],
				"3 of 4 samples were dropped") != NULL;
	cr_assert(found);
	perftools__profiles__profile__free_unpacked(profile, NULL);
	maker_deinit(&m);
}

Test(pprof, never_has_a_duration_of_zero)
{
	Perftools__Profiles__Profile *profile;

	maker_init(&m);
	m.p->truth.rate_mhz = 99000;
	profile = render_pprof();
	cr_assert_gt(profile->duration_nanos, 0);
	cr_assert_eq(profile->period, 10101010);
	perftools__profiles__profile__free_unpacked(profile, NULL);
	maker_deinit(&m);
}
