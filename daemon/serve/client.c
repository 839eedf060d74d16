/* The client's side of the control socket: client.h. kitprof. */
#include "daemon/serve/client.h"

#include "common/cleanup.h"
#include "daemon/serve/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int send_all(int fd, const char *text, struct kp_err *err)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t n = send(fd, text, left, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EPIPE)
			return 0; /* it does not want to hear more: its answer says why */
		if (n < 0)
			return kp_fail_errno(err, "kitprofd cannot be asked");
		text += n;
		left -= (size_t)n;
	}
	return 0;
}

/* Up to the newline, which becomes the end of the text. */
static int receive_line(int fd, char *room, size_t size, struct kp_err *err)
{
	size_t used = 0;
	char *end;

	do {
		ssize_t n = recv(fd, room + used, size - used, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return kp_fail_errno(err, "kitprofd does not answer");
		if (n == 0)
			return kp_fail(
				err, KP_EGONE,
				used == size
					? "kitprofd's answer is too long"
					: "kitprofd ended before it answered; a session that it "
					  "had is ended cleanly, its files are in its directory");
		end = memchr(room + used, '\n', (size_t)n);
		used += (size_t)n;
	} while (!end);
	*end = 0;
	return 0;
}

int kp_client_ask(const char *path, const struct kp_request *request, struct kp_answer *ret,
		  char **ret_line, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = -1;
	_cleanup_(kp_freep) char *question = NULL;
	_cleanup_(kp_freep) char *line = malloc(KP_CONTROL_ANSWER_MAX);
	int r = line ? kp_request_encode(request, &question, err) : kp_fail_nomem(err);

	if (r == 0)
		r = kp_socket_connect(path, &fd, err);
	if (r == 0)
		r = send_all(fd, question, err);
	if (r == 0)
		r = receive_line(fd, line, KP_CONTROL_ANSWER_MAX, err);
	if (r == 0)
		r = kp_answer_decode(line, strlen(line), ret, err);
	if (r == 0 && ret_line)
		*ret_line = kp_take(line);
	return r;
}
