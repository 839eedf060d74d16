/* Signals to kitprof while a session runs: signals.h. */
#include "daemon/session/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

int kp_signals_init(struct kp_signals *signals, struct kp_err *err)
{
	struct sigaction child = { .sa_handler = SIG_DFL };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigprocmask(SIG_BLOCK, &set, &signals->old_mask);
	/* Inherited as ignored, it would make waitpid() lose exit statuses. */
	sigaction(SIGCHLD, &child, &signals->old_child);
	signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals->fd >= 0)
		return 0;
	kp_signals_restore(signals);
	return kp_fail_errno(err, "signalfd");
}

void kp_signals_restore(void *signals)
{
	struct kp_signals *s = signals;

	sigaction(SIGCHLD, &s->old_child, NULL);
	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}

void kp_signals_deinit(struct kp_signals *signals)
{
	if (signals->fd < 0)
		return;
	close(signals->fd);
	signals->fd = -1;
	kp_signals_restore(signals);
}

bool kp_signals_read(struct kp_signals *signals, pid_t child)
{
	struct signalfd_siginfo info;
	bool ends = false;

	while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		int signal = (int)info.ssi_signo;

		if (!child)
			ends |= signal != SIGQUIT;
		else if (info.ssi_code <= 0 && (signal == SIGTERM || signal == SIGHUP))
			kill(child, signal);
	}
	return ends;
}
