/*
 * The control socket: where it is, who may talk on it. One user, one socket: it is for the same
 * user (and root) only, by its mode and by what the kernel says of the peer.
 */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * $XDG_RUNTIME_DIR/kitprofd.sock, else in /run/user/UID, else in /tmp/kitprofd-UID. The directory
 * has to be ours; the last one is made if create, and refused if others may write to it.
 */
int kp_socket_default_path(bool create, char *ret, size_t size, struct kp_err *err);

struct kp_listener {
	int fd; /* listens, non-blocking; -1: none */
	char path[108];
	struct stat made; /* what was made at path */
};

/* -KP_EBUSY if a server listens there already. A socket that nobody listens on is replaced. */
int kp_listener_init(struct kp_listener *listener, const char *path, struct kp_err *err);
/* Removes the socket, if it is still the one that was made. */
void kp_listener_deinit(struct kp_listener *listener);

/* *ret_fd: connected, blocking. Errors say what to do. */
int kp_socket_connect(const char *path, int *ret_fd, struct kp_err *err);

/* Who is at the other end. false: not the user of this process and not root. */
bool kp_socket_is_peer_allowed(int fd, uid_t *ret_uid);
