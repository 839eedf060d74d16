/* daemon/symbol/rangemap.c: innermost of nested, overlapping and equal ranges. */
#include "daemon/symbol/rangemap.h"

#include "tests/support/test.h"

#define NOTHING 9999

static void build(struct kp_rangemap *map, const struct kp_range *range, size_t n)
{
	*map = (struct kp_rangemap){ 0 };
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(kp_rangemap_add(map, &range[i], NULL), 0);
	cr_assert_eq(kp_rangemap_finish(map, NULL), 0);
}

static uint32_t at(const struct kp_rangemap *map, uint64_t address)
{
	uint32_t value = NOTHING;

	return kp_rangemap_find(map, address, &value) ? value : NOTHING;
}

Test(rangemap, is_empty_when_zeroed)
{
	struct kp_rangemap map = { 0 };

	cr_assert_eq(at(&map, 0), NOTHING);
	cr_assert_eq(kp_rangemap_finish(&map, NULL), 0);
	cr_assert_eq(at(&map, UINT64_MAX), NOTHING);
	kp_rangemap_deinit(&map);
}

Test(rangemap, gives_nothing_in_gaps_and_outside)
{
	static const struct kp_range range[] = { { 30, 40, 0, 3 }, { 10, 20, 0, 1 } };
	struct kp_rangemap map;

	build(&map, range, 2);
	cr_assert_eq(at(&map, 9), NOTHING);
	cr_assert_eq(at(&map, 10), 1);
	cr_assert_eq(at(&map, 19), 1);
	cr_assert_eq(at(&map, 20), NOTHING);
	cr_assert_eq(at(&map, 29), NOTHING);
	cr_assert_eq(at(&map, 30), 3);
	cr_assert_eq(at(&map, 40), NOTHING);
	kp_rangemap_deinit(&map);
}

Test(rangemap, goes_back_to_the_outer_range_behind_an_inner_one)
{
	static const struct kp_range range[] = {
		{ 0, 100, 0, 1 },
		{ 10, 50, 1, 2 },
		{ 20, 30, 2, 3 },
		{ 60, 70, 1, 4 },
	};
	struct kp_rangemap map;

	build(&map, range, 4);
	cr_assert_eq(at(&map, 5), 1);
	cr_assert_eq(at(&map, 15), 2);
	cr_assert_eq(at(&map, 25), 3);
	cr_assert_eq(at(&map, 35), 2);
	cr_assert_eq(at(&map, 55), 1);
	cr_assert_eq(at(&map, 65), 4);
	cr_assert_eq(at(&map, 99), 1);
	kp_rangemap_deinit(&map);
}

Test(rangemap, takes_the_later_start_where_ranges_cross)
{
	static const struct kp_range range[] = { { 0, 100, 0, 1 }, { 50, 150, 0, 2 } };
	struct kp_rangemap map;

	build(&map, range, 2);
	cr_assert_eq(at(&map, 49), 1);
	cr_assert_eq(at(&map, 50), 2);
	cr_assert_eq(at(&map, 120), 2);
	cr_assert_eq(at(&map, 150), NOTHING);
	kp_rangemap_deinit(&map);
}

Test(rangemap, takes_the_higher_rank_at_one_start_and_the_rest_of_the_longer)
{
	static const struct kp_range range[] = {
		{ 0, 10, 7, 1 },
		{ 0, 30, 3, 2 },
		{ 0, 20, 5, 3 },
	};
	struct kp_rangemap map;

	build(&map, range, 3);
	cr_assert_eq(at(&map, 9), 1);
	cr_assert_eq(at(&map, 10), 3);
	cr_assert_eq(at(&map, 19), 3);
	cr_assert_eq(at(&map, 29), 2);
	kp_rangemap_deinit(&map);
}

Test(rangemap, leaves_out_empty_and_reversed_ranges_and_reaches_the_last_address)
{
	static const struct kp_range range[] = {
		{ 10, 10, 0, 1 },
		{ 20, 15, 0, 2 },
		{ UINT64_MAX - 1, UINT64_MAX, 0, 3 },
	};
	struct kp_rangemap map;

	build(&map, range, 3);
	cr_assert_eq(at(&map, 10), NOTHING);
	cr_assert_eq(at(&map, 15), NOTHING);
	cr_assert_eq(at(&map, UINT64_MAX - 1), 3);
	cr_assert_eq(at(&map, UINT64_MAX), NOTHING);
	kp_rangemap_deinit(&map);
}

/* Every address of a few hundred random maps, against a search through all ranges. */
Test(rangemap, agrees_with_a_linear_search)
{
	uint32_t seed = 1;

	for (unsigned round = 0; round < 300; round++) {
		struct kp_range range[12];
		struct kp_rangemap map;

		for (unsigned i = 0; i < 12; i++) {
			seed = seed * 1664525 + 1013904223;
			range[i].start = (seed >> 8) % 60;
			range[i].end = range[i].start + (seed >> 16) % 25;
			range[i].rank = (seed >> 24) % 3;
			range[i].value = i;
		}
		build(&map, range, 12);
		for (uint64_t address = 0; address < 90; address++) {
			const struct kp_range *best = NULL;

			for (unsigned i = 0; i < 12; i++) {
				const struct kp_range *r = &range[i];

				if (address < r->start || address >= r->end)
					continue;
				if (!best || r->start > best->start ||
				    (r->start == best->start &&
				     (r->rank > best->rank ||
				      (r->rank == best->rank && r->end <= best->end))))
					best = r;
			}
			cr_assert_eq(at(&map, address), best ? best->value : NOTHING);
		}
		kp_rangemap_deinit(&map);
	}
}
