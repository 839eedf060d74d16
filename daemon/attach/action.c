/* Who holds the sampling signal: kp_handler_is_ours() of inject.h. */
#include "daemon/attach/inject.h"

#include "common/cleanup.h"
#include "daemon/attach/agent_call.h"
#include "daemon/attach/helper.h"
#include "daemon/attach/stop.h"
#include "daemon/linux/maps.h"

#include <string.h>
#include <sys/syscall.h>

struct action_job {
	pid_t pid;
	const struct kp_shm_map *map;
	int signal;
	uint64_t handler;
};

/* The kernel writes the action into the agent's stack area, which is not in use. */
static int action_helper(void *memory, int *ret_fd, struct kp_err *err)
{
	struct action_job *job = memory;
	uint64_t args[6] = { (uint64_t)job->signal, 0, job->map->base + KP_SHM_STACK_OFFSET, 8 };
	struct kp_stop stop;
	int64_t result = 0;
	int r = kp_stop_any(&stop, job->pid, err);

	(void)ret_fd;
	if (r < 0)
		return r;
	r = kp_agent_is_there(&stop, job->map->base, err);
	if (r == 0)
		r = kp_stop_syscall(&stop, SYS_rt_sigaction, args, &result, err);
	kp_stop_end(&stop);
	if (r == 0 && result < 0)
		r = kp_fail(err, KP_ESYSTEM, "pid %d: rt_sigaction in the target failed: %s",
			    (int)job->pid, strerror((int)-result));
	memcpy(&job->handler, job->map->data + KP_SHM_STACK_OFFSET, sizeof(job->handler));
	return r;
}

int kp_handler_is_ours(pid_t pid, const struct kp_shm_map *map, int signal, bool *ret,
		       struct kp_err *err)
{
	struct action_job *job = kp_helper_memory(sizeof(*job));
	int r;

	if (!job)
		return kp_fail_nomem(err);
	*job = (struct action_job){ .pid = pid, .map = map, .signal = signal };
	r = kp_helper_run(action_helper, job, NULL, err);
	*ret = job->handler - map->base < KP_SHM_CODE_BYTES;
	kp_helper_memory_free(job, sizeof(*job));
	return r;
}

bool kp_is_injected(pid_t pid, uint64_t base)
{
	static const char name[] = "/memfd:" KP_SHM_NAME;
	_cleanup_(kp_maps_deinit) struct kp_maps maps = { 0 };
	const struct kp_map *map;

	if (kp_maps_init(&maps, pid, 0, NULL) < 0)
		return false;
	map = kp_maps_find(&maps, base);
	return map && strncmp(map->path, name, sizeof(name) - 1) == 0;
}
