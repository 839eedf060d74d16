/*
 * execs fork|vfork COUNT: children one after another, two at a time; each burns 0 to 3 ms of CPU and
 * executes /bin/true. With vfork the parent burns instead, since such a child may only exec.
 * Exit status 1 if any child did not exit with 0. COUNT 0: until SIGTERM.
 */
#include "victim.h"

#include <sys/wait.h>

static unsigned next_random(unsigned *state)
{
	*state = *state * 1103515245u + 12345u;
	return *state >> 16;
}

static void burn_us(unsigned us)
{
	uint64_t end = victim_now_ns() + us * UINT64_C(1000);
	unsigned x = us;

	while (victim_now_ns() < end)
		x = victim_spin(x);
}

static void become_true(void)
{
	char *const argv[] = { (char *)(uintptr_t) "true", NULL };
	char *const environment[] = { NULL };

	execve("/bin/true", argv, environment);
	_exit(98);
}

static pid_t start_forked(unsigned us)
{
	pid_t child = fork();

	if (child == 0) {
		burn_us(us);
		become_true();
	}
	return child;
}

static pid_t start_vforked(unsigned us)
{
	pid_t child;

	burn_us(us);
	child = vfork();
	if (child == 0)
		become_true();
	return child;
}

static int wait_for(pid_t child, unsigned number)
{
	int status;

	if (child <= 0)
		return 0;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR) {
			printf("bad: child %u: waitpid: %s\n", number, strerror(errno));
			return 1;
		}
	if (status != 0)
		printf("bad: child %u: status %#x\n", number, (unsigned)status);
	return status != 0;
}

int main(int argc, char **argv)
{
	pid_t (*start)(unsigned) =
		argc > 1 && strcmp(argv[1], "vfork") == 0 ? start_vforked : start_forked;
	unsigned count = argc > 2 ? (unsigned)atoi(argv[2]) : 0, bad = 0, n = 0, random = 1;
	pid_t children[2] = { 0 };

	victim_end_on_term();
	victim_ready();
	for (; !victim_stopped && (!count || n < count); n++) {
		bad += (unsigned)wait_for(children[n % 2], n);
		children[n % 2] = start(next_random(&random) % 3000);
		if (children[n % 2] < 0)
			victim_give_up("fork");
	}
	bad += (unsigned)wait_for(children[0], n);
	bad += (unsigned)wait_for(children[1], n);
	printf("end: %u children, %u bad\n", n, bad);
	return bad != 0;
}
