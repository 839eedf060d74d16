/* In how many samples modules are. */
#include "daemon/profile/presence.h"

#include "tests/support/test.h"

Test(presence, counts_a_module_once_in_a_sample)
{
	struct kp_presence p = { 0 };
	struct kp_err err;

	cr_assert_eq(kp_presence_samples(&p, 0), 0);
	for (uint64_t sample = 1; sample <= 3; sample++) {
		cr_assert_eq(kp_presence_add(&p, 7, sample, &err), 0);
		cr_assert_eq(kp_presence_add(&p, 7, sample, &err), 0);
	}
	cr_assert_eq(kp_presence_add(&p, 100000, 3, &err), 0);
	cr_assert_eq(kp_presence_samples(&p, 7), 3);
	cr_assert_eq(kp_presence_samples(&p, 8), 0);
	cr_assert_eq(kp_presence_samples(&p, 100000), 1);
	cr_assert_eq(kp_presence_samples(&p, 4000000000u), 0);
	kp_presence_deinit(&p);
}
