/* kitprof status: what kitprofd profiles, and what it has written. */
#include "daemon/cmd/control.h"

#include "daemon/render/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define USAGE "kitprof status [options]"

static void print_session(const struct kp_served *served)
{
	time_t since = (time_t)served->since_unix_s;
	char at[32] = "?", comm[sizeof(served->comm)], pid[16] = "all";
	struct tm tm;

	if (gmtime_r(&since, &tm))
		strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &tm);
	snprintf(comm, sizeof(comm), "%s", served->comm);
	kp_text_blank(comm);
	if (served->pid)
		snprintf(pid, sizeof(pid), "%d", (int)served->pid);
	printf("%8s  %-16s  %-8s  %20s  %8" PRIu64 "  %5" PRIu64 "  %2" PRIu64 "  ", pid, comm,
	       kp_served_state_name(served->state), at, served->samples, served->processes,
	       served->id);
	kp_text_put(stdout, served->options[0] ? served->options : "-", 0);
	putchar('\n');
	if (served->error[0]) {
		printf("          ");
		kp_text_put(stdout, served->error, 0);
		putchar('\n');
	}
	for (size_t i = 0; i < served->file_count; i++) {
		printf("          ");
		kp_text_put(stdout, served->files[i], 0);
		putchar('\n');
	}
}

static void print_all(const struct kp_answer *answer)
{
	printf("Results are in ");
	kp_text_put(stdout, answer->dir, 0);
	printf("\n%8s  %-16s  %-8s  %-20s  %8s  %5s  %2s  %s\n", "PID", "COMM", "STATE", "SINCE",
	       "SAMPLES", "PROCS", "ID", "OPTIONS");
	for (size_t i = 0; i < answer->session_count; i++)
		print_session(&answer->sessions[i]);
}

int kp_cmd_status(int argc, char **argv)
{
	struct kp_request request = { .command = KP_REQUEST_STATUS };
	struct kp_options options;
	struct kp_answer answer;
	char *line = NULL;
	int r = kp_control_begin(
		KP_COMMAND_STATUS, argc, argv, USAGE,
		"Lists the processes that kitprofd profiles, and the last ones that it "
		"is done with.",
		&options, NULL);

	if (r > 0)
		return r - 1;
	r = kp_control_ask(&options, &request, &answer, &line);
	if (r == 0) {
		if (options.json)
			puts(line);
		else
			print_all(&answer);
		kp_answer_deinit(&answer);
	}
	free(line);
	return r < 0 ? KP_EXIT_ERROR : KP_EXIT_OK;
}
