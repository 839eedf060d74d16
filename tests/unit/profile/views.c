/*
 * Unit tests of the views on a profile: the tree by name and the flat view.
 */
#include "daemon/profile/flat.h"
#include "daemon/profile/profile.h"
#include "daemon/profile/tree.h"
#include "tests/support/test.h"

#include <string.h>

static struct kp_err err;
static struct kp_profile *p;

static void create(void)
{
	cr_assert_eq(kp_profile_create(&p, &err), 0);
	cr_assert_eq(kp_profile_value_type(p, "samples", "count", &err), 0);
}

static uint32_t string(const char *text)
{
	uint32_t id = 0;

	cr_assert_eq(kp_profile_string(p, text, strlen(text), &id, &err), 0);
	return id;
}

static uint32_t function(const char *name)
{
	struct kp_function f = { .name = string(name) };
	uint32_t id = 0;

	cr_assert_eq(kp_profile_function(p, &f, &id, &err), 0);
	return id;
}

/* A location with the names innermost first, up to a NULL. */
static uint32_t location(uint64_t address, const char *const *name)
{
	struct kp_line line[4];
	uint32_t n = 0, id = 0;

	for (; name[n]; n++)
		line[n] = (struct kp_line){ function(name[n]), n + 1 };
	cr_assert_eq(kp_profile_location(p, 0, address, line, n, &id, &err), 0);
	return id;
}
#define NAMES(...)                                                                                 \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

/* locations from the root, up to 0 */
static void add(const char *comm, const uint32_t *at, int64_t count)
{
	struct kp_label l = { .pid = 1, .comm = string(comm) };
	uint32_t stack = 0, label = 0;

	for (; *at; at++)
		cr_assert_eq(kp_profile_stack(p, stack, *at, &stack, &err), 0);
	cr_assert_eq(kp_profile_label(p, &l, &label, &err), 0);
	cr_assert_eq(kp_profile_add(p, stack, label, &count, &err), 0);
}
#define PATH(...)                                                                                  \
	(const uint32_t[])                                                                         \
	{                                                                                          \
		__VA_ARGS__, 0                                                                     \
	}

static const struct kp_flat_row *row(const struct kp_flat *flat, const char *name)
{
	for (uint32_t i = 0; i < flat->count; i++) {
		if (strcmp(p->strings[p->functions[flat->row[i].function].name], name) == 0)
			return &flat->row[i];
	}
	return NULL;
}

Test(flat, counts_recursion_once)
{
	struct kp_flat flat;
	uint32_t main_at, f1, f2;

	create();
	main_at = location(1, NAMES("main"));
	f1 = location(2, NAMES("f"));
	f2 = location(3, NAMES("f"));
	add("x", PATH(main_at, f1, f2, f1, f2), 7);
	add("x", PATH(main_at), 3);
	cr_assert_eq(kp_flat_build(p, NULL, 0, &flat, &err), 0);
	cr_assert_eq(flat.total[0], 10);
	cr_assert_eq(flat.count, 2);
	cr_assert_eq(row(&flat, "f")->self[0], 7);
	cr_assert_eq(row(&flat, "f")->cumulative[0], 7);
	cr_assert_eq(row(&flat, "main")->self[0], 3);
	cr_assert_eq(row(&flat, "main")->cumulative[0], 10);
	kp_flat_deinit(&flat);
	kp_profile_destroy(p);
}

Test(flat, gives_self_to_the_innermost_inlined_frame)
{
	struct kp_flat flat;

	create();
	add("x", PATH(location(1, NAMES("inner", "middle", "outer"))), 5);
	/* A function inlined into itself. */
	add("x", PATH(location(2, NAMES("inner", "inner"))), 1);
	cr_assert_eq(kp_flat_build(p, NULL, 0, &flat, &err), 0);
	cr_assert_eq(row(&flat, "inner")->self[0], 6);
	cr_assert_eq(row(&flat, "inner")->cumulative[0], 6);
	cr_assert_eq(row(&flat, "middle")->self[0], 0);
	cr_assert_eq(row(&flat, "middle")->cumulative[0], 5);
	cr_assert_eq(row(&flat, "outer")->cumulative[0], 5);
	kp_flat_deinit(&flat);
	kp_profile_destroy(p);
}

Test(flat, sorts_by_self_then_cumulative_then_name)
{
	static const char *const expected[] = { "big", "both", "b_leaf", "c_leaf", "root" };
	struct kp_flat flat;
	uint32_t root, both;

	create();
	root = location(1, NAMES("root"));
	both = location(2, NAMES("both"));
	add("x", PATH(root, location(3, NAMES("c_leaf"))), 2);
	add("x", PATH(root, location(4, NAMES("b_leaf"))), 2);
	add("x", PATH(root, both), 2);
	add("x", PATH(root, both, location(5, NAMES("big"))), 9);
	cr_assert_eq(kp_flat_build(p, NULL, 0, &flat, &err), 0);
	cr_assert_eq(flat.count, 5);
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(row(&flat, expected[i]), &flat.row[i]);
	kp_flat_deinit(&flat);
	kp_profile_destroy(p);
}

static void build_tree(enum kp_split split, struct kp_parts *parts, struct kp_tree *tree)
{
	cr_assert_eq(kp_parts_build(p, split, parts, &err), 0);
	cr_assert_eq(kp_tree_build(p, parts, tree, &err), 0);
}

Test(tree, joins_stacks_that_differ_in_addresses_only)
{
	struct kp_parts parts;
	struct kp_tree tree;
	uint32_t main_at;

	create();
	main_at = location(1, NAMES("main"));
	add("x", PATH(main_at, location(2, NAMES("f"))), 1);
	add("x", PATH(main_at, location(3, NAMES("f"))), 2);
	add("x", PATH(main_at), 4);
	add("y", PATH(main_at), 8);
	build_tree(KP_SPLIT_NONE, &parts, &tree);
	/* the root, x, x;main, x;main;f, y, y;main */
	cr_assert_eq(tree.count, 6);
	cr_assert_str_eq(p->strings[tree.node[1].name], "x");
	cr_assert_eq(tree.node[1].parent, 0);
	cr_assert_eq(tree.node[2].self[0], 4);
	cr_assert_str_eq(p->strings[tree.node[3].name], "f");
	cr_assert_eq(tree.node[3].parent, 2);
	cr_assert_eq(tree.node[3].self[0], 3);
	cr_assert_eq(tree.node[5].self[0], 8);
	kp_tree_deinit(&tree);
	kp_parts_deinit(&parts);
	kp_profile_destroy(p);
}

Test(tree, makes_inlined_frames_nodes_below_their_caller)
{
	struct kp_parts parts;
	struct kp_tree tree;

	create();
	add("x", PATH(location(1, NAMES("inner", "outer"))), 1);
	build_tree(KP_SPLIT_NONE, &parts, &tree);
	cr_assert_eq(tree.count, 4);
	cr_assert_str_eq(p->strings[tree.node[2].name], "outer");
	cr_assert_str_eq(p->strings[tree.node[3].name], "inner");
	cr_assert_eq(tree.node[3].self[0], 1);
	kp_tree_deinit(&tree);
	kp_parts_deinit(&parts);
	kp_profile_destroy(p);
}
