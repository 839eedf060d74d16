/* kitprof report FILE.kitprof: a raw profile into any format, any time, without the target. */
#include "daemon/cmd/cmd.h"
#include "daemon/cmd/output.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define USAGE "kitprof report [options] FILE.kitprof"

static int map_file(const char *path, void **ret, size_t *ret_size, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *data;

	if (fd < 0 || fstat(fd, &st) != 0)
		return kp_fail_errno(err, "%s", path);
	if (!S_ISREG(st.st_mode))
		return kp_fail(err, KP_EBADDATA, "%s: not a regular file", path);
	if (st.st_size == 0)
		return kp_fail(err, KP_EBADDATA, "%s: empty, not a raw profile", path);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return kp_fail_errno(err, "%s: mmap", path);
	*ret = data;
	*ret_size = (size_t)st.st_size;
	return 0;
}

/* FILE.kitprof -> FILE.folded, where -o does not say otherwise. */
static void default_output(struct kp_options *o, const char *path, char *room, size_t size)
{
	static const char extension[] = ".kitprof";
	size_t len = strlen(path), tail = sizeof(extension) - 1;

	if (o->output)
		return;
	if (len > tail && strcmp(path + len - tail, extension) == 0)
		len -= tail;
	snprintf(room, size, "%.*s.folded", (int)len, path);
	o->output = room;
}

static int report(struct kp_options *o, const char *path)
{
	char output[4096];
	uint64_t kept;
	struct kp_err err;
	size_t size = 0;
	void *data = NULL;
	int r = map_file(path, &data, &size, &err);

	if (r == 0) {
		struct kp_output_source source = { .raw = data, .size = size, .name = path };

		default_output(o, path, output, sizeof(output));
		signal(SIGPIPE, SIG_IGN);
		r = kp_output_write(o, "kitprof", &source, &kept, &err);
		munmap(data, size);
	}
	if (r < 0)
		kp_cmd_say("kitprof", err.text);
	return r < 0 ? KP_EXIT_ERROR : KP_EXIT_OK;
}

/* --stats prints, the rest writes files: not both, lest something is expected that is not there. */
static int check_stats(const struct kp_options *o, struct kp_err *err)
{
	if (o->json && !o->stats)
		return kp_fail(err, KP_EUSAGE,
			       "report: --json says how --stats prints; give that too");
	if (o->stats && (o->output || o->output_count || o->render.split != KP_SPLIT_NONE))
		return kp_fail(err, KP_EUSAGE,
			       "report: --stats writes no profile; leave out -o, -f, -t and "
			       "--per-process");
	return 0;
}

int kp_cmd_report(int argc, char **argv)
{
	struct kp_options options;
	struct kp_err err;

	if (kp_options_parse(KP_COMMAND_REPORT, argc, argv, &options, &err) < 0) {
		kp_cmd_say("kitprof", err.text);
		return KP_EXIT_USAGE;
	}
	if (kp_cmd_is_help(&options, KP_COMMAND_REPORT, USAGE,
			   "Renders a raw profile, on any machine that has the binaries."))
		return KP_EXIT_OK;
	if (!options.rest[0] || options.rest[1]) {
		kp_cmd_say("kitprof", "report: give one raw profile: " USAGE);
		return KP_EXIT_USAGE;
	}
	if (check_stats(&options, &err) < 0) {
		kp_cmd_say("kitprof", err.text);
		return KP_EXIT_USAGE;
	}
	return report(&options, options.rest[0]);
}
