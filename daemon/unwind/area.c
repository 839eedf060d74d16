/* One copy of each unwind table for all targets: area.h. Daemon, session loop. */
#include "daemon/unwind/area.h"

#include "daemon/linux/descriptor.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM_MIN (UINT64_C(16) << 20)

/* Where address space is limited (ulimit -v), a smaller one serves most sessions as well. */
static const uint8_t *map(int fd, uint64_t *room)
{
	for (; *room >= ROOM_MIN; *room /= 2) {
		void *view = mmap(NULL, *room, PROT_READ, MAP_SHARED, fd, 0);

		if (view != MAP_FAILED)
			return view;
	}
	return NULL;
}

int kp_table_area_init(struct kp_table_area *area, const char *name, uint64_t empty, uint64_t room,
		       struct kp_err *err)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	*area = (struct kp_table_area){ .fd = fd, .used = empty, .room = room };
	if (fd < 0)
		return kp_fail_errno(err, "memory for unwind tables: memfd_create");
	/* Nobody else opens it for writing by mistake. */
	if (fchmod(fd, S_IRUSR) != 0 || !(area->view = map(fd, &area->room))) {
		int r = kp_fail_errno(err, "memory for unwind tables");

		kp_table_area_deinit(area);
		return r;
	}
	madvise((void *)(uintptr_t)area->view, area->room, MADV_DONTFORK);
	return 0;
}

void kp_table_area_deinit(struct kp_table_area *area)
{
	if (area->view)
		munmap((void *)(uintptr_t)area->view, area->room);
	if (area->fd >= 0)
		close(area->fd);
	*area = (struct kp_table_area){ .fd = -1 };
}

int kp_table_area_add(struct kp_table_area *area, const void *table, uint64_t bytes,
		      uint64_t *ret_off)
{
	if (bytes > area->room - area->used || area->room - area->used - bytes < 8)
		return -1;
	if (kp_write_at(area->fd, table, bytes, area->used) < 0) {
		if (ftruncate(area->fd, (off_t)area->used) != 0)
			area->used = area->room; /* what is there cannot be told from what is not */
		return -1;
	}
	*ret_off = area->used;
	area->used += (bytes + 7) & ~UINT64_C(7);
	return 0;
}
