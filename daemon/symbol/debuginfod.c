/* Files from debuginfod servers: debuginfod.h. Runs in the daemon; its children touch the network. */
#include "daemon/symbol/debuginfod.h"

#include "common/cleanup.h"
#include "daemon/linux/descriptor.h"
#include "daemon/linux/monotonic.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PROGRAM "debuginfod-find"
#define AT_ONCE 8u
#define TICK_MS 20
#define TIMEOUT_S "10" /* DEBUGINFOD_TIMEOUT, where the user has none */
#define FILE_BYTES_MAX (UINT64_C(8) << 30) /* that a server may have us write */
#define PATH_BYTES 4096
#define SERVERS_MAX 8u /* that are told apart */

/* What a child prints, line by line. */
struct lines {
	int fd; /* -1: it has ended */
	char line[PATH_BYTES];
	size_t len; /* what is longer is cut */
};

struct fetch {
	struct kp_debuginfod_question question; /* with copies of the texts */
	enum kp_debuginfod_state state;
	pid_t pid; /* 0: does not run */
	struct lines out, log;
	char path[PATH_BYTES]; /* of the file */
	char server[SERVERS_MAX][256]; /* that were asked; "": not */
	char from[256]; /* which of them has it; "": none has, or it is not known */
	char why[128]; /* there is none */
	char *link;
};

struct kp_debuginfod {
	const struct kp_symbolizer_fetch *options;
	uint64_t deadline_ns;
	struct fetch **fetch;
	size_t count, capacity;
	char dir[PATH_MAX]; /* "": not made yet */
};

__attribute__((format(printf, 2, 3))) static void say(const struct kp_debuginfod *d,
						      const char *fmt, ...)
{
	char line[2 * PATH_BYTES];
	va_list args;

	if (!d->options->say)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	d->options->say(d->options->ctx, line);
}

static const char *kind_text(const struct fetch *f)
{
	return f->question.executable ? "file" : "debug information of";
}

/* ---- whether anything can be fetched ---- */

/* As execvp() looks along PATH. */
static bool is_in_path(const char *program)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];

	for (; path && *path; path += strcspn(path, ":"), path += *path == ':') {
		int n = snprintf(file, sizeof(file), "%.*s/%s", (int)strcspn(path, ":"), path,
				 program);

		if (n > 0 && (size_t)n < sizeof(file) && access(file, X_OK) == 0)
			return true;
	}
	return false;
}

int kp_debuginfod_create(const struct kp_symbolizer_fetch *options, uint64_t deadline_ns,
			 struct kp_debuginfod **ret, struct kp_err *err)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	if (!urls || !urls[strspn(urls, " ")]) {
		kp_fail(err, KP_EUSAGE,
			"--debuginfod: nothing is fetched: DEBUGINFOD_URLS names no server "
			"(Debian's is https://debuginfod.debian.net)");
		return KP_DEBUGINFOD_CANNOT;
	}
	if (!is_in_path(PROGRAM)) {
		kp_fail(err, KP_EUSAGE,
			"--debuginfod: nothing is fetched: the program " PROGRAM
			" is not installed (Debian: package debuginfod)");
		return KP_DEBUGINFOD_CANNOT;
	}
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return kp_fail_nomem(err);
	(*ret)->options = options;
	(*ret)->deadline_ns = deadline_ns;
	return 0;
}

/* ---- the child ---- */

/* Its own output in place of ours, and what is ours closed. */
static void set_streams(int out, int log)
{
	int kept[] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO };
	int null = open("/dev/null", O_RDONLY);

	/* Away from where they are to go, should one of these be closed in the daemon. */
	out = fcntl(out, F_DUPFD, STDERR_FILENO + 1);
	log = fcntl(log, F_DUPFD, STDERR_FILENO + 1);
	if (null < 0 || out < 0 || log < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(out, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
		_exit(127);
	kp_descriptor_close_others(kept, sizeof(kept) / sizeof(kept[0]));
}

static void set_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGINT, SIG_DFL);
}

static void limit(int what, uint64_t most)
{
	setrlimit(what, &(struct rlimit){ most, most });
}

__attribute__((noreturn)) static void become_program(const struct fetch *f, pid_t parent, int out,
						     int log)
{
	const char *kind = f->question.executable ? "executable" : "debuginfo";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	set_streams(out, log);
	set_signals();
	limit(RLIMIT_FSIZE, FILE_BYTES_MAX);
	limit(RLIMIT_CORE, 0);
	setenv("DEBUGINFOD_TIMEOUT", TIMEOUT_S, 0);
	setenv("DEBUGINFOD_VERBOSE", "1", 1); /* says which server it was */
	unsetenv("DEBUGINFOD_PROGRESS");
	execlp(PROGRAM, PROGRAM, kind, f->question.id, (char *)NULL);
	_exit(127);
}

static void end_lines(struct lines *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

/* Who was asked; the cache alone, if nobody. */
static const char *servers_text(struct fetch *f)
{
	unsigned n = 0, last = 0;

	for (unsigned i = 0; i < SERVERS_MAX; i++) {
		if (!f->server[i][0])
			continue;
		last = i;
		n++;
	}
	if (n == 0)
		return "debuginfod's cache";
	if (n > 1 && !f->from[0])
		snprintf(f->from, sizeof(f->from), "any of %u servers", n);
	return f->from[0] ? f->from : f->server[last];
}

static void fail(struct kp_debuginfod *d, struct fetch *f)
{
	f->state = KP_DEBUGINFOD_NONE;
	say(d, "no %s %s from %s: %s", kind_text(f), f->question.what, servers_text(f),
	    f->why[0] ? f->why : PROGRAM " failed");
}

static void start(struct kp_debuginfod *d, struct fetch *f)
{
	_cleanup_(kp_closep) int out = -1;
	_cleanup_(kp_closep) int log = -1;
	pid_t parent = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) == 0) {
		f->out.fd = ends[0];
		out = ends[1];
	}
	if (out >= 0 && pipe2(ends, O_CLOEXEC) == 0) {
		f->log.fd = ends[0];
		log = ends[1];
	}
	if (log >= 0)
		f->pid = fork();
	if (f->pid == 0 && log >= 0)
		become_program(f, parent, out, log);
	if (f->pid > 0) {
		fcntl(f->out.fd, F_SETFL, O_NONBLOCK);
		fcntl(f->log.fd, F_SETFL, O_NONBLOCK);
		return;
	}
	snprintf(f->why, sizeof(f->why), PROGRAM ": %s", strerror(errno));
	f->pid = 0;
	end_lines(&f->out);
	end_lines(&f->log);
	fail(d, f);
}

/* ---- what it says ---- */

/* "http://user:password@host:8002/buildid/..." -> "http://host:8002" */
static void take_server(const char *url, char *ret, size_t room)
{
	const char *host = strstr(url, "://");
	size_t scheme = host ? (size_t)(host + 3 - url) : 0, len;
	const char *end = strstr(url, "/buildid"), *at;

	host = url + scheme;
	len = end && end > host ? (size_t)(end - host) : strlen(host);
	for (at = host; at < host + len && *at != '/'; at++)
		if (*at == '@') {
			len -= (size_t)(at + 1 - host);
			host = at + 1;
		}
	snprintf(ret, room, "%.*s%.*s", (int)scheme, url, (int)len, host);
}

/* Lines of debuginfod_client's verbose mode (elfutils), which are for people: none need be there. */
static void take_log(struct fetch *f)
{
	static const char failed[] = "Server query failed: ";
	const char *line = f->log.line, *url = strstr(line, "://");
	unsigned n;

	if (strncmp(line, failed, strlen(failed)) == 0)
		snprintf(f->why, sizeof(f->why), "%.*s", (int)sizeof(f->why) - 1,
			 line + strlen(failed));
	if (sscanf(line, "committed to url %u", &n) == 1 && n < SERVERS_MAX)
		snprintf(f->from, sizeof(f->from), "%s", f->server[n]);
	/* "url 0 http://..."; later the same with an error */
	if (url && sscanf(line, "url %u ", &n) == 1 && n < SERVERS_MAX && !f->server[n][0])
		take_server(strchr(line + 4, ' ') + 1, f->server[n], sizeof(f->server[n]));
}

/* The only line of its standard output. */
static void take_out(struct fetch *f)
{
	if (!f->path[0])
		snprintf(f->path, sizeof(f->path), "%s", f->out.line);
}

static void take_bytes(struct fetch *f, struct lines *l, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] != '\n') {
			if (l->len < sizeof(l->line) - 1)
				l->line[l->len++] = bytes[i];
			continue;
		}
		l->line[l->len] = '\0';
		l->len = 0;
		if (l == &f->out)
			take_out(f);
		else
			take_log(f);
	}
}

/* As much as is in a pipe, so that one which never stops does not keep us. */
static void listen_to(struct fetch *f, struct lines *l)
{
	char bytes[1 << 16];
	ssize_t n = l->fd >= 0 ? read(l->fd, bytes, sizeof(bytes)) : -1;

	if (n > 0)
		take_bytes(f, l, bytes, (size_t)n);
	else if (n == 0)
		end_lines(l);
}

/* ---- what it brings ---- */

static int make_dir(struct kp_debuginfod *d)
{
	const char *tmp = getenv("TMPDIR");
	char build_id[PATH_MAX + 16];

	if (d->dir[0])
		return 0;
	snprintf(d->dir, sizeof(d->dir) - 32, "%s", tmp && tmp[0] == '/' ? tmp : "/tmp");
	strcat(d->dir, "/kitprof-debuginfod.XXXXXX");
	if (!mkdtemp(d->dir)) {
		d->dir[0] = '\0';
		return -1;
	}
	snprintf(build_id, sizeof(build_id), "%s/.build-id", d->dir);
	return mkdir(build_id, 0700);
}

static int make_link(struct kp_debuginfod *d, struct fetch *f)
{
	const char *id = f->question.id;
	char *slash;
	int r;

	if (make_dir(d) != 0)
		return -1;
	if (asprintf(&f->link, "%s/.build-id/%.2s/%s%s", d->dir, id, id + 2,
		     f->question.executable ? "" : ".debug") < 0) {
		f->link = NULL;
		return -1;
	}
	slash = strrchr(f->link, '/');
	*slash = '\0';
	r = mkdir(f->link, 0700);
	*slash = '/';
	return r != 0 && errno != EEXIST ? -1 : symlink(f->path, f->link);
}

static void size_text(off_t size, char *ret, size_t room)
{
	if (size < 1000000)
		snprintf(ret, room, "%.1f kB", (double)size / 1e3);
	else
		snprintf(ret, room, "%.1f MB", (double)size / 1e6);
}

/* What is there now is a file; whether it is the right one is seen when it is opened. */
static void take_file(struct kp_debuginfod *d, struct fetch *f)
{
	struct stat st;
	char size[32];

	if (f->path[0] != '/' || stat(f->path, &st) != 0 || !S_ISREG(st.st_mode))
		snprintf(f->why, sizeof(f->why), PROGRAM " names no regular file");
	else if (make_link(d, f) != 0)
		snprintf(f->why, sizeof(f->why), "no place for it in $TMPDIR: %s", strerror(errno));
	else
		f->state = KP_DEBUGINFOD_HAVE;
	if (f->state != KP_DEBUGINFOD_HAVE) {
		fail(d, f);
		return;
	}
	size_text(st.st_size, size, sizeof(size));
	say(d, "fetched %s %s: %s from %s", kind_text(f), f->question.what, size, servers_text(f));
}

static void end_child(struct fetch *f)
{
	end_lines(&f->out);
	end_lines(&f->log);
	f->pid = 0;
}

static void look_after(struct kp_debuginfod *d, struct fetch *f)
{
	int status;

	listen_to(f, &f->out);
	listen_to(f, &f->log);
	if (waitpid(f->pid, &status, WNOHANG) != f->pid)
		return;
	listen_to(f, &f->out); /* what it said last */
	listen_to(f, &f->log);
	end_child(f);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		take_file(d, f);
		return;
	}
	if (WIFSIGNALED(status))
		snprintf(f->why, sizeof(f->why), PROGRAM " was ended by signal %d (%s)",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	fail(d, f);
}

static void kill_child(struct fetch *f)
{
	kill(f->pid, SIGKILL);
	while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
		;
	end_child(f);
}

/* ---- all of them ---- */

static void stop_all(struct kp_debuginfod *d)
{
	for (size_t i = 0; i < d->count; i++) {
		struct fetch *f = d->fetch[i];

		if (f->state != KP_DEBUGINFOD_PENDING)
			continue;
		if (f->pid)
			kill_child(f);
		snprintf(f->why, sizeof(f->why), "time is up");
		fail(d, f);
	}
}

void kp_debuginfod_look(struct kp_debuginfod *d)
{
	unsigned running = 0;

	if (kp_now_ns() >= d->deadline_ns) {
		stop_all(d);
		return;
	}
	for (size_t i = 0; i < d->count; i++) {
		if (d->fetch[i]->pid)
			look_after(d, d->fetch[i]);
		running += d->fetch[i]->pid != 0;
	}
	for (size_t i = 0; i < d->count && running < AT_ONCE; i++) {
		struct fetch *f = d->fetch[i];

		if (f->pid || f->state != KP_DEBUGINFOD_PENDING)
			continue;
		start(d, f);
		running += f->pid != 0;
	}
}

static size_t count_pending(const struct kp_debuginfod *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->count; i++)
		n += d->fetch[i]->state == KP_DEBUGINFOD_PENDING;
	return n;
}

/* Until one says something, or for a moment. */
static void doze(const struct kp_debuginfod *d)
{
	struct pollfd ready[AT_ONCE];
	nfds_t n = 0;

	for (size_t i = 0; i < d->count && n < AT_ONCE; i++)
		if (d->fetch[i]->pid && d->fetch[i]->out.fd >= 0)
			ready[n++] = (struct pollfd){ d->fetch[i]->out.fd, POLLIN, 0 };
	poll(ready, n, TICK_MS);
}

void kp_debuginfod_wait(struct kp_debuginfod *d)
{
	size_t before = count_pending(d);

	kp_debuginfod_look(d);
	while (before && count_pending(d) == before) {
		doze(d);
		kp_debuginfod_look(d);
	}
}

static void free_fetch(struct fetch *f)
{
	if (!f)
		return;
	free((char *)(uintptr_t)f->question.id);
	free((char *)(uintptr_t)f->question.what);
	free(f->link);
	free(f);
}

static struct fetch *new_fetch(const struct kp_debuginfod_question *question)
{
	struct fetch *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->out.fd = f->log.fd = -1;
	f->question.executable = question->executable;
	f->question.id = strdup(question->id);
	f->question.what = strdup(question->what);
	if (f->question.id && f->question.what)
		return f;
	free_fetch(f);
	return NULL;
}

int kp_debuginfod_ask(struct kp_debuginfod *d, const struct kp_debuginfod_question *question,
		      size_t *ret, struct kp_err *err)
{
	for (*ret = 0; *ret < d->count; ++*ret) {
		const struct kp_debuginfod_question *known = &d->fetch[*ret]->question;

		if (known->executable == question->executable &&
		    strcmp(known->id, question->id) == 0)
			return 0;
	}
	if (d->count == d->capacity) {
		size_t capacity = d->capacity * 2 + 16;
		void *grown = reallocarray(d->fetch, capacity, sizeof(*d->fetch));

		if (!grown)
			return kp_fail_nomem(err);
		d->fetch = grown;
		d->capacity = capacity;
	}
	d->fetch[d->count] = new_fetch(question);
	if (!d->fetch[d->count])
		return kp_fail_nomem(err);
	d->count++;
	kp_debuginfod_look(d);
	return 0;
}

enum kp_debuginfod_state kp_debuginfod_state(const struct kp_debuginfod *d, size_t question)
{
	return d->fetch[question]->state;
}

void kp_debuginfod_refuse(struct kp_debuginfod *d, size_t question)
{
	const struct fetch *f = d->fetch[question];

	say(d, "%s: not used: it is not %s of build id %s", f->path,
	    f->question.executable ? "the file" : "debug information", f->question.id);
}

const char *kp_debuginfod_dir(const struct kp_debuginfod *d)
{
	return d->dir[0] ? d->dir : NULL;
}

static void remove_link(struct fetch *f)
{
	if (!f->link)
		return;
	unlink(f->link);
	*strrchr(f->link, '/') = '\0';
	rmdir(f->link); /* the last one that is there succeeds */
}

static void remove_dir(const struct kp_debuginfod *d)
{
	char build_id[PATH_MAX + 16];

	if (!d->dir[0])
		return;
	snprintf(build_id, sizeof(build_id), "%s/.build-id", d->dir);
	rmdir(build_id);
	rmdir(d->dir);
}

void kp_debuginfod_destroy(struct kp_debuginfod *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->count; i++) {
		if (d->fetch[i]->pid)
			kill_child(d->fetch[i]);
		remove_link(d->fetch[i]);
		free_fetch(d->fetch[i]);
	}
	remove_dir(d);
	free(d->fetch);
	free(d);
}
