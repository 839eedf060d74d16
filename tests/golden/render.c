/*
 * Renders a raw profile for the golden tests: render FORMAT IN OUT, through the same functions as
 * `kitprof report`. FORMAT "truth" gives the remarks on the file and the closing lines. Symbol
 * files of this machine are not looked at: no debug directories, and the paths in the profiles do
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

static int render(const char *format, const void *data, size_t size, const char *path,
		  struct kp_err *err)
{
	static const char *const no_dirs[] = { NULL };
	const struct kp_renderer *renderer = kp_renderer_find(format);
	bool truth = strcmp(format, "truth") == 0;
	_cleanup_(kp_fclosep) FILE *out = truth ? fopen(path, "w") : NULL;
	struct kp_collect_options options = {
		.name = "golden.kitprof",
		.debug_dirs = no_dirs,
		.remark = out ? remark : NULL,
		.ctx = out,
	};
	struct kp_profile *p;
	int r;

	if (truth && !out)
		return kp_fail_errno(err, "%s", path);
	if (!truth && !renderer)
		return kp_fail(err, KP_EUSAGE, "no format %s", format);
	r = kp_collect(data, size, &options, &p, err);
	if (r < 0)
		return r;
	if (truth)
		kp_render_truth(p, "kitprof", out);
	else
		r = kp_render_to_path(renderer, p, path, err);
	kp_profile_destroy(p);
	return r;
}

int main(int argc, char **argv)
{
	_cleanup_(kp_freep) void *data = NULL;
	struct kp_err err;
	size_t size = 0;

	if (argc != 4) {
		fprintf(stderr, "usage: render folded|flat|pprof|truth IN OUT\n");
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
