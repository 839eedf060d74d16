/*
 * DWARF expressions, as far as the unwind table can hold what they say: evaluated with the
 * registers left as names. So any way to write "the word at sp + 40, plus 8" is the same, and what
 * comes to something else than the forms below is OTHER.
 */
#pragma once

#include "common/arch/arch.h"
#include "daemon/unwind/bytes.h"

enum kp_term_kind {
	KP_TERM_OTHER = 0,
	KP_TERM_CONSTANT, /* add */
	KP_TERM_REGISTER, /* reg + add */
	KP_TERM_CFA, /* CFA + add; only where the CFA was given */
	KP_TERM_DEREF, /* [reg + off] + add */
	KP_TERM_PLT, /* reg + add + ((pc & 15) >= off ? 8 : 0) */
	/* On the way to PLT only: */
	KP_TERM_PC_LOW, /* pc & 15 */
	KP_TERM_PC_REACHED, /* (pc & 15) >= off */
	KP_TERM_PC_WORD, /* the same << 3 */
};

struct kp_term {
	enum kp_term_kind kind;
	uint64_t reg; /* DWARF number */
	int64_t off, add;
};

/* with_cfa: the evaluation starts with the CFA on the stack (DW_CFA_expression, _val_expression). */
struct kp_term kp_expression_evaluate(struct kp_bytes code, bool with_cfa,
				      const struct kp_arch *arch);
