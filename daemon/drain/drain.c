/* Ring -> raw profile: drain.h. Daemon, session loop. */
#include "daemon/drain/drain.h"

#include "daemon/drain/slice.h"
#include "daemon/linux/monotonic.h"

#include <stdlib.h>

#define PUT_TIME_NS UINT64_C(10000000) /* between TIME records for samples that are put */

int kp_drain_init(struct kp_drain *drain, const struct kp_drain_options *options,
		  struct kp_err *err)
{
	*drain = (struct kp_drain){ .options = *options };
	drain->record = calloc(1, sizeof(*drain->record) + options->words * sizeof(uint64_t));
	if (!drain->record)
		return kp_fail_nomem(err);
	kp_ring_reader_init(&drain->reader, options->ring, options->cell_count, options->words);
	return 0;
}

void kp_drain_deinit(struct kp_drain *drain)
{
	free(drain->record);
	drain->record = NULL;
}

void kp_drain_count(const struct kp_drain *drain, struct kp_ring_counts *ret)
{
	kp_ring_count(&drain->reader, ret);
	ret->taken += drain->put;
	ret->kept += drain->put;
	ret->kept -= drain->over_cap;
	ret->dropped_cap += drain->over_cap;
	ret->dropped += drain->over_cap;
}

/* What is written: the record itself, or the stack that was found in its slice. */
static const struct kp_ring_record *walk(struct kp_drain *drain,
					 const struct kp_ring_record *record)
{
	const struct kp_drain_options *o = &drain->options;
	struct kp_ring_record *walked = (struct kp_ring_record *)(void *)drain->walked;
	struct kp_slice_walk how = { .arch = o->arch, .depth = o->depth };

	if (!(record->how & KP_HOW_SLICE))
		return record;
	if (o->rules)
		how.find_rule = o->rules(o->ctx, record, &how.find_ctx);
	kp_slice_walk(&how, record, walked);
	return walked;
}

static int write_record(struct kp_drain *drain, const struct kp_ring_record *from,
			struct kp_err *err)
{
	const struct kp_ring_record *record;
	struct kp_raw_sample sample;
	int r;

	if (*drain->options.left == 0) {
		drain->over_cap++;
		return 0;
	}
	record = walk(drain, from);
	sample = (struct kp_raw_sample){ .depth = record->depth,
					 .source = record->source,
					 .walk_end = record->walk_end,
					 .overrun = record->overrun,
					 .how = record->how & KP_HOW_ALL,
					 .pc = record->pc };
	r = drain->options.complete(drain->options.ctx, record, &sample, err);
	if (r < 0)
		return r;
	(*drain->options.left)--;
	if (sample.source != KP_SOURCE_WAIT)
		drain->overruns += sample.overrun;
	return kp_raw_put_sample(drain->options.writer, &sample, err);
}

/* Whether the writer that holds the ring's tail has had its time. */
static bool is_out_of_patience(struct kp_drain *drain)
{
	uint64_t now = kp_now_ns();

	if (!drain->pending_since_ns)
		drain->pending_since_ns = now;
	return now - drain->pending_since_ns > KP_DRAIN_PATIENCE_NS;
}

static int write_time(struct kp_drain *drain, uint64_t elapsed_ns, struct kp_err *err)
{
	struct kp_raw_time time = { .elapsed_ns = elapsed_ns };

	return kp_raw_put_time(drain->options.writer, &time, err);
}

static int drain_late(struct kp_drain *drain, struct kp_err *err)
{
	int r = 0;

	while (r == 0 && kp_ring_read_late(&drain->reader, drain->record) == KP_RING_RECORD)
		r = write_record(drain, drain->record, err);
	return r;
}

int kp_drain_run(struct kp_drain *drain, uint64_t elapsed_ns, bool last, struct kp_err *err)
{
	/*
	 * One ring's worth a turn, two at the end: a busy target cannot keep the loop here, nor one
	 * that forges records.
	 */
	uint64_t budget = (uint64_t)drain->reader.cell_count * (last ? 2 : 1);
	bool give_up = last, any = false;
	int r = 0;

	while (r == 0 && budget--) {
		enum kp_ring_result result = kp_ring_read(&drain->reader, drain->record, give_up);

		if (result == KP_RING_EMPTY) {
			drain->pending_since_ns = 0;
			break;
		}
		if (result == KP_RING_PENDING) {
			if (!is_out_of_patience(drain))
				break;
			give_up = true;
			continue;
		}
		drain->pending_since_ns = 0;
		give_up = last;
		if (!any)
			r = write_time(drain, elapsed_ns, err);
		any = true;
		if (r == 0)
			r = write_record(drain, drain->record, err);
	}
	return r == 0 && last ? drain_late(drain, err) : r;
}

int kp_drain_put(struct kp_drain *drain, const struct kp_ring_record *record, uint64_t elapsed_ns,
		 struct kp_err *err)
{
	int r = 0;

	drain->put++;
	if (drain->put == 1 || elapsed_ns - drain->put_time_ns >= PUT_TIME_NS) {
		drain->put_time_ns = elapsed_ns;
		r = write_time(drain, elapsed_ns, err);
	}
	return r < 0 ? r : write_record(drain, record, err);
}
