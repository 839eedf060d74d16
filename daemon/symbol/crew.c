/* Work for workers: crew.h. Runs in the daemon. */
#include "daemon/symbol/crew.h"

#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/symbol/answers.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MS UINT64_C(1000000)
#define TICK_MS 50
#define ROOM_BYTES (UINT64_C(1) << 30) /* of all workers together */
#define SHARE_MIN (2 * KP_ORDER_MAX) /* addresses before one of which another may take half */
#define DEATHS_MAX 6u /* in one module */
#define GIVEN_UP UINT_MAX
#define NONE SIZE_MAX

/* Addresses of a job that are to be ordered yet. */
struct span {
	size_t job;
	uint32_t next, end;
	bool owned;
};

/* How a job goes. */
struct course {
	unsigned deaths; /* of workers, or GIVEN_UP */
	uint64_t open_ns, step_ns; /* a worker's first piece, and a later one; 0: not known yet */
};

/* What one worker was told to do. */
struct piece {
	size_t job;
	uint32_t first, count;
};

struct hand {
	struct kp_name_worker worker;
	struct piece piece[KP_ORDERS_MAX]; /* not answered yet, the first is what it is at */
	uint32_t pieces;
	size_t span; /* where it goes on, or NONE */
	size_t job; /* whose module it has open, or NONE */
	struct kp_name_worker_place seen;
	uint64_t since_ns; /* when that changed */
	uint64_t begun_ns; /* when it began with the first piece */
	/* the result that is coming in */
	struct kp_result head;
	size_t got; /* bytes of head and answers */
	char *answers; /* in the arena */
};

struct crew {
	const struct kp_crew_options *options;
	struct kp_crew_job *job;
	size_t jobs;
	struct course *course; /* of each job */
	struct span *span;
	size_t spans, capacity;
	struct hand hand[KP_CREW_MAX];
	unsigned hands;
	struct kp_err *err;
};

/* ---- spans ---- */

static int add_span(struct crew *c, size_t job, uint32_t next, uint32_t end, size_t *ret)
{
	struct span *span = NULL;

	for (size_t i = 0; i < c->spans && !span; i++)
		if (c->span[i].next == c->span[i].end && !c->span[i].owned)
			span = &c->span[i];
	if (!span && c->spans == c->capacity) {
		size_t capacity = c->capacity * 2 + 16;
		void *grown = reallocarray(c->span, capacity, sizeof(*c->span));

		if (!grown)
			return kp_fail_nomem(c->err);
		c->span = grown;
		c->capacity = capacity;
	}
	if (!span)
		span = &c->span[c->spans++];
	*span = (struct span){ .job = job, .next = next, .end = end };
	*ret = (size_t)(span - c->span);
	return 0;
}

static uint32_t left_in(const struct span *span)
{
	return span->end - span->next;
}

/* The largest one that nobody has, of the job or (NONE) of any. */
static size_t find_free(const struct crew *c, size_t job)
{
	size_t best = NONE;

	for (size_t i = 0; i < c->spans; i++) {
		const struct span *s = &c->span[i];

		if (!s->owned && left_in(s) && (job == NONE || s->job == job) &&
		    (best == NONE || left_in(s) > left_in(&c->span[best])))
			best = i;
	}
	return best;
}

/* Whether a second worker would be done with half of it before one with all, opening and all. */
static bool is_worth_sharing(const struct crew *c, const struct span *span, size_t open_job)
{
	const struct course *course = &c->course[span->job];

	if (left_in(span) < SHARE_MIN)
		return false;
	return span->job == open_job ||
	       (course->step_ns &&
		left_in(span) / KP_ORDER_MAX * course->step_ns > 2 * course->open_ns);
}

/* Half of what another worker has, preferably in the module that this one has open. */
static int take_half(struct crew *c, size_t job, size_t *ret)
{
	size_t best = NONE;
	uint32_t most = 0, half;
	int r;

	*ret = NONE;
	for (size_t i = 0; i < c->spans; i++) {
		const struct span *s = &c->span[i];

		if (left_in(s) <= most || !is_worth_sharing(c, s, job))
			continue;
		best = i;
		if (s->job == job)
			break;
		most = left_in(s);
	}
	if (best == NONE)
		return 0;
	half = left_in(&c->span[best]) / 2;
	r = add_span(c, c->span[best].job, c->span[best].end - half, c->span[best].end, ret);
	if (r == 0)
		c->span[best].end -= half;
	return r;
}

/* Where the worker goes on, *ret NONE: nowhere. */
static int find_span(struct crew *c, struct hand *h, size_t *ret)
{
	if (h->span != NONE && left_in(&c->span[h->span])) {
		*ret = h->span;
		return 0;
	}
	if (h->span != NONE)
		c->span[h->span].owned = false;
	h->span = NONE;
	*ret = h->job != NONE ? find_free(c, h->job) : NONE;
	if (*ret == NONE)
		*ret = find_free(c, NONE);
	return *ret == NONE ? take_half(c, h->job, ret) : 0;
}

/* ---- what is not answered ---- */

/* Nothing of the job is ordered any more. */
static void give_up(struct crew *c, size_t job)
{
	c->course[job].deaths = GIVEN_UP;
	for (size_t i = 0; i < c->spans; i++) {
		if (c->span[i].job != job)
			continue;
		c->job[job].lost += left_in(&c->span[i]);
		c->span[i].next = c->span[i].end;
	}
}

/* Somebody else is to do it. */
static int put_back(struct crew *c, size_t job, uint32_t next, uint32_t end)
{
	size_t ignored;

	if (c->course[job].deaths != GIVEN_UP)
		return next < end ? add_span(c, job, next, end, &ignored) : 0;
	c->job[job].lost += end - next;
	return 0;
}

static void release(struct crew *c, struct hand *h)
{
	if (h->span != NONE)
		c->span[h->span].owned = false;
	h->span = NONE;
}

/* Its pieces from that one on. */
static int put_pieces_back(struct crew *c, struct hand *h, uint32_t from)
{
	int r = 0;

	for (uint32_t i = from; r == 0 && i < h->pieces; i++)
		r = put_back(c, h->piece[i].job, h->piece[i].first,
			     h->piece[i].first + h->piece[i].count);
	h->pieces = 0;
	release(c, h);
	return r;
}

static void describe(struct kp_crew_job *job, int status, bool hung)
{
	if (hung)
		snprintf(job->why, sizeof(job->why), "it took too long");
	else if (WIFSIGNALED(status))
		snprintf(job->why, sizeof(job->why), "a worker was ended by signal %d (%s)",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(job->why, sizeof(job->why), "a worker ended with status %d",
			 WEXITSTATUS(status));
}

/* The worker died in its first piece: what of it is lost, what is to be tried again. */
static int blame(struct crew *c, const struct hand *h, bool hung)
{
	const struct piece *p = &h->piece[0];
	struct kp_crew_job *job = &c->job[p->job];
	uint32_t at = h->seen.at < p->count ? h->seen.at : p->count - 1, lost, end;
	int r;

	if (c->course[p->job].deaths == GIVEN_UP || hung ||
	    ++c->course[p->job].deaths == DEATHS_MAX) {
		job->lost += p->count;
		give_up(c, p->job);
		return 0;
	}
	lost = 1u << 2 * (c->course[p->job].deaths - 1);
	end = lost < p->count - at ? at + lost : p->count;
	job->lost += end - at;
	r = put_back(c, p->job, p->first, p->first + at);
	return r < 0 ? r : put_back(c, p->job, p->first + end, p->first + p->count);
}

/* ---- workers ---- */

static struct hand nobody(void)
{
	return (struct hand){ .worker = { .fd = -1 }, .span = NONE, .job = NONE };
}

static int end_hand(struct crew *c, struct hand *h, bool hung)
{
	uint32_t from = 0;
	int status, r = 0;

	h->seen = kp_name_worker_where(&h->worker);
	status = kp_name_worker_end(&h->worker);
	if (h->pieces && !h->head.last) {
		from = 1;
		describe(&c->job[h->piece[0].job], status, hung);
		r = blame(c, h, hung);
	}
	if (r == 0)
		r = put_pieces_back(c, h, from);
	*h = nobody();
	return r;
}

static int start_hand(struct crew *c, struct hand *h)
{
	struct kp_name_worker_work work = c->options->work;
	int r;

	work.room_bytes = ROOM_BYTES / c->hands;
	*h = nobody();
	r = kp_name_worker_start(&work, &h->worker, c->err);
	h->since_ns = kp_now_ns();
	return r;
}

static void order(struct crew *c, struct hand *h, size_t at)
{
	struct span *span = &c->span[at];
	struct piece *p = &h->piece[h->pieces++];
	uint32_t count = left_in(span) < KP_ORDER_MAX ? left_in(span) : KP_ORDER_MAX;

	span->owned = true;
	h->span = at;
	*p = (struct piece){ span->job, span->next, count };
	span->next += count;
	if (h->pieces == 1)
		h->begun_ns = h->since_ns = kp_now_ns();
	/* If it is gone its socket will tell. */
	kp_name_worker_order(&h->worker, c->job[p->job].module, c->job[p->job].offset + p->first,
			     count);
}

/* Tells one what to do, as far as there is something; starts it where it is not there. */
static int employ(struct crew *c, struct hand *h)
{
	while (h->pieces < KP_ORDERS_MAX && !h->head.last) {
		size_t at;
		int r = find_span(c, h, &at);

		if (r < 0 || at == NONE)
			return r;
		if (!h->worker.pid)
			r = start_hand(c, h);
		if (r < 0)
			return r;
		order(c, h, at);
	}
	return 0;
}

static bool is_anybody(const struct crew *c)
{
	for (unsigned i = 0; i < c->hands; i++)
		if (c->hand[i].worker.pid)
			return true;
	return false;
}

static int employ_all(struct crew *c)
{
	for (unsigned i = 0; i < c->hands; i++) {
		int r = employ(c, &c->hand[i]);

		/* One is enough, if there cannot be more. */
		if (r == -KP_ENOMEM || (r < 0 && !is_anybody(c)))
			return r;
	}
	return 0;
}

/* ---- results ---- */

static bool answers_what_was_asked(const struct kp_answers_view *view,
				   const struct kp_crew_job *job, const struct piece *p)
{
	if (view->count != p->count)
		return false;
	for (uint32_t i = 0; i < p->count; i++)
		if (view->answer[i].offset != job->offset[p->first + i])
			return false;
	return true;
}

static void drop_first_piece(struct hand *h)
{
	h->pieces--;
	memmove(h->piece, h->piece + 1, h->pieces * sizeof(h->piece[0]));
}

static void note_time(struct crew *c, struct hand *h, size_t job)
{
	struct course *course = &c->course[job];
	uint64_t now_ns = kp_now_ns(), took_ns = now_ns - h->begun_ns;

	if (h->job == job)
		course->step_ns = took_ns;
	else
		course->open_ns = took_ns;
	h->begun_ns = h->since_ns = now_ns;
}

/* False: it is no result that a worker of ours gives. */
static bool take_result(struct crew *c, struct hand *h)
{
	const struct piece p = h->piece[0];
	struct kp_crew_job *job;
	struct kp_answers_view view;

	if (h->head.outcome != 0 || !h->pieces)
		return h->head.outcome < 0 && h->head.last && h->pieces;
	job = &c->job[p.job];
	if (kp_answers_open(h->answers, h->head.bytes, c->options->arena, &view, NULL) < 0 ||
	    !answers_what_was_asked(&view, job, &p))
		return false;
	for (uint32_t i = 0; i < p.count; i++)
		job->frames[p.first + i] = kp_answers_frames(&view, i);
	job->answered += p.count;
	job->note = view.note ? view.note : job->note;
	note_time(c, h, p.job);
	h->job = p.job;
	drop_first_piece(h);
	return true;
}

/* It ends by its own will. One that was out of memory may do better when it begins anew. */
static int retire(struct crew *c, struct hand *h)
{
	size_t at = h->pieces ? h->piece[0].job : NONE;

	if (h->head.outcome < 0 && at != NONE &&
	    (c->course[at].deaths == GIVEN_UP || ++c->course[at].deaths == DEATHS_MAX)) {
		struct kp_crew_job *job = &c->job[at];

		snprintf(job->why, sizeof(job->why), "they take too much memory");
		job->lost += h->piece[0].count;
		give_up(c, at);
		drop_first_piece(h);
	}
	return end_hand(c, h, false);
}

/* Bytes of the result that are wanted next; 0: it is whole. */
static size_t wanted(const struct hand *h)
{
	if (h->got < sizeof(h->head))
		return sizeof(h->head) - h->got;
	return sizeof(h->head) + h->head.bytes - h->got;
}

static ssize_t take_bytes(struct hand *h)
{
	bool in_head = h->got < sizeof(h->head);
	char *to = in_head ? (char *)&h->head + h->got : h->answers + (h->got - sizeof(h->head));
	ssize_t n = recv(h->worker.fd, to, wanted(h), MSG_DONTWAIT);

	if (n > 0)
		h->got += (size_t)n;
	return n;
}

/* After the last byte of the head. */
static bool begin_answers(struct crew *c, struct hand *h)
{
	if (h->got != sizeof(h->head) || !h->head.bytes)
		return true;
	h->answers = h->head.bytes <= KP_ANSWERS_BYTES_MAX
			     ? kp_arena_alloc(c->options->arena, h->head.bytes)
			     : NULL;
	return h->answers != NULL;
}

/* Takes in what a worker has sent. */
static int listen_to(struct crew *c, struct hand *h)
{
	while (h->worker.pid) {
		ssize_t n = take_bytes(h);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0 || !begin_answers(c, h)) {
			h->head.last = 0;
			return end_hand(c, h, false);
		}
		if (wanted(h))
			continue;
		if (!take_result(c, h)) {
			h->head.last = 0;
			return end_hand(c, h, false);
		}
		if (h->head.last)
			return retire(c, h);
		h->got = 0;
		h->head = (struct kp_result){ 0 };
	}
	return 0;
}

/* Whether it does nothing for too long. */
static bool hangs(const struct crew *c, struct hand *h)
{
	uint32_t timeout_ms = c->options->timeout_ms ? c->options->timeout_ms : KP_CREW_TIMEOUT_MS;
	struct kp_name_worker_place place = kp_name_worker_where(&h->worker);
	uint64_t now_ns = kp_now_ns();

	if (!h->pieces || place.orders != h->seen.orders || place.at != h->seen.at) {
		h->seen = place;
		h->since_ns = now_ns;
	}
	return now_ns - h->since_ns > timeout_ms * MS;
}

static int turn(struct crew *c)
{
	struct pollfd ready[KP_CREW_MAX];
	int r = 0;

	for (unsigned i = 0; i < c->hands; i++)
		ready[i] = (struct pollfd){ .fd = c->hand[i].worker.fd, .events = POLLIN };
	poll(ready, c->hands, TICK_MS);
	for (unsigned i = 0; r == 0 && i < c->hands; i++) {
		struct hand *h = &c->hand[i];

		if (ready[i].revents)
			r = listen_to(c, h);
		if (r == 0 && h->worker.pid && hangs(c, h))
			r = end_hand(c, h, true);
	}
	return r;
}

/* ---- the whole ---- */

static bool is_working(const struct crew *c)
{
	for (unsigned i = 0; i < c->hands; i++)
		if (c->hand[i].pieces)
			return true;
	for (size_t i = 0; i < c->spans; i++)
		if (left_in(&c->span[i]))
			return true;
	return false;
}

static void tell(const struct crew *c)
{
	uint64_t answered = 0;
	size_t done = 0;

	if (!c->options->progress)
		return;
	for (size_t i = 0; i < c->jobs; i++) {
		answered += c->job[i].answered;
		done += c->job[i].answered + c->job[i].lost == c->job[i].count;
	}
	c->options->progress(c->options->progress_ctx, done, answered);
}

static bool is_late(const struct crew *c)
{
	return c->options->deadline_ns && kp_now_ns() >= c->options->deadline_ns;
}

static int work(struct crew *c)
{
	size_t ignored;
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->jobs; i++)
		if (c->job[i].count)
			r = add_span(c, i, 0, c->job[i].count, &ignored);
	while (r == 0 && is_working(c) && !is_late(c)) {
		r = employ_all(c);
		if (r == 0)
			r = turn(c);
		tell(c);
	}
	return r;
}

static unsigned count_hands(const struct kp_crew_options *options)
{
	unsigned most = options->workers;
	cpu_set_t cpus;

	if (!most)
		most = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus)
								      : 1;
	return most < KP_CREW_MAX ? most : KP_CREW_MAX;
}

int kp_crew_run(const struct kp_crew_options *options, struct kp_crew_job *job, size_t count,
		struct kp_err *err)
{
	struct crew c = { .options = options, .job = job, .jobs = count, .err = err };
	int r;

	c.course = calloc(count + 1, sizeof(*c.course));
	if (!c.course)
		return kp_fail_nomem(err);
	c.hands = count_hands(options);
	for (unsigned i = 0; i < c.hands; i++)
		c.hand[i] = nobody();
	r = work(&c);
	for (unsigned i = 0; i < c.hands; i++)
		kp_name_worker_end(&c.hand[i].worker);
	for (size_t i = 0; r == 0 && i < count; i++)
		job[i].late = job[i].count - job[i].answered - job[i].lost;
	free(c.course);
	free(c.span);
	return r;
}
