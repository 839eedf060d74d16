/* Mail that no handler works off is worked off in a stop: kp_work_off_in_stop() of inject.h. */
#include "daemon/attach/inject.h"

#include "daemon/attach/agent_call.h"
#include "daemon/attach/helper.h"
#include "daemon/attach/stop.h"

struct work_off_job {
	pid_t pid;
	struct kp_shm_map *map;
	uint64_t stopped_ns;
};

static int work_off_helper(void *memory, int *ret_fd, struct kp_err *err)
{
	struct work_off_job *job = memory;
	struct kp_stop stop;
	int r = kp_stop_any(&stop, job->pid, err);

	(void)ret_fd;
	if (r < 0)
		return r;
	r = kp_agent_work_off(&stop, job->map, 0, NULL, 0, err);
	job->stopped_ns = kp_stop_end(&stop);
	return r;
}

int kp_work_off_in_stop(pid_t pid, struct kp_shm_map *map, uint64_t *ret_stopped_ns,
			struct kp_err *err)
{
	struct work_off_job *job = kp_helper_memory(sizeof(*job));
	int r;

	if (!job)
		return kp_fail_nomem(err);
	*job = (struct work_off_job){ .pid = pid, .map = map };
	r = kp_helper_run(work_off_helper, job, NULL, err);
	*ret_stopped_ns = job->stopped_ns;
	kp_helper_memory_free(job, sizeof(*job));
	return r;
}
