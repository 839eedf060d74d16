/*
 * Names of signals: Linux's numbers, which x86-64, aarch64 and riscv64 share; not this system's,
 * for a profile may be read elsewhere.
 */
#pragma once

#include <stdint.h>

struct kp_signal_text {
	char text[24];
};

/* "SIGURG", "SIGRTMIN+2", "signal 99". */
struct kp_signal_text kp_signal_text(uint32_t number);
