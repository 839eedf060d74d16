/*
 * Profiles by hand for the tests of renderers: a few lines each, any names. Test code.
 */
#pragma once

#include "daemon/profile/profile.h"
#include "daemon/render/render.h"

struct maker {
	struct kp_profile *p;
	struct kp_render_options options;
	uint64_t address; /* the next location's */
	uint32_t mapping;
};

/* samples/count and cpu/nanoseconds, the second is the default. */
void maker_init(struct maker *m);
void maker_deinit(struct maker *m);

/*
 * A sample with count and ns. stack: from the root, NULL-terminated; "a>b" is one location where b
 * was inlined into a. Addresses are new each time.
 */
void maker_add(struct maker *m, const char *comm, int64_t count, int64_t ns,
	       const char *const *stack);

/* The same for any thread; maker_add() takes pid 1, tid 2 and comm as the thread's name. */
struct maker_who {
	uint32_t pid, tid;
	const char *comm, *thread_name;
};
void maker_add_of(struct maker *m, struct maker_who who, int64_t count, int64_t ns,
		  const char *const *stack);

#define STACK(...)                                                                                 \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

/* A clock that gave samples. */
void maker_clock(struct maker *m, const char *name, uint32_t signal, uint64_t period_ns);

uint32_t maker_string(struct maker *m, const char *text);

/* What the renderer writes; to be freed. NULL if it fails. */
char *maker_render(const struct maker *m, const struct kp_renderer *r, size_t *ret_size);
