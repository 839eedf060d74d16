/* The state of a frame, and the table's rule for it: see state.h. Runs in the daemon. */
#include "daemon/unwind/state.h"

#include <elf.h>

static bool fits(int64_t value)
{
	return value >= INT32_MIN && value <= INT32_MAX;
}

struct kp_cfa kp_cfa_of_term(const struct kp_arch *arch, const struct kp_term *term)
{
	struct kp_cfa cfa = { .kind = KP_CFA_INVALID, .off = term->add };

	if (term->kind == KP_TERM_REGISTER && term->reg <= UINT8_MAX) {
		cfa.kind = KP_CFA_REG;
		cfa.reg = (uint32_t)term->reg;
	}
	if (term->kind == KP_TERM_PLT && term->reg == arch->dwarf.sp) {
		cfa.kind = KP_CFA_PLT;
		cfa.reg = (uint32_t)term->off;
	}
	if (term->kind == KP_TERM_DEREF &&
	    (term->reg == arch->dwarf.sp || term->reg == arch->dwarf.fp)) {
		cfa.kind = term->reg == arch->dwarf.sp ? KP_CFA_DEREF_SP : KP_CFA_DEREF_FP;
		cfa.off = term->off;
		cfa.add = term->add;
	}
	return cfa;
}

struct kp_saved kp_saved_of_address(const struct kp_arch *arch, const struct kp_term *term)
{
	struct kp_saved saved = { .how = KP_SAVED_ELSEWHERE, .off = term->add };

	if (term->kind == KP_TERM_CFA)
		saved.how = KP_SAVED_AT_CFA;
	else if (term->kind == KP_TERM_REGISTER && term->reg == arch->dwarf.fp)
		saved.how = KP_SAVED_AT_FP;
	else if (term->kind == KP_TERM_REGISTER && term->reg == arch->dwarf.sp)
		saved.how = KP_SAVED_AT_SP;
	return saved;
}

struct kp_saved kp_saved_of_value(const struct kp_arch *arch, const struct kp_term *term)
{
	struct kp_term address = { .kind = KP_TERM_REGISTER, .reg = term->reg, .add = term->off };

	if (term->kind == KP_TERM_CFA)
		return (struct kp_saved){ .how = KP_SAVED_IS_CFA, .off = term->add };
	if (term->kind == KP_TERM_DEREF && term->add == 0)
		return kp_saved_of_address(arch, &address);
	return (struct kp_saved){ .how = KP_SAVED_ELSEWHERE };
}

/*
 * S says that registers are those of interrupted code, not that it was the kernel that stored
 * them. On x86-64 the kernel's frame is told by where it has the pc, in whatever way that is
 * written (glibc: an expression; bionic: CFA = sp). Elsewhere the frame is described by nothing
 * but S, or by its frame record.
 */
static bool is_kernel_signal(const struct kp_frame_traits *traits,
			     const struct kp_frame_state *state)
{
	const struct kp_cfa *cfa = &state->cfa;
	uint16_t pc_off = traits->arch->signal.pc_off;

	if (!traits->is_signal)
		return false;
	if (traits->arch->elf_machine != EM_X86_64)
		return true;
	if (state->ra.how == KP_SAVED_AT_SP)
		return state->ra.off == pc_off;
	return state->ra.how == KP_SAVED_AT_CFA && cfa->kind == KP_CFA_REG &&
	       cfa->reg == traits->arch->dwarf.sp && fits(cfa->off) && fits(state->ra.off) &&
	       cfa->off + state->ra.off == pc_off;
}

/* The location of a saved register; UNDEFINED where the rule cannot say it. */
static enum kp_reg_kind where(const struct kp_saved *saved, int32_t *ret_off)
{
	static const enum kp_reg_kind kinds[] = {
		[KP_SAVED_AT_CFA] = KP_REG_CFA,
		[KP_SAVED_AT_FP] = KP_REG_FP,
		[KP_SAVED_AT_SP] = KP_REG_SP,
	};

	if (saved->how < KP_SAVED_AT_CFA || saved->how > KP_SAVED_AT_SP || !fits(saved->off))
		return KP_REG_UNDEFINED;
	*ret_off = (int32_t)saved->off;
	return kinds[saved->how];
}

static bool is_same(const struct kp_saved *saved)
{
	return saved->how == KP_SAVED_UNSAID || saved->how == KP_SAVED_SAME;
}

/* The rule's CFA; INVALID where it cannot say it. */
static void put_cfa(const struct kp_arch *arch, const struct kp_cfa *cfa,
		    struct kp_table_rule *rule)
{
	rule->cfa = KP_CFA_INVALID;
	if (cfa->kind == KP_CFA_GAP || cfa->kind == KP_CFA_INVALID || !fits(cfa->off) ||
	    !fits(cfa->add))
		return;
	rule->cfa = (uint8_t)cfa->kind;
	rule->cfa_off = (int32_t)cfa->off;
	rule->add = (int32_t)cfa->add;
	if (cfa->kind == KP_CFA_REG && cfa->reg == arch->dwarf.sp)
		rule->cfa = KP_CFA_SP;
	else if (cfa->kind == KP_CFA_REG && cfa->reg == arch->dwarf.fp)
		rule->cfa = KP_CFA_FP;
	else
		rule->reg = (uint8_t)cfa->reg;
}

struct kp_table_rule kp_frame_state_rule(const struct kp_frame_traits *traits,
					 const struct kp_frame_state *state)
{
	const struct kp_table_rule invalid = { .cfa = KP_CFA_INVALID };
	const struct kp_saved *sp = &state->sp;
	struct kp_table_rule rule = { 0 };

	if (is_kernel_signal(traits, state))
		return (struct kp_table_rule){ .cfa = KP_CFA_SIGNAL };
	if (state->ra.how == KP_SAVED_UNDEFINED)
		return (struct kp_table_rule){ .cfa = KP_CFA_STOP };
	put_cfa(traits->arch, &state->cfa, &rule);
	if (rule.cfa == KP_CFA_INVALID)
		return invalid;
	/* That the caller's sp is the CFA is what the table takes for granted. */
	if (sp->how != KP_SAVED_UNSAID && !(sp->how == KP_SAVED_IS_CFA && sp->off == 0))
		return invalid;
	rule.ra = (uint8_t)where(&state->ra, &rule.ra_off);
	if (is_same(&state->ra) && traits->ra_in_link)
		rule.ra = KP_REG_SAME;
	if (rule.ra == KP_REG_UNDEFINED)
		return invalid;
	rule.fp = (uint8_t)(is_same(&state->fp) ? KP_REG_SAME : where(&state->fp, &rule.fp_off));
	rule.base = is_same(&state->base) ? KP_REG_SAME : where(&state->base, &rule.base_off);
	return rule;
}
