/*
 * The memory map of a process: /proc/PID/maps, parsed; and the files behind it.
 */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kp_map {
	uint64_t start, end; /* [start, end) */
	uint64_t offset; /* in the file */
	uint64_t dev, inode; /* inode 0: no file */
	bool read, write, exec, shared;
	const char *path; /* "" if there is none; " (deleted)" kept; unescaped */
};

struct kp_maps {
	struct kp_map *map;
	size_t count;
	char *text; /* holds the paths */
};

/*
 * Reads the map through a thread that is alive (a zombie leader has none): tid 0 takes the first
 * one that shows a map. Lines that make no sense are left out. -KP_EGONE when no thread has one.
 */
int kp_maps_init(struct kp_maps *maps, pid_t pid, pid_t tid, struct kp_err *err);
void kp_maps_deinit(struct kp_maps *maps);

/* The map that contains the address, or NULL. */
const struct kp_map *kp_maps_find(const struct kp_maps *maps, uint64_t addr);

/* The first map of that path, or NULL. */
const struct kp_map *kp_maps_find_path(const struct kp_maps *maps, const char *path);

/*
 * Opens the very file that is mapped (read-only): /proc/PID/map_files where the kernel allows it,
 * else the path as the target sees it, or as we do, if it is still the same file. -1 if neither
 * works.
 */
int kp_map_open_file(pid_t pid, const struct kp_map *map);

/*
 * GNU build id of an ELF file by its PT_NOTE segments. Returns its length (at most size), 0 if
 * there is none or the file is not what it should be.
 */
size_t kp_build_id_read(int fd, uint8_t *ret, size_t size);

/* The same from an ELF image in memory (vdso). */
size_t kp_build_id_of_image(const void *image, size_t image_size, uint8_t *ret, size_t size);

/* Whether an ELF file was linked by Go: its runtime handles every signal. */
bool kp_is_go_program(int fd);
