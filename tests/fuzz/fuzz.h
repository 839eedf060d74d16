/*
 * A fuzz target: one function that takes any bytes. libFuzzer calls it with what it makes up
 * (./dev fuzz), replay.c with the files of tests/fuzz/corpus/ (every test run).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Returns 0. data is exactly size bytes, so that the address sanitizer sees a read behind them.
 * What is wrong is said by abort(), a sanitizer or a signal.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
