/* Jumps, calls, and what ends: see x86_jump.h. Runs in the daemon. */
#include "daemon/unwind/x86_jump.h"

static enum kp_x86_jump two_byte_kind(const struct kp_x86_insn *insn)
{
	switch (insn->opcode) {
	case 0x80 ... 0x8f:
		return KP_X86_GOES_BRANCH;
	case 0x07: /* sysret, ud2, sysexit, ud1, ud0 */
	case 0x0b:
	case 0x35:
	case 0xb9:
	case 0xff:
		return KP_X86_GOES_END;
	default:
		return KP_X86_GOES_ON;
	}
}

static enum kp_x86_jump group_kind(const struct kp_x86_insn *insn)
{
	switch (insn->reg & 7) {
	case 2:
		return KP_X86_GOES_CALL_ANYWHERE;
	case 4:
		return KP_X86_GOES_JUMP_ANYWHERE;
	case 3: /* far */
	case 5:
	case 7:
		return KP_X86_GOES_END;
	default:
		return KP_X86_GOES_ON;
	}
}

enum kp_x86_jump kp_x86_jump_kind(const struct kp_x86_insn *insn)
{
	if (insn->map == KP_X86_0F && !insn->vex)
		return two_byte_kind(insn);
	if (insn->map != KP_X86_ONE_BYTE)
		return KP_X86_GOES_ON;
	switch (insn->opcode) {
	case 0x70 ... 0x7f:
	case 0xe0 ... 0xe3:
		return KP_X86_GOES_BRANCH;
	case 0xc7: /* xbegin */
		return insn->mod == 3 && (insn->reg & 7) == 7 ? KP_X86_GOES_BRANCH : KP_X86_GOES_ON;
	case 0xe8:
		return KP_X86_GOES_CALL;
	case 0xe9:
	case 0xeb:
		return KP_X86_GOES_JUMP;
	case 0xc2:
	case 0xc3:
		return KP_X86_GOES_RETURN;
	case 0xca: /* far, int3, iret, hlt */
	case 0xcb:
	case 0xcc:
	case 0xcf:
	case 0xf4:
		return KP_X86_GOES_END;
	case 0xff:
		return group_kind(insn);
	default:
		return KP_X86_GOES_ON;
	}
}

bool kp_x86_is_nop(const struct kp_x86_insn *insn)
{
	return (insn->map == KP_X86_ONE_BYTE && insn->opcode == 0x90 && insn->rm == KP_X86_RAX) ||
	       (insn->map == KP_X86_0F && insn->opcode == 0x1f);
}
