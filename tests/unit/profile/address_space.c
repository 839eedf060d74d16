/*
 * Unit tests of address spaces: what a new mapping does to those that it covers.
 */
#include "daemon/profile/address_space.h"
#include "tests/support/test.h"

static void map(struct kp_address_space *a, uint64_t start, uint64_t end, uint32_t module)
{
	struct kp_address_range range = { start, end, module };
	struct kp_err err;

	cr_assert_eq(kp_address_space_map(a, &range, &err), 0);
	for (uint32_t i = 0; i < a->count; i++) {
		cr_assert_lt(a->range[i].start, a->range[i].end);
		if (i)
			cr_assert_leq(a->range[i - 1].end, a->range[i].start);
	}
}

Test(address_space, is_half_open)
{
	struct kp_address_space a = { 0 };

	cr_assert_eq(kp_address_space_find(&a, 10), 0);
	map(&a, 10, 20, 1);
	cr_assert_eq(kp_address_space_find(&a, 9), 0);
	cr_assert_eq(kp_address_space_find(&a, 10), 1);
	cr_assert_eq(kp_address_space_find(&a, 19), 1);
	cr_assert_eq(kp_address_space_find(&a, 20), 0);
	kp_address_space_deinit(&a);
}

Test(address_space, keeps_ranges_sorted_whatever_the_order_of_mapping)
{
	struct kp_address_space a = { 0 };

	for (uint32_t i = 0; i < 100; i++) {
		uint64_t place = i * 37 % 100; /* each number below 100 once */

		map(&a, place * 10, place * 10 + 10, (uint32_t)place + 1);
	}
	cr_assert_eq(a.count, 100);
	for (uint64_t address = 0; address < 1000; address++)
		cr_assert_eq(kp_address_space_find(&a, address), address / 10 + 1);
	kp_address_space_deinit(&a);
}

Test(address_space, splits_a_range_that_is_covered_in_the_middle)
{
	struct kp_address_space a = { 0 };

	map(&a, 10, 40, 1);
	map(&a, 20, 30, 2);
	cr_assert_eq(a.count, 3);
	cr_assert_eq(kp_address_space_find(&a, 19), 1);
	cr_assert_eq(kp_address_space_find(&a, 20), 2);
	cr_assert_eq(kp_address_space_find(&a, 29), 2);
	cr_assert_eq(kp_address_space_find(&a, 30), 1);
	cr_assert_eq(kp_address_space_find(&a, 39), 1);
	kp_address_space_deinit(&a);
}

Test(address_space, replaces_what_is_covered_and_cuts_what_is_touched)
{
	struct kp_address_space a = { 0 };

	map(&a, 10, 20, 1);
	map(&a, 20, 30, 2);
	map(&a, 30, 40, 3);
	map(&a, 50, 60, 4);
	map(&a, 15, 35, 5);
	cr_assert_eq(a.count, 4);
	cr_assert_eq(kp_address_space_find(&a, 14), 1);
	cr_assert_eq(kp_address_space_find(&a, 15), 5);
	cr_assert_eq(kp_address_space_find(&a, 34), 5);
	cr_assert_eq(kp_address_space_find(&a, 35), 3);
	cr_assert_eq(kp_address_space_find(&a, 45), 0);
	cr_assert_eq(kp_address_space_find(&a, 55), 4);
	map(&a, 0, 100, 6);
	cr_assert_eq(a.count, 1);
	cr_assert_eq(kp_address_space_find(&a, 55), 6);
	kp_address_space_deinit(&a);
}

Test(address_space, reaches_to_the_last_address)
{
	struct kp_address_space a = { 0 };

	map(&a, UINT64_MAX - 0xfff, UINT64_MAX, 1); /* the old vsyscall page lies up there */
	cr_assert_eq(kp_address_space_find(&a, UINT64_MAX - 1), 1);
	cr_assert_eq(kp_address_space_find(&a, UINT64_MAX), 0);
	kp_address_space_deinit(&a);
}
