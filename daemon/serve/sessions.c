/* The sessions of a server: sessions.h. Server. */
#include "daemon/serve/sessions.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES (KP_CONTROL_SESSIONS_MAX + KP_CONTROL_HISTORY_MAX)

static void remove_at(struct kp_sessions *sessions, size_t i)
{
	free(sessions->entry[i]);
	sessions->count--;
	memmove(&sessions->entry[i], &sessions->entry[i + 1],
		(sessions->count - i) * sizeof(sessions->entry[0]));
}

static void forget_oldest(struct kp_sessions *sessions)
{
	for (size_t i = 0; sessions->count - sessions->running > KP_CONTROL_HISTORY_MAX; i++)
		if (!sessions->entry[i]->running)
			remove_at(sessions, i--);
}

struct kp_session_entry *kp_sessions_add(struct kp_sessions *sessions)
{
	struct kp_session_entry *entry;

	if (sessions->running == KP_CONTROL_SESSIONS_MAX || sessions->count == ENTRIES)
		return NULL;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->id = ++sessions->last_id;
	entry->running = true;
	sessions->entry[sessions->count++] = entry;
	sessions->running++;
	return entry;
}

void kp_sessions_drop(struct kp_sessions *sessions, struct kp_session_entry *entry)
{
	if (entry->running)
		sessions->running--;
	for (size_t i = 0; i < sessions->count; i++)
		if (sessions->entry[i] == entry) {
			remove_at(sessions, i);
			return;
		}
}

void kp_sessions_deinit(struct kp_sessions *sessions)
{
	while (sessions->count)
		remove_at(sessions, sessions->count - 1);
}

/* Those that have ended are in the order of their ends: the last one is not the next to go. */
static void move_to_end(struct kp_sessions *sessions, struct kp_session_entry *entry)
{
	size_t i = 0;

	while (sessions->entry[i] != entry)
		i++;
	memmove(&sessions->entry[i], &sessions->entry[i + 1],
		(sessions->count - i - 1) * sizeof(sessions->entry[0]));
	sessions->entry[sessions->count - 1] = entry;
}

void kp_sessions_end(struct kp_sessions *sessions, struct kp_session_entry *entry)
{
	kp_worker_bury(&entry->worker, &entry->last);
	entry->running = false;
	sessions->running--;
	move_to_end(sessions, entry);
	forget_oldest(sessions);
}

struct kp_session_entry *kp_sessions_find_id(const struct kp_sessions *sessions, uint64_t id)
{
	for (size_t i = 0; i < sessions->count; i++)
		if (sessions->entry[i]->id == id)
			return sessions->entry[i];
	return NULL;
}

struct kp_session_entry *kp_sessions_find_pid(const struct kp_sessions *sessions, pid_t pid)
{
	struct kp_session_entry *found = NULL;

	for (size_t i = 0; i < sessions->count; i++) {
		struct kp_session_entry *entry = sessions->entry[i];
		pid_t of = entry->running ? entry->worker.served->pid : entry->last.pid;

		if (of == pid && (!found || !found->running))
			found = entry;
	}
	return found;
}

void kp_session_entry_read(const struct kp_session_entry *entry, struct kp_served *ret)
{
	enum kp_served_state state;
	uint64_t files;

	if (!entry->running) {
		*ret = entry->last;
		return;
	}
	/* Pairs with the worker's releases: worker.c. */
	state = __atomic_load_n(&entry->worker.served->state, __ATOMIC_ACQUIRE);
	files = __atomic_load_n(&entry->worker.served->file_count, __ATOMIC_ACQUIRE);
	*ret = *entry->worker.served;
	ret->state = state;
	ret->file_count = files;
	if (state != KP_SERVED_FAILED)
		ret->error[0] = 0; /* it may be half written */
	if (state == KP_SERVED_STARTING)
		ret->note[0] = 0;
}
