/*
 * The table of formats, and rendering to a file. Runs in the daemon, in one thread.
 */
#include "daemon/render/render.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

const struct kp_renderer *const kp_renderers[] = {
	&kp_render_folded,
	&kp_render_flat,
	&kp_render_pprof,
	NULL,
};

const struct kp_renderer *kp_renderer_find(const char *name)
{
	for (size_t i = 0; kp_renderers[i]; i++) {
		if (strcmp(kp_renderers[i]->name, name) == 0)
			return kp_renderers[i];
	}
	return NULL;
}

/* What is rendered, and how. */
struct job {
	const struct kp_renderer *renderer;
	const struct kp_profile *p;
	const struct kp_render_options *options;
};

/* Renders and sees to it that all of it left stdio: a full disk shows at the flush. */
static int render(const struct job *job, FILE *out, const char *path, struct kp_err *err)
{
	int result;

	errno = 0;
	result = job->renderer->render(job->p, job->options, out, err);
	if (result < 0 && !ferror(out))
		return result;
	if (fflush(out) != 0 || ferror(out))
		return kp_fail_errno(err, "cannot write %s", path);
	return result;
}

/*
 * Into something that is there and is no regular file: a pipe, a terminal, /dev/null. A reader
 * that went away is an error like others, not a signal that ends kitprof.
 */
static int render_to_stream(const struct job *job, FILE *out, const char *path, struct kp_err *err)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	int result;

	sigaction(SIGPIPE, &ignore, &before);
	result = render(job, out, path, err);
	sigaction(SIGPIPE, &before, NULL);
	return result;
}

static int render_to_device(const struct job *job, const char *path, struct kp_err *err)
{
	_cleanup_(kp_fclosep) FILE *out = fopen(path, "we");

	if (!out)
		return kp_fail_errno(err, "cannot open %s", path);
	return render_to_stream(job, out, path, err);
}

/* A new file beside path with the permissions that open(2) would give; its name replaces the Xs. */
static FILE *open_beside(char *name)
{
	_cleanup_(kp_closep) int fd = mkostemp(name, O_CLOEXEC);
	mode_t mask = umask(0);
	FILE *out;

	umask(mask);
	if (fd < 0)
		return NULL;
	out = fchmod(fd, 0666 & ~mask) == 0 ? fdopen(fd, "w") : NULL;
	if (out)
		kp_take_fd(&fd);
	else
		unlink(name);
	return out;
}

static int replace_file(const struct job *job, const char *path, struct kp_err *err)
{
	_cleanup_(kp_freep) char *name = NULL;
	FILE *out;
	int result;

	if (asprintf(&name, "%s.XXXXXX", path) < 0) {
		name = NULL;
		return kp_fail_nomem(err);
	}
	out = open_beside(name);
	if (!out)
		return kp_fail_errno(err, "cannot create a file beside %s", path);
	result = render(job, out, path, err);
	if (fclose(out) != 0 && result == 0)
		result = kp_fail_errno(err, "cannot write %s", path);
	if (result == 0 && rename(name, path) < 0)
		result = kp_fail_errno(err, "cannot rename %s to %s", name, path);
	if (result < 0)
		unlink(name);
	return result;
}

int kp_render_to_path(const struct kp_renderer *r, const struct kp_profile *p,
		      const struct kp_render_options *options, const char *path, struct kp_err *err)
{
	struct job job = { r, p, options };
	_cleanup_(kp_freep) char *target = NULL;
	struct stat st;

	if (strcmp(path, "-") == 0)
		return render_to_stream(&job, stdout, "to stdout", err);
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return render_to_device(&job, path, err);
	/* Through a symbolic link: its target is replaced, not the link. */
	target = realpath(path, NULL);
	return replace_file(&job, target ? target : path, err);
}
