/* The vdso of a target: vdso.h. Runs in the attach helper. */
#include "daemon/attach/vdso.h"

#include "common/cleanup.h"
#include "daemon/attach/cpu.h"
#include "daemon/linux/maps.h"
#include "daemon/linux/proc.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#define VDSO_MAX (1u << 20) /* bytes; real ones are 4 to 16 KiB */

int kp_vdso_find(pid_t pid, pid_t tid, struct kp_vdso *ret, struct kp_err *err)
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
		return kp_fail(err, KP_EBUSY,
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
				      : kp_fail(err, KP_EBUSY, "pid %d: its vdso cannot be read",
						(int)pid);
	insn = memmem(image, size, arch->syscall_bytes, arch->syscall_size);
	if (!insn)
		return kp_fail(err, KP_EREFUSED, "pid %d: its vdso has no system call instruction",
			       (int)pid);
	*ret = (struct kp_vdso){ vdso->start, vdso->start + (uint64_t)(insn - image) };
	return 0;
}

bool kp_vdso_is_current(pid_t pid, pid_t tid, const struct kp_vdso *vdso)
{
	_cleanup_(kp_freep) char *text = NULL;
	Elf64_auxv_t entry;
	size_t size;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/auxv", (int)pid, (int)tid);
	if (kp_proc_read(path, &text, &size, NULL) < 0)
		return false;
	for (size_t at = 0; at + sizeof(entry) <= size; at += sizeof(entry)) {
		memcpy(&entry, text + at, sizeof(entry));
		if (entry.a_type == AT_SYSINFO_EHDR)
			return entry.a_un.a_val == vdso->base;
	}
	return false;
}
