/*
 * The targets of a session of all: crowd.h. Daemon, session loop.
 *
 * A look judges what /proc lists (linux/census.h); what is wanted and new is attached to like a
 * child that was heard of. A process that refuses stays in the family without an agent: its CPU time
 * is the kernel's sum's, so that it is missing visibly, and it is tried again when it has changed in
 * what it may have been refused for.
 */
#include "daemon/session/crowd.h"

#include "daemon/session/follow.h"
#include "daemon/session/process.h"

#include "common/cleanup.h"
#include "daemon/linux/descriptor.h"
#include "daemon/linux/monotonic.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define LOOK_NS (1000 * MS)
#define LOOK_MAX_NS (10000 * MS)
#define LOOK_PART 100 /* of the time at most goes into looking */
#define ATTACH_NS (8 * MS) /* of a turn */
#define REASONS 3 /* in the note */
#define REASON_BYTES 180

struct kp_crowd {
	struct kp_census census;
	bool once;
	pid_t *found; /* by the last look */
	size_t found_count, tried;
	uint64_t look_ns; /* when to look again; UINT64_MAX: not any more */
	bool settled;
	uint32_t kinds[KP_CENSUS_KINDS]; /* as of the last look, of what is not in the family */
	uint32_t busy; /* in uninterruptible sleep: nothing can be stopped there */
	uint32_t no_room; /* for want of descriptors */
	uint32_t reasons;
	char reason[REASONS][REASON_BYTES];
	char note[768];
};

int kp_crowd_create(const struct kp_census *census, bool once, struct kp_crowd **ret,
		    struct kp_err *err)
{
	struct kp_crowd *crowd = calloc(1, sizeof(*crowd));

	if (!crowd)
		return kp_fail_nomem(err);
	crowd->census = *census;
	crowd->once = once;
	*ret = crowd;
	return 0;
}

void kp_crowd_destroy(struct kp_crowd *crowd)
{
	if (!crowd)
		return;
	free(crowd->found);
	free(crowd);
}

bool kp_crowd_is_settled(const struct kp_crowd *crowd)
{
	return crowd->settled;
}

bool kp_crowd_is_busy(const struct kp_crowd *crowd)
{
	return crowd->tried < crowd->found_count;
}

bool kp_crowd_wants(const struct kp_crowd *crowd, pid_t pid, const struct kp_proc_status *status)
{
	return kp_census_is_still_wanted(&crowd->census, pid, status);
}

/* The first sentence: what to do about it is said with the whole text. */
void kp_crowd_hear_refusal(struct kp_crowd *crowd, const struct kp_err *why)
{
	const char *end = strstr(why->text, ". ");
	size_t len = end ? (size_t)(end - why->text) : strlen(why->text);

	if (crowd->reasons < REASONS)
		snprintf(crowd->reason[crowd->reasons++], REASON_BYTES, "%.*s", (int)len,
			 why->text);
}

/* ---- looks ---- */

static void look(struct kp_crowd *crowd)
{
	uint64_t begun = kp_now_ns(), wait;

	free(kp_take(crowd->found));
	crowd->found_count = crowd->tried = 0;
	kp_census_list(&crowd->found, &crowd->found_count, NULL);
	memset(crowd->kinds, 0, sizeof(crowd->kinds));
	crowd->busy = crowd->no_room = 0;
	wait = (kp_now_ns() - begun) * LOOK_PART;
	wait = wait < LOOK_NS ? LOOK_NS : wait < LOOK_MAX_NS ? wait : LOOK_MAX_NS;
	crowd->look_ns = crowd->once ? UINT64_MAX : kp_now_ns() + wait;
}

/* A refusal holds as long as these do. */
static struct kp_process_face face_of(pid_t pid, const struct kp_proc_status *status)
{
	struct kp_process_face face = { .traced = status->tracer != 0,
					.sig_caught = status->sig_caught };
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (stat(path, &st) == 0) {
		face.exe_dev = st.st_dev;
		face.exe_inode = st.st_ino;
	}
	return face;
}

static bool is_same_face(const struct kp_process_face *a, const struct kp_process_face *b)
{
	return a->traced == b->traced && a->sig_caught == b->sig_caught &&
	       a->exe_dev == b->exe_dev && a->exe_inode == b->exe_inode;
}

static void reconsider(struct kp_family *family, struct kp_process *process)
{
	struct kp_proc_status status;
	struct kp_process_face face;

	if (!process->refused || process->attachment.live || process->try_again_ns ||
	    kp_proc_status(process->pid, process->pid, &status, NULL) < 0)
		return;
	face = face_of(process->pid, &status);
	if (is_same_face(&face, &process->face))
		return;
	process->face = face;
	process->tries = 0;
	kp_follow_image(family, process);
}

/* Nothing can be stopped in uninterruptible sleep, and waiting for it would hold all others up. */
static bool cannot_be_stopped(const struct kp_proc_status *status)
{
	return status->state == 'D' && status->threads == 1;
}

/* The memory of a target is one descriptor; its clocks and watches see to themselves. */
static bool has_room(void)
{
	_cleanup_(kp_closep) int fd =
		kp_descriptor_take(open("/dev/null", O_RDONLY | O_CLOEXEC), KP_DESCRIPTOR_CLOCK);

	return fd >= 0;
}

static void meet(struct kp_family *family, pid_t pid)
{
	struct kp_crowd *crowd = family->crowd;
	struct kp_process *process = kp_family_find(family, pid);
	struct kp_proc_status status;
	enum kp_census_kind kind;

	if (process) {
		reconsider(family, process);
		return;
	}
	kind = kp_census_judge(&crowd->census, pid, &status);
	crowd->kinds[kind]++;
	if (kind != KP_CENSUS_WANTED)
		return;
	if (cannot_be_stopped(&status)) {
		crowd->busy++;
		return;
	}
	if (!has_room()) {
		crowd->no_room++;
		return;
	}
	kp_follow_stranger(family, pid, &status);
	process = kp_family_find(family, pid);
	if (process && process->refused)
		process->face = face_of(pid, &status);
}

void kp_crowd_turn(struct kp_family *family)
{
	struct kp_crowd *crowd = family->crowd;
	uint64_t begun = kp_now_ns();

	if (!kp_crowd_is_busy(crowd) && begun >= crowd->look_ns)
		look(crowd);
	while (kp_crowd_is_busy(crowd) && kp_now_ns() - begun < ATTACH_NS)
		meet(family, crowd->found[crowd->tried++]);
	crowd->settled |= !kp_crowd_is_busy(crowd);
}

/* ---- what became of it ---- */

struct note {
	char *text;
	size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct note *note, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(note->text + note->used, note->size - note->used, fmt, args);
	va_end(args);
	if (n > 0)
		note->used += (size_t)n < note->size - note->used ? (size_t)n
								  : note->size - note->used - 1;
}

static void add_kind(struct note *note, uint32_t n, const char *one, const char *many)
{
	if (n)
		add(note, "%s%u %s", note->used && note->text[note->used - 1] != '(' ? "; " : "", n,
		    n == 1 ? one : many);
}

static void add_refusals(struct note *note, const struct kp_crowd *crowd, uint32_t refused)
{
	add_kind(note, refused, "refuses", "refuse");
	for (uint32_t i = 0; i < crowd->reasons; i++)
		add(note, "%s%s", i ? ", " : ": ", crowd->reason[i]);
	if (refused > crowd->reasons && crowd->reasons)
		add(note, ", ...");
}

static uint32_t refused_now(const struct kp_family *family)
{
	uint32_t n = family->crowd->kinds[KP_CENSUS_HIDDEN];

	for (size_t i = 0; i < family->count; i++)
		n += family->process[i]->refused && !family->process[i]->attachment.live;
	return n;
}

const char *kp_crowd_note(struct kp_family *family)
{
	struct kp_crowd *crowd = family->crowd;
	struct note note = { crowd->note, sizeof(crowd->note), 0 };
	const uint32_t *kinds = crowd->kinds;
	uint32_t refused = refused_now(family);
	size_t sampled = kp_family_live(family);
	uint32_t left = refused + crowd->busy + crowd->no_room + kinds[KP_CENSUS_KITPROF] +
			kinds[KP_CENSUS_ELSEWHERE] + kinds[KP_CENSUS_KERNEL];

	add(&note, "%zu process%s sampled, %u left out", sampled, sampled == 1 ? "" : "es", left);
	if (!left)
		return crowd->note;
	add(&note, " (");
	add_refusals(&note, crowd, refused);
	add_kind(&note, crowd->busy, "cannot be stopped now", "cannot be stopped now");
	add_kind(&note, crowd->no_room, "for want of descriptors (ulimit -n)",
		 "for want of descriptors (ulimit -n)");
	add_kind(&note, kinds[KP_CENSUS_KITPROF], "is kitprof", "are kitprof");
	add_kind(&note, kinds[KP_CENSUS_ELSEWHERE], "in another PID namespace",
		 "in other PID namespaces");
	add_kind(&note, kinds[KP_CENSUS_KERNEL], "kernel thread", "kernel threads");
	add(&note, ")");
	return crowd->note;
}

/* ---- the end ---- */

/*
 * A child that was forked in the last moment, whose parent ended then, is nobody's child any more.
 * It has the mapping and the handler and no clock.
 */
void kp_crowd_sweep(const struct kp_family *family)
{
	_cleanup_(kp_freep) pid_t *pids = NULL;
	size_t count = 0;

	kp_census_list(&pids, &count, NULL);
	for (size_t i = 0; i < count; i++) {
		struct kp_proc_status status;
		struct kp_target target;

		if (kp_census_judge(&family->crowd->census, pids[i], &status) != KP_CENSUS_WANTED)
			continue;
		kp_target_check(pids[i], 0, &target, NULL);
		if (target.leftover_base && target.leftover_is_ours)
			kp_remove(pids[i], NULL, target.leftover_base, target.leftover_end, 0, NULL,
				  NULL);
	}
}
