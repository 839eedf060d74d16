/*
 * sandbox KIND: burns CPU under a seccomp filter (CPU of this build only).
 *	memfd		memfd_create kills
 *	timer		timer_create kills
 *	allow		only what the program itself needs; a signal handler cannot return
 *	mask		rt_sigprocmask gives EPERM
 *	trap		getpid raises SIGSYS, which is handled
 *	thread		a second thread has a filter of its own, like "allow"
 *	same		two threads, each one filter: the main one's is harmless
 *	strict		a second thread is in strict mode
 *	late		the filter "memfd" comes in mid-window, after 1 s
 * Prints "ready"; ends with status 0 on SIGTERM where the filter lets it, else it is killed by it.
 */
#include "victim.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LOAD_NR BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
#define ON(number, action) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), RETURN(action)

static void install(struct sock_filter *filter, size_t count)
{
	struct sock_fprog program = { .len = (unsigned short)count, .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
		victim_give_up("seccomp");
}

#define INSTALL(...)                                                                               \
	do {                                                                                       \
		struct sock_filter filter[] = { LOAD_NR, __VA_ARGS__ };                            \
		install(filter, sizeof(filter) / sizeof(filter[0]));                               \
	} while (0)

static void forbid_memfd(void)
{
	INSTALL(ON(SYS_memfd_create, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
}

static void forbid_timer(void)
{
	INSTALL(ON(SYS_timer_create, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
}

static void forbid_mask(void)
{
	INSTALL(ON(SYS_rt_sigprocmask, SECCOMP_RET_ERRNO | EPERM), RETURN(SECCOMP_RET_ALLOW));
}

static void trap_getpid(void)
{
	INSTALL(ON(SYS_getpid, SECCOMP_RET_TRAP), RETURN(SECCOMP_RET_ALLOW));
}

static void allow_little(void)
{
	INSTALL(ON(SYS_write, SECCOMP_RET_ALLOW), ON(SYS_exit_group, SECCOMP_RET_ALLOW),
		ON(SYS_exit, SECCOMP_RET_ALLOW), ON(SYS_futex, SECCOMP_RET_ALLOW),
		ON(SYS_clock_gettime, SECCOMP_RET_ALLOW), RETURN(SECCOMP_RET_KILL_PROCESS));
}

/* As many filters as allow_little(), none of which says no. */
static void allow_all(void)
{
	INSTALL(RETURN(SECCOMP_RET_ALLOW));
}

static void be_strict(void)
{
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
		victim_give_up("strict mode");
}

static void on_sys(int signal)
{
	(void)signal;
}

static void burn(void)
{
	volatile unsigned x = 1;

	while (!victim_stopped)
		x = victim_spin(x);
}

static volatile int is_confined;

static void *burn_confined(void *confine)
{
	((void (*)(void))confine)();
	is_confined = 1;
	burn();
	return NULL;
}

static void start_confined(void (*confine)(void))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, burn_confined, (void *)(uintptr_t)confine) != 0)
		victim_give_up("pthread_create");
	while (!is_confined)
		victim_sleep_ms(1);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";

	victim_end_on_term();
	signal(SIGSYS, on_sys);
	if (strcmp(kind, "memfd") == 0) {
		forbid_memfd();
	} else if (strcmp(kind, "timer") == 0) {
		forbid_timer();
	} else if (strcmp(kind, "allow") == 0) {
		victim_ready(); /* stdout may call what the filter forbids */
		allow_little();
	} else if (strcmp(kind, "mask") == 0) {
		forbid_mask();
	} else if (strcmp(kind, "trap") == 0) {
		trap_getpid();
	} else if (strcmp(kind, "thread") == 0) {
		start_confined(allow_little);
	} else if (strcmp(kind, "same") == 0) {
		start_confined(allow_little);
		allow_all();
	} else if (strcmp(kind, "strict") == 0) {
		start_confined(be_strict);
	}
	if (strcmp(kind, "allow") != 0)
		victim_ready();
	if (strcmp(kind, "late") == 0) {
		for (uint64_t end = victim_now_ns() + 1000000000; victim_now_ns() < end;)
			victim_spin(1);
		forbid_memfd();
	}
	burn();
	_exit(0);
}
