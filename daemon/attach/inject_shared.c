/*
 * Unwind tables that several targets share: one memfd of the daemon's (daemon/unwind/area.h), opened
 * in each target and mapped there, read-only, behind the target's own directory. Runs in the attach
 * helper, between kp_stop_begin() and kp_stop_end().
 *
 * A descriptor gets into a process by its own open() alone. So the target opens what the daemon has
 * open, /proc/PID/fd/N, which the kernel lets it do where it could trace the daemon: where both are
 * the same user's. Only where its /proc is the one that we know: any other path may lead to whatever
 * its file systems hold. All others (containers, other users, seccomp) have tables of their own.
 */
#include "daemon/attach/inject_steps.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whether paths mean in the process what they mean here, those in /proc too. */
static bool sees_what_we_see(pid_t pid)
{
	static const char *const same[] = { "ns/pid", "ns/mnt", "root" };
	char its[64], ours[64];

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		snprintf(its, sizeof(its), "/proc/%d/%s", (int)pid, same[i]);
		snprintf(ours, sizeof(ours), "/proc/self/%s", same[i]);
		if (!is_same_file(its, ours))
			return false;
	}
	return true;
}

/* Into the reserved memory, as words. */
static int write_path(struct kp_stop *stop, uint64_t addr, const char *path, size_t size)
{
	int r = 0;

	for (size_t i = 0; i < size && r == 0; i += 8)
		r = kp_inject_write_word(stop, addr + i, path + i, NULL);
	return r;
}

int kp_inject_open_shared(struct kp_stop *stop, const struct kp_inject_job *job, int *ret)
{
	char path[40] = "", opened[64];
	uint64_t args[6] = { (uint64_t)AT_FDCWD, job->base, O_RDONLY | O_CLOEXEC };
	int64_t fd = -1;
	int r;

	*ret = -1;
	if (job->target.seccomp || !sees_what_we_see(stop->pid))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)job->owner_pid, job->plan.tables_fd);
	r = write_path(stop, job->base, path, sizeof(path));
	if (r == 0)
		r = kp_stop_syscall(stop, SYS_openat, args, &fd, NULL);
	if (r < 0 || fd < 0)
		return r == -KP_EGONE ? r : 0;
	snprintf(opened, sizeof(opened), "/proc/%d/task/%d/fd/%d", (int)stop->pid, (int)stop->tid,
		 (int)fd);
	if (is_same_file(opened, path))
		*ret = (int)fd;
	else
		kp_inject_close(stop, (int)fd);
	return 0;
}

int kp_inject_map_shared(struct kp_stop *stop, const struct kp_shm_map *map, int tables_fd,
			 struct kp_err *err)
{
	const struct kp_inject_part part = { .name = "mmap of shared tables",
					     .from = map->tables_off + KP_TABLES_DIRECTORY_BYTES,
					     .to = map->bytes,
					     .off = KP_TABLES_DIRECTORY_BYTES,
					     .prot = PROT_READ };

	return kp_inject_map(stop, map, tables_fd, &part, err);
}
