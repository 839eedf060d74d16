/* The short-lived process that stops threads: helper.h. */
#include "daemon/attach/helper.h"

#include "common/cleanup.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct reply {
	int result;
	struct kp_err err;
};

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

static ssize_t send_reply(int socket, const struct reply *reply, int fd)
{
	union control control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)reply, sizeof(*reply) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	return sendmsg(socket, &msg, MSG_NOSIGNAL);
}

static ssize_t receive_reply(int socket, struct reply *reply, int *ret_fd)
{
	union control control = { 0 };
	struct iovec iov = { reply, sizeof(*reply) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *header;
	ssize_t n;

	do
		n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	header = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (header && header->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(header), sizeof(int));
	return n;
}

__attribute__((noreturn)) static void helper(int socket, kp_helper_fn fn, void *memory)
{
	struct reply reply = { 0 };
	sigset_t all;
	int fd = -1;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	/*
	 * No page comes from a disk and no other program has its turn while a thread stands; where that
	 * is allowed. Pages that were never touched stay so: the memories of other targets are mapped
	 * here too, sparse and large.
	 */
	mlockall(MCL_CURRENT | MCL_ONFAULT);
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 });
	reply.result = fn(memory, &fd, &reply.err);
	send_reply(socket, &reply, fd);
	_exit(0);
}

int kp_helper_run(kp_helper_fn fn, void *memory, int *ret_fd, struct kp_err *err)
{
	_cleanup_(kp_closep) int ours = -1;
	_cleanup_(kp_closep) int fd = -1;
	struct reply reply = { 0 };
	int pair[2], status;
	ssize_t n;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return kp_fail_errno(err, "attach helper: socketpair");
	ours = pair[0];
	pid = fork();
	if (pid == 0)
		helper(pair[1], fn, memory);
	close(pair[1]);
	if (pid < 0)
		return kp_fail_errno(err, "attach helper: fork");
	n = receive_reply(ours, &reply, &fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n != sizeof(reply))
		return kp_fail(err, KP_ESYSTEM, "the attach helper died (status %#x)",
			       (unsigned)status);
	if (reply.result < 0 && err)
		*err = reply.err;
	if (ret_fd)
		*ret_fd = kp_take_fd(&fd);
	return reply.result;
}

void *kp_helper_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void kp_helper_memory_free(void *memory, size_t size)
{
	if (memory)
		munmap(memory, size);
}
