/* kitprof off: end what kitprofd does with a process or all, and say where the results are. */
#include "daemon/cmd/control.h"

#include "daemon/render/text.h"

#include <stdio.h>

#define USAGE "kitprof off [options] PID | --all | --session N"

/* One path a line, for scripts as well. */
static void print_files(const char *dir, const struct kp_served *served)
{
	for (size_t i = 0; i < served->file_count; i++) {
		kp_text_put(stdout, dir, 0);
		putchar('/');
		kp_text_put(stdout, served->files[i], 0);
		putchar('\n');
	}
}

static int report(const struct kp_answer *answer)
{
	const struct kp_served *served = answer->sessions;
	char line[700];

	if (answer->session_count != 1) {
		kp_cmd_say("kitprof", "kitprofd's answer names no session");
		return KP_EXIT_ERROR;
	}
	print_files(answer->dir, served);
	if (served->state == KP_SERVED_FAILED) {
		if (served->pid)
			snprintf(line, sizeof(line), "pid %d: %s", (int)served->pid, served->error);
		else
			snprintf(line, sizeof(line), "all: %s", served->error);
		kp_text_blank(line);
		kp_cmd_say("kitprof", line);
		return KP_EXIT_ERROR;
	}
	return served->samples ? KP_EXIT_OK : KP_EXIT_NOTHING;
}

int kp_cmd_off(int argc, char **argv)
{
	struct kp_request request = { .command = KP_REQUEST_OFF };
	struct kp_options options;
	struct kp_answer answer;
	int r = kp_control_begin(
		KP_COMMAND_OFF, argc, argv, USAGE,
		"Ends the profiling of a process, or of all, and prints the names of the files "
		"that were written.",
		&options, &request.pid);

	if (r > 0)
		return r - 1;
	request.all = options.all;
	request.session = options.session;
	if (kp_control_ask(&options, &request, &answer, NULL) < 0)
		return KP_EXIT_ERROR;
	r = report(&answer);
	kp_answer_deinit(&answer);
	return r;
}
