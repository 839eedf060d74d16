/*
 * Runs the real proto/ring.c in every order that its atomic accesses can take: two or three
 * writers, of which one may die at any point, and a reader that gives up or not at each poll.
 * Each actor is a coroutine that stops before every access; a depth-first search takes every
 * choice at every stop, and does not go twice through a state that it has been in. Always:
 *
 *	- no two actors touch a record without one's accesses happening before the other's
 *	  (vector clocks, fed by the memory orders that ring.c asks for);
 *	- each published record is delivered exactly once, whole, and nothing else is;
 *	- taken = kept + dropped, and taken counts each sample once;
 *	- a sample is dropped as "full" only if the ring was full in its time, and lost in any other
 *	  way only if the reader gave up on somebody or somebody died;
 *	- at the end no more cells are lost than writers died.
 *
 * Last, each acquire and release is weakened to relaxed, one at a time: the search must object, so
 * each order is needed and the search can see it. It runs the accesses themselves one after
 * another: a relaxed load never gives an old value here. docs/ring.md says what that leaves open.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static uint64_t model_load(const uint64_t *p, int order, int line);
static void model_store(uint64_t *p, uint64_t value, int order, int line);
static void model_add(uint64_t *p, uint64_t value, int order, int line);
static int model_cas(uint64_t *p, uint64_t expected, uint64_t desired, int order, int line);
static uint64_t model_data(const uint64_t *p);

#define ring_load(p, order) model_load((p), (order), __LINE__)
#define ring_store(p, v, order) model_store((p), (v), (order), __LINE__)
#define ring_add(p, v, order) model_add((p), (v), (order), __LINE__)
#define ring_cas(p, expected, desired, order)                                                      \
	model_cas((p), (expected), (desired), (order), __LINE__)
#define ring_data(p) model_data(p)
#include "proto/ring.c"

#define CELLS 2u
#define DEPTH 1u
#define WRITERS_MAX 3
#define READER WRITERS_MAX
#define ACTORS (WRITERS_MAX + 1)
#define SAMPLES_MAX 4
#define STACK_BYTES 65536
#define SAVED_BYTES 2048
#define PATH_MAX_STEPS 256
#define RING_WORDS ((KP_RING_HEAD_BYTES + CELLS * KP_RING_CELL_ALIGN) / 8)
#define LINES_MAX 1000

struct config {
	int samples[WRITERS_MAX]; /* of each writer */
	int polls; /* of the reader, while the writers are at work */
	int deaths; /* writers that die at most */
};

/* ---- state: everything that a schedule changes ---- */

enum status { RUNNING, FINISHED, DEAD };

/* What vector clocks know of a word: as an atomic, and as data. */
struct shadow {
	uint8_t released[ACTORS]; /* what an acquire of the word's value makes known */
	uint8_t writer; /* of data */
	uint8_t write_time;
	uint8_t read_time[ACTORS];
};

static struct {
	_Alignas(64) uint64_t ring[RING_WORDS];
	struct shadow shadow[RING_WORDS];
	uint8_t clock[ACTORS][ACTORS];
	uint8_t status[ACTORS];
	uint8_t deaths;
	/* What an actor has seen since it began a sample or a poll: decides what it does next. */
	uint64_t seen[ACTORS];
	struct kp_ring_reader reader;
	uint8_t polls; /* begun */
	uint8_t samples[WRITERS_MAX]; /* begun */
	uint8_t counted[WRITERS_MAX]; /* the sample at hand has a ticket or counts as dropped */
	uint8_t saw_full[WRITERS_MAX]; /* without ticket yet, and the ring has been full */
	uint8_t published[WRITERS_MAX][SAMPLES_MAX];
	uint8_t delivered[WRITERS_MAX][SAMPLES_MAX];
} state;
_Static_assert(sizeof(state) % 64 == 0, "hashed by words; what pads it stays zero");

static int options[ACTORS]; /* > 0: the actor waits for one of as many decisions */
static int decision[ACTORS];

static const struct config *config;
static int current; /* actor */
static int inline_run; /* accesses do not stop: the end of a schedule */
static int weak_line; /* line of ring.c whose order is weakened; 0: none */
static char complaint[200];
static uint8_t strong_lines[LINES_MAX]; /* lines seen to ask for an order; 2: on the ring's tail */

/* ---- coroutines ---- */

/* Stacks are saved and put back with the rest: only their upper end is ever in use at a stop. */
static struct {
	jmp_buf start, at;
	ucontext_t context;
	_Alignas(64) char stack[STACK_BYTES];
} routine[ACTORS];
static jmp_buf scheduler;
static ucontext_t main_context;

static char *saved_end(int actor)
{
	return routine[actor].stack + STACK_BYTES - SAVED_BYTES;
}

static void leave(void)
{
	if ((char *)__builtin_frame_address(0) < saved_end(current) + 256)
		abort();
	if (_setjmp(routine[current].at) == 0)
		_longjmp(scheduler, 1);
}

static void resume(int actor)
{
	current = actor;
	if (_setjmp(scheduler) == 0)
		_longjmp(routine[actor].at, 1);
}

/* The first complaint ends the schedule: whoever made it does not go on. */
__attribute__((format(printf, 1, 2))) static void complain(const char *fmt, ...)
{
	va_list args;

	if (complaint[0])
		return;
	va_start(args, fmt);
	vsnprintf(complaint, sizeof(complaint), fmt, args);
	va_end(args);
}

static void see(uint64_t value)
{
	uint64_t h = state.seen[current] ^ (value + UINT64_C(0x9e3779b97f4a7c15));

	h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
	h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
	state.seen[current] = h ^ h >> 32;
}

/* ---- memory ---- */

static size_t word_of(const uint64_t *p)
{
	size_t word = (size_t)(p - state.ring);

	if (word >= RING_WORDS) {
		fprintf(stderr, "access outside of the ring\n");
		abort();
	}
	return word;
}

static void join(uint8_t *into, const uint8_t *from)
{
	for (int i = 0; i < ACTORS; i++)
		if (into[i] < from[i])
			into[i] = from[i];
}

static int needs(int order, int wanted, int line, const uint64_t *p)
{
	int strong = order == wanted || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;

	if (strong)
		strong_lines[line] = p == &((struct kp_ring *)state.ring)->tail ? 2 : 1;
	return strong && line != weak_line;
}

static void acquire(const uint64_t *p, int order, int line)
{
	if (needs(order, __ATOMIC_ACQUIRE, line, p))
		join(state.clock[current], state.shadow[word_of(p)].released);
}

/* A plain store's release replaces what was released before it, a read-modify-write's adds to it. */
static void release(const uint64_t *p, int order, int line, int adds)
{
	uint8_t *released = state.shadow[word_of(p)].released;

	if (!adds)
		memset(released, 0, ACTORS);
	if (needs(order, __ATOMIC_RELEASE, line, p)) {
		join(released, state.clock[current]);
		state.clock[current][current]++;
	}
}

static void stop(void)
{
	if (!inline_run)
		leave();
}

static uint64_t model_load(const uint64_t *p, int order, int line)
{
	/* Nobody else writes tail: when the reader looks at it makes no difference. */
	if (current != READER || p != &((struct kp_ring *)state.ring)->tail)
		stop();
	acquire(p, order, line);
	see(*p);
	return *p;
}

static void model_store(uint64_t *p, uint64_t value, int order, int line)
{
	stop();
	release(p, order, line, 0);
	*p = value;
	see(0);
}

/* Only a new ticket can make the ring full. */
static void note_full(void)
{
	const struct kp_ring *ring = (const struct kp_ring *)state.ring;

	for (int w = 0; w < WRITERS_MAX; w++)
		if (state.status[w] == RUNNING && !state.counted[w])
			state.saw_full[w] |= ring->head - ring->tail >= CELLS;
}

static void model_add(uint64_t *p, uint64_t value, int order, int line)
{
	stop();
	acquire(p, order, line);
	release(p, order, line, 1);
	*p += value;
	see(0);
	state.counted[current] = 1;
	if (!state.saw_full[current])
		complain("a sample is dropped though the ring is not full");
	state.saw_full[current] = 0;
}

static int model_cas(uint64_t *p, uint64_t expected, uint64_t desired, int order, int line)
{
	stop();
	see(*p);
	if (*p != expected)
		return 0;
	acquire(p, order, line);
	release(p, order, line, 1);
	*p = desired;
	if (p == &((struct kp_ring *)state.ring)->head && current != READER) {
		state.counted[current] = 1;
		state.saw_full[current] = 0;
		note_full();
	}
	return 1;
}

/*
 * Data do not stop: that no access to a record is concurrent with another is what the clocks show,
 * and then the order of the single words is of no account.
 */
static uint64_t model_data(const uint64_t *p)
{
	struct shadow *s = &state.shadow[word_of(p)];

	if (s->write_time > state.clock[current][s->writer])
		complain("a record is read while it is written");
	s->read_time[current] = state.clock[current][current];
	see(*p);
	return *p;
}

static void write_data(uint64_t *p, uint64_t value)
{
	struct shadow *s = &state.shadow[word_of(p)];

	if (s->write_time > state.clock[current][s->writer])
		complain("two writers in one cell");
	for (int i = 0; i < ACTORS; i++)
		if (s->read_time[i] > state.clock[current][i])
			complain("a record is overwritten while it is read");
	s->writer = (uint8_t)current;
	s->write_time = state.clock[current][current];
	*p = value;
}

/* ---- actors ---- */

static uint64_t content(int writer, int sample)
{
	return (uint64_t)(writer * SAMPLES_MAX + sample + 1) * UINT64_C(0x0101010101010101);
}

static void write_samples(int writer)
{
	struct kp_ring *ring = (struct kp_ring *)state.ring;

	while (state.samples[writer] < config->samples[writer]) {
		int sample = state.samples[writer]++;
		union {
			struct kp_ring_record record;
			uint64_t word[2];
		} fixed = { .record = { .origin = (uint32_t)(writer * SAMPLES_MAX + sample),
					.depth = 1,
					.source = KP_SOURCE_TIMER,
					.walk_end = KP_WALK_ROOT } };
		struct kp_ring_record *record;
		uint64_t ticket;

		state.counted[writer] = 0;
		state.seen[writer] = 0;
		state.saw_full[writer] = ring->head - ring->tail >= CELLS;
		record = kp_ring_claim(ring, &ticket);
		if (!record)
			continue;
		state.seen[writer] = 0; /* how it came to the ticket matters no more */
		see(ticket);
		write_data((uint64_t *)record, fixed.word[0]);
		write_data((uint64_t *)record + 1, fixed.word[1]);
		write_data(&record->pc[0], content(writer, sample));
		kp_ring_publish(ring, ticket);
		state.published[writer][sample] = 1;
	}
}

static void deliver(const struct kp_ring_record *record)
{
	int writer = (int)record->origin / SAMPLES_MAX, sample = (int)record->origin % SAMPLES_MAX;

	if (writer >= WRITERS_MAX || record->pc[0] != content(writer, sample)) {
		complain("a record is not what was written");
		return;
	}
	if (!state.published[writer][sample])
		complain("a record is delivered before it is published");
	if (state.delivered[writer][sample]++)
		complain("a record is delivered twice");
}

static void poll_ring(int polls)
{
	union {
		struct kp_ring_record record;
		uint64_t room[2 + DEPTH];
	} got;

	while (state.polls < polls) {
		state.polls++;
		state.seen[READER] = 0;
		options[READER] = 2;
		leave();
		see((uint64_t)decision[READER]);
		if (kp_ring_read(&state.reader, &got.record, decision[READER]) == KP_RING_RECORD)
			deliver(&got.record);
	}
}

static void actor_main(void)
{
	int actor = current;

	_setjmp(routine[actor].start); /* each schedule comes back to here */
	if (actor == READER)
		poll_ring(config->polls);
	else
		write_samples(actor);
	state.status[actor] = FINISHED;
	leave();
}

static void create_actors(void)
{
	for (int i = 0; i < ACTORS; i++) {
		getcontext(&routine[i].context);
		routine[i].context.uc_stack.ss_sp = routine[i].stack;
		routine[i].context.uc_stack.ss_size = STACK_BYTES;
		makecontext(&routine[i].context, actor_main, 0);
	}
}

/* Runs the actor to its first access: by its context once, later by a jump to its start. */
static void start_actor(int actor)
{
	static int started[ACTORS];

	current = actor;
	if (_setjmp(scheduler) != 0)
		return;
	if (started[actor])
		_longjmp(routine[actor].start, 1);
	started[actor] = 1;
	swapcontext(&main_context, &routine[actor].context);
}

static void reset(void)
{
	memset(&state, 0, sizeof(state));
	memset(options, 0, sizeof(options));
	complaint[0] = '\0';
	kp_ring_format((struct kp_ring *)state.ring, CELLS, DEPTH, UINT64_MAX);
	kp_ring_reader_init(&state.reader, (struct kp_ring *)state.ring, CELLS, DEPTH);
	for (int i = 0; i < ACTORS; i++) {
		state.clock[i][i] = 1;
		start_actor(i);
	}
}

/* ---- the end of a schedule: what must hold whatever happened ---- */

static void drain(void)
{
	union {
		struct kp_ring_record record;
		uint64_t room[2 + DEPTH];
	} got;

	while (kp_ring_read(&state.reader, &got.record, 1) == KP_RING_RECORD)
		deliver(&got.record);
	while (kp_ring_read_late(&state.reader, &got.record) == KP_RING_RECORD)
		deliver(&got.record);
}

static void check_account(int gave_up)
{
	const struct kp_ring *ring = (const struct kp_ring *)state.ring;
	struct kp_ring_counts c;
	uint64_t samples = 0, kept = 0;

	for (int w = 0; w < WRITERS_MAX; w++) {
		samples += state.samples[w];
		if (state.status[w] == DEAD && !state.counted[w])
			samples--;
		for (int s = 0; s < SAMPLES_MAX; s++)
			kept += state.published[w][s];
	}
	kp_ring_count(&state.reader, &c);
	if (state.reader.tail != ring->head)
		complain("the drained ring is not empty");
	if (c.taken != samples)
		complain("taken %" PRIu64 ", but there were %" PRIu64 " samples", c.taken, samples);
	if (c.kept != kept || c.bad != 0 || c.kept + c.dropped != c.taken ||
	    c.dropped != c.dropped_full + c.dropped_cap + c.abandoned + c.bad ||
	    c.abandoned != state.reader.abandoned - state.reader.late)
		complain("the account does not add up");
	if (!gave_up && !state.deaths && c.abandoned != 0)
		complain("a sample is lost though nobody died or was given up on");
}

static void check_end(void)
{
	int gave_up = state.reader.abandoned > 0; /* while the writers were at work */
	uint32_t lost_cells = 0;

	current = READER;
	inline_run = 1;
	drain();
	for (int w = 0; w < WRITERS_MAX; w++)
		for (int s = 0; s < SAMPLES_MAX; s++)
			if (state.published[w][s] && !state.delivered[w][s])
				complain("a published record is never delivered");
	check_account(gave_up);
	for (uint32_t i = 0; i < CELLS; i++)
		lost_cells += reader_cell(&state.reader, i)->state != FREE;
	if (lost_cells > state.deaths)
		complain("%u cells lost, %u writers died", lost_cells, state.deaths);
	inline_run = 0;
}

/* ---- the search ---- */

struct choice {
	int actor;
	int kill;
	int decision;
};

/* What can happen next. A decision is the reader's own affair: nothing else need come before it. */
static int list_choices(struct choice *ret)
{
	int n = 0;

	if (state.status[READER] == RUNNING && options[READER]) {
		for (int i = 0; i < options[READER]; i++)
			ret[n++] = (struct choice){ .actor = READER, .decision = i };
		return n;
	}
	for (int i = 0; i < ACTORS; i++) {
		if (state.status[i] != RUNNING)
			continue;
		ret[n++] = (struct choice){ .actor = i };
		if (i != READER && state.deaths < config->deaths)
			ret[n++] = (struct choice){ .actor = i, .kill = 1 };
	}
	return n;
}

static void take(const struct choice *choice)
{
	if (choice->kill) {
		state.status[choice->actor] = DEAD;
		state.deaths++;
		return;
	}
	decision[choice->actor] = choice->decision;
	options[choice->actor] = 0;
	resume(choice->actor);
}

struct key {
	uint64_t a, b;
};

static struct key hash_state(void)
{
	const uint64_t *word = (const uint64_t *)(const void *)&state;
	struct key key = { 1, 2 };

	for (size_t i = 0; i < sizeof(state) / 8; i++) {
		key.a = (key.a ^ word[i]) * UINT64_C(0x9fb21c651e98df25);
		key.a ^= key.a >> 29;
		key.b = (key.b + word[i]) * UINT64_C(0xd6e8feb86659fd93);
		key.b ^= key.b >> 31;
	}
	key.a |= 1; /* never 0, which marks a free slot */
	return key;
}

/* States that are done with, and how many complete schedules lead on from each. */
static struct {
	struct slot {
		struct key key;
		double schedules;
	} * slots;
	size_t size, used;
} known;

static struct slot *find_slot(struct key key)
{
	size_t i = key.b & (known.size - 1);

	while (known.slots[i].key.a && memcmp(&known.slots[i].key, &key, sizeof(key)) != 0)
		i = (i + 1) & (known.size - 1);
	return &known.slots[i];
}

static void resize_known(size_t size)
{
	struct slot *old = known.slots;
	size_t old_size = known.size;

	known.slots = calloc(size, sizeof(*known.slots));
	if (!known.slots)
		abort();
	known.size = size;
	for (size_t i = 0; i < old_size; i++)
		if (old[i].key.a)
			*find_slot(old[i].key) = old[i];
	free(old);
}

static void remember(struct key key, double schedules)
{
	if (known.used * 4 >= known.size * 3)
		resize_known(known.size * 2);
	*find_slot(key) = (struct slot){ .key = key, .schedules = schedules };
	known.used++;
}

struct node {
	struct key key;
	struct choice choices[2 * ACTORS];
	int count, next;
	double schedules;
	/* what it takes to be here again */
	__typeof__(state) state;
	int options[ACTORS];
	jmp_buf at[ACTORS];
	char stack[ACTORS][SAVED_BYTES];
};
static struct node path[PATH_MAX_STEPS];
static int depth;

static void save(struct node *node)
{
	node->state = state;
	memcpy(node->options, options, sizeof(options));
	for (int i = 0; i < ACTORS; i++) {
		memcpy(node->at[i], routine[i].at, sizeof(jmp_buf));
		memcpy(node->stack[i], saved_end(i), SAVED_BYTES);
	}
}

static void restore(const struct node *node)
{
	state = node->state;
	memcpy(options, node->options, sizeof(options));
	for (int i = 0; i < ACTORS; i++) {
		memcpy(routine[i].at, node->at[i], sizeof(jmp_buf));
		memcpy(saved_end(i), node->stack[i], SAVED_BYTES);
	}
}

/* Back to the deepest node with an untried choice, with the state that it had. 0: none is left. */
static int backtrack(double schedules)
{
	while (depth > 0) {
		struct node *top = &path[depth - 1];

		top->schedules += schedules;
		if (++top->next < top->count) {
			restore(top);
			take(&top->choices[top->next]);
			return 1;
		}
		remember(top->key, top->schedules);
		schedules = top->schedules;
		depth--;
	}
	path[0].schedules = schedules;
	return 0;
}

/* Extends the schedule until it ends or meets a known state. Schedules that lead on from there. */
static double extend(void)
{
	for (;;) {
		struct node *node = &path[depth];
		struct slot *slot;

		if (complaint[0])
			return 0;
		node->key = hash_state();
		node->next = 0;
		node->schedules = 0;
		node->count = list_choices(node->choices);
		if (node->count == 0) {
			check_end();
			return 1;
		}
		slot = find_slot(node->key);
		if (slot->key.a)
			return slot->schedules;
		save(node);
		if (++depth == PATH_MAX_STEPS)
			abort();
		take(&node->choices[0]);
	}
}

static void print_path(void)
{
	printf("schedule:");
	for (int i = 0; i < depth; i++) {
		const struct choice *c = &path[i].choices[path[i].next];

		if (c->actor == READER)
			printf(" r%d", c->decision);
		else
			printf(" %s%d", c->kill ? "kill" : "w", c->actor);
	}
	printf("\n");
}

/* All schedules of a configuration: their number, or -1 with a complaint. */
static double search(const struct config *c)
{
	config = c;
	free(known.slots);
	memset(&known, 0, sizeof(known));
	resize_known(1 << 16);
	depth = 0;
	reset();
	do {
		double schedules = extend();

		if (complaint[0])
			return -1;
		if (!backtrack(schedules))
			return path[0].schedules;
	} while (!complaint[0]);
	return -1;
}

static int search_all(void)
{
	static const struct config configs[] = {
		{ .samples = { 1, 1 }, .polls = 4, .deaths = 2 },
		{ .samples = { 1, 2 }, .polls = 4, .deaths = 1 },
		{ .samples = { 1, 3 }, .polls = 3, .deaths = 1 },
		{ .samples = { 2, 2 }, .polls = 3, .deaths = 1 },
		{ .samples = { 1, 1, 1 }, .polls = 3, .deaths = 1 },
	};

	for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
		const struct config *c = &configs[i];
		double schedules = search(c);

		if (schedules < 0) {
			printf("FAILED: %s\n", complaint);
			print_path();
			return 0;
		}
		printf("samples %d+%d+%d, %d polls, up to %d deaths: %zu states, %.4g schedules\n",
		       c->samples[0], c->samples[1], c->samples[2], c->polls, c->deaths, known.used,
		       schedules);
	}
	return 1;
}

/* The order at each line that asked for one is needed: without it some schedule goes wrong. */
static int weaken_all(void)
{
	static const struct config small = { .samples = { 1, 2 }, .polls = 3 };
	int good = 1;

	for (int line = 1; line < LINES_MAX; line++) {
		if (strong_lines[line] != 1)
			continue; /* tail's order keeps old values away, and here are none */
		weak_line = line;
		if (search(&small) >= 0) {
			printf("FAILED: nothing goes wrong with a relaxed order at ring.c:%d\n",
			       line);
			good = 0;
		} else {
			printf("relaxed at ring.c:%d: %s\n", line, complaint);
		}
	}
	weak_line = 0;
	return good;
}

int main(void)
{
	create_actors();
	return search_all() && weaken_all() ? 0 : 1;
}
