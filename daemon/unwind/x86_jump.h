/* Where execution goes after an x86-64 instruction. No state; pure. */
#pragma once

#include "daemon/unwind/x86_insn.h"

enum kp_x86_jump {
	KP_X86_GOES_ON, /* to the next instruction */
	KP_X86_GOES_BRANCH, /* there, or to the target */
	KP_X86_GOES_JUMP,
	KP_X86_GOES_JUMP_ANYWHERE,
	KP_X86_GOES_CALL,
	KP_X86_GOES_CALL_ANYWHERE,
	KP_X86_GOES_RETURN,
	KP_X86_GOES_END, /* nowhere */
};

enum kp_x86_jump kp_x86_jump_kind(const struct kp_x86_insn *insn);
bool kp_x86_is_nop(const struct kp_x86_insn *insn);
