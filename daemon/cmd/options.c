/* The command line: options.h. */
#include "daemon/cmd/options.h"

#include "proto/ring.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	OPT_NO_FOLDED = 256,
	OPT_NO_FLAT,
	OPT_NO_RAW,
	OPT_NO_FOLLOW,
	OPT_NO_PTRACE_FALLBACK,
	OPT_CAP,
	OPT_DEPTH,
	OPT_UNWIND,
	OPT_SIGNAL,
	OPT_CLOCK,
	OPT_PER_PROCESS,
	OPT_STATS,
	OPT_JSON,
	OPT_DIR,
	OPT_SYMBOLS,
	OPT_SYSROOT,
	OPT_SYSTEM_CALLS,
	OPT_SYMBOL_BUDGET,
	OPT_DEBUGINFOD,
	OPT_SOCKET,
	OPT_WINDOW,
	OPT_KEEP,
	OPT_ALL,
	OPT_USER,
	OPT_EVERYONE,
	OPT_SESSION,
};

#define DEBUG_DIR "/usr/lib/debug" /* as without --symbols */
#define DEBUGINFOD_NS UINT64_C(30000000000)
#define SLICE_BYTES_MIN 1024u
#define SLICE_BYTES_MAX 65536u

#define KITPROFD (KP_COMMAND_DAEMON | KP_COMMAND_SERVE)
#define SERVED (KP_COMMAND_SERVE | KP_COMMAND_ON | KP_COMMAND_OFF | KP_COMMAND_STATUS)
#define SAMPLES (KP_COMMAND_RUN | KP_COMMAND_RECORD | KP_COMMAND_DAEMON | KP_COMMAND_ON)
#define REPORTS (SAMPLES | KP_COMMAND_REPORT)
#define CLOCKS (SAMPLES | KP_COMMAND_SOURCES)
#define ALL (REPORTS | SERVED | KP_COMMAND_CLEANUP | KP_COMMAND_SOURCES)

struct option_row {
	const char *name;
	int letter; /* a character, or OPT_... where there is only the long form */
	const char *value; /* NULL: none; "[=...]": may be left out */
	unsigned commands;
	const char *help;
};

static const struct option_row rows[] = {
	{ "pid", 'p', "PID", KP_COMMAND_RECORD | KP_COMMAND_DAEMON | KP_COMMAND_SOURCES,
	  "process to profile" },
	{ "all", OPT_ALL, NULL, KP_COMMAND_ON | KP_COMMAND_OFF,
	  "all processes of kitprofd's user, those that come later too" },
	{ "user", OPT_USER, "NAME", KP_COMMAND_ON, "with --all, if kitprofd is root's: whose" },
	{ "everyone", OPT_EVERYONE, NULL, KP_COMMAND_ON,
	  "with --all, if kitprofd is root's: those of all users" },
	{ "session", OPT_SESSION, "N", KP_COMMAND_OFF, "the session of that number in status" },
	{ "duration", 'd', "TIME", SAMPLES, "length of the window: 10, 10s, 500ms, 2m" },
	{ "rate", 'r', "RATE", CLOCKS,
	  "999, 99hz or a period like 1ms (default: run 999, attach and wall 99)" },
	{ "depth", OPT_DEPTH, "N", SAMPLES, "frames per stack at most, 1 to 1024 (127)" },
	{ "unwind", OPT_UNWIND, "HOW", SAMPLES, "auto, fp, table or slice[:BYTES] (auto)" },
	{ "cap", OPT_CAP, "N", SAMPLES, "samples at most; the window ends there (1000000)" },
	{ "clock", OPT_CLOCK, "NAME", CLOCKS, "auto, cycles, task, timer or wall (auto)" },
	{ "signal", OPT_SIGNAL, "NAME", CLOCKS, "signal to sample with (chosen: URG or PROF)" },
	{ "output", 'o', "FILE", REPORTS & ~KP_COMMAND_ON,
	  "folded stacks go here, - is stdout (prof.folded)" },
	{ "format", 'f', "FMT[:FILE]", REPORTS, "also this format; may be repeated" },
	{ "no-folded", OPT_NO_FOLDED, NULL, REPORTS, "do not write folded stacks" },
	{ "no-flat", OPT_NO_FLAT, NULL, REPORTS, "do not write the flat report" },
	{ "threads", 't', NULL, REPORTS, "tell threads apart in folded and flat" },
	{ "per-process", OPT_PER_PROCESS, NULL, REPORTS, "tell processes of one name apart" },
	{ "symbols", OPT_SYMBOLS, "DIR", REPORTS & ~KP_COMMAND_ON,
	  "binaries and debug files of other places; may be repeated" },
	{ "sysroot", OPT_SYSROOT, "DIR", KP_COMMAND_REPORT,
	  "files of another machine or a container, under their paths" },
	{ "syscalls", OPT_SYSTEM_CALLS, NULL, REPORTS,
	  "the system call that a thread is in is a frame: [syscall:read]" },
	{ "symbol-budget", OPT_SYMBOL_BUDGET, "TIME", REPORTS,
	  "time for names; what is not looked up by then has none (no limit)" },
	{ "debuginfod", OPT_DEBUGINFOD, "[=TIME]",
	  KP_COMMAND_RUN | KP_COMMAND_RECORD | KP_COMMAND_REPORT,
	  "fetch missing debug information, for so long at most (30s)" },
	{ "stats", OPT_STATS, NULL, KP_COMMAND_REPORT, "print how true the profile is instead" },
	{ "json", OPT_JSON, NULL, KP_COMMAND_REPORT | KP_COMMAND_STATUS,
	  "as a JSON object (report: with --stats)" },
	{ "no-follow", OPT_NO_FOLLOW, NULL, SAMPLES, "leave forked children alone" },
	{ "no-ptrace-fallback", OPT_NO_PTRACE_FALLBACK, NULL, SAMPLES,
	  "never stop a thread to sample it" },
	{ "no-raw", OPT_NO_RAW, NULL, SAMPLES, "do not keep the raw profile (*.kitprof)" },
	{ "window", OPT_WINDOW, "TIME", KP_COMMAND_DAEMON,
	  "windows of this length, one after another" },
	{ "keep", OPT_KEEP, "N", KP_COMMAND_DAEMON, "keep the results of the last N windows" },
	{ "dir", OPT_DIR, "DIR", KITPROFD, "results go here (where it is started)" },
	{ "socket", OPT_SOCKET, "PATH", KP_COMMAND_DAEMON | SERVED,
	  "control socket ($XDG_RUNTIME_DIR/kitprofd.sock)" },
	{ "quiet", 'q', NULL, ALL, "say nothing but errors" },
	{ "verbose", 'v', NULL, ALL, "say more" },
	{ "version", 'V', NULL, ALL, "print the version" },
	{ "help", 'h', NULL, ALL, "print this" },
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const struct {
	enum kp_command command;
	const char *name;
} command_names[] = {
	{ KP_COMMAND_RUN, "kitprof run" },
	{ KP_COMMAND_RECORD, "kitprof record" },
	{ KP_COMMAND_REPORT, "kitprof report" },
	{ KP_COMMAND_CLEANUP, "kitprof cleanup" },
	{ KP_COMMAND_SOURCES, "kitprof sources" },
	{ KP_COMMAND_DAEMON, "kitprofd" },
	{ KP_COMMAND_SERVE, "kitprofd without --pid" },
	{ KP_COMMAND_ON, "kitprof on" },
	{ KP_COMMAND_OFF, "kitprof off" },
	{ KP_COMMAND_STATUS, "kitprof status" },
};

static const char *command_name(unsigned commands)
{
	for (size_t i = 0; i < sizeof(command_names) / sizeof(command_names[0]); i++)
		if (commands & command_names[i].command)
			return command_names[i].name;
	return "kitprof";
}

static int has_arg(const char *value)
{
	if (!value)
		return no_argument;
	return value[0] == '[' ? optional_argument : required_argument;
}

/* What getopt_long() wants, for one command. */
struct tables {
	char letters[3 + 2 * ROWS];
	struct option longs[ROWS + 1];
};

static void make_tables(enum kp_command command, struct tables *ret)
{
	size_t n = 0, at = 0;

	*ret = (struct tables){ 0 };
	if (command == KP_COMMAND_RUN)
		ret->letters[at++] = '+'; /* what follows the program is the program's */
	ret->letters[at++] = ':'; /* tell a missing value from an unknown option */
	for (size_t i = 0; i < ROWS; i++) {
		if (!(rows[i].commands & command))
			continue;
		ret->longs[n++] = (struct option){ rows[i].name, has_arg(rows[i].value), NULL,
						   rows[i].letter };
		if (rows[i].letter >= 256)
			continue;
		ret->letters[at++] = (char)rows[i].letter;
		if (rows[i].value)
			ret->letters[at++] = ':';
	}
}

static bool is_row(const struct option_row *row, const char *word, int letter)
{
	size_t len = strcspn(word, "=");

	if (strncmp(word, "--", 2) == 0)
		return len - 2 == strlen(row->name) && strncmp(word + 2, row->name, len - 2) == 0;
	return letter && row->letter == letter;
}

static int explain_unknown(enum kp_command command, const char *word, int letter,
			   struct kp_err *err)
{
	char name[64];

	if (strncmp(word, "--", 2) == 0 || !letter)
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	else
		snprintf(name, sizeof(name), "-%c", letter);
	for (size_t i = 0; i < ROWS; i++)
		if (is_row(&rows[i], word, letter) && !(rows[i].commands & command))
			return kp_fail(err, KP_EUSAGE,
				       "option %s does not belong to `%s` but to `%s`", name,
				       command_name(command), command_name(rows[i].commands));
	for (size_t i = 0; i < ROWS; i++)
		if (is_row(&rows[i], word, letter))
			return kp_fail(err, KP_EUSAGE, "option %s takes no value", name);
	return kp_fail(err, KP_EUSAGE, "unknown option %s; `%s --help` lists them", name,
		       command_name(command));
}

static int parse_count(const char *option, const char *text, uint64_t min, uint64_t max,
		       uint64_t *ret, struct kp_err *err)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	if (end == text || *end || errno || text[0] == '-' || *ret < min || *ret > max)
		return kp_fail(err, KP_EUSAGE, "--%s %s: give a number from %llu to %llu", option,
			       text, (unsigned long long)min, (unsigned long long)max);
	return 0;
}

static int parse_clock(const char *text, enum kp_clock_wish *ret, struct kp_err *err)
{
	static const char *const names[] = {
		[KP_CLOCK_AUTO] = "auto",     [KP_CLOCK_TASK] = "task", [KP_CLOCK_TIMER] = "timer",
		[KP_CLOCK_CYCLES] = "cycles", [KP_CLOCK_WALL] = "wall",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) == 0) {
			*ret = (enum kp_clock_wish)i;
			return 0;
		}
	}
	return kp_fail(err, KP_EUSAGE, "--clock %s: give auto, cycles, task, timer or wall", text);
}

/* With BYTES of the stack behind a slice: 1024, 16k. */
static int parse_unwind(const char *text, struct kp_options *o, struct kp_err *err)
{
	static const char *const names[] = {
		[KP_UNWIND_AUTO] = "auto",
		[KP_UNWIND_FP] = "fp",
		[KP_UNWIND_TABLE] = "table",
		[KP_UNWIND_SLICE] = "slice",
	};
	unsigned long long bytes;
	char *end;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) == 0) {
			o->unwind = (enum kp_unwind_mode)i;
			return 0;
		}
	}
	if (strncmp(text, "slice:", 6) == 0 && text[6] >= '1' && text[6] <= '9') {
		errno = 0;
		bytes = strtoull(text + 6, &end, 10);
		if (*end == 'k' && bytes <= SLICE_BYTES_MAX) {
			bytes *= 1024;
			end++;
		}
		if (!*end && !errno && bytes >= SLICE_BYTES_MIN && bytes <= SLICE_BYTES_MAX) {
			o->unwind = KP_UNWIND_SLICE;
			o->slice_bytes = (uint32_t)bytes & ~7u;
			return 0;
		}
	}
	return kp_fail(err, KP_EUSAGE,
		       "--unwind %s: give auto, fp, table, slice or slice:BYTES, with %u to %u "
		       "bytes: slice:16k",
		       text, SLICE_BYTES_MIN, SLICE_BYTES_MAX);
}

static int add_symbols(const char *dir, struct kp_options *o, struct kp_err *err)
{
	if (o->symbols_count == KP_SYMBOL_DIRS_MAX)
		return kp_fail(err, KP_EUSAGE, "--symbols: at most %d", KP_SYMBOL_DIRS_MAX);
	if (access(dir, R_OK | X_OK) != 0)
		return kp_fail_errno(err, "--symbols %s", dir);
	o->symbols[o->symbols_count++] = dir;
	o->symbols[o->symbols_count] = DEBUG_DIR;
	return 0;
}

static int set_sysroot(const char *dir, struct kp_options *o, struct kp_err *err)
{
	if (access(dir, R_OK | X_OK) != 0)
		return kp_fail_errno(err, "--sysroot %s", dir);
	o->sysroot = dir;
	return 0;
}

static int parse_format(const char *text, struct kp_options *o, struct kp_err *err)
{
	size_t len = strcspn(text, ":");
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)len, text);
	if (o->output_count == KP_OUTPUTS_MAX)
		return kp_fail(err, KP_EUSAGE, "--format: at most %d", KP_OUTPUTS_MAX);
	o->outputs[o->output_count].renderer = kp_renderer_find(name);
	if (text[len] == ':' && text[len + 1])
		o->outputs[o->output_count].path = text + len + 1;
	if (!o->outputs[o->output_count].renderer) {
		char known[128] = "";

		for (size_t i = 0; kp_renderers[i]; i++)
			snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
				 i ? ", " : "", kp_renderers[i]->name);
		return kp_fail(err, KP_EUSAGE, "--format %s: no such format; there are %s", text,
			       known);
	}
	o->output_count++;
	return 0;
}

/* Files of windows are named by the second. */
static int parse_window(const char *text, uint64_t *ret, struct kp_err *err)
{
	if (kp_duration_parse(text, ret, NULL) < 0 || *ret < UINT64_C(1000000000))
		return kp_fail(err, KP_EUSAGE,
			       "--window %s: give a time of at least 1s: 60s, 5m, 1h", text);
	return 0;
}

static int take(struct kp_options *o, int letter, const char *value, struct kp_err *err)
{
	uint64_t number = 0;
	int r = 0;

	switch (letter) {
	case 'p':
		r = parse_count("pid", value, 1, INT32_MAX, &number, err);
		o->pid = (pid_t)number;
		break;
	case 'd':
		r = kp_duration_parse(value, &o->duration_ns, err);
		break;
	case 'r':
		r = kp_rate_parse(value, &o->rate_mhz, err);
		break;
	case OPT_DEPTH:
		r = parse_count("depth", value, 1, KP_DEPTH_MAX, &number, err);
		o->depth = (uint32_t)number;
		break;
	case OPT_UNWIND:
		r = parse_unwind(value, o, err);
		break;
	case OPT_CAP:
		r = parse_count("cap", value, 1, UINT64_C(1) << 40, &o->cap, err);
		break;
	case OPT_CLOCK:
		r = parse_clock(value, &o->clock, err);
		break;
	case OPT_SIGNAL:
		r = kp_signal_parse(value, &o->signal, err);
		break;
	case 'o':
		o->output = value;
		break;
	case 'f':
		r = parse_format(value, o, err);
		break;
	case 't':
		o->render.split = KP_SPLIT_THREAD;
		break;
	case OPT_SYSTEM_CALLS:
		o->system_calls = true;
		break;
	case OPT_PER_PROCESS:
		if (o->render.split == KP_SPLIT_NONE)
			o->render.split = KP_SPLIT_PROCESS;
		break;
	case OPT_STATS:
		o->stats = true;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	case OPT_NO_FOLDED:
		o->no_folded = true;
		break;
	case OPT_NO_FLAT:
		o->no_flat = true;
		break;
	case OPT_NO_FOLLOW:
		o->no_follow = true;
		break;
	case OPT_NO_PTRACE_FALLBACK:
		o->no_ptrace_fallback = true;
		break;
	case OPT_NO_RAW:
		o->no_raw = true;
		break;
	case OPT_WINDOW:
		r = parse_window(value, &o->window_ns, err);
		break;
	case OPT_KEEP:
		r = parse_count("keep", value, 1, 1000000, &o->keep, err);
		break;
	case OPT_ALL:
		o->all = true;
		break;
	case OPT_USER:
		o->user = value;
		break;
	case OPT_EVERYONE:
		o->everyone = true;
		break;
	case OPT_SESSION:
		r = parse_count("session", value, 1, UINT64_MAX, &o->session, err);
		break;
	case OPT_SYMBOLS:
		r = add_symbols(value, o, err);
		break;
	case OPT_SYSROOT:
		r = set_sysroot(value, o, err);
		break;
	case OPT_SYMBOL_BUDGET:
		r = kp_duration_parse(value, &o->symbol_budget_ns, err);
		break;
	case OPT_DEBUGINFOD:
		o->debuginfod_ns = DEBUGINFOD_NS;
		r = value ? kp_duration_parse(value, &o->debuginfod_ns, err) : 0;
		break;
	case OPT_DIR:
		o->dir = value;
		break;
	case OPT_SOCKET:
		o->socket = value;
		break;
	case 'q':
		o->quiet = true;
		break;
	case 'v':
		o->verbose = true;
		break;
	case 'V':
		o->version = true;
		break;
	case 'h':
		o->help = true;
		break;
	}
	return r;
}

static uint64_t default_rate_mhz(enum kp_command command, enum kp_clock_wish clock)
{
	if (command == KP_COMMAND_SOURCES)
		return 0;
	return command == KP_COMMAND_RUN && clock != KP_CLOCK_WALL ? 999000 : 99000;
}

static void set_defaults(enum kp_command command, struct kp_options *o)
{
	*o = (struct kp_options){
		.depth = 127,
		.slice_bytes = 16384,
		.cap = 1000000,
		.duration_ns = command == KP_COMMAND_RECORD ? UINT64_C(10000000000) : 0,
	};
}

int kp_options_parse(enum kp_command command, int argc, char *const *argv, struct kp_options *ret,
		     struct kp_err *err)
{
	struct tables tables;
	int letter, r = 0;

	set_defaults(command, ret);
	make_tables(command, &tables);
	opterr = 0;
	optind = 0; /* glibc: start anew, also with the '+' of another table */
	while (r == 0 &&
	       (letter = getopt_long(argc, argv, tables.letters, tables.longs, NULL)) != -1) {
		const char *word = argv[optind - 1];

		if (letter == '?')
			r = explain_unknown(command, word, optopt, err);
		else if (letter == ':')
			r = kp_fail(err, KP_EUSAGE, "option %s needs a value", word);
		else
			r = take(ret, letter, optarg, err);
	}
	if (!ret->rate_mhz)
		ret->rate_mhz = default_rate_mhz(command, ret->clock);
	ret->words = argv + (argc > 0);
	ret->word_count = optind > 1 ? (size_t)optind - 1 : 0;
	ret->rest = argv + optind;
	return r;
}

void kp_options_help(enum kp_command command, FILE *out)
{
	for (size_t i = 0; i < ROWS; i++) {
		char left[64];

		if (!(rows[i].commands & command))
			continue;
		if (rows[i].letter < 256)
			snprintf(left, sizeof(left), "-%c, --%s%s%s", rows[i].letter, rows[i].name,
				 rows[i].value ? " " : "", rows[i].value ? rows[i].value : "");
		else
			snprintf(left, sizeof(left), "    --%s%s%s", rows[i].name,
				 has_arg(rows[i].value) == required_argument ? " " : "",
				 rows[i].value ? rows[i].value : "");
		fprintf(out, "  %-28s %s\n", left, rows[i].help);
	}
	if (!(command & REPORTS))
		return;
	fprintf(out, "\nFormats:\n");
	for (size_t i = 0; kp_renderers[i]; i++)
		fprintf(out, "  %-28s %s\n", kp_renderers[i]->name, kp_renderers[i]->summary);
}
