/*
 * Looks rules up in the compact unwind table of a module. The table is a file of ours from disk or
 * shared memory: its head is checked once, each index again where it is used, so that whatever the
 * bytes are, nothing outside the table is read. What a rule says is not judged here (cfi.c).
 *
 * Runs in the target's signal handler (and in the daemon): no libc, no TLS, no lock, bounded loops.
 */
#include "common/unwind/table.h"

/* Volatile: what was checked is what is used, whatever becomes of the memory meanwhile. */
static uint32_t load(const struct kp_table *table, uint64_t off)
{
	return *(const volatile uint32_t *)(const void *)(table->data + off);
}

int kp_table_open(struct kp_table *ret, const void *data, uint64_t size, uint16_t machine)
{
	const struct kp_table_head *head = data;
	uint64_t pages_off, rows_off;

	if (size < sizeof(*head) || head->magic != KP_TABLE_MAGIC ||
	    head->version != KP_TABLE_VERSION || head->machine != machine)
		return -1;
	ret->data = data;
	ret->first = head->first;
	ret->rule_count = head->rule_count;
	ret->page_count = head->page_count;
	ret->row_count = head->row_count;
	if (!ret->rule_count || ret->rule_count > UINT64_C(1) << 16)
		return -1;
	if (ret->first & ((UINT64_C(1) << KP_TABLE_PAGE_SHIFT) - 1))
		return -1;

	pages_off = sizeof(*head) + ret->rule_count * (uint64_t)sizeof(struct kp_table_rule);
	rows_off = pages_off + (ret->page_count + UINT64_C(1)) * sizeof(uint32_t);
	if (head->bytes > size || rows_off > UINT32_MAX ||
	    rows_off + ret->row_count * (uint64_t)sizeof(struct kp_table_row) > head->bytes)
		return -1;
	ret->pages_off = (uint32_t)pages_off;
	ret->rows_off = (uint32_t)rows_off;
	return 0;
}

static struct kp_table_row row_at(const struct kp_table *table, uint32_t index)
{
	uint32_t word = load(table, table->rows_off + index * (uint64_t)sizeof(word));

	return (struct kp_table_row){ .pc_low = (uint16_t)word, .rule = (uint16_t)(word >> 16) };
}

int kp_table_find(const struct kp_table *table, uint64_t address, struct kp_table_rule *ret)
{
	uint64_t page = (address - table->first) >> KP_TABLE_PAGE_SHIFT;
	uint32_t low = (uint16_t)address;
	uint32_t begin, end;
	struct kp_table_row found;

	if (address < table->first || page >= table->page_count)
		return -1;
	begin = load(table, table->pages_off + page * sizeof(uint32_t));
	end = load(table, table->pages_off + (page + 1) * sizeof(uint32_t));
	if (begin >= end || end > table->row_count || end - begin > UINT32_C(1) << 16)
		return -1;

	found = row_at(table, begin);
	if (found.pc_low > low)
		return -1;
	while (end - begin > 1) { /* found is row begin, and not above low */
		uint32_t middle = begin + (end - begin) / 2;
		struct kp_table_row row = row_at(table, middle);

		if (row.pc_low <= low) {
			begin = middle;
			found = row;
		} else {
			end = middle;
		}
	}
	if (found.rule >= table->rule_count)
		return -1;
	*ret = ((const struct kp_table_rule
			 *)(const void *)(table->data + sizeof(struct kp_table_head)))[found.rule];
	return 0;
}
