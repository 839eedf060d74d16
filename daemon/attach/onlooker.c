/* Asking the onlooker and taking its answers: onlooker.h. Daemon; its own loop is onlooker_loop.c. */
#include "daemon/attach/onlooker.h"

#include "common/cleanup.h"
#include "daemon/attach/helper.h"
#include "daemon/attach/onlooker_loop.h"
#include "daemon/linux/proc.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct kp_onlooker {
	int socket; /* -1: it has ended */
	pid_t pid;
	struct kp_look *look; /* shared with it */
	bool asked[KP_ONLOOKER_LOOKS];
	uint32_t taken; /* the answer that was handed out last; KP_ONLOOKER_LOOKS: none */
	uint64_t cpu_ns;
};

static size_t look_bytes(void)
{
	return KP_ONLOOKER_LOOKS * sizeof(struct kp_look);
}

/* In the child: nothing of the daemon's stays with it but the socket and the shared memory. */
__attribute__((noreturn)) static void become_onlooker(int socket, struct kp_look *look,
						      pid_t parent)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "kitprof-look");
	if (getppid() != parent)
		_exit(0);
	kp_onlooker_loop(socket, look);
	_exit(0);
}

int kp_onlooker_create(struct kp_onlooker **ret, struct kp_err *err)
{
	struct kp_onlooker *o = calloc(1, sizeof(*o));
	pid_t parent = getpid();
	int pair[2];

	if (!o)
		return kp_fail_nomem(err);
	o->taken = KP_ONLOOKER_LOOKS;
	o->look = kp_helper_memory(look_bytes());
	if (!o->look || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		int r = kp_fail_errno(err, "onlooker");

		kp_helper_memory_free(o->look, look_bytes());
		free(o);
		return r;
	}
	o->socket = pair[0];
	o->pid = fork();
	if (o->pid == 0)
		become_onlooker(pair[1], o->look, parent);
	close(pair[1]);
	if (o->pid < 0) {
		int r = kp_fail_errno(err, "onlooker: fork");

		kp_onlooker_destroy(o);
		return r;
	}
	*ret = o;
	return 0;
}

/* Closing the socket tells it to end; it lets go of what it holds first. */
static void end(struct kp_onlooker *o)
{
	if (o->socket < 0)
		return;
	kp_onlooker_cpu_ns(o);
	close(kp_take_fd(&o->socket));
	while (o->pid > 0 && waitpid(o->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void kp_onlooker_destroy(struct kp_onlooker *o)
{
	if (!o)
		return;
	end(o);
	kp_helper_memory_free(o->look, look_bytes());
	free(o);
}

int kp_onlooker_fd(const struct kp_onlooker *o)
{
	return o->socket;
}

static uint32_t free_look(const struct kp_onlooker *o)
{
	uint32_t i = 0;

	while (i < KP_ONLOOKER_LOOKS && (o->asked[i] || i == o->taken))
		i++;
	return i;
}

bool kp_onlooker_ask(struct kp_onlooker *o, pid_t pid, pid_t tid, uint64_t token)
{
	uint32_t i = free_look(o);

	if (o->socket < 0 || i == KP_ONLOOKER_LOOKS)
		return false;
	o->look[i].pid = pid;
	o->look[i].tid = tid;
	o->look[i].token = token;
	if (send(o->socket, &i, sizeof(i), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(i))
		return false;
	o->asked[i] = true;
	return true;
}

static struct kp_look *hand_out(struct kp_onlooker *o, uint32_t i)
{
	o->asked[i] = false;
	o->taken = i;
	return &o->look[i];
}

struct kp_look *kp_onlooker_next(struct kp_onlooker *o)
{
	uint32_t i;
	ssize_t n = -1;

	o->taken = KP_ONLOOKER_LOOKS;
	if (o->socket >= 0)
		n = recv(o->socket, &i, sizeof(i), MSG_DONTWAIT);
	if (n == sizeof(i) && i < KP_ONLOOKER_LOOKS && o->asked[i])
		return hand_out(o, i);
	if (n < 0 && o->socket >= 0 && (errno == EAGAIN || errno == EINTR))
		return NULL;
	end(o);
	for (i = 0; i < KP_ONLOOKER_LOOKS; i++) {
		if (o->asked[i]) {
			o->look[i].result = KP_LOOK_LATE;
			return hand_out(o, i);
		}
	}
	return NULL;
}

bool kp_onlooker_is_over(const struct kp_onlooker *o)
{
	if (o->socket >= 0)
		return false;
	for (uint32_t i = 0; i < KP_ONLOOKER_LOOKS; i++)
		if (o->asked[i])
			return false;
	return true;
}

/* Of one that has ended: as of its last moment that was asked for. */
uint64_t kp_onlooker_cpu_ns(struct kp_onlooker *o)
{
	uint64_t now;

	if (o->socket >= 0 && kp_proc_cpu_ns(o->pid, &now))
		o->cpu_ns = now;
	return o->cpu_ns;
}
