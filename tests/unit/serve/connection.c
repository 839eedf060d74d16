/* Unit tests of a client's connection: lines come out whole, silence and excess have an end. */
#include "daemon/serve/connection.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static struct kp_connection c;
static int peer;

static void begin(void)
{
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	peer = pair[1];
	kp_connection_init(&c, pair[0], 0);
}

static void end(void)
{
	close(peer);
	kp_connection_deinit(&c);
}

static void send_text(const char *text)
{
	cr_assert_eq(write(peer, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert(kp_connection_move(&c, POLLIN, 0));
}

static const char *line(void)
{
	static char room[64];
	const char *text;
	size_t len;

	if (kp_connection_line(&c, &text, &len) != KP_LINE_THERE)
		return NULL;
	snprintf(room, sizeof(room), "%.*s", (int)len, text);
	kp_connection_eat(&c, len);
	return room;
}

Test(connection, lines_may_come_in_pieces_and_together)
{
	begin();
	send_text("on");
	cr_assert_null(line());
	send_text("e\ntwo\n\nfo");
	cr_assert_str_eq(line(), "one");
	cr_assert_str_eq(line(), "two");
	cr_assert_str_eq(line(), "");
	cr_assert_null(line());
	send_text("ur\n");
	cr_assert_str_eq(line(), "four");
	end();
}

Test(connection, next_line_waits_for_the_answer)
{
	char room[16];

	begin();
	send_text("one\ntwo\n");
	cr_assert_str_eq(line(), "one");
	c.waits_for = 7;
	cr_assert_null(line());
	cr_assert_eq(kp_connection_events(&c), 0);
	kp_connection_take_answer(&c, strdup("1\n"), 0);
	cr_assert_null(line());
	cr_assert_eq(kp_connection_events(&c), POLLOUT);
	cr_assert(kp_connection_move(&c, POLLOUT, 0));
	cr_assert_str_eq(line(), "two");
	cr_assert_eq(read(peer, room, sizeof(room)), 2);
	end();
}

Test(connection, too_long_a_line_is_told)
{
	const char *text;
	size_t len;

	begin();
	for (int i = 0; i < 16; i++) {
		char part[1025];

		memset(part, 'x', 1024);
		part[1024] = 0;
		send_text(part);
	}
	cr_assert_eq(kp_connection_line(&c, &text, &len), KP_LINE_TOO_LONG);
	cr_assert_eq(kp_connection_events(&c), 0);
	end();
}

Test(connection, silence_has_an_end_but_waiting_has_none)
{
	begin();
	cr_assert_not(kp_connection_is_done(&c, 9 * SECOND));
	cr_assert(kp_connection_is_done(&c, 11 * SECOND));
	c.waits_for = 7;
	cr_assert_not(kp_connection_is_done(&c, 1000 * SECOND));
	kp_connection_take_answer(&c, strdup("x\n"), 2000 * SECOND);
	cr_assert_not(kp_connection_is_done(&c, 1999 * SECOND));
	cr_assert(kp_connection_is_done(&c, 2011 * SECOND));
	end();
}

Test(connection, who_sends_no_more_still_gets_the_answer)
{
	char room[16];

	begin();
	send_text("one\n");
	shutdown(peer, SHUT_WR);
	cr_assert(kp_connection_move(&c, POLLIN, 0));
	cr_assert_str_eq(line(), "one");
	kp_connection_take_answer(&c, strdup("1\n"), 0);
	cr_assert_not(kp_connection_is_done(&c, 0));
	cr_assert(kp_connection_move(&c, POLLOUT, 0));
	cr_assert(kp_connection_is_done(&c, 0));
	cr_assert_eq(read(peer, room, sizeof(room)), 2);
	end();
}

Test(connection, who_is_gone_is_let_go)
{
	begin();
	send_text("one\n");
	close(peer);
	peer = open("/dev/null", O_RDONLY);
	cr_assert_str_eq(line(), "one");
	c.waits_for = 7;
	cr_assert_not(kp_connection_move(&c, POLLHUP, 0));
	kp_connection_take_answer(&c, strdup("1\n"), 0);
	cr_assert_not(kp_connection_move(&c, POLLOUT | POLLHUP, 0));
	end();
}

Test(connection, long_answer_goes_in_pieces)
{
	size_t size = 900000, got = 0;
	char *text = malloc(size + 1), room[65536];

	begin();
	memset(text, 'y', size);
	text[size] = 0;
	kp_connection_take_answer(&c, text, 0);
	cr_assert(kp_connection_move(&c, POLLOUT, 0));
	cr_assert_not_null(c.out);
	while (got < size) {
		ssize_t n = read(peer, room, sizeof(room));

		cr_assert_gt(n, 0);
		got += (size_t)n;
		if (c.out)
			cr_assert(kp_connection_move(&c, POLLOUT, 0));
	}
	cr_assert_null(c.out);
	cr_assert_eq(got, size);
	end();
}
