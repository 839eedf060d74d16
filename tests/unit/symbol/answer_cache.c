/* Answers on disk: kept for the files that they came from, and never wrong. */
#include "daemon/symbol/answer_cache.h"
#include "daemon/symbol/module.h"
#include "tests/support/test.h"
#include "tests/unit/symbol/fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char base[256];
static struct kp_arena arena;
static struct kp_err err;

static struct kp_cache *begin(void)
{
	struct kp_cache *cache;

	fixture_make_dir(base);
	cr_assert_eq(kp_cache_create(base, &kp_answer_cache_kind, 1 << 20, &cache, &err), 0);
	return cache;
}

static void end(struct kp_cache *cache)
{
	kp_cache_destroy(cache);
	kp_arena_deinit(&arena);
	fixture_remove_tree(base);
}

static const struct kp_answer_source one_source = {
	.build_id = { 1, 2, 3, 0xff }, .build_id_len = 20, .variant = 7, .machine = 62
};

/* count answers from first on, step apart; each says its own offset. */
static void save(struct kp_cache *cache, const struct kp_answer_source *source, uint64_t first,
		 uint64_t step, size_t count)
{
	static const struct kp_frame frame = { "f", "f", "/f.c", 1, 1, false };
	uint64_t *offset = calloc(count, sizeof(*offset));
	struct kp_frames *frames = calloc(count, sizeof(*frames));
	struct kp_answers fresh = { offset, frames, count, "a note" };
	struct kp_kept_answers kept;

	for (size_t i = 0; i < count; i++) {
		offset[i] = first + i * step;
		frames[i] = (struct kp_frames){ &frame, 1, offset[i] + 1 };
	}
	cr_assert_eq(kp_kept_answers_load(cache, source, &arena, &kept, &err), 0);
	cr_assert_eq(kp_kept_answers_save(cache, source, &kept, &fresh, &err), 0);
	kp_kept_answers_deinit(&kept);
	free(offset);
	free(frames);
}

/* How many of the offsets below 1000 are kept; none may be wrong. */
static unsigned count_kept(struct kp_cache *cache, const struct kp_answer_source *source)
{
	struct kp_kept_answers kept;
	struct kp_frames frames;
	unsigned n = 0;
	size_t at = 0;

	cr_assert_eq(kp_kept_answers_load(cache, source, &arena, &kept, &err), 0);
	for (uint64_t offset = 0; offset < 1000; offset++) {
		if (!kp_kept_answers_find(&kept, &at, offset, &frames))
			continue;
		cr_assert_eq(frames.address, offset + 1);
		cr_assert_eq(frames.count, 1);
		cr_assert_str_eq(frames.frame[0].name, "f");
		n++;
	}
	if (n)
		cr_assert_str_eq(kept.view.note, "a note");
	kp_kept_answers_deinit(&kept);
	return n;
}

Test(answer_cache, has_what_was_kept)
{
	struct kp_cache *cache = begin();

	cr_assert_eq(count_kept(cache, &one_source), 0);
	save(cache, &one_source, 5, 10, 50);
	cr_assert_eq(count_kept(cache, &one_source), 50);
	end(cache);
}

Test(answer_cache, puts_new_answers_to_the_old_ones)
{
	struct kp_cache *cache = begin();

	save(cache, &one_source, 5, 10, 50);
	save(cache, &one_source, 0, 10, 50);
	cr_assert_eq(count_kept(cache, &one_source), 100);
	save(cache, &one_source, 0, 5, 200); /* half of them are there */
	cr_assert_eq(count_kept(cache, &one_source), 200);
	end(cache);
}

Test(answer_cache, tells_files_apart)
{
	struct kp_answer_source other = one_source;
	struct kp_cache *cache = begin();

	other.variant++;
	save(cache, &one_source, 5, 10, 50);
	cr_assert_eq(count_kept(cache, &other), 0);
	other = one_source;
	other.build_id[19]++;
	cr_assert_eq(count_kept(cache, &other), 0);
	cr_assert_eq(count_kept(cache, &one_source), 50);
	end(cache);
}

/* The one entry. */
static void entry_path(char ret[600])
{
	char dir[300];
	struct dirent *found;
	DIR *open;

	snprintf(dir, sizeof(dir), "%s/kitprof/names", base);
	open = opendir(dir);
	cr_assert_not_null(open);
	ret[0] = '\0';
	while ((found = readdir(open)))
		if (found->d_name[0] != '.')
			snprintf(ret, 600, "%s/%s", dir, found->d_name);
	closedir(open);
}

Test(answer_cache, does_not_take_what_is_damaged)
{
	struct kp_cache *cache = begin();
	char path[600];
	struct stat st;

	save(cache, &one_source, 5, 10, 3);
	entry_path(path);
	cr_assert_eq(stat(path, &st), 0);
	for (off_t at = 0; at < st.st_size; at++) {
		uint8_t byte;
		int fd = open(path, O_RDWR);

		cr_assert_geq(fd, 0);
		cr_assert_eq(pread(fd, &byte, 1, at), 1);
		byte ^= 0x10;
		cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
		close(fd);
		cr_assert_eq(count_kept(cache, &one_source), 0);
		save(cache, &one_source, 5, 10, 3);
	}
	for (off_t size = 0; size < st.st_size; size++) {
		cr_assert_eq(truncate(path, size), 0);
		cr_assert_eq(count_kept(cache, &one_source), 0);
		save(cache, &one_source, 5, 10, 3);
	}
	end(cache);
}

Test(answer_cache, takes_several_writers_at_once)
{
	struct kp_cache *cache = begin();
	unsigned kept;

	for (unsigned i = 0; i < 4; i++) {
		if (fork() != 0)
			continue;
		for (unsigned n = 0; n < 50; n++) {
			save(cache, &one_source, i, 10, 50);
			count_kept(cache, &one_source);
			if (n % 10 == 0)
				kp_cache_trim(cache);
		}
		_exit(0);
	}
	for (unsigned i = 0; i < 4; i++) {
		int status;

		cr_assert_gt(wait(&status), 0);
		cr_assert_eq(status, 0);
	}
	kept = count_kept(cache, &one_source);
	cr_assert_geq(kept, 50);
	cr_assert_eq(kept % 50, 0);
	end(cache);
}

Test(answer_cache, knows_a_source_by_its_text)
{
	static const char *const bad[] = {
		"",
		" ",
		"00",
		"0102030405060708",
		"0102030405060708 62",
		"0102030405060708 62 0",
		"0102030405060708 62 00000000",
		"0102030405060708 62 00000001x",
		"0102030405060708 65536 00000001",
		"0102 62 00000001",
		"010203040506070 62 00000001",
		"01020304050607zz 62 00000001",
	};
	char text[KP_ANSWER_SOURCE_TEXT], more[400];
	struct kp_answer_source got;

	kp_answer_source_write(&one_source, text);
	cr_assert(kp_answer_source_read(text, &got));
	cr_assert_arr_eq(&got, &one_source, sizeof(got));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_not(kp_answer_source_read(bad[i], &got), "%s", bad[i]);
	memset(more, 'a', 300);
	snprintf(more + 300, 100, " 62 00000001");
	cr_assert_not(kp_answer_source_read(more, &got));
}

/* ---- with real files ---- */

static struct kp_frames resolve(struct kp_cache *cache, const char *path, uint64_t offset,
				struct kp_symbolizer **ret)
{
	static const char *const no_dirs[] = { NULL };
	struct kp_symbolizer_options options = { .debug_dirs = no_dirs, .cache = cache };
	struct kp_module_file file = { .path = path, .fd = -1 };
	struct kp_symbolizer_limits limits = { 0 };
	struct kp_symbolizer_rest rest;
	struct kp_frames frames;
	struct kp_symbolizer_request request = { .file_offset = &offset,
						 .count = 1,
						 .ret = &frames };

	cr_assert_eq(kp_symbolizer_create(&options, ret, &err), 0);
	cr_assert_eq(kp_symbolizer_module(*ret, &file, &request.module, &err), 0);
	cr_assert_eq(kp_symbolizer_resolve_all(*ret, &request, 1, &limits, &rest, &err), 0);
	cr_assert_eq(rest.lost + rest.late, 0);
	return frames;
}

static void assert_name(struct kp_cache *cache, const char *path, uint64_t offset, const char *name)
{
	struct kp_symbolizer *symbolizer;
	struct kp_frames frames = resolve(cache, path, offset, &symbolizer);

	cr_assert_geq(frames.count, 1);
	cr_assert_str_eq(frames.frame[frames.count - 1].name, name);
	kp_symbolizer_destroy(symbolizer);
}

/* As a file that is installed: whatever the umask, nobody else can write to it. */
static void install(const struct fixture *f, const char *path)
{
	fixture_copy(f, path);
	cr_assert_eq(chmod(path, 0644), 0);
}

static struct kp_answer_source source_of(const char *path)
{
	static const char *const no_dirs[] = { NULL };
	struct kp_module_file file = { .path = path, .fd = -1 };
	struct kp_answer_source ret;
	struct kp_module *m;

	cr_assert_eq(kp_module_create(&file, &m, &err), 0);
	cr_assert_eq(kp_module_find(m, NULL, no_dirs, &err), 0);
	kp_module_source(m, &ret);
	kp_module_destroy(m);
	return ret;
}

Test(answer_cache, is_asked_before_the_file_is_read)
{
	struct fixture f = fixture_open("inline-dwarf5.so");
	uint64_t offset = fixture_offset(&f, fixture_value(&f, "plain_function"));
	struct kp_cache *cache = begin();
	struct kp_answer_source source;
	char path[300];

	snprintf(path, sizeof(path), "%s/module.so", base);
	install(&f, path);
	assert_name(cache, path, offset, "plain_function");
	source = source_of(path);
	cr_assert_eq(source.build_id_len, 20);
	save(cache, &source, offset, 1, 1); /* a name that the file has not got */
	assert_name(cache, path, offset, "f");
	assert_name(NULL, path, offset, "plain_function");
	end(cache);
	free(f.bytes);
}

Test(answer_cache, does_not_outlive_a_change_of_the_file)
{
	struct fixture f = fixture_open("inline-dwarf5.so");
	uint64_t offset = fixture_offset(&f, fixture_value(&f, "plain_function"));
	struct kp_cache *cache = begin();
	struct kp_answer_source source, after;
	char path[300];

	snprintf(path, sizeof(path), "%s/module.so", base);
	install(&f, path);
	source = source_of(path);
	save(cache, &source, offset, 1, 1);
	cr_assert_eq(unlink(path), 0);
	install(&f, path); /* the same build id, another file */
	cr_assert_eq(utimensat(AT_FDCWD, path, (struct timespec[2]){ { 1, 0 }, { 1, 0 } }, 0), 0);
	after = source_of(path);
	cr_assert_neq(source.variant, after.variant);
	assert_name(cache, path, offset, "plain_function");
	end(cache);
	free(f.bytes);
}

Test(answer_cache, keeps_nothing_of_files_that_anybody_may_write)
{
	struct fixture f = fixture_open("inline-dwarf5.so");
	uint64_t offset = fixture_offset(&f, fixture_value(&f, "plain_function"));
	struct kp_cache *cache = begin();
	char path[300], entry[600];

	snprintf(path, sizeof(path), "%s/module.so", base);
	fixture_copy(&f, path);
	cr_assert_eq(chmod(path, 0666), 0);
	assert_name(cache, path, offset, "plain_function");
	entry_path(entry);
	cr_assert_str_eq(entry, "");
	cr_assert_eq(chmod(path, 0644), 0);
	assert_name(cache, path, offset, "plain_function");
	entry_path(entry);
	cr_assert_neq(entry[0], '\0');
	end(cache);
	free(f.bytes);
}

Test(answer_cache, keeps_nothing_of_split_units)
{
	struct fixture f = fixture_open("inline-split-kept.so");

	cr_assert_eq(source_of(f.path).build_id_len, 0);
	free(f.bytes);
}
