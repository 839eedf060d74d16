/*
 * Unit tests of the profile core: interning, order, growth, sums.
 */
#include "daemon/profile/profile.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

static struct kp_err err;

static struct kp_profile *create(void)
{
	struct kp_profile *p = NULL;

	cr_assert_eq(kp_profile_create(&p, &err), 0);
	cr_assert_eq(kp_profile_value_type(p, "samples", "count", &err), 0);
	cr_assert_eq(kp_profile_value_type(p, "cpu", "nanoseconds", &err), 0);
	return p;
}

static uint32_t string(struct kp_profile *p, const char *text)
{
	uint32_t id = 0;

	cr_assert_eq(kp_profile_string(p, text, strlen(text), &id, &err), 0);
	return id;
}

static uint32_t function(struct kp_profile *p, struct kp_function f)
{
	uint32_t id = 0;

	cr_assert_eq(kp_profile_function(p, &f, &id, &err), 0);
	return id;
}

static uint32_t location(struct kp_profile *p, uint64_t address, uint32_t function, uint32_t line)
{
	struct kp_line l = { function, line };
	uint32_t id = 0;

	cr_assert_eq(kp_profile_location(p, 0, address, &l, 1, &id, &err), 0);
	return id;
}

static uint32_t stack(struct kp_profile *p, uint32_t parent, uint32_t location)
{
	uint32_t id = 0;

	cr_assert_eq(kp_profile_stack(p, parent, location, &id, &err), 0);
	return id;
}

Test(profile, starts_with_nothing_at_index_zero)
{
	struct kp_profile *p = create();

	cr_assert_str_eq(p->strings[0], "");
	cr_assert_eq(string(p, ""), 0);
	cr_assert_eq(p->function_count, 1);
	cr_assert_eq(p->mapping_count, 1);
	cr_assert_eq(p->location_count, 1);
	cr_assert_eq(p->stack_count, 1);
	cr_assert_eq(p->label_count, 1);
	cr_assert_eq(p->sample_count, 0);
	cr_assert_eq(p->stacks[0].depth, 0);
	kp_profile_destroy(p);
	kp_profile_destroy(NULL);
}

Test(profile, gives_the_same_string_the_same_id)
{
	struct kp_profile *p = create();
	uint32_t a = string(p, "alpha"), b = string(p, "beta"), id;

	cr_assert_neq(a, b);
	cr_assert_eq(string(p, "alpha"), a);
	cr_assert_eq(kp_profile_string(p, "alphabet", 5, &id, &err), 0); /* a part of it */
	cr_assert_eq(id, a);
	cr_assert_eq(p->string_len[a], 5);
	kp_profile_destroy(p);
}

Test(profile, makes_strings_valid_utf8_without_nul)
{
	struct kp_profile *p = create();
	uint32_t id;

	cr_assert_eq(kp_profile_string(p, "x\0\xff", 3, &id, &err), 0);
	cr_assert_str_eq(p->strings[id], "x\\x00\\xff");
	cr_assert_eq(p->string_len[id], 9);
	/* The escaped text is the content: what reads the same is the same. */
	cr_assert_eq(string(p, "x\\x00\\xff"), id);
	kp_profile_destroy(p);
}

/* Far more than the first capacity of arrays and tables; ids stay in order of first use. */
Test(profile, grows_and_keeps_ids_in_order_of_first_use)
{
	struct kp_profile *p = create();
	uint32_t first = p->string_count, f = function(p, (struct kp_function){ .name = 1 });
	const uint32_t n = 50000;
	char text[16];

	for (uint32_t i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "s%u", i);
		cr_assert_eq(string(p, text), first + i);
		cr_assert_eq(location(p, i, f, 0), i + 1);
		cr_assert_eq(stack(p, i, i + 1), i + 1); /* one long path */
	}
	for (uint32_t i = n; i-- > 0;) {
		snprintf(text, sizeof(text), "s%u", i);
		cr_assert_eq(string(p, text), first + i);
		cr_assert_str_eq(p->strings[first + i], text);
		cr_assert_eq(location(p, i, f, 0), i + 1);
		cr_assert_eq(stack(p, i, i + 1), i + 1);
		cr_assert_eq(p->stacks[i + 1].depth, i + 1);
	}
	cr_assert_eq(p->string_count, first + n);
	cr_assert_eq(p->location_count, n + 1);
	cr_assert_eq(p->stack_count, n + 1);
	kp_profile_destroy(p);
}

Test(profile, tells_functions_apart_by_every_field)
{
	struct kp_profile *p = create();
	const struct kp_function f[] = {
		{ .name = 1 },
		{ .name = 2 },
		{ .name = 1, .system_name = 1 },
		{ .name = 1, .file = 1 },
		{ .name = 1, .start_line = 1 },
		{ .name = 1, .unnamed = true },
		{ .name = 1, .marker = true },
	};

	for (uint32_t i = 0; i < 7; i++)
		cr_assert_eq(function(p, f[i]), i + 1);
	for (uint32_t i = 0; i < 7; i++)
		cr_assert_eq(function(p, f[i]), i + 1);
	kp_profile_destroy(p);
}

Test(profile, tells_mappings_and_labels_apart_by_every_field)
{
	struct kp_profile *p = create();
	const struct kp_mapping m[] = { { 1, 2, 3, 1, 1 }, { 9, 2, 3, 1, 1 }, { 1, 9, 3, 1, 1 },
					{ 1, 2, 9, 1, 1 }, { 1, 2, 3, 2, 1 }, { 1, 2, 3, 1, 2 } };
	const struct kp_label l[] = {
		{ 1, 1, 1, 1 }, { 2, 1, 1, 1 }, { 1, 2, 1, 1 }, { 1, 1, 2, 1 }, { 1, 1, 1, 2 }
	};
	uint32_t id;

	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 6; i++) {
			cr_assert_eq(kp_profile_mapping(p, &m[i], &id, &err), 0);
			cr_assert_eq(id, i + 1);
		}
		for (uint32_t i = 0; i < 5; i++) {
			cr_assert_eq(kp_profile_label(p, &l[i], &id, &err), 0);
			cr_assert_eq(id, i + 1);
		}
	}
	kp_profile_destroy(p);
}

Test(profile, tells_locations_apart_by_their_lines)
{
	struct kp_profile *p = create();
	uint32_t f = function(p, (struct kp_function){ .name = 1 });
	uint32_t g = function(p, (struct kp_function){ .name = 2 });
	struct kp_line inlined[] = { { g, 7 }, { f, 3 } };
	uint32_t a = location(p, 0x10, f, 3), b;

	cr_assert_eq(location(p, 0x10, f, 3), a);
	cr_assert_neq(location(p, 0x11, f, 3), a);
	cr_assert_neq(location(p, 0x10, f, 4), a);
	cr_assert_neq(location(p, 0x10, g, 3), a);
	cr_assert_eq(kp_profile_location(p, 0, 0x10, inlined, 2, &b, &err), 0);
	cr_assert_neq(b, a);
	cr_assert_eq(p->locations[b].line_count, 2);
	cr_assert_eq(p->lines[p->locations[b].first_line].function, g);
	cr_assert_eq(p->lines[p->locations[b].first_line + 1].line, 3);
	kp_profile_destroy(p);
}

Test(profile, holds_recursion_as_a_path)
{
	struct kp_profile *p = create();
	uint32_t f = location(p, 0x10, function(p, (struct kp_function){ .name = 1 }), 0);
	uint32_t one = stack(p, 0, f), two = stack(p, one, f), three = stack(p, two, f);

	cr_assert(one != two && two != three);
	cr_assert_eq(p->stacks[three].depth, 3);
	cr_assert_eq(p->stacks[three].parent, two);
	cr_assert_eq(stack(p, one, f), two);
	kp_profile_destroy(p);
}

Test(profile, sums_samples_of_the_same_stack_and_label)
{
	struct kp_profile *p = create();
	uint32_t s = stack(p, 0, location(p, 1, function(p, (struct kp_function){ .name = 1 }), 0));
	struct kp_label who = { .pid = 1, .tid = 2 };
	const int64_t value[] = { 1, 100 }, huge[] = { 1, INT64_MAX };
	uint32_t label;

	cr_assert_eq(kp_profile_label(p, &who, &label, &err), 0);
	cr_assert_eq(kp_profile_add(p, s, label, value, &err), 0);
	cr_assert_eq(kp_profile_add(p, s, label, value, &err), 0);
	cr_assert_eq(p->sample_count, 1);
	cr_assert_eq(p->samples[0].value[0], 2);
	cr_assert_eq(p->samples[0].value[1], 200);
	cr_assert_eq(kp_profile_add(p, s, 0, value, &err), 0);
	cr_assert_eq(p->sample_count, 2);
	/* A sum never wraps to something small. */
	cr_assert_eq(kp_profile_add(p, s, label, huge, &err), 0);
	cr_assert_eq(p->samples[0].value[1], INT64_MAX);
	kp_profile_destroy(p);
}
