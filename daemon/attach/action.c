/* Who holds the sampling signal: kp_action_hold() of inject.h. Runs in the attach helper. */
#include "daemon/attach/inject.h"

#include "common/cleanup.h"
#include "daemon/attach/agent_call.h"
#include "daemon/attach/helper.h"
#include "daemon/attach/inject_steps.h"
#include "daemon/attach/stop.h"
#include "daemon/linux/maps.h"
#include "daemon/linux/proc.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

struct action_job {
	pid_t pid;
	const struct kp_shm_map *map;
	int signal;
	bool share;
	enum kp_action held;
};

#define KERNEL_SIGSET_BYTES 8

/* The kernel leaves these two out of every mask. */
#define NEVER_MASKED (UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1))

/*
 * The C library has these for its threads, glibc two and musl three, and takes them out of each mask
 * that it is given: Go programs with cgo ask it for their actions. That they are blocked as well
 * while such a handler stands behind ours only keeps the library waiting until it returns.
 */
#define LIBRARY_OWN (UINT64_C(7) << (32 - 1))

bool kp_action_is_sharable(const struct kp_sigaction *action)
{
	return kp_sigaction_has_handler(action) && action->flags & SA_SIGINFO &&
	       action->flags & SA_ONSTACK && !(action->flags & SA_RESETHAND) &&
	       (action->mask | NEVER_MASKED | LIBRARY_OWN) == UINT64_MAX;
}

int kp_action_set(struct kp_stop *stop, int signal, uint64_t new_action, uint64_t old_action,
		  struct kp_err *err)
{
	uint64_t args[6] = { (uint64_t)signal, new_action, old_action, KERNEL_SIGSET_BYTES };
	int64_t ignored;

	return kp_inject_call(stop, "rt_sigaction", SYS_rt_sigaction, args, &ignored, err);
}

/* The kernel writes the action into the agent's stack area, which is not in use. */
static int look(struct kp_stop *stop, struct action_job *job, struct kp_err *err)
{
	const struct kp_shm_map *map = job->map;
	uint64_t scratch = map->base + KP_SHM_STACK_OFFSET;
	uint64_t ours = map->base + KP_SHM_HEAD_OFFSET + offsetof(struct kp_shm_head, ours);
	struct kp_sigaction now;
	int r = kp_action_set(stop, job->signal, 0, scratch, err);

	if (r < 0)
		return r;
	memcpy(&now, map->data + KP_SHM_STACK_OFFSET, sizeof(now));
	if (now.handler - map->base < KP_SHM_CODE_BYTES) {
		job->held = KP_ACTION_OURS;
		return 0;
	}
	if (!job->share || !kp_action_is_sharable(&now)) {
		job->held = KP_ACTION_TAKEN;
		return 0;
	}
	/* Before ours is the action again: it may run at once. */
	map->head->saved = now;
	job->held = KP_ACTION_SHARED;
	return kp_action_set(stop, job->signal, ours, 0, err);
}

static int action_helper(void *memory, int *ret_fd, struct kp_err *err)
{
	struct action_job *job = memory;
	struct kp_stop stop;
	int r = kp_stop_any(&stop, job->pid, err);

	(void)ret_fd;
	if (r < 0)
		return r;
	r = kp_agent_is_there(&stop, job->map->base, err);
	if (r == 0)
		r = look(&stop, job, err);
	kp_stop_end(&stop);
	return r;
}

int kp_action_hold(pid_t pid, const struct kp_shm_map *map, int signal, bool share,
		   enum kp_action *ret, struct kp_err *err)
{
	struct action_job *job = kp_helper_memory(sizeof(*job));
	int r;

	if (!job)
		return kp_fail_nomem(err);
	*job = (struct action_job){ .pid = pid, .map = map, .signal = signal, .share = share };
	r = kp_helper_run(action_helper, job, NULL, err);
	*ret = job->held;
	kp_helper_memory_free(job, sizeof(*job));
	return r;
}

static bool has_mapping(pid_t pid, uint64_t base)
{
	static const char name[] = "/memfd:" KP_SHM_NAME;
	_cleanup_(kp_maps_deinit) struct kp_maps maps = { 0 };
	const struct kp_map *map;

	if (kp_maps_init(&maps, pid, 0, NULL) < 0)
		return false;
	map = kp_maps_find(&maps, base);
	return map && strncmp(map->path, name, sizeof(name) - 1) == 0;
}

/* By its own memory; where that cannot be read, or by a thread that is just ending, by its map. */
bool kp_is_injected(pid_t pid, uint64_t base)
{
	return kp_agent_has_head(kp_proc_live_thread(pid), base) || has_mapping(pid, base);
}
