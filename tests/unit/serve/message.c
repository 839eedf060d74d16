/* Unit tests of the control messages: what goes in comes out, and nothing else does harm. */
#include "daemon/serve/message.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kp_err err;
static struct kp_request request;

static int decode(const char *line)
{
	err.text[0] = 0;
	return kp_request_decode(line, strlen(line), &request, &err);
}

static void wrong(const char *line, const char *message)
{
	cr_assert_eq(decode(line), -KP_EBADDATA, "%s", line);
	cr_assert_not_null(strstr(err.text, message), "%s: %s", line, err.text);
	cr_assert_null(request.options);
}

Test(message, request_comes_out_as_it_went_in)
{
	char rate[] = "-r", value[] = "1ms", odd[] = "a \"b\"\n\xc3\xa4";
	char *options[] = { rate, value, odd, NULL };
	struct kp_request sent = { .command = KP_REQUEST_ON, .pid = 4711, .options = options };
	char *line = NULL;

	cr_assert_eq(kp_request_encode(&sent, &line, &err), 0);
	cr_assert_eq(strchr(line, '\n'), line + strlen(line) - 1);
	cr_assert_eq(kp_request_decode(line, strlen(line) - 1, &request, &err), 0);
	cr_assert_eq(request.command, KP_REQUEST_ON);
	cr_assert_eq(request.pid, 4711);
	cr_assert_str_eq(request.options[1], value);
	cr_assert_str_eq(request.options[2], odd);
	cr_assert_null(request.options[3]);
	kp_request_deinit(&request);
	free(line);
}

static void passes(const struct kp_request *sent)
{
	char *line = NULL;

	cr_assert_eq(kp_request_encode(sent, &line, &err), 0);
	cr_assert_eq(kp_request_decode(line, strlen(line) - 1, &request, &err), 0, "%s", err.text);
	cr_assert_eq(request.command, sent->command);
	cr_assert_eq(request.pid, sent->pid);
	cr_assert_eq(request.all, sent->all);
	cr_assert_eq(request.everyone, sent->everyone);
	cr_assert_eq(request.session, sent->session);
	cr_assert_eq(!request.user, !sent->user);
	if (sent->user)
		cr_assert_str_eq(request.user, sent->user);
	kp_request_deinit(&request);
	free(line);
}

Test(message, all_stands_for_a_process)
{
	char user[] = "jo \"e\"";

	passes(&(struct kp_request){ .command = KP_REQUEST_ON, .all = true });
	passes(&(struct kp_request){ .command = KP_REQUEST_ON, .all = true, .user = user });
	passes(&(struct kp_request){ .command = KP_REQUEST_ON, .all = true, .everyone = true });
	passes(&(struct kp_request){ .command = KP_REQUEST_OFF, .all = true });
	passes(&(struct kp_request){ .command = KP_REQUEST_OFF, .session = UINT64_MAX });
	wrong("{\"command\":\"on\",\"all\":true,\"pid\":5}", "exclude");
	wrong("{\"command\":\"off\",\"session\":5,\"pid\":5}", "exclude");
	wrong("{\"command\":\"off\",\"session\":5,\"all\":true}", "exclude");
	wrong("{\"command\":\"on\",\"all\":false}", "pid");
	wrong("{\"command\":\"on\",\"all\":1}", "pid");
	wrong("{\"command\":\"on\",\"session\":5}", "pid");
	wrong("{\"command\":\"on\",\"everyone\":true}", "pid");
	cr_assert_eq(decode("{\"command\":\"on\",\"all\":true,\"user\":7}"), 0);
	cr_assert_null(request.user);
}

Test(message, each_command_has_its_fields)
{
	cr_assert_eq(decode("{\"command\":\"status\"}"), 0);
	cr_assert_eq(request.command, KP_REQUEST_STATUS);
	cr_assert_eq(request.pid, 0);
	cr_assert_eq(decode("{\"command\":\"off\",\"pid\":2147483647}"), 0);
	cr_assert_eq(request.command, KP_REQUEST_OFF);
	cr_assert_eq(request.pid, INT32_MAX);
	cr_assert_eq(
		decode(" {\"pid\":7, \"command\":\"on\", \"later\":{\"x\":[1]}, \"version\":9}"),
		0);
	cr_assert_eq(request.pid, 7);
	cr_assert_null(request.options);
}

Test(message, what_is_no_object_is_refused)
{
	static const char *const lines[] = {
		"",
		" ",
		"on 5",
		"null",
		"[]",
		"5",
		"\"on\"",
		"{",
		"{}{}",
		"{} x",
		"{'command':'on'}",
		"{\"command\":\"on\",}",
		"\xff\xfe",
		"{\"a\":\"\xff\"}",
		"{\"a\"",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		wrong(lines[i], "not one JSON object");
}

Test(message, bytes_behind_a_nul_are_not_overlooked)
{
	static const char line[] = "{\"command\":\"status\"}\0x";

	cr_assert_eq(kp_request_decode(line, sizeof(line) - 1, &request, &err), -KP_EBADDATA);
	wrong("{\"command\":\"on\\u0000\",\"pid\":5}", "no such command");
	wrong("{\"command\":\"on\",\"pid\":5,\"options\":[\"a\\u0000b\"]}", "option 1 is no text");
}

Test(message, unknown_commands_and_wrong_values_are_named)
{
	wrong("{}", "no such command: there are on, off and status");
	wrong("{\"command\":5}", "no such command");
	wrong("{\"command\":\"all\"}", "no such command");
	wrong("{\"command\":\"on\"}", "pid is missing");
	wrong("{\"command\":\"on\",\"pid\":\"5\"}", "pid is missing");
	wrong("{\"command\":\"on\",\"pid\":5.5}", "pid is missing");
	wrong("{\"command\":\"off\",\"pid\":0}", "no process id");
	wrong("{\"command\":\"off\",\"pid\":-1}", "no process id");
	wrong("{\"command\":\"off\",\"pid\":2147483648}", "no process id");
	wrong("{\"command\":\"off\",\"pid\":99999999999999999999999}", "no process id");
	wrong("{\"command\":\"on\",\"pid\":5,\"options\":\"-q\"}", "options is no list");
	wrong("{\"command\":\"on\",\"pid\":5,\"options\":null}", "options is no list");
	wrong("{\"command\":\"on\",\"pid\":5,\"options\":[\"-q\",7]}", "option 2 is no text");
}

Test(message, too_much_is_refused)
{
	char *line = calloc(1, KP_CONTROL_REQUEST_MAX + 2);

	memset(line, ' ', KP_CONTROL_REQUEST_MAX + 1);
	wrong(line, "longer than");
	strcpy(line, "{\"command\":\"on\",\"pid\":5,\"options\":[\"\"");
	for (int i = 0; i < KP_CONTROL_OPTIONS_MAX; i++)
		strcat(line, ",\"\"");
	strcat(line, "]}");
	wrong(line, "options is no list of at most");
	strcpy(line, "{\"x\":");
	for (int i = 0; i < 5000; i++)
		strcat(line, "[");
	wrong(line, "not one JSON object");
	free(line);
}

/* Each byte of a good request replaced by each other one, and each beginning of it. */
Test(message, no_change_of_a_byte_does_harm)
{
	static const char good[] =
		"{\"command\":\"on\",\"pid\":5,\"options\":[\"-r\",\"9\\u00e4\"]}";
	char line[sizeof(good)];

	for (size_t at = 0; at < sizeof(good) - 1; at++) {
		cr_assert_eq(kp_request_decode(good, at, &request, &err), -KP_EBADDATA);
		for (int byte = 0; byte < 256; byte++) {
			memcpy(line, good, sizeof(good));
			line[at] = (char)byte;
			if (kp_request_decode(line, sizeof(good) - 1, &request, &err) == 0)
				cr_assert_gt(request.pid + (request.command == KP_REQUEST_STATUS),
					     0);
			kp_request_deinit(&request);
		}
	}
}

static struct kp_answer pass(const struct kp_answer *sent)
{
	struct kp_answer answer;
	char *line = NULL;

	cr_assert_eq(kp_answer_encode(sent, &line, &err), 0, "%s", err.text);
	cr_assert_eq(kp_answer_decode(line, strlen(line) - 1, &answer, &err), 0, "%s", err.text);
	free(line);
	return answer;
}

Test(message, answer_comes_out_as_it_went_in)
{
	struct kp_served served[2] = {
		{ .pid = 5,
		  .id = 1,
		  .processes = 3,
		  .state = KP_SERVED_SAMPLING,
		  .since_unix_s = 1795977000,
		  .samples = UINT64_C(1) << 60,
		  .comm = "a \"b\"",
		  .options = "-r 99",
		  .file_count = 2,
		  .files = { "a.kitprof", "a.folded" } },
		{ .pid = 0, .id = 9, .state = KP_SERVED_FAILED, .error = "gone", .note = "12" },
	};
	struct kp_answer sent = { .dir = "/var/x", .sessions = served, .session_count = 2 };
	struct kp_answer answer = pass(&sent);

	cr_assert_str_eq(answer.error, "");
	cr_assert_str_eq(answer.dir, "/var/x");
	cr_assert_eq(answer.session_count, 2);
	for (int i = 0; i < 2; i++)
		cr_assert_arr_eq(&answer.sessions[i], &served[i], sizeof(served[i]));
	kp_answer_deinit(&answer);
}

Test(message, refusal_carries_its_reason)
{
	struct kp_answer sent = { .error = "no such process" };
	struct kp_answer answer = pass(&sent);

	cr_assert_str_eq(answer.error, "no such process");
	kp_answer_deinit(&answer);
}

Test(message, names_of_any_bytes_become_text)
{
	struct kp_served served = { .pid = 5, .comm = "a\xff\x01" };
	struct kp_answer sent = { .sessions = &served, .session_count = 1 };
	struct kp_answer answer = pass(&sent);

	cr_assert_str_eq(answer.sessions[0].comm, "a\\xff\x01");
	kp_answer_deinit(&answer);
}

/* All that a server can have to tell fits into an answer. */
Test(message, fullest_answer_fits)
{
	size_t count = KP_CONTROL_SESSIONS_MAX + KP_CONTROL_HISTORY_MAX;
	struct kp_answer sent = { .session_count = count }, answer;

	memset(sent.dir, 'd', sizeof(sent.dir) - 1);
	sent.sessions = calloc(count, sizeof(*sent.sessions));
	for (size_t i = 0; i < count; i++) {
		struct kp_served *served = &sent.sessions[i];

		memset(served->comm, 1, sizeof(served->comm) - 1);
		memset(served->options, 1, sizeof(served->options) - 1);
		memset(served->error, 1, sizeof(served->error) - 1);
		/* One session of all at a time. */
		if (i <= KP_CONTROL_HISTORY_MAX)
			memset(served->note, 1, sizeof(served->note) - 1);
		served->file_count = KP_CONTROL_FILES_MAX;
		for (size_t j = 0; j < KP_CONTROL_FILES_MAX; j++)
			memset(served->files[j], 'f', sizeof(served->files[j]) - 1);
	}
	answer = pass(&sent);
	cr_assert_eq(answer.session_count, count);
	free(sent.sessions);
	kp_answer_deinit(&answer);
}

Test(message, answers_are_not_trusted_either)
{
	static const char *const lines[] = { "", "[]", "{}", "{\"ok\":1}", "{\"ok\":\"yes\"}" };
	struct kp_answer answer;
	char many[256] = "{\"ok\":true,\"sessions\":[7,null,{\"files\":[5,\"x\"";

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		cr_assert_eq(kp_answer_decode(lines[i], strlen(lines[i]), &answer, &err),
			     -KP_EBADDATA);
	for (int i = 0; i < 30; i++)
		strcat(many, ",\"y\"");
	strcat(many, "]}]}");
	cr_assert_eq(kp_answer_decode(many, strlen(many), &answer, &err), 0, "%s", err.text);
	cr_assert_eq(answer.session_count, 3);
	cr_assert_eq(answer.sessions[0].pid, 0);
	cr_assert_eq(answer.sessions[2].file_count, KP_CONTROL_FILES_MAX);
	kp_answer_deinit(&answer);
	cr_assert_eq(kp_answer_decode("{\"ok\":false}", 12, &answer, &err), 0);
	cr_assert_neq(answer.error[0], 0);
	kp_answer_deinit(&answer);
}
