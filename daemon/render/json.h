/*
 * JSON through json-c. Values are put into objects and arrays without a look at each result: want
 * of memory is remembered and told once, by kp_json_write(). Numbers are written from integers or
 * from their decimal text, so that the same profile gives the same bytes on every machine.
 */
#pragma once

#include "common/err.h"
#include "daemon/render/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_object;

/* One object and what is in it. */
struct kp_json {
	struct json_object *root;
	bool failed; /* something is missing for want of memory */
};

void kp_json_init(struct kp_json *j);
void kp_json_deinit(struct kp_json *j);

/* A new object or array, put into to under key (an array: key NULL), whose it is from then on. */
struct json_object *kp_json_put_object(struct kp_json *j, struct json_object *to, const char *key);
struct json_object *kp_json_put_array(struct kp_json *j, struct json_object *to, const char *key);

/* Values, put likewise. text: valid UTF-8. */
void kp_json_put_text(struct kp_json *j, struct json_object *to, const char *key, const char *text);
void kp_json_put_number(struct kp_json *j, struct json_object *to, const char *key, uint64_t value);
void kp_json_put_null(struct kp_json *j, struct json_object *to, const char *key);

/* A decimal, without zeros at its end; null where it has no text. */
void kp_json_put_decimal(struct kp_json *j, struct json_object *to, const char *key,
			 struct kp_text_number value);

/*
 * Writes the object and a newline. Control characters are written as \uNNNN, those above ASCII too:
 * a terminal may obey them.
 */
int kp_json_write(const struct kp_json *j, FILE *out, struct kp_err *err);
