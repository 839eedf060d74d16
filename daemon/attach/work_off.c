/* Mail that no handler works off is worked off in a stop: kp_work_off_in_stop() of inject.h. */
#include "daemon/attach/inject.h"

#include "daemon/attach/agent_call.h"
#include "daemon/attach/helper.h"
#include "daemon/attach/inject_steps.h"
#include "daemon/attach/stop.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

struct work_off_job {
	pid_t pid;
	struct kp_shm_map *map;
	int flush;
	uint64_t stopped_ns;
};

/*
 * The kernel drops what is pending of a signal when its action becomes to ignore it. The action that
 * was there is back some microseconds later; a sample that some thread should take in between is not
 * taken. Both actions stand where the agent's stack is, which is not in use.
 */
static int flush(struct kp_stop *stop, const struct work_off_job *job, struct kp_err *err)
{
	const struct kp_sigaction ignore = { .handler = (uint64_t)(uintptr_t)SIG_IGN };
	uint64_t scratch = job->map->base + KP_SHM_STACK_OFFSET;
	uint64_t before = scratch + sizeof(ignore);
	int r;

	memcpy(job->map->data + KP_SHM_STACK_OFFSET, &ignore, sizeof(ignore));
	r = kp_action_set(stop, job->flush, scratch, before, err);
	return r < 0 ? r : kp_action_set(stop, job->flush, before, 0, err);
}

static int work_off_helper(void *memory, int *ret_fd, struct kp_err *err)
{
	struct work_off_job *job = memory;
	struct kp_stop stop;
	int r = kp_stop_any(&stop, job->pid, err);

	(void)ret_fd;
	if (r < 0)
		return r;
	r = kp_agent_work_off(&stop, job->map, 0, NULL, 0, err);
	if (r == 0 && job->flush)
		r = flush(&stop, job, err);
	job->stopped_ns = kp_stop_end(&stop);
	return r;
}

int kp_work_off_in_stop(pid_t pid, struct kp_shm_map *map, int flush, uint64_t *ret_stopped_ns,
			struct kp_err *err)
{
	struct work_off_job *job = kp_helper_memory(sizeof(*job));
	int r;

	if (!job)
		return kp_fail_nomem(err);
	*job = (struct work_off_job){ .pid = pid, .map = map, .flush = flush };
	r = kp_helper_run(work_off_helper, job, NULL, err);
	*ret_stopped_ns = job->stopped_ns;
	kp_helper_memory_free(job, sizeof(*job));
	return r;
}
