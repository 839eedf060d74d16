/*
 * From an ELF file to its unwind table: see build.h. Runs in the daemon. Finds the sections, puts
 * all FDEs in order, lets each write its rows into what of its range is not another's.
 */
#include "daemon/unwind/build.h"

#include "common/cleanup.h"
#include "daemon/unwind/go.h"
#include "daemon/unwind/program.h"
#include "daemon/unwind/section.h"
#include "daemon/unwind/undescribed.h"

#include <stdlib.h>

/* Of all code of a file; the table's list of pages is as long as this says, used or not. */
#define SPAN_MAX (UINT64_C(1) << 32)

/*
 * By start. Of those with the same start the one that was read first is first: .eh_frame before
 * .debug_frame, then the order of the file.
 */
static int compare(const void *a, const void *b)
{
	const struct kp_fde *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

/* Mostly they are in order: functions lie in code as their FDEs do in .eh_frame. */
static void sort(struct kp_entries *entries)
{
	for (size_t i = 1; i < entries->fde_count; i++)
		if (compare(&entries->fde[i - 1], &entries->fde[i]) > 0) {
			qsort(entries->fde, entries->fde_count, sizeof(*entries->fde), compare);
			return;
		}
}

static int read_entries(struct kp_entries *entries, void **ret_owned)
{
	struct kp_entry_section section;
	int r = 0;

	if (kp_section_find_eh_frame(entries->image, &section))
		r = kp_entries_add(entries, &section);
	if (r < 0)
		return r;
	r = kp_section_find_debug_frame(entries->image, &section, ret_owned);
	if (r == 0)
		r = kp_entries_add(entries, &section);
	return r < 0 ? r : 0;
}

/* The code of the file, from the first to the last executable segment. */
static int find_span(const struct kp_image *image, uint64_t *ret_first, uint64_t *ret_end,
		     struct kp_err *err)
{
	*ret_first = UINT64_MAX;
	*ret_end = 0;
	for (uint32_t i = 0; i < image->segment_count; i++) {
		const struct kp_image_segment *segment = &image->segment[i];

		if (!segment->executable)
			continue;
		if (segment->start < *ret_first)
			*ret_first = segment->start;
		if (segment->end > *ret_end)
			*ret_end = segment->end;
	}
	if (*ret_end == 0)
		return KP_UNWIND_NONE;
	if (*ret_end - *ret_first > SPAN_MAX)
		return kp_fail(err, KP_EBADDATA, "%s: code from %#llx to %#llx is too far apart",
			       image->name, (unsigned long long)*ret_first,
			       (unsigned long long)*ret_end);
	return 0;
}

/*
 * Where FDEs overlap, the one that starts last holds from its start on, and the one before it
 * does not come back after its end: what a binary search in .eh_frame_hdr gives. Of several with
 * the same start, the first holds.
 */
static void disentangle(struct kp_entries *entries)
{
	size_t n = 0;

	for (size_t i = 0; i < entries->fde_count; i++) {
		const struct kp_fde *fde = &entries->fde[i];

		if (n > 0 && entries->fde[n - 1].start == fde->start)
			continue;
		if (n > 0 && entries->fde[n - 1].end > fde->start)
			entries->fde[n - 1].end = fde->start;
		entries->fde[n++] = *fde;
	}
	entries->fde_count = n;
}

/* Of code in [start, end) that no FDE describes: a gap, or Go's, or what it says itself. */
static int write_between(const struct kp_go_code *go, const struct kp_flow *flow, uint64_t start,
			 uint64_t end, struct kp_rows *rows)
{
	struct kp_table_rule rule;

	if (flow)
		return kp_flow_put(flow, start, end, rows);
	while (start < end) {
		uint64_t next = kp_go_at(go, start, &rule);

		if (kp_rows_put(rows, start, &rule) < 0)
			return -KP_ENOMEM;
		start = next;
	}
	return 0;
}

static int write_rows(struct kp_entries *entries, const struct kp_go_code *go,
		      const struct kp_flow *flow, uint64_t first, uint64_t end,
		      struct kp_rows *rows)
{
	int r = write_between(go, flow, first, entries->fde_count ? entries->fde[0].start : end,
			      rows);

	for (size_t i = 0; r == 0 && i < entries->fde_count; i++) {
		const struct kp_fde *fde = &entries->fde[i];

		r = kp_program_run(&entries->cie[fde->cie], fde, rows);
		if (r == -KP_EBADDATA)
			entries->bad_fdes++;
		else if (r < 0)
			return r;
		r = write_between(go, flow, fde->end,
				  i + 1 < entries->fde_count ? fde[1].start : end, rows);
	}
	return r;
}

static void complete_stats(struct kp_unwind_stats *stats, const struct kp_entries *entries)
{
	uint64_t said = 0;

	stats->fdes = (uint32_t)entries->fde_count;
	stats->bad_fdes = entries->bad_fdes;
	stats->code_bytes = kp_image_code_bytes(entries->image);
	/* For the rows, all between the first and the last byte of code is code. */
	for (int kind = KP_CFA_GAP + 1; kind < KP_CFA_COUNT; kind++)
		said += stats->cfa_bytes[kind];
	stats->cfa_bytes[KP_CFA_GAP] = stats->code_bytes > said ? stats->code_bytes - said : 0;
}

static int build(struct kp_entries *entries, void **section_owned, void **ret, size_t *ret_bytes,
		 struct kp_unwind_stats *stats, struct kp_err *err)
{
	_cleanup_(kp_rows_destroyp) struct kp_rows *rows = NULL;
	_cleanup_(kp_flow_destroyp) struct kp_flow *flow = NULL;
	struct kp_go_code go;
	uint64_t first, end;
	int r;

	r = find_span(entries->image, &first, &end, err);
	if (r != 0)
		return r;
	r = read_entries(entries, section_owned);
	if (r < 0)
		return kp_fail_nomem(err);
	kp_go_find(entries->image, first, end, &go);
	sort(entries);
	disentangle(entries);
	r = kp_undescribed_read(entries, &flow);
	if (r < 0)
		return kp_fail_nomem(err);
	if (entries->fde_count == 0 && go.start == go.end && !(flow && kp_flow_knows(flow)))
		return KP_UNWIND_NONE;
	rows = kp_rows_create(first, end);
	if (!rows || write_rows(entries, &go, flow, first, end, rows) < 0 ||
	    kp_rows_finish(rows, entries->image->arch->elf_machine, ret, ret_bytes, stats) < 0)
		return kp_fail_nomem(err);
	complete_stats(stats, entries);
	return 0;
}

int kp_unwind_build(const void *image, size_t size, const char *name, void **ret, size_t *ret_bytes,
		    struct kp_unwind_stats *ret_stats, struct kp_err *err)
{
	_cleanup_(kp_entries_deinit) struct kp_entries entries = { 0 };
	_cleanup_(kp_freep) void *section_owned = NULL;
	struct kp_unwind_stats stats = { 0 };
	struct kp_image elf;
	int r;

	r = kp_image_open(&elf, image, size, name, err);
	if (r < 0)
		return r;
	entries.image = &elf;
	r = build(&entries, &section_owned, ret, ret_bytes, &stats, err);
	if (r == 0 && ret_stats)
		*ret_stats = stats;
	return r;
}
