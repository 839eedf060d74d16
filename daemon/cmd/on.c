/* kitprof on PID: have kitprofd profile a process. */
#include "daemon/cmd/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE "kitprof on [options] PID"

/* The words for the server: all but which socket it has. */
static char **words_for_server(const struct kp_options *o)
{
	char **words = calloc(o->word_count + 1, sizeof(*words));
	size_t n = 0;

	for (size_t i = 0; words && i < o->word_count; i++) {
		char *word = o->words[i];

		if (strcmp(word, "--socket") == 0)
			i++; /* and its value */
		else if (strncmp(word, "--socket=", 9) != 0 && strcmp(word, "--") != 0)
			words[n++] = word;
	}
	return words;
}

static int on(const struct kp_options *o, pid_t pid)
{
	struct kp_request request = { .command = KP_REQUEST_ON, .pid = pid };
	struct kp_answer answer;
	char line[256];
	int r = -1;

	request.options = words_for_server(o);
	if (request.options)
		r = kp_control_ask(o, &request, &answer, NULL);
	else
		kp_cmd_say("kitprof", "out of memory");
	free(request.options);
	if (r < 0)
		return KP_EXIT_ERROR;
	snprintf(line, sizeof(line), "sampling pid %d (%s); `kitprof off %d` ends it", (int)pid,
		 answer.session_count ? answer.sessions[0].comm : "?", (int)pid);
	if (!o->quiet)
		kp_cmd_say("kitprof", line);
	kp_answer_deinit(&answer);
	return KP_EXIT_OK;
}

int kp_cmd_on(int argc, char **argv)
{
	struct kp_options options;
	struct kp_err err;
	pid_t pid;
	int r = kp_control_begin(
		KP_COMMAND_ON, argc, argv, USAGE,
		"Has kitprofd profile a process until `kitprof off PID`, its end, or "
		"what -d says.\nEach names one process; several may be on. There is no --all.",
		&options, &pid);

	if (r > 0)
		return r - 1;
	if (kp_control_check_on(&options, &err) < 0) {
		kp_cmd_say("kitprof", err.text);
		return KP_EXIT_USAGE;
	}
	return on(&options, pid);
}
