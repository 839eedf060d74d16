/*
 * Demangling with libiberty. Runs in the daemon, over names from files that nobody vouches for:
 * a short name may stand for gigabytes (each substitution doubles it) and a long one for a deep
 * recursion. So the output is taken piece by piece and left (longjmp) when it grows too long, and
 * names beyond libiberty's own recursion limit are demangled on a large stack. For D it takes no
 * pieces: how large the result gets is estimated before.
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

/* Work for a name of D doubles with each doubt at worst: see count_doubts(). */
#define D_DOUBTS_MAX 12
#define D_EXPANDED_MAX ((size_t)1 << 20)

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
	if (len)
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

/* A reference back: Q and a number to base 26 whose last digit is lower case. 0: none. */
static size_t distance_back(const char *at)
{
	size_t n = 0;

	if (*at++ != 'Q')
		return 0;
	for (; *at >= 'A' && *at <= 'Z' && n < KP_DEMANGLE_INPUT_MAX; at++)
		n = n * 26 + (size_t)(*at - 'A');
	return *at >= 'a' && *at <= 'z' ? n * 26 + (size_t)(*at - 'a') : 0;
}

/* Where what is referred to at from, by the reference at to, ends at the latest. */
static size_t end_of_d_part(const char *name, size_t from, size_t to)
{
	size_t len = 0;

	if (name[from] < '0' || name[from] > '9')
		return to; /* a type */
	for (; from < to && name[from] >= '0' && name[from] <= '9' && len < to; from++)
		len = len * 10 + (size_t)(name[from] - '0');
	return len < to - from ? from + len : to;
}

/*
 * True if a D name stands for so much that reading it would take long: a type may be two
 * references back to another, and so on. expanded[i] is what the first i bytes stand for, at most.
 */
static bool explodes(const char *name, size_t len)
{
	_cleanup_(kp_freep) size_t *expanded = calloc(len + 1, sizeof(*expanded));

	for (size_t i = 0; expanded && i < len; i++) {
		size_t back = distance_back(name + i), cost = 1;

		if (back && back <= i)
			cost += expanded[end_of_d_part(name, i - back, i)] - expanded[i - back];
		expanded[i + 1] = expanded[i] + cost;
		if (expanded[i + 1] > D_EXPANDED_MAX)
			return true;
	}
	return !expanded;
}

static bool begins_function(char c)
{
	return c && strchr("FUWVRYM", c); /* its calling convention, or M: it is a method */
}

/*
 * Where libiberty may read on in two ways: what follows a name may be the type of that function or
 * not, and the digits of a number behind S may be part of a name. It tries both, so each such place
 * may double the work for a name that is none. Counted are all places that could be one.
 */
static size_t count_doubts(const char *name, size_t len)
{
	size_t doubts = 0;

	for (size_t i = 0; i < len; i++) {
		size_t digits = strspn(name + i, "0123456789"), number = 0, end = i + 1;

		for (size_t k = 0; k < digits && number < len; k++)
			number = number * 10 + (size_t)(name[i + k] - '0');
		if (digits && number < len - i - digits)
			doubts += begins_function(name[i + digits + number]);
		if (digits > 1 && i && name[i - 1] == 'S')
			doubts += digits;
		if (name[i] == 'Q')
			end += strspn(name + end, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") + 1;
		if (end < len && (name[i] == 'Q' || name[i] == 'Z'))
			doubts += begins_function(name[end]);
	}
	return doubts;
}

static size_t count_backs(const char *name, size_t len)
{
	size_t backs = 0;

	for (size_t i = 0; i < len; i++)
		backs += name[i] == 'Q';
	return backs;
}

static bool is_harmless_d(const char *name)
{
	size_t len = strlen(name);

	return count_doubts(name, len) * (1 + count_backs(name, len)) <= D_DOUBTS_MAX &&
	       !explodes(name, len);
}

/* False for "_Dmain" too, which is treated before. */
static bool is_d(const char *name)
{
	return name[0] == '_' && name[1] == 'D' && name[2] >= '0' && name[2] <= '9';
}

static bool run_d(struct demangling *d)
{
	d->text = is_harmless_d(d->name) ? dlang_demangle(d->name, d->options) : NULL;
	if (!d->text)
		return false;
	d->len = strlen(d->text);
	return d->len > 0 && d->len <= KP_DEMANGLE_OUTPUT_MAX;
}

static bool run_any(struct demangling *d)
{
	return is_d(d->name) ? run_d(d) : run(d);
}

static void *run_thread(void *ctx)
{
	return run_any(ctx) ? ctx : NULL;
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

	if (strcmp(name, "_Dmain") == 0)
		return strdup("D main");
	if (len <= KP_DEMANGLE_INPUT_MAX && strncmp(name, "_ada_", 5) == 0)
		return kp_demangle_ada(name);
	if (len > KP_DEMANGLE_INPUT_MAX ||
	    (strncmp(name, "_Z", 2) != 0 && strncmp(name, "_R", 2) != 0 && !is_d(name)))
		return NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->name = name;
	d->options = OPTIONS | (len > PLAIN_LIMIT ? DMGL_NO_RECURSE_LIMIT : 0);
	done = len > PLAIN_LIMIT ? run_deep(d) : run_any(d);
	if (!done) {
		free(d->text);
		return NULL;
	}
	return d->text;
}

/* libiberty answers in angle brackets what it does not understand; its result is seldom longer. */
char *kp_demangle_ada(const char *name)
{
	char *text = strnlen(name, KP_DEMANGLE_INPUT_MAX + 1) <= KP_DEMANGLE_INPUT_MAX
			     ? ada_demangle(name, 0)
			     : NULL;

	if (text && (text[0] == '<' || strcmp(text, name) == 0)) {
		free(text);
		return NULL;
	}
	return text;
}
