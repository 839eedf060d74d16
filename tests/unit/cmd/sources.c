/* Unit tests of what `kitprof sources` prints, for machines made up here. */
#include "daemon/cmd/sources.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kp_sources good(void)
{
	return (struct kp_sources){
		.host = { .tick_ns = 4000000,
			  .paranoid = 2,
			  .sample_rate_max = 100000,
			  .cycles = { .state = KP_COUNTER_ALIVE, .per_ms = 2500000 } },
		.yama = -1,
		.cap_perfmon = true,
		.cap_sys_ptrace = true,
	};
}

/* A container without perf events, with a target that is traced. */
static struct kp_sources poor(void)
{
	struct kp_sources s = {
		.host = { .tick_ns = 10000000,
			  .paranoid = 4,
			  .events = { .code = KP_ESYSTEM, .text = "events: no" },
			  .cycles = { .state = KP_COUNTER_DENIED, .why = "counters: no" } },
		.task_events = { .code = KP_ESYSTEM, .text = "task events: no" },
		.timers_file = { .code = KP_ESYSTEM, .text = "timers: no" },
		.yama = 1,
		.seccomp = 2,
		.hypervisor = true,
		.pid = 42,
		.refused = { .code = KP_EREFUSED, .text = "pid 42 is traced already" },
	};

	return s;
}

static void expect(const struct kp_sources *s, const char *expected)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	kp_sources_print(s, out);
	fclose(out);
	cr_assert_str_eq(text, expected);
	free(text);
}

Test(sources, machine_that_has_everything)
{
	struct kp_sources s = good();

	expect(&s,
	       "kernel tick          250 Hz: CPU timers signal no faster\n"
	       "perf_event_paranoid  2: events for user mode of one's own threads\n"
	       "perf sample rate     100000 Hz at most; kitprof asks for half of it at most\n"
	       "capabilities         CAP_PERFMON CAP_SYS_PTRACE\n"
	       "seccomp              no filter on kitprof\n"
	       "yama                 not there: processes of the same user\n"
	       "hypervisor           the CPU does not say that it is a virtual one\n"
	       "CPU timers           always there\n"
	       "/proc/PID/timers     readable\n"
	       "task-clock event     allowed\n"
	       "task events          allowed: births and execs are known at once\n"
	       "hardware cycles      alive: it counted and interrupted, 2.50 cycles a ns\n"
	       "short stops          for threads that block the signal: 1000 a second at most, for "
	       "60 s\n"
	       "attach, 99 Hz        cpu-timer\n"
	       "run, 999 Hz          task-clock for user time, cpu-timer for system calls\n"
	       "conclusion           sampling works, at any rate from 1 Hz to 10 kHz\n");
}

Test(sources, machine_that_allows_nothing)
{
	struct kp_sources s = poor();

	expect(&s,
	       "kernel tick          100 Hz: CPU timers signal no faster\n"
	       "perf_event_paranoid  4: events only for root or CAP_PERFMON\n"
	       "capabilities         none that matter here\n"
	       "seccomp              kitprof runs under a filter\n"
	       "yama                 1: only a program's own parent, or CAP_SYS_PTRACE: "
	       "`kitprof run` "
	       "works, --pid does not\n"
	       "hypervisor           yes: it may claim counters that it does not have\n"
	       "CPU timers           always there\n"
	       "/proc/PID/timers     timers: no\n"
	       "task-clock event     events: no\n"
	       "task events          task events: no\n"
	       "hardware cycles      denied: counters: no\n"
	       "short stops          not allowed by Yama: threads that block the signal are named, "
	       "not sampled\n"
	       "attach, 99 Hz        cpu-timer\n"
	       "run, 999 Hz          cpu-timer; events: no; CPU timers deliver at most one "
	       "signal a "
	       "kernel tick (100 Hz here)\n"
	       "pid 42               would be refused: pid 42 is traced already\n"
	       "conclusion           pid 42 cannot be profiled\n");
}

/* The line that starts with name, without it. */
static const char *line_of(const struct kp_sources *s, const char *name)
{
	static char value[512];
	char *text = NULL, *at;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	kp_sources_print(s, out);
	fclose(out);
	at = strstr(text, name);
	cr_assert_not_null(at, "%s: %s", name, text);
	at += 21;
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\n"), at);
	free(text);
	return value;
}

Test(sources, wish_and_rate_are_answered)
{
	struct kp_sources s = good();

	s.rate_mhz = 4000000;
	cr_assert_str_eq(line_of(&s, "4000 Hz"),
			 "task-clock for user time, cpu-timer for system calls");
	s.wish = KP_CLOCK_CYCLES;
	cr_assert_str_eq(line_of(&s, "4000 Hz"),
			 "cycles for user time, cpu-timer for system calls");
	s.host.cycles.state = KP_COUNTER_DEAD;
	strcpy(s.host.cycles.why, "it stands still");
	cr_assert_str_eq(
		line_of(&s, "4000 Hz"),
		"task-clock for user time, cpu-timer for system calls; it stands still: the "
		"task-clock takes its place");
	cr_assert_str_eq(line_of(&s, "hardware cycles"), "dead: it stands still");
	s = poor();
	s.wish = KP_CLOCK_TASK;
	cr_assert_str_eq(line_of(&s, "run, 999 Hz"), "not possible: events: no");
}

Test(sources, target_is_described)
{
	struct kp_sources s = good();

	s.pid = 7;
	s.target = (struct kp_target){ .signal = SIGPROF, .comm = "redis-server" };
	cr_assert_str_eq(line_of(&s, "pid 7"), "redis-server: would be sampled with SIGPROF");
	s.target.seccomp = true;
	cr_assert_str_eq(line_of(&s, "pid 7"),
			 "redis-server: would be sampled with SIGPROF; it has a seccomp filter");
	s.target.leftover_base = 4096;
	cr_assert_not_null(strstr(line_of(&s, "pid 7"), "the next one removes it"));
	cr_assert_str_eq(line_of(&s, "conclusion"),
			 "sampling works, at any rate from 1 Hz to 10 kHz");
	s.host.events.code = KP_ESYSTEM;
	cr_assert_str_eq(line_of(&s, "conclusion"), "sampling works, up to 250 Hz");
}
