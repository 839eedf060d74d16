/*
 * The agent's memory in a stopped process: reserved, made a mapping of a memfd, filled in. Runs in
 * the attach helper, between kp_stop_begin() and kp_stop_end().
 *
 * Nothing of the target's own is written: what calls need pointers to, the memfd's name and a path,
 * lies in the reserved memory. Code is never writable and executable at once, and the tables are never
 * writable in the target: their content comes through the daemon's own view of the memfd.
 *
 * The area for tables is large, and costs nothing until it is filled:
 *  - The reservation is read-only, which no limit of memory that may be written (RLIMIT_DATA, mode 2
 *    of vm.overcommit_memory) counts; shared mappings of a memfd are not counted there either. The
 *    address space is (RLIMIT_AS).
 *  - Mappings of a program that locks all its memory (mlockall() with MCL_FUTURE) are filled with
 *    pages as they are made. So the memfd ends before the area until all is mapped: there are no
 *    pages behind the end of a file.
 *  - A memfd is anonymous memory to a core dump (core(5), bit 1 of coredump_filter), which would make
 *    each page to write it. So the mapping is left out of dumps.
 */
#include "daemon/attach/blob.h"
#include "daemon/attach/inject_steps.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MEMFD_EXEC 0x10u /* MFD_EXEC of linux/memfd.h, kernel 6.3 */
#define RESTORER 0x04000000u /* SA_RESTORER of asm/signal.h */

_Static_assert(sizeof(KP_SHM_NAME) == sizeof(uint64_t), "the name is written as one word");

int kp_inject_call(struct kp_stop *stop, const char *what, long nr, const uint64_t args[6],
		   int64_t *ret, struct kp_err *err)
{
	int r = kp_stop_syscall(stop, nr, args, ret, err);

	if (r < 0)
		return r;
	if (*ret >= -4095 && *ret < 0)
		return kp_fail(err, KP_ESYSTEM, "pid %d: %s in the target failed: %s",
			       (int)stop->pid, what, strerror((int)-*ret));
	return 0;
}

void kp_inject_unmap(struct kp_stop *stop, uint64_t base, uint64_t bytes)
{
	uint64_t args[6] = { base, bytes };
	int64_t ignored;

	kp_stop_syscall(stop, SYS_munmap, args, &ignored, NULL);
}

void kp_inject_close(struct kp_stop *stop, int fd)
{
	uint64_t args[6] = { (uint64_t)fd };
	int64_t ignored;

	kp_stop_syscall(stop, SYS_close, args, &ignored, NULL);
}

/* Address space for all of it, in one piece: taking the agent out is one munmap. */
static int reserve(struct kp_stop *stop, uint64_t bytes, uint64_t *ret, struct kp_err *err)
{
	uint64_t args[6] = { 0, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0 };
	int64_t result;
	int r = kp_inject_call(stop, "mmap", SYS_mmap, args, &result, err);

	*ret = (uint64_t)result;
	return r;
}

int kp_inject_write_word(struct kp_stop *stop, uint64_t addr, const char text[8],
			 struct kp_err *err)
{
	uint64_t word;

	memcpy(&word, text, sizeof(word));
	if (ptrace(PTRACE_POKEDATA, stop->tid, addr, word) == 0)
		return 0;
	return errno == ESRCH ? kp_fail(err, KP_EGONE, "pid %d: thread %d is gone", (int)stop->pid,
					(int)stop->tid)
			      : kp_fail_errno(err, "pid %d: writing to our memory in the target",
					      (int)stop->pid);
}

static int remote_memfd(struct kp_stop *stop, uint64_t base, int *ret, struct kp_err *err)
{
	uint64_t args[6] = { base, MFD_CLOEXEC | MEMFD_EXEC };
	int64_t fd;
	int r = kp_inject_write_word(stop, base, KP_SHM_NAME, err);

	if (r == 0)
		r = kp_stop_syscall(stop, SYS_memfd_create, args, &fd, err);
	if (r == 0 && fd == -EINVAL) {
		args[1] = MFD_CLOEXEC; /* a kernel before 6.3 */
		r = kp_stop_syscall(stop, SYS_memfd_create, args, &fd, err);
	}
	if (r < 0)
		return r;
	if (fd < 0)
		return kp_fail(err, KP_ESYSTEM, "pid %d: memfd_create in the target failed: %s",
			       (int)stop->pid, strerror((int)-fd));
	*ret = (int)fd;
	return 0;
}

static int open_targets_fd(struct kp_stop *stop, int target_fd, int *ret, struct kp_err *err)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", (int)stop->pid, (int)stop->tid,
		 target_fd);
	*ret = open(path, O_RDWR | O_CLOEXEC);
	return *ret >= 0 ? 0 : kp_fail_errno(err, "%s", path);
}

/* Fills the shared memory in: code, head, empty ring. */
static void fill(struct kp_shm_map *map, const struct kp_inject_job *job)
{
	const struct kp_agent_plan *plan = &job->plan;
	struct kp_agent_header header;
	struct kp_shm_head *head = map->head;

	memcpy(map->data, kp_agent_blob, kp_agent_blob_size);
	memcpy(&header, kp_agent_blob, sizeof(header));
	*head = (struct kp_shm_head){
		.magic = KP_SHM_MAGIC,
		.version = KP_SHM_VERSION,
		.signal = (uint32_t)plan->signal,
		.depth = plan->depth,
		.period_ns = plan->period_ns,
		.timer_mode = plan->timer_mode,
		.owner_pid = (uint32_t)job->owner_pid,
		.owner_start = job->owner_start,
		.base = map->base,
		.bytes = map->bytes,
		.unwind = plan->unwind,
		.slice_bytes = plan->slice_bytes,
		.tables_off = map->tables_off,
		.tables_bytes = map->shape.tables_bytes,
		.on = 1,
		.lease = plan->lease,
	};
	head->ours = (struct kp_sigaction){
		.handler = map->base + header.handler_off,
		.flags =
			SA_SIGINFO | SA_RESTART | SA_ONSTACK | (header.restorer_off ? RESTORER : 0),
		.restorer = header.restorer_off ? map->base + header.restorer_off : 0,
		.mask = ~UINT64_C(0),
	};
	kp_ring_format(map->ring, map->shape.cell_count, map->shape.words, plan->ticket_max);
}

static int set_size(struct kp_stop *stop, int fd, uint64_t bytes, struct kp_err *err)
{
	return ftruncate(fd, (off_t)bytes) == 0
		       ? 0
		       : kp_fail_errno(err, "pid %d: %llu bytes of shared memory", (int)stop->pid,
				       (unsigned long long)bytes);
}

int kp_inject_map(struct kp_stop *stop, const struct kp_shm_map *map, int target_fd,
		  const struct kp_inject_part *part, struct kp_err *err)
{
	uint64_t args[6] = { map->base + part->from, part->to - part->from, (uint64_t)part->prot,
			     MAP_SHARED | MAP_FIXED, (uint64_t)target_fd,   part->off };
	int64_t ignored;

	/* MAP_FIXED replaces whatever is there: nothing of it may be the target's own. */
	if (part->from > part->to || part->to > map->bytes)
		return kp_fail(err, KP_ESYSTEM, "pid %d: %s: outside of what is reserved",
			       (int)stop->pid, part->name);
	return part->from == part->to
		       ? 0
		       : kp_inject_call(stop, part->name, SYS_mmap, args, &ignored, err);
}

static int map_parts(struct kp_stop *stop, const struct kp_shm_map *map, int target_fd,
		     struct kp_err *err)
{
	const struct kp_inject_part parts[] = {
		{ "mmap of the ring", KP_SHM_HEAD_OFFSET, map->tables_off, KP_SHM_HEAD_OFFSET,
		  PROT_READ | PROT_WRITE },
		{ "mmap of the tables", map->tables_off, map->view_bytes, map->tables_off,
		  PROT_READ },
		{ "mmap of the agent's code (a security policy may forbid it)", 0,
		  KP_SHM_CODE_BYTES, 0, PROT_READ | PROT_EXEC },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && r == 0; i++)
		r = kp_inject_map(stop, map, target_fd, &parts[i], err);
	return r;
}

/* A small mapping may be in a dump; a large one must not. */
static int leave_out_of_dumps(struct kp_stop *stop, const struct kp_shm_map *map,
			      struct kp_err *err)
{
	uint64_t args[6] = { map->base, map->bytes, MADV_DONTDUMP };
	int64_t ignored;
	int r = kp_inject_call(stop, "madvise", SYS_madvise, args, &ignored, err);

	return r == -KP_ESYSTEM && !map->shape.tables_bytes ? 0 : r;
}

/* tables_fd: in the target, of the tables that it shares with others; -1: it has its own. */
static int map_memfds(struct kp_stop *stop, struct kp_inject_job *job, int target_fd, int tables_fd,
		      int our_fd, struct kp_shm_map *map, struct kp_err *err)
{
	int r = set_size(stop, our_fd, kp_shm_tables_off(job->shape.cell_count, job->shape.words),
			 err);

	if (r == 0)
		r = kp_shm_map_init(map, dup(our_fd), job->base, &job->shape, err);
	if (r < 0)
		return r;
	fill(map, job);
	r = map_parts(stop, map, target_fd, err);
	if (r == 0 && tables_fd >= 0)
		r = kp_inject_map_shared(stop, map, tables_fd, err);
	if (r == 0)
		r = leave_out_of_dumps(stop, map, err);
	return r == 0 ? set_size(stop, our_fd, map->view_bytes, err) : r;
}

/* All of it in the shape of the job; undone on failure. share: tables, if that is possible. */
static int make_memory(struct kp_stop *stop, struct kp_inject_job *job, bool share,
		       struct kp_shm_map *map, int *ret_fd, struct kp_err *err)
{
	uint64_t bytes = kp_shm_bytes(&job->shape);
	_cleanup_(kp_closep) int our_fd = -1;
	int target_fd = -1, tables_fd = -1, r = reserve(stop, bytes, &job->base, err);

	if (r < 0)
		return r;
	if (share && job->shape.tables_bytes)
		r = kp_inject_open_shared(stop, job, &tables_fd);
	job->shape.tables_shared = tables_fd >= 0;
	if (r == 0)
		r = remote_memfd(stop, job->base, &target_fd, err);
	if (r == 0)
		r = open_targets_fd(stop, target_fd, &our_fd, err);
	if (r == 0)
		r = map_memfds(stop, job, target_fd, tables_fd, our_fd, map, err);
	if (tables_fd >= 0)
		kp_inject_close(stop, tables_fd);
	if (target_fd >= 0)
		kp_inject_close(stop, target_fd);
	if (r < 0) {
		kp_inject_unmap(stop, job->base, bytes);
		kp_shm_map_deinit(map);
		return r;
	}
	*ret_fd = kp_take_fd(&our_fd);
	return 0;
}

int kp_inject_memory(struct kp_stop *stop, struct kp_inject_job *job, struct kp_shm_map *map,
		     int *ret_fd, struct kp_err *err)
{
	bool share = job->plan.tables_fd >= 0;

	job->shape = (struct kp_shm_shape){ .cell_count = job->plan.cell_count,
					    .words = job->plan.words,
					    .tables_bytes = job->plan.tables_bytes };
	for (;;) {
		int r = make_memory(stop, job, share, map, ret_fd, err);

		if (r == 0 || r == -KP_EGONE || !job->shape.tables_bytes)
			return r;
		/* A security policy may forbid to map memory that another process has made. */
		if (share && job->shape.tables_shared)
			share = false;
		else
			job->shape.tables_bytes = job->shape.tables_bytes > KP_SHM_TABLES_LESS
							  ? KP_SHM_TABLES_LESS
							  : 0;
	}
}
