/*
 * The process that takes module files apart: a fork of the daemon that builds the tables of a batch
 * of modules, so that neither a damaged file nor one that is cut while it is mapped (SIGBUS) can
 * hurt the daemon, and the session loop never waits. One for each batch; it has nothing of the
 * daemon's but the files of its batch and the cache, ends with the daemon, and is killed when a
 * module takes it too long.
 */
#pragma once

#include "common/err.h"
#include "daemon/cache/cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As kp_unwind_build() (build.h) without figures: what the worker calls for each module. */
typedef int (*kp_build_fn)(const void *image, size_t size, const char *name, void **ret,
			   size_t *ret_bytes, struct kp_err *err);

#define KP_BUILD_JOBS_MAX 32u

/* A module whose table is wanted. */
struct kp_build_job {
	int fd; /* of its file, or -1 */
	const void *image; /* if there is no file */
	size_t image_bytes;
	const char *name; /* for messages */
	struct kp_cache_key key; /* under which the table is saved; length 0: it is not */
};

/* What came of the next job; written to a pipe in one piece. */
struct kp_build_result {
	int32_t outcome; /* as of the builder: 0, KP_UNWIND_NONE, or < 0 */
	uint32_t pad;
	uint64_t bytes; /* of the table */
	uint64_t offset; /* of it in the memory that both share */
	struct kp_err err; /* < 0 */
};
_Static_assert(sizeof(struct kp_build_result) <= 4096, "PIPE_BUF of Linux");

struct kp_build_worker {
	pid_t pid; /* 0: none */
	int pipe; /* results; -1: none will come */
	int memory; /* memfd: tables */
	uint64_t since_ns; /* CLOCK_MONOTONIC: when the job that it is at began */
	bool killed;
};

void kp_build_worker_init(struct kp_build_worker *worker);

/*
 * Starts one on count jobs, 1..KP_BUILD_JOBS_MAX, in that order. cache may be NULL. The jobs are
 * only needed until this returns. None may run.
 */
int kp_build_worker_start(struct kp_build_worker *worker, const struct kp_build_job *jobs,
			  size_t count, kp_build_fn build, struct kp_cache *cache,
			  struct kp_err *err);

/* Polled for POLLIN: kp_build_worker_read() has something. -1: nothing will come. */
int kp_build_worker_fd(const struct kp_build_worker *worker);

enum kp_build_read {
	KP_BUILD_RESULT = 0, /* *ret is that of the next job; still to be doubted */
	KP_BUILD_BUSY = 1, /* nothing yet */
	KP_BUILD_ENDED = 2, /* no more will come, also of jobs that have no result yet */
};
enum kp_build_read kp_build_worker_read(struct kp_build_worker *worker,
					struct kp_build_result *ret);

/* Copies a table out of the shared memory. 0, or -1 if it is not all there. */
int kp_build_worker_copy(const struct kp_build_worker *worker, const struct kp_build_result *result,
			 void *ret);

void kp_build_worker_kill(struct kp_build_worker *worker);

/*
 * After KP_BUILD_ENDED, or kp_build_worker_kill(): true when it is gone, with how it ended (as of
 * wait()) and the CPU time it took; then another one may be started. Does not wait.
 */
bool kp_build_worker_reap(struct kp_build_worker *worker, int *ret_status, uint64_t *ret_cpu_ns);
