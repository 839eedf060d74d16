/* Mail for the agent, worked off in a stopped thread: agent_call.h. Runs in the attach helper. */
#include "daemon/attach/agent_call.h"

#include "daemon/attach/blob.h"

#include <string.h>

/* One run of the agent's entry. Its address comes from our own copy of the blob. */
static int run_agent(struct kp_stop *stop, struct kp_shm_map *map, struct kp_err *err)
{
	struct kp_agent_header header;

	memcpy(&header, kp_agent_blob, sizeof(header));
	return kp_stop_call(stop, map->base + header.call_off,
			    map->base + KP_SHM_STACK_OFFSET + KP_SHM_STACK_BYTES, map->head, err);
}

static bool all_done(const struct kp_shm_map *map)
{
	return __atomic_load_n(&map->head->mail_done, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&map->head->mail_posted, __ATOMIC_RELAXED);
}

/* A full box at most: the first of them must not be overwritten before its result is read. */
static int work_off_some(struct kp_stop *stop, struct kp_shm_map *map, struct kp_mail *mail, size_t count,
			 struct kp_err *err)
{
	uint32_t first = __atomic_load_n(&map->head->mail_posted, __ATOMIC_RELAXED);
	int r;

	for (size_t i = 0; i < count; i++)
		map->head->mail[(first + i) % KP_MAIL_SLOTS] = mail[i];
	__atomic_store_n(&map->head->mail_posted, first + (uint32_t)count, __ATOMIC_RELEASE);
	r = run_agent(stop, map, err);
	if (r < 0)
		return r;
	if (!all_done(map))
		return kp_fail(err, KP_EBUSY, "pid %d: the agent left mail undone", (int)stop->pid);
	for (size_t i = 0; i < count; i++)
		mail[i] = map->head->mail[(first + i) % KP_MAIL_SLOTS];
	return 0;
}

int kp_agent_work_off(struct kp_stop *stop, struct kp_shm_map *map, struct kp_mail *mail, size_t count,
		      struct kp_err *err)
{
	int r = 0;

	if (!all_done(map))
		r = run_agent(stop, map, err);
	for (size_t done = 0; done < count && r == 0; done += KP_MAIL_SLOTS) {
		size_t some = count - done < KP_MAIL_SLOTS ? count - done : KP_MAIL_SLOTS;

		r = work_off_some(stop, map, mail + done, some, err);
	}
	return r;
}
