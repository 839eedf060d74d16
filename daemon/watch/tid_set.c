/* A set of thread ids: tid_set.h. Daemon, session loop. */
#include "daemon/watch/tid_set.h"

#include <stdlib.h>
#include <string.h>

/* Where it is, or would be. */
static size_t place(const struct kp_tid_set *set, pid_t tid)
{
	size_t low = 0, high = set->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (set->tid[middle] < tid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool kp_tid_set_has(const struct kp_tid_set *set, pid_t tid)
{
	size_t at = place(set, tid);

	return at < set->count && set->tid[at] == tid;
}

int kp_tid_set_add(struct kp_tid_set *set, pid_t tid, struct kp_err *err)
{
	size_t at = place(set, tid);

	if (at < set->count && set->tid[at] == tid)
		return 0;
	if (set->count == set->room) {
		size_t room = set->room ? set->room * 2 : 64;
		pid_t *grown = reallocarray(set->tid, room, sizeof(*grown));

		if (!grown)
			return kp_fail_nomem(err);
		set->tid = grown;
		set->room = room;
	}
	memmove(set->tid + at + 1, set->tid + at, (set->count - at) * sizeof(*set->tid));
	set->tid[at] = tid;
	set->count++;
	return 0;
}

void kp_tid_set_remove(struct kp_tid_set *set, pid_t tid)
{
	size_t at = place(set, tid);

	if (at == set->count || set->tid[at] != tid)
		return;
	set->count--;
	memmove(set->tid + at, set->tid + at + 1, (set->count - at) * sizeof(*set->tid));
}

void kp_tid_set_deinit(struct kp_tid_set *set)
{
	free(set->tid);
	*set = (struct kp_tid_set){ 0 };
}
