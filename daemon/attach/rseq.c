/* Restartable sequences of a stopped thread: rseq.h. Runs in the attach helper. */
#include "daemon/attach/rseq.h"

#include <stdint.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define GET_RSEQ_CONFIGURATION 0x420f /* linux/ptrace.h, kernel 5.13 */

/* struct ptrace_rseq_configuration of linux/ptrace.h. */
struct rseq_configuration {
	uint64_t abi;
	uint32_t abi_size;
	uint32_t signature;
	uint32_t flags;
	uint32_t pad;
};

/* struct rseq_cs of linux/rseq.h. */
struct rseq_section {
	uint32_t version;
	uint32_t flags;
	uint64_t start;
	uint64_t length;
	uint64_t abort;
};

#define RSEQ_CS_OFFSET 8 /* of rseq_cs in struct rseq */

static int read_target(pid_t tid, uint64_t addr, void *ret, size_t size)
{
	struct iovec local = { ret, size }, remote = { (void *)(uintptr_t)addr, size };

	return process_vm_readv(tid, &local, 1, &remote, 1, 0) == (ssize_t)size ? 0 : -1;
}

void kp_rseq_abort(pid_t tid, struct kp_cpu_regs *regs)
{
	struct rseq_configuration config = { 0 };
	struct rseq_section section;
	uint64_t current;

	if (ptrace(GET_RSEQ_CONFIGURATION, tid, sizeof(config), &config) < 0 || !config.abi)
		return;
	if (read_target(tid, config.abi + RSEQ_CS_OFFSET, &current, sizeof(current)) < 0 ||
	    !current)
		return;
	if (read_target(tid, current, &section, sizeof(section)) < 0)
		return;
	if (kp_cpu_pc(regs) - section.start < section.length)
		kp_cpu_set_pc(regs, section.abort);
}
