/* Unit tests of the table of sessions, with workers that do next to nothing. */
#include "daemon/serve/sessions.h"
#include "tests/support/test.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct kp_sessions sessions;
static struct kp_err err;

enum { WRITES, DIES, SLEEPS };

static int work(void *ctx, const struct kp_request *request, struct kp_worker_desk *desk)
{
	int what = *(const int *)ctx;

	(void)request;
	kp_worker_tell_samples(desk, 5);
	kp_worker_tell_file(desk, "/some/where/a.kitprof");
	kp_worker_tell_file(desk, "a.kitprof");
	kp_worker_tell_state(desk, KP_SERVED_SAMPLING);
	if (what == DIES)
		raise(SIGKILL);
	while (what == SLEEPS)
		pause();
	kp_worker_tell_state(desk, KP_SERVED_ENDED);
	return 0;
}

static struct kp_session_entry *start(pid_t pid, int what)
{
	struct kp_served first = { .pid = pid, .comm = "x" };
	struct kp_request request = { .command = KP_REQUEST_ON, .pid = pid };
	struct kp_session_entry *entry = kp_sessions_add(&sessions);

	cr_assert_not_null(entry);
	cr_assert_eq(kp_worker_start(&entry->worker, &first, work, &what, &request, &err), 0);
	return entry;
}

static void await_end(struct kp_session_entry *entry)
{
	do
		poll(&(struct pollfd){ entry->worker.notice_fd, POLLIN, 0 }, 1, -1);
	while (kp_worker_is_there(&entry->worker));
	kp_sessions_end(&sessions, entry);
}

Test(sessions, last_words_of_a_worker_stay)
{
	struct kp_session_entry *entry = start(5, WRITES);
	struct kp_served served;

	cr_assert_eq(kp_sessions_find_pid(&sessions, 5), entry);
	await_end(entry);
	kp_session_entry_read(entry, &served);
	cr_assert_eq(served.state, KP_SERVED_ENDED);
	cr_assert_eq(served.samples, 5);
	cr_assert_eq(served.file_count, 1);
	cr_assert_str_eq(served.files[0], "a.kitprof");
	cr_assert_eq(kp_sessions_find_pid(&sessions, 5), entry);
	cr_assert_eq(sessions.running, 0);
	kp_sessions_deinit(&sessions);
}

Test(sessions, killed_worker_is_told_with_what_it_had)
{
	struct kp_session_entry *entry = start(5, DIES);

	await_end(entry);
	cr_assert_eq(entry->last.state, KP_SERVED_FAILED);
	cr_assert_not_null(strstr(entry->last.error, "killed by signal 9"));
	cr_assert_not_null(strstr(entry->last.error, "a.kitprof"));
	kp_sessions_deinit(&sessions);
}

Test(sessions, worker_ends_when_its_server_dies)
{
	int pipes[2];
	char byte;
	pid_t server;

	cr_assert_eq(pipe(pipes), 0);
	server = fork();
	if (server == 0) {
		start(5, SLEEPS);
		while (write(pipes[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(pipes[1]);
	/* The worker holds no descriptor of ours: the end of the pipe is the server's death alone. */
	cr_assert_eq(read(pipes[0], &byte, 1), 1);
	kill(server, SIGKILL);
	cr_assert_eq(read(pipes[0], &byte, 1), 0);
}

Test(sessions, running_one_is_found_before_an_older_one)
{
	struct kp_session_entry *old = start(5, WRITES), *young;

	await_end(old);
	young = start(5, SLEEPS);
	cr_assert_eq(kp_sessions_find_pid(&sessions, 5), young);
	cr_assert_eq(kp_sessions_find_id(&sessions, old->id), old);
	cr_assert_null(kp_sessions_find_pid(&sessions, 6));
	kill(young->worker.pid, SIGTERM);
	await_end(young);
	kp_sessions_drop(&sessions, young);
	cr_assert_eq(kp_sessions_find_pid(&sessions, 5), old);
	kp_sessions_deinit(&sessions);
}

Test(sessions, oldest_of_too_many_are_forgotten)
{
	struct kp_session_entry *lasting = start(1000, SLEEPS);

	for (pid_t pid = 1; pid <= KP_CONTROL_HISTORY_MAX + 2; pid++)
		await_end(start(pid, WRITES));
	cr_assert_eq(sessions.count, KP_CONTROL_HISTORY_MAX + 1);
	cr_assert_null(kp_sessions_find_pid(&sessions, 2));
	cr_assert_not_null(kp_sessions_find_pid(&sessions, 3));
	/* Old is what ended long ago, not what began long ago. */
	kill(lasting->worker.pid, SIGTERM);
	await_end(lasting);
	cr_assert_eq(kp_sessions_find_pid(&sessions, 1000), lasting);
	cr_assert_null(kp_sessions_find_pid(&sessions, 3));
	kp_sessions_deinit(&sessions);
}
