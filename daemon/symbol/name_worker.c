/* The process that looks up: name_worker.h. Daemon; below the line, the worker itself. */
#include "daemon/symbol/name_worker.h"

#include "common/cleanup.h"
#include "daemon/linux/descriptor.h"
#include "daemon/symbol/answers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Bytes of writable memory. What is behind libelf's and libdw's backs counts here and only here. */
#define DATA_MAX (UINT64_C(2) << 30)

int kp_name_worker_order(const struct kp_name_worker *worker, uint32_t module,
			 const uint64_t *offset, uint32_t count)
{
	struct kp_order head = { .module = module, .count = count };
	struct iovec part[] = { { &head, sizeof(head) },
				{ (void *)(uintptr_t)offset, count * sizeof(*offset) } };
	struct msghdr message = { .msg_iov = part, .msg_iovlen = 2 };
	ssize_t n;

	do
		n = sendmsg(worker->fd, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)(part[0].iov_len + part[1].iov_len) ? 0 : -KP_ESYSTEM;
}

struct kp_name_worker_place kp_name_worker_where(const struct kp_name_worker *worker)
{
	return (struct kp_name_worker_place){
		.orders = __atomic_load_n(&worker->place->orders, __ATOMIC_RELAXED),
		.at = __atomic_load_n(&worker->place->at, __ATOMIC_RELAXED),
	};
}

int kp_name_worker_end(struct kp_name_worker *worker)
{
	int status = 0;

	if (!worker->pid)
		return 0;
	close(worker->fd);
	kill(worker->pid, SIGKILL);
	while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
		;
	munmap((void *)(uintptr_t)worker->place, sizeof(*worker->place));
	*worker = (struct kp_name_worker){ .fd = -1 };
	return status;
}

/* ---- the worker ---- */

struct bench {
	const struct kp_name_worker_work *work;
	struct kp_name_worker_place *place;
	int fd;
	uint64_t offset[KP_ORDER_MAX];
	struct kp_frames frames[KP_ORDER_MAX];
};

static void say(uint32_t *what, uint32_t value)
{
	__atomic_store_n(what, value, __ATOMIC_RELAXED);
}

/* Of writable memory, its own and what it has from the daemon; much under a sanitizer. */
static uint64_t data_bytes(void)
{
	FILE *statm = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (statm && fscanf(statm, "%*u %*u %*u %*u %*u %lu", &pages) != 1)
		pages = 0;
	kp_fclosep(&statm);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void limit(int what, uint64_t most)
{
	setrlimit(what, &(struct rlimit){ most, most });
}

static void become_harmless(pid_t parent, const struct bench *bench, int *kept)
{
	size_t n = bench->work->fd_count;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, "kitprof-symbols");
	unsetenv("DEBUGINFOD_URLS"); /* whatever a library has in mind */
	signal(SIGBUS, SIG_DFL); /* a file that was cut; a sanitizer would catch it */
	signal(SIGINT, SIG_IGN); /* the daemon hears it too, and decides */
	limit(RLIMIT_DATA, data_bytes() + DATA_MAX);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_CORE, 0);
	kept[n++] = bench->fd;
	kp_descriptor_close_others(kept, n);
}

static bool receive(int fd, void *data, size_t size)
{
	while (size) {
		ssize_t n = recv(fd, data, size, MSG_WAITALL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data = (char *)data + n;
		size -= (size_t)n;
	}
	return true;
}

static void give(int fd, const void *data, size_t size, int flags)
{
	while (size) {
		ssize_t n = send(fd, data, size, MSG_NOSIGNAL | flags);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			_exit(1);
		data = (const char *)data + n;
		size -= (size_t)n;
	}
}

static int look_up(struct bench *b, const struct kp_order *order, struct kp_err *err)
{
	for (uint32_t i = 0; i < order->count; i++) {
		int r;

		say(&b->place->at, i);
		r = b->work->look_up(b->work->ctx, order->module, b->offset[i], &b->frames[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static void do_order(struct bench *b, const struct kp_order *order, uint64_t room_bytes)
{
	struct kp_answers answers = { b->offset, b->frames, order->count, NULL };
	struct kp_result result = { 0 };
	_cleanup_(kp_freep) void *bytes = NULL;
	size_t size = 0;
	struct kp_err err;

	result.outcome = look_up(b, order, &err);
	answers.note = b->work->note(b->work->ctx, order->module);
	if (result.outcome == 0)
		result.outcome = kp_answers_encode(&answers, &bytes, &size, &err);
	result.bytes = result.outcome == 0 ? size : 0;
	result.last = result.outcome < 0 || data_bytes() > room_bytes;
	give(b->fd, &result, sizeof(result), result.bytes ? MSG_MORE : 0);
	give(b->fd, bytes, result.bytes, 0);
	if (result.last)
		_exit(0);
}

__attribute__((noreturn)) static void work_all(pid_t parent, struct bench *b, int *kept)
{
	uint64_t room_bytes;
	struct kp_order order;

	become_harmless(parent, b, kept);
	room_bytes = data_bytes() + b->work->room_bytes;
	for (uint32_t n = 0; receive(b->fd, &order, sizeof(order)); say(&b->place->orders, ++n)) {
		if (!receive(b->fd, b->offset, order.count * sizeof(*b->offset)))
			break;
		do_order(b, &order, room_bytes);
	}
	_exit(0);
}

static int start(struct bench *b, int *kept, struct kp_name_worker *ret, struct kp_err *err)
{
	pid_t parent = getpid(), pid;
	int ends[2];

	for (size_t i = 0; i < b->work->fd_count; i++)
		kept[i] = b->work->fd[i];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return kp_fail_errno(err, "worker for symbols");
	b->fd = ends[1];
	pid = fork();
	if (pid == 0)
		work_all(parent, b, kept);
	close(ends[1]);
	if (pid < 0) {
		kp_fail_errno(err, "worker for symbols: fork");
		close(ends[0]);
		return -KP_ESYSTEM;
	}
	*ret = (struct kp_name_worker){ .pid = pid, .fd = ends[0], .place = b->place };
	return 0;
}

int kp_name_worker_start(const struct kp_name_worker_work *work, struct kp_name_worker *ret,
			 struct kp_err *err)
{
	_cleanup_(kp_freep) struct bench *b = calloc(1, sizeof(*b));
	_cleanup_(kp_freep) int *kept = calloc(work->fd_count + 1, sizeof(*kept));
	void *place;
	int r;

	if (!b || !kept)
		return kp_fail_nomem(err);
	place = mmap(NULL, sizeof(*b->place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (place == MAP_FAILED)
		return kp_fail_errno(err, "worker for symbols: mmap");
	b->work = work;
	b->place = place;
	r = start(b, kept, ret, err);
	if (r < 0)
		munmap(place, sizeof(*b->place));
	return r;
}
