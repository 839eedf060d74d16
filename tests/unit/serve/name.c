/* Unit tests of the names of results. */
#include "daemon/serve/name.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char ret[512];

static const char *name(const char *comm, pid_t pid)
{
	return kp_result_name("/nowhere", comm, pid, 1795977000, ret, sizeof(ret));
}

Test(name, is_process_pid_and_time)
{
	cr_assert_str_eq(name("redis-server", 4711), "/nowhere/redis-server-4711-20261129T183000Z");
	cr_assert_str_eq(name("redis-server", 0), "/nowhere/redis-server-20261129T183000Z");
}

Test(name, has_nothing_that_means_something_elsewhere)
{
	cr_assert_str_eq(name("../a b/c;d\n\xc3\xa4$", 5),
			 "/nowhere/_._a_b_c_d____-5-20261129T183000Z");
	cr_assert_str_eq(name("-rf", 5), "/nowhere/_rf-5-20261129T183000Z");
	cr_assert_str_eq(name(".x", 5), "/nowhere/_x-5-20261129T183000Z");
	cr_assert_str_eq(name("", 5), "/nowhere/process-5-20261129T183000Z");
}

Test(name, is_bounded)
{
	char comm[300], small[16];

	memset(comm, 'x', sizeof(comm));
	comm[sizeof(comm) - 1] = 0;
	cr_assert_eq(strlen(name(comm, 5)), strlen("/nowhere/-5-20261129T183000Z") + 64);
	cr_assert_str_eq(kp_result_name("/nowhere", "x", 5, 0, small, sizeof(small)), "");
}

static void make(const char *base, const char *extension)
{
	char path[600];

	snprintf(path, sizeof(path), "%s%s", base, extension);
	close(open(path, O_CREAT | O_WRONLY, 0600));
}

Test(name, does_not_take_that_of_older_results)
{
	char dir[] = "/tmp/kitprof-name.XXXXXX", first[512], second[512], command[64];

	cr_assert_not_null(mkdtemp(dir));
	kp_result_name(dir, "x", 5, 0, first, sizeof(first));
	make(first, ".flat");
	kp_result_name(dir, "x", 5, 0, second, sizeof(second));
	make(second, ".kitprof");
	kp_result_name(dir, "x", 5, 0, ret, sizeof(ret));
	cr_assert_str_eq(second + strlen(first), "-2");
	cr_assert_str_eq(ret + strlen(first), "-3");
	snprintf(command, sizeof(command), "rm -r %s", dir);
	cr_assert_eq(system(command), 0);
}
