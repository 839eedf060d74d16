/*
 * Private to proto/rawfile*.c and its tests: the records of a raw profile as they lie in the file.
 * docs/raw-format.md has the same as tables. Everything else sees struct kp_raw_... only.
 */
#pragma once

#include "proto/rawfile.h"

#include <stddef.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "records are copied as they are: a big-endian build needs byte swapping here");

/* Where a string lies: off from the start of its record, behind the fixed part. */
struct disk_string {
	uint32_t off;
	uint32_t len;
};

struct disk_session {
	struct kp_raw_head head;
	uint64_t start_unix_ns;
	uint32_t elf_machine;
	uint32_t rate_mhz;
	uint32_t depth;
	uint32_t mode;
	struct disk_string command;
	struct disk_string host;
	struct disk_string creator;
};
_Static_assert(sizeof(struct disk_session) == 56, "on disk");

struct disk_process {
	struct kp_raw_head head;
	uint32_t pid;
	uint32_t parent;
	struct disk_string comm;
	struct disk_string exe;
};
_Static_assert(sizeof(struct disk_process) == 32, "on disk");

struct disk_thread {
	struct kp_raw_head head;
	uint32_t pid;
	uint32_t tid;
	struct disk_string comm;
};
_Static_assert(sizeof(struct disk_thread) == 24, "on disk");

struct disk_module {
	struct kp_raw_head head;
	uint32_t pid;
	uint32_t zero;
	uint64_t start;
	uint64_t end;
	uint64_t file_offset;
	struct disk_string path;
	struct disk_string build_id;
};
_Static_assert(sizeof(struct disk_module) == 56, "on disk");

struct disk_image {
	struct kp_raw_head head;
	struct disk_string path;
	struct disk_string bytes;
};
_Static_assert(sizeof(struct disk_image) == 24, "on disk");

struct disk_clock {
	struct kp_raw_head head;
	uint32_t source;
	uint32_t signal;
	uint64_t period_ns;
	uint32_t kernel;
	uint32_t zero;
	struct disk_string name;
};
_Static_assert(sizeof(struct disk_clock) == 40, "on disk");

struct disk_time {
	struct kp_raw_head head;
	uint64_t elapsed_ns;
};
_Static_assert(sizeof(struct disk_time) == 16, "on disk");

struct disk_sample {
	struct kp_raw_head head;
	uint32_t pid;
	uint32_t tid;
	uint64_t weight_ns;
	uint16_t depth;
	uint8_t source;
	uint8_t walk_end;
	uint32_t overrun;
	/* PCs: packed; in version 1 plain, 8 bytes each */
};
_Static_assert(sizeof(struct disk_sample) == 32, "on disk");

#define DISK_PCS_MAX (KP_DEPTH_MAX * 10u) /* bytes of packed PCs: ten for each frame at most */

/* PCs to at most DISK_PCS_MAX bytes; returns their number. depth: 0..KP_DEPTH_MAX. */
uint32_t kp_raw_pack_pcs(const uint64_t *pc, uint32_t depth, uint8_t *to);

/* Bytes that were used of size for depth PCs; -1: they make no sense. */
int kp_raw_unpack_pcs(const uint8_t *bytes, uint32_t size, uint32_t depth, uint64_t *ret);

struct disk_sums {
	uint64_t taken;
	uint64_t kept;
	uint64_t dropped_full;
	uint64_t dropped_cap;
	uint64_t abandoned;
	uint64_t bad;
};

struct disk_lost {
	struct kp_raw_head head;
	struct disk_sums sums;
};
_Static_assert(sizeof(struct disk_lost) == 56, "on disk");

struct disk_tally {
	struct kp_raw_head head;
	uint32_t pid;
	uint32_t tid;
	uint64_t cpu_ns;
	uint64_t blind_ns;
	uint64_t delay_ns;
	uint32_t flags;
	uint32_t zero;
};
_Static_assert(sizeof(struct disk_tally) == 48, "on disk");

struct disk_symbol {
	struct kp_raw_head head;
	uint32_t pid;
	uint32_t zero;
	uint64_t start;
	uint64_t end;
	struct disk_string name;
};
_Static_assert(sizeof(struct disk_symbol) == 40, "on disk");

struct disk_end {
	struct kp_raw_head head;
	uint64_t window_ns;
	uint64_t cpu_ns;
	uint64_t stop_attach_ns;
	uint64_t stop_detach_ns;
	uint64_t own_cpu_ns;
	uint32_t why;
	uint32_t threads_seen;
	uint32_t threads_unsampled;
	uint32_t exit_status;
	uint64_t overruns;
	struct disk_sums sums;
	/* version 1 ends here */
	uint32_t refused;
	uint32_t privileged;
	uint32_t missed;
	uint32_t clamped;
	uint64_t missed_cpu_ns;
	uint64_t stops;
	uint64_t stops_ns;
	uint32_t modules;
	uint32_t modules_with_table;
};
#define DISK_END_BYTES_1 120u
_Static_assert(offsetof(struct disk_end, refused) == DISK_END_BYTES_1, "on disk");
_Static_assert(sizeof(struct disk_end) == 168, "on disk");

/* "SAMPLE" for KP_RAW_SAMPLE; NULL for a type that this build does not know. */
const char *kp_raw_type_name(uint32_t type);

/*
 * What is wrong with the values of a record (its strings aside), as the end of a sentence, or NULL.
 * The writer writes nothing and the reader takes nothing that this finds fault with.
 */
const char *kp_raw_fault(const struct kp_raw_record *record);
