/*
 * signals reset	after 1 s, every signal's action becomes SIG_DFL
 * signals ignore N	after 1 s, signal N is ignored
 * signals handle N	after 1 s, signal N gets a handler of the program's own, which counts
 * signals block	one of two busy threads blocks all signals
 * signals storm	stops and continues itself: a child sends SIGSTOP and SIGCONT in turn
 * signals queue N	a child sends signal N all the time; the own handler must see each value once,
 *			in turn, if N is a real-time signal (others merge)
 *
 * Each burns CPU in its main thread and tells at its end what became of it.
 */
#include "victim.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define CHANGE_NS UINT64_C(1000000000)

static volatile sig_atomic_t handled;
static volatile unsigned next_value, received, wrong_values;

static void count_signal(int signal)
{
	(void)signal;
	handled++;
}

static void end_now(int signal)
{
	(void)signal;
	_exit(0);
}

static void burn_until(uint64_t end_ns)
{
	unsigned x = 1;

	while (!victim_stopped && victim_now_ns() < end_ns)
		x = victim_spin(x);
}

static void change(const char *what, int number)
{
	if (strcmp(what, "reset") == 0) {
		for (int i = 1; i < 65; i++)
			signal(i, SIG_DFL);
		signal(SIGTERM, end_now);
	} else if (strcmp(what, "ignore") == 0) {
		signal(number, SIG_IGN);
	} else if (strcmp(what, "handle") == 0) {
		signal(number, count_signal);
	}
	puts("changed");
	fflush(stdout);
}

/* Whether the action is still what change() made it. */
static int is_kept(const char *what, int number)
{
	struct sigaction action;

	if (strcmp(what, "ignore") == 0 || strcmp(what, "handle") == 0) {
		sigaction(number, NULL, &action);
		return action.sa_handler == (strcmp(what, "ignore") == 0 ? SIG_IGN : count_signal);
	}
	return 1;
}

static void *burn_blocked(void *arg)
{
	sigset_t all;

	(void)arg;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	burn_until(UINT64_MAX);
	return NULL;
}

static char state_of(pid_t pid)
{
	char path[64], stat[512] = "", *p;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (f && !fgets(stat, sizeof(stat), f))
		stat[0] = 0;
	if (f)
		fclose(f);
	p = strrchr(stat, ')');
	return p && p[1] ? p[2] : '?';
}

/* A process that got SIGCONT last runs; a tracer may hold it for a moment. */
static int stays_stopped(pid_t pid)
{
	for (int i = 0; i < 50; i++) {
		if (state_of(pid) != 'T')
			return 0;
		usleep(2000);
	}
	return 1;
}

/* In a child: not itself the target. Its last signal is a SIGCONT. */
static void send_storm(pid_t parent, int number)
{
	unsigned stuck = 0;

	(void)number;
	for (unsigned i = 0; getppid() == parent && !victim_stopped; i++) {
		kill(parent, SIGSTOP);
		usleep(i % 7 * 200);
		kill(parent, SIGCONT);
		usleep(i % 3 * 1500);
		stuck += (unsigned)stays_stopped(parent);
	}
	kill(parent, SIGCONT);
	if (stuck)
		printf("bad: %u times stopped after SIGCONT\n", stuck);
	fflush(stdout);
	_exit(stuck != 0);
}

static void on_queued(int signal, siginfo_t *info, void *context)
{
	(void)context;
	received++;
	if (signal >= SIGRTMIN && (unsigned)info->si_value.sival_int != next_value++)
		wrong_values++;
}

static void send_queue(pid_t parent, int number)
{
	for (int i = 0; getppid() == parent && !victim_stopped;) {
		union sigval value = { .sival_int = i };

		if (sigqueue(parent, number, value) == 0)
			i++;
		usleep(500);
	}
	_exit(0);
}

static pid_t start_child(void (*run)(pid_t, int), int number)
{
	pid_t parent = getpid(), child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(parent, number);
	}
	return child;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int number = argc > 2 ? atoi(argv[2]) : 0, changes = 0, status = 0;
	pid_t child = 0;
	pthread_t thread;

	victim_end_on_term();
	if (strcmp(what, "queue") == 0) {
		struct sigaction action = { .sa_sigaction = on_queued,
					    .sa_flags = SA_SIGINFO | SA_RESTART };

		sigaction(number, &action, NULL);
		child = start_child(send_queue, number);
	}
	if (strcmp(what, "storm") == 0)
		child = start_child(send_storm, 0);
	if (strcmp(what, "block") == 0 && pthread_create(&thread, NULL, burn_blocked, NULL) != 0)
		victim_give_up("pthread_create");
	changes = strcmp(what, "reset") == 0 || strcmp(what, "ignore") == 0 ||
		  strcmp(what, "handle") == 0;
	victim_ready();
	if (changes) {
		burn_until(victim_now_ns() + CHANGE_NS);
		change(what, number);
	}
	burn_until(UINT64_MAX);
	if (child) {
		kill(child, SIGTERM); /* it leaves off with a SIGCONT */
		waitpid(child, &status, 0);
	}
	if (strcmp(what, "block") == 0)
		pthread_join(thread, NULL);
	printf("end: handled %d, received %u, wrong %u, kept %d\n", (int)handled, received,
	       wrong_values, is_kept(what, number));
	return status != 0 || wrong_values != 0 || !is_kept(what, number);
}
