/*
 * The truth about a compiled fixture, read with libelf alone (not with the code under test), and
 * what tests ask the symbolizer. Whatever fails here fails the test.
 */
#pragma once

#include "daemon/symbol/symbolizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fixture {
	char path[4096];
	unsigned char *bytes;
	size_t size;
};

/* name: a file that the build made. Freed by the end of the test's process. */
struct fixture fixture_open(const char *name);
struct fixture fixture_open_path(const char *path);

/* A symbol's value; false if there is no such symbol. */
bool fixture_symbol(const struct fixture *f, const char *name, uint64_t *ret);

/* The same, where it must be there. */
uint64_t fixture_value(const struct fixture *f, const char *name);

/* Address -> offset in the file, through the program headers. */
uint64_t fixture_offset(const struct fixture *f, uint64_t address);

/* A new empty directory; removed by the test with fixture_remove_tree(). */
void fixture_make_dir(char path[256]);
void fixture_remove_tree(const char *path);

/* Copies a file and makes the directories above the copy. */
void fixture_copy(const struct fixture *f, const char *to);

/* One symbolizer with one module, asked for one address. */
struct question {
	struct kp_symbolizer *symbolizer;
	uint32_t module;
};

/* debug_dir may be NULL: none. */
struct question question_open(const struct kp_module_file *file, const char *debug_dir);
struct kp_frames question_ask(const struct question *q, uint64_t offset);
void question_close(struct question *q);
