/* The vdso of a target: vdso.h. Runs in the attach helper. */
#include "daemon/attach/vdso.h"

#include "common/cleanup.h"
#include "daemon/attach/cpu.h"
#include "daemon/linux/maps.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define VDSO_MAX (1u << 20) /* bytes; real ones are 4 to 16 KiB */

int kp_vdso_syscall(pid_t pid, pid_t tid, uint64_t *ret, struct kp_err *err)
{
	const struct kp_arch *arch = kp_cpu_arch();
	_cleanup_(kp_maps_deinit) struct kp_maps maps = { 0 };
	_cleanup_(kp_freep) uint8_t *image = NULL;
	const struct kp_map *vdso;
	struct iovec local, remote;
	const uint8_t *insn;
	size_t size;
	int r = kp_maps_init(&maps, pid, tid, err);

	if (r < 0)
		return r;
	vdso = kp_maps_find_path(&maps, "[vdso]");
	size = vdso ? vdso->end - vdso->start : 0;
	if (size == 0 || size > VDSO_MAX)
		return kp_fail(err, KP_EREFUSED,
			       "pid %d has no vdso, which kitprof needs to make system calls",
			       (int)pid);
	image = malloc(size);
	if (!image)
		return kp_fail_nomem(err);
	local = (struct iovec){ image, size };
	remote = (struct iovec){ (void *)(uintptr_t)vdso->start, size };
	if (process_vm_readv(tid, &local, 1, &remote, 1, 0) != (ssize_t)size)
		return errno == ESRCH ? kp_fail(err, KP_EGONE, "pid %d: thread %d is gone",
						(int)pid, (int)tid)
				      : kp_fail_errno(err, "pid %d: vdso", (int)pid);
	insn = memmem(image, size, arch->syscall_bytes, arch->syscall_size);
	if (!insn)
		return kp_fail(err, KP_EREFUSED, "pid %d: its vdso has no system call instruction",
			       (int)pid);
	*ret = vdso->start + (uint64_t)(insn - image);
	return 0;
}
