/* daemon/symbol/pin.c: descriptors of module files, owned and found again. */
#include "daemon/symbol/pin.h"

#include "tests/support/test.h"

#include <fcntl.h>
#include <unistd.h>

static const uint8_t id[] = { 1, 2, 3, 4 };

static int open_null(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

Test(pin, finds_by_path_and_build_id)
{
	int with_id = open_null(), without = open_null();
	struct kp_pins *pins;

	cr_assert_eq(kp_pins_create(&pins, NULL), 0);
	cr_assert_eq(kp_pins_take(pins, "/lib/a.so", 9, id, 4, with_id, NULL), 0);
	cr_assert_eq(kp_pins_take(pins, "/lib/a.so", 9, NULL, 0, without, NULL), 0);
	cr_assert_eq(kp_pins_find(pins, "/lib/a.so(deleted)", 9, id, 4), with_id);
	cr_assert_eq(kp_pins_find(pins, "/lib/a.so", 9, NULL, 0), without);
	cr_assert_eq(kp_pins_find(pins, "/lib/a.so", 8, id, 4), -1);
	cr_assert_eq(kp_pins_find(pins, "/lib/a.so", 9, id, 3), -1);
	cr_assert_eq(kp_pins_find(NULL, "/lib/a.so", 9, id, 4), -1);
	kp_pins_destroy(pins);
	cr_assert(!is_open(with_id));
	cr_assert(!is_open(without));
}

Test(pin, closes_a_second_descriptor_of_the_same_module)
{
	int first = open_null(), second = open_null();
	struct kp_pins *pins;

	cr_assert_eq(kp_pins_create(&pins, NULL), 0);
	cr_assert_eq(kp_pins_take(pins, "/x", 2, id, 4, first, NULL), 0);
	cr_assert_eq(kp_pins_take(pins, "/x", 2, id, 4, second, NULL), 0);
	cr_assert(!is_open(second));
	cr_assert_eq(kp_pins_find(pins, "/x", 2, id, 4), first);
	kp_pins_destroy(pins);
}

Test(pin, grants_one_image_to_each_module_and_not_too_much_to_all)
{
	struct kp_pins *pins;
	int fd = open_null();

	cr_assert_eq(kp_pins_create(&pins, NULL), 0);
	cr_assert(kp_pins_grant_image(pins, "/a", 2, id, 4, 1 << 20));
	cr_assert(!kp_pins_grant_image(pins, "/a", 2, id, 4, 1 << 20));
	cr_assert(kp_pins_grant_image(pins, "/a", 2, id, 3, 1 << 20));
	cr_assert_eq(kp_pins_find(pins, "/a", 2, id, 4), -1);
	cr_assert_eq(kp_pins_take(pins, "/a", 2, id, 4, fd, NULL),
		     0); /* there is a file after all */
	cr_assert_eq(kp_pins_find(pins, "/a", 2, id, 4), fd);
	cr_assert(!kp_pins_grant_image(pins, "/b", 2, id, 4, 63u << 20));
	cr_assert(kp_pins_grant_image(pins, "/b", 2, id, 4, 62u << 20));
	cr_assert(!kp_pins_grant_image(pins, "/c", 2, id, 4, 1));
	cr_assert(kp_pins_grant_image(NULL, "/c", 2, id, 4, 1));
	kp_pins_destroy(pins);
	cr_assert(!is_open(fd));
}

Test(pin, keeps_many)
{
	struct kp_pins *pins;
	int fd[100];

	cr_assert_eq(kp_pins_create(&pins, NULL), 0);
	for (uint8_t i = 0; i < 100; i++) {
		fd[i] = open_null();
		cr_assert_eq(kp_pins_take(pins, "/x", 2, &i, 1, fd[i], NULL), 0);
	}
	for (uint8_t i = 0; i < 100; i++)
		cr_assert_eq(kp_pins_find(pins, "/x", 2, &i, 1), fd[i]);
	kp_pins_destroy(pins);
	kp_pins_destroy(NULL);
}
