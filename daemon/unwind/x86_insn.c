/* x86-64 instructions: see x86_insn.h. Runs in the daemon. */
#include "daemon/unwind/x86_insn.h"

#include "daemon/unwind/bytes.h"

/*
 * What follows an opcode, by map:
 *	.	nothing			x	not known, or a prefix
 *	M	ModRM			b B	immediate of 1 byte (B: behind ModRM)
 *	z Z	of 2 or 4 (Z: behind ModRM)	v	of 2, 4 or 8
 *	w	of 2			e	of 3
 *	j J	jump by 1 or 4 bytes	a	absolute address
 *	g G	ModRM; test has an immediate of 1 (G: 2 or 4) as well
 */
static const char one_byte[] = "MMMMbzxxMMMMbzxx" /* 00 */
			       "MMMMbzxxMMMMbzxx" /* 10 */
			       "MMMMbzxxMMMMbzxx" /* 20 */
			       "MMMMbzxxMMMMbzxx" /* 30 */
			       "xxxxxxxxxxxxxxxx" /* 40 */
			       "................" /* 50 */
			       "xxxMxxxxzZbB...." /* 60 */
			       "jjjjjjjjjjjjjjjj" /* 70 */
			       "BZxBMMMMMMMMMMMM" /* 80 */
			       "..........x....." /* 90 */
			       "aaaa....bz......" /* a0 */
			       "bbbbbbbbvvvvvvvv" /* b0 */
			       "BBw.xxBZe.w..bx." /* c0 */
			       "MMMMxxx.MMMMMMMM" /* d0 */
			       "jjjjbbbbJJxj...." /* e0 */
			       "x.xx..gG......MM"; /* f0 */
static const char two_bytes[] = "MMMMx.....x.xM.x" /* 00 */
				"MMMMMMMMMMMMMMMM" /* 10 */
				"MMMMxxxxMMMMMMMM" /* 20 */
				"......x.xxxxxxxx" /* 30 */
				"MMMMMMMMMMMMMMMM" /* 40 */
				"MMMMMMMMMMMMMMMM" /* 50 */
				"MMMMMMMMMMMMMMMM" /* 60 */
				"BBBBMMM.xxxxMMMM" /* 70 */
				"JJJJJJJJJJJJJJJJ" /* 80 */
				"MMMMMMMMMMMMMMMM" /* 90 */
				"...MBMxx...MBMMM" /* a0 */
				"MMMMMMMMMMBMMMMM" /* b0 */
				"MMBMBBBM........" /* c0 */
				"MMMMMMMMMMMMMMMM" /* d0 */
				"MMMMMMMMMMMMMMMM" /* e0 */
				"MMMMMMMMMMMMMMMM"; /* f0 */

enum { REX_B = 1, REX_X = 2, REX_R = 4, REX_W = 8 };

/* What has been read so far. */
struct reader {
	struct kp_bytes bytes;
	uint8_t rex; /* bits of REX, or of VEX the right way up */
	bool address32;
	bool evex;
};

static int64_t read_signed(struct reader *r, unsigned size)
{
	switch (size) {
	case 1:
		return (int8_t)kp_bytes_u8(&r->bytes);
	case 2:
		return (int16_t)kp_bytes_u16(&r->bytes);
	case 4:
		return (int32_t)kp_bytes_u32(&r->bytes);
	default:
		return (int64_t)kp_bytes_u64(&r->bytes);
	}
}

/* Legacy prefixes and REX; the byte behind them. */
static uint8_t read_prefixes(struct reader *r, struct kp_x86_insn *insn)
{
	for (;;) {
		uint8_t byte = kp_bytes_u8(&r->bytes);

		switch (byte) {
		case 0x66:
			insn->size16 = true;
			break;
		case 0x67:
			r->address32 = true;
			insn->odd_address = true;
			break;
		case 0xf2:
		case 0xf3:
			insn->repeat = true;
			break;
		case 0x64:
		case 0x65:
			insn->odd_address = true;
			break;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0xf0:
			break;
		default:
			if ((byte & 0xf0) != 0x40)
				return byte;
			/* It counts only right before the opcode; nobody writes it elsewhere. */
			r->rex = byte & 0xf;
			insn->has_rex = true;
			return kp_bytes_u8(&r->bytes);
		}
		if (r->bytes.cut)
			return 0;
	}
}

/* What stands for the prefixes 66, F3 and F2. */
static void put_prefix(struct kp_x86_insn *insn, uint8_t pp)
{
	insn->size16 = pp == 1;
	insn->repeat = pp >= 2;
}

/* The prefix's bits R, X and B are inverted. */
static bool read_vex(struct reader *r, struct kp_x86_insn *insn, uint8_t first)
{
	uint8_t second = kp_bytes_u8(&r->bytes), third;

	insn->vex = true;
	r->rex = second & 0x80 ? 0 : REX_R;
	if (first == 0xc5) {
		insn->map = KP_X86_0F;
		third = second;
	} else {
		third = kp_bytes_u8(&r->bytes);
		r->rex |= (uint8_t)((second & 0x40 ? 0 : REX_X) | (second & 0x20 ? 0 : REX_B) |
				    (third & 0x80 ? REX_W : 0));
		insn->map = second & 0x1f;
	}
	insn->vvvv = (uint8_t)(~third >> 3 & 0xf);
	put_prefix(insn, third & 3);
	return insn->map >= KP_X86_0F && insn->map <= KP_X86_0F3A;
}

static bool read_evex(struct reader *r, struct kp_x86_insn *insn)
{
	uint8_t first = kp_bytes_u8(&r->bytes), second = kp_bytes_u8(&r->bytes);

	kp_bytes_u8(&r->bytes);
	insn->vex = true;
	r->evex = true;
	r->rex = (uint8_t)((first & 0x80 ? 0 : REX_R) | (first & 0x40 ? 0 : REX_X) |
			   (first & 0x20 ? 0 : REX_B) | (second & 0x80 ? REX_W : 0));
	insn->map = first & 7;
	insn->vvvv = (uint8_t)(~second >> 3 & 0xf);
	put_prefix(insn, second & 3);
	/* Bits that are fixed: other values are APX. */
	return !(first & 8) && (second & 4) &&
	       ((insn->map >= KP_X86_0F && insn->map <= KP_X86_0F3A) || insn->map == KP_X86_MAP5 ||
		insn->map == KP_X86_MAP6);
}

/* Prefixes and opcode. False: not known. */
static bool read_opcode(struct reader *r, struct kp_x86_insn *insn)
{
	uint8_t byte = read_prefixes(r, insn);
	bool plain = !insn->size16 && !insn->repeat && !insn->has_rex;

	if (byte == 0xc5 || byte == 0xc4 || byte == 0x62) {
		if (!plain || !(byte == 0x62 ? read_evex(r, insn) : read_vex(r, insn, byte)))
			return false;
		byte = kp_bytes_u8(&r->bytes);
	} else if (byte == 0x0f) {
		insn->map = KP_X86_0F;
		byte = kp_bytes_u8(&r->bytes);
		if (byte == 0x38 || byte == 0x3a) {
			insn->map = byte == 0x38 ? KP_X86_0F38 : KP_X86_0F3A;
			byte = kp_bytes_u8(&r->bytes);
		}
	}
	insn->opcode = byte;
	insn->rm = (uint8_t)((byte & 7) | (r->rex & REX_B ? 8 : 0));
	insn->wide = r->rex & REX_W;
	return !r->bytes.cut;
}

static char form_of(const struct kp_x86_insn *insn, bool evex)
{
	switch (insn->map) {
	case KP_X86_ONE_BYTE:
		return one_byte[insn->opcode];
	case KP_X86_0F:
		if (insn->vex && ((insn->opcode & 0xf0) == 0x80 || insn->opcode < 0x10))
			return 'x';
		if (evex && insn->opcode >= 0x78 && insn->opcode <= 0x7b)
			return 'M';
		return two_bytes[insn->opcode];
	case KP_X86_0F3A:
		return 'B';
	default:
		return 'M';
	}
}

static void read_sib(struct reader *r, struct kp_x86_insn *insn)
{
	uint8_t sib = kp_bytes_u8(&r->bytes);
	uint8_t index = (uint8_t)((sib >> 3 & 7) | (r->rex & REX_X ? 8 : 0));

	insn->scale = (uint8_t)(1 << (sib >> 6));
	insn->index = index == KP_X86_RSP ? KP_X86_NONE : index;
	insn->base = (uint8_t)((sib & 7) | (r->rex & REX_B ? 8 : 0));
	if ((sib & 7) == 5 && insn->mod == 0)
		insn->base = KP_X86_NONE;
}

static void read_modrm(struct reader *r, struct kp_x86_insn *insn)
{
	uint8_t byte = kp_bytes_u8(&r->bytes);

	insn->has_modrm = true;
	insn->mod = byte >> 6;
	insn->reg = (uint8_t)((byte >> 3 & 7) | (r->rex & REX_R ? 8 : 0));
	insn->rm = (uint8_t)((byte & 7) | (r->rex & REX_B ? 8 : 0));
	if (insn->mod == 3)
		return;
	insn->index = KP_X86_NONE;
	insn->base = insn->rm;
	if ((byte & 7) == 4)
		read_sib(r, insn);
	else if ((byte & 7) == 5 && insn->mod == 0)
		insn->base = KP_X86_RIP;
	if (insn->mod == 1)
		insn->disp = read_signed(r, 1);
	else if (insn->mod == 2 || insn->base == KP_X86_RIP || insn->base == KP_X86_NONE)
		insn->disp = read_signed(r, 4);
}

static void read_immediate(struct reader *r, struct kp_x86_insn *insn, char form)
{
	unsigned z = insn->size16 && !insn->wide ? 2 : 4;

	switch (form) {
	case 'b':
	case 'B':
	case 'j':
		insn->imm = read_signed(r, 1);
		break;
	case 'z':
	case 'Z':
		insn->imm = read_signed(r, z);
		break;
	case 'v':
		insn->imm = read_signed(r, insn->wide ? 8 : z);
		break;
	case 'J':
		insn->imm = read_signed(r, 4);
		break;
	case 'w':
		insn->imm = read_signed(r, 2);
		break;
	case 'e':
		kp_bytes_take(&r->bytes, 3);
		break;
	case 'a':
		insn->imm = read_signed(r, r->address32 ? 4 : 8);
		break;
	case 'g':
	case 'G':
		if ((insn->reg & 7) < 2)
			insn->imm = read_signed(r, form == 'g' ? 1 : z);
		break;
	default:
		break;
	}
}

int kp_x86_decode(const uint8_t *code, size_t size, struct kp_x86_insn *ret)
{
	struct reader r = {
		.bytes = kp_bytes(code, size < KP_X86_LENGTH_MAX ? size : KP_X86_LENGTH_MAX),
	};
	char form;

	*ret = (struct kp_x86_insn){ .base = KP_X86_NONE, .index = KP_X86_NONE };
	if (!read_opcode(&r, ret))
		return -1;
	form = form_of(ret, r.evex);
	if (form == 'x')
		return -1;
	if ((form >= 'A' && form <= 'Z' && form != 'J') || form == 'g')
		read_modrm(&r, ret);
	read_immediate(&r, ret, form);
	/* XOP; and jumps whose length depends on the maker of the CPU. */
	if (ret->map == KP_X86_ONE_BYTE && ret->opcode == 0x8f && (ret->reg & 7))
		return -1;
	if (form == 'J' && ret->size16 && !ret->wide)
		return -1;
	ret->length = (uint8_t)(r.bytes.at - code);
	return r.bytes.cut ? -1 : 0;
}

#define BIT(register_) ((uint16_t)(1u << (register_)))
#define RAX_RDX (BIT(KP_X86_RAX) | BIT(KP_X86_RDX))

/* byte: of 8 bits. Without REX, numbers 4 to 7 are then the second bytes of 0 to 3. */
static uint16_t bit_of(const struct kp_x86_insn *insn, uint8_t number, bool byte)
{
	return BIT(byte && !insn->has_rex && number >= 4 && number < 8 ? number - 4 : number);
}

static uint16_t reg_bit(const struct kp_x86_insn *insn, bool byte)
{
	return bit_of(insn, insn->reg, byte);
}

static uint16_t rm_bit(const struct kp_x86_insn *insn, bool byte)
{
	return insn->mod == 3 || !insn->has_modrm ? bit_of(insn, insn->rm, byte) : 0;
}

/* add to cmp, opcodes 00 to 3f */
static uint16_t alu_writes(const struct kp_x86_insn *insn)
{
	bool byte = !(insn->opcode & 1);

	if ((insn->opcode & 0x38) == 0x38)
		return 0;
	switch (insn->opcode & 7) {
	case 0:
	case 1:
		return rm_bit(insn, byte);
	case 2:
	case 3:
		return reg_bit(insn, byte);
	default:
		return BIT(KP_X86_RAX);
	}
}

static uint16_t one_byte_writes(const struct kp_x86_insn *insn)
{
	uint8_t op = insn->opcode, group = insn->reg & 7;
	bool byte = !(op & 1);

	if (op < 0x40)
		return alu_writes(insn);
	switch (op) {
	case 0x58 ... 0x5f: /* pop */
	case 0xb8 ... 0xbf:
		return BIT(insn->rm);
	case 0xb0 ... 0xb7:
		return rm_bit(insn, true);
	case 0x63:
	case 0x69:
	case 0x6b:
	case 0x8d:
		return reg_bit(insn, false);
	case 0x8a:
	case 0x8b:
		return reg_bit(insn, byte);
	case 0x80:
	case 0x81:
	case 0x83:
		return group == 7 ? 0 : rm_bit(insn, byte);
	case 0x86:
	case 0x87:
		return reg_bit(insn, byte) | rm_bit(insn, byte);
	case 0x88:
	case 0x89:
	case 0xc0:
	case 0xc1:
	case 0xc6:
	case 0xc7:
	case 0xd0 ... 0xd3:
		return rm_bit(insn, byte);
	case 0x8c:
	case 0x8f:
		return rm_bit(insn, false);
	case 0x90 ... 0x97: /* xchg; 90 itself is nop */
		return insn->rm == KP_X86_RAX ? 0 : BIT(KP_X86_RAX) | BIT(insn->rm);
	case 0xf6:
	case 0xf7:
		if (group < 2)
			return 0;
		return group < 4 ? rm_bit(insn, byte) : RAX_RDX;
	case 0xfe:
	case 0xff:
		return group < 2 ? rm_bit(insn, byte) : 0;
	case 0x50 ... 0x57:
	case 0x68:
	case 0x6a:
	case 0x70 ... 0x7f:
	case 0x84:
	case 0x85:
	case 0x9c:
	case 0x9d:
	case 0xa8:
	case 0xa9:
	case 0xe8:
	case 0xe9:
	case 0xeb:
		return 0;
	default: /* string and port instructions, and whatever else has its registers fixed */
		return RAX_RDX | BIT(KP_X86_RCX) | BIT(KP_X86_RSI) | BIT(KP_X86_RDI);
	}
}

static uint16_t system_writes(const struct kp_x86_insn *insn)
{
	return RAX_RDX | BIT(KP_X86_RCX) | BIT(KP_X86_RBX) | BIT(11) | rm_bit(insn, false);
}

static uint16_t two_byte_writes(const struct kp_x86_insn *insn)
{
	uint8_t op = insn->opcode, group = insn->reg & 7;
	bool byte = !(op & 1);

	switch (op) {
	case 0x0d: /* prefetches and nops */
	case 0x18 ... 0x1d:
	case 0x1f:
	case 0x80 ... 0x8f:
	case 0xa0:
	case 0xa1:
	case 0xa3:
	case 0xa8:
	case 0xa9:
		return 0;
	case 0x1e: /* rdssp, or a nop */
		return group == 1 ? rm_bit(insn, false) : 0;
	case 0x02:
	case 0x03:
	case 0x40 ... 0x4f:
	case 0xaf:
	case 0xb2:
	case 0xb4 ... 0xb8:
	case 0xbc ... 0xbf:
		return reg_bit(insn, false);
	case 0x90 ... 0x9f:
		return rm_bit(insn, true);
	case 0xa4:
	case 0xa5:
	case 0xab:
	case 0xac:
	case 0xad:
	case 0xb3:
	case 0xbb:
		return rm_bit(insn, false);
	case 0xba:
		return group == 4 ? 0 : rm_bit(insn, false);
	case 0xb0:
	case 0xb1:
		return BIT(KP_X86_RAX) | rm_bit(insn, byte);
	case 0xc0:
	case 0xc1:
		return reg_bit(insn, byte) | rm_bit(insn, byte);
	case 0xc7:
		return RAX_RDX | rm_bit(insn, false);
	case 0xc8 ... 0xcf:
		return BIT(insn->rm);
	case 0x00:
	case 0x01:
	case 0x05:
	case 0x20 ... 0x23:
	case 0x30 ... 0x37:
	case 0xa2:
	case 0xae:
		return system_writes(insn);
	default:
		return 0;
	}
}

/* Of instructions for vectors and masks, and of those of VEX: what is a general register there. */
static uint16_t vector_writes(const struct kp_x86_insn *insn)
{
	uint8_t op = insn->opcode;

	switch (insn->map) {
	case KP_X86_0F:
	case KP_X86_MAP5:
		if (op == 0x7e)
			return insn->repeat ? 0 : rm_bit(insn, false);
		if (op == 0x78 || op == 0x79)
			return reg_bit(insn, false) | (insn->vex ? 0 : rm_bit(insn, false));
		if (op == 0x2c || op == 0x2d || op == 0x50 || op == 0xc5 || op == 0xd7 ||
		    (op == 0x93 && insn->vex))
			return reg_bit(insn, false);
		return 0;
	case KP_X86_0F38:
		if (op < 0xf0)
			return 0;
		return reg_bit(insn, false) | (insn->vex ? BIT(insn->vvvv) : 0);
	case KP_X86_0F3A:
		if (op >= 0x60 && op <= 0x63)
			return BIT(KP_X86_RCX);
		if (op >= 0x14 && op <= 0x17)
			return rm_bit(insn, false);
		return op == 0xf0 ? reg_bit(insn, false) : 0;
	default:
		return 0;
	}
}

uint16_t kp_x86_writes(const struct kp_x86_insn *insn)
{
	if (insn->map == KP_X86_ONE_BYTE)
		return one_byte_writes(insn);
	return vector_writes(insn) |
	       (insn->map == KP_X86_0F && !insn->vex ? two_byte_writes(insn) : 0);
}
