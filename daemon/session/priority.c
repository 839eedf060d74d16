/*
 * The session loop's priority: priority.h. Daemon.
 *
 * sched(7), setrlimit(2) RLIMIT_RTTIME: a real-time process that uses its limit of CPU time without a
 * blocking call gets SIGXCPU. The handler makes it an ordinary one, so that a loop which has much to
 * do does not keep the target from the CPU.
 */
#include "daemon/session/priority.h"

#include "daemon/linux/monotonic.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>

#define LIMIT_US 200000
#define PENALTY_NS UINT64_C(1000000000)
#define NICER 10

static volatile sig_atomic_t lost;
static uint64_t lost_ns; /* when _renew() has seen it */

static void become_ordinary(int signal)
{
	struct sched_param none = { 0 };

	(void)signal;
	sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none);
	lost = 1;
}

static bool become_real_time(void)
{
	struct sched_param least = { .sched_priority = 1 };

	return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &least) == 0;
}

void kp_priority_raise(struct kp_priority *priority)
{
	*priority = (struct kp_priority){ 0 };
	errno = 0;
	priority->nice = getpriority(PRIO_PROCESS, 0);
	priority->raised = errno == 0 && setpriority(PRIO_PROCESS, 0, priority->nice - NICER) == 0;
}

void kp_priority_raise_more(struct kp_priority *priority)
{
	struct sigaction action = { .sa_handler = become_ordinary, .sa_flags = SA_RESTART };
	struct rlimit limit = { .rlim_cur = LIMIT_US };

	if (sched_getscheduler(0) != SCHED_OTHER || getrlimit(RLIMIT_RTTIME, &priority->limit) != 0)
		return;
	limit.rlim_max = priority->limit.rlim_max;
	if (limit.rlim_max < limit.rlim_cur || sigaction(SIGXCPU, &action, NULL) != 0 ||
	    setrlimit(RLIMIT_RTTIME, &limit) != 0)
		return;
	priority->real_time = become_real_time();
	if (!priority->real_time)
		setrlimit(RLIMIT_RTTIME, &priority->limit);
}

void kp_priority_renew(struct kp_priority *priority)
{
	uint64_t now;

	if (!lost || !priority->real_time)
		return;
	now = kp_now_ns();
	if (!lost_ns) {
		lost_ns = now;
	} else if (now - lost_ns > PENALTY_NS) {
		lost_ns = 0;
		lost = 0;
		become_real_time();
	}
}

void kp_priority_restore(const struct kp_priority *priority)
{
	struct sched_param none = { 0 };

	if (priority->real_time) {
		sched_setscheduler(0, SCHED_OTHER, &none);
		setrlimit(RLIMIT_RTTIME, &priority->limit);
		signal(SIGXCPU, SIG_DFL);
	}
	if (priority->raised)
		setpriority(PRIO_PROCESS, 0, priority->nice);
}
