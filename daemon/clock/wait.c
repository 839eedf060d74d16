/*
 * The clock of threads that wait: outside.h. Runs in the daemon.
 *
 * How long a thread has waited is arithmetic: what has passed, less what it ran, less what it waited
 * for a CPU. Each look adds what has passed since the one before. Where it waited is seen when a
 * look finds it waiting: all that is not in a sample yet is that place's. So a thread that waits
 * in two places, too shortly for each to be seen each time, has both in the right proportion.
 *
 * The stack of a place is learned in a stop, and known from then on: if the thread waits with the
 * same stack pointer and PC, and every word that the walk went by is what it was, then the walk
 * would go the same way. So a loop that waits thousands of times a second is stopped for each of
 * its few places once, and not at all while it does not run.
 */
#include "daemon/clock/outside.h"

#include "common/unwind/fp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MS UINT64_C(1000000)
#define EMIT_NS (1000 * MS) /* a sample of what still goes on */
#define AGAIN_NS (1000 * MS) /* until a place without a stack is asked for again */
#define REST_NS (10 * MS) /* until threads are looked at that there were too many others for */
#define PLACES 8 /* that are remembered of a thread */

/* Where a thread waits. */
struct place {
	uint64_t sp, pc;
	uint64_t *frames; /* depth of them, and behind them the words; NULL: no stack is known */
	struct kp_sight_word *word;
	uint32_t word_count, how;
	uint16_t depth;
	uint8_t walk_end;
	uint64_t used_ns; /* when a thread was seen there last */
};

struct wait_thread {
	pid_t tid;
	struct kp_proc_sched sched; /* when it was looked at last */
	uint64_t looked_ns;
	int64_t waited_ns; /* that is in no sample yet; below 0: the kernel's figures were behind */
	uint64_t emitted_ns; /* when the last sample of this stay was made, or it was seen first */
	struct place *at; /* where it waits now; NULL: not known, or it does not */
	struct place bare; /* a place of which only the PC is known */
	uint64_t again_ns; /* when a stack may be asked for */
	uint64_t asked_sp, asked_pc; /* what a stack was asked for */
	bool asked;
	struct place place[PLACES];
};

struct wait_clock {
	struct kp_clock base;
	struct kp_outside outside;
	struct wait_thread **thread;
	size_t count, room;
	size_t next; /* to be looked at */
	uint64_t due_ns;
	bool stopped;
};

static struct wait_clock *of(struct kp_clock *clock)
{
	return (struct wait_clock *)clock;
}

static uint64_t now_of(const struct wait_clock *c)
{
	return c->outside.ops->now_ns(c->outside.ctx);
}

/* ---- the threads ---- */

static size_t index_of(const struct wait_clock *c, pid_t tid)
{
	size_t i = 0;

	while (i < c->count && c->thread[i]->tid != tid)
		i++;
	return i;
}

static int make_room(struct wait_clock *c, struct kp_err *err)
{
	size_t room = c->room ? c->room * 2 : 64;
	struct wait_thread **grown;

	if (c->count < c->room)
		return 0;
	grown = reallocarray(c->thread, room, sizeof(struct wait_thread *));
	if (!grown)
		return kp_fail_nomem(err);
	c->thread = grown;
	c->room = room;
	return 0;
}

static void free_thread(struct wait_thread *thread)
{
	for (int i = 0; i < PLACES; i++)
		free(thread->place[i].frames);
	free(thread);
}

static int arm(struct kp_clock *clock, pid_t tid, pid_t ns_tid, struct kp_err *err)
{
	struct wait_clock *c = of(clock);
	struct wait_thread *thread;
	struct kp_proc_sched sched;

	(void)ns_tid;
	if (make_room(c, err) < 0)
		return -KP_ENOMEM;
	if (!c->outside.ops->sched(c->outside.ctx, tid, &sched))
		return kp_fail(err, KP_EGONE, "thread %d is gone", (int)tid);
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return kp_fail_nomem(err);
	thread->tid = tid;
	thread->sched = sched;
	thread->looked_ns = now_of(c);
	c->thread[c->count++] = thread;
	clock->armed++;
	return 0;
}

static pid_t owner(const struct kp_clock *clock, uint32_t origin)
{
	const struct wait_clock *c = (const struct wait_clock *)clock;

	return origin <= INT32_MAX && index_of(c, (pid_t)origin) < c->count ? (pid_t)origin : 0;
}

/* ---- places ---- */

static void fill_place(struct place *place, const struct kp_sight *sight, uint64_t now)
{
	size_t frame_bytes = sight->depth * sizeof(*sight->pc);
	size_t word_bytes = sight->word_count * sizeof(*sight->word);
	uint64_t *frames = malloc(frame_bytes + word_bytes);

	if (!frames)
		return; /* it is asked for again */
	free(place->frames);
	*place = (struct place){ .sp = sight->sp,
				 .pc = sight->pc[0],
				 .frames = frames,
				 .word = (struct kp_sight_word *)(void *)(frames + sight->depth),
				 .word_count = sight->word_count,
				 .how = sight->how,
				 .depth = sight->depth,
				 .walk_end = sight->walk_end,
				 .used_ns = now };
	memcpy(place->frames, sight->pc, frame_bytes);
	if (word_bytes)
		memcpy(place->word, sight->word, word_bytes);
}

/* The one that has not been used for longest. */
static struct place *oldest_place(struct wait_thread *thread)
{
	struct place *oldest = &thread->place[0];

	for (int i = 1; i < PLACES; i++)
		if (thread->place[i].used_ns < oldest->used_ns)
			oldest = &thread->place[i];
	return oldest;
}

/* The same call may be reached on different ways: those are places of their own. */
static struct place *known_place(struct wait_clock *c, struct wait_thread *thread,
				 const struct kp_thread_where *where)
{
	for (int i = 0; i < PLACES; i++) {
		struct place *place = &thread->place[i];

		if (place->frames && place->sp == where->sp && place->pc == where->pc &&
		    c->outside.ops->unchanged(c->outside.ctx, place->word, place->word_count))
			return place;
	}
	return NULL;
}

static struct place *bare_place(struct wait_thread *thread, const struct kp_thread_where *where)
{
	thread->bare = (struct place){
		.sp = where->sp, .pc = where->pc, .depth = 1, .walk_end = KP_WALK_UNREADABLE
	};
	return &thread->bare;
}

/* ---- samples ---- */

/* What was waited so far is the present place's. What is left of a period stays with the thread. */
static void emit(struct wait_clock *c, struct wait_thread *thread, uint64_t now)
{
	const struct place *at = thread->at;
	struct kp_sight sight = {
		.sp = at->sp,
		.pc = at->frames ? at->frames : &at->pc,
		.depth = at->depth,
		.walk_end = at->walk_end,
		.how = at->how,
	};
	int64_t period = (int64_t)c->base.period_ns, periods = thread->waited_ns / period;

	thread->emitted_ns = now;
	if (periods < 1)
		return;
	if (periods > UINT32_MAX)
		periods = UINT32_MAX;
	thread->waited_ns -= periods * period;
	c->outside.ops->put(c->outside.ctx, &c->base, thread->tid, (uint32_t)(periods - 1), &sight);
}

static void leave(struct wait_clock *c, struct wait_thread *thread, uint64_t now)
{
	if (thread->at)
		emit(c, thread, now);
	thread->at = NULL;
}

/* ---- a look ---- */

static int64_t waited_since(const struct wait_thread *thread, const struct kp_proc_sched *sched,
			    uint64_t now)
{
	return (int64_t)(now - thread->looked_ns) -
	       (int64_t)(sched->cpu_ns - thread->sched.cpu_ns) -
	       (int64_t)(sched->delay_ns - thread->sched.delay_ns);
}

/* A kernel that does not count says 0 at all times. */
static bool has_run(const struct kp_proc_sched *before, const struct kp_proc_sched *now)
{
	return now->runs == 0 || now->runs != before->runs;
}

static bool is_still_there(struct wait_clock *c, const struct wait_thread *thread,
			   const struct kp_proc_sched *sched)
{
	struct kp_proc_sched again;

	return c->outside.ops->sched(c->outside.ctx, thread->tid, &again) &&
	       again.runs == sched->runs;
}

static void stay(struct wait_thread *thread, struct place *place, uint64_t now)
{
	place->used_ns = now;
	thread->at = place;
	thread->emitted_ns = now;
}

/* It waits, and the stack is not known. */
static void learn(struct wait_clock *c, struct wait_thread *thread,
		  const struct kp_thread_where *where, uint64_t now)
{
	enum kp_ask asked = KP_ASK_NEVER;

	if (thread->asked)
		return;
	if (now >= thread->again_ns)
		asked = c->outside.ops->ask(c->outside.ctx, &c->base, thread->tid);
	if (asked == KP_ASK_DONE) {
		thread->asked = true;
		thread->asked_sp = where->sp;
		thread->asked_pc = where->pc;
	} else if (asked == KP_ASK_NEVER) {
		if (now >= thread->again_ns)
			thread->again_ns = now + AGAIN_NS;
		stay(thread, bare_place(thread, where), now);
	}
}

static struct place *remember(struct wait_clock *c, struct wait_thread *thread,
			      const struct kp_sight *sight, uint64_t now)
{
	struct place *place = oldest_place(thread);

	if (thread->at == place)
		leave(c, thread, now);
	fill_place(place, sight, now);
	return place->frames && place->pc == sight->pc[0] ? place : NULL;
}

/* Where it is now that it has run, or was not known to be. */
static void find_it(struct wait_clock *c, struct wait_thread *thread,
		    const struct kp_proc_sched *sched, uint64_t now)
{
	struct kp_thread_where where;
	struct kp_sight sight;
	struct place *place;

	c->outside.ops->where(c->outside.ctx, thread->tid, &where);
	if (where.place != KP_PLACE_SYSCALL && where.place != KP_PLACE_BLOCKED)
		return;
	place = known_place(c, thread, &where);
	if (!place && c->outside.ops->read(c->outside.ctx, thread->tid, &where, &sight)) {
		if (!is_still_there(c, thread, sched))
			return; /* it may have been read while it ran */
		place = remember(c, thread, &sight, now);
	}
	if (!place)
		learn(c, thread, &where, now);
	else if (is_still_there(c, thread, sched))
		stay(thread, place, now);
}

static void look(struct wait_clock *c, struct wait_thread *thread)
{
	struct kp_proc_sched sched;
	uint64_t now = now_of(c);
	int64_t waited;

	if (!c->outside.ops->sched(c->outside.ctx, thread->tid, &sched))
		return; /* it is gone; forget() comes */
	waited = waited_since(thread, &sched, now);
	if (thread->at && has_run(&thread->sched, &sched))
		leave(c, thread, now);
	thread->waited_ns += waited;
	thread->sched = sched;
	thread->looked_ns = now;
	/* Only the PC is known: perhaps by now it can be stopped. */
	if (thread->at == &thread->bare && now >= thread->again_ns)
		leave(c, thread, now);
	if (!thread->at)
		find_it(c, thread, &sched, now);
	if (thread->at && now - thread->emitted_ns >= EMIT_NS)
		emit(c, thread, now);
}

/*
 * Its stack is known from the next look on, if it waits there again: to stop, it has run. If it was
 * stopped somewhere else, that may be no place where it waits.
 */
void kp_wait_clock_seen(struct kp_clock *clock, pid_t tid, const struct kp_sight *sight)
{
	struct wait_clock *c = of(clock);
	size_t i = index_of(c, tid);
	uint64_t now = now_of(c);
	struct wait_thread *thread;

	if (i == c->count)
		return;
	thread = c->thread[i];
	thread->asked = false;
	if (!sight)
		thread->again_ns = now + AGAIN_NS;
	else if (sight->sp == thread->asked_sp && sight->pc[0] == thread->asked_pc)
		remember(c, thread, sight, now);
}

static void unlearn(struct wait_clock *c, struct wait_thread *thread)
{
	for (int i = 0; i < PLACES; i++) {
		struct place *place = &thread->place[i];

		if (!place->frames || kp_walk_is_whole(place->walk_end))
			continue;
		if (thread->at == place)
			leave(c, thread, now_of(c));
		free(place->frames);
		*place = (struct place){ 0 };
	}
}

void kp_wait_clock_relearn(struct kp_clock *clock)
{
	struct wait_clock *c = of(clock);

	for (size_t i = 0; i < c->count; i++)
		unlearn(c, c->thread[i]);
}

/* ---- rounds ---- */

/* Anywhere from half to one and a half: what the target does regularly is not met in step. */
static uint64_t until_next_round(const struct wait_clock *c)
{
	return c->base.period_ns / 2 + kp_timer_clock_first(c->base.period_ns);
}

static void serve(struct kp_clock *clock)
{
	struct wait_clock *c = of(clock);
	uint64_t now = now_of(c);

	if (c->stopped || now < c->due_ns)
		return;
	for (; c->next < c->count; c->next++) {
		if (!c->outside.ops->may_read(c->outside.ctx)) {
			c->due_ns = now + REST_NS;
			return;
		}
		look(c, c->thread[c->next]);
	}
	c->next = 0;
	c->due_ns = now + until_next_round(c);
}

uint64_t kp_wait_clock_due_ns(const struct kp_clock *clock)
{
	const struct wait_clock *c = (const struct wait_clock *)clock;

	return c->count && !c->stopped ? c->due_ns : UINT64_MAX;
}

/* ---- the end ---- */

/* Where it waits at the end, without a stop. */
static void find_at_last(struct wait_clock *c, struct wait_thread *thread, uint64_t now)
{
	struct kp_thread_where where;
	struct place *place;

	c->outside.ops->where(c->outside.ctx, thread->tid, &where);
	if (where.place != KP_PLACE_SYSCALL && where.place != KP_PLACE_BLOCKED)
		return;
	place = known_place(c, thread, &where);
	stay(thread, place ? place : bare_place(thread, &where), now);
}

/* Of a thread that has ended the kernel says no more. */
static void finish(struct wait_clock *c, struct wait_thread *thread)
{
	struct kp_proc_sched sched;
	uint64_t now = now_of(c);

	if (c->stopped)
		return;
	if (c->outside.ops->sched(c->outside.ctx, thread->tid, &sched)) {
		if (has_run(&thread->sched, &sched))
			leave(c, thread, now);
		thread->waited_ns += waited_since(thread, &sched, now);
		if (!thread->at)
			find_at_last(c, thread, now);
	}
	leave(c, thread, now);
}

static void forget(struct kp_clock *clock, pid_t tid)
{
	struct wait_clock *c = of(clock);
	size_t i = index_of(c, tid);

	if (i == c->count)
		return;
	finish(c, c->thread[i]);
	free_thread(c->thread[i]);
	c->thread[i] = c->thread[--c->count];
}

static void stop(struct kp_clock *clock)
{
	struct wait_clock *c = of(clock);

	for (size_t i = 0; i < c->count; i++)
		finish(c, c->thread[i]);
	c->stopped = true;
}

static void destroy(struct kp_clock *clock)
{
	struct wait_clock *c = of(clock);

	for (size_t i = 0; i < c->count; i++)
		free_thread(c->thread[i]);
	free(c->thread);
	free(c);
}

static const struct kp_clock_ops wait_clock_ops = {
	.name = "wall",
	.source = KP_SOURCE_WAIT,
	.arm = arm,
	.forget = forget,
	.owner = owner,
	.serve = serve,
	.stop = stop,
	.destroy = destroy,
};

int kp_wait_clock_create(const struct kp_outside *outside, uint64_t period_ns,
			 struct kp_clock **ret, struct kp_err *err)
{
	struct wait_clock *c = calloc(1, sizeof(*c));

	if (!c)
		return kp_fail_nomem(err);
	c->base.ops = &wait_clock_ops;
	c->base.period_ns = period_ns;
	c->outside = *outside;
	*ret = &c->base;
	return 0;
}
