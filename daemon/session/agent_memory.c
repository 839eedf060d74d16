/* One mapping of the agent, and who has it: agent_memory.h. Daemon, session loop. */
#include "daemon/session/agent_memory.h"

#include "daemon/attach/cpu.h"
#include "daemon/session/attachment.h"

#include <stdlib.h>
#include <sys/mman.h>

/* The process that a record is from: the one whose clock has that origin. */
static struct kp_attachment *find_owner(const struct kp_agent_memory *memory,
					const struct kp_ring_record *record, pid_t *ret_tid)
{
	for (size_t i = 0; i < memory->user_count; i++) {
		*ret_tid = kp_attachment_owner(memory->user[i], record);
		if (*ret_tid)
			return memory->user[i];
	}
	/* A signal whose siginfo was lost, or a thread that nobody heard of. */
	return memory->user[0];
}

static int complete(void *ctx, const struct kp_ring_record *record, struct kp_raw_sample *sample,
		    struct kp_err *err)
{
	pid_t tid = 0;
	struct kp_attachment *owner = find_owner(ctx, record, &tid);

	return kp_attachment_complete(owner, record, tid, sample, err);
}

static kp_find_rule_fn rules(void *ctx, const struct kp_ring_record *record, void **ret_ctx)
{
	pid_t tid;
	struct kp_attachment *owner = find_owner(ctx, record, &tid);

	*ret_ctx = owner;
	return owner->plan->store ? kp_agent_tables_find_rule : NULL;
}

/* Pages of the ring are touched here, so that no handler has to take the faults. */
static void touch_ring(struct kp_shm_map *map)
{
	for (uint64_t at = KP_SHM_RING_OFFSET; at < map->tables_off; at += 4096)
		__atomic_fetch_or((uint64_t *)(void *)(map->data + at), 0, __ATOMIC_RELAXED);
}

/*
 * The helpers are forks of this process that have all of their memory locked, and so made present:
 * of each target the head is what they need, not its ring, nor the area for tables, which is large
 * and mostly empty.
 */
static void keep_to_ourselves(struct kp_shm_map *map)
{
	madvise(map->data + KP_SHM_RING_OFFSET, map->view_bytes - KP_SHM_RING_OFFSET,
		MADV_DONTFORK);
}

int kp_agent_memory_create(struct kp_shm_map *map, int signal, struct kp_attachment_plan *plan,
			   struct kp_agent_memory **ret, struct kp_err *err)
{
	struct kp_agent_memory *memory = calloc(1, sizeof(*memory));
	struct kp_drain_options drain = {
		.ring = map->ring,
		.cell_count = map->shape.cell_count,
		.words = map->shape.words,
		.writer = plan->writer,
		.left = &plan->left,
		.complete = complete,
		.ctx = memory,
		.arch = kp_cpu_arch(),
		.depth = plan->depth,
		.rules = rules,
	};
	int r = memory ? kp_drain_init(&memory->drain, &drain, err) : kp_fail_nomem(err);

	if (r < 0) {
		free(memory);
		kp_shm_map_deinit(map);
		return r;
	}
	memory->map = *map;
	*map = (struct kp_shm_map){ .fd = -1 };
	memory->signal = signal;
	keep_to_ourselves(&memory->map);
	touch_ring(&memory->map);
	*ret = memory;
	return 0;
}

void kp_agent_memory_destroy(struct kp_agent_memory *memory)
{
	if (!memory)
		return;
	kp_drain_deinit(&memory->drain);
	kp_agent_tables_deinit(&memory->tables);
	kp_shm_map_deinit(&memory->map);
	free(memory->user);
	free(memory);
}

int kp_agent_memory_add(struct kp_agent_memory *memory, struct kp_attachment *user,
			struct kp_err *err)
{
	if (memory->user_count == memory->user_room) {
		size_t room = memory->user_room ? memory->user_room * 2 : 4;
		struct kp_attachment **grown = reallocarray(memory->user, room, sizeof(*grown));

		if (!grown)
			return kp_fail_nomem(err);
		memory->user = grown;
		memory->user_room = room;
	}
	memory->user[memory->user_count++] = user;
	memory->tables.users_changed = true;
	return 0;
}

void kp_agent_memory_remove(struct kp_agent_memory *memory, struct kp_attachment *user)
{
	size_t kept = 0;

	for (size_t i = 0; i < memory->user_count; i++)
		if (memory->user[i] != user)
			memory->user[kept++] = memory->user[i];
	memory->user_count = kept;
	memory->tables.users_changed = true;
}
