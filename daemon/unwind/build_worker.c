/* The process that builds tables: build_worker.h. Daemon; below the line, the worker itself. */
#include "daemon/unwind/build_worker.h"

#include "common/cleanup.h"
#include "daemon/linux/descriptor.h"
#include "daemon/linux/monotonic.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NICE 5
#define FILE_MAX (UINT64_C(4) << 30) /* bytes of a module file */
#define ROOM_MAX (UINT64_C(1) << 30) /* bytes that it may map besides the file */

void kp_build_worker_init(struct kp_build_worker *worker)
{
	*worker = (struct kp_build_worker){ .pipe = -1, .memory = -1 };
}

static void drop(int *fd)
{
	kp_closep(fd);
	*fd = -1;
}

int kp_build_worker_fd(const struct kp_build_worker *worker)
{
	return worker->pipe;
}

enum kp_build_read kp_build_worker_read(struct kp_build_worker *worker, struct kp_build_result *ret)
{
	ssize_t n;

	if (worker->pipe < 0)
		return KP_BUILD_ENDED;
	do
		n = read(worker->pipe, ret, sizeof(*ret));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return KP_BUILD_BUSY;
	if (n == sizeof(*ret)) {
		ret->err.text[sizeof(ret->err.text) - 1] = 0;
		worker->since_ns = kp_now_ns();
		return KP_BUILD_RESULT;
	}
	/* The end, or something that no worker of ours writes. */
	kp_build_worker_kill(worker);
	return KP_BUILD_ENDED;
}

int kp_build_worker_copy(const struct kp_build_worker *worker, const struct kp_build_result *result,
			 void *ret)
{
	uint64_t at = result->offset, left = result->bytes;

	while (left && at <= INT64_MAX) {
		ssize_t n = pread(worker->memory, ret, left, (off_t)at);

		if (n <= 0)
			break;
		ret = (uint8_t *)ret + n;
		at += (uint64_t)n;
		left -= (uint64_t)n;
	}
	return left ? -1 : 0;
}

void kp_build_worker_kill(struct kp_build_worker *worker)
{
	drop(&worker->pipe);
	if (worker->pid && !worker->killed)
		kill(worker->pid, SIGKILL);
	worker->killed = true;
}

static uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000;
}

bool kp_build_worker_reap(struct kp_build_worker *worker, int *ret_status, uint64_t *ret_cpu_ns)
{
	struct rusage usage = { 0 };
	pid_t pid;

	if (!worker->pid)
		return true;
	*ret_status = 0;
	do
		pid = wait4(worker->pid, ret_status, WNOHANG, &usage);
	while (pid < 0 && errno == EINTR);
	if (pid == 0)
		return false;
	*ret_cpu_ns = timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime);
	drop(&worker->pipe);
	drop(&worker->memory);
	kp_build_worker_init(worker);
	return true;
}

/* ---- the worker ---- */

/* What it works with. */
struct bench {
	int pipe, memory;
	uint64_t used; /* bytes of memory */
	kp_build_fn build;
	struct kp_cache *cache;
};

static void limit(int what, uint64_t most)
{
	setrlimit(what, &(struct rlimit){ most, most });
}

/* What it has from the daemon counts too, which is much under a sanitizer. */
static uint64_t mapped_bytes(void)
{
	FILE *statm = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (statm && fscanf(statm, "%lu", &pages) != 1)
		pages = 0;
	kp_fclosep(&statm);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void become_harmless(pid_t parent, const struct bench *bench,
			    const struct kp_build_job *jobs, size_t count)
{
	int kept[KP_BUILD_JOBS_MAX + 3], nice = getpriority(PRIO_PROCESS, 0);
	size_t n = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, "kitprof-tables");
	signal(SIGBUS, SIG_DFL); /* a file that was cut; a sanitizer would catch it */
	setpriority(PRIO_PROCESS, 0, nice > NICE ? nice : NICE);
	limit(RLIMIT_AS, mapped_bytes() + FILE_MAX + ROOM_MAX);
	limit(RLIMIT_FSIZE, ROOM_MAX);
	limit(RLIMIT_CORE, 0);
	kept[n++] = bench->pipe;
	kept[n++] = bench->memory;
	kept[n++] = bench->cache ? kp_cache_fd(bench->cache) : -1;
	for (size_t i = 0; i < count; i++)
		kept[n++] = jobs[i].fd;
	kp_descriptor_close_others(kept, n);
}

static int build_file(const struct bench *bench, const struct kp_build_job *job, void **ret,
		      size_t *ret_bytes, struct kp_err *err)
{
	struct stat st;
	void *image;
	int r;

	if (fstat(job->fd, &st) != 0 || !S_ISREG(st.st_mode))
		return kp_fail(err, KP_EBADDATA, "%s: not a file", job->name);
	if (st.st_size <= 0 || (uint64_t)st.st_size > FILE_MAX)
		return kp_fail(err, KP_EBADDATA, "%s: %lld bytes long", job->name,
			       (long long)st.st_size);
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, job->fd, 0);
	if (image == MAP_FAILED)
		return kp_fail_errno(err, "%s: mmap", job->name);
	r = bench->build(image, (size_t)st.st_size, job->name, ret, ret_bytes, err);
	munmap(image, (size_t)st.st_size);
	return r;
}

/* Behind what is there already. */
static int put_table(struct bench *bench, const void *table, size_t bytes, struct kp_err *err)
{
	if (kp_write_at(bench->memory, table, bytes, bench->used) < 0)
		return kp_fail_errno(err, "memory for a table");
	bench->used += bytes;
	return 0;
}

static void work(struct bench *bench, const struct kp_build_job *job)
{
	struct kp_build_result result = { .offset = bench->used };
	void *table = NULL;
	size_t bytes = 0;

	if (job->fd >= 0)
		result.outcome = build_file(bench, job, &table, &bytes, &result.err);
	else
		result.outcome = bench->build(job->image, job->image_bytes, job->name, &table,
					      &bytes, &result.err);
	if (result.outcome == 0)
		result.outcome = put_table(bench, table, bytes, &result.err);
	result.bytes = result.outcome == 0 ? bytes : 0;
	if (write(bench->pipe, &result, sizeof(result)) != sizeof(result))
		_exit(1);
	if (result.outcome == 0 && bench->cache && job->key.build_id_len)
		kp_cache_save(bench->cache, &job->key, table, bytes, NULL);
	free(table);
}

__attribute__((noreturn)) static void work_all(pid_t parent, struct bench *bench,
					       const struct kp_build_job *jobs, size_t count)
{
	become_harmless(parent, bench, jobs, count);
	for (size_t i = 0; i < count; i++)
		work(bench, &jobs[i]);
	if (bench->cache)
		kp_cache_trim(bench->cache);
	_exit(0);
}

int kp_build_worker_start(struct kp_build_worker *worker, const struct kp_build_job *jobs,
			  size_t count, kp_build_fn build, struct kp_cache *cache,
			  struct kp_err *err)
{
	_cleanup_(kp_closep) int memory = memfd_create("kitprof-tables", MFD_CLOEXEC);
	struct bench bench = { .memory = memory, .build = build, .cache = cache };
	pid_t parent = getpid(), pid;
	int ends[2];

	if (memory < 0 || pipe2(ends, O_CLOEXEC) != 0)
		return kp_fail_errno(err, "worker for unwind tables");
	bench.pipe = ends[1];
	pid = fork();
	if (pid == 0)
		work_all(parent, &bench, jobs, count);
	close(ends[1]);
	if (pid < 0) {
		kp_fail_errno(err, "worker for unwind tables: fork");
		close(ends[0]);
		return -KP_ESYSTEM;
	}
	/* Only this end: the worker may wait for room. */
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	*worker = (struct kp_build_worker){
		.pid = pid, .pipe = ends[0], .memory = kp_take_fd(&memory), .since_ns = kp_now_ns()
	};
	return 0;
}
