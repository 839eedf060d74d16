/*
 * The state of the target while its raw profile is read from front to back: which processes and
 * threads there are and what is mapped where, at the record just read. Reading the same records
 * again after kp_replay_rewind() gives the same states and the same module numbers.
 *
 * Strings point into the raw profile and live as long as it does.
 */
#pragma once

#include "daemon/profile/address_space.h"
#include "daemon/profile/index.h"
#include "proto/rawfile.h"

#include <stdbool.h>

struct kp_replay_module {
	uint64_t start, end, file_offset;
	struct kp_raw_string path, build_id;
	uint32_t pid; /* memory without a file: whose; else 0 */
};

struct kp_replay_process {
	uint32_t pid;
	struct kp_raw_string comm, exe;
	struct kp_address_space space;
};

struct kp_replay_thread {
	uint32_t pid, tid;
	struct kp_raw_string comm;
};

/* All zero is the state before the first record. */
struct kp_replay {
	struct kp_replay_module *modules; /* [0] reserved: "in no module" */
	uint32_t module_count, module_capacity;
	struct kp_index module_index;
	struct kp_raw_image *images;
	uint32_t image_count, image_capacity;
	struct kp_replay_process *processes;
	uint32_t process_count, process_capacity;
	struct kp_index process_index;
	struct kp_replay_thread *threads;
	uint32_t thread_count, thread_capacity;
	struct kp_index thread_index;
};

void kp_replay_deinit(struct kp_replay *r);

/* Back to the first record. Modules and images stay known. */
void kp_replay_rewind(struct kp_replay *r);

/* Takes PROCESS, THREAD, MODULE and IMAGE in; other records change nothing. 0 or -KP_ENOMEM. */
int kp_replay_apply(struct kp_replay *r, const struct kp_raw_record *record, struct kp_err *err);

/* NULL if the file has said nothing of it. Valid until the next kp_replay_apply(). */
const struct kp_replay_process *kp_replay_process(const struct kp_replay *r, uint32_t pid);
const struct kp_replay_thread *kp_replay_thread(const struct kp_replay *r, uint32_t pid,
						uint32_t tid);

/* The module at an address of a process now; 0: none. */
uint32_t kp_replay_module_at(const struct kp_replay *r, uint32_t pid, uint64_t address);

/* The ELF image that the file brings for a module, or NULL. */
const struct kp_raw_image *kp_replay_image(const struct kp_replay *r,
					   const struct kp_replay_module *module);

/* Memory without a file, as JIT compilers make it: "//anon". */
bool kp_replay_is_anon(const struct kp_replay_module *module);

bool kp_raw_string_same(struct kp_raw_string a, struct kp_raw_string b);
