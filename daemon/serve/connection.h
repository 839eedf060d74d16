/*
 * A client of the server: lines in, lines out, never waited for. Whatever it does or does not do,
 * it costs a buffer and, if it says nothing for too long, nothing any more.
 */
#pragma once

#include "proto/control.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kp_connection {
	int fd; /* -1: free */
	uint64_t since_ns; /* of the last thing that it did */
	bool closes; /* when what is to be sent is sent */
	bool ended; /* it will send no more */
	uint64_t waits_for; /* id of a session; 0: for nothing */
	bool waits_for_end; /* of the session, else for its beginning */
	char *out; /* to be sent; owned */
	size_t out_at;
	size_t in_used;
	char in[KP_CONTROL_REQUEST_MAX];
};

void kp_connection_init(struct kp_connection *c, int fd, uint64_t now_ns);
void kp_connection_deinit(struct kp_connection *c);

/* poll(2) events that it waits for. */
short kp_connection_events(const struct kp_connection *c);

/* Does what revents allow. false: it is to be deinited. */
bool kp_connection_move(struct kp_connection *c, short revents, uint64_t now_ns);

enum kp_connection_line {
	KP_LINE_NONE, /* not yet; or it has to wait: an answer is due */
	KP_LINE_THERE, /* *ret, *ret_len, without newline, until kp_connection_eat() */
	KP_LINE_TOO_LONG,
};
enum kp_connection_line kp_connection_line(const struct kp_connection *c, const char **ret,
					   size_t *ret_len);
void kp_connection_eat(struct kp_connection *c, size_t len);

/* Takes a text of malloc(), to be sent. */
void kp_connection_take_answer(struct kp_connection *c, char *text, uint64_t now_ns);

/* Nothing is due to it and nothing more will come of it. */
bool kp_connection_is_done(const struct kp_connection *c, uint64_t now_ns);
