/* Strings made safe, demangled once, and kept: see names.h. Runs in the daemon. */
#include "daemon/symbol/names.h"

#include "common/cleanup.h"
#include "daemon/symbol/demangle.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	const char *raw; /* the key, as in the file (cut to KP_NAME_MAX) */
	struct kp_name name; /* shown is NULL until it is asked for */
	uint64_t hash;
};

struct kp_names {
	struct kp_arena *arena;
	struct entry *slot; /* open addressing; a power of two, at most half full */
	size_t capacity, count;
};

int kp_names_create(struct kp_arena *arena, struct kp_names **ret, struct kp_err *err)
{
	struct kp_names *names = calloc(1, sizeof(*names));

	if (!names)
		return kp_fail_nomem(err);
	names->arena = arena;
	names->capacity = 1024;
	names->slot = calloc(names->capacity, sizeof(*names->slot));
	if (!names->slot) {
		free(names);
		return kp_fail_nomem(err);
	}
	*ret = names;
	return 0;
}

void kp_names_destroy(struct kp_names *names)
{
	if (!names)
		return;
	free(names->slot);
	free(names);
}

/* FNV-1a, 64 bits. */
static uint64_t hash_of(const char *text, size_t len)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3;
	return h;
}

static bool continues(const unsigned char *p, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80) /* a NUL byte ends the check */
			return false;
	return true;
}

/* Bytes of the well-formed UTF-8 sequence at p (Unicode 15, table 3-7), or 0. */
static size_t sequence(const unsigned char *p)
{
	if (p[0] < 0x80)
		return p[0] >= 0x20 && p[0] != 0x7f;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		return continues(p, 2) ? 2 : 0;
	if (p[0] >= 0xe0 && p[0] <= 0xef) {
		bool odd = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f);

		return !odd && continues(p, 3) ? 3 : 0;
	}
	if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		bool odd = (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f);

		return !odd && continues(p, 4) ? 4 : 0;
	}
	return 0;
}

bool kp_names_is_clean(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = 1;

	while (*p && (n = sequence(p)))
		p += n;
	return n > 0;
}

/* raw in the arena with what is not UTF-8 or a control byte as \xNN, cut to KP_NAME_MAX bytes. */
static char *clean(struct kp_names *names, const char *raw, bool cut)
{
	static const char digit[] = "0123456789abcdef";
	_cleanup_(kp_freep) char *text = malloc(KP_NAME_MAX + sizeof("..."));
	const unsigned char *p = (const unsigned char *)raw;
	size_t len = 0;

	if (!text)
		return NULL;
	while (*p) {
		size_t n = sequence(p);

		if (len + (n ? n : 4) > KP_NAME_MAX) {
			cut = true;
			break;
		}
		if (n) {
			memcpy(text + len, p, n);
			len += n;
			p += n;
			continue;
		}
		memcpy(text + len, (char[]){ '\\', 'x', digit[*p >> 4], digit[*p & 15] }, 4);
		len += 4;
		p++;
	}
	if (cut) {
		memcpy(text + len, "...", 3);
		len += 3;
	}
	return kp_arena_copy(names->arena, text, len);
}

static struct entry *probe(struct entry *slot, size_t capacity, uint64_t hash, const char *raw,
			   size_t len)
{
	size_t i = hash & (capacity - 1);

	while (slot[i].raw &&
	       (slot[i].hash != hash || strncmp(slot[i].raw, raw, len) != 0 || slot[i].raw[len]))
		i = (i + 1) & (capacity - 1);
	return &slot[i];
}

static int grow(struct kp_names *names, struct kp_err *err)
{
	size_t capacity = names->capacity * 2;
	struct entry *slot = calloc(capacity, sizeof(*slot));

	if (!slot)
		return kp_fail_nomem(err);
	for (size_t i = 0; i < names->capacity; i++) {
		const struct entry *e = &names->slot[i];

		if (e->raw)
			*probe(slot, capacity, e->hash, e->raw, strlen(e->raw)) = *e;
	}
	free(names->slot);
	names->slot = slot;
	names->capacity = capacity;
	return 0;
}

/* Puts a new string in; its kept form is the key itself where nothing had to be changed. */
static int insert(struct kp_names *names, struct entry *e, const char *raw, size_t len,
		  uint64_t hash, struct kp_err *err)
{
	char *key = kp_arena_copy(names->arena, raw, len);
	const char *kept;

	if (!key)
		return kp_fail_nomem(err);
	kept = !raw[len] && kp_names_is_clean(key) ? key : clean(names, key, raw[len] != '\0');
	if (!kept)
		return kp_fail_nomem(err);
	*e = (struct entry){ .raw = key, .name.system = kept, .hash = hash };
	names->count++;
	return 0;
}

static int lookup(struct kp_names *names, const char *raw, struct entry **ret, struct kp_err *err)
{
	size_t len = strnlen(raw, KP_NAME_MAX);
	uint64_t hash = hash_of(raw, len);
	struct entry *e;
	int r;

	if (names->count >= names->capacity / 2) {
		r = grow(names, err);
		if (r < 0)
			return r;
	}
	e = probe(names->slot, names->capacity, hash, raw, len);
	if (!e->raw) {
		r = insert(names, e, raw, len, hash, err);
		if (r < 0)
			return r;
	}
	*ret = e;
	return 0;
}

int kp_names_text(struct kp_names *names, const char *raw, const char **ret, struct kp_err *err)
{
	struct entry *e;
	int r = lookup(names, raw, &e, err);

	if (r < 0)
		return r;
	*ret = e->name.system;
	return 0;
}

static int show(struct kp_names *names, struct entry *e, struct kp_err *err)
{
	const char *at = e->raw[0] ? strchr(e->raw + 1, '@') : NULL;
	_cleanup_(kp_freep) char *bare = NULL, *plain = NULL;

	if (at) {
		bare = strndup(e->raw, at - e->raw);
		if (!bare)
			return kp_fail_nomem(err);
	}
	plain = kp_demangle(bare ? bare : e->raw);
	if (plain || bare)
		e->name.shown = clean(names, plain ? plain : bare, false);
	else
		e->name.shown = e->name.system;
	return e->name.shown ? 0 : kp_fail_nomem(err);
}

int kp_names_function(struct kp_names *names, const char *raw, struct kp_name *ret,
		      struct kp_err *err)
{
	struct entry *e;
	int r = lookup(names, raw, &e, err);

	if (r == 0 && !e->name.shown)
		r = show(names, e, err);
	if (r < 0)
		return r;
	*ret = e->name;
	return 0;
}
