/*
 * Profiles by hand. Test code: anything that fails ends the program.
 */
#include "tests/unit/render/maker.h"

#include "daemon/render/render.h"

#include <stdlib.h>
#include <string.h>

static struct kp_err err;

static void must(int result)
{
	if (result < 0) {
		fprintf(stderr, "maker: %s\n", err.text);
		abort();
	}
}

uint32_t maker_string(struct maker *m, const char *text)
{
	uint32_t id;

	must(kp_profile_string(m->p, text, strlen(text), &id, &err));
	return id;
}

void maker_init(struct maker *m)
{
	struct kp_mapping mapping = { .start = 0x1000, .end = 0x100000, .file_offset = 0x1000 };

	*m = (struct maker){ .address = 0x1000 };
	must(kp_profile_create(&m->p, &err));
	must(kp_profile_value_type(m->p, "samples", "count", &err));
	must(kp_profile_value_type(m->p, "cpu", "nanoseconds", &err));
	m->p->default_value = 1;
	mapping.filename = maker_string(m, "/bin/made");
	must(kp_profile_mapping(m->p, &mapping, &m->mapping, &err));
}

void maker_deinit(struct maker *m)
{
	kp_profile_destroy(m->p);
}

static uint32_t add_location(struct maker *m, const char *names)
{
	char *copy = strdup(names), *rest = copy, *name;
	struct kp_line line[8];
	uint32_t n = 8, id;

	if (!copy)
		abort();
	/* Outermost first in the text, innermost first in the profile. */
	while ((name = strsep(&rest, ">"))) {
		struct kp_function f = { .name = maker_string(m, name) };

		f.system_name = f.name;
		n--;
		line[n].line = 10 + n;
		must(kp_profile_function(m->p, &f, &line[n].function, &err));
	}
	free(copy);
	must(kp_profile_location(m->p, m->mapping, m->address++, &line[n], 8 - n, &id, &err));
	return id;
}

void maker_add_of(struct maker *m, struct maker_who who, int64_t count, int64_t ns,
		  const char *const *stack)
{
	struct kp_label label = { .pid = who.pid, .tid = who.tid };
	int64_t value[] = { count, ns };
	uint32_t at = 0, id;

	label.comm = maker_string(m, who.comm);
	label.thread_name = maker_string(m, who.thread_name);
	for (; *stack; stack++)
		must(kp_profile_stack(m->p, at, add_location(m, *stack), &at, &err));
	must(kp_profile_label(m->p, &label, &id, &err));
	must(kp_profile_add(m->p, at, id, value, &err));
}

void maker_add(struct maker *m, const char *comm, int64_t count, int64_t ns,
	       const char *const *stack)
{
	maker_add_of(m, (struct maker_who){ 1, 2, comm, comm }, count, ns, stack);
}

void maker_clock(struct maker *m, const char *name, uint32_t signal, uint64_t period_ns)
{
	struct kp_clock_use c = { maker_string(m, name), signal, period_ns, 1 };

	m->p->truth.clock[m->p->truth.clock_count++] = c;
}

char *maker_render(const struct maker *m, const struct kp_renderer *r, size_t *ret_size)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, ret_size ? ret_size : &size);
	int result = out ? r->render(m->p, &m->options, out, &err) : -1;

	if (!out || fclose(out) != 0 || result < 0) {
		free(text);
		return NULL;
	}
	return text;
}
