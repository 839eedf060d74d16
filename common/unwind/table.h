/*
 * The compact unwind table of one module: for each code address the rule by which a frame's caller
 * is found. Built by the daemon from .eh_frame (daemon/unwind/), kept on disk, mapped read-only
 * into targets, read by the handler: so the reader trusts no byte of it. docs/unwinding.md.
 *
 *	struct kp_table_head
 *	struct kp_table_rule	rules[rule_count]	each different rule once
 *	uint32_t		pages[page_count + 1]	index of the first row of each 64 KiB of code
 *	struct kp_table_row	rows[row_count]		ascending within a page
 *
 * A row holds from its address to the next row's; each page that has code starts with a row at 0,
 * so a lookup never leaves its page. Addresses are the ELF file's own (p_vaddr), the module's load
 * bias taken off. Little-endian, 8-aligned.
 *
 * Runs in the target's signal handler: no libc, no TLS, no lock, bounded loops.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define KP_TABLE_MAGIC UINT32_C(0x5455504b) /* "KPUT" */
#define KP_TABLE_VERSION 3u
#define KP_TABLE_PAGE_SHIFT 16

struct kp_table_head {
	uint32_t magic;
	uint16_t version;
	uint16_t machine; /* e_machine */
	uint64_t first; /* address of the first page, a multiple of 65536 */
	uint64_t bytes; /* of the whole table */
	uint32_t rule_count; /* 1..65536 */
	uint32_t page_count;
	uint32_t row_count;
	uint32_t pad;
};
_Static_assert(sizeof(struct kp_table_head) == 40, "on disk and in the target");

struct kp_table_row {
	uint16_t pc_low; /* address & 0xffff */
	uint16_t rule; /* index into rules */
};
_Static_assert(sizeof(struct kp_table_row) == 4, "on disk and in the target");

/* How the CFA is found: the caller's sp at the call. On disk, the numbers stay. */
enum kp_cfa_kind {
	KP_CFA_GAP = 0, /* the module says nothing of this code: try the frame pointer */
	KP_CFA_STOP = 1, /* the outermost frame (the return address is undefined) */
	KP_CFA_SP = 2, /* sp + cfa_off */
	KP_CFA_FP = 3, /* fp + cfa_off */
	KP_CFA_REG =
		4, /* DWARF register reg + cfa_off; but for base, known in the leaf frame only */
	KP_CFA_DEREF_SP = 5, /* [sp + cfa_off] + add */
	KP_CFA_DEREF_FP = 6, /* [fp + cfa_off] + add */
	KP_CFA_PLT = 7, /* sp + cfa_off + ((pc & 15) >= reg ? 8 : 0) */
	KP_CFA_SIGNAL = 8, /* a signal frame of the kernel's: all registers lie at sp */
	KP_CFA_INVALID = 9, /* said, but not in a way that this table can hold */
	/* No CFA is said, but something of the frame pointer: */
	KP_CFA_CHAIN = 10, /* this code keeps it, and 0 is the root */
	KP_CFA_SWITCH = 11, /* the same, and it may point to a frame on another stack */
	KP_CFA_LEFT =
		12, /* interrupted here: as SWITCH; a caller: STOP, its stack may be in use by others */
	KP_CFA_COUNT
};

/* Where the caller's value of a register (frame pointer, return address, base register) is. */
enum kp_reg_kind {
	KP_REG_SAME = 0, /* still in the register (ra: in the link register) */
	KP_REG_CFA = 1, /* [CFA + off] */
	KP_REG_FP = 2, /* [fp + off] */
	KP_REG_SP = 3, /* [sp + off] */
	KP_REG_UNDEFINED = 4, /* lost */
};

struct kp_table_rule {
	uint8_t cfa; /* enum kp_cfa_kind */
	uint8_t fp; /* enum kp_reg_kind */
	uint8_t ra; /* enum kp_reg_kind */
	uint8_t reg; /* CFA_REG: DWARF number; CFA_PLT: threshold */
	int32_t cfa_off;
	int32_t fp_off;
	int32_t ra_off;
	int32_t add; /* CFA_DEREF_...: added to the word that was read */
	int32_t base_off;
	uint32_t base; /* enum kp_reg_kind: arch's dwarf.base */
};
_Static_assert(sizeof(struct kp_table_rule) == 28, "on disk and in the target");

/* Bytes of a table; everything that a lookup needs of its head, checked. */
struct kp_table {
	const uint8_t *data;
	uint64_t first;
	uint32_t rule_count, page_count, row_count;
	uint32_t pages_off, rows_off;
};

/*
 * Checks that the head describes a table of this machine that lies within size bytes. 0, or -1.
 * data: 8-aligned. Nothing behind the head is looked at.
 */
int kp_table_open(struct kp_table *ret, const void *data, uint64_t size, uint16_t machine);

/*
 * The rule for the code at address (in the file's own numbering). 0; -1 where the table does not
 * reach there or makes no sense there. At most 17 rows are looked at.
 */
int kp_table_find(const struct kp_table *table, uint64_t address, struct kp_table_rule *ret);
