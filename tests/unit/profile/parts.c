/*
 * Unit tests of the parts of a profile, and of views on one part.
 */
#include "daemon/profile/parts.h"
#include "daemon/profile/flat.h"
#include "daemon/profile/tree.h"
#include "tests/support/test.h"

#include <string.h>

static struct kp_err err;
static struct kp_profile *p;
static struct kp_parts parts;

static void create(void)
{
	cr_assert_eq(kp_profile_create(&p, &err), 0);
	cr_assert_eq(kp_profile_value_type(p, "samples", "count", &err), 0);
	cr_assert_eq(kp_profile_value_type(p, "cpu", "nanoseconds", &err), 0);
	p->default_value = 1;
}

static void destroy(void)
{
	kp_parts_deinit(&parts);
	kp_profile_destroy(p);
}

static uint32_t string(const char *text)
{
	uint32_t id = 0;

	cr_assert_eq(kp_profile_string(p, text, strlen(text), &id, &err), 0);
	return id;
}

/* A sample of one frame. */
static void add(uint32_t pid, uint32_t tid, const char *comm, const char *thread_name,
		const char *function, int64_t ns)
{
	struct kp_label l = { pid, tid, string(comm), string(thread_name) };
	struct kp_function f = { .name = string(function) };
	struct kp_line line = { 0, 1 };
	uint32_t location = 0, stack = 0, label = 0;
	int64_t value[] = { 1, ns };

	cr_assert_eq(kp_profile_function(p, &f, &line.function, &err), 0);
	cr_assert_eq(kp_profile_location(p, 0, 0x1000 + line.function, &line, 1, &location, &err),
		     0);
	cr_assert_eq(kp_profile_stack(p, 0, location, &stack, &err), 0);
	cr_assert_eq(kp_profile_label(p, &l, &label, &err), 0);
	cr_assert_eq(kp_profile_add(p, stack, label, value, &err), 0);
}

static void split(enum kp_split how, uint32_t count)
{
	cr_assert_eq(kp_parts_build(p, how, &parts, &err), 0);
	cr_assert_eq(parts.count, count);
}

static void expect(uint32_t at, uint32_t pid, uint32_t tid, const char *thread_name, int64_t ns)
{
	const struct kp_part *part = &parts.part[at];
	const struct kp_label *l = &p->labels[part->label];

	cr_assert_eq(l->pid, pid);
	cr_assert_eq(l->tid, tid);
	cr_assert_str_eq(p->strings[l->thread_name], thread_name);
	cr_assert_eq(part->total[1], ns);
}

Test(parts, of_nothing_are_none)
{
	create();
	split(KP_SPLIT_THREAD, 0);
	destroy();
}

Test(parts, are_sorted_by_value_then_pid_then_tid)
{
	create();
	add(2, 2, "b", "b", "f", 5);
	add(1, 9, "a", "x", "f", 5);
	add(1, 3, "a", "y", "f", 5);
	add(3, 3, "c", "c", "f", 6);
	split(KP_SPLIT_THREAD, 4);
	expect(0, 3, 3, "c", 6);
	expect(1, 1, 3, "y", 5);
	expect(2, 1, 9, "x", 5);
	expect(3, 2, 2, "b", 5);
	destroy();
}

Test(parts, join_what_is_not_to_be_told_apart)
{
	create();
	add(1, 1, "a", "a", "f", 1);
	add(1, 2, "a", "b", "f", 2);
	add(2, 2, "a", "a", "f", 4);
	add(3, 3, "b", "b", "f", 8);
	split(KP_SPLIT_NONE, 2);
	cr_assert_eq(parts.part[0].total[1], 8);
	cr_assert_eq(parts.part[1].total[1], 7);
	cr_assert_eq(parts.part[1].total[0], 3);
	kp_parts_deinit(&parts);
	split(KP_SPLIT_PROCESS, 3);
	cr_assert_eq(parts.part[2].total[1], 3);
	kp_parts_deinit(&parts);
	split(KP_SPLIT_THREAD, 4);
	destroy();
}

/* It has its creator's name at first. */
Test(parts, keep_a_thread_that_changes_its_name_whole)
{
	create();
	add(1, 2, "app", "app", "f", 3);
	add(1, 2, "app", "worker", "f", 9);
	add(1, 2, "app", "idle", "f", 4);
	split(KP_SPLIT_THREAD, 1);
	expect(0, 1, 2, "worker", 16);
	destroy();
}

Test(parts, take_the_first_of_two_equal_names)
{
	create();
	add(1, 2, "app", "one", "f", 3);
	add(1, 2, "app", "two", "f", 3);
	split(KP_SPLIT_THREAD, 1);
	expect(0, 1, 2, "one", 6);
	destroy();
}

Test(parts, are_two_before_and_behind_an_exec)
{
	create();
	add(1, 1, "sh", "sh", "f", 1);
	add(1, 1, "tool", "tool", "f", 2);
	split(KP_SPLIT_PROCESS, 2);
	kp_parts_deinit(&parts);
	split(KP_SPLIT_THREAD, 2);
	expect(0, 1, 1, "tool", 2);
	destroy();
}

Test(parts, list_each_sample_once_in_the_order_of_the_profile)
{
	uint32_t seen = 0;

	create();
	for (uint32_t i = 0; i < 100; i++)
		add(1, 1 + i % 7, "a", "t", i % 2 ? "f" : "g", 1 + i);
	split(KP_SPLIT_THREAD, 7);
	for (uint32_t i = 0; i < parts.count; i++) {
		const struct kp_part *part = &parts.part[i];
		int64_t sum = 0;

		for (uint32_t k = part->first; k < part->first + part->count; k++) {
			const struct kp_sample *s = &p->samples[parts.sample[k]];

			cr_assert_eq(parts.of_label[s->label], i);
			cr_assert(k == part->first || parts.sample[k] > parts.sample[k - 1]);
			sum += s->value[1];
			seen++;
		}
		cr_assert_eq(sum, part->total[1]);
	}
	cr_assert_eq(seen, p->sample_count);
	destroy();
}

Test(parts, have_flat_views_of_their_own)
{
	struct kp_flat flat;

	create();
	add(1, 1, "a", "a", "f", 1);
	add(1, 1, "a", "a", "g", 8);
	add(1, 2, "a", "b", "f", 2);
	split(KP_SPLIT_THREAD, 2);
	cr_assert_eq(kp_flat_build(p, &parts.sample[parts.part[1].first], parts.part[1].count,
				   &flat, &err),
		     0);
	cr_assert_eq(flat.count, 1);
	cr_assert_str_eq(p->strings[p->functions[flat.row[0].function].name], "f");
	cr_assert_eq(flat.row[0].self[1], 2);
	cr_assert_eq(flat.total[1], 2);
	kp_flat_deinit(&flat);
	destroy();
}

Test(parts, are_branches_of_the_tree)
{
	struct kp_tree tree;

	create();
	add(1, 1, "a", "a", "f", 1);
	add(1, 2, "a", "b", "f", 2);
	split(KP_SPLIT_THREAD, 2);
	cr_assert_eq(kp_tree_build(p, &parts, &tree, &err), 0);
	/* the root, two threads, f below each */
	cr_assert_eq(tree.count, 5);
	cr_assert_eq(tree.node[1].part, 1);
	cr_assert_eq(tree.node[2].part, 1);
	cr_assert_eq(tree.node[2].self[1], 1);
	cr_assert_eq(tree.node[3].part, 0);
	cr_assert_eq(tree.node[3].name, tree.node[1].name);
	cr_assert_eq(tree.node[4].self[1], 2);
	kp_tree_deinit(&tree);
	destroy();
}
