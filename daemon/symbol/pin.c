/*
 * Pinned module files: see pin.h. Runs in the daemon. A process maps tens of files, a server with
 * plugins hundreds; they are found by going through them.
 */
#include "daemon/symbol/pin.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define IMAGES_MAX ((size_t)64 << 20)

struct pin {
	char *path; /* not NUL-terminated */
	size_t path_len;
	uint8_t *build_id;
	size_t build_id_len;
	int fd; /* -1: it has an image */
};

struct kp_pins {
	struct pin *pin;
	size_t count, capacity;
	size_t image_bytes; /* granted */
};

int kp_pins_create(struct kp_pins **ret, struct kp_err *err)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : kp_fail_nomem(err);
}

void kp_pins_destroy(struct kp_pins *pins)
{
	if (!pins)
		return;
	for (size_t i = 0; i < pins->count; i++) {
		free(pins->pin[i].path);
		free(pins->pin[i].build_id);
		kp_closep(&pins->pin[i].fd);
	}
	free(pins->pin);
	free(pins);
}

static bool equal(const void *a, size_t a_len, const void *b, size_t b_len)
{
	return a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0);
}

static void *copy(const void *data, size_t len)
{
	void *ret = malloc(len ? len : 1);

	if (ret && len)
		memcpy(ret, data, len);
	return ret;
}

static int grow(struct kp_pins *pins, struct kp_err *err)
{
	size_t capacity = pins->capacity ? pins->capacity * 2 : 16;
	void *grown = reallocarray(pins->pin, capacity, sizeof(*pins->pin));

	if (!grown)
		return kp_fail_nomem(err);
	pins->pin = grown;
	pins->capacity = capacity;
	return 0;
}

static struct pin *find(const struct kp_pins *pins, const char *path, size_t path_len,
			const uint8_t *build_id, size_t build_id_len)
{
	for (size_t i = 0; pins && i < pins->count; i++) {
		struct pin *pin = &pins->pin[i];

		if (equal(pin->path, pin->path_len, path, path_len) &&
		    equal(pin->build_id, pin->build_id_len, build_id, build_id_len))
			return pin;
	}
	return NULL;
}

/* fd: -1 for one that has only an image. Takes it over in any case. */
static int add(struct kp_pins *pins, const char *path, size_t path_len, const uint8_t *build_id,
	       size_t build_id_len, int fd, struct kp_err *err)
{
	_cleanup_(kp_closep) int owner = fd;
	struct pin pin = { .path_len = path_len, .build_id_len = build_id_len };

	if (pins->count == pins->capacity) {
		int r = grow(pins, err);

		if (r < 0)
			return r;
	}
	pin.path = copy(path, path_len);
	pin.build_id = copy(build_id, build_id_len);
	if (!pin.path || !pin.build_id) {
		free(pin.path);
		free(pin.build_id);
		return kp_fail_nomem(err);
	}
	pin.fd = kp_take_fd(&owner);
	pins->pin[pins->count++] = pin;
	return 0;
}

int kp_pins_take(struct kp_pins *pins, const char *path, size_t path_len, const uint8_t *build_id,
		 size_t build_id_len, int fd, struct kp_err *err)
{
	struct pin *pin = find(pins, path, path_len, build_id, build_id_len);

	if (!pin)
		return add(pins, path, path_len, build_id, build_id_len, fd, err);
	if (pin->fd < 0) /* another process's, that could be opened */
		pin->fd = fd;
	else
		close(fd);
	return 0;
}

bool kp_pins_grant_image(struct kp_pins *pins, const char *path, size_t path_len,
			 const uint8_t *build_id, size_t build_id_len, size_t size)
{
	if (!pins)
		return true;
	if (size > IMAGES_MAX - pins->image_bytes ||
	    find(pins, path, path_len, build_id, build_id_len) ||
	    add(pins, path, path_len, build_id, build_id_len, -1, NULL) < 0)
		return false;
	pins->image_bytes += size;
	return true;
}

int kp_pins_find(const struct kp_pins *pins, const char *path, size_t path_len,
		 const uint8_t *build_id, size_t build_id_len)
{
	const struct pin *pin = find(pins, path, path_len, build_id, build_id_len);

	return pin ? pin->fd : -1;
}
