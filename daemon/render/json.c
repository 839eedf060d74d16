/*
 * JSON through json-c. Runs in the daemon.
 */
#include "daemon/render/json.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

void kp_json_init(struct kp_json *j)
{
	*j = (struct kp_json){ .root = json_object_new_object() };
	j->failed = !j->root;
}

void kp_json_deinit(struct kp_json *j)
{
	json_object_put(j->root);
	*j = (struct kp_json){ 0 };
}

/* Takes value, which is NULL when it could not be made (or is to be null: may_be_null). */
static void put(struct kp_json *j, struct json_object *to, const char *key,
		struct json_object *value, bool may_be_null)
{
	if (to && (value || may_be_null)) {
		int r = key ? json_object_object_add(to, key, value)
			    : json_object_array_add(to, value);

		if (r == 0)
			return;
	}
	json_object_put(value);
	j->failed = true;
}

struct json_object *kp_json_put_object(struct kp_json *j, struct json_object *to, const char *key)
{
	struct json_object *object = json_object_new_object();

	put(j, to, key, object, false);
	return j->failed ? NULL : object;
}

struct json_object *kp_json_put_array(struct kp_json *j, struct json_object *to, const char *key)
{
	struct json_object *array = json_object_new_array();

	put(j, to, key, array, false);
	return j->failed ? NULL : array;
}

void kp_json_put_text(struct kp_json *j, struct json_object *to, const char *key, const char *text)
{
	put(j, to, key, json_object_new_string(text), false);
}

void kp_json_put_number(struct kp_json *j, struct json_object *to, const char *key, uint64_t value)
{
	put(j, to, key, json_object_new_uint64(value), false);
}

void kp_json_put_null(struct kp_json *j, struct json_object *to, const char *key)
{
	put(j, to, key, NULL, true);
}

void kp_json_put_decimal(struct kp_json *j, struct json_object *to, const char *key,
			 struct kp_text_number value)
{
	char *end = value.text + strlen(value.text);

	if (end == value.text) {
		kp_json_put_null(j, to, key);
		return;
	}
	if (strchr(value.text, '.')) {
		while (end[-1] == '0')
			*--end = 0;
		if (end[-1] == '.')
			*--end = 0;
	}
	put(j, to, key, json_object_new_double_s(strtod(value.text, NULL), value.text), false);
}

/* json-c escapes the control characters below the space. Outside of strings there are no others. */
static void put_escaped(FILE *out, const char *text)
{
	while (*text) {
		unsigned int bytes = (uint8_t)*text < 0x20 ? 0 : kp_text_control(text);

		if (bytes)
			fprintf(out, "\\u%04x", (uint8_t)text[bytes - 1]);
		else
			putc(*text, out);
		text += bytes ? bytes : 1;
	}
}

int kp_json_write(const struct kp_json *j, FILE *out, struct kp_err *err)
{
	const char *text = NULL;

	if (!j->failed)
		text = json_object_to_json_string_ext(
			j->root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
					 JSON_C_TO_STRING_NOSLASHESCAPE);
	if (!text)
		return kp_fail_nomem(err);
	put_escaped(out, text);
	putc('\n', out);
	return ferror(out) ? kp_fail_errno(err, "cannot write") : 0;
}
