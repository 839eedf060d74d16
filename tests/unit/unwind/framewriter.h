/*
 * Small ELF files in memory with call frame sections or symbols in them, for each instruction and for what no
 * compiler would write. One executable segment of FRAMEWRITER_CODE_SIZE bytes at FRAMEWRITER_CODE,
 * of which the file has nothing (the table does not look at code), and the sections behind the
 * headers, in a segment of their own.
 */
#pragma once

#include "daemon/unwind/build.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#define FRAMEWRITER_CODE 0x401000u
#define FRAMEWRITER_CODE_SIZE 0x40000u
#define FRAMEWRITER_FRAMES 0x500000u /* address of .eh_frame */
#define FRAMEWRITER_HDR 0x580000u /* address of .eh_frame_hdr */
#define FRAMEWRITER_GOT 0x600000u

/* Bytes of a program or an expression: BYTES(DW_CFA_def_cfa, 7, 8). */
struct framewriter_bytes {
	const uint8_t *data;
	size_t size;
};
#define BYTES(...)                                                                                 \
	((struct framewriter_bytes){ (const uint8_t[]){ __VA_ARGS__ },                             \
				     sizeof((const uint8_t[]){ __VA_ARGS__ }) })
#define NO_BYTES ((struct framewriter_bytes){ NULL, 0 })

struct framewriter {
	uint16_t machine;
	uint8_t data[0x2000]; /* of the section that is being written */
	size_t size;
};

void framewriter_u8(struct framewriter *w, uint8_t value);
void framewriter_u16(struct framewriter *w, uint16_t value);
void framewriter_u32(struct framewriter *w, uint32_t value);
void framewriter_u64(struct framewriter *w, uint64_t value);
void framewriter_put(struct framewriter *w, struct framewriter_bytes bytes);

/* An entry: the length is written by _end, of what lies between. Returns its offset. */
size_t framewriter_begin(struct framewriter *w);
void framewriter_end(struct framewriter *w, size_t entry);

/*
 * A CIE of .eh_frame: version 1, augmentation "zR" with pc-relative sdata4, alignments 1 and -8,
 * return address column 16 (x86-64), 30 (aarch64), 1 (riscv64). Its offset.
 */
size_t framewriter_cie(struct framewriter *w, struct framewriter_bytes program);

/* The same with "zRS". */
size_t framewriter_signal_cie(struct framewriter *w, struct framewriter_bytes program);

/* An FDE of such a CIE, for size bytes at FRAMEWRITER_CODE + start. Its offset. */
size_t framewriter_fde(struct framewriter *w, size_t cie, uint64_t start, uint32_t size,
		       struct framewriter_bytes program);

/* What the file has beside the one section with what was written. */
enum framewriter_parts {
	FRAMEWRITER_SECTIONS = 1, /* section headers */
	FRAMEWRITER_EH_FRAME_HDR = 2, /* PT_GNU_EH_FRAME */
	FRAMEWRITER_DEBUG = 4, /* it is .debug_frame, not .eh_frame */
	FRAMEWRITER_COMPRESSED = 8, /* and compressed */
	FRAMEWRITER_GO = 16, /* .note.go.buildid */
	FRAMEWRITER_SYMBOLS = 32, /* it is .symtab and .strtab, both of them the whole of it */
};

/* The file: malloc()ed, of exactly *ret_size bytes. */
uint8_t *framewriter_file(const struct framewriter *w, unsigned parts, size_t *ret_size);

/* What became of it. */
struct framewriter_table {
	int r; /* of kp_unwind_build() */
	struct kp_err err;
	struct kp_unwind_stats stats;
	struct kp_table table;
	void *bytes;
};

/* Writes the file, builds its table and checks that it can be opened. */
void framewriter_build(const struct framewriter *w, unsigned parts, struct framewriter_table *ret);
void framewriter_table_deinit(struct framewriter_table *table);

/* The rule at FRAMEWRITER_CODE + off; all 0xff where the table has none. */
struct kp_table_rule framewriter_rule(const struct framewriter_table *table, uint64_t off);
