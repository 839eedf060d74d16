/* kitprof on: have kitprofd profile a process, or all. */
#include "daemon/cmd/control.h"
#include "daemon/cmd/whom.h"

#include "daemon/render/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define USAGE "kitprof on [options] PID | --all"

/* What the server does not take as a word: which socket it has, and what goes into fields. */
static const struct {
	const char *name;
	bool has_value;
} own_words[] = {
	{ "--socket", true },	 { "--user", true }, { "--all", false },
	{ "--everyone", false }, { "--", false },
};

/* How many words of the command line an own one takes; 0: it is none. */
static size_t is_own(const char *word)
{
	for (size_t i = 0; i < sizeof(own_words) / sizeof(own_words[0]); i++) {
		size_t len = strlen(own_words[i].name);

		if (strncmp(word, own_words[i].name, len) != 0)
			continue;
		if (!word[len])
			return own_words[i].has_value ? 2 : 1;
		if (own_words[i].has_value && word[len] == '=')
			return 1;
	}
	return 0;
}

static char **words_for_server(const struct kp_options *o)
{
	char **words = calloc(o->word_count + 1, sizeof(*words));
	size_t n = 0, own;

	for (size_t i = 0; words && i < o->word_count; i += own ? own : 1) {
		own = is_own(o->words[i]);
		if (!own)
			words[n++] = o->words[i];
	}
	return words;
}

/* As far as it can be known before asking: the socket belongs to whom kitprofd runs as. */
static int check_whom(const struct kp_options *o, struct kp_err *err)
{
	struct kp_whom whom;
	char path[4096];
	struct stat st;
	int r = kp_control_path(o, path, sizeof(path), err);

	if (r < 0 || stat(path, &st) != 0)
		return r; /* no server: asking says what to do */
	return kp_whom_resolve(o->user, o->everyone, st.st_uid, &whom, err);
}

static void say_begun(const struct kp_request *request, const struct kp_answer *answer)
{
	const struct kp_served *served = answer->session_count ? answer->sessions : NULL;
	char line[1024];

	if (request->all)
		snprintf(line, sizeof(line), "on --all: %s; `kitprof off --all` ends it",
			 served ? served->note : "?");
	else
		snprintf(line, sizeof(line), "sampling pid %d (%s); `kitprof off %d` ends it",
			 (int)request->pid, served ? served->comm : "?", (int)request->pid);
	kp_text_blank(line); /* there are names in it */
	kp_cmd_say("kitprof", line);
}

static int on(const struct kp_options *o, pid_t pid)
{
	struct kp_request request = {
		.command = KP_REQUEST_ON, .pid = pid, .all = o->all, .everyone = o->everyone
	};
	struct kp_answer answer;
	int r = -1;

	request.options = words_for_server(o);
	request.user = o->user ? strdup(o->user) : NULL;
	if (request.options && (request.user || !o->user))
		r = kp_control_ask(o, &request, &answer, NULL);
	else
		kp_cmd_say("kitprof", "out of memory");
	free(request.options);
	free(request.user);
	if (r < 0)
		return KP_EXIT_ERROR;
	if (!o->quiet)
		say_begun(&request, &answer);
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
		"Has kitprofd profile a process, or with --all those of its user, until `kitprof "
		"off`,\ntheir end, or what -d says. Several may be on.",
		&options, &pid);

	if (r > 0)
		return r - 1;
	r = kp_control_check_on(&options, &err);
	if (r == 0 && options.all)
		r = check_whom(&options, &err);
	if (r < 0) {
		kp_cmd_say("kitprof", err.text);
		return r == -KP_EUSAGE ? KP_EXIT_USAGE : KP_EXIT_ERROR;
	}
	return on(&options, pid);
}
