/* A client of the server: connection.h. Server. */
#include "daemon/serve/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENCE_NS UINT64_C(10000000000) /* a client asks at once and reads at once */

void kp_connection_init(struct kp_connection *c, int fd, uint64_t now_ns)
{
	*c = (struct kp_connection){ .fd = fd, .since_ns = now_ns };
}

void kp_connection_deinit(struct kp_connection *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->out);
	c->out = NULL;
	c->fd = -1;
}

short kp_connection_events(const struct kp_connection *c)
{
	short events = 0;

	if (c->out)
		events |= POLLOUT;
	else if (!c->waits_for && !c->ended && !c->closes && c->in_used < sizeof(c->in))
		events |= POLLIN;
	return events;
}

static bool receive(struct kp_connection *c)
{
	ssize_t n = recv(c->fd, c->in + c->in_used, sizeof(c->in) - c->in_used, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		c->ended = true;
	c->in_used += (size_t)n;
	return true;
}

static bool send_out(struct kp_connection *c)
{
	size_t left = strlen(c->out + c->out_at);
	ssize_t n = send(c->fd, c->out + c->out_at, left, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->out_at += (size_t)n;
	if ((size_t)n == left) {
		free(c->out);
		c->out = NULL;
	}
	return true;
}

bool kp_connection_move(struct kp_connection *c, short revents, uint64_t now_ns)
{
	short wanted = kp_connection_events(c);
	bool alive = true;

	if (revents & wanted)
		c->since_ns = now_ns;
	/* What was asked before it went away is done all the same. */
	if (revents & wanted & POLLIN)
		return receive(c);
	if (revents & wanted & POLLOUT)
		alive = send_out(c);
	return alive && !(revents & (POLLHUP | POLLERR | POLLNVAL));
}

enum kp_connection_line kp_connection_line(const struct kp_connection *c, const char **ret,
					   size_t *ret_len)
{
	const char *end;

	if (c->out || c->waits_for || c->closes)
		return KP_LINE_NONE;
	end = memchr(c->in, '\n', c->in_used);
	if (!end)
		return c->in_used == sizeof(c->in) ? KP_LINE_TOO_LONG : KP_LINE_NONE;
	*ret = c->in;
	*ret_len = (size_t)(end - c->in);
	return KP_LINE_THERE;
}

void kp_connection_eat(struct kp_connection *c, size_t len)
{
	c->in_used -= len + 1;
	memmove(c->in, c->in + len + 1, c->in_used);
}

void kp_connection_take_answer(struct kp_connection *c, char *text, uint64_t now_ns)
{
	free(c->out);
	c->out = text;
	c->out_at = 0;
	c->since_ns = now_ns;
	c->waits_for = 0;
}

bool kp_connection_is_done(const struct kp_connection *c, uint64_t now_ns)
{
	if (c->waits_for)
		return false;
	if (!c->out && (c->ended || c->closes))
		return true;
	return now_ns > c->since_ns && now_ns - c->since_ns > SILENCE_NS;
}
