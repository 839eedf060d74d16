/* What this machine can sample with, in words: sources.h. Pure. */
#include "daemon/cmd/sources.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define HZ(mhz) ((double)(mhz) / 1000)

__attribute__((format(printf, 3, 4))) static void line(FILE *out, const char *name, const char *fmt,
						       ...)
{
	va_list ap;

	fprintf(out, "%-20s ", name);
	va_start(ap, fmt);
	vfprintf(out, fmt, ap);
	va_end(ap);
	putc('\n', out);
}

/* "allowed", or why not. */
static void verdict(FILE *out, const char *name, const char *allowed, const struct kp_err *err)
{
	line(out, name, "%s", err->code ? err->text : allowed);
}

/* ---- what the system says of itself ---- */

static const char *paranoid_text(long level)
{
	if (level < 0)
		return "no such setting: this kernel has no perf events";
	if (level > 2)
		return "events only for root or CAP_PERFMON";
	return "events for user mode of one's own threads";
}

static const char *yama_text(long scope)
{
	switch (scope) {
	case 0:
		return "processes of the same user";
	case 1:
		return "only a program's own parent, or CAP_SYS_PTRACE: `kitprof run` works, --pid "
		       "does not";
	case 2:
		return "only with CAP_SYS_PTRACE";
	default:
		return "nobody until the next boot";
	}
}

static void put_capabilities(const struct kp_sources *s, FILE *out)
{
	line(out, "capabilities", "%s%s%s%s", s->cap_perfmon ? "CAP_PERFMON " : "",
	     s->cap_sys_admin ? "CAP_SYS_ADMIN " : "", s->cap_sys_ptrace ? "CAP_SYS_PTRACE" : "",
	     s->cap_perfmon || s->cap_sys_admin || s->cap_sys_ptrace ? ""
								     : "none that matter here");
}

static void put_claims(const struct kp_sources *s, FILE *out)
{
	line(out, "kernel tick", "%.0f Hz: CPU timers signal no faster",
	     1e9 / (double)s->host.tick_ns);
	if (s->host.paranoid < 0)
		line(out, "perf_event_paranoid", "%s", paranoid_text(s->host.paranoid));
	else
		line(out, "perf_event_paranoid", "%ld: %s", s->host.paranoid,
		     paranoid_text(s->host.paranoid));
	if (s->host.sample_rate_max)
		line(out, "perf sample rate",
		     "%" PRIu64 " Hz at most; kitprof asks for half of it at most",
		     s->host.sample_rate_max);
	put_capabilities(s, out);
	line(out, "seccomp", "%s",
	     s->seccomp ? "kitprof runs under a filter" : "no filter on kitprof");
	if (s->yama < 0)
		line(out, "yama", "not there: processes of the same user");
	else
		line(out, "yama", "%ld: %s", s->yama, yama_text(s->yama));
	line(out, "hypervisor", "%s",
	     s->hypervisor ? "yes: it may claim counters that it does not have"
			   : "the CPU does not say that it is a virtual one");
}

/* ---- what was tried ---- */

static const char *counter_word(enum kp_counter_state state)
{
	switch (state) {
	case KP_COUNTER_ALIVE:
		return "alive";
	case KP_COUNTER_ABSENT:
		return "absent";
	case KP_COUNTER_DENIED:
		return "denied";
	case KP_COUNTER_DEAD:
		return "dead";
	case KP_COUNTER_MUTE:
		return "mute";
	case KP_COUNTER_SHARED:
		return "shared";
	case KP_COUNTER_UNASKED:
		break;
	}
	return "not tried";
}

static void put_proofs(const struct kp_sources *s, FILE *out)
{
	const struct kp_counter_proof *cycles = &s->host.cycles;

	line(out, "CPU timers", "always there");
	verdict(out, "/proc/PID/timers", "readable", &s->timers_file);
	verdict(out, "task-clock event", "allowed", &s->host.events);
	verdict(out, "task events", "allowed: births and execs are known at once", &s->task_events);
	if (cycles->state == KP_COUNTER_ALIVE)
		line(out, "hardware cycles", "alive: it counted and interrupted, %.2f cycles a ns",
		     (double)cycles->per_ms / 1e6);
	else
		line(out, "hardware cycles", "%s%s%s", counter_word(cycles->state),
		     cycles->why[0] ? ": " : "", cycles->why);
}

/* A child of kitprof does the stops, which Yama's first level takes for a stranger. */
static void put_stops(const struct kp_sources *s, FILE *out)
{
	if (s->yama > 0 && !s->cap_sys_ptrace)
		line(out, "short stops",
		     "not allowed by Yama: threads that block the signal are named, not sampled");
	else
		line(out, "short stops",
		     "for threads that block the signal: 1000 a second at most, for 60 s");
}

/* ---- what a session would do ---- */

static const char *waiting_text(const struct kp_clock_plan *plan)
{
	return plan->wait_period_ns ? ", wall for threads that wait" : "";
}

static void put_plan(const struct kp_sources *s, const char *who, uint64_t rate_mhz, FILE *out)
{
	struct kp_clock_plan plan;
	struct kp_err err;
	char name[32];

	snprintf(name, sizeof(name), "%s%.6g Hz", who, HZ(rate_mhz));
	if (kp_clock_plan_make(s->wish, rate_mhz, &s->host, &plan, &err) < 0)
		line(out, name, "not possible: %s", err.text);
	else if (plan.has_event)
		line(out, name, "%s for user time, cpu-timer for system calls%s%s%s",
		     plan.event.kind == KP_EVENT_CYCLES ? "cycles" : "task-clock",
		     waiting_text(&plan), plan.why[0] ? "; " : "", plan.why);
	else
		line(out, name, "cpu-timer%s%s%s", waiting_text(&plan), plan.why[0] ? "; " : "",
		     plan.why);
}

static void put_target(const struct kp_sources *s, FILE *out)
{
	char name[32];

	if (!s->pid)
		return;
	snprintf(name, sizeof(name), "pid %d", (int)s->pid);
	if (s->refused.code)
		line(out, name, "would be refused: %s", s->refused.text);
	else if (s->target.leftover_base)
		line(out, name,
		     "%s: a kitprof that was killed left something in it; the next one removes it",
		     s->target.comm);
	else
		line(out, name, "%s: would be sampled with %s%s", s->target.comm,
		     kp_signal_name(s->target.signal),
		     s->target.seccomp ? "; it has a seccomp filter" : "");
}

static void put_conclusion(const struct kp_sources *s, FILE *out)
{
	double tick_hz = 1e9 / (double)s->host.tick_ns;

	if (s->pid && s->refused.code)
		line(out, "conclusion", "pid %d cannot be profiled", (int)s->pid);
	else if (s->host.events.code)
		line(out, "conclusion", "sampling works, up to %.0f Hz", tick_hz);
	else
		line(out, "conclusion", "sampling works, at any rate from 1 Hz to 10 kHz");
}

void kp_sources_print(const struct kp_sources *s, FILE *out)
{
	put_claims(s, out);
	put_proofs(s, out);
	put_stops(s, out);
	if (s->rate_mhz) {
		put_plan(s, "", s->rate_mhz, out);
	} else {
		put_plan(s, "attach, ", 99000, out);
		put_plan(s, "run, ", s->wish == KP_CLOCK_WALL ? 99000 : 999000, out);
	}
	put_target(s, out);
	put_conclusion(s, out);
}
