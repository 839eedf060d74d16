/* The daemon's view of the shared mapping: shm_map.h. */
#include "daemon/attach/shm_map.h"

#include <sys/mman.h>
#include <unistd.h>

uint64_t kp_shm_bytes(const struct kp_shm_shape *shape)
{
	return kp_shm_tables_off(shape->cell_count, shape->words) + shape->tables_bytes;
}

uint64_t kp_shm_file_bytes(const struct kp_shm_shape *shape)
{
	return kp_shm_tables_off(shape->cell_count, shape->words) +
	       (shape->tables_shared ? KP_TABLES_DIRECTORY_BYTES : shape->tables_bytes);
}

int kp_shm_map_init(struct kp_shm_map *map, int fd, uint64_t base, const struct kp_shm_shape *shape,
		    struct kp_err *err)
{
	uint64_t bytes = kp_shm_file_bytes(shape);
	void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (data == MAP_FAILED) {
		int r = kp_fail_errno(err, "mapping %llu bytes of shared memory",
				      (unsigned long long)bytes);

		close(fd);
		*map = (struct kp_shm_map){ .fd = -1 };
		return r;
	}
	*map = (struct kp_shm_map){ .fd = fd,
				    .data = data,
				    .bytes = kp_shm_bytes(shape),
				    .view_bytes = bytes,
				    .base = base,
				    .shape = *shape };
	map->head = (struct kp_shm_head *)(map->data + KP_SHM_HEAD_OFFSET);
	map->ring = (struct kp_ring *)(map->data + KP_SHM_RING_OFFSET);
	map->tables_off = kp_shm_tables_off(shape->cell_count, shape->words);
	if (shape->tables_bytes) {
		map->tables = map->data + map->tables_off;
		map->directory = (struct kp_tables_directory *)(void *)map->tables;
	}
	return 0;
}

void kp_shm_map_deinit(struct kp_shm_map *map)
{
	if (map->data)
		munmap(map->data, map->view_bytes);
	if (map->fd >= 0)
		close(map->fd);
	*map = (struct kp_shm_map){ .fd = -1 };
}
