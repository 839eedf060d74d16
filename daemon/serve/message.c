/*
 * Requests and answers as JSON: message.h. Client and server; pure. json-c reads and writes the
 * text, this file says what has to be in it.
 */
#include "daemon/serve/message.h"

#include "daemon/profile/utf8.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const command_names[] = { "on", "off", "status" };
static const char *const state_names[] = { "starting", "sampling", "writing", "ended", "failed" };
#define COMMANDS (sizeof(command_names) / sizeof(command_names[0]))
#define STATES (sizeof(state_names) / sizeof(state_names[0]))

const char *kp_served_state_name(enum kp_served_state state)
{
	return (size_t)state < STATES ? state_names[state] : "?";
}

/* ---- reading ---- */

static void put_object(struct json_object **object)
{
	json_object_put(*object);
}

static void free_tokener(struct json_tokener **tokener)
{
	if (*tokener)
		json_tokener_free(*tokener);
}

#define _cleanup_object_ __attribute__((cleanup(put_object)))
#define _cleanup_tokener_ __attribute__((cleanup(free_tokener)))

static int parse(const char *line, size_t len, struct json_object **ret, struct kp_err *err)
{
	_cleanup_tokener_ struct json_tokener *tokener =
		json_tokener_new_ex(KP_CONTROL_NESTING_MAX);
	struct json_object *object;

	if (!tokener)
		return kp_fail_nomem(err);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	object = json_tokener_parse_ex(tokener, line, (int)len);
	if (!object || json_tokener_get_error(tokener) != json_tokener_success ||
	    json_tokener_get_parse_end(tokener) != len ||
	    !json_object_is_type(object, json_type_object)) {
		json_object_put(object);
		return kp_fail(err, KP_EBADDATA, "the message is not one JSON object");
	}
	*ret = object;
	return 0;
}

static struct json_object *field(struct json_object *object, const char *key, enum json_type type)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(object, key, &value);
	return json_object_is_type(value, type) ? value : NULL;
}

/* A text without NUL inside; NULL if it is not one. */
static const char *plain_text(struct json_object *value)
{
	const char *text;

	if (!json_object_is_type(value, json_type_string))
		return NULL;
	text = json_object_get_string(value);
	return strlen(text) == (size_t)json_object_get_string_len(value) ? text : NULL;
}

static void read_text(struct json_object *object, const char *key, char *ret, size_t size)
{
	const char *text = plain_text(field(object, key, json_type_string));

	snprintf(ret, size, "%s", text ? text : "");
}

static uint64_t read_number(struct json_object *object, const char *key)
{
	struct json_object *value = field(object, key, json_type_int);

	return value ? json_object_get_uint64(value) : 0;
}

static int find_name(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (name && strcmp(names[i], name) == 0)
			return (int)i;
	return -1;
}

static int read_command(struct json_object *object, enum kp_request_command *ret,
			struct kp_err *err)
{
	const char *name = plain_text(field(object, "command", json_type_string));
	int command = find_name(command_names, COMMANDS, name);

	if (command < 0)
		return kp_fail(err, KP_EBADDATA, "no such command: there are on, off and status");
	*ret = (enum kp_request_command)command;
	return 0;
}

static bool read_flag(struct json_object *object, const char *key)
{
	return json_object_get_boolean(field(object, key, json_type_boolean));
}

static int read_pid(struct json_object *object, pid_t *ret, struct kp_err *err)
{
	struct json_object *value = field(object, "pid", json_type_int);
	int64_t pid = value ? json_object_get_int64(value) : 0;

	if (pid < 1 || pid > INT32_MAX)
		return kp_fail(err, KP_EBADDATA, "pid is missing or no process id");
	*ret = (pid_t)pid;
	return 0;
}

/* One process, or all of a user; to end it, also the id of a session. */
static int read_target(struct json_object *object, struct kp_request *ret, struct kp_err *err)
{
	const char *user = plain_text(field(object, "user", json_type_string));

	ret->all = read_flag(object, "all");
	if (ret->command == KP_REQUEST_OFF)
		ret->session = read_number(object, "session");
	if (!ret->all && !ret->session)
		return read_pid(object, &ret->pid, err);
	if (json_object_object_get_ex(object, "pid", NULL) || (ret->all && ret->session))
		return kp_fail(err, KP_EBADDATA, "pid, all and session exclude each other");
	if (ret->command == KP_REQUEST_OFF)
		return 0;
	ret->everyone = read_flag(object, "everyone");
	if (!user)
		return 0;
	ret->user = strdup(user);
	return ret->user ? 0 : kp_fail_nomem(err);
}

static int read_options(struct json_object *object, char ***ret, struct kp_err *err)
{
	struct json_object *list = NULL;
	size_t count;

	if (!json_object_object_get_ex(object, "options", &list))
		return 0;
	count = json_object_is_type(list, json_type_array) ? json_object_array_length(list)
							   : SIZE_MAX;
	if (count > KP_CONTROL_OPTIONS_MAX)
		return kp_fail(err, KP_EBADDATA, "options is no list of at most %d words",
			       KP_CONTROL_OPTIONS_MAX);
	*ret = calloc(count + 1, sizeof(**ret));
	if (!*ret)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < count; i++) {
		const char *word = plain_text(json_object_array_get_idx(list, i));

		if (!word)
			return kp_fail(err, KP_EBADDATA, "option %zu is no text", i + 1);
		(*ret)[i] = strdup(word);
		if (!(*ret)[i])
			return kp_fail_nomem(err);
	}
	return 0;
}

int kp_request_decode(const char *line, size_t len, struct kp_request *ret, struct kp_err *err)
{
	_cleanup_object_ struct json_object *object = NULL;
	int r;

	*ret = (struct kp_request){ 0 };
	if (len > KP_CONTROL_REQUEST_MAX)
		return kp_fail(err, KP_EBADDATA, "the request is longer than %u bytes",
			       KP_CONTROL_REQUEST_MAX);
	r = parse(line, len, &object, err);
	if (r == 0)
		r = read_command(object, &ret->command, err);
	if (r == 0 && ret->command != KP_REQUEST_STATUS)
		r = read_target(object, ret, err);
	if (r == 0 && ret->command == KP_REQUEST_ON)
		r = read_options(object, &ret->options, err);
	if (r < 0)
		kp_request_deinit(ret);
	return r;
}

void kp_request_deinit(struct kp_request *request)
{
	for (char **word = request->options; word && *word; word++)
		free(*word);
	free(request->options);
	free(request->user);
	*request = (struct kp_request){ 0 };
}

static void read_session(struct json_object *object, struct kp_served *ret)
{
	struct json_object *files = field(object, "files", json_type_array);
	char state[16];
	int found;

	read_text(object, "state", state, sizeof(state));
	found = find_name(state_names, STATES, state);
	ret->state = found < 0 ? KP_SERVED_FAILED : (enum kp_served_state)found;
	ret->pid = (pid_t)read_number(object, "pid");
	ret->id = read_number(object, "id");
	ret->since_unix_s = read_number(object, "since_unix_s");
	ret->samples = read_number(object, "samples");
	ret->processes = read_number(object, "processes");
	read_text(object, "comm", ret->comm, sizeof(ret->comm));
	read_text(object, "options", ret->options, sizeof(ret->options));
	read_text(object, "error", ret->error, sizeof(ret->error));
	read_text(object, "note", ret->note, sizeof(ret->note));
	for (size_t i = 0; files && i < json_object_array_length(files); i++) {
		const char *name = plain_text(json_object_array_get_idx(files, i));

		if (name && ret->file_count < KP_CONTROL_FILES_MAX)
			snprintf(ret->files[ret->file_count++], sizeof(ret->files[0]), "%s", name);
	}
}

int kp_answer_decode(const char *line, size_t len, struct kp_answer *ret, struct kp_err *err)
{
	_cleanup_object_ struct json_object *object = NULL;
	struct json_object *sessions, *ok;
	size_t count;
	int r = parse(line, len, &object, err);

	*ret = (struct kp_answer){ 0 };
	if (r < 0)
		return r;
	ok = field(object, "ok", json_type_boolean);
	if (!ok)
		return kp_fail(err, KP_EBADDATA, "the answer does not say whether all is well");
	read_text(object, "error", ret->error, sizeof(ret->error));
	if (!json_object_get_boolean(ok) && !ret->error[0])
		snprintf(ret->error, sizeof(ret->error), "kitprofd refuses without a reason");
	read_text(object, "dir", ret->dir, sizeof(ret->dir));
	sessions = field(object, "sessions", json_type_array);
	count = sessions ? json_object_array_length(sessions) : 0;
	if (count > KP_CONTROL_SESSIONS_MAX + KP_CONTROL_HISTORY_MAX)
		return kp_fail(err, KP_EBADDATA,
			       "the answer has %zu sessions, more than there can be", count);
	ret->sessions = calloc(count + 1, sizeof(*ret->sessions));
	if (!ret->sessions)
		return kp_fail_nomem(err);
	ret->session_count = count;
	for (size_t i = 0; i < count; i++)
		read_session(json_object_array_get_idx(sessions, i), &ret->sessions[i]);
	return 0;
}

void kp_answer_deinit(struct kp_answer *answer)
{
	free(answer->sessions);
	*answer = (struct kp_answer){ 0 };
}

/* ---- writing ---- */

/* Takes value. Want of memory leaves the field away and is told by finish(). */
static void put(struct json_object *object, const char *key, struct json_object *value,
		bool *failed)
{
	if (!value || json_object_object_add(object, key, value) != 0) {
		json_object_put(value);
		*failed = true;
	}
}

static void append(struct json_object *list, struct json_object *value, bool *failed)
{
	if (!value || json_object_array_add(list, value) != 0) {
		json_object_put(value);
		*failed = true;
	}
}

/* Names may hold any bytes, JSON may not. */
static struct json_object *new_text(const char *text)
{
	char *clean = malloc(4 * strlen(text) + 1);
	struct json_object *object = NULL;

	if (clean) {
		kp_utf8_escape(text, strlen(text), clean);
		object = json_object_new_string(clean);
	}
	free(clean);
	return object;
}

static int finish(struct json_object *object, bool failed, size_t max, char **ret,
		  struct kp_err *err)
{
	const char *text =
		failed ? NULL
		       : json_object_to_json_string_ext(
				 object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);

	if (!text)
		return kp_fail_nomem(err);
	if (strlen(text) + 1 > max)
		return kp_fail(err, KP_EUSAGE, "the message is longer than %zu bytes", max);
	return asprintf(ret, "%s\n", text) < 0 ? kp_fail_nomem(err) : 0;
}

int kp_request_encode(const struct kp_request *request, char **ret, struct kp_err *err)
{
	_cleanup_object_ struct json_object *object = json_object_new_object();
	struct json_object *options;
	bool failed = false;

	if (!object)
		return kp_fail_nomem(err);
	put(object, "version", json_object_new_int(KP_CONTROL_VERSION), &failed);
	put(object, "command", json_object_new_string(command_names[request->command]), &failed);
	if (request->pid)
		put(object, "pid", json_object_new_int(request->pid), &failed);
	if (request->all)
		put(object, "all", json_object_new_boolean(true), &failed);
	if (request->everyone)
		put(object, "everyone", json_object_new_boolean(true), &failed);
	if (request->user)
		put(object, "user", new_text(request->user), &failed);
	if (request->session)
		put(object, "session", json_object_new_uint64(request->session), &failed);
	if (request->options) {
		put(object, "options", options = json_object_new_array(), &failed);
		for (char **word = request->options; !failed && *word; word++)
			append(options, new_text(*word), &failed);
	}
	return finish(object, failed, KP_CONTROL_REQUEST_MAX, ret, err);
}

static struct json_object *new_session(const struct kp_served *served, bool *failed)
{
	struct json_object *object = json_object_new_object(), *files;

	if (!object)
		return NULL;
	put(object, "id", json_object_new_uint64(served->id), failed);
	if (served->pid)
		put(object, "pid", json_object_new_int(served->pid), failed);
	else
		put(object, "all", json_object_new_boolean(true), failed);
	put(object, "comm", new_text(served->comm), failed);
	put(object, "state", json_object_new_string(kp_served_state_name(served->state)), failed);
	put(object, "since_unix_s", json_object_new_uint64(served->since_unix_s), failed);
	put(object, "samples", json_object_new_uint64(served->samples), failed);
	put(object, "processes", json_object_new_uint64(served->processes), failed);
	put(object, "options", new_text(served->options), failed);
	if (served->error[0])
		put(object, "error", new_text(served->error), failed);
	if (served->note[0])
		put(object, "note", new_text(served->note), failed);
	put(object, "files", files = json_object_new_array(), failed);
	for (size_t i = 0; !*failed && i < served->file_count; i++)
		append(files, new_text(served->files[i]), failed);
	return object;
}

int kp_answer_encode(const struct kp_answer *answer, char **ret, struct kp_err *err)
{
	_cleanup_object_ struct json_object *object = json_object_new_object();
	struct json_object *sessions;
	bool failed = false;

	if (!object)
		return kp_fail_nomem(err);
	put(object, "version", json_object_new_int(KP_CONTROL_VERSION), &failed);
	put(object, "ok", json_object_new_boolean(!answer->error[0]), &failed);
	if (answer->error[0])
		put(object, "error", new_text(answer->error), &failed);
	if (answer->dir[0])
		put(object, "dir", new_text(answer->dir), &failed);
	if (!answer->error[0]) {
		put(object, "sessions", sessions = json_object_new_array(), &failed);
		for (size_t i = 0; !failed && i < answer->session_count; i++)
			append(sessions, new_session(&answer->sessions[i], &failed), &failed);
	}
	return finish(object, failed, KP_CONTROL_ANSWER_MAX, ret, err);
}
