/*
 * What a target is, and whether it may be profiled. Daemon; reads /proc only, touches nothing.
 */
#include "daemon/attach/target.h"

#include "common/cleanup.h"
#include "daemon/attach/cpu.h"
#include "daemon/linux/freezer.h"
#include "daemon/linux/maps.h"
#include "daemon/linux/proc.h"
#include "proto/shm.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

const char *kp_signal_name(int signal)
{
	static char text[24];
	const char *abbreviation = sigabbrev_np(signal);

	if (abbreviation)
		snprintf(text, sizeof(text), "SIG%s", abbreviation);
	else
		snprintf(text, sizeof(text), "signal %d", signal);
	return text;
}

uint16_t kp_target_machine(void)
{
	return kp_cpu_arch()->elf_machine;
}

static int yama_scope(void)
{
	_cleanup_(kp_freep) char *text = NULL;

	if (kp_proc_read("/proc/sys/kernel/yama/ptrace_scope", &text, NULL, NULL) < 0)
		return 0;
	return atoi(text);
}

/* Which of the checks of ptrace(2) said no, as far as can be seen from outside. */
static int explain_denied(pid_t pid, const struct kp_proc_status *status, struct kp_err *err)
{
	uid_t me = geteuid();
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (me == 0)
		return kp_fail(err, KP_EREFUSED,
			       "pid %d: not permitted although kitprof is root: it lacks "
			       "CAP_SYS_PTRACE over the "
			       "target. In a container, start it with --cap-add=SYS_PTRACE (or run "
			       "kitprof on the "
			       "host)",
			       (int)pid);
	if (status->uid[0] != me || status->uid[1] != me)
		return kp_fail(err, KP_EREFUSED,
			       "pid %d: not permitted: it runs as uid %u, kitprof as uid %u. Run "
			       "kitprof as that "
			       "user, or as root",
			       (int)pid, (unsigned)status->uid[1], (unsigned)me);
	if (yama_scope() == 1)
		return kp_fail(
			err, KP_EREFUSED,
			"pid %d: not permitted: kernel.yama.ptrace_scope is 1, which allows only a "
			"program's own parent. Use `kitprof run -- PROGRAM`, run kitprof as root, "
			"or set "
			"it to 0 (sysctl kernel.yama.ptrace_scope=0)",
			(int)pid);
	if (yama_scope() >= 2)
		return kp_fail(
			err, KP_EREFUSED,
			"pid %d: not permitted: kernel.yama.ptrace_scope is %d, which allows %s",
			(int)pid, yama_scope(),
			yama_scope() == 2 ? "only root (CAP_SYS_PTRACE)"
					  : "nobody until the next boot");
	if (stat(path, &st) == 0 && st.st_uid != me)
		return kp_fail(
			err, KP_EREFUSED,
			"pid %d: not permitted: it has changed its credentials or declared itself "
			"undumpable. Run kitprof as root",
			(int)pid);
	return kp_fail(err, KP_EREFUSED,
		       "pid %d: not permitted (user namespace, capability or security module). Run "
		       "kitprof as "
		       "root",
		       (int)pid);
}

/* It would wait for us while we wait for it to stop. */
static bool traces_us(pid_t pid)
{
	struct kp_proc_status status;

	return kp_proc_status(getpid(), getpid(), &status, NULL) == 0 && status.tracer == pid;
}

/* A process that has given up its memory has no program any more either. */
static bool is_ending(pid_t pid)
{
	char path[64], exe[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return readlink(path, exe, sizeof(exe)) < 0 && errno == ENOENT;
}

/* Opening mem takes the same check of the kernel as attaching does. */
static int check_permission(pid_t pid, pid_t live, const struct kp_proc_status *status,
			    struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)live);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return 0;
	return is_ending(pid)
		       ? kp_fail(err, KP_EGONE, "pid %d (%s) is ending", (int)pid, status->name)
		       : explain_denied(pid, status, err);
}

static int check_tracer(pid_t pid, const struct kp_proc_status *status, struct kp_err *err)
{
	struct kp_proc_status tracer;
	char comm[64];

	if (status->tracer == 0)
		return 0;
	/* The onlooker (onlooker.h) lets go of what it looks at in a moment. */
	if (kp_proc_status(status->tracer, status->tracer, &tracer, NULL) == 0 &&
	    tracer.ppid == getpid())
		return kp_fail(err, KP_EBUSY, "pid %d is being looked at", (int)pid);
	kp_proc_comm(status->tracer, status->tracer, comm, sizeof(comm));
	return kp_fail(
		err, KP_EREFUSED,
		"pid %d is traced already, by %s (pid %d). Detach that first, then try again",
		(int)pid, comm[0] ? comm : "another process", (int)status->tracer);
}

static int check_elf(pid_t pid, pid_t live, struct kp_target *ret, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = -1;
	Elf64_Ehdr ehdr;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)live);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? kp_fail(err, KP_EGONE, "pid %d: no such process", (int)pid)
				       : kp_fail_errno(err, "%s", path);
	if (pread(fd, &ehdr, sizeof(ehdr), 0) < EI_NIDENT ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0)
		return kp_fail(err, KP_EREFUSED, "pid %d: its program is not an ELF file",
			       (int)pid);
	if (ehdr.e_ident[EI_CLASS] == ELFCLASS32)
		return kp_fail(err, KP_EREFUSED,
			       "pid %d is a 32-bit program, which kitprof cannot profile. Build it "
			       "for 64 bits",
			       (int)pid);
	if (ehdr.e_machine != kp_cpu_arch()->elf_machine)
		return kp_fail(err, KP_EREFUSED, "pid %d: its program is for another CPU than %s",
			       (int)pid, kp_cpu_arch()->name);
	ret->elf_machine = ehdr.e_machine;
	ret->shares_signal = kp_is_go_program(fd);
	return 0;
}

/* The sampling signals that are tried, the most harmless first: docs/decisions/0003-signal.md. */
static const int candidates[] = { SIGURG, SIGPROF };

static bool is_left_alone(const struct kp_proc_status *status, int signal)
{
	return !((status->sig_caught | status->sig_ignored) & kp_signal_bit(signal));
}

static bool is_blocked_by_any(pid_t pid, int signal)
{
	_cleanup_(kp_freep) pid_t *tids = NULL;
	size_t count;

	if (kp_proc_tasks(pid, &tids, &count, NULL) < 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct kp_proc_status status;

		if (kp_proc_status(pid, tids[i], &status, NULL) == 0 &&
		    status.sig_blocked & kp_signal_bit(signal))
			return true;
	}
	return false;
}

static int choose_signal(pid_t pid, const struct kp_proc_status *status, int *ret,
			 struct kp_err *err)
{
	if (!is_left_alone(status, SIGPROF) && status->sig_caught & kp_signal_bit(SIGPROF))
		return kp_fail(err, KP_EREFUSED,
			       "pid %d handles SIGPROF itself: it seems to be profiled already. If "
			       "it is not, give "
			       "kitprof a signal that it does not use: --signal %s",
			       (int)pid, is_left_alone(status, SIGURG) ? "URG" : "NAME");
	for (size_t pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
			if (!is_left_alone(status, candidates[i]))
				continue;
			/* First pass: one that no thread blocks. */
			if (pass == 0 && is_blocked_by_any(pid, candidates[i]))
				continue;
			*ret = candidates[i];
			return 0;
		}
	}
	return kp_fail(err, KP_EREFUSED,
		       "pid %d uses SIGURG and SIGPROF itself. Give kitprof a signal that it does "
		       "not use: "
		       "--signal NAME",
		       (int)pid);
}

static int check_signal(pid_t pid, const struct kp_proc_status *status, int asked,
			struct kp_target *ret, struct kp_err *err)
{
	/* Go preempts its own threads with SIGURG all the time, and leaves SIGPROF to profiling. */
	if (ret->shares_signal) {
		ret->signal = asked ? asked : SIGPROF;
		return 0;
	}
	if (!asked)
		return choose_signal(pid, status, &ret->signal, err);
	if (status->sig_caught & kp_signal_bit(asked))
		return kp_fail(err, KP_EREFUSED,
			       "pid %d handles %s itself. Give kitprof a signal that it does not "
			       "use: --signal NAME",
			       (int)pid, kp_signal_name(asked));
	ret->signal = asked;
	return 0;
}

static bool any_seccomp(pid_t pid)
{
	_cleanup_(kp_freep) pid_t *tids = NULL;
	size_t count;

	if (kp_proc_tasks(pid, &tids, &count, NULL) < 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct kp_proc_status status;

		if (kp_proc_status(pid, tids[i], &status, NULL) == 0 && status.seccomp)
			return true;
	}
	return false;
}

/* The daemon that owns a mapping, if it lives. */
static pid_t living_owner(pid_t pid, uint64_t base)
{
	struct kp_shm_head head;
	struct iovec local = { &head, sizeof(head) };
	struct iovec remote = { (void *)(uintptr_t)(base + KP_SHM_HEAD_OFFSET), sizeof(head) };
	uint64_t start;

	if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof(head) ||
	    head.magic != KP_SHM_MAGIC)
		return 0;
	if (kp_proc_start_time((pid_t)head.owner_pid, &start, NULL) < 0 ||
	    start != head.owner_start)
		return 0;
	return (pid_t)head.owner_pid;
}

#define OUR_MAPPING "/memfd:" KP_SHM_NAME " (deleted)"

static int check_leftover(struct kp_target *target, pid_t live, struct kp_err *err)
{
	_cleanup_(kp_maps_deinit) struct kp_maps maps = { 0 };
	int r = kp_maps_init(&maps, target->pid, 0, err);
	pid_t owner;

	if (r < 0)
		return r;
	for (size_t i = 0; i < maps.count; i++) {
		if (strcmp(maps.map[i].path, OUR_MAPPING) != 0)
			continue;
		if (!target->leftover_base)
			target->leftover_base = maps.map[i].start;
		else if (maps.map[i].start != target->leftover_end || maps.map[i].offset == 0)
			break; /* another one, above memory of the target's or right above this */
		target->leftover_end = maps.map[i].end;
	}
	if (!target->leftover_base)
		return 0;
	owner = living_owner(live, target->leftover_base);
	target->leftover_is_ours = owner == getpid();
	if (owner && !target->leftover_is_ours)
		return kp_fail(err, KP_EREFUSED,
			       "pid %d is being profiled already, by kitprof with pid %d",
			       (int)target->pid, (int)owner);
	return 0;
}

static int check_kind(pid_t pid, const struct kp_proc_status *status, struct kp_err *err)
{
	bool kernel_thread;
	int r = kp_proc_is_kernel_thread(pid, &kernel_thread, err);

	if (r < 0)
		return r;
	if (kernel_thread)
		return kp_fail(
			err, KP_EREFUSED,
			"pid %d (%s) is a kernel thread: it has no user-space code to profile",
			(int)pid, status->name);
	if (status->tgid != pid)
		return kp_fail(err, KP_EREFUSED, "%d is a thread of process %d: use --pid %d",
			       (int)pid, (int)status->tgid, (int)status->tgid);
	if (pid == getpid())
		return kp_fail(err, KP_EREFUSED, "pid %d is kitprof itself", (int)pid);
	if (traces_us(pid))
		return kp_fail(err, KP_EREFUSED, "pid %d (%s) traces kitprof itself", (int)pid,
			       status->name);
	if ((status->state == 'Z' && status->threads <= 1) || status->state == 'X')
		return kp_fail(err, KP_EGONE, "pid %d (%s) has ended already (zombie)", (int)pid,
			       status->name);
	return 0;
}

static int describe(pid_t pid, pid_t live, const struct kp_proc_status *status,
		    struct kp_target *ret, struct kp_err *err)
{
	ret->pid = pid;
	ret->ns_pid = status->ns_tid;
	snprintf(ret->comm, sizeof(ret->comm), "%s", status->name);
	kp_proc_exe(live, ret->exe, sizeof(ret->exe));
	ret->seccomp = any_seccomp(pid);
	return kp_proc_start_time(pid, &ret->start_time, err);
}

/* A thread that cannot run cannot be asked for anything. */
static int check_running(pid_t pid, struct kp_err *err)
{
	if (!kp_is_frozen(pid))
		return 0;
	return kp_fail(err, KP_EBUSY,
		       "pid %d is frozen (its cgroup is, as by `docker pause`): thaw it first",
		       (int)pid);
}

int kp_target_check(pid_t pid, int signal, struct kp_target *ret, struct kp_err *err)
{
	struct kp_proc_status status;
	pid_t live = kp_proc_live_thread(pid);
	int r;

	*ret = (struct kp_target){ 0 };
	r = pid > 0 ? kp_proc_status(pid, pid, &status, err)
		    : kp_fail(err, KP_EGONE, "pid %d: no such process", (int)pid);
	if (r >= 0)
		r = check_kind(pid, &status, err);
	if (r >= 0)
		r = check_tracer(pid, &status, err);
	if (r >= 0)
		r = check_permission(pid, live, &status, err);
	if (r >= 0)
		r = check_running(pid, err);
	if (r >= 0)
		r = check_elf(pid, live, ret, err);
	if (r >= 0)
		r = describe(pid, live, &status, ret, err);
	if (r >= 0)
		r = check_leftover(ret, live, err);
	/* What a dead kitprof left holds the signal: it is removed first, then looked at again. */
	if (r >= 0 && !ret->leftover_base)
		r = check_signal(pid, &status, signal, ret, err);
	return r;
}

bool kp_target_is_privileged(pid_t pid)
{
	struct kp_proc_status status;
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (stat(path, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID) ||
				     getxattr(path, "security.capability", NULL, 0) > 0))
		return true;
	return kp_proc_status(pid, pid, &status, NULL) == 0 && status.uid[0] != status.uid[1];
}

int kp_target_check_exec(pid_t pid, int signal, struct kp_target *ret, struct kp_err *err)
{
	struct kp_proc_status status;
	int r;

	*ret = (struct kp_target){ 0 };
	r = kp_proc_status(pid, pid, &status, err);
	if (r >= 0)
		r = check_elf(pid, pid, ret, err);
	if (r >= 0)
		r = describe(pid, pid, &status, ret, err);
	if (r >= 0)
		r = check_signal(pid, &status, signal, ret, err);
	return r;
}
