/* kitprof: finds the command and hands over. */
#include "daemon/cmd/cmd.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "run", kp_cmd_run, "start a program and profile it to its end" },
	{ "record", kp_cmd_record, "profile a process that runs, for a while" },
	{ "report", kp_cmd_report, "render a raw profile (*.kitprof)" },
	{ "sources", kp_cmd_sources, "what this machine can sample with, and whether a process" },
	{ "on", kp_cmd_on, "have kitprofd profile a process" },
	{ "off", kp_cmd_off, "end that, and say where the results are" },
	{ "status", kp_cmd_status, "what kitprofd profiles, and what it has written" },
	{ "cleanup", kp_cmd_cleanup, "remove what a killed kitprof left in a process" },
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *out)
{
	fprintf(out, "Usage: kitprof COMMAND [options] ...\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(out, "\n`kitprof COMMAND --help` lists its options. Try: kitprof run -- PROGRAM\n");
}

int main(int argc, char **argv)
{
	char line[128];

	if (argc < 2) {
		print_usage(stderr);
		return KP_EXIT_USAGE;
	}
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		print_usage(stdout);
		return KP_EXIT_OK;
	}
	if (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0 ||
	    strcmp(argv[1], "version") == 0) {
		printf("kitprof %s\n", KP_VERSION);
		return KP_EXIT_OK;
	}
	snprintf(line, sizeof(line), "no command %s; `kitprof --help` lists them", argv[1]);
	kp_cmd_say("kitprof", line);
	return KP_EXIT_USAGE;
}
