/* Unit tests of the memory map parser, on this process's own map with strange files in it. */
#include "common/cleanup.h"
#include "daemon/linux/maps.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

/* Maps a new file of that name; its address. */
static void *map_file(const char *name, int prot)
{
	char path[128];
	void *data;
	int fd;

	strcpy(dir, "/tmp/kitprof-test-XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, 8192), 0);
	data = mmap(NULL, 4096, prot, MAP_PRIVATE, fd, 4096);
	cr_assert_neq(data, MAP_FAILED);
	close(fd);
	return data;
}

static void remove_file(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
	rmdir(dir);
}

static const struct kp_map *find(struct kp_maps *maps, const void *address)
{
	cr_assert_eq(kp_maps_init(maps, getpid(), 0, NULL), 0);
	return kp_maps_find(maps, (uint64_t)(uintptr_t)address);
}

Test(maps, mapping_of_a_file_is_told_whole)
{
	void *data = map_file("with space", PROT_READ);
	_cleanup_(kp_maps_deinit) struct kp_maps maps;
	const struct kp_map *map = find(&maps, (char *)data + 4095);
	struct stat st;
	char path[128];

	cr_assert_not_null(map);
	cr_assert_eq(map->start, (uint64_t)(uintptr_t)data);
	cr_assert_eq(map->end, map->start + 4096);
	cr_assert_eq(map->offset, 4096);
	cr_assert(map->read);
	cr_assert_not(map->write || map->exec || map->shared);
	snprintf(path, sizeof(path), "%s/with space", dir);
	cr_assert_str_eq(map->path, path);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(map->inode, st.st_ino);
	remove_file("with space");
}

Test(maps, newline_in_a_name_does_not_break_the_line)
{
	static const char name[] = "a\n7f0000000000-7f0000001000 r-xp 0 00:00 1 forged";
	void *data = map_file(name, PROT_READ);
	_cleanup_(kp_maps_deinit) struct kp_maps maps;
	const struct kp_map *map = find(&maps, data);

	cr_assert_not_null(map);
	cr_assert_not_null(strstr(map->path, name));
	cr_assert_null(kp_maps_find(&maps, UINT64_C(0x7f0000000800)));
	remove_file(name);
}

Test(maps, mapped_file_is_opened_even_when_it_is_deleted)
{
	void *data = map_file("gone", PROT_READ);
	_cleanup_(kp_maps_deinit) struct kp_maps maps;
	_cleanup_(kp_closep) int fd = -1;
	const struct kp_map *map;
	struct stat st;

	remove_file("gone");
	map = find(&maps, data);
	cr_assert_not_null(map);
	cr_assert_not_null(strstr(map->path, "gone (deleted)"));
	fd = kp_map_open_file(getpid(), map);
	/* Without the right to look into map_files there is no way. */
	cr_assert(fd >= 0 || geteuid() != 0);
	cr_assert(fd < 0 || (fstat(fd, &st) == 0 && st.st_ino == map->inode));
}

Test(maps, another_file_of_the_same_name_is_not_taken)
{
	void *data = map_file("upgraded", PROT_READ);
	_cleanup_(kp_maps_deinit) struct kp_maps maps;
	const struct kp_map *map = find(&maps, data);
	_cleanup_(kp_closep) int fd = -1, other = -1;
	struct stat st;
	char path[128];

	snprintf(path, sizeof(path), "%s/upgraded", dir);
	rename(path, "/tmp/kitprof-test-old");
	other = open(path, O_RDWR | O_CREAT, 0600);
	fd = kp_map_open_file(getpid(), map);
	cr_assert(fd < 0 || (fstat(fd, &st) == 0 && st.st_ino == map->inode));
	unlink("/tmp/kitprof-test-old");
	remove_file("upgraded");
}

Test(maps, addresses_between_mappings_are_in_none)
{
	char *data = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	_cleanup_(kp_maps_deinit) struct kp_maps maps;

	munmap(data + 4096, 4096);
	cr_assert_null(find(&maps, data + 4096));
	cr_assert_not_null(kp_maps_find(&maps, (uint64_t)(uintptr_t)(data + 8192)));
	cr_assert_not_null(kp_maps_find_path(&maps, "[vdso]"));
	cr_assert_null(kp_maps_find_path(&maps, "[vds"));
}

Test(maps, process_that_is_gone_is_an_error)
{
	struct kp_maps maps;
	struct kp_err err;

	cr_assert_eq(kp_maps_init(&maps, INT32_MAX, 0, &err), -KP_EGONE);
	cr_assert_eq(maps.count, 0);
	cr_assert_eq(kp_maps_init(&maps, getpid(), INT32_MAX, &err), -KP_EGONE);
}
