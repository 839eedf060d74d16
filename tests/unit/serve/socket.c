/* Unit tests of the control socket: where it is, and what is done about what is there already. */
#include "daemon/serve/socket.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct kp_err err;
static char dir[64], path[96];
static struct kp_listener listener;

static void begin(void)
{
	strcpy(dir, "/tmp/kitprof-socket.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
}

static void end(void)
{
	unlink(path);
	cr_assert_eq(rmdir(dir), 0);
}

Test(socket, is_private_and_goes_with_its_server)
{
	struct stat st;
	uid_t uid;
	int fd;

	begin();
	cr_assert_eq(kp_listener_init(&listener, path, &err), 0);
	cr_assert_eq(lstat(path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	cr_assert_eq(kp_socket_connect(path, &fd, &err), 0);
	cr_assert(kp_socket_is_peer_allowed(fd, &uid));
	cr_assert_eq(uid, geteuid());
	close(fd);
	kp_listener_deinit(&listener);
	cr_assert_neq(access(path, F_OK), 0);
	end();
}

Test(socket, of_a_living_server_is_left_alone)
{
	struct kp_listener other;

	begin();
	cr_assert_eq(kp_listener_init(&listener, path, &err), 0);
	cr_assert_eq(kp_listener_init(&other, path, &err), -KP_EBUSY);
	cr_assert_not_null(strstr(err.text, "another kitprofd listens at"));
	cr_assert_eq(access(path, F_OK), 0);
	kp_listener_deinit(&other);
	kp_listener_deinit(&listener);
	end();
}

Test(socket, of_a_dead_server_is_replaced)
{
	struct kp_listener other;

	begin();
	cr_assert_eq(kp_listener_init(&listener, path, &err), 0);
	close(listener.fd); /* as a kill does */
	cr_assert_eq(kp_socket_connect(path, &listener.fd, &err), -KP_EGONE);
	cr_assert_not_null(strstr(err.text, "no kitprofd is listening at"));
	cr_assert_eq(kp_listener_init(&other, path, &err), 0, "%s", err.text);
	kp_listener_deinit(&other);
	end();
}

Test(socket, of_a_successor_is_not_removed)
{
	struct kp_listener other;

	begin();
	cr_assert_eq(kp_listener_init(&listener, path, &err), 0);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(kp_listener_init(&other, path, &err), 0);
	kp_listener_deinit(&listener);
	cr_assert_eq(access(path, F_OK), 0);
	kp_listener_deinit(&other);
	end();
}

Test(socket, does_not_replace_what_is_no_socket)
{
	begin();
	close(open(path, O_CREAT | O_WRONLY, 0600));
	cr_assert_eq(kp_listener_init(&listener, path, &err), -KP_EREFUSED);
	cr_assert_not_null(strstr(err.text, "is no socket"));
	cr_assert_eq(access(path, F_OK), 0);
	end();
}

Test(socket, path_has_its_length)
{
	char text[200];
	int fd;

	memset(text, 'x', sizeof(text));
	text[108] = 0;
	cr_assert_eq(kp_listener_init(&listener, text, &err), -KP_EUSAGE);
	cr_assert_eq(kp_socket_connect(text, &fd, &err), -KP_EUSAGE);
	cr_assert_eq(kp_socket_connect("", &fd, &err), -KP_EUSAGE);
}

Test(socket, is_in_the_runtime_directory_if_that_is_ours)
{
	char found[256], expected[96];

	begin();
	setenv("XDG_RUNTIME_DIR", dir, 1);
	snprintf(expected, sizeof(expected), "%s/kitprofd.sock", dir);
	cr_assert_eq(kp_socket_default_path(false, found, sizeof(found), &err), 0);
	cr_assert_str_eq(found, expected);
	setenv("XDG_RUNTIME_DIR", "relative", 1);
	if (kp_socket_default_path(false, found, sizeof(found), &err) == 0)
		cr_assert_null(strstr(found, "relative"));
	setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
	if (kp_socket_default_path(false, found, sizeof(found), &err) == 0)
		cr_assert_null(strstr(found, "nowhere"));
	end();
}
