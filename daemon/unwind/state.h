/*
 * What call frame information says of a frame's caller at one address: how its CFA is found, and
 * where the three registers that a walk needs are. One state is one rule of the table.
 */
#pragma once

#include "common/arch/arch.h"
#include "common/unwind/table.h"
#include "daemon/unwind/expression.h"

enum kp_saved_how {
	KP_SAVED_UNSAID = 0, /* the ABI's rule for it */
	KP_SAVED_SAME, /* still in the register */
	KP_SAVED_UNDEFINED, /* nowhere */
	KP_SAVED_AT_CFA, /* [CFA + off] */
	KP_SAVED_AT_FP, /* [fp + off] */
	KP_SAVED_AT_SP, /* [sp + off] */
	KP_SAVED_IS_CFA, /* CFA + off itself */
	KP_SAVED_ELSEWHERE, /* said in a way that the table cannot hold */
};

struct kp_saved {
	enum kp_saved_how how;
	int64_t off;
};

struct kp_cfa {
	enum kp_cfa_kind kind; /* GAP: not said yet; REG: also sp and fp */
	uint32_t reg; /* as in kp_table_rule */
	int64_t off, add;
};

struct kp_frame_state {
	struct kp_cfa cfa;
	struct kp_saved sp, fp, ra, base;
};

/* What goes for a whole CIE, and is needed to judge a state. */
struct kp_frame_traits {
	const struct kp_arch *arch;
	bool is_signal; /* augmentation S */
	bool ra_in_link; /* the return address column is the link register */
};

/* CFA or register location out of an evaluated expression. */
struct kp_cfa kp_cfa_of_term(const struct kp_arch *arch, const struct kp_term *term);
struct kp_saved kp_saved_of_address(const struct kp_arch *arch, const struct kp_term *term);
struct kp_saved kp_saved_of_value(const struct kp_arch *arch, const struct kp_term *term);

/* Fields that a rule of its kind does not use are 0, so that equal rules are equal bytes. */
struct kp_table_rule kp_frame_state_rule(const struct kp_frame_traits *traits,
					 const struct kp_frame_state *state);
