/*
 * Private to session/: signals to kitprof while a session runs. They are blocked and read from a
 * descriptor; the program that `run` starts gets back what kitprof itself was started with.
 */
#pragma once

#include "common/err.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct kp_signals {
	int fd; /* signalfd, -1: none */
	sigset_t old_mask;
	struct sigaction old_child;
};

int kp_signals_init(struct kp_signals *signals, struct kp_err *err);
void kp_signals_deinit(struct kp_signals *signals);

/* In a forked child, before exec: mask and actions as kitprof found them. */
void kp_signals_restore(void *signals);

/*
 * Reads what has come. child 0: true for one that ends the window. Else: those that a terminal sends
 * reach the program anyway, SIGTERM and SIGHUP that somebody sent to kitprof alone are passed on.
 */
bool kp_signals_read(struct kp_signals *signals, pid_t child);
