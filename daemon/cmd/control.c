/* The clients of kitprofd: control.h. */
#include "daemon/cmd/control.h"

#include "daemon/render/text.h"
#include "daemon/serve/socket.h"

#include <stdlib.h>
#include <string.h>

static int usage_error(const char *command, const char *text, const char *usage)
{
	char line[256];

	snprintf(line, sizeof(line), "%s: %s: %s", command, text, usage);
	kp_cmd_say("kitprof", line);
	return KP_EXIT_USAGE + 1;
}

int kp_control_begin(enum kp_command command, int argc, char **argv, const char *usage,
		     const char *about, struct kp_options *ret, pid_t *ret_pid)
{
	struct kp_err err;
	char *end;
	long pid;

	if (kp_options_parse(command, argc, argv, ret, &err) < 0) {
		kp_cmd_say("kitprof", err.text);
		return KP_EXIT_USAGE + 1;
	}
	if (kp_cmd_is_help(ret, command, usage, about))
		return KP_EXIT_OK + 1;
	if (ret_pid)
		*ret_pid = 0;
	if (ret->all || ret->session) {
		if (ret->all && ret->session)
			return usage_error(argv[0], "--all or --session, not both", usage);
		return ret->rest[0] ? usage_error(argv[0], "give a process, or what stands for it",
						  usage)
				    : 0;
	}
	if (!ret_pid)
		return ret->rest[0] ? usage_error(argv[0], "it takes no argument", usage) : 0;
	pid = ret->rest[0] ? strtol(ret->rest[0], &end, 10) : 0;
	if (pid <= 0 || pid > INT32_MAX || *end || ret->rest[1])
		return usage_error(argv[0], "give one process", usage);
	*ret_pid = (pid_t)pid;
	return 0;
}

int kp_control_path(const struct kp_options *o, char *ret, size_t size, struct kp_err *err)
{
	if (!o->socket)
		return kp_socket_default_path(false, ret, size, err);
	snprintf(ret, size, "%s", o->socket);
	return 0;
}

int kp_control_ask(const struct kp_options *o, const struct kp_request *request,
		   struct kp_answer *answer, char **ret_line)
{
	char path[4096];
	struct kp_err err;
	int r = kp_control_path(o, path, sizeof(path), &err);

	if (r == 0)
		r = kp_client_ask(path, request, answer, ret_line, &err);
	if (r < 0) {
		kp_cmd_say("kitprof", err.text);
	} else if (answer->error[0]) {
		kp_text_blank(answer->error); /* it may hold a name */
		kp_cmd_say("kitprof", answer->error);
		kp_answer_deinit(answer);
		r = -KP_EREFUSED;
	}
	return r;
}

int kp_control_check_on(const struct kp_options *o, struct kp_err *err)
{
	if (!o->all && (o->user || o->everyone))
		return kp_fail(err, KP_EUSAGE, "on: --user and --everyone belong to --all");
	for (size_t i = 0; i < o->output_count; i++)
		if (o->outputs[i].path)
			return kp_fail(
				err, KP_EUSAGE,
				"on: --format %s:%s: kitprofd names the files itself; give the "
				"format alone",
				o->outputs[i].renderer->name, o->outputs[i].path);
	return 0;
}
