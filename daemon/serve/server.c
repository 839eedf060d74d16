/* The server: server.h. kitprofd, its one thread. */
#include "daemon/serve/server.h"

#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/serve/connection.h"
#include "daemon/serve/sessions.h"
#include "daemon/serve/socket.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>

#define CONNECTIONS 32
#define LOOK_MS 1000 /* how often silent clients are looked for */

enum { FD_SIGNALS, FD_LISTENER, FD_CONNECTIONS, FD_WORKERS = FD_CONNECTIONS + CONNECTIONS };
#define FDS (FD_WORKERS + KP_CONTROL_SESSIONS_MAX)

struct server {
	const struct kp_server_options *options;
	struct kp_listener listener;
	int signal_fd;
	bool stopping;
	struct kp_sessions sessions;
	struct kp_connection connections[CONNECTIONS];
};

__attribute__((format(printf, 2, 3))) static void say(const struct server *s, const char *fmt, ...)
{
	char line[700];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	s->options->say(s->options->ctx, line);
}

/* ---- answers ---- */

static void send_answer(struct kp_connection *c, const struct kp_answer *answer)
{
	struct kp_err err;
	char *text = NULL;

	if (kp_answer_encode(answer, &text, &err) < 0)
		c->closes = true; /* no memory: the client sees the end */
	kp_connection_take_answer(c, text, kp_now_ns());
}

static void send_error(struct kp_connection *c, const char *text)
{
	struct kp_answer answer = { 0 };

	snprintf(answer.error, sizeof(answer.error), "%s", text);
	send_answer(c, &answer);
}

static void send_session(const struct server *s, struct kp_connection *c,
			 const struct kp_served *served)
{
	struct kp_served copy = *served;
	struct kp_answer answer = { .sessions = &copy, .session_count = 1 };

	snprintf(answer.dir, sizeof(answer.dir), "%s", s->options->dir);
	send_answer(c, &answer);
}

/* ---- requests ---- */

static void since_now(struct kp_served *served)
{
	served->since_unix_s = (uint64_t)time(NULL);
}

static int start_session(struct server *s, const struct kp_request *request, uint64_t *ret_id,
			 struct kp_err *err)
{
	struct kp_session_entry *entry = kp_sessions_find_pid(&s->sessions, request->pid);
	struct kp_served first = { .pid = request->pid };
	int r;

	if (s->stopping)
		return kp_fail(err, KP_EBUSY, "kitprofd is about to end");
	if (entry && entry->running && request->all)
		return kp_fail(err, KP_EBUSY,
			       "all are being profiled already; `kitprof off --all` ends that");
	if (entry && entry->running)
		return kp_fail(err, KP_EBUSY,
			       "pid %d is being profiled already; `kitprof off %d` ends that",
			       (int)request->pid, (int)request->pid);
	r = s->options->check(s->options->ctx, request, &first, err);
	if (r < 0)
		return r;
	entry = kp_sessions_add(&s->sessions);
	if (!entry)
		return kp_fail(err, KP_EBUSY, "there are %zu sessions; no more fit",
			       s->sessions.running);
	since_now(&first);
	first.id = entry->id;
	r = kp_worker_start(&entry->worker, &first, s->options->work, s->options->ctx, request,
			    err);
	if (r < 0)
		kp_sessions_drop(&s->sessions, entry);
	else
		*ret_id = entry->id;
	return r;
}

static void on(struct server *s, struct kp_connection *c, const struct kp_request *request)
{
	struct kp_err err;

	if (start_session(s, request, &c->waits_for, &err) < 0)
		send_error(c, err.text);
	else
		c->waits_for_end = false;
}

static void send_unknown(struct kp_connection *c, const struct kp_request *request)
{
	char line[96];

	if (request->session)
		snprintf(line, sizeof(line), "there is no session %" PRIu64, request->session);
	else if (request->all)
		snprintf(line, sizeof(line), "all are not being profiled");
	else
		snprintf(line, sizeof(line), "pid %d is not being profiled", (int)request->pid);
	snprintf(line + strlen(line), sizeof(line) - strlen(line),
		 "; `kitprof status` lists what is");
	send_error(c, line);
}

static void off(struct server *s, struct kp_connection *c, const struct kp_request *request)
{
	struct kp_session_entry *entry =
		request->session ? kp_sessions_find_id(&s->sessions, request->session)
				 : kp_sessions_find_pid(&s->sessions, request->pid);

	if (!entry) {
		send_unknown(c, request);
	} else if (!entry->running) {
		send_session(s, c, &entry->last);
	} else {
		kill(entry->worker.pid, SIGTERM);
		c->waits_for = entry->id;
		c->waits_for_end = true;
	}
}

static void status(const struct server *s, struct kp_connection *c)
{
	struct kp_answer answer = { .session_count = s->sessions.count };

	answer.sessions = calloc(s->sessions.count + 1, sizeof(*answer.sessions));
	if (!answer.sessions) {
		c->closes = true;
		return;
	}
	snprintf(answer.dir, sizeof(answer.dir), "%s", s->options->dir);
	for (size_t i = 0; i < s->sessions.count; i++)
		kp_session_entry_read(s->sessions.entry[i], &answer.sessions[i]);
	send_answer(c, &answer);
	kp_answer_deinit(&answer);
}

static void obey(struct server *s, struct kp_connection *c, const char *line, size_t len)
{
	struct kp_request request;
	struct kp_err err;

	if (kp_request_decode(line, len, &request, &err) < 0) {
		send_error(c, err.text);
		return;
	}
	switch (request.command) {
	case KP_REQUEST_ON:
		on(s, c, &request);
		break;
	case KP_REQUEST_OFF:
		off(s, c, &request);
		break;
	case KP_REQUEST_STATUS:
		status(s, c);
		break;
	}
	kp_request_deinit(&request);
}

/* ---- clients ---- */

static void read_lines(struct server *s, struct kp_connection *c)
{
	const char *line;
	size_t len;

	switch (kp_connection_line(c, &line, &len)) {
	case KP_LINE_NONE:
		break;
	case KP_LINE_TOO_LONG:
		send_error(c, "the request is too long");
		c->closes = true;
		break;
	case KP_LINE_THERE:
		obey(s, c, line, len);
		kp_connection_eat(c, len);
		break;
	}
}

static void move(struct server *s, struct kp_connection *c, short revents)
{
	uint64_t now = kp_now_ns();
	bool stays = kp_connection_move(c, revents, now);

	read_lines(s, c);
	if (!stays || kp_connection_is_done(c, now))
		kp_connection_deinit(c);
}

static struct kp_connection *free_connection(struct server *s)
{
	for (size_t i = 0; i < CONNECTIONS; i++)
		if (s->connections[i].fd < 0)
			return &s->connections[i];
	return NULL;
}

static void welcome(struct server *s)
{
	struct kp_connection *c = free_connection(s);
	int fd = c ? accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
	uid_t uid;

	if (fd < 0)
		return;
	kp_connection_init(c, fd, kp_now_ns());
	if (!kp_socket_is_peer_allowed(fd, &uid)) {
		say(s, "refused a client of uid %u", (unsigned)uid);
		send_error(c, "this kitprofd serves its own user only");
		c->closes = true;
	}
}

/* ---- workers ---- */

/* Whoever waits for this session gets to know, if it has come as far as that. */
static void tell_waiting(struct server *s, uint64_t id, const struct kp_served *served)
{
	bool is_over = served->state == KP_SERVED_ENDED || served->state == KP_SERVED_FAILED;

	for (size_t i = 0; i < CONNECTIONS; i++) {
		struct kp_connection *c = &s->connections[i];

		if (c->fd < 0 || c->waits_for != id)
			continue;
		if (c->waits_for_end ? !is_over : served->state == KP_SERVED_STARTING)
			continue;
		if (!c->waits_for_end && served->state == KP_SERVED_FAILED)
			send_error(c, served->error);
		else
			send_session(s, c, served);
	}
}

/* A session that did not come about is the client's error and no part of the history. */
static bool never_began(const struct kp_served *served)
{
	return served->state == KP_SERVED_FAILED && served->file_count == 0 && served->samples == 0;
}

static void hear(struct server *s, struct kp_session_entry *entry)
{
	struct kp_served served;
	uint64_t id = entry->id;

	if (kp_worker_is_there(&entry->worker)) {
		kp_session_entry_read(entry, &served);
		if (served.state < KP_SERVED_ENDED) /* else its end is heard of in a moment */
			tell_waiting(s, id, &served);
		return;
	}
	kp_sessions_end(&s->sessions, entry);
	served = entry->last;
	tell_waiting(s, id, &served);
	if (never_began(&served))
		kp_sessions_drop(&s->sessions, entry);
	else if (served.state == KP_SERVED_FAILED && served.pid)
		say(s, "pid %d (%s): %s", (int)served.pid, served.comm, served.error);
	else if (served.state == KP_SERVED_FAILED)
		say(s, "all (%s): %s", served.comm, served.error);
}

/* ---- the loop ---- */

static void stop(struct server *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		s->stopping = true;
	for (size_t i = 0; s->stopping && i < s->sessions.count; i++)
		if (s->sessions.entry[i]->running)
			kill(s->sessions.entry[i]->worker.pid, SIGTERM);
}

/* Ids of the workers are noted: entries move when one ends. */
static void wait_for_something(struct server *s, struct pollfd fds[static FDS],
			       uint64_t ids[static KP_CONTROL_SESSIONS_MAX], size_t *ret_workers)
{
	bool has_clients = false;
	size_t workers = 0;

	fds[FD_SIGNALS] = (struct pollfd){ s->signal_fd, POLLIN, 0 };
	fds[FD_LISTENER] = (struct pollfd){ free_connection(s) ? s->listener.fd : -1, POLLIN, 0 };
	for (size_t i = 0; i < CONNECTIONS; i++) {
		const struct kp_connection *c = &s->connections[i];

		fds[FD_CONNECTIONS + i] = (struct pollfd){ c->fd, kp_connection_events(c), 0 };
		has_clients |= c->fd >= 0;
	}
	for (size_t i = 0; i < s->sessions.count; i++) {
		const struct kp_session_entry *entry = s->sessions.entry[i];

		if (!entry->running)
			continue;
		fds[FD_WORKERS + workers] = (struct pollfd){ entry->worker.notice_fd, POLLIN, 0 };
		ids[workers++] = entry->id;
	}
	if (poll(fds, FD_WORKERS + workers, has_clients ? LOOK_MS : -1) < 0)
		workers = 0; /* EINTR: nothing of fds holds */
	*ret_workers = workers;
}

static void turn(struct server *s)
{
	struct pollfd fds[FDS] = { 0 };
	uint64_t ids[KP_CONTROL_SESSIONS_MAX];
	size_t workers;

	wait_for_something(s, fds, ids, &workers);
	for (size_t i = 0; i < workers; i++)
		if (fds[FD_WORKERS + i].revents)
			hear(s, kp_sessions_find_id(&s->sessions, ids[i]));
	for (size_t i = 0; i < CONNECTIONS; i++)
		if (s->connections[i].fd >= 0)
			move(s, &s->connections[i], fds[FD_CONNECTIONS + i].revents);
	if (fds[FD_LISTENER].revents)
		welcome(s);
	if (fds[FD_SIGNALS].revents)
		stop(s);
}

static bool has_answers_to_send(const struct server *s)
{
	for (size_t i = 0; i < CONNECTIONS; i++)
		if (s->connections[i].fd >= 0 && s->connections[i].out)
			return true;
	return false;
}

static int prepare(struct server *s, struct kp_err *err)
{
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	/* Workers inherit this: theirs are read by their session, and by nobody before and after. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signal_fd < 0)
		return kp_fail_errno(err, "signalfd");
	r = kp_listener_init(&s->listener, s->options->socket_path, err);
	if (r == 0)
		say(s, "serving at %s, results go to %s", s->listener.path, s->options->dir);
	return r;
}

int kp_server_run(const struct kp_server_options *options, struct kp_err *err)
{
	struct server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return kp_fail_nomem(err);
	s->options = options;
	s->listener.fd = s->signal_fd = -1;
	for (size_t i = 0; i < CONNECTIONS; i++)
		s->connections[i].fd = -1;
	r = prepare(s, err);
	while (r == 0 && !(s->stopping && s->sessions.running == 0 && !has_answers_to_send(s)))
		turn(s);
	kp_listener_deinit(&s->listener);
	for (size_t i = 0; i < CONNECTIONS; i++)
		kp_connection_deinit(&s->connections[i]);
	kp_sessions_deinit(&s->sessions);
	kp_closep(&s->signal_fd);
	free(s);
	return r;
}
