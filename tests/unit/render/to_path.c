/*
 * Unit tests of rendering to a path: a reader sees the old file or the new one, and failures are
 * told.
 */
#include "common/cleanup.h"
#include "daemon/render/render.h"
#include "tests/support/test.h"
#include "tests/unit/render/maker.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct maker m;
static struct kp_err err;
static char dir[64];
static const struct kp_render_options usual = { 0 };

static void begin(void)
{
	strcpy(dir, "/tmp/kitprof-test-XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(chdir(dir), 0);
	maker_init(&m);
	maker_add(&m, "app", 3, 3, STACK("main"));
}

/* Removes the directory, which has exactly n files. */
static void finish(int n)
{
	_cleanup_(kp_closedirp) DIR *d = opendir(dir);
	struct dirent *entry;

	cr_assert_not_null(d);
	while ((entry = readdir(d))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		cr_assert_eq(unlink(entry->d_name), 0);
		n--;
	}
	cr_assert_eq(rmdir(dir), 0);
	cr_assert_eq(n, 0);
	maker_deinit(&m);
}

static const char *content(const char *path)
{
	static char text[256];
	_cleanup_(kp_closep) int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = 0;
	return text;
}

static void put(const char *path, const char *text)
{
	_cleanup_(kp_fclosep) FILE *file = fopen(path, "w");

	fputs(text, file);
}

static int fail(const struct kp_profile *p, const struct kp_render_options *options, FILE *out,
		struct kp_err *e)
{
	(void)p;
	(void)options;
	fputs("half of it", out);
	return kp_fail(e, KP_EBADDATA, "on purpose");
}
static const struct kp_renderer failing = { .name = "failing", .render = fail };

Test(to_path, writes_a_file_with_usual_permissions)
{
	struct stat st;

	begin();
	umask(027);
	cr_assert_eq(kp_render_to_path(&kp_render_folded, m.p, &usual, "out.folded", &err), 0);
	cr_assert_str_eq(content("out.folded"), "app;main 3\n");
	cr_assert_eq(stat("out.folded", &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0640);
	finish(1);
}

Test(to_path, replaces_an_old_file_by_another_one)
{
	_cleanup_(kp_closep) int old = -1;
	char text[16] = "";

	begin();
	put("out", "old");
	old = open("out", O_RDONLY);
	cr_assert_eq(kp_render_to_path(&kp_render_folded, m.p, &usual, "out", &err), 0);
	cr_assert_str_eq(content("out"), "app;main 3\n");
	cr_assert_eq(read(old, text, sizeof(text)), 3); /* who has it open keeps the old one */
	finish(1);
}

Test(to_path, leaves_the_old_file_alone_when_it_fails)
{
	begin();
	put("out", "old");
	cr_assert_eq(kp_render_to_path(&failing, m.p, &usual, "out", &err), -KP_EBADDATA);
	cr_assert_str_eq(err.text, "on purpose");
	cr_assert_str_eq(content("out"), "old");
	finish(1);
}

Test(to_path, names_the_path_that_cannot_be_written)
{
	begin();
	cr_assert_eq(kp_render_to_path(&kp_render_folded, m.p, &usual, "no/such/dir/out", &err),
		     -KP_ESYSTEM);
	cr_assert_not_null(strstr(err.text, "no/such/dir/out"));
	cr_assert_not_null(strstr(err.text, "No such file"));
	finish(0);
}

Test(to_path, keeps_a_symbolic_link)
{
	struct stat st;

	begin();
	put("real", "old");
	cr_assert_eq(symlink("real", "link"), 0);
	cr_assert_eq(kp_render_to_path(&kp_render_folded, m.p, &usual, "link", &err), 0);
	cr_assert_eq(lstat("link", &st), 0);
	cr_assert(S_ISLNK(st.st_mode));
	cr_assert_str_eq(content("real"), "app;main 3\n");
	finish(2);
}

Test(to_path, writes_into_devices_and_does_not_replace_them)
{
	struct stat st;

	begin();
	cr_assert_eq(kp_render_to_path(&kp_render_folded, m.p, &usual, "/dev/null", &err), 0);
	cr_assert_eq(stat("/dev/null", &st), 0);
	cr_assert(S_ISCHR(st.st_mode));
	finish(0);
}

Test(to_path, tells_of_a_full_disk)
{
	begin();
	for (int i = 0; kp_renderers[i]; i++) {
		cr_assert_eq(kp_render_to_path(kp_renderers[i], m.p, &usual, "/dev/full", &err),
			     -KP_ESYSTEM);
		cr_assert_not_null(strstr(err.text, "No space left"));
	}
	finish(0);
}

/* The pipe's reader is gone: an error, and this process lives to see it. */
Test(to_path, tells_of_a_reader_that_went_away)
{
	int ends[2], before = dup(STDOUT_FILENO);

	begin();
	cr_assert_eq(pipe(ends), 0);
	close(ends[0]);
	fflush(stdout);
	dup2(ends[1], STDOUT_FILENO);
	cr_assert_eq(kp_render_to_path(&kp_render_folded, m.p, &usual, "-", &err), -KP_ESYSTEM);
	cr_assert_not_null(strstr(err.text, "stdout: Broken pipe"));
	dup2(before, STDOUT_FILENO);
	close(before);
	close(ends[1]);
	clearerr(stdout);
	finish(0);
}

Test(to_path, finds_formats_by_name)
{
	cr_assert_eq(kp_renderer_find("folded"), &kp_render_folded);
	cr_assert_eq(kp_renderer_find("flat"), &kp_render_flat);
	cr_assert_eq(kp_renderer_find("pprof"), &kp_render_pprof);
	cr_assert_null(kp_renderer_find("fold"));
}
