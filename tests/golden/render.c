/*
 * Renders a raw profile for the golden tests: render FORMAT IN OUT, through the same functions as
 * `kitprof report`. FORMAT "truth" gives the remarks on the file and the closing lines; "stats" and
 * "json" what `report --stats` prints; "folded-threads" is `-f folded -t`, "folded-processes" with
 * --per-process, and so on with other formats. Symbol files of this machine are not looked at: no
 * debug directories, and the paths in the profiles do
 * not exist.
 */
#include "common/cleanup.h"
#include "daemon/profile/collect.h"
#include "daemon/render/render.h"

#include <string.h>
#include <sys/stat.h>

static void remark(void *ctx, const char *line)
{
	fprintf(ctx, "%s\n", line);
}

/* The whole file, malloc'd and therefore aligned well enough. */
static void *read_file(const char *path, size_t *ret_size)
{
	_cleanup_(kp_fclosep) FILE *file = fopen(path, "r");
	struct stat st;
	char *data;

	if (!file || fstat(fileno(file), &st) < 0)
		return NULL;
	data = malloc((size_t)st.st_size + 1);
	if (!data || fread(data, 1, (size_t)st.st_size, file) != (size_t)st.st_size) {
		free(data);
		return NULL;
	}
	*ret_size = (size_t)st.st_size;
	return data;
}

/* What to do, from a word like "folded-threads". */
struct job {
	const struct kp_renderer *renderer; /* NULL: the closing lines */
	struct kp_render_options options;
};

static bool ends_with(const char *format, const char *end, size_t *len)
{
	size_t bytes = strlen(end);

	if (*len < bytes || memcmp(format + *len - bytes, end, bytes) != 0)
		return false;
	*len -= bytes;
	return true;
}

static int parse(const char *format, struct job *ret, struct kp_err *err)
{
	size_t len = strlen(format);
	char name[32];

	*ret = (struct job){ 0 };
	if (strcmp(format, "truth") == 0)
		return 0;
	if (ends_with(format, "-threads", &len))
		ret->options.split = KP_SPLIT_THREAD;
	else if (ends_with(format, "-processes", &len))
		ret->options.split = KP_SPLIT_PROCESS;
	snprintf(name, sizeof(name), "%.*s", (int)len, format);
	if (strcmp(name, "stats") == 0)
		ret->renderer = &kp_render_stats;
	else if (strcmp(name, "json") == 0)
		ret->renderer = &kp_render_stats_json;
	else
		ret->renderer = kp_renderer_find(name);
	return ret->renderer ? 0 : kp_fail(err, KP_EUSAGE, "no format %s", format);
}

static int render(const char *format, const void *data, size_t size, const char *path,
		  struct kp_err *err)
{
	static const char *const no_dirs[] = { NULL };
	_cleanup_(kp_fclosep) FILE *out = NULL;
	struct kp_collect_options options = { .name = "golden.kitprof", .debug_dirs = no_dirs };
	struct kp_profile *p;
	struct job job;
	int r = parse(format, &job, err);

	if (r < 0)
		return r;
	if (!job.renderer) {
		out = fopen(path, "w");
		if (!out)
			return kp_fail_errno(err, "%s", path);
		options.remark = remark;
		options.ctx = out;
	}
	r = kp_collect(data, size, &options, &p, err);
	if (r < 0)
		return r;
	if (job.renderer)
		r = kp_render_to_path(job.renderer, p, &job.options, path, err);
	else
		kp_render_truth(p, "kitprof", out);
	kp_profile_destroy(p);
	return r;
}

int main(int argc, char **argv)
{
	_cleanup_(kp_freep) void *data = NULL;
	struct kp_err err;
	size_t size = 0;

	if (argc != 4) {
		fprintf(stderr, "usage: render FORMAT IN OUT\n");
		return 2;
	}
	data = read_file(argv[2], &size);
	if (!data) {
		perror(argv[2]);
		return 1;
	}
	if (render(argv[1], data, size, argv[3], &err) < 0) {
		fprintf(stderr, "render: %s\n", err.text);
		return 1;
	}
	return 0;
}
