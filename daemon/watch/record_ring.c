/*
 * Records about tasks in a buffer of a perf event: record_ring.h. Daemon, session loop.
 *
 * Layouts are those of perf_event_open(2) for events with sample_id_all and PERF_SAMPLE_TIME alone:
 * the last 8 bytes of each record are its time. The kernel writes a PERF_RECORD_READ of one CPU's
 * event from whatever CPU the thread ends on, without a lock; so a record may be damaged, however
 * seldom, and what does not look like one ends the reading of all that is there.
 */
#include "daemon/watch/record_ring.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u

int kp_record_ring_map(int fd, size_t data_bytes, struct kp_record_ring *ret, struct kp_err *err)
{
	void *page = mmap(NULL, PAGE + data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return kp_fail_errno(err, "buffer of a perf event (kernel.perf_event_mlock_kb)");
	*ret = (struct kp_record_ring){ .page = page, .data_bytes = data_bytes };
	return 0;
}

void kp_record_ring_unmap(struct kp_record_ring *ring)
{
	if (ring->page)
		munmap(ring->page, PAGE + ring->data_bytes);
	*ring = (struct kp_record_ring){ 0 };
}

bool kp_record_ring_look(struct kp_record_ring *ring)
{
	const struct perf_event_mmap_page *page = ring->page;

	/* Acquire: the kernel's records are written before it moves data_head. */
	ring->head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	return ring->head != ring->tail;
}

/* Bytes at a position of the buffer, which wraps. */
static void copy_out(const struct kp_record_ring *ring, uint64_t at, void *to, size_t size)
{
	const uint8_t *data = (const uint8_t *)ring->page + PAGE;
	size_t offset = at & (ring->data_bytes - 1), first = ring->data_bytes - offset;

	if (first > size)
		first = size;
	memcpy(to, data + offset, first);
	memcpy((uint8_t *)to + first, data, size - first);
}

struct task_record { /* FORK, EXIT */
	struct perf_event_header header;
	uint32_t pid, parent_pid;
	uint32_t tid, parent_tid;
};

struct comm_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	char comm[sizeof(((struct kp_task_event *)0)->comm)];
};

struct sample_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t time_ns;
};

struct read_record { /* of an event with TOTAL_TIME_ENABLED and TOTAL_TIME_RUNNING */
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t value, enabled_ns, running_ns;
};

/* The greatest of them; what is read of a record. */
union record {
	struct perf_event_header header;
	struct task_record task;
	struct comm_record comm;
	struct read_record read;
	struct sample_record sample;
};

static void decode_task(const union record *record, enum kp_task_event_type type,
			struct kp_task_event *ret)
{
	ret->type = type;
	ret->pid = (pid_t)record->task.pid;
	ret->tid = (pid_t)record->task.tid;
	ret->parent_pid = (pid_t)record->task.parent_pid;
	ret->parent_tid = (pid_t)record->task.parent_tid;
}

static void decode_id(const union record *record, enum kp_task_event_type type,
		      struct kp_task_event *ret)
{
	ret->type = type;
	ret->pid = (pid_t)record->comm.pid;
	ret->tid = (pid_t)record->comm.tid;
}

/* Its time is behind the ids, not at the end. */
static void decode_sample(const union record *record, struct kp_task_event *ret)
{
	decode_id(record, KP_TASK_SAMPLE, ret);
	ret->time_ns = record->sample.time_ns;
}

/* False: it is of no kind that says something of tasks. */
static bool decode(const union record *record, uint64_t time_ns, struct kp_task_event *ret)
{
	*ret = (struct kp_task_event){ .time_ns = time_ns };
	switch (record->header.type) {
	case PERF_RECORD_FORK:
		decode_task(record, KP_TASK_FORK, ret);
		return true;
	case PERF_RECORD_EXIT:
		decode_task(record, KP_TASK_EXIT, ret);
		return true;
	case PERF_RECORD_COMM:
		decode_id(record,
			  record->header.misc & PERF_RECORD_MISC_COMM_EXEC ? KP_TASK_EXEC
									   : KP_TASK_NAME,
			  ret);
		memcpy(ret->comm, record->comm.comm, sizeof(ret->comm));
		ret->comm[sizeof(ret->comm) - 1] = 0;
		return true;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		decode_id(record, KP_TASK_MMAP, ret);
		return true;
	case PERF_RECORD_READ:
		decode_id(record, KP_TASK_RAN, ret);
		ret->ran_ns = record->read.enabled_ns;
		ret->since_birth = true;
		return true;
	case PERF_RECORD_SAMPLE:
		decode_sample(record, ret);
		return true;
	case PERF_RECORD_LOST:
		ret->type = KP_TASK_LOST;
		return true;
	default:
		return false;
	}
}

/* All that is there is given up: where the next record begins is not known. */
static bool give_up(struct kp_record_ring *ring, struct kp_task_event *ret)
{
	ring->tail = ring->head;
	ring->front_bytes = 0;
	*ret = (struct kp_task_event){ .type = KP_TASK_LOST };
	return true;
}

bool kp_record_ring_front(struct kp_record_ring *ring, struct kp_task_event *ret)
{
	while (ring->tail != ring->head) {
		uint64_t left = ring->head - ring->tail, time_ns;
		union record record = { .header = { 0 } };
		struct perf_event_header header;

		if (left > ring->data_bytes || left < sizeof(header))
			return give_up(ring, ret);
		copy_out(ring, ring->tail, &header, sizeof(header));
		if (header.size < sizeof(header) + sizeof(time_ns) || header.size > left)
			return give_up(ring, ret);
		copy_out(ring, ring->tail, &record,
			 header.size < sizeof(record) ? header.size : sizeof(record));
		copy_out(ring, ring->tail + header.size - sizeof(time_ns), &time_ns,
			 sizeof(time_ns));
		ring->front_bytes = header.size;
		if (decode(&record, time_ns, ret))
			return true;
		kp_record_ring_take(ring);
	}
	return false;
}

size_t kp_record_ring_copy(const struct kp_record_ring *ring, void *ret, size_t room)
{
	copy_out(ring, ring->tail, ret, ring->front_bytes < room ? ring->front_bytes : room);
	return ring->front_bytes;
}

void kp_record_ring_take(struct kp_record_ring *ring)
{
	ring->tail += ring->front_bytes;
	ring->front_bytes = 0;
}

void kp_record_ring_release(struct kp_record_ring *ring)
{
	struct perf_event_mmap_page *page = ring->page;

	/* Release: what was read may be overwritten from here on. */
	__atomic_store_n(&page->data_tail, ring->tail, __ATOMIC_RELEASE);
}
