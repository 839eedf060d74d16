/* The table's writer: see rows.h. Runs in the daemon. */
#include "daemon/unwind/rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PAGE (UINT64_C(1) << KP_TABLE_PAGE_SHIFT)
#define RULE_MAX 65536u
#define SLOT_COUNT_MIN 256u /* a power of two */
#define ROW_MAX ((size_t)1 << 30) /* 4 GiB of them */
#define PROBE_MAX 256 /* of slots; more only where somebody has chosen the rules for it */

/* Rules that are always there. */
enum { RULE_GAP, RULE_INVALID };

struct kp_rows {
	uint64_t first, end; /* first: start of a page */
	uint64_t since; /* from here on current holds */
	uint32_t current; /* rule */
	uint32_t page_count, pages_begun;
	uint32_t *pages;
	struct kp_table_row *row;
	size_t row_count, row_room;
	struct kp_table_rule *rule;
	uint32_t rule_count, rule_room;
	uint32_t *slot; /* hash -> rule + 1, or 0 */
	uint32_t slot_count; /* a power of two, at least twice the rules */
	uint64_t cfa_bytes[KP_CFA_COUNT], lost_fp_bytes;
};

void kp_rows_destroy(struct kp_rows *rows)
{
	if (!rows)
		return;
	free(rows->pages);
	free(rows->row);
	free(rows->rule);
	free(rows->slot);
	free(rows);
}

static uint32_t hash(const struct kp_table_rule *rule)
{
	uint64_t word[4] = { 0 }, h = 0;

	memcpy(word, rule, sizeof(*rule));
	for (int i = 0; i < 4; i++) {
		h = (h ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	return (uint32_t)h;
}

static int add_rule(struct kp_rows *rows, const struct kp_table_rule *rule)
{
	if (rows->rule_count == rows->rule_room) {
		uint32_t room = rows->rule_room ? 2 * rows->rule_room : 128;
		void *grown = reallocarray(rows->rule, room, sizeof(*rows->rule));

		if (!grown)
			return -KP_ENOMEM;
		rows->rule = grown;
		rows->rule_room = room;
	}
	rows->rule[rows->rule_count++] = *rule;
	return 0;
}

/* The slot that has the rule or could have it; NULL: it would take too long. */
static uint32_t *find_slot(const struct kp_rows *rows, const struct kp_table_rule *rule)
{
	uint32_t at = hash(rule);

	for (int i = 0; i < PROBE_MAX; i++, at++) {
		uint32_t *slot = &rows->slot[at % rows->slot_count];

		if (!*slot || memcmp(&rows->rule[*slot - 1], rule, sizeof(*rule)) == 0)
			return slot;
	}
	return NULL;
}

static int grow_slots(struct kp_rows *rows)
{
	uint32_t count = rows->slot_count ? 2 * rows->slot_count : SLOT_COUNT_MIN;
	uint32_t *grown = calloc(count, sizeof(*grown));

	if (!grown)
		return -KP_ENOMEM;
	free(rows->slot);
	rows->slot = grown;
	rows->slot_count = count;
	for (uint32_t i = 0; i < rows->rule_count; i++) {
		uint32_t *slot = find_slot(rows, &rows->rule[i]);

		if (slot)
			*slot = i + 1;
	}
	return 0;
}

/* The rule's number; INVALID's where there are no numbers left, or none to be found in time. */
static int intern(struct kp_rows *rows, const struct kp_table_rule *rule, uint32_t *ret)
{
	uint32_t *slot;
	int r = 0;

	if (2 * (rows->rule_count + 1) > rows->slot_count)
		r = grow_slots(rows);
	if (r < 0)
		return r;
	slot = find_slot(rows, rule);
	*ret = RULE_INVALID;
	if (!slot || (!*slot && rows->rule_count == RULE_MAX))
		return 0;
	if (!*slot) {
		r = add_rule(rows, rule);
		if (r < 0)
			return r;
		*slot = rows->rule_count;
	}
	*ret = *slot - 1;
	return 0;
}

struct kp_rows *kp_rows_create(uint64_t first, uint64_t end)
{
	static const struct kp_table_rule gap = { .cfa = KP_CFA_GAP },
					  invalid = { .cfa = KP_CFA_INVALID };
	struct kp_rows *rows = calloc(1, sizeof(*rows));
	uint32_t n;

	if (!rows)
		return NULL;
	rows->first = first & ~(PAGE - 1);
	rows->end = end;
	rows->since = rows->first;
	rows->page_count = (uint32_t)((end - rows->first + PAGE - 1) / PAGE);
	rows->pages = malloc((rows->page_count + (size_t)1) * sizeof(*rows->pages));
	if (!rows->pages || intern(rows, &gap, &n) < 0 || intern(rows, &invalid, &n) < 0) {
		kp_rows_destroy(rows);
		return NULL;
	}
	return rows;
}

static int add_row(struct kp_rows *rows, uint64_t address, uint32_t rule)
{
	if (rows->row_count == rows->row_room) {
		size_t room = rows->row_room ? 2 * rows->row_room : 1024;
		void *grown =
			room > ROW_MAX ? NULL : reallocarray(rows->row, room, sizeof(*rows->row));

		if (!grown)
			return -KP_ENOMEM;
		rows->row = grown;
		rows->row_room = room;
	}
	rows->row[rows->row_count++] = (struct kp_table_row){
		.pc_low = (uint16_t)(address & (PAGE - 1)),
		.rule = (uint16_t)rule,
	};
	return 0;
}

/* Begins the pages up to address's, each with a row of the rule that goes on into it. */
static int begin_pages(struct kp_rows *rows, uint64_t address)
{
	while (rows->pages_begun < rows->page_count) {
		uint64_t start = rows->first + rows->pages_begun * PAGE;
		int r = 0;

		if (start > address)
			break;
		rows->pages[rows->pages_begun++] = (uint32_t)rows->row_count;
		if (start < address)
			r = add_row(rows, start, rows->current);
		if (r < 0)
			return r;
	}
	return 0;
}

static void count(struct kp_rows *rows, uint64_t until)
{
	const struct kp_table_rule *rule = &rows->rule[rows->current];
	uint64_t bytes = until - rows->since;

	rows->cfa_bytes[rule->cfa] += bytes;
	if (rule->fp == KP_REG_UNDEFINED)
		rows->lost_fp_bytes += bytes;
	rows->since = until;
}

int kp_rows_put(struct kp_rows *rows, uint64_t address, const struct kp_table_rule *rule)
{
	uint32_t number;
	int r = intern(rows, rule, &number);

	assert(address >= rows->since && address < rows->end);
	if (r < 0 || number == rows->current)
		return r;
	count(rows, address);
	r = begin_pages(rows, address);
	rows->current = number;
	return r < 0 ? r : add_row(rows, address, number);
}

static int assemble(const struct kp_rows *rows, uint16_t machine, void **ret, size_t *ret_bytes)
{
	size_t rule_bytes = rows->rule_count * sizeof(*rows->rule);
	size_t page_bytes = (rows->page_count + (size_t)1) * sizeof(*rows->pages);
	size_t row_bytes = rows->row_count * sizeof(*rows->row);
	struct kp_table_head head = {
		.magic = KP_TABLE_MAGIC,
		.version = KP_TABLE_VERSION,
		.machine = machine,
		.first = rows->first,
		.bytes = sizeof(head) + rule_bytes + page_bytes + row_bytes,
		.rule_count = rows->rule_count,
		.page_count = rows->page_count,
		.row_count = (uint32_t)rows->row_count,
	};
	uint8_t *at = malloc(head.bytes);

	if (!at)
		return -KP_ENOMEM;
	*ret = at;
	*ret_bytes = head.bytes;
	memcpy(at, &head, sizeof(head));
	memcpy(at += sizeof(head), rows->rule, rule_bytes);
	memcpy(at += rule_bytes, rows->pages, page_bytes);
	if (row_bytes)
		memcpy(at + page_bytes, rows->row, row_bytes);
	return 0;
}

int kp_rows_finish(struct kp_rows *rows, uint16_t machine, void **ret, size_t *ret_bytes,
		   struct kp_unwind_stats *stats)
{
	int r = begin_pages(rows, rows->end);

	if (r < 0)
		return r;
	count(rows, rows->end);
	rows->pages[rows->page_count] = (uint32_t)rows->row_count;
	stats->rows = (uint32_t)rows->row_count;
	stats->rules = rows->rule_count;
	memcpy(stats->cfa_bytes, rows->cfa_bytes, sizeof(stats->cfa_bytes));
	stats->lost_fp_bytes = rows->lost_fp_bytes;
	return assemble(rows, machine, ret, ret_bytes);
}
