/*
 * Truth figures from the records of a session. A file that was cut off has no END; then the window
 * is what the last TIME says, the overruns are counted from the samples, and what the target used
 * is not known. Runs in the daemon.
 */
#include "daemon/profile/account.h"

#include "common/unwind/walk.h"

#include <string.h>

static int intern(struct kp_profile *p, struct kp_raw_string s, uint32_t *ret, struct kp_err *err)
{
	return kp_profile_string(p, s.text, s.len, ret, err);
}

/* With "all" no process is the target. */
static int apply_session(struct kp_account *a, struct kp_profile *p, const struct kp_raw_session *s,
			 struct kp_err *err)
{
	struct kp_truth *t = &p->truth;
	int r;

	t->start_unix_ns = s->start_unix_ns;
	t->rate_mhz = s->rate_mhz;
	t->run = s->mode == KP_RAW_MODE_RUN;
	a->has_process = s->mode == KP_RAW_MODE_ALL;
	r = a->has_process ? intern(p, kp_raw_string("all processes"), &t->main_comm, err) : 0;
	if (r < 0)
		return r;
	r = intern(p, s->command, &t->command, err);
	if (r < 0)
		return r;
	return intern(p, s->host, &t->host, err);
}

/* The target is the process that the file names first. */
static int apply_process(struct kp_account *a, struct kp_profile *p,
			 const struct kp_raw_process *process, struct kp_err *err)
{
	if (a->has_process)
		return 0;
	a->has_process = true;
	p->truth.main_pid = process->pid;
	return intern(p, process->comm, &p->truth.main_comm, err);
}

static int apply_clock(struct kp_account *a, struct kp_profile *p, const struct kp_raw_clock *clock,
		       struct kp_err *err)
{
	struct kp_truth *t = &p->truth;
	uint32_t i, name;
	int r;

	r = intern(p, clock->name, &name, err);
	if (r < 0)
		return r;
	for (i = 0; i < t->clock_count; i++) {
		const struct kp_clock_use *known = &t->clock[i];

		if (known->name == name && known->signal == clock->signal &&
		    known->period_ns == clock->period_ns)
			break;
	}
	if (i == KP_CLOCK_MAX)
		i--; /* more than anybody would read: the last entry stands for the rest */
	else if (i == t->clock_count)
		t->clock[t->clock_count++] = (struct kp_clock_use){ .name = name,
								    .signal = clock->signal,
								    .period_ns = clock->period_ns };
	t->wall |= clock->source == KP_SOURCE_WAIT;
	if (clock->source <= KP_SOURCE_LAST)
		a->clock[clock->source] = i + 1;
	return 0;
}

static void add_time(uint64_t *sum, uint64_t ns)
{
	if (__builtin_add_overflow(*sum, ns, sum))
		*sum = UINT64_MAX;
}

static void apply_sample(struct kp_account *a, struct kp_profile *p,
			 const struct kp_raw_sample *sample)
{
	struct kp_truth *t = &p->truth;

	a->samples++;
	if (sample->source == KP_SOURCE_WAIT) {
		t->waits++;
		add_time(&t->waited_ns, sample->weight_ns);
	} else {
		a->overruns += sample->overrun;
		add_time(&t->sampled_ns, sample->weight_ns);
		t->late += sample->overrun > 0;
	}
	t->walked_fp += !!(sample->how & KP_HOW_FP);
	t->walked_table += !!(sample->how & KP_HOW_TABLE);
	t->walked_signal += !!(sample->how & KP_HOW_SIGNAL);
	t->walked_slice += !!(sample->how & KP_HOW_SLICE);
	if (sample->source <= KP_SOURCE_LAST && a->clock[sample->source])
		t->clock[a->clock[sample->source] - 1].samples++;
}

static enum kp_end_why why_of(enum kp_raw_end_why why)
{
	switch (why) {
	case KP_RAW_END_TARGET:
		return KP_END_TARGET;
	case KP_RAW_END_TIME:
		return KP_END_TIME;
	case KP_RAW_END_SIGNAL:
		return KP_END_SIGNAL;
	case KP_RAW_END_FULL:
		return KP_END_FULL;
	case KP_RAW_END_HANDLER:
		return KP_END_HANDLER;
	}
	return KP_END_CUT_OFF; /* the decoder lets no other pass */
}

static void apply_end(struct kp_account *a, struct kp_truth *t, const struct kp_raw_end *end)
{
	a->has_end = true;
	a->lost = end->lost;
	t->window_ns = end->window_ns;
	t->cpu_ns = end->cpu_ns;
	t->own_cpu_ns = end->own_cpu_ns;
	t->stop_attach_ns = end->stop_attach_ns;
	t->stop_detach_ns = end->stop_detach_ns;
	t->overruns = end->overruns;
	t->missed_cpu_ns = end->missed_cpu_ns;
	t->stops = end->stops;
	t->stops_ns = end->stops_ns;
	t->refused = end->refused;
	t->privileged = end->privileged;
	t->missed = end->missed;
	t->modules = end->modules;
	t->modules_with_table = end->modules_with_table;
	t->clamped_rate = end->clamped & KP_CLAMPED_RATE;
	t->clamped_time = end->clamped & KP_CLAMPED_TIME;
	t->threads_seen = end->threads_seen;
	t->threads_unsampled = end->threads_unsampled;
	t->why = why_of((enum kp_raw_end_why)end->why);
	t->exit_status = end->exit_status;
}

int kp_account_apply(struct kp_account *a, struct kp_profile *p, const struct kp_raw_record *record,
		     struct kp_err *err)
{
	switch (record->type) {
	case KP_RAW_SESSION:
		return apply_session(a, p, &record->session, err);
	case KP_RAW_PROCESS:
		return apply_process(a, p, &record->process, err);
	case KP_RAW_CLOCK:
		return apply_clock(a, p, &record->clock, err);
	case KP_RAW_TIME:
		a->elapsed_ns = record->time.elapsed_ns;
		return 0;
	case KP_RAW_SAMPLE:
		apply_sample(a, p, &record->sample);
		return 0;
	case KP_RAW_LOST:
		a->lost = record->lost;
		return 0;
	case KP_RAW_END:
		apply_end(a, &p->truth, &record->end);
		return 0;
	case KP_RAW_THREAD:
	case KP_RAW_MODULE:
	case KP_RAW_IMAGE:
	case KP_RAW_TALLY:
	case KP_RAW_SYMBOL:
		break;
	}
	return 0;
}

/* Far above what a session can count, and so far below 2^64 that sums of some stay below it too. */
static uint64_t bounded(uint64_t count)
{
	return count < UINT64_C(1) << 60 ? count : UINT64_C(1) << 60;
}

void kp_account_finish(const struct kp_account *a, struct kp_profile *p)
{
	struct kp_truth *t = &p->truth;

	t->dropped_full = bounded(a->lost.dropped_full);
	t->dropped_cap = bounded(a->lost.dropped_cap);
	t->abandoned = bounded(a->lost.abandoned);
	t->bad = bounded(a->lost.bad);
	t->kept = a->samples;
	t->taken = t->kept + t->dropped_full + t->dropped_cap + t->abandoned + t->bad;
	if (!a->has_end) {
		t->window_ns = a->elapsed_ns;
		t->overruns = a->overruns;
	}
}
