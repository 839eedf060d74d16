/* Unit tests of the command line: each command takes its options, and a mistake is named. */
#include "daemon/cmd/options.h"
#include "daemon/cmd/output.h"
#include "tests/support/test.h"

#include <signal.h>
#include <string.h>

static struct kp_err err;
static struct kp_options o;

#define WORDS_MAX 24

/* Parses words that are separated by blanks. They stay until the next call. */
static int parse(enum kp_command command, const char *line)
{
	static char text[512];
	static char *words[WORDS_MAX + 1];
	int count = 0;

	snprintf(text, sizeof(text), "%s", line);
	memset(words, 0, sizeof(words));
	for (char *word = strtok(text, " "); word && count < WORDS_MAX; word = strtok(NULL, " "))
		words[count++] = word;
	err.text[0] = 0;
	return kp_options_parse(command, count, words, &o, &err);
}

static void wrong(enum kp_command command, const char *line, const char *message)
{
	cr_assert_eq(parse(command, line), -KP_EUSAGE, "%s", line);
	cr_assert_not_null(strstr(err.text, message), "%s: %s", line, err.text);
}

Test(options, without_any_there_are_defaults)
{
	cr_assert_eq(parse(KP_COMMAND_RUN, "run -- prog"), 0);
	cr_assert_eq(o.rate_mhz, 999000);
	cr_assert_eq(o.depth, 127);
	cr_assert_eq(o.cap, 1000000);
	cr_assert_eq(o.duration_ns, 0);
	cr_assert_eq(o.clock, KP_CLOCK_AUTO);
	cr_assert_eq(o.unwind, KP_UNWIND_AUTO);
	cr_assert_eq(o.slice_bytes, 16384);
	cr_assert_null(o.output);

	cr_assert_eq(parse(KP_COMMAND_RECORD, "record --pid 5"), 0);
	cr_assert_eq(o.rate_mhz, 99000);
	cr_assert_eq(o.duration_ns, UINT64_C(10000000000));

	cr_assert_eq(parse(KP_COMMAND_DAEMON, "kitprofd --pid 5"), 0);
	cr_assert_eq(o.rate_mhz, 99000);
	cr_assert_eq(o.duration_ns, 0);
}

Test(options, wall_has_one_rate_by_default)
{
	cr_assert_eq(parse(KP_COMMAND_RUN, "run --clock wall -- prog"), 0);
	cr_assert_eq(o.clock, KP_CLOCK_WALL);
	cr_assert_eq(o.rate_mhz, 99000);
	cr_assert_eq(parse(KP_COMMAND_RUN, "run -r 500 --clock wall -- prog"), 0);
	cr_assert_eq(o.rate_mhz, 500000);
	cr_assert_eq(parse(KP_COMMAND_RECORD, "record -p 5 --clock wall"), 0);
	cr_assert_eq(o.rate_mhz, 99000);
	cr_assert_eq(parse(KP_COMMAND_SOURCES, "sources --clock wall"), 0);
	cr_assert_eq(o.rate_mhz, 0);
}

static void unwinds(const char *how, enum kp_unwind_mode mode, uint32_t bytes)
{
	char line[64];

	snprintf(line, sizeof(line), "record -p 5 --unwind %s", how);
	cr_assert_eq(parse(KP_COMMAND_RECORD, line), 0);
	cr_assert_eq(o.unwind, mode);
	cr_assert_eq(o.slice_bytes, bytes);
}

Test(options, ways_to_unwind)
{
	static const char *const bad[] = {
		"",
		"Fp",
		"slice:",
		"slice:1023",
		"slice:65537",
		"slice:65k",
		"slice:-1",
		"slice:16kb",
		"slice:+4096",
		"slice:99999999999999999999",
		"slice: 4096",
		"fp:4096",
	};

	unwinds("auto", KP_UNWIND_AUTO, 16384);
	unwinds("fp", KP_UNWIND_FP, 16384);
	unwinds("table", KP_UNWIND_TABLE, 16384);
	unwinds("slice", KP_UNWIND_SLICE, 16384);
	unwinds("slice:1024", KP_UNWIND_SLICE, 1024);
	unwinds("slice:8k", KP_UNWIND_SLICE, 8192);
	unwinds("slice:64k", KP_UNWIND_SLICE, 65536);
	unwinds("slice:5003", KP_UNWIND_SLICE, 5000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char command[] = "record", option[64] = "--unwind=";
		char *words[] = { command, option, NULL };

		strcat(option, bad[i]);
		cr_assert_eq(kp_options_parse(KP_COMMAND_RECORD, 2, words, &o, &err), -KP_EUSAGE,
			     "%s", bad[i]);
		cr_assert_not_null(strstr(err.text, "give auto, fp, table, slice"));
	}
	wrong(KP_COMMAND_REPORT, "report --unwind fp x", "does not belong to");
}

Test(options, each_is_taken)
{
	cr_assert_eq(parse(KP_COMMAND_RECORD,
			   "record -p 12 -d 5 -r 1ms --depth 256 --cap 50 --clock timer "
			   "--signal PROF -o x.folded -f pprof -f flat:- -q -v"),
		     0);
	cr_assert_eq(o.pid, 12);
	cr_assert_eq(o.duration_ns, UINT64_C(5000000000));
	cr_assert_eq(o.rate_mhz, 1000000);
	cr_assert_eq(o.depth, 256);
	cr_assert_eq(o.cap, 50);
	cr_assert_eq(o.clock, KP_CLOCK_TIMER);
	cr_assert_eq(o.signal, SIGPROF);
	cr_assert_str_eq(o.output, "x.folded");
	cr_assert_eq(o.output_count, 2);
	cr_assert_eq(o.outputs[0].renderer, &kp_render_pprof);
	cr_assert_null(o.outputs[0].path);
	cr_assert_eq(o.outputs[1].renderer, &kp_render_flat);
	cr_assert_str_eq(o.outputs[1].path, "-");
	cr_assert(o.quiet);
	cr_assert(o.verbose);
	cr_assert_not(o.no_folded || o.no_flat || o.no_raw || o.help || o.version);

	cr_assert_eq(parse(KP_COMMAND_RUN,
			   "run --no-folded --no-flat --no-raw --no-ptrace-fallback -hV"),
		     0);
	cr_assert(o.no_folded && o.no_flat && o.no_raw && o.help && o.version);
	cr_assert(o.no_ptrace_fallback);
}

Test(options, both_forms_of_a_value_are_the_same)
{
	cr_assert_eq(parse(KP_COMMAND_RECORD, "record --pid=7 -d3 --rate=250us"), 0);
	cr_assert_eq(o.pid, 7);
	cr_assert_eq(o.duration_ns, UINT64_C(3000000000));
	cr_assert_eq(o.rate_mhz, 4000000);
}

Test(options, program_and_its_words_are_left_alone)
{
	cr_assert_eq(parse(KP_COMMAND_RUN, "run -q -- prog --wat -o x -- y"), 0);
	cr_assert_str_eq(o.rest[0], "prog");
	cr_assert_str_eq(o.rest[1], "--wat");
	cr_assert_str_eq(o.rest[5], "y");
	cr_assert_null(o.rest[6]);

	cr_assert_eq(parse(KP_COMMAND_RUN, "run prog -q --wat"), 0);
	cr_assert_str_eq(o.rest[0], "prog");
	cr_assert_str_eq(o.rest[1], "-q");
	cr_assert_not(o.quiet);
}

Test(options, options_may_follow_the_file_of_a_report)
{
	cr_assert_eq(parse(KP_COMMAND_REPORT, "report a.kitprof -f pprof -q"), 0);
	cr_assert_str_eq(o.rest[0], "a.kitprof");
	cr_assert_null(o.rest[1]);
	cr_assert_eq(o.output_count, 1);
	cr_assert(o.quiet);

	cr_assert_eq(parse(KP_COMMAND_REPORT, "report -q -- -f"), 0);
	cr_assert_str_eq(o.rest[0], "-f");
}

Test(options, parsing_starts_anew_each_time)
{
	cr_assert_eq(parse(KP_COMMAND_REPORT, "report -qf pprof x"), 0);
	cr_assert_eq(parse(KP_COMMAND_RUN, "run -- x"), 0);
	cr_assert_not(o.quiet);
	cr_assert_eq(o.output_count, 0);
	wrong(KP_COMMAND_RUN, "run -vZ x", "unknown option -Z");
	cr_assert_eq(parse(KP_COMMAND_RUN, "run -v x"), 0);
	cr_assert_str_eq(o.rest[0], "x");
}

Test(options, unknown_ones_are_named)
{
	wrong(KP_COMMAND_RUN, "run --wat -- x", "unknown option --wat; `kitprof run --help`");
	wrong(KP_COMMAND_RUN, "run --wat=5 -- x", "unknown option --wat;");
	wrong(KP_COMMAND_RECORD, "record -Z", "unknown option -Z; `kitprof record --help`");
	wrong(KP_COMMAND_DAEMON, "kitprofd --wat", "`kitprofd --help`");
}

Test(options, misplaced_ones_are_named_with_their_command)
{
	wrong(KP_COMMAND_RUN, "run --pid 5",
	      "option --pid does not belong to `kitprof run` but to");
	wrong(KP_COMMAND_RUN, "run --pid=5",
	      "option --pid does not belong to `kitprof run` but to");
	wrong(KP_COMMAND_RUN, "run -p 5",
	      "option -p does not belong to `kitprof run` but to `kitprof record`");
	wrong(KP_COMMAND_REPORT, "report --cap 5 x",
	      "option --cap does not belong to `kitprof report`");
	wrong(KP_COMMAND_CLEANUP, "cleanup --rate 5",
	      "option --rate does not belong to `kitprof cleanup`");
}

Test(options, missing_and_superfluous_values_are_named)
{
	wrong(KP_COMMAND_RUN, "run --rate", "option --rate needs a value");
	wrong(KP_COMMAND_RUN, "run -q -o", "option -o needs a value");
	wrong(KP_COMMAND_RUN, "run --quiet=yes x", "option --quiet takes no value");
}

Test(options, numbers_have_their_range)
{
	wrong(KP_COMMAND_RUN, "run --depth 0", "--depth 0: give a number from 1 to 1024");
	wrong(KP_COMMAND_RUN, "run --depth 1025", "--depth 1025:");
	wrong(KP_COMMAND_RUN, "run --depth 64x", "--depth 64x:");
	wrong(KP_COMMAND_RUN, "run --depth -1", "--depth -1:");
	wrong(KP_COMMAND_RUN, "run --cap 0", "--cap 0:");
	wrong(KP_COMMAND_RUN, "run --cap 99999999999999999999", "--cap 99999999999999999999:");
	wrong(KP_COMMAND_RECORD, "record --pid 0", "--pid 0:");
	wrong(KP_COMMAND_RECORD, "record --pid 4294967297", "--pid 4294967297:");
	wrong(KP_COMMAND_RECORD, "record --pid self", "--pid self:");
	wrong(KP_COMMAND_RUN, "run --clock quartz",
	      "--clock quartz: give auto, cycles, task, timer or wall");
}

Test(options, formats_are_those_that_there_are)
{
	wrong(KP_COMMAND_RUN, "run -f svg x",
	      "--format svg: no such format; there are folded, flat, pprof");
	wrong(KP_COMMAND_RUN, "run -f :x x", "--format :x: no such format");
	wrong(KP_COMMAND_RUN, "run -f pprofpprofpprofpprofpprofpprofpprofpprof x",
	      "no such format");
	cr_assert_eq(parse(KP_COMMAND_RUN, "run -f pprof: -f flat:a:b x"), 0);
	cr_assert_null(o.outputs[0].path);
	cr_assert_str_eq(o.outputs[1].path, "a:b");
}

Test(options, too_many_formats_are_refused)
{
	char line[512] = "run";

	for (int i = 0; i < KP_OUTPUTS_MAX; i++)
		strcat(line, " -fflat");
	cr_assert_eq(parse(KP_COMMAND_RUN, line), 0);
	cr_assert_eq(o.output_count, KP_OUTPUTS_MAX);
	strcat(line, " -fflat");
	wrong(KP_COMMAND_RUN, line, "--format: at most");
}

static const char *path_for(const char *output, const char *extension)
{
	static char room[64];
	struct kp_options options = { .output = output };

	return kp_output_path(&options, extension, room, sizeof(room));
}

Test(options, files_are_named_after_the_folded_one)
{
	cr_assert_str_eq(path_for(NULL, ".flat"), "prof.flat");
	cr_assert_str_eq(path_for("-", ".kitprof"), "prof.kitprof");
	cr_assert_str_eq(path_for("a.folded", ".flat"), "a.flat");
	cr_assert_str_eq(path_for("d.folded/a", ".flat"), "d.folded/a.flat");
	cr_assert_str_eq(path_for("a.txt", ".flat"), "a.txt.flat");
	cr_assert_str_eq(path_for(".folded", ".flat"), ".folded.flat");
}

Test(options, threads_are_told_apart_more_finely_than_processes)
{
	cr_assert_eq(parse(KP_COMMAND_RUN, "run prog"), 0);
	cr_assert_eq(o.render.split, KP_SPLIT_NONE);
	cr_assert_eq(parse(KP_COMMAND_RECORD, "record --per-process -p 1"), 0);
	cr_assert_eq(o.render.split, KP_SPLIT_PROCESS);
	cr_assert_eq(parse(KP_COMMAND_DAEMON, "kitprofd -t --per-process -p 1"), 0);
	cr_assert_eq(o.render.split, KP_SPLIT_THREAD);
	cr_assert_eq(parse(KP_COMMAND_REPORT, "report --per-process --threads x.kitprof"), 0);
	cr_assert_eq(o.render.split, KP_SPLIT_THREAD);
}

Test(options, figures_are_asked_of_report)
{
	cr_assert_eq(parse(KP_COMMAND_REPORT, "report --stats --json x.kitprof"), 0);
	cr_assert(o.stats && o.json);
	wrong(KP_COMMAND_RUN, "run --stats prog", "`kitprof report`");
	wrong(KP_COMMAND_RECORD, "record --json -p 1", "`kitprof report`");
}

Test(options, windows_have_their_length)
{
	cr_assert_eq(parse(KP_COMMAND_DAEMON, "kitprofd -p 5 --window 60s --keep 3 --dir x"), 0);
	cr_assert_eq(o.window_ns, UINT64_C(60000000000));
	cr_assert_eq(o.keep, 3);
	cr_assert_str_eq(o.dir, "x");
	wrong(KP_COMMAND_DAEMON, "kitprofd --window 0.5",
	      "--window 0.5: give a time of at least 1s");
	wrong(KP_COMMAND_DAEMON, "kitprofd --window soon", "--window soon:");
	wrong(KP_COMMAND_DAEMON, "kitprofd --keep 0", "--keep 0: give a number from 1");
	wrong(KP_COMMAND_RECORD, "record --window 5", "does not belong to `kitprof record`");
}

Test(options, server_is_not_told_how_to_sample)
{
	cr_assert_eq(parse(KP_COMMAND_SERVE, "kitprofd --socket s --dir x -q"), 0);
	cr_assert_str_eq(o.socket, "s");
	wrong(KP_COMMAND_SERVE, "kitprofd --rate 99",
	      "does not belong to `kitprofd without --pid`");
	wrong(KP_COMMAND_SERVE, "kitprofd --window 60",
	      "does not belong to `kitprofd without --pid`");
}

Test(options, on_takes_what_sampling_takes_but_no_file)
{
	cr_assert_eq(parse(KP_COMMAND_ON, "on 5 -r 999 -f pprof --no-flat --socket=s"), 0);
	cr_assert_str_eq(o.rest[0], "5");
	cr_assert_null(o.rest[1]);
	cr_assert_eq(o.rate_mhz, 999000);
	cr_assert_eq(o.duration_ns, 0);
	wrong(KP_COMMAND_ON, "on 5 -o x", "does not belong to `kitprof on`");
	cr_assert_eq(parse(KP_COMMAND_ON, "on --all --user=joe"), 0);
	cr_assert(o.all && !o.everyone);
	cr_assert_str_eq(o.user, "joe");
	cr_assert_eq(parse(KP_COMMAND_ON, "on --all --everyone"), 0);
	cr_assert(o.all && o.everyone);
	wrong(KP_COMMAND_RECORD, "record --all", "does not belong to `kitprof record`");
	wrong(KP_COMMAND_ON, "on --session 5", "does not belong to `kitprof on`");
	cr_assert_eq(parse(KP_COMMAND_OFF, "off --session 5"), 0);
	cr_assert_eq(o.session, 5);
	wrong(KP_COMMAND_OFF, "off --session 0", "--session 0");
	wrong(KP_COMMAND_OFF, "off --user joe", "does not belong to `kitprof off`");
	wrong(KP_COMMAND_OFF, "off 5 -r 99", "does not belong to `kitprof off`");
	cr_assert_eq(parse(KP_COMMAND_STATUS, "status --json"), 0);
	cr_assert(o.json);
}

Test(options, words_are_those_before_the_rest)
{
	cr_assert_eq(parse(KP_COMMAND_ON, "on -r 99 5 --cap=7"), 0);
	cr_assert_eq(o.word_count, 3);
	cr_assert_str_eq(o.words[0], "-r");
	cr_assert_str_eq(o.words[1], "99");
	cr_assert_str_eq(o.words[2], "--cap=7");
	cr_assert_eq(parse(KP_COMMAND_ON, "on"), 0);
	cr_assert_eq(o.word_count, 0);
}
