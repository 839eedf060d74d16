/*
 * The builder of unwind tables (daemon/unwind/build.h) over files, or over the content of a call
 * frame section that is put into a file here: that way each input has a chance to be understood.
 * tests/fuzz/seeds.py writes such inputs.
 *
 * Whatever the bytes: the answer comes soon, nothing outside of them is read, and a table that
 * comes out is one that the reader finds in order.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/unit/unwind/framewriter.h"

#include <stdlib.h>
#include <string.h>

struct head {
	uint8_t form; /* 0: an ELF file follows; else a section, for the CPU form % 3 */
	uint8_t parts; /* enum framewriter_parts */
};

static void check(int condition)
{
	if (!condition)
		abort();
}

static void check_page(const struct kp_table *table, const struct kp_table_row *row, uint32_t begin,
		       uint32_t end)
{
	check(begin < end && end <= table->row_count);
	check(row[begin].pc_low == 0);
	for (uint32_t i = begin; i < end; i++) {
		check(i == begin || row[i].pc_low > row[i - 1].pc_low);
		check(i == begin || row[i].rule != row[i - 1].rule);
		check(row[i].rule < table->rule_count);
	}
}

static void check_table(const void *bytes, size_t size, const struct kp_unwind_stats *stats)
{
	const struct kp_table_head *head = bytes;
	const struct kp_table_rule *rule = (const void *)(head + 1);
	const uint32_t *pages = (const void *)(rule + head->rule_count);
	uint64_t said = 0;
	struct kp_table table;

	check(kp_table_open(&table, bytes, size, head->machine) == 0);
	check(head->bytes == size && head->rule_count >= 2 && pages[0] == 0);
	check(stats->rows == head->row_count && stats->rules == head->rule_count);
	for (uint32_t i = 0; i < head->rule_count; i++)
		check(rule[i].cfa < KP_CFA_COUNT && rule[i].fp <= KP_REG_UNDEFINED &&
		      rule[i].ra < KP_REG_UNDEFINED);
	for (uint32_t i = 0; i < head->page_count; i++)
		check_page(&table, (const void *)(pages + head->page_count + 1), pages[i],
			   pages[i + 1]);
	check(pages[head->page_count] == head->row_count);
	for (int kind = KP_CFA_GAP + 1; kind < KP_CFA_COUNT; kind++)
		said += stats->cfa_bytes[kind];
	check(said <= (uint64_t)head->page_count << KP_TABLE_PAGE_SHIFT);
	check(stats->lost_fp_bytes <= said);
}

static void build(const uint8_t *file, size_t size)
{
	struct kp_unwind_stats stats;
	struct kp_err err = { 0 };
	size_t bytes = 0;
	void *table = NULL;
	int r = kp_unwind_build(file, size, "fuzz", &table, &bytes, &stats, &err);

	check(r == 0 || r == KP_UNWIND_NONE || r == -KP_EBADDATA);
	check((r < 0) == (err.text[0] != 0) && (r == 0) == (table != NULL));
	if (r == 0)
		check_table(table, bytes, &stats);
	free(table);
}

static void build_section(const struct head *head, const uint8_t *data, size_t size)
{
	static const uint16_t machines[] = { EM_X86_64, EM_AARCH64, EM_RISCV };
	struct framewriter w = { .machine = machines[head->form % 3] };
	unsigned parts = head->parts;
	uint8_t *file;

	if (!(parts & FRAMEWRITER_DEBUG)) /* it would not be looked at, and takes long */
		parts &= ~(unsigned)FRAMEWRITER_COMPRESSED;
	framewriter_put(&w, (struct framewriter_bytes){
				    data, size < sizeof(w.data) ? size : sizeof(w.data) });
	file = framewriter_file(&w, parts, &size);
	build(file, size);
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct head head;

	if (size < sizeof(head))
		return 0;
	memcpy(&head, data, sizeof(head));
	if (head.form)
		build_section(&head, data + sizeof(head), size - sizeof(head));
	else
		build(data + sizeof(head), size - sizeof(head));
	return 0;
}
