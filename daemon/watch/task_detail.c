/* What a record says at length: task_detail.h. Daemon, session loop. */
#include "daemon/watch/task_detail.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/sysmacros.h>

struct mmap2_record { /* perf_event_open(2); a name follows, and 8 bytes of time at the end */
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t start, bytes, offset;
	uint32_t major, minor;
	uint64_t inode, generation;
	uint32_t protection, flags;
};
#define TIME_BYTES 8u

/* The name has a NUL in any case: it is padded with some. */
static const struct kp_map *decode_map(struct kp_task_detail *detail, size_t size)
{
	struct mmap2_record record;
	size_t name = sizeof(record);

	if (size > sizeof(detail->bytes) || size < name + TIME_BYTES + 1)
		return NULL;
	memcpy(&record, detail->bytes, sizeof(record));
	if (record.header.type != PERF_RECORD_MMAP2 ||
	    record.header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID ||
	    !memchr(detail->bytes + name, 0, size - TIME_BYTES - name))
		return NULL;
	detail->map = (struct kp_map){ .start = record.start,
				       .end = record.start + record.bytes,
				       .offset = record.offset,
				       .dev = makedev(record.major, record.minor),
				       .inode = record.inode,
				       .exec = true,
				       .path = (const char *)detail->bytes + name };
	return detail->map.start < detail->map.end ? &detail->map : NULL;
}

void kp_task_detail_take(struct kp_task_detail *detail, const struct kp_record_ring *ring,
			 struct kp_task_event *event)
{
	size_t size;

	if (event->type != KP_TASK_MMAP && event->type != KP_TASK_SAMPLE)
		return;
	size = kp_record_ring_copy(ring, detail->bytes, sizeof(detail->bytes));
	if (event->type == KP_TASK_MMAP)
		event->map = decode_map(detail, size);
	else if (size <= sizeof(detail->bytes) &&
		 kp_task_sample_decode(detail->bytes, size, &detail->sample))
		event->sample = &detail->sample.record;
}
