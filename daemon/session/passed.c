/* Processes that nobody has seen: passed.h. Daemon, session loop. */
#include "daemon/session/passed.h"

#include <stdio.h>
#include <stdlib.h>

void kp_passed_deinit(struct kp_passed *passed)
{
	free(passed->process);
	*passed = (struct kp_passed){ 0 };
}

static struct kp_passed_process *find(const struct kp_passed *passed, pid_t pid)
{
	for (size_t i = 0; i < passed->count; i++)
		if (passed->process[i].pid == pid)
			return &passed->process[i];
	return NULL;
}

static int reserve(struct kp_passed *passed, struct kp_err *err)
{
	size_t room = passed->room ? passed->room * 2 : 16;
	struct kp_passed_process *grown;

	if (passed->count < passed->room)
		return 0;
	grown = reallocarray(passed->process, room, sizeof(*grown));
	if (!grown)
		return kp_fail_nomem(err);
	passed->process = grown;
	passed->room = room;
	return 0;
}

int kp_passed_add(struct kp_passed *passed, pid_t pid, const char *comm, struct kp_err *err)
{
	struct kp_passed_process *process = find(passed, pid);

	if (!process) {
		int r = reserve(passed, err);

		if (r < 0)
			return r;
		process = &passed->process[passed->count++];
	}
	*process = (struct kp_passed_process){ .pid = pid };
	snprintf(process->comm, sizeof(process->comm), "%s", comm);
	return 0;
}

int kp_name_process(struct kp_raw_writer *writer, pid_t pid, pid_t parent, const char *comm,
		    struct kp_err *err)
{
	struct kp_raw_process process = { .pid = (uint32_t)pid,
					  .parent = (uint32_t)parent,
					  .comm = kp_raw_string(comm) };
	struct kp_raw_thread thread = { .pid = (uint32_t)pid,
					.tid = (uint32_t)pid,
					.comm = kp_raw_string(comm) };
	int r = kp_raw_put_process(writer, &process, err);

	return r < 0 ? r : kp_raw_put_thread(writer, &thread, err);
}

static int put_thread(const struct kp_tally_book *book, struct kp_passed_process *process,
		      const struct kp_task_event *ran, struct kp_err *err)
{
	struct kp_raw_thread thread = { .pid = (uint32_t)ran->pid,
					.tid = (uint32_t)ran->tid,
					.comm = kp_raw_string(process->comm) };
	int r = 0;

	if (!process->named)
		r = kp_name_process(book->writer, process->pid, 0, process->comm, err);
	process->named = true;
	if (r == 0 && ran->tid != ran->pid)
		r = kp_raw_put_thread(book->writer, &thread, err);
	return r < 0 ? r : kp_tally_put_stranger(book, ran->pid, ran->tid, ran->ran_ns, err);
}

int kp_passed_event(struct kp_passed *passed, const struct kp_tally_book *book,
		    const struct kp_task_event *event, uint64_t *ret_cpu_ns, struct kp_err *err)
{
	struct kp_passed_process *process = find(passed, event->pid);
	int r;

	*ret_cpu_ns = 0;
	if (!process)
		return 0;
	if (event->type == KP_TASK_EXEC)
		snprintf(process->comm, sizeof(process->comm), "%s", event->comm);
	if (event->type != KP_TASK_RAN)
		return 0;
	*ret_cpu_ns = event->ran_ns;
	r = put_thread(book, process, event, err);
	if (event->tid == event->pid)
		*process = passed->process[--passed->count];
	return r;
}
