/* Where the raw profile's bytes go: raw_sink.h. Daemon. */
#include "daemon/session/raw_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_all(struct kp_raw_sink *sink, const uint8_t *data, size_t size, struct kp_err *err)
{
	while (size) {
		ssize_t n = write(sink->fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return kp_fail_errno(err, "%s", sink->path);
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

static int sink_write(void *ctx, const void *data, size_t size, struct kp_err *err)
{
	struct kp_raw_sink *sink = ctx;

	if (size > sizeof(sink->buffer) - sink->used) {
		int r = kp_raw_sink_flush(sink, err);

		if (r < 0)
			return r;
	}
	if (size > sizeof(sink->buffer))
		return write_all(sink, data, size, err);
	memcpy(sink->buffer + sink->used, data, size);
	sink->used += size;
	return 0;
}

int kp_raw_sink_open(struct kp_raw_sink *sink, const char *path, struct kp_err *err)
{
	sink->used = 0;
	sink->path = path ? path : "raw profile in memory";
	sink->writer = (struct kp_raw_writer){ .write = sink_write, .ctx = sink };
	sink->created = path && access(path, F_OK) != 0;
	sink->fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666)
			: memfd_create("kitprof-raw", MFD_CLOEXEC);
	return sink->fd >= 0 ? 0 : kp_fail_errno(err, "%s", sink->path);
}

static int start(struct kp_raw_sink *sink, struct kp_err *err)
{
	if (sink->started)
		return 0;
	if (ftruncate(sink->fd, 0) != 0)
		return kp_fail_errno(err, "%s", sink->path);
	sink->started = true;
	return 0;
}

int kp_raw_sink_flush(struct kp_raw_sink *sink, struct kp_err *err)
{
	int r = start(sink, err);

	if (r == 0)
		r = write_all(sink, sink->buffer, sink->used, err);
	sink->used = 0;
	return r;
}

int kp_raw_sink_map(struct kp_raw_sink *sink, void **ret, size_t *ret_size, struct kp_err *err)
{
	int r = kp_raw_sink_flush(sink, err);
	struct stat st;
	void *data;

	if (r < 0)
		return r;
	if (fstat(sink->fd, &st) != 0)
		return kp_fail_errno(err, "%s", sink->path);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, sink->fd, 0);
	if (data == MAP_FAILED)
		return kp_fail_errno(err, "%s: mmap", sink->path);
	*ret = data;
	*ret_size = (size_t)st.st_size;
	return 0;
}

void kp_raw_sink_close(struct kp_raw_sink *sink)
{
	if (sink->fd < 0)
		return;
	close(sink->fd);
	sink->fd = -1;
	if (sink->created && !sink->started)
		unlink(sink->path);
}
