/*
 * Files of modules, opened when the module was first seen, so that upgrade, deletion, another
 * mount namespace or a short life of the target do no harm. Filled by the session, read by the
 * collector. Keyed by (path, build id).
 */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kp_pins;

int kp_pins_create(struct kp_pins **ret, struct kp_err *err);
void kp_pins_destroy(struct kp_pins *pins); /* closes the descriptors */

/* Takes fd over in any case (closes it on failure and where the module is pinned already). */
int kp_pins_take(struct kp_pins *pins, const char *path, size_t path_len, const uint8_t *build_id,
		 size_t build_id_len, int fd, struct kp_err *err);

/*
 * Whether the image of a module without a file may go into the profile: true once for each module,
 * as long as all of them are not more than 64 MiB, and always where pins is NULL.
 */
bool kp_pins_grant_image(struct kp_pins *pins, const char *path, size_t path_len,
			 const uint8_t *build_id, size_t build_id_len, size_t size);

/* The descriptor (still owned by pins), or -1. pins may be NULL. */
int kp_pins_find(const struct kp_pins *pins, const char *path, size_t path_len,
		 const uint8_t *build_id, size_t build_id_len);
