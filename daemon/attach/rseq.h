/*
 * Restartable sequences. The kernel aborts a critical section when its thread is preempted, by
 * looking at the PC when the thread goes back to user mode. A tracer that moves the PC hides the
 * section from it: the kernel clears rseq_cs, and the thread would later go on inside the section
 * without the abort. So the abort is applied to the saved registers instead.
 */
#pragma once

#include "daemon/attach/cpu.h"

#include <sys/types.h>

/*
 * If the stopped thread is inside a critical section, moves the PC in regs to its abort handler,
 * as preemption would. Kernel >= 5.13 (PTRACE_GET_RSEQ_CONFIGURATION); no effect before.
 */
void kp_rseq_abort(pid_t tid, struct kp_cpu_regs *regs);
