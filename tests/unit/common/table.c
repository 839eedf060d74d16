/*
 * The reader of unwind tables: what it finds, and what it does with tables that are none. Tables
 * lie in memory of exactly their size, so that the address sanitizer sees what is read beside them.
 */
#include "tests/support/test.h"

#include "common/unwind/table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MACHINE 62
#define FIRST UINT64_C(0x7f0000)
#define RULES_MAX 64
#define PAGES_MAX 5
#define ROWS_MAX 400

/* A table before it is bytes. */
struct plan {
	struct kp_table_rule rules[RULES_MAX];
	uint32_t pages[PAGES_MAX + 1];
	struct kp_table_row rows[ROWS_MAX];
	uint32_t rule_count, page_count, row_count;
};

struct bytes {
	uint8_t *data;
	size_t size;
};

static void put(uint8_t **to, const void *from, size_t size)
{
	memcpy(*to, from, size);
	*to += size;
}

static struct bytes write_table(const struct plan *plan)
{
	struct kp_table_head head = {
		.magic = KP_TABLE_MAGIC,
		.version = KP_TABLE_VERSION,
		.machine = MACHINE,
		.first = FIRST,
		.rule_count = plan->rule_count,
		.page_count = plan->page_count,
		.row_count = plan->row_count,
	};
	struct bytes table = { .size = sizeof(head) + plan->rule_count * sizeof(plan->rules[0]) +
				       (plan->page_count + 1) * sizeof(plan->pages[0]) +
				       plan->row_count * sizeof(plan->rows[0]) };
	uint8_t *to;

	head.bytes = table.size;
	to = table.data = malloc(table.size);
	cr_assert_not_null(to);
	put(&to, &head, sizeof(head));
	put(&to, plan->rules, plan->rule_count * sizeof(plan->rules[0]));
	put(&to, plan->pages, (plan->page_count + 1) * sizeof(plan->pages[0]));
	put(&to, plan->rows, plan->row_count * sizeof(plan->rows[0]));
	return table;
}

static void add_page(struct plan *plan)
{
	plan->pages[++plan->page_count] = plan->row_count;
}

static void add_row(struct plan *plan, uint32_t pc_low, uint32_t rule)
{
	plan->rows[plan->row_count++] =
		(struct kp_table_row){ .pc_low = (uint16_t)pc_low, .rule = (uint16_t)rule };
}

/* Rule n has n as its offset. Pages: three rows, no code, one row, a row at each end. */
static struct plan small_plan(void)
{
	struct plan plan = { .rule_count = 6 };

	for (uint32_t i = 0; i < plan.rule_count; i++)
		plan.rules[i] = (struct kp_table_rule){ .cfa = KP_CFA_SP, .cfa_off = (int32_t)i };
	add_row(&plan, 0, 0);
	add_row(&plan, 0x10, 1);
	add_row(&plan, 0x11, 2);
	add_page(&plan);
	add_page(&plan);
	add_row(&plan, 0, 3);
	add_page(&plan);
	add_row(&plan, 0, 4);
	add_row(&plan, 0xffff, 5);
	add_page(&plan);
	return plan;
}

static void open_table(struct kp_table *table, const struct bytes *bytes)
{
	cr_assert_eq(kp_table_open(table, bytes->data, bytes->size, MACHINE), 0);
}

/* -1: none */
static int found(const struct kp_table *table, uint64_t address)
{
	struct kp_table_rule rule;

	return kp_table_find(table, address, &rule) ? -1 : rule.cfa_off;
}

Test(table, finds_the_last_row_that_is_not_above_the_address)
{
	struct plan plan = small_plan();
	struct bytes bytes = write_table(&plan);
	struct kp_table table;

	open_table(&table, &bytes);
	cr_assert_eq(found(&table, FIRST), 0);
	cr_assert_eq(found(&table, FIRST + 0xf), 0);
	cr_assert_eq(found(&table, FIRST + 0x10), 1);
	cr_assert_eq(found(&table, FIRST + 0x11), 2);
	cr_assert_eq(found(&table, FIRST + 0xffff), 2);
	cr_assert_eq(found(&table, FIRST + 0x20000), 3);
	cr_assert_eq(found(&table, FIRST + 0x2ffff), 3);
	cr_assert_eq(found(&table, FIRST + 0x3fffe), 4);
	cr_assert_eq(found(&table, FIRST + 0x3ffff), 5);
	free(bytes.data);
}

Test(table, has_no_rule_outside_of_its_pages)
{
	struct plan plan = small_plan();
	struct bytes bytes = write_table(&plan);
	struct kp_table table;

	open_table(&table, &bytes);
	cr_assert_eq(found(&table, FIRST - 1), -1);
	cr_assert_eq(found(&table, 0), -1);
	cr_assert_eq(found(&table, FIRST + 0x10000), -1); /* no code */
	cr_assert_eq(found(&table, FIRST + 0x1ffff), -1);
	cr_assert_eq(found(&table, FIRST + 0x40000), -1);
	cr_assert_eq(found(&table, UINT64_MAX), -1);
	free(bytes.data);
}

Test(table, gives_the_whole_rule)
{
	static const struct kp_table_rule rule = { 1, 2, 3, 4, -5, -6, 7, INT32_MIN, -8, 9 };
	struct plan plan = small_plan();
	struct kp_table_rule got;
	struct kp_table table;
	struct bytes bytes;

	plan.rules[2] = rule;
	bytes = write_table(&plan);
	open_table(&table, &bytes);
	cr_assert_eq(kp_table_find(&table, FIRST + 0x11, &got), 0);
	cr_assert_arr_eq(&got, &rule, sizeof(rule));
	free(bytes.data);
}

Test(table, without_pages_or_rows_has_no_rules)
{
	struct plan plan = { .rule_count = 1 };
	struct kp_table table;
	struct bytes bytes;

	bytes = write_table(&plan);
	open_table(&table, &bytes);
	cr_assert_eq(found(&table, FIRST), -1);
	free(bytes.data);
	add_page(&plan);
	bytes = write_table(&plan);
	open_table(&table, &bytes);
	cr_assert_eq(found(&table, FIRST), -1);
	free(bytes.data);
}

/* ---- against a search that is too simple to be wrong ---- */

static uint64_t random_state = 88172645463325252;

static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 20) % n;
}

static struct plan random_plan(void)
{
	struct plan plan = { .rule_count = 1 + random_below(RULES_MAX) };
	uint32_t pages = 1 + random_below(PAGES_MAX);

	for (uint32_t i = 0; i < plan.rule_count; i++)
		plan.rules[i] = (struct kp_table_rule){ .cfa = KP_CFA_SP, .cfa_off = (int32_t)i };
	for (uint32_t page = 0; page < pages; page++) {
		uint32_t rows = random_below(4) ? random_below(ROWS_MAX / PAGES_MAX) : 0;
		uint32_t step = rows ? 0xffff / rows : 0;

		for (uint32_t i = 0, pc_low = 0; i < rows; i++) {
			add_row(&plan, pc_low, random_below(plan.rule_count));
			pc_low += 1 + random_below(step);
		}
		add_page(&plan);
	}
	return plan;
}

static int found_by_hand(const struct plan *plan, uint64_t address)
{
	uint64_t page = (address - FIRST) / 0x10000;
	int rule = -1;

	if (address < FIRST || page >= plan->page_count)
		return -1;
	for (uint32_t i = plan->pages[page]; i < plan->pages[page + 1]; i++) {
		if (plan->rows[i].pc_low <= address % 0x10000)
			rule = plan->rows[i].rule;
	}
	return rule;
}

Test(table, finds_what_a_linear_search_finds)
{
	for (int round = 0; round < 300; round++) {
		struct plan plan = random_plan();
		struct bytes bytes = write_table(&plan);
		uint64_t end = FIRST + plan.page_count * UINT64_C(0x10000);
		struct kp_table table;

		open_table(&table, &bytes);
		for (int i = 0; i < 300; i++) {
			uint64_t address = FIRST + random_below((uint32_t)(end - FIRST) + 10);

			cr_assert_eq(found(&table, address), found_by_hand(&plan, address));
		}
		for (uint32_t page = 0; page < plan.page_count; page++) {
			for (uint32_t i = plan.pages[page]; i < plan.pages[page + 1]; i++) {
				uint64_t address = FIRST + page * 0x10000ull + plan.rows[i].pc_low;

				cr_assert_eq(found(&table, address), plan.rows[i].rule);
				cr_assert_eq(found(&table, address - 1),
					     found_by_hand(&plan, address - 1));
			}
		}
		free(bytes.data);
	}
}

/* ---- what is none ---- */

static int opens(const struct bytes *bytes, struct kp_table_head head)
{
	struct kp_table table;

	memcpy(bytes->data, &head, sizeof(head));
	return kp_table_open(&table, bytes->data, bytes->size, MACHINE) == 0;
}

Test(table, head_must_describe_a_table_of_this_machine)
{
	struct plan plan = small_plan();
	struct bytes bytes = write_table(&plan);
	struct kp_table_head head, bad;

	memcpy(&head, bytes.data, sizeof(head));
	cr_assert(opens(&bytes, head));
	bad = head, bad.magic++;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.version++;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.machine++;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.first++;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.bytes++;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.bytes--;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.rule_count = 0;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.rule_count = 65537;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.rule_count++;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.page_count++;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.page_count = UINT32_MAX;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.row_count++;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.row_count = UINT32_MAX;
	cr_assert_not(opens(&bytes, bad));
	bad = head, bad.bytes = UINT64_MAX, bad.row_count = UINT32_MAX;
	cr_assert_not(opens(&bytes, bad));
	free(bytes.data);
}

Test(table, has_as_many_rules_as_a_row_can_name)
{
	size_t size = sizeof(struct kp_table_head) + 65537 * sizeof(struct kp_table_rule) + 4;
	struct kp_table_head head = {
		.magic = KP_TABLE_MAGIC,
		.version = KP_TABLE_VERSION,
		.machine = MACHINE,
		.bytes = size,
		.rule_count = 65536,
	};
	struct bytes bytes = { .data = calloc(1, size), .size = size };

	cr_assert_not_null(bytes.data);
	cr_assert(opens(&bytes, head));
	head.rule_count = 65537;
	cr_assert_not(opens(&bytes, head));
	free(bytes.data);
}

/* Its second page would be where addresses start again. */
Test(table, ends_with_the_address_space)
{
	struct plan plan = small_plan();
	struct bytes bytes = write_table(&plan);
	struct kp_table_head head;
	struct kp_table table;

	memcpy(&head, bytes.data, sizeof(head));
	head.first = UINT64_MAX - 0xffff;
	memcpy(bytes.data, &head, sizeof(head));
	open_table(&table, &bytes);
	cr_assert_eq(found(&table, UINT64_MAX), 2);
	cr_assert_eq(found(&table, 0x10000), -1);
	free(bytes.data);
}

Test(table, may_be_followed_by_other_bytes)
{
	struct plan plan = small_plan();
	struct bytes bytes = write_table(&plan);
	struct kp_table table;

	bytes.data = realloc(bytes.data, bytes.size + 12);
	cr_assert_eq(kp_table_open(&table, bytes.data, bytes.size + 12, MACHINE), 0);
	cr_assert_eq(found(&table, FIRST + 0x3ffff), 5);
	free(bytes.data);
}

/* Each page, at its rows and around them. */
static void look_everywhere(const struct kp_table *table)
{
	static const uint32_t lows[] = { 0, 1, 0xf, 0x10, 0x11, 0x12, 0x8000, 0xfffe, 0xffff };
	struct kp_table_rule rule;

	for (uint64_t page = 0; page < PAGES_MAX + 2; page++) {
		for (size_t i = 0; i < sizeof(lows) / sizeof(lows[0]); i++)
			kp_table_find(table, table->first + page * 0x10000 + lows[i], &rule);
	}
	kp_table_find(table, table->first - 1, &rule);
	kp_table_find(table, UINT64_MAX, &rule);
}

Test(table, cut_off_anywhere_is_none)
{
	struct plan plan = small_plan();
	struct bytes whole = write_table(&plan);

	for (size_t size = 0; size < whole.size; size++) {
		struct kp_table_head head;
		struct kp_table table;
		uint8_t *data = malloc(size + !size);

		memcpy(data, whole.data, size);
		cr_assert_eq(kp_table_open(&table, data, size, MACHINE), -1);
		/* The head as if it were all there was meant to be. */
		if (size >= sizeof(head)) {
			memcpy(&head, data, sizeof(head));
			head.bytes = size;
			memcpy(data, &head, sizeof(head));
			cr_assert_eq(kp_table_open(&table, data, size, MACHINE), -1);
		}
		free(data);
	}
	free(whole.data);
}

Test(table, with_any_byte_changed_stays_within_itself)
{
	struct plan plan = small_plan();
	struct bytes bytes = write_table(&plan);
	uint32_t opened = 0;

	for (size_t at = 0; at < bytes.size; at++) {
		uint8_t was = bytes.data[at];

		for (uint32_t change = 1; change < 256; change++) {
			struct kp_table table;

			bytes.data[at] = (uint8_t)(was ^ change);
			if (kp_table_open(&table, bytes.data, bytes.size, MACHINE))
				continue;
			opened++;
			look_everywhere(&table);
		}
		bytes.data[at] = was;
	}
	cr_assert_gt(opened, 10000);
	free(bytes.data);
}

Test(table, of_noise_behind_a_good_head_stays_within_itself)
{
	struct plan plan = small_plan();
	struct bytes bytes = write_table(&plan);
	struct kp_table table;

	for (int round = 0; round < 2000; round++) {
		for (size_t i = sizeof(struct kp_table_head); i < bytes.size; i++)
			bytes.data[i] = (uint8_t)random_below(round % 2 ? 256 : 8);
		open_table(&table, &bytes);
		look_everywhere(&table);
	}
	free(bytes.data);
}

Test(table, with_rows_that_lie_has_no_rule_there)
{
	struct plan plan = small_plan();
	struct kp_table table;
	struct bytes bytes;

	plan.rows[1].rule = 6; /* there are six, from 0 */
	plan.rows[3].pc_low = 1; /* the page does not start with a row */
	plan.pages[4] = plan.row_count + 1;
	bytes = write_table(&plan);
	open_table(&table, &bytes);
	cr_assert_eq(found(&table, FIRST), 0);
	cr_assert_eq(found(&table, FIRST + 0x10), -1);
	cr_assert_eq(found(&table, FIRST + 0x20000), -1);
	cr_assert_eq(found(&table, FIRST + 0x20001), 3);
	cr_assert_eq(found(&table, FIRST + 0x30000), -1);
	free(bytes.data);

	plan.pages[1] = 0; /* backwards */
	plan.pages[0] = 3;
	bytes = write_table(&plan);
	open_table(&table, &bytes);
	cr_assert_eq(found(&table, FIRST), -1);
	free(bytes.data);
}
