/* Frames out of code (daemon/unwind/flow.h), and the instructions that they are made of. */
#include "daemon/unwind/flow.h"

#include "tests/support/test.h"

#define CODE UINT64_C(0x401000)
#define DATA UINT64_C(0x500000)

/* A file of some code, and of data that nobody executes. */
struct program {
	struct kp_image image;
	struct kp_flow *flow;
};

static void add_segment(struct kp_image *image, uint64_t start, const void *data, size_t size,
			bool executable)
{
	image->segment[image->segment_count++] = (struct kp_image_segment){
		.start = start,
		.end = start + size,
		.data = data,
		.data_size = size,
		.executable = executable,
	};
}

static void begin(struct program *p, const void *code, size_t size)
{
	*p = (struct program){ .image = { .name = "test", .arch = &kp_arch_x86_64 } };
	add_segment(&p->image, CODE, code, size, true);
	p->flow = kp_flow_create(&p->image);
	cr_assert_not_null(p->flow);
	cr_assert_eq(kp_flow_add_range(p->flow, CODE, CODE + size), 0);
}

/* All of the code, from one function at its first byte. */
static void read_code(struct program *p, const void *code, size_t size)
{
	begin(p, code, size);
	kp_flow_add_function(p->flow, CODE, KP_FLOW_NAMED);
	cr_assert_eq(kp_flow_run(p->flow), 0);
}
#define READ(p, ...)                                                                               \
	static const uint8_t code[] = { __VA_ARGS__ };                                             \
	read_code(p, code, sizeof(code))

static struct kp_table_rule rule_at(const struct program *p, uint64_t off)
{
	struct kp_x86_frame frame;
	uint8_t length;

	if (!kp_flow_frame(p->flow, CODE + off, &frame, &length))
		return (struct kp_table_rule){ .cfa = KP_CFA_GAP };
	return kp_x86_frame_rule(&frame);
}

static void expect_sp(const struct program *p, uint64_t off, int32_t sp)
{
	struct kp_table_rule rule = rule_at(p, off);

	cr_assert_eq(rule.cfa, KP_CFA_SP, "at %u: cfa %u", (unsigned)off, rule.cfa);
	cr_assert_eq(rule.cfa_off, sp, "at %u: sp + %d", (unsigned)off, rule.cfa_off);
	cr_assert_eq(rule.ra, KP_REG_CFA);
	cr_assert_eq(rule.ra_off, -8);
}

static void expect_unknown(const struct program *p, uint64_t off)
{
	cr_assert_eq(rule_at(p, off).cfa, KP_CFA_GAP, "at %u", (unsigned)off);
}

Test(flow, counts_what_is_pushed_and_reserved)
{
	struct program p;

	READ(&p, 0x41, 0x57, /* 0 push r15 */
	     0x55, /* 2 push rbp */
	     0x48, 0x83, 0xec, 0x18, /* 3 sub 24, rsp */
	     0x31, 0xed, /* 7 xor ebp, ebp */
	     0x48, 0x8d, 0x64, 0x24, 0x18, /* 9 lea 24(rsp), rsp */
	     0x5d, /* 14 pop rbp */
	     0x41, 0x5f, /* 15 pop r15 */
	     0xc3 /* 17 */);
	expect_sp(&p, 0, 8);
	expect_sp(&p, 2, 16);
	cr_assert_eq(rule_at(&p, 2).fp, KP_REG_SAME);
	expect_sp(&p, 3, 24);
	expect_sp(&p, 7, 48);
	expect_sp(&p, 9, 48);
	cr_assert_eq(rule_at(&p, 9).fp, KP_REG_CFA);
	cr_assert_eq(rule_at(&p, 9).fp_off, -24);
	expect_sp(&p, 14, 24);
	expect_sp(&p, 15, 16);
	cr_assert_eq(rule_at(&p, 15).fp, KP_REG_SAME);
	expect_sp(&p, 17, 8);
	kp_flow_destroy(p.flow);
}

Test(flow, goes_by_the_frame_pointer_where_there_is_one)
{
	struct program p;

	READ(&p, 0x55, /* 0 push rbp */
	     0x48, 0x89, 0xe5, /* 1 mov rsp, rbp */
	     0x48, 0x83, 0xe4, 0xe0, /* 4 and -32, rsp */
	     0x48, 0x29, 0xc4, /* 8 sub rax, rsp */
	     0xc9, /* 11 leave */
	     0xc3 /* 12 */);
	expect_sp(&p, 1, 16);
	for (uint64_t off = 4; off <= 11; off += off == 4 ? 4 : 3) {
		cr_assert_eq(rule_at(&p, off).cfa, KP_CFA_FP);
		cr_assert_eq(rule_at(&p, off).cfa_off, 16);
		cr_assert_eq(rule_at(&p, off).fp_off, -16);
	}
	expect_sp(&p, 12, 8);
	cr_assert_eq(rule_at(&p, 12).fp, KP_REG_SAME);
	kp_flow_destroy(p.flow);
}

Test(flow, knows_nothing_of_sp_that_comes_from_elsewhere)
{
	struct program p;

	READ(&p, 0x90, /* 0 */
	     0x48, 0x8b, 0x67, 0x30, /* 1 mov 48(rdi), rsp */
	     0x90, /* 5 */
	     0xff, 0x67, 0x38 /* 6 jmp *56(rdi) */);
	expect_sp(&p, 1, 8);
	expect_unknown(&p, 5);
	expect_unknown(&p, 6);
	kp_flow_destroy(p.flow);
}

Test(flow, knows_nothing_where_two_ways_disagree)
{
	struct program p;

	READ(&p, 0x74, 0x01, /* 0 je 3 */
	     0x50, /* 2 push rax */
	     0x90, /* 3 */
	     0xeb, 0xfe /* 4 jmp 4 */);
	expect_sp(&p, 2, 8);
	expect_unknown(&p, 3);
	expect_unknown(&p, 4);
	kp_flow_destroy(p.flow);
}

Test(flow, believes_nothing_of_a_function_that_contradicts_itself)
{
	struct program p;
	static const uint8_t pops[] = { 0x90, 0x58, 0xff, 0xe0 }; /* nop; pop rax; jmp *rax */
	static const uint8_t unknown[] = { 0x50, 0x06, 0xc3 }; /* push rax; (none); ret */

	READ(&p, 0x50, 0x74, 0x01, 0x90, 0xc3); /* push rax; je; nop; ret */
	for (uint64_t off = 0; off < 5; off++)
		expect_unknown(&p, off);
	kp_flow_destroy(p.flow);
	read_code(&p, pops, sizeof(pops));
	expect_unknown(&p, 0);
	kp_flow_destroy(p.flow);
	read_code(&p, unknown, sizeof(unknown));
	expect_unknown(&p, 0);
	kp_flow_destroy(p.flow);
}

Test(flow, goes_on_behind_calls_that_return_and_no_others)
{
	struct program p;

	READ(&p, 0x50, /* 0 push rax */
	     0xe8, 0x07, 0x00, 0x00, 0x00, /* 1 call 13 */
	     0xe8, 0x05, 0x00, 0x00, 0x00, /* 6 call 16 */
	     0x90, 0x90, /* 11: not reached */
	     0x31, 0xc0, 0xc3, /* 13 xor eax, eax; ret */
	     0xeb, 0xfe /* 16 jmp 16 */);
	expect_sp(&p, 6, 16);
	expect_unknown(&p, 11);
	expect_sp(&p, 13, 8);
	expect_sp(&p, 16, 8);
	kp_flow_destroy(p.flow);
}

Test(flow, follows_the_table_of_a_switch)
{
	static const uint8_t code[] = {
		0x50, /* 0 push rax */
		0x83, 0xff, 0x01, /* 1 cmp 1, edi */
		0x77, 0x14, /* 4 ja 26 */
		0x89, 0xff, /* 6 mov edi, edi */
		0x48, 0x8d, 0x15, 0xf1, 0xef, 0x0f, 0x00, /* 8 lea DATA, rdx */
		0x48, 0x63, 0x04, 0xba, /* 15 movslq (rdx,rdi,4), rax */
		0x48, 0x01, 0xd0, /* 19 add rdx, rax */
		0x3e, 0xff, 0xe0, /* 22 notrack jmp *rax */
		0x90, /* 25: not reached */
		0x58, /* 26 pop rax */
		0xc3, /* 27 */
		0x90, /* 28: not reached */
		0x50, /* 29 push rax */
		0xeb, 0xfe, /* 30 jmp 30 */
	};
	const int32_t table[] = { (int32_t)(CODE + 26 - DATA), (int32_t)(CODE + 29 - DATA),
				  (int32_t)(CODE + 25 - DATA) };
	struct program p;

	begin(&p, code, sizeof(code));
	add_segment(&p.image, DATA, table, sizeof(table), false);
	kp_flow_add_function(p.flow, CODE, KP_FLOW_NAMED);
	cr_assert_eq(kp_flow_run(p.flow), 0);
	expect_sp(&p, 26, 16);
	expect_sp(&p, 27, 8);
	expect_sp(&p, 29, 16);
	expect_sp(&p, 30, 24);
	expect_unknown(&p, 25); /* a third word that the bound does not reach */
	kp_flow_destroy(p.flow);
}

/* musl's __clone, from its system call on. */
Test(flow, finds_where_a_thread_begins)
{
	struct program p;

	READ(&p, 0x0f, 0x05, /* 0 syscall */
	     0x85, 0xc0, /* 2 test eax, eax */
	     0x75, 0x08, /* 4 jnz 14 */
	     0x31, 0xed, /* 6 xor ebp, ebp */
	     0x5f, /* 8 pop rdi */
	     0x41, 0xff, 0xd1, /* 9 call *r9 */
	     0xf4, 0x90, /* 12 hlt */
	     0xc3 /* 14 */);
	expect_sp(&p, 4, 8);
	cr_assert_eq(rule_at(&p, 6).cfa, KP_CFA_STOP);
	cr_assert_eq(rule_at(&p, 9).cfa, KP_CFA_STOP);
	cr_assert_eq(rule_at(&p, 12).cfa, KP_CFA_STOP);
	expect_sp(&p, 14, 8);
	kp_flow_destroy(p.flow);
}

Test(flow, knows_a_restorer_and_the_start)
{
	static const uint8_t start[] = { 0x48, 0x31, 0xed, 0x48, 0x89, 0xe7, 0xf4 };
	struct program p;

	READ(&p, 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05);
	cr_assert_eq(rule_at(&p, 0).cfa, KP_CFA_SIGNAL);
	cr_assert_eq(rule_at(&p, 7).cfa, KP_CFA_SIGNAL);
	kp_flow_destroy(p.flow);
	begin(&p, start, sizeof(start));
	kp_flow_add_function(p.flow, CODE, KP_FLOW_STARTED);
	cr_assert_eq(kp_flow_run(p.flow), 0);
	cr_assert_eq(rule_at(&p, 3).cfa, KP_CFA_STOP);
	kp_flow_destroy(p.flow);
}

#define LENGTH(length_, ...)                                                                       \
	do {                                                                                       \
		static const uint8_t bytes[] = { __VA_ARGS__ };                                    \
		struct kp_x86_insn insn;                                                           \
                                                                                                   \
		cr_assert_eq(kp_x86_decode(bytes, sizeof(bytes), &insn), 0);                       \
		cr_assert_eq(insn.length, length_, "%u", insn.length);                             \
		for (size_t size = 0; size < (length_); size++)                                    \
			cr_assert_eq(kp_x86_decode(bytes, size, &insn), -1);                       \
	} while (0)

Test(x86_insn, has_the_length_that_the_manual_says)
{
	LENGTH(1, 0xc3, 0x90);
	LENGTH(5, 0xe8, 1, 2, 3, 4, 5);
	LENGTH(10, 0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9);
	LENGTH(4, 0x66, 0xb8, 1, 2, 3);
	LENGTH(3, 0xf6, 0xc0, 1, 2); /* test */
	LENGTH(2, 0xf6, 0xd0, 1, 2); /* not */
	LENGTH(8, 0x48, 0x8b, 0x04, 0x25, 1, 2, 3, 4, 5); /* SIB without base */
	LENGTH(7, 0x48, 0x8d, 0x05, 1, 2, 3, 4, 5); /* rip */
	LENGTH(11, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 1);
	LENGTH(6, 0x66, 0x0f, 0x3a, 0x0f, 0xc1, 8, 1); /* palignr */
	LENGTH(4, 0xc5, 0xfd, 0x6f, 0x07, 1); /* VEX */
	LENGTH(6, 0xc4, 0xe3, 0xfd, 0x00, 0xc0, 1, 2);
	LENGTH(7, 0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x46, 1, 2); /* EVEX */
}

Test(x86_insn, refuses_what_it_does_not_know)
{
	static const uint8_t unknown[][4] = {
		{ 0x06, 0, 0, 0 }, /* push es */
		{ 0xd5, 0, 0, 0 }, /* REX2 */
		{ 0x8f, 0xe8, 0, 0 }, /* XOP */
		{ 0x0f, 0x0f, 0, 0 }, /* 3DNow! */
		{ 0x66, 0xe9, 0, 0 }, /* a jump whose length depends */
		{ 0x62, 0xf8, 0x7c, 0x08 }, /* APX */
	};
	struct kp_x86_insn insn;

	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		cr_assert_eq(kp_x86_decode(unknown[i], sizeof(unknown[i]), &insn), -1, "%zu", i);
}
