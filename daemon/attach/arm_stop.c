/* Mail worked off in a stop of its own: kp_inject_mails() of inject.h. */
#include "daemon/attach/inject.h"

#include "daemon/attach/agent_call.h"
#include "daemon/attach/helper.h"
#include "daemon/attach/stop.h"

#include <string.h>

struct mail_job {
	pid_t pid;
	struct kp_shm_map *map;
	uint64_t stopped_ns;
	size_t count;
	struct kp_mail mail[];
};

static int mail_helper(void *memory, int *ret_fd, struct kp_err *err)
{
	struct mail_job *job = memory;
	struct kp_stop stop;
	int r = kp_stop_any(&stop, job->pid, err);

	(void)ret_fd;
	if (r < 0)
		return r;
	r = kp_agent_work_off(&stop, job->map, job->mail, job->count, err);
	job->stopped_ns = kp_stop_end(&stop);
	return r;
}

int kp_inject_mails(pid_t pid, struct kp_shm_map *map, struct kp_mail_list mails,
		    uint64_t *ret_stopped_ns, struct kp_err *err)
{
	size_t size = sizeof(struct mail_job) + mails.count * sizeof(*mails.mail);
	struct mail_job *job = kp_helper_memory(size);
	int r;

	if (!job)
		return kp_fail_nomem(err);
	*job = (struct mail_job){ .pid = pid, .map = map, .count = mails.count };
	memcpy(job->mail, mails.mail, mails.count * sizeof(*mails.mail));
	r = kp_helper_run(mail_helper, job, NULL, err);
	memcpy(mails.mail, job->mail, mails.count * sizeof(*mails.mail));
	*ret_stopped_ns = job->stopped_ns;
	kp_helper_memory_free(job, size);
	return r;
}
