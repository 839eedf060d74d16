/*
 * Demangling with libiberty. Runs in the daemon, over names from files that nobody vouches for:
 * a short name may stand for gigabytes (each substitution doubles it) and a long one for a deep
 * recursion. So the output is taken piece by piece and left (longjmp) when it grows too long, and
 * names beyond libiberty's own recursion limit are demangled on a large stack.
 */
#include "daemon/symbol/demangle.h"

#include "common/cleanup.h"

#include <libiberty/demangle.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS (DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP)

/*
 * libiberty refuses names of more than half as many bytes as its limit of 2048 components, since
 * it does not know its stack. Templates easily write longer ones. With KP_DEMANGLE_INPUT_MAX
 * bytes, each a level of recursion, we know what is enough: a level takes well under 2 KiB.
 */
#define PLAIN_LIMIT ((size_t)1024)
#define DEEP_STACK_BYTES ((size_t)64 << 20)

struct demangling {
	const char *name;
	int options;
	char *text;
	size_t len, capacity;
	jmp_buf too_long;
};

static void take(const char *piece, size_t len, void *ctx)
{
	struct demangling *d = ctx;

	if (len > KP_DEMANGLE_OUTPUT_MAX - d->len)
		longjmp(d->too_long, 1);
	if (len >= d->capacity - d->len) {
		size_t capacity = 2 * (d->len + len) + 128;
		char *grown = realloc(d->text, capacity);

		if (!grown)
			longjmp(d->too_long, 1);
		d->text = grown;
		d->capacity = capacity;
	}
	memcpy(d->text + d->len, piece, len);
	d->len += len;
	d->text[d->len] = '\0';
}

/* libiberty's printers keep what they need on the stack, so a jump out of them loses nothing. */
static bool run(struct demangling *d)
{
	if (setjmp(d->too_long))
		return false;
	if (rust_demangle_callback(d->name, d->options, take, d))
		return d->len > 0;
	d->len = 0; /* what was written before it failed */
	if (strncmp(d->name, "_Z", 2) != 0)
		return false;
	return cplus_demangle_v3_callback(d->name, d->options, take, d) && d->len > 0;
}

static void *run_thread(void *ctx)
{
	return run(ctx) ? ctx : NULL;
}

static bool run_deep(struct demangling *d)
{
	pthread_attr_t attr;
	pthread_t thread;
	void *done = NULL;
	bool started;

	if (pthread_attr_init(&attr) != 0)
		return false;
	started = pthread_attr_setstacksize(&attr, DEEP_STACK_BYTES) == 0 &&
		  pthread_create(&thread, &attr, run_thread, d) == 0;
	pthread_attr_destroy(&attr);
	if (!started)
		return false;
	pthread_join(thread, &done);
	return done != NULL;
}

char *kp_demangle(const char *name)
{
	_cleanup_(kp_freep) struct demangling *d = NULL;
	size_t len = strnlen(name, KP_DEMANGLE_INPUT_MAX + 1);
	bool done;

	if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R') || len > KP_DEMANGLE_INPUT_MAX)
		return NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->name = name;
	d->options = OPTIONS | (len > PLAIN_LIMIT ? DMGL_NO_RECURSE_LIMIT : 0);
	done = len > PLAIN_LIMIT ? run_deep(d) : run(d);
	if (!done) {
		free(d->text);
		return NULL;
	}
	return d->text;
}
