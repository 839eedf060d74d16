/* The command line: one table of options for all commands, which of them each takes, and values. */
#pragma once

#include "common/err.h"
#include "common/unwind/walk.h"
#include "daemon/clock/choose.h"
#include "daemon/linux/census.h"
#include "daemon/render/render.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum kp_command {
	KP_COMMAND_RUN = 1,
	KP_COMMAND_RECORD = 2,
	KP_COMMAND_REPORT = 4,
	KP_COMMAND_CLEANUP = 8,
	KP_COMMAND_DAEMON = 16, /* kitprofd with --pid */
	KP_COMMAND_SERVE = 32, /* kitprofd without */
	KP_COMMAND_ON = 64,
	KP_COMMAND_OFF = 128,
	KP_COMMAND_SOURCES = 256,
	KP_COMMAND_STATUS = 512,
};

#define KP_OUTPUTS_MAX 16
#define KP_SYMBOL_DIRS_MAX 16

/* One -f. */
struct kp_output {
	const struct kp_renderer *renderer;
	const char *path; /* NULL: from the name of the folded file */
};

struct kp_options {
	uint64_t rate_mhz; /* 0 for sources: not given */
	uint32_t depth;
	enum kp_unwind_mode unwind;
	uint32_t slice_bytes; /* of the stack in a slice */
	uint64_t cap;
	uint64_t duration_ns; /* 0: no limit */
	pid_t pid; /* 0: not given */
	int signal; /* 0: not given */
	enum kp_clock_wish clock;
	const char *output; /* of the folded format; NULL: not given */
	const char *dir, *socket; /* NULL: not given */
	/* --symbols, then where debug files are anyway; NULL-terminated */
	const char *symbols[KP_SYMBOL_DIRS_MAX + 2];
	size_t symbols_count; /* of --symbols */
	const char *sysroot; /* NULL: not given */
	bool system_calls; /* are frames */
	uint64_t symbol_budget_ns; /* 0: no limit */
	uint64_t debuginfod_ns; /* 0: nothing is fetched */
	bool all, everyone;
	const char *user; /* NULL: not given */
	uint64_t session; /* 0: not given */
	const struct kp_census *census; /* all: whom it means; no option, filled in by kitprofd */
	uint64_t window_ns, keep; /* 0: not given */
	bool no_folded, no_flat, no_raw, no_follow, no_ptrace_fallback;
	struct kp_render_options render;
	bool stats, json; /* figures on stdout, no files */
	struct kp_output outputs[KP_OUTPUTS_MAX];
	size_t output_count;
	bool quiet, verbose, help, version;
	char *const *words; /* the options as they were given, word_count of them */
	size_t word_count;
	char *const *rest; /* what follows the options, NULL-terminated */
};

/*
 * argv[0] is the command's name. KP_COMMAND_RUN stops at the first word that is no option, all stop
 * behind "--"; elsewhere options may follow other words, and argv is sorted: options first.
 * -KP_EUSAGE names the option and, where it belongs to another command, that.
 */
int kp_options_parse(enum kp_command command, int argc, char *const *argv, struct kp_options *ret,
		     struct kp_err *err);

/* The options that a command takes, for --help. */
void kp_options_help(enum kp_command command, FILE *out);

/* "999", "99hz", "1.5khz", "1ms", "250us": thousandths of a hertz. */
int kp_rate_parse(const char *text, uint64_t *ret_mhz, struct kp_err *err);

/* "10", "10s", "500ms", "2m", "1h": ns, more than 0. */
int kp_duration_parse(const char *text, uint64_t *ret_ns, struct kp_err *err);

/* "URG", "SIGURG", "23". */
int kp_signal_parse(const char *text, int *ret, struct kp_err *err);
