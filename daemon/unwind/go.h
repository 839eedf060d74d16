/*
 * What is known of a Go program's code without a description for unwinding: that it keeps frame
 * pointers, and which functions of the runtime go from one stack to another.
 */
#pragma once

#include "common/unwind/table.h"
#include "daemon/unwind/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kp_go_range {
	uint64_t start, end;
	struct kp_table_rule rule;
};

/* Names that are looked for, and some of them twice; more ranges are left out. */
#define KP_GO_RANGES_MAX 48

struct kp_go_code {
	uint64_t start, end; /* of all code that Go's compiler and assembler made; equal: none */
	struct kp_go_range range[KP_GO_RANGES_MAX]; /* ascending, apart, within it */
	size_t count;
};

/* Whether Go's linker or toolchain had a hand in the file. */
bool kp_go_made(const struct kp_image *image);

/*
 * By the names of its functions, so a file without .symtab has none. Nothing in the file is
 * trusted: what does not lie in [first, end) is cut off.
 */
void kp_go_find(const struct kp_image *image, uint64_t first, uint64_t end, struct kp_go_code *ret);

/*
 * What holds at address, in *ret, and up to where. Code that is not Go's is a gap. Returns an
 * address above it.
 */
uint64_t kp_go_at(const struct kp_go_code *code, uint64_t address, struct kp_table_rule *ret);
