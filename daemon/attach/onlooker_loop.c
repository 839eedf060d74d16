/*
 * The onlooker's own process (onlooker.h): stops threads, copies what it sees, lets them go. It
 * waits for nothing but its socket and its tracees, any number of which may be on their way to a
 * stop at once.
 *
 * What a bare stop disturbs (no register is changed, no signal blocked):
 *  - A call that sleeps wakes up. The kernel makes it again by itself, with what is left of its
 *    timeout where it can, except those of kp_cpu_is_redone(), which return EINTR: these are made
 *    again by moving the PC back, with their whole timeout.
 *  - A restartable sequence is aborted by the kernel as by any preemption: the PC stays.
 *  - A signal that is being delivered makes the thread stop for us first. That is as good a stop as
 *    any other, and the signal goes on with the thread.
 * A thread in uninterruptible sleep does not stop before that is over. Its look is answered as
 * late; it is let go the moment it stops. If that takes a second the onlooker ends, which takes the
 * request back, and the daemon starts another one.
 */
#include "daemon/attach/onlooker_loop.h"

#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MS UINT64_C(1000000)
#define PATIENCE_NS (100 * MS) /* until a look is answered as late */
#define STUCK_NS (1000 * MS) /* until a request to stop is taken back */
#define HELD_MAX 64
#define NO_LOOK UINT32_MAX

/* A thread that was asked to stop. */
struct held {
	pid_t tid;
	uint32_t look; /* that waits for it; NO_LOOK: it was answered as late */
	uint64_t since_ns;
};

struct desk {
	int socket, children; /* children: signalfd for SIGCHLD */
	struct kp_look *look;
	struct held held[HELD_MAX];
	size_t count;
};

static void answer(struct desk *desk, uint32_t look, enum kp_look_result result)
{
	if (look == NO_LOOK)
		return;
	desk->look[look].result = result;
	send(desk->socket, &look, sizeof(look), MSG_NOSIGNAL);
}

static struct held *find(struct desk *desk, pid_t tid)
{
	for (size_t i = 0; i < desk->count; i++)
		if (desk->held[i].tid == tid)
			return &desk->held[i];
	return NULL;
}

static void drop(struct desk *desk, struct held *held)
{
	*held = desk->held[--desk->count];
}

/* ---- a thread that stands still ---- */

static bool signal_is_due(pid_t tid)
{
	struct kp_proc_status status;

	if (kp_proc_status(tid, tid, &status, NULL) < 0)
		return true;
	return (status.sig_pending | status.shared_pending) & ~status.sig_blocked;
}

/*
 * The signal that a stop is for and that has to go on with the thread, 0 if it is our own stop or
 * job control's.
 */
static int signal_of(int status)
{
	return status >> 16 ? 0 : WSTOPSIG(status);
}

static bool is_our_stop(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP;
}

/*
 * An EINTR that comes from our stop alone becomes the call again. At once: if the onlooker is killed
 * a moment later, the thread goes on with what it has.
 */
static void repair(pid_t tid, const struct kp_cpu_regs *seen)
{
	struct kp_cpu_regs regs = *seen;

	if (kp_cpu_redo_interrupted(&regs) && !signal_is_due(tid))
		kp_cpu_set_regs(tid, &regs);
}

static int take_registers(pid_t tid, int status, struct kp_cpu_regs *regs)
{
	if (kp_cpu_get_regs(tid, regs) != 0 || !kp_cpu_is_native(regs))
		return -1;
	if (is_our_stop(status))
		repair(tid, regs);
	return 0;
}

/* It stands still: what there is to see is copied, and it goes on. */
static void look_at(struct desk *desk, struct held *held, int status)
{
	struct kp_cpu_regs regs;
	uint64_t since = kp_now_ns();
	uint32_t number = held->look;
	struct kp_look *look = number == NO_LOOK ? NULL : &desk->look[number];
	int r = take_registers(held->tid, status, &regs);

	if (r == 0 && look) {
		look->regs = regs;
		if (!kp_proc_sched(look->pid, look->tid, &look->sched))
			look->sched = (struct kp_proc_sched){ 0 };
		kp_look_copy_stack(look);
	}
	ptrace(PTRACE_DETACH, held->tid, 0, (long)signal_of(status));
	if (look)
		look->stopped_ns = kp_now_ns() - since;
	drop(desk, held);
	answer(desk, number, r == 0 ? KP_LOOK_SEEN : KP_LOOK_REFUSED);
}

/*
 * A thread that is traced and not known: another thread of its process has exec'd and its number
 * changed on the way.
 */
static void let_go(pid_t tid, int status)
{
	ptrace(PTRACE_DETACH, tid, 0, (long)signal_of(status));
}

static void take_events(struct desk *desk)
{
	struct signalfd_siginfo info;
	pid_t tid;
	int status;

	while (read(desk->children, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
		struct held *held = find(desk, tid);

		if (!WIFSTOPPED(status)) {
			if (held) {
				uint32_t look = held->look;

				drop(desk, held);
				answer(desk, look, KP_LOOK_GONE);
			}
		} else if (held) {
			look_at(desk, held, status);
		} else {
			let_go(tid, status);
		}
	}
}

/* ---- asking ---- */

static enum kp_look_result seize(struct desk *desk, uint32_t number)
{
	pid_t tid = desk->look[number].tid;

	if (desk->count == HELD_MAX || find(desk, tid))
		return KP_LOOK_LATE; /* it does not stop as it is */
	if (ptrace(PTRACE_SEIZE, tid, 0, 0) != 0)
		return errno == ESRCH ? KP_LOOK_GONE : KP_LOOK_REFUSED;
	desk->held[desk->count++] = (struct held){ tid, number, kp_now_ns() };
	/* If it fails the thread is ending, which waitpid() will tell. */
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	return KP_LOOK_SEEN;
}

/* False when the daemon is done with us, or gone. */
static bool take_requests(struct desk *desk)
{
	uint32_t number;
	ssize_t n;

	while ((n = recv(desk->socket, &number, sizeof(number), MSG_DONTWAIT)) == sizeof(number)) {
		enum kp_look_result result = seize(desk, number);

		if (result != KP_LOOK_SEEN)
			answer(desk, number, result);
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- time ---- */

/* Until something has to be done about a thread that does not stop; -1: all do. */
static int until_next(const struct desk *desk, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < desk->count; i++) {
		const struct held *held = &desk->held[i];
		uint64_t at = held->since_ns + (held->look == NO_LOOK ? STUCK_NS : PATIENCE_NS);

		next = at < next ? at : next;
	}
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)((next - now) / MS) + 1;
}

/* False when one has been stuck for too long. */
static bool be_patient(struct desk *desk)
{
	uint64_t now = kp_now_ns();

	for (size_t i = 0; i < desk->count; i++) {
		struct held *held = &desk->held[i];

		if (now - held->since_ns >= STUCK_NS)
			return false;
		if (held->look != NO_LOOK && now - held->since_ns >= PATIENCE_NS) {
			answer(desk, held->look, KP_LOOK_LATE);
			held->look = NO_LOOK;
		}
	}
	return true;
}

static void wait_for(const struct desk *desk, bool requests)
{
	struct pollfd fds[2] = { { .fd = desk->children, .events = POLLIN },
				 { .fd = requests ? desk->socket : -1, .events = POLLIN } };

	poll(fds, 2, until_next(desk, kp_now_ns()));
}

/* ---- the process ---- */

/*
 * Descriptors that came with the fork would keep the daemon's perf events alive and its files open.
 */
static int keep_only(int socket)
{
	int kept = fcntl(socket, F_DUPFD_CLOEXEC, 0);

	if (kept < 0)
		kept = socket;
	if (kept > 0)
		syscall(SYS_close_range, 0, (unsigned)kept - 1, 0);
	syscall(SYS_close_range, (unsigned)kept + 1, ~0u, 0);
	return kept;
}

static int watch_children(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void kp_onlooker_loop(int socket, struct kp_look *look)
{
	struct desk desk = { .socket = keep_only(socket), .look = look };

	desk.children = watch_children();
	if (desk.children < 0)
		return;
	/* No page fault and no other program's turn while a thread stands; where that is allowed. */
	mlockall(MCL_CURRENT);
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 });
	do {
		wait_for(&desk, true);
		take_events(&desk);
		if (!be_patient(&desk))
			return;
	} while (take_requests(&desk));
	/* What is on its way to a stop is not left there. */
	for (uint64_t end = kp_now_ns() + PATIENCE_NS; desk.count && kp_now_ns() < end;) {
		wait_for(&desk, false);
		take_events(&desk);
		if (!be_patient(&desk))
			return;
	}
}
