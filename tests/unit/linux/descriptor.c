/* Unit tests of the limits on descriptors. */
#include "daemon/linux/descriptor.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void set_limit(rlim_t limit)
{
	struct rlimit rlimit = { limit, limit };

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &rlimit), 0);
}

static int open_at(int number)
{
	int fd = open("/dev/null", O_RDONLY);

	cr_assert_eq(dup2(fd, number), number);
	close(fd);
	return number;
}

Test(descriptor, each_use_has_its_share)
{
	set_limit(400);
	cr_assert_eq(kp_descriptor_take(open_at(199), KP_DESCRIPTOR_WATCH), 199);
	cr_assert_eq(kp_descriptor_take(open_at(200), KP_DESCRIPTOR_WATCH), -1);
	cr_assert_eq(errno, EMFILE);
	cr_assert(is_open(199) && !is_open(200));
	cr_assert_eq(kp_descriptor_take(open_at(335), KP_DESCRIPTOR_CLOCK), 335);
	cr_assert_eq(kp_descriptor_take(open_at(336), KP_DESCRIPTOR_CLOCK), -1);
	cr_assert_not(is_open(336));
}

Test(descriptor, what_failed_before_is_passed_on)
{
	errno = EPERM;
	cr_assert_eq(kp_descriptor_take(-1, KP_DESCRIPTOR_CLOCK), -1);
	cr_assert_eq(errno, EPERM);
}

Test(descriptor, a_tiny_limit_leaves_nothing)
{
	set_limit(50);
	cr_assert_eq(kp_descriptor_take(open_at(40), KP_DESCRIPTOR_CLOCK), -1);
}

Test(descriptor, room_is_what_is_left_below_the_limit)
{
	int fds[60], n = 0;

	set_limit(60);
	while ((fds[n] = open("/dev/null", O_RDONLY)) >= 0)
		n++;
	cr_assert_gt(n, 4);
	cr_assert_not(kp_descriptor_has_room(1));
	for (int i = 1; i <= 4; i++)
		close(fds[n - i]);
	cr_assert(kp_descriptor_has_room(4));
	cr_assert_not(kp_descriptor_has_room(5));
	cr_assert_not(is_open(fds[n - 1]));
}
