/* Unit tests of the unwind tables on disk, in a directory of their own. */
#include "daemon/cache/cache.h"
#include "daemon/cache/memory.h"
#include "daemon/unwind/store.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1u << 20)

static struct kp_err err;
static char base[64], dir[128];
static const uint8_t id[20] = { 0xde, 0xad, 0xbe, 0xef, 5, 6, 7, 8, 9, 10 };
static const struct kp_cache_key key = { id, sizeof(id), 62, 0 };
static const char name[] = "deadbeef05060708090a00000000000000000000-62-3.2.table";

/* The directory of the tests goes with the process that made it, each in its own. */
static void remove_base(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", base);
	if (system(command) != 0)
		perror(command);
}

static struct kp_cache *open_cache(uint64_t max_bytes)
{
	struct kp_cache *cache;

	cr_assert_eq(kp_cache_create(base, &kp_store_cache_kind, max_bytes, &cache, &err), 0);
	return cache;
}

static struct kp_cache *begin(uint64_t max_bytes)
{
	snprintf(base, sizeof(base), "/tmp/kitprof-cache.XXXXXX");
	cr_assert_not_null(mkdtemp(base));
	atexit(remove_base);
	snprintf(dir, sizeof(dir), "%s/kitprof/unwind", base);
	return open_cache(max_bytes);
}

/* Good until the call after the next. */
static const char *path_of(const char *file)
{
	static char path[2][256];
	static unsigned turn;
	char *ret = path[turn ^= 1];

	snprintf(ret, sizeof(path[0]), "%s/%s", dir, file);
	return ret;
}

/* Content that tells by itself whether it is whole. */
static void *make_table(uint32_t seed, size_t bytes)
{
	uint32_t *table = malloc(bytes);

	for (size_t i = 0; i < bytes / 4; i++)
		table[i] = seed = seed * 1664525 + 1013904223;
	return table;
}

static bool is_table(const void *data, uint64_t bytes, uint32_t seed, size_t wanted_bytes)
{
	void *wanted = make_table(seed, wanted_bytes);
	bool same = bytes == wanted_bytes && memcmp(data, wanted, wanted_bytes) == 0;

	free(wanted);
	return same;
}

static void save(struct kp_cache *cache, const struct kp_cache_key *at, uint32_t seed, size_t bytes)
{
	void *table = make_table(seed, bytes);

	cr_assert_eq(kp_cache_save(cache, at, table, bytes, &err), 0, "%s", err.text);
	free(table);
}

static bool holds(struct kp_cache *cache, const struct kp_cache_key *at, uint32_t seed,
		  size_t bytes)
{
	uint64_t got;
	void *data;
	bool right;

	if (kp_cache_load(cache, at, &data, &got) != 0)
		return false;
	right = is_table(data, got, seed, bytes);
	kp_cache_memory_destroy(data, got);
	return right;
}

static bool misses(struct kp_cache *cache, const struct kp_cache_key *at)
{
	uint64_t got;
	void *data;

	return kp_cache_load(cache, at, &data, &got) == KP_CACHE_MISS;
}

static bool exists(const char *file)
{
	return access(path_of(file), F_OK) == 0;
}

static size_t count_files(void)
{
	DIR *open = opendir(dir);
	struct dirent *entry;
	size_t n = 0;

	while ((entry = readdir(open)))
		n += entry->d_type == DT_REG;
	closedir(open);
	return n;
}

Test(cache, gives_back_what_was_saved)
{
	struct kp_cache *cache = begin(MIB);

	cr_assert(misses(cache, &key));
	save(cache, &key, 1, 4096);
	cr_assert(exists(name));
	cr_assert(holds(cache, &key, 1, 4096));
	kp_cache_destroy(cache);
	cache = open_cache(MIB);
	cr_assert(holds(cache, &key, 1, 4096));
	save(cache, &key, 2, 400);
	cr_assert(holds(cache, &key, 2, 400));
	cr_assert_eq(count_files(), 1);
	kp_cache_destroy(cache);
}

Test(cache, tells_build_ids_and_machines_apart)
{
	struct kp_cache *cache = begin(MIB);
	struct kp_cache_key longer = { (const uint8_t[KP_CACHE_ID_MAX]){ 1 }, KP_CACHE_ID_MAX, 62,
				       0 };
	struct kp_cache_key shorter = { longer.build_id, 20, 62, 0 };
	struct kp_cache_key other = key;

	other.machine = 183;
	save(cache, &key, 1, 400);
	cr_assert(misses(cache, &other));
	save(cache, &other, 2, 400);
	save(cache, &longer, 3, 400);
	cr_assert(misses(cache, &shorter));
	cr_assert(holds(cache, &key, 1, 400));
	cr_assert(holds(cache, &other, 2, 400));
	cr_assert(holds(cache, &longer, 3, 400));
	kp_cache_destroy(cache);
}

Test(cache, takes_no_build_id_that_says_too_little)
{
	struct kp_cache *cache = begin(MIB);
	uint8_t room[KP_CACHE_ID_MAX + 1] = { 0 };
	struct kp_cache_key none = { NULL, 0, 62, 0 };
	struct kp_cache_key few = { room, KP_CACHE_ID_MIN - 1, 62, 0 };
	struct kp_cache_key many = { room, KP_CACHE_ID_MAX + 1, 62, 0 };

	cr_assert(misses(cache, &none) && misses(cache, &few) && misses(cache, &many));
	cr_assert_lt(kp_cache_save(cache, &none, "1234", 4, &err), 0);
	cr_assert_lt(kp_cache_save(cache, &few, "1234", 4, &err), 0);
	cr_assert_lt(kp_cache_save(cache, &many, "1234", 4, &err), 0);
	cr_assert_lt(kp_cache_save(cache, &key, "1234", 0, &err), 0);
	cr_assert_eq(count_files(), 0);
	kp_cache_destroy(cache);
}

static void flip(const char *file, off_t at)
{
	int fd = open(path_of(file), O_RDWR);
	uint8_t byte;

	cr_assert_eq(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

Test(cache, finds_and_deletes_an_entry_with_any_byte_wrong)
{
	struct kp_cache *cache = begin(MIB);
	off_t size = 96 + 200;

	for (off_t at = 0; at < size; at++) {
		save(cache, &key, 7, 200);
		flip(name, at);
		cr_assert(misses(cache, &key), "byte %d", (int)at);
		cr_assert_not(exists(name), "byte %d", (int)at);
	}
	save(cache, &key, 7, 200);
	cr_assert(holds(cache, &key, 7, 200));
	kp_cache_destroy(cache);
}

Test(cache, finds_an_entry_cut_or_grown_to_any_length)
{
	struct kp_cache *cache = begin(MIB);
	off_t size = 96 + 200;

	for (off_t length = 0; length < size + 9; length++) {
		if (length == size)
			continue;
		save(cache, &key, 7, 200);
		cr_assert_eq(truncate(path_of(name), length), 0);
		cr_assert(misses(cache, &key), "length %d", (int)length);
		cr_assert_not(exists(name), "length %d", (int)length);
	}
	kp_cache_destroy(cache);
}

Test(cache, does_not_take_the_entry_of_another_build_id)
{
	static const uint8_t other_id[20] = { 9, 9 };
	struct kp_cache_key other = { other_id, sizeof(other_id), 62, 0 };
	struct kp_cache *cache = begin(MIB);
	const char *from = path_of("0909000000000000000000000000000000000000-62-3.2.table");

	save(cache, &other, 1, 400);
	cr_assert_eq(rename(from, path_of(name)), 0);
	cr_assert(misses(cache, &key));
	kp_cache_destroy(cache);
}

Test(cache, follows_no_links)
{
	struct kp_cache *cache = begin(MIB);
	struct stat st;

	save(cache, &key, 1, 400);
	cr_assert_eq(rename(path_of(name), path_of("aside")), 0);
	cr_assert_eq(symlink("aside", path_of(name)), 0);
	cr_assert(misses(cache, &key));
	/* A new one takes the link's place, not that of the file behind it. */
	save(cache, &key, 2, 800);
	cr_assert(holds(cache, &key, 2, 800));
	cr_assert_eq(stat(path_of("aside"), &st), 0);
	cr_assert_eq(st.st_size, 96 + 400);
	kp_cache_destroy(cache);
}

Test(cache, follows_no_link_in_place_of_its_directories)
{
	struct kp_cache *cache = begin(MIB), *again;
	char aside[160];

	snprintf(aside, sizeof(aside), "%s/aside", base);
	cr_assert_eq(rename(dir, aside), 0);
	cr_assert_eq(symlink(aside, dir), 0);
	cr_assert_lt(kp_cache_create(base, &kp_store_cache_kind, MIB, &again, &err), 0);
	kp_cache_destroy(cache);
}

Test(cache, is_for_its_owner_alone)
{
	struct kp_cache *cache = begin(MIB), *again;
	struct stat st;

	save(cache, &key, 1, 400);
	cr_assert_eq(stat(dir, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0700);
	cr_assert_eq(stat(path_of(name), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0600);
	cr_assert_eq(chmod(path_of(name), 0620), 0);
	cr_assert(misses(cache, &key));
	cr_assert_eq(chmod(path_of(name), 0600), 0);
	cr_assert(holds(cache, &key, 1, 400));
	kp_cache_destroy(cache);
	cr_assert_eq(chmod(dir, 0770), 0);
	cr_assert_lt(kp_cache_create(base, &kp_store_cache_kind, MIB, &again, &err), 0);
	cr_assert_not_null(strstr(err.text, "others may write"));
}

Test(cache, does_not_use_what_belongs_to_somebody_else)
{
	struct kp_cache *cache = begin(MIB), *again;

	save(cache, &key, 1, 400);
	/* Only root can give files away. */
	if (geteuid() == 0) {
		cr_assert_eq(chown(path_of(name), 65534, 65534), 0);
		cr_assert(misses(cache, &key));
		save(cache, &key, 2, 400);
		cr_assert(holds(cache, &key, 2, 400));
		cr_assert_eq(chown(dir, 65534, 65534), 0);
		cr_assert_lt(kp_cache_create(base, &kp_store_cache_kind, MIB, &again, &err), 0);
		cr_assert_eq(chown(dir, 0, 0), 0);
		cr_assert_eq(chown(base, 65534, 65534), 0);
		cr_assert_lt(kp_cache_create(base, &kp_store_cache_kind, MIB, &again, &err), 0);
		cr_assert_not_null(strstr(err.text, "another user"));
	}
	kp_cache_destroy(cache);
}

Test(cache, does_not_wait_for_what_is_no_file)
{
	struct kp_cache *cache = begin(MIB);

	cr_assert_eq(mkfifo(path_of(name), 0600), 0);
	cr_assert(misses(cache, &key));
	cr_assert_eq(unlink(path_of(name)), 0);
	cr_assert_eq(mkdir(path_of(name), 0700), 0);
	cr_assert(misses(cache, &key));
	kp_cache_destroy(cache);
}

#define WRITERS 4
#define ROUNDS 200

static void write_much(uint32_t writer)
{
	struct kp_cache *cache = open_cache(MIB);

	for (uint32_t i = 0; i < ROUNDS; i++)
		save(cache, &key, writer, 1000 + 4000 * writer);
	kp_cache_destroy(cache);
}

/* Whole in any case: one writer's or another's. */
static bool holds_any(struct kp_cache *cache)
{
	uint64_t bytes;
	void *data;
	bool right = false;

	if (kp_cache_load(cache, &key, &data, &bytes) != 0)
		return false;
	for (uint32_t w = 0; w < WRITERS; w++)
		right |= is_table(data, bytes, w, 1000 + 4000 * w);
	kp_cache_memory_destroy(data, bytes);
	return right;
}

Test(cache, is_whole_while_several_write)
{
	struct kp_cache *cache = begin(MIB);
	int status, running = WRITERS;

	save(cache, &key, 0, 1000);
	for (uint32_t w = 0; w < WRITERS; w++) {
		if (fork() == 0) {
			write_much(w);
			_exit(0);
		}
	}
	while (running) {
		cr_assert(holds_any(cache));
		if (waitpid(-1, &status, WNOHANG) > 0) {
			cr_assert_eq(status, 0);
			running--;
		}
	}
	cr_assert(holds_any(cache));
	cr_assert_eq(count_files(), 1);
	kp_cache_destroy(cache);
}

static struct kp_cache_key numbered(uint8_t n)
{
	static uint8_t room[256][20];

	room[n][0] = n;
	return (struct kp_cache_key){ room[n], 20, 62, 0 };
}

static void age(uint8_t n, time_t seconds)
{
	struct timespec times[2] = { { .tv_sec = seconds }, { .tv_nsec = UTIME_OMIT } };
	char file[128];

	snprintf(file, sizeof(file), "%02x%038x-62-3.2.table", n, 0);
	cr_assert_eq(utimensat(AT_FDCWD, path_of(file), times, 0), 0);
}

Test(cache, deletes_what_was_not_used_for_longest)
{
	struct kp_cache *cache = begin(64 * 1024);
	struct kp_cache_key at;

	for (uint8_t n = 0; n < 10; n++) {
		at = numbered(n);
		save(cache, &at, n, 8192);
		age(n, 1000000 + (n * 7) % 10);
	}
	at = numbered(0);
	cr_assert(holds(cache, &at, 0, 8192)); /* the oldest until now: 0, 3, 6, 9, 2, 5, 8 ... */
	kp_cache_trim(cache);
	at = numbered(0);
	cr_assert(holds(cache, &at, 0, 8192));
	for (uint8_t n = 1; n < 10; n++) {
		at = numbered(n);
		cr_assert_eq(holds(cache, &at, n, 8192), (n * 7) % 10 > 4, "%d", n);
	}
	kp_cache_trim(cache);
	cr_assert_eq(count_files(), 6);
	kp_cache_destroy(cache);
}

Test(cache, takes_no_table_that_would_crowd_out_the_others)
{
	struct kp_cache *cache = begin(64 * 1024);
	void *table = make_table(1, 40000);

	cr_assert_lt(kp_cache_save(cache, &key, table, 40000, &err), 0);
	free(table);
	kp_cache_destroy(cache);
}

static void put_file(const char *file, time_t modified)
{
	struct timespec times[2] = { { .tv_sec = modified }, { .tv_sec = modified } };
	int fd = open(path_of(file), O_WRONLY | O_CREAT, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(futimens(fd, times), 0);
	close(fd);
}

Test(cache, clears_away_what_dead_writers_left)
{
	struct kp_cache *cache = begin(MIB);

	put_file(".new-1-1", time(NULL) - 7200);
	put_file(".new-1-2", time(NULL));
	put_file("somebody's", 1000);
	kp_cache_trim(cache);
	cr_assert_not(exists(".new-1-1"));
	cr_assert(exists(".new-1-2"));
	cr_assert(exists("somebody's"));
	kp_cache_destroy(cache);
}

Test(cache, lies_where_the_environment_says)
{
	char path[64];

	setenv("XDG_CACHE_HOME", "/x", 1);
	setenv("HOME", "/h", 1);
	cr_assert_eq(kp_cache_base(path, sizeof(path), &err), 0);
	cr_assert_str_eq(path, "/x");
	setenv("XDG_CACHE_HOME", "relative", 1);
	cr_assert_eq(kp_cache_base(path, sizeof(path), &err), 0);
	cr_assert_str_eq(path, "/h/.cache");
	unsetenv("XDG_CACHE_HOME");
	cr_assert_eq(kp_cache_base(path, sizeof(path), &err), 0);
	cr_assert_str_eq(path, "/h/.cache");
	cr_assert_lt(kp_cache_base(path, 5, &err), 0);
	setenv("HOME", "", 1);
	cr_assert_lt(kp_cache_base(path, sizeof(path), &err), 0);
	unsetenv("HOME");
	cr_assert_lt(kp_cache_base(path, sizeof(path), &err), 0);
}

Test(cache, is_made_where_there_is_none_yet)
{
	struct kp_cache *cache = begin(MIB), *again;
	char below[160];

	kp_cache_destroy(cache);
	snprintf(below, sizeof(below), "%s/.cache", base);
	cr_assert_eq(kp_cache_create(below, &kp_store_cache_kind, MIB, &cache, &err), 0);
	kp_cache_destroy(cache);
	snprintf(below, sizeof(below), "%s/not/there", base);
	cr_assert_lt(kp_cache_create(below, &kp_store_cache_kind, MIB, &again, &err), 0);
}
