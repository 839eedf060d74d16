/* What a clock keeps for each thread: thread_table.h. Daemon. */
#include "daemon/clock/thread_table.h"

#include <stdlib.h>

struct kp_clock_thread *kp_thread_table_add(struct kp_thread_table *t)
{
	if (t->count == t->room) {
		size_t room = t->room ? t->room * 2 : 32;
		struct kp_clock_thread *grown = reallocarray(t->thread, room, sizeof(*grown));

		if (!grown)
			return NULL;
		t->thread = grown;
		t->room = room;
	}
	t->thread[t->count] = (struct kp_clock_thread){ .fd = -1, .timer_id = -1 };
	return &t->thread[t->count++];
}

struct kp_clock_thread *kp_thread_table_find(const struct kp_thread_table *t, pid_t tid)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->thread[i].tid == tid)
			return &t->thread[i];
	return NULL;
}

void kp_thread_table_remove(struct kp_thread_table *t, struct kp_clock_thread *thread)
{
	*thread = t->thread[--t->count];
}

void kp_thread_table_deinit(struct kp_thread_table *t)
{
	free(t->thread);
	*t = (struct kp_thread_table){ 0 };
}
