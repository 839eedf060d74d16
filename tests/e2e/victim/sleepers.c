/*
 * sleepers all		one thread in each of the calls below, the main thread burns CPU
 * sleepers one CALL	one thread, in that call
 * sleepers list	the names of the calls
 *
 * Each call blocks for about PAUSE_MS. A call that returns EINTR, or before its time, is told and
 * makes the exit status 1. Longer than its time is no fault: where the kernel does not restart a
 * call, it is made again with its whole timeout.
 */
#include "victim.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#define PAUSE_MS 120
#define FREE_MS 5 /* the locks are free for so long, between two times */
#define EARLY_NS UINT64_C(9000000) /* timeouts in kernel ticks are that coarse */

static const struct timespec pause_time = { .tv_nsec = PAUSE_MS * 1000000 };
static int pipe_fds[2], event_fd, inotify_fd, epoll_fd, full_fds[2], quiet_fds[2], listen_fd;
static int msg_queue, semaphores, flock_fd, record_fd, timer_fd, signal_fd;
static mqd_t mq;
static aio_context_t aio;
static char dir[] = "sleepers.XXXXXX";
static uint32_t word;

/* ---- calls that end by their own timeout: 0, or the result that says so ---- */

static int do_nanosleep(void)
{
	return nanosleep(&pause_time, NULL);
}

static int do_clock_nanosleep(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += pause_time.tv_nsec;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	return errno ? -1 : 0;
}

static int do_poll(void)
{
	struct pollfd fd = { .fd = quiet_fds[0], .events = POLLIN };

	return poll(&fd, 1, PAUSE_MS);
}

static int do_ppoll(void)
{
	struct pollfd fd = { .fd = quiet_fds[0], .events = POLLIN };
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	return ppoll(&fd, 1, &pause_time, &mask);
}

static int do_select(void)
{
	struct timeval wait = { .tv_usec = PAUSE_MS * 1000 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(quiet_fds[0], &set);
	return select(quiet_fds[0] + 1, &set, NULL, NULL, &wait);
}

static int do_pselect(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(quiet_fds[0], &set);
	return pselect(quiet_fds[0] + 1, &set, NULL, NULL, &pause_time, NULL);
}

static int do_epoll_wait(void)
{
	struct epoll_event event;

	return (int)syscall(SYS_epoll_wait, epoll_fd, &event, 1, PAUSE_MS);
}

static int do_epoll_pwait(void)
{
	struct epoll_event event;
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	return epoll_pwait(epoll_fd, &event, 1, PAUSE_MS, &mask);
}

static int do_futex(void)
{
	return (int)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &pause_time, NULL, 0);
}

static int do_sem_timedwait(void)
{
	struct timespec until;
	sem_t sem;

	sem_init(&sem, 0, 0);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += pause_time.tv_nsec;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return sem_timedwait(&sem, &until);
}

static int do_semtimedop(void)
{
	struct sembuf down = { .sem_op = -1 };

	return semtimedop(semaphores, &down, 1, &pause_time);
}

static int do_rt_sigtimedwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &pause_time);
}

static int do_recv(void)
{
	char c;

	return (int)recv(quiet_fds[0], &c, 1, 0);
}

static int do_recvmsg(void)
{
	char c;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return (int)recvmsg(quiet_fds[0], &msg, 0);
}

static int do_recvmmsg(void)
{
	char c;
	struct iovec iov = { &c, 1 };
	struct mmsghdr msg = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };

	return recvmmsg(quiet_fds[0], &msg, 1, 0, NULL);
}

static int do_readv(void)
{
	char c;
	struct iovec iov = { &c, 1 };

	return (int)readv(quiet_fds[0], &iov, 1);
}

static int do_accept(void)
{
	return accept(listen_fd, NULL, NULL);
}

static int do_send(void)
{
	return (int)send(full_fds[0], "x", 1, MSG_NOSIGNAL);
}

static int do_write(void)
{
	return (int)write(full_fds[0], "x", 1);
}

static int do_sendmmsg(void)
{
	char c = 'x';
	struct iovec iov = { &c, 1 };
	struct mmsghdr msg = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };

	return sendmmsg(full_fds[0], &msg, 1, MSG_NOSIGNAL);
}

static int do_sendfile(void)
{
	off_t offset = 0;

	return (int)sendfile(full_fds[0], flock_fd, &offset, 1);
}

static int do_io_getevents(void)
{
	struct timespec wait = pause_time;
	struct io_event event;

	return (int)syscall(SYS_io_getevents, aio, 1, 1, &event, &wait);
}

static int do_io_pgetevents(void)
{
	struct timespec wait = pause_time;
	struct io_event event;

	return (int)syscall(SYS_io_pgetevents, aio, 1, 1, &event, &wait, NULL);
}

static int do_mq_timedreceive(void)
{
	struct timespec until;
	char text[16];

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += pause_time.tv_nsec;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return (int)mq_timedreceive(mq, text, sizeof(text), NULL, &until);
}

static int do_timerfd(void)
{
	struct itimerspec spec = { .it_value = pause_time };
	uint64_t count;

	timerfd_settime(timer_fd, 0, &spec, NULL);
	return read(timer_fd, &count, sizeof(count)) == sizeof(count) ? 0 : -1;
}

static int do_wait4(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		victim_sleep_ms(PAUSE_MS);
		_exit(0);
	}
	return waitpid(child, &status, 0) == child ? 0 : -1;
}

/* ---- calls that the waker ends: any time is right ---- */

static int do_read_pipe(void)
{
	char c;

	return read(pipe_fds[0], &c, 1) == 1 ? 0 : -1;
}

static int do_read_eventfd(void)
{
	uint64_t value;

	return read(event_fd, &value, sizeof(value)) == sizeof(value) ? 0 : -1;
}

static int do_read_inotify(void)
{
	char event[4096];

	return read(inotify_fd, event, sizeof(event)) > 0 ? 0 : -1;
}

static int do_read_signalfd(void)
{
	struct signalfd_siginfo info;

	return read(signal_fd, &info, sizeof(info)) == sizeof(info) ? 0 : -1;
}

static int do_msgrcv(void)
{
	struct {
		long type;
		char text[8];
	} msg;

	return msgrcv(msg_queue, &msg, sizeof(msg.text), 0, 0) >= 0 ? 0 : -1;
}

static int do_flock(void)
{
	int r = flock(flock_fd, LOCK_EX);

	flock(flock_fd, LOCK_UN);
	victim_sleep_ms(FREE_MS * 2); /* so that the waker has it the next time */
	return r;
}

static int do_lockw(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	int r = fcntl(record_fd, F_SETLKW, &lock);

	lock.l_type = F_UNLCK;
	fcntl(record_fd, F_SETLK, &lock);
	victim_sleep_ms(FREE_MS * 2);
	return r;
}

enum kind {
	TIMED, /* its own timeout ends it: errno end, or result 0 */
	WOKEN, /* the waker ends it */
};

static const struct call {
	const char *name;
	int (*run)(void);
	enum kind kind;
	int end;
} calls[] = {
	{ "nanosleep", do_nanosleep, TIMED, 0 },
	{ "clock_nanosleep", do_clock_nanosleep, TIMED, 0 },
	{ "poll", do_poll, TIMED, 0 },
	{ "ppoll", do_ppoll, TIMED, 0 },
	{ "select", do_select, TIMED, 0 },
	{ "pselect", do_pselect, TIMED, 0 },
	{ "epoll_wait", do_epoll_wait, TIMED, 0 },
	{ "epoll_pwait", do_epoll_pwait, TIMED, 0 },
	{ "futex", do_futex, TIMED, ETIMEDOUT },
	{ "sem_timedwait", do_sem_timedwait, TIMED, ETIMEDOUT },
	{ "semtimedop", do_semtimedop, TIMED, EAGAIN },
	{ "rt_sigtimedwait", do_rt_sigtimedwait, TIMED, EAGAIN },
	{ "recv", do_recv, TIMED, EAGAIN },
	{ "recvmsg", do_recvmsg, TIMED, EAGAIN },
	{ "recvmmsg", do_recvmmsg, TIMED, EAGAIN },
	{ "readv", do_readv, TIMED, EAGAIN },
	{ "accept", do_accept, TIMED, EAGAIN },
	{ "send", do_send, TIMED, EAGAIN },
	{ "write", do_write, TIMED, EAGAIN },
	{ "sendmmsg", do_sendmmsg, TIMED, EAGAIN },
	{ "sendfile", do_sendfile, TIMED, EAGAIN },
	{ "io_getevents", do_io_getevents, TIMED, 0 },
	{ "io_pgetevents", do_io_pgetevents, TIMED, 0 },
	{ "mq_timedreceive", do_mq_timedreceive, TIMED, ETIMEDOUT },
	{ "timerfd", do_timerfd, TIMED, 0 },
	{ "wait4", do_wait4, TIMED, 0 },
	{ "pipe", do_read_pipe, WOKEN, 0 },
	{ "eventfd", do_read_eventfd, WOKEN, 0 },
	{ "inotify", do_read_inotify, WOKEN, 0 },
	{ "signalfd", do_read_signalfd, WOKEN, 0 },
	{ "msgrcv", do_msgrcv, WOKEN, 0 },
	{ "flock", do_flock, WOKEN, 0 },
	{ "lockw", do_lockw, WOKEN, 0 },
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static struct result {
	unsigned made, interrupted, early, other;
	int other_errno;
} results[CALLS];

static void make_call(size_t i)
{
	const struct call *call = &calls[i];
	uint64_t start = victim_now_ns();
	int r = call->run(), error = r < 0 ? errno : 0;
	struct result *result = &results[i];

	result->made++;
	if (error == EINTR) {
		result->interrupted++;
	} else if (r > 0 || error != call->end) {
		result->other++;
		result->other_errno = error;
	} else if (call->kind == TIMED &&
		   victim_now_ns() - start < PAUSE_MS * 1000000u - EARLY_NS) {
		result->early++;
	}
}

static void *sleep_for_ever(void *arg)
{
	for (;;)
		make_call((size_t)(uintptr_t)arg);
	return NULL;
}

/* ---- the objects, and the process that wakes the calls without a timeout ---- */

static void make_sockets(void)
{
	struct timeval wait = { .tv_usec = PAUSE_MS * 1000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, quiet_fds) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, full_fds))
		victim_give_up("socketpair");
	setsockopt(quiet_fds[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(full_fds[0], SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	while (send(full_fds[0], "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
		;
	listen_fd = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", dir);
	if (bind(listen_fd, (struct sockaddr *)&address, sizeof(address)) || listen(listen_fd, 1))
		victim_give_up("unix socket");
	setsockopt(listen_fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
}

static int open_in_dir(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, O_RDWR | O_CREAT, 0600);
}

static void make_queues(void)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 16 };
	char name[64];

	msg_queue = msgget(IPC_PRIVATE, 0600 | IPC_CREAT);
	semaphores = semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT);
	snprintf(name, sizeof(name), "/kitprof-%d", (int)getpid());
	mq = mq_open(name, O_RDWR | O_CREAT, 0600, &attr);
	mq_unlink(name);
	if (msg_queue < 0 || semaphores < 0 || mq == (mqd_t)-1)
		victim_give_up("System V or POSIX queue");
}

static void make_descriptors(void)
{
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	epoll_fd = epoll_create1(0);
	event_fd = eventfd(0, 0);
	inotify_fd = inotify_init1(0);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, 0);
	signal_fd = signalfd(-1, &usr1, 0);
	flock_fd = open_in_dir("flock");
	record_fd = open_in_dir("record");
	inotify_add_watch(inotify_fd, dir, IN_CREATE);
	if (write(flock_fd, "x", 1) != 1 || pipe(pipe_fds) != 0 || flock_fd < 0 || record_fd < 0 ||
	    timer_fd < 0 || signal_fd < 0)
		victim_give_up("pipe or file");
	if (syscall(SYS_io_setup, 1, &aio) != 0)
		victim_give_up("io_setup");
}

/* Holds the locks, lets them go, and wakes; until its parent is gone. */
static void waker(pid_t parent)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	int own_flock = open_in_dir("flock");
	struct {
		long type;
		char text[8];
	} msg = { 1, "wake" };
	uint64_t one = 1;
	char path[64];

	snprintf(path, sizeof(path), "%s/touched", dir);
	while (getppid() == parent) {
		flock(own_flock, LOCK_EX);
		lock.l_type = F_WRLCK;
		fcntl(record_fd, F_SETLKW, &lock);
		victim_sleep_ms(PAUSE_MS / 2);
		flock(own_flock, LOCK_UN);
		lock.l_type = F_UNLCK;
		fcntl(record_fd, F_SETLK, &lock);
		victim_sleep_ms(FREE_MS);
		if (write(pipe_fds[1], "x", 1) != 1 ||
		    write(event_fd, &one, sizeof(one)) != sizeof(one))
			break;
		msgsnd(msg_queue, &msg, sizeof(msg.text), IPC_NOWAIT);
		kill(parent, SIGUSR1);
		close(open_in_dir("touched"));
		unlink(path);
	}
	_exit(0);
}

static pid_t waker_pid;

static void remove_all(void)
{
	static const char *const names[] = { "socket", "flock", "record", "touched" };
	char path[64];

	kill(waker_pid, SIGKILL);
	waitpid(waker_pid, NULL, 0);
	msgctl(msg_queue, IPC_RMID, NULL);
	semctl(semaphores, 0, IPC_RMID);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

/* Ends the process: the calls themselves are not to return. Only the main thread gets SIGTERM. */
static void report(int signal)
{
	unsigned bad = 0;

	(void)signal;
	for (size_t i = 0; i < CALLS; i++) {
		const struct result *r = &results[i];

		if (r->interrupted || r->early || r->other)
			printf("bad: %s: of %u calls %u returned EINTR, %u too early, %u otherwise "
			       "(%s)\n",
			       calls[i].name, r->made, r->interrupted, r->early, r->other,
			       strerror(r->other_errno));
		bad += r->interrupted + r->early + r->other;
		if (r->made)
			printf("made: %s %u\n", calls[i].name, r->made);
	}
	fflush(stdout);
	remove_all();
	_exit(bad != 0);
}

static void block(int a, int b)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, a);
	sigaddset(&set, b);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static void start_threads(void)
{
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	for (size_t i = 0; i < CALLS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, sleep_for_ever, (void *)(uintptr_t)i) != 0)
			victim_give_up("pthread_create");
	}
	sigprocmask(SIG_UNBLOCK, &term, NULL);
}

static size_t find_call(const char *name)
{
	for (size_t i = 0; i < CALLS; i++)
		if (strcmp(calls[i].name, name) == 0)
			return i;
	printf("cannot: no call %s\n", name);
	_exit(99);
}

static int list(void)
{
	for (size_t i = 0; i < CALLS; i++)
		puts(calls[i].name);
	return 0;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = report };
	pid_t self = getpid();
	size_t call = 0;

	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list();
	if (argc == 3)
		call = find_call(argv[2]);
	if (!mkdtemp(dir))
		victim_give_up("mkdtemp");
	block(SIGUSR1, SIGUSR2);
	make_sockets();
	make_queues();
	make_descriptors();
	waker_pid = fork();
	if (waker_pid == 0)
		waker(self);
	sigaction(SIGTERM, &action, NULL);
	if (argc == 3) {
		victim_ready();
		sleep_for_ever((void *)(uintptr_t)call);
	}
	start_threads();
	victim_ready();
	for (unsigned x = 1;;)
		x = victim_spin(x);
}
