/* What was made of files, on disk: cache.h. Daemon, and its workers. */
#include "daemon/cache/cache.h"

#include "common/cleanup.h"
#include "daemon/cache/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define NEW_PREFIX ".new-"
#define ENTRIES_MAX 16384u /* looked at in one trim */
#define HOUR 3600
#define NAME_ROOM (2 * KP_CACHE_ID_MAX + 64)

static const char magic[8] = "KPCACHE";

/* In front of the data. crc: CRC-32 (zlib's) of the head with crc 0, then the data. */
struct head {
	char magic[8];
	uint32_t version;
	uint32_t crc;
	uint64_t bytes; /* of the data */
	uint16_t machine;
	uint16_t build_id_len;
	uint32_t variant;
	uint8_t build_id[KP_CACHE_ID_MAX];
};
_Static_assert(sizeof(struct head) == 96, "on disk");

struct kp_cache {
	const struct kp_cache_kind *kind;
	int fd; /* of the directory */
	uint64_t max_bytes;
	uint32_t written; /* makes names of temporary files different */
};

/* ---- the directory ---- */

int kp_cache_base(char *ret, size_t size, struct kp_err *err)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n;

	/* Relative paths are to be ignored: XDG Base Directory Specification, "Basics". */
	if (xdg && xdg[0] == '/')
		n = snprintf(ret, size, "%s", xdg);
	else if (home && home[0] == '/')
		n = snprintf(ret, size, "%s/.cache", home);
	else
		return kp_fail(err, KP_ESYSTEM, "neither XDG_CACHE_HOME nor HOME is set");
	return n < (int)size ? 0 : kp_fail(err, KP_ESYSTEM, "the path is too long");
}

/* A directory that is entered by its last name only, so that no link leads elsewhere. */
static int open_checked(int parent, const char *name, int flags, mode_t forbidden, const char *base,
			struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = -1;
	struct stat st;

	if (mkdirat(parent, name, 0700) != 0 && errno != EEXIST)
		return kp_fail_errno(err, "%s: making %s", base, name);
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	if (fd < 0 || fstat(fd, &st) != 0)
		return kp_fail_errno(err, "%s: opening %s", base, name);
	if (st.st_uid != geteuid())
		return kp_fail(err, KP_EREFUSED, "%s: %s belongs to another user", base, name);
	if (st.st_mode & forbidden)
		return kp_fail(err, KP_EREFUSED, "%s: others may write to %s", base, name);
	return kp_take_fd(&fd);
}

int kp_cache_create(const char *base, const struct kp_cache_kind *kind, uint64_t max_bytes,
		    struct kp_cache **ret, struct kp_err *err)
{
	/* ~/.cache itself may well be a link to a larger disk. */
	_cleanup_(kp_closep) int home = open_checked(AT_FDCWD, base, 0, 0, base, err);
	_cleanup_(kp_closep) int ours = -1;
	_cleanup_(kp_closep) int fd = -1;
	struct kp_cache *cache;

	if (home < 0)
		return home;
	ours = open_checked(home, "kitprof", O_NOFOLLOW, 022, base, err);
	if (ours < 0)
		return ours;
	fd = open_checked(ours, kind->directory, O_NOFOLLOW, 022, base, err);
	if (fd < 0)
		return fd;
	cache = calloc(1, sizeof(*cache));
	if (!cache)
		return kp_fail_nomem(err);
	cache->fd = kp_take_fd(&fd);
	cache->kind = kind;
	cache->max_bytes = max_bytes;
	*ret = cache;
	return 0;
}

void kp_cache_destroy(struct kp_cache *cache)
{
	if (!cache)
		return;
	close(cache->fd);
	free(cache);
}

int kp_cache_fd(const struct kp_cache *cache)
{
	return cache->fd;
}

/* ---- entries ---- */

bool kp_cache_trusts(const struct stat *st)
{
	return (st->st_uid == 0 || st->st_uid == geteuid()) && !(st->st_mode & 022);
}

static bool is_usable(const struct kp_cache_key *key)
{
	return key->build_id_len >= KP_CACHE_ID_MIN && key->build_id_len <= KP_CACHE_ID_MAX;
}

/* "<build id in hex>-<machine>[-<variant>]-<major version>.<minor version><suffix>" */
static void name_of(const struct kp_cache *cache, const struct kp_cache_key *key,
		    char ret[static NAME_ROOM])
{
	size_t at = 2 * key->build_id_len;

	for (size_t i = 0; i < key->build_id_len; i++)
		snprintf(ret + 2 * i, 3, "%02x", key->build_id[i]);
	at += (size_t)snprintf(ret + at, NAME_ROOM - at, "-%u", key->machine);
	if (key->variant)
		at += (size_t)snprintf(ret + at, NAME_ROOM - at, "-%08x", key->variant);
	snprintf(ret + at, NAME_ROOM - at, "-%u.%u%s", cache->kind->version >> 16,
		 cache->kind->version & 0xffff, cache->kind->suffix);
}

static struct head head_of(const struct kp_cache *cache, const struct kp_cache_key *key,
			   uint64_t bytes)
{
	struct head head = { .version = cache->kind->version,
			     .bytes = bytes,
			     .machine = key->machine,
			     .variant = key->variant,
			     .build_id_len = (uint16_t)key->build_id_len };

	memcpy(head.magic, magic, sizeof(magic));
	memcpy(head.build_id, key->build_id, key->build_id_len);
	return head;
}

/* head->crc must be 0. The data is less than what zlib's uInt counts. */
static uint32_t checksum(const struct head *head, const void *data, uint64_t bytes)
{
	uLong crc = crc32(0, (const Bytef *)head, sizeof(*head));

	return (uint32_t)crc32(crc, data, (uInt)bytes);
}

static bool read_all(int fd, void *data, uint64_t size, uint64_t offset)
{
	while (size) {
		ssize_t n = pread(fd, data, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data = (uint8_t *)data + n;
		size -= (uint64_t)n;
		offset += (uint64_t)n;
	}
	return true;
}

static bool write_all(int fd, const void *data, uint64_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		data = (const uint8_t *)data + n;
		size -= (uint64_t)n;
	}
	return true;
}

/* Whether the head is the one that the key asks for, and the file as long as it says. */
static bool fits(const struct kp_cache *cache, const struct head *head,
		 const struct kp_cache_key *key, off_t file_size)
{
	struct head wanted = head_of(cache, key, head->bytes);

	wanted.crc = head->crc;
	return memcmp(head, &wanted, sizeof(wanted)) == 0 && head->bytes > 0 &&
	       head->bytes <= cache->kind->entry_max &&
	       file_size == (off_t)(sizeof(*head) + head->bytes);
}

/* NULL: damaged. */
static void *read_data(int fd, const struct head *head)
{
	void *data = kp_cache_memory_create(head->bytes);
	struct head blank = *head;

	blank.crc = 0;
	if (!data)
		return NULL;
	if (read_all(fd, data, head->bytes, sizeof(*head)) &&
	    checksum(&blank, data, head->bytes) == head->crc) {
		kp_cache_memory_seal(data, head->bytes);
		return data;
	}
	kp_cache_memory_destroy(data, head->bytes);
	return NULL;
}

/* The time of the last use decides what goes first. File systems keep it loosely, if at all. */
static void touch(int fd, const struct stat *st)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } };

	if (time(NULL) - st->st_atime > HOUR)
		futimens(fd, times);
}

int kp_cache_load(struct kp_cache *cache, const struct kp_cache_key *key, void **ret,
		  uint64_t *ret_bytes)
{
	_cleanup_(kp_closep) int fd = -1;
	char name[NAME_ROOM];
	struct head head;
	struct stat st;
	void *data;

	if (!is_usable(key))
		return KP_CACHE_MISS;
	name_of(cache, key, name);
	fd = openat(cache->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    st.st_mode & 022)
		return KP_CACHE_MISS;
	data = read_all(fd, &head, sizeof(head), 0) && fits(cache, &head, key, st.st_size)
		       ? read_data(fd, &head)
		       : NULL;
	if (!data) {
		unlinkat(cache->fd, name, 0);
		return KP_CACHE_MISS;
	}
	touch(fd, &st);
	*ret = data;
	*ret_bytes = head.bytes;
	return 0;
}

int kp_cache_save(struct kp_cache *cache, const struct kp_cache_key *key, const void *data,
		  uint64_t bytes, struct kp_err *err)
{
	_cleanup_(kp_closep) int fd = -1;
	char name[NAME_ROOM], new[64];
	struct head head;

	if (!is_usable(key) || bytes == 0 || bytes > cache->kind->entry_max ||
	    bytes > cache->max_bytes / 2)
		return kp_fail(err, KP_EREFUSED, "not for the cache");
	name_of(cache, key, name);
	head = head_of(cache, key, bytes);
	head.crc = checksum(&head, data, bytes);
	snprintf(new, sizeof(new), NEW_PREFIX "%d-%u", (int)getpid(), cache->written++);
	/* Of a process of that id that died. */
	unlinkat(cache->fd, new, 0);
	fd = openat(cache->fd, new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return kp_fail_errno(err, "cache: making %s", new);
	if (write_all(fd, &head, sizeof(head)) && write_all(fd, data, bytes) &&
	    renameat(cache->fd, new, cache->fd, name) == 0)
		return 0;
	kp_fail_errno(err, "cache: writing %s", name);
	unlinkat(cache->fd, new, 0);
	return -KP_ESYSTEM;
}

/* ---- room ---- */

struct entry {
	char name[NAME_ROOM];
	uint64_t bytes;
	struct timespec used;
};

struct entries {
	struct entry *entry;
	size_t count, room;
	uint64_t bytes;
};

static bool ends_with(const char *name, const char *tail)
{
	size_t n = strlen(name), t = strlen(tail);

	return n > t && strcmp(name + n - t, tail) == 0;
}

static int add_entry(struct entries *entries, const char *name, const struct stat *st)
{
	struct entry *entry;

	if (entries->count == entries->room) {
		size_t room = entries->room ? entries->room * 2 : 64;
		struct entry *grown = reallocarray(entries->entry, room, sizeof(*grown));

		if (!grown)
			return -KP_ENOMEM;
		entries->entry = grown;
		entries->room = room;
	}
	entry = &entries->entry[entries->count++];
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	entry->bytes = (uint64_t)st->st_size;
	entry->used = st->st_atim;
	entries->bytes += entry->bytes;
	return 0;
}

/* Only what has the name of an entry is looked at; other files are not ours. */
static void look_at(struct kp_cache *cache, struct entries *entries, const char *name)
{
	bool is_new = strncmp(name, NEW_PREFIX, strlen(NEW_PREFIX)) == 0;
	struct stat st;

	if ((!is_new && !ends_with(name, cache->kind->suffix)) || strlen(name) >= NAME_ROOM ||
	    fstatat(cache->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
		return;
	if (!is_new)
		add_entry(entries, name, &st);
	else if (time(NULL) - st.st_mtime > HOUR)
		unlinkat(cache->fd, name, 0);
}

static int by_use(const void *a, const void *b)
{
	const struct timespec *x = &((const struct entry *)a)->used;
	const struct timespec *y = &((const struct entry *)b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

void kp_cache_trim(struct kp_cache *cache)
{
	/* A description of its own: the place in the directory is not shared with a parent. */
	int fd = openat(cache->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(kp_closedirp) DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct entries entries = { 0 };
	struct dirent *found;

	if (!dir) {
		kp_closep(&fd);
		return;
	}
	for (unsigned i = 0; i < ENTRIES_MAX && (found = readdir(dir)); i++)
		look_at(cache, &entries, found->d_name);
	if (entries.bytes > cache->max_bytes) {
		/* Some more than needed, so that not every new entry comes here again. */
		uint64_t wanted = cache->max_bytes - cache->max_bytes / 8;

		qsort(entries.entry, entries.count, sizeof(*entries.entry), by_use);
		for (size_t i = 0; i < entries.count && entries.bytes > wanted; i++) {
			unlinkat(cache->fd, entries.entry[i].name, 0);
			entries.bytes -= entries.entry[i].bytes;
		}
	}
	free(entries.entry);
}
