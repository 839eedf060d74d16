/* Sampling from outside, for the whole session: lookout.h. Daemon, session loop. */
#include "daemon/session/lookout.h"

#include "common/unwind/walk.h"
#include "daemon/attach/onlooker.h"
#include "daemon/linux/monotonic.h"
#include "daemon/linux/proc.h"
#include "daemon/session/agent_tables.h"
#include "daemon/session/attachment.h"
#include "daemon/session/outsiders.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#define MS UINT64_C(1000000)
#define SECOND_NS (1000 * MS)
#define BURST 20 /* of what is allowed in a second, at once */
#define WORDS_MAX (4 * KP_DEPTH_MAX) /* that a walk goes by */
#define ONLOOKERS_MAX 100 /* one after the other: somebody kills them */

/* Of something that may be done so often. */
struct allowance {
	uint64_t per_second;
	uint64_t since_ns; /* everything before is used up */
};

struct kp_lookout {
	bool stops;
	kp_lookout_say_fn say;
	void *ctx;
	struct kp_onlooker *onlooker; /* NULL: not needed yet, or ended */
	uint32_t onlookers; /* so far */
	struct allowance stop_allowance, read_allowance;
	uint64_t first_ns; /* the first stop; 0: none yet */
	struct kp_outsiders **member;
	size_t count, room;
	size_t first; /* to be served, so that none is always the last */
	uint64_t serial;
	struct kp_lookout_sums sums;
	/* of the walk at hand */
	uint64_t pc[KP_DEPTH_MAX];
	struct kp_sight_word word[WORDS_MAX];
	struct kp_look reading;
};

int kp_lookout_create(bool stops, kp_lookout_say_fn say, void *ctx, struct kp_lookout **ret,
		      struct kp_err *err)
{
	struct kp_lookout *l = calloc(1, sizeof(*l));

	if (!l)
		return kp_fail_nomem(err);
	l->stops = stops;
	l->say = say;
	l->ctx = ctx;
	l->stop_allowance.per_second = KP_LOOKOUT_STOPS;
	l->read_allowance.per_second = KP_LOOKOUT_READS;
	*ret = l;
	return 0;
}

/* What it has cost is kept. */
static void end_onlooker(struct kp_lookout *l)
{
	if (!l->onlooker)
		return;
	l->sums.cpu_ns += kp_onlooker_cpu_ns(l->onlooker);
	kp_onlooker_destroy(l->onlooker);
	l->onlooker = NULL;
}

void kp_lookout_destroy(struct kp_lookout *l)
{
	if (!l)
		return;
	end_onlooker(l);
	free(l->member);
	free(l);
}

bool kp_lookout_may_stop(const struct kp_lookout *l)
{
	return l->stops;
}

void kp_lookout_say(struct kp_lookout *l, const char *fmt, ...)
{
	char line[640];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	l->say(l->ctx, line);
}

void kp_lookout_clamp(struct kp_lookout *l, enum kp_raw_clamped what, const char *text)
{
	if (!(l->sums.clamped & what))
		kp_lookout_say(l, "%s", text);
	l->sums.clamped |= what;
}

/* ---- members ---- */

int kp_lookout_join(struct kp_lookout *l, struct kp_outsiders *outsiders, struct kp_err *err)
{
	if (l->count == l->room) {
		size_t room = l->room ? l->room * 2 : 8;
		struct kp_outsiders **grown =
			reallocarray(l->member, room, sizeof(struct kp_outsiders *));

		if (!grown)
			return kp_fail_nomem(err);
		l->member = grown;
		l->room = room;
	}
	outsiders->serial = ++l->serial;
	l->member[l->count++] = outsiders;
	return 0;
}

void kp_lookout_leave(struct kp_lookout *l, struct kp_outsiders *outsiders)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->count; i++)
		if (l->member[i] != outsiders)
			l->member[kept++] = l->member[i];
	l->count = kept;
}

/* ---- what is allowed ---- */

static bool take_one(struct allowance *allowance, uint64_t now)
{
	uint64_t each = SECOND_NS / allowance->per_second;

	if (now - allowance->since_ns > BURST * each)
		allowance->since_ns = now - BURST * each;
	if (now - allowance->since_ns < each)
		return false;
	allowance->since_ns += each;
	return true;
}

bool kp_lookout_may_read(struct kp_lookout *l)
{
	return take_one(&l->read_allowance, kp_now_ns());
}

static bool time_is_over(struct kp_lookout *l, uint64_t now)
{
	if (!l->first_ns || now - l->first_ns < KP_LOOKOUT_TIME_NS)
		return false;
	kp_lookout_clamp(l, KP_CLAMPED_TIME,
			 "threads have been sampled in stops for 60 s, which is the limit of a "
			 "session: from here on they are not stopped any more");
	return true;
}

static bool has_onlooker(struct kp_lookout *l)
{
	if (l->onlooker && kp_onlooker_is_over(l->onlooker))
		end_onlooker(l);
	if (l->onlooker)
		return true;
	return l->onlookers < ONLOOKERS_MAX && kp_onlooker_create(&l->onlooker, NULL) == 0 &&
	       ++l->onlookers;
}

/*
 * A thread in uninterruptible sleep cannot stop, a stopped or traced one is somebody else's matter.
 */
static bool is_in_stoppable_state(pid_t pid, pid_t tid)
{
	char state = kp_proc_state(pid, tid);

	return state == 'R' || state == 'S';
}

/* An answer finds its way back by these. */
static uint64_t token_of(const struct kp_outsiders *outsiders, const struct kp_clock *clock)
{
	return outsiders->serial * 2 + (clock == outsiders->waits);
}

enum kp_ask kp_lookout_ask(struct kp_lookout *l, struct kp_outsiders *outsiders,
			   struct kp_clock *clock, pid_t tid)
{
	pid_t pid = outsiders->attachment->target.pid;
	uint64_t now = kp_now_ns();

	if (!l->stops || time_is_over(l, now) || !is_in_stoppable_state(pid, tid) ||
	    !has_onlooker(l))
		return KP_ASK_NEVER;
	if (!take_one(&l->stop_allowance, now) ||
	    !kp_onlooker_ask(l->onlooker, pid, tid, token_of(outsiders, clock)))
		return KP_ASK_LATER;
	if (!l->first_ns)
		l->first_ns = now;
	return KP_ASK_DONE;
}

/* ---- what was seen ---- */

/* A look that is walked, and the words that the walk goes by. */
struct walker {
	struct kp_lookout *lookout;
	struct kp_look *look;
	kp_read_word_fn read_word; /* of the look */
	uint32_t words;
};

static int read_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct walker *walker = ctx;

	if (walker->read_word(walker->look, addr, ret) != 0)
		return -1;
	if (walker->words < WORDS_MAX)
		walker->lookout->word[walker->words++] = (struct kp_sight_word){ addr, *ret };
	return 0;
}

/* leaf_register NULL: only what is in regs is known of the registers. */
static void walk(struct walker *walker, struct kp_attachment *a, const struct kp_regs *regs,
		 kp_leaf_register_fn leaf_register, struct kp_sight *ret)
{
	enum kp_unwind_mode mode = a->plan->unwind;
	struct kp_arch arch = *kp_cpu_arch();
	struct kp_walk how = {
		.arch = &arch,
		.mode = mode == KP_UNWIND_SLICE ? KP_UNWIND_AUTO : mode,
		.read_word = read_word,
		.read_ctx = walker,
		.find_rule = mode == KP_UNWIND_FP ? NULL : kp_agent_tables_find_rule,
		.find_ctx = a,
		.leaf_register = leaf_register,
		.leaf_ctx = walker->look,
	};
	struct kp_lookout *l = walker->lookout;
	enum kp_walk_end end;
	uint32_t depth, used;

	/*
	 * A place is known again by the words that its walk went by, and what functions have saved of
	 * this register may be anything.
	 */
	arch.dwarf.base = KP_DWARF_NONE;
	end = kp_walk(&how, *regs, l->pc, a->plan->depth, &depth, &used);
	*ret = (struct kp_sight){ .sp = regs->sp,
				  .pc = l->pc,
				  .depth = (uint16_t)depth,
				  .walk_end = (uint8_t)end,
				  .how = used,
				  .word = l->word,
				  .word_count = walker->words };
}

/*
 * A thread that sleeps has its registers in the kernel, which tells two of them. Where the functions
 * on the stack find their frames by the stack pointer, that is enough: the frame pointer is needed
 * only until the first of them that has saved it.
 */
bool kp_lookout_read(struct kp_lookout *l, struct kp_outsiders *outsiders, pid_t tid,
		     const struct kp_thread_where *where, struct kp_sight *ret)
{
	struct kp_attachment *a = outsiders->attachment;
	struct walker walker = { .lookout = l,
				 .look = &l->reading,
				 .read_word = kp_look_fetch_word };
	struct kp_regs regs = {
		.pc = where->pc, .sp = where->sp, .fp = KP_REG_LOST, .base = KP_REG_LOST
	};

	if (!a->plan->store)
		return false;
	kp_look_begin(&l->reading, a->target.pid, tid);
	walk(&walker, a, &regs, NULL, ret);
	return kp_walk_is_whole(ret->walk_end) || ret->walk_end == KP_WALK_DEPTH;
}

static struct kp_outsiders *find(const struct kp_lookout *l, uint64_t serial)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->member[i]->serial == serial)
			return l->member[i];
	return NULL;
}

static void take_answer(struct kp_lookout *l, struct kp_look *look)
{
	struct kp_outsiders *outsiders = find(l, look->token / 2);
	struct walker walker = { .lookout = l, .look = look, .read_word = kp_look_word };
	struct kp_clock *clock;
	struct kp_sight sight;
	struct kp_regs regs;

	if (look->result == KP_LOOK_SEEN) {
		l->sums.stops++;
		l->sums.stops_ns += look->stopped_ns;
	} else if (look->result != KP_LOOK_GONE) {
		l->sums.refused++;
	}
	if (!outsiders)
		return; /* its process has ended meanwhile, or executes another program */
	clock = look->token % 2 ? outsiders->waits : outsiders->stops;
	if (look->result != KP_LOOK_SEEN) {
		kp_outsiders_seen(outsiders, clock, look->tid, NULL);
		return;
	}
	kp_look_regs(look, &regs);
	walk(&walker, outsiders->attachment, &regs, kp_look_register, &sight);
	sight.sched = look->sched;
	sight.in_call = kp_cpu_is_in_call(&look->regs);
	kp_outsiders_seen(outsiders, clock, look->tid, &sight);
}

/* ---- turns ---- */

int kp_lookout_fd(const struct kp_lookout *l)
{
	return l->onlooker ? kp_onlooker_fd(l->onlooker) : -1;
}

static uint64_t due_of(const struct kp_outsiders *outsiders)
{
	uint64_t stops = outsiders->stops ? kp_stop_clock_due_ns(outsiders->stops) : UINT64_MAX;
	uint64_t waits = outsiders->waits ? kp_wait_clock_due_ns(outsiders->waits) : UINT64_MAX;

	return stops < waits ? stops : waits;
}

uint64_t kp_lookout_due_ns(const struct kp_lookout *l)
{
	uint64_t due = UINT64_MAX;

	for (size_t i = 0; i < l->count; i++) {
		uint64_t one = due_of(l->member[i]);

		due = one < due ? one : due;
	}
	return due;
}

static void serve_one(struct kp_outsiders *outsiders)
{
	if (outsiders->stops)
		outsiders->stops->ops->serve(outsiders->stops);
	if (outsiders->waits)
		outsiders->waits->ops->serve(outsiders->waits);
}

void kp_lookout_serve(struct kp_lookout *l)
{
	struct kp_look *look;

	while (l->onlooker && (look = kp_onlooker_next(l->onlooker)))
		take_answer(l, look);
	l->first = l->count ? (l->first + 1) % l->count : 0;
	for (size_t i = 0; i < l->count; i++)
		serve_one(l->member[(l->first + i) % l->count]);
}

void kp_lookout_sum(struct kp_lookout *l, struct kp_lookout_sums *ret)
{
	*ret = l->sums;
	if (l->onlooker)
		ret->cpu_ns += kp_onlooker_cpu_ns(l->onlooker);
}
