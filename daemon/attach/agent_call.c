/* Mail for the agent, worked off in a stopped thread: agent_call.h. Runs in the attach helper. */
#include "daemon/attach/agent_call.h"

#include "daemon/attach/blob.h"
#include "proto/mailbox.h"

#include <string.h>
#include <sys/uio.h>
#include <time.h>

#define COLLECT_TRIES 200 /* of 0.1 ms */

bool kp_agent_has_head(pid_t tid, uint64_t base)
{
	struct kp_shm_head head;
	struct iovec local = { &head, sizeof(head) };
	struct iovec remote = { (void *)(uintptr_t)(base + KP_SHM_HEAD_OFFSET), sizeof(head) };

	return process_vm_readv(tid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof(head) &&
	       head.magic == KP_SHM_MAGIC && head.base == base;
}

int kp_agent_is_there(struct kp_stop *stop, uint64_t base, struct kp_err *err)
{
	if (kp_agent_has_head(stop->tid, base))
		return 0;
	return kp_fail(err, KP_EGONE, "pid %d executes another program now", (int)stop->pid);
}

/* One run of the agent's entry. Its address comes from our own copy of the blob. */
static int run_agent(struct kp_stop *stop, struct kp_shm_map *map, struct kp_err *err)
{
	struct kp_agent_header header;
	int r;

	r = kp_agent_is_there(stop, map->base, err);
	if (r < 0)
		return r;
	memcpy(&header, kp_agent_blob, sizeof(header));
	return kp_stop_call(stop, map->base + header.call_off,
			    map->base + KP_SHM_STACK_OFFSET + KP_SHM_STACK_BYTES, map->head, err);
}

/* Posts as many as there is room for; slot[i] is that of mail[i]. Returns their number. */
static size_t post_some(struct kp_shm_map *map, pid_t ns_pid, struct kp_mail *mail, size_t count,
			uint32_t *slot)
{
	size_t n = 0;

	while (n < count && n < KP_MAIL_SLOTS) {
		mail[n].pid = (uint32_t)ns_pid;
		slot[n] = kp_mailbox_post(map->head, &mail[n]);
		if (slot[n] == KP_MAILBOX_NONE)
			break;
		n++;
	}
	return n;
}

/* A mail that a handler on another thread has taken is done in a moment. */
static bool collect_one(struct kp_shm_map *map, uint32_t slot, struct kp_mail *ret)
{
	struct timespec nap = { .tv_nsec = 100000 };

	for (int i = 0; i < COLLECT_TRIES; i++) {
		if (kp_mailbox_collect(map->head, slot, ret))
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}

int kp_agent_work_off(struct kp_stop *stop, struct kp_shm_map *map, pid_t ns_pid,
		      struct kp_mail *mail, size_t count, struct kp_err *err)
{
	uint32_t slot[KP_MAIL_SLOTS];
	size_t done = 0;

	do {
		size_t n = post_some(map, ns_pid, mail + done, count - done, slot);
		int r = run_agent(stop, map, err);

		if (r < 0)
			return r;
		if (n == 0 && done < count)
			return kp_fail(err, KP_EBUSY, "pid %d: the agent's mailbox is full",
				       (int)stop->pid);
		for (size_t i = 0; i < n; i++)
			if (!collect_one(map, slot[i], &mail[done + i]))
				return kp_fail(err, KP_EBUSY, "pid %d: the agent left mail undone",
					       (int)stop->pid);
		done += n;
	} while (done < count);
	return 0;
}
