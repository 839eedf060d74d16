/*
 * The profile core: weighted stacks with names. Collectors fill it, filters and diff will map it
 * to another one, renderers read it. Everything is interned: compare ids, not text. Ids are
 * indices into the open arrays below; index 0 is reserved as "none" in each of them.
 *
 * Order is the order of first use, so the same input gives the same profile.
 */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KP_VALUE_MAX 4

struct kp_value_type {
	uint32_t type; /* string: "samples", "cpu" */
	uint32_t unit; /* string: "count", "nanoseconds" */
};

struct kp_function {
	uint32_t name; /* string: demangled; "[libc.so.6+0x1234]" and "[truncated]" where unnamed */
	uint32_t system_name; /* string */
	uint32_t file; /* string, 0 unknown */
	uint32_t start_line; /* 0 unknown */
	uint32_t module; /* string: whose it is, where no file tells it from others; else 0 */
	bool unnamed; /* the name was made up from the address */
	bool marker; /* not code at all: "[truncated]" */
};

struct kp_mapping {
	uint64_t start, end; /* in the target, [start, end) */
	uint64_t file_offset;
	uint32_t filename; /* string */
	uint32_t build_id; /* string: lower-case hex, 0 none */
};

struct kp_line {
	uint32_t function;
	uint32_t line; /* 0 unknown */
};

struct kp_location {
	uint32_t mapping; /* 0: none */
	uint64_t address; /* leaf: PC; caller: return address - 1; 0 for a marker */
	uint32_t first_line; /* index into lines[]: innermost first */
	uint32_t line_count; /* at least 1 */
};

/* A stack is a path in a tree: parent is the stack of the callers, 0 at the root. */
struct kp_stack {
	uint32_t parent;
	uint32_t location;
	uint32_t depth; /* 1 at the root */
};

/* Who ran. Interned: samples with the same labels and stack are one sample. */
struct kp_label {
	uint32_t pid, tid;
	uint32_t comm; /* string: name of the process */
	uint32_t thread_name; /* string */
};

struct kp_sample {
	uint32_t stack; /* the leaf's */
	uint32_t label;
	int64_t value[KP_VALUE_MAX];
};

struct kp_clock_use {
	uint32_t name; /* string: "task-clock", "cpu-timer" */
	uint32_t signal;
	uint64_t period_ns;
	uint64_t samples;
};
#define KP_CLOCK_MAX 4

/* A thread that used CPU time and has no sample, or that blocks the sampling signal. */
struct kp_unsampled {
	uint32_t pid, tid;
	uint32_t name; /* string */
	uint64_t cpu_ns;
	uint64_t samples;
	bool blocks; /* the sampling signal */
};
#define KP_UNSAMPLED_MAX 16

/* What ended the window. */
enum kp_end_why {
	KP_END_CUT_OFF, /* not known: the daemon was killed, or the raw profile damaged */
	KP_END_TARGET, /* the target ended */
	KP_END_TIME, /* the window was to be that long */
	KP_END_SIGNAL, /* the user ended it */
	KP_END_FULL, /* as many samples as were allowed */
	KP_END_HANDLER, /* the target took the signal for itself */
};

/* The session's truth figures; zero where unknown. Units as named. */
struct kp_truth {
	uint64_t start_unix_ns;
	uint64_t window_ns;
	uint64_t cpu_ns; /* used by the target, from the kernel */
	uint64_t
		explained_ns; /* sum of the weights of the samples of CPU time, as reports have them */
	uint64_t sampled_ns; /* the same before they were scaled to the threads' run times */
	uint64_t waited_ns; /* and of those of threads that waited */
	uint64_t waits; /* how many of these there are, also in kept */
	uint64_t own_cpu_ns;
	uint64_t stop_attach_ns, stop_detach_ns;
	uint64_t rate_mhz; /* asked, thousandths of a hertz */
	uint64_t taken, kept;
	uint64_t dropped_full, dropped_cap, abandoned, bad; /* taken - kept is their sum */
	uint64_t overruns; /* of clocks of CPU time */
	uint64_t truncated; /* samples whose stack is not whole */
	uint64_t truncated_deep; /* of those, because a sample holds no more frames */
	uint64_t truncated_java; /* of those, in code that a JVM has compiled */
	uint64_t unnamed_frames; /* frames of samples without a name, each as often as sampled */
	uint64_t frames; /* all frames of samples */
	uint64_t names_late; /* addresses that were not looked up, there was no time */
	uint64_t names_lost; /* and those that a damaged file kept from being looked up */
	uint32_t names_late_modules; /* files that the late ones are in */
	uint64_t late; /* samples that stand for more than one expiration */
	uint64_t walked_fp, walked_table, walked_signal,
		walked_slice; /* samples with such a step */
	uint64_t
		missed_cpu_ns; /* CPU time of threads and processes that ended before a clock ran */
	uint64_t stops, stops_ns; /* of threads, to sample them */
	uint32_t refused, privileged,
		missed; /* programs not sampled; set-uid ones; ended too soon */
	uint32_t modules, modules_with_table;
	bool clamped_rate, clamped_time; /* sampling in stops was held to its limits */
	bool has_figures; /* of a file that says these at all */
	struct kp_unsampled unsampled[KP_UNSAMPLED_MAX]; /* most CPU time first */
	uint32_t unsampled_count; /* all of them, also those that there is no room for */
	uint64_t unsampled_ns;
	uint32_t threads_present; /* at the end of the window */
	uint32_t threads_seen, threads_unsampled;
	enum kp_end_why why;
	uint32_t exit_status;
	bool wall; /* threads that wait were sampled too */
	bool run; /* the program was started by kitprof */
	struct kp_clock_use clock[KP_CLOCK_MAX];
	uint32_t clock_count;
	uint32_t main_comm; /* string: the first process's name, or "all processes" */
	uint32_t main_pid; /* 0: all */
	uint32_t command; /* string */
	uint32_t host; /* string */
};

/* Readers may use everything here; only the functions below write. */
struct kp_profile {
	const char **strings; /* NUL-terminated; strings[0] is "" */
	uint32_t *string_len;
	uint32_t string_count;
	struct kp_value_type value_type[KP_VALUE_MAX];
	uint32_t value_count;
	uint32_t default_value; /* index: the value that reports show first */
	struct kp_function *functions;
	uint32_t function_count;
	struct kp_mapping *mappings;
	uint32_t mapping_count;
	struct kp_line *lines;
	uint32_t line_count;
	struct kp_location *locations;
	uint32_t location_count;
	struct kp_stack *stacks;
	uint32_t stack_count;
	struct kp_label *labels;
	uint32_t label_count;
	struct kp_sample *samples;
	uint32_t sample_count; /* samples has no reserved entry */
	struct kp_truth truth;
	struct kp_profile_index *index; /* private to profile.c */
};

int kp_profile_create(struct kp_profile **ret, struct kp_err *err);
void kp_profile_destroy(struct kp_profile *p);

/* Interning: the same content gives the same id. All return 0 or -KP_ENOMEM. */
int kp_profile_string(struct kp_profile *p, const char *text, size_t len, uint32_t *ret,
		      struct kp_err *err); /* bytes that are no UTF-8 become \xNN */
int kp_profile_function(struct kp_profile *p, const struct kp_function *f, uint32_t *ret,
			struct kp_err *err);
int kp_profile_mapping(struct kp_profile *p, const struct kp_mapping *m, uint32_t *ret,
		       struct kp_err *err);
int kp_profile_location(struct kp_profile *p, uint32_t mapping, uint64_t address,
			const struct kp_line *line, uint32_t line_count, uint32_t *ret,
			struct kp_err *err);
int kp_profile_stack(struct kp_profile *p, uint32_t parent, uint32_t location, uint32_t *ret,
		     struct kp_err *err);
int kp_profile_label(struct kp_profile *p, const struct kp_label *l, uint32_t *ret,
		     struct kp_err *err);

/* Appends a value type ("cpu", "nanoseconds"); before the first sample. */
int kp_profile_value_type(struct kp_profile *p, const char *type, const char *unit,
			  struct kp_err *err);

/* The index of the value type of that name; value_count: there is none. */
uint32_t kp_profile_value(const struct kp_profile *p, const char *type);

/* The sum, kept within the range. */
static inline int64_t kp_value_sum(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return b < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

/* Adds value[0..value_count-1] to the sample of that stack and label. */
int kp_profile_add(struct kp_profile *p, uint32_t stack, uint32_t label, const int64_t *value,
		   struct kp_err *err);
