/*
 * Memory for what is in the cache: pages of its own, which forked children do not get. Helpers that
 * stop threads lock all their memory first; they shall not have to copy tables for it.
 */
#pragma once

#include <stdint.h>

/* Zeroed and writable, page-aligned. NULL: out of memory. bytes > 0. */
void *kp_cache_memory_create(uint64_t bytes);

/* From here on it is only read. */
void kp_cache_memory_seal(void *memory, uint64_t bytes);

void kp_cache_memory_destroy(void *memory, uint64_t bytes); /* NULL is fine */
