/*
 * The onlooker: a process that looks at threads in short stops, one after another, for as long as a
 * session needs it. A thread is seized, stopped, its registers and stack are copied, and it is let
 * go; nothing of it is changed but that a call is made again which would return EINTR for our stop
 * alone. Whenever the onlooker ends, however it ends, the kernel lets go of what it holds.
 *
 * The daemon asks and takes answers when they come; it never waits.
 */
#pragma once

#include "common/err.h"
#include "daemon/attach/look.h"

#include <stdbool.h>
#include <stdint.h>

#define KP_ONLOOKER_LOOKS 16 /* at a time */

struct kp_onlooker;

/* Forks it. The calling process must be single-threaded; it is killed with it. */
int kp_onlooker_create(struct kp_onlooker **ret, struct kp_err *err);
/* Takes back what is asked for and lets it end. NULL is allowed. */
void kp_onlooker_destroy(struct kp_onlooker *onlooker);

/* Readable when an answer is there. */
int kp_onlooker_fd(const struct kp_onlooker *onlooker);

/* Has a thread looked at. False if as many looks as can be are under way, or the onlooker has ended. */
bool kp_onlooker_ask(struct kp_onlooker *onlooker, pid_t pid, pid_t tid, uint64_t token);

/*
 * The next answer, valid until the next call; NULL: none now. When the onlooker has ended (somebody
 * killed it) each look under way is answered with KP_LOOK_LATE.
 */
struct kp_look *kp_onlooker_next(struct kp_onlooker *onlooker);

/* It has ended, and every answer has been taken: it is of no more use. */
bool kp_onlooker_is_over(const struct kp_onlooker *onlooker);

/* CPU time that it has used. */
uint64_t kp_onlooker_cpu_ns(struct kp_onlooker *onlooker);
