/* The unwind tables of modules: store.h. Daemon, session loop. */
#include "daemon/unwind/store.h"

#include "common/cleanup.h"
#include "daemon/linux/monotonic.h"
#include "daemon/unwind/area.h"
#include "daemon/unwind/build.h"
#include "daemon/cache/memory.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define FINISH_MS 500 /* a worker has at the end */
#define READ_MAX (2 * KP_BUILD_JOBS_MAX) /* results in a turn */

/* The second number: to be raised when the builder makes other tables of the same files. */
const struct kp_cache_kind kp_store_cache_kind = {
	.directory = "unwind",
	.suffix = ".table",
	.version = KP_TABLE_VERSION << 16 | 2,
	.entry_max = UINT64_C(256) << 20,
};

/* What makes a module the same as another one. */
struct identity {
	enum { BY_BUILD_ID, BY_FILE, BY_IMAGE } by;
	uint8_t build_id[KP_CACHE_ID_MAX];
	size_t build_id_len;
	uint64_t dev, inode, bytes;
	struct timespec modified;
	const void *image; /* owned by the entry */
};

struct entry {
	struct kp_stored stored;
	struct identity identity;
	char *name;
	int fd; /* while it is to be built; else -1 */
	uint64_t file_bytes;
};

struct kp_store {
	struct kp_store_options options;
	struct entry **entry;
	size_t count, room;
	struct kp_table_area area; /* all tables */
	struct kp_build_worker worker;
	struct entry *job[KP_BUILD_JOBS_MAX]; /* of the worker, in its order */
	size_t job_count, jobs_done;
	size_t waiting; /* BUILDING */
	uint64_t changes;
	uint64_t cpu_ns;
};

int kp_store_create(const struct kp_store_options *options, struct kp_store **ret,
		    struct kp_err *err)
{
	struct kp_store *store = calloc(1, sizeof(*store));
	const char *name = options->memory_name ? options->memory_name : "tables";
	int r = store ? kp_table_area_init(&store->area, name, options->memory_empty,
					   KP_STORE_BYTES_MAX, err)
		      : kp_fail_nomem(err);

	if (r < 0) {
		free(store);
		kp_cache_destroy(options->cache);
		return r;
	}
	store->options = *options;
	if (!store->options.timeout_ms)
		store->options.timeout_ms = KP_STORE_TIMEOUT_MS;
	kp_build_worker_init(&store->worker);
	*ret = store;
	return 0;
}

static void destroy_entry(struct entry *entry)
{
	free((void *)(uintptr_t)entry->identity.image);
	free(entry->name);
	kp_closep(&entry->fd);
	free(entry);
}

/* ---- identity ---- */

static bool is_same(const struct identity *a, const struct identity *b)
{
	if (a->by != b->by)
		return false;
	if (a->by == BY_BUILD_ID)
		return a->build_id_len == b->build_id_len &&
		       memcmp(a->build_id, b->build_id, a->build_id_len) == 0;
	if (a->by == BY_IMAGE)
		return a->bytes == b->bytes && memcmp(a->image, b->image, a->bytes) == 0;
	return a->dev == b->dev && a->inode == b->inode && a->bytes == b->bytes &&
	       a->modified.tv_sec == b->modified.tv_sec &&
	       a->modified.tv_nsec == b->modified.tv_nsec;
}

static struct entry *find(const struct kp_store *store, const struct identity *identity)
{
	for (size_t i = 0; i < store->count; i++)
		if (is_same(&store->entry[i]->identity, identity))
			return store->entry[i];
	return NULL;
}

static struct identity identity_of_file(const struct stat *st, const uint8_t *build_id,
					size_t build_id_len)
{
	struct identity identity = { .by = BY_FILE,
				     .dev = st->st_dev,
				     .inode = st->st_ino,
				     .bytes = (uint64_t)st->st_size,
				     .modified = st->st_mtim };

	if (kp_cache_trusts(st) && build_id_len >= KP_CACHE_ID_MIN &&
	    build_id_len <= KP_CACHE_ID_MAX) {
		identity = (struct identity){ .by = BY_BUILD_ID, .build_id_len = build_id_len };
		memcpy(identity.build_id, build_id, build_id_len);
	}
	return identity;
}

/* Length 0: not one for the cache. */
static struct kp_cache_key key_of(const struct kp_store *store, const struct entry *entry)
{
	return (struct kp_cache_key){ entry->identity.build_id, entry->identity.build_id_len,
				      store->options.machine, 0 };
}

/* ---- states ---- */

static void leave_queue(struct kp_store *store, struct entry *entry, enum kp_stored_state state)
{
	entry->stored.state = state;
	kp_closep(&entry->fd);
	entry->fd = -1;
	store->waiting--;
	store->changes++;
}

static void become_none(struct kp_store *store, struct entry *entry, const char *why)
{
	snprintf(entry->stored.why, sizeof(entry->stored.why), "%s", why);
	leave_queue(store, entry, KP_STORED_NONE);
}

/* The table that lies at data moves to where all can read it. false: it cannot, and *ret_why says why. */
static bool take_in(struct kp_store *store, struct kp_stored *stored, const void *data,
		    uint64_t bytes, const char **ret_why)
{
	const void *view;

	*ret_why = "no table for this CPU";
	if (kp_table_open(&stored->table, data, bytes, store->options.machine) != 0)
		return false;
	*ret_why = "the tables of all modules together are too large";
	if (kp_table_area_add(&store->area, data, bytes, &stored->off) < 0)
		return false;
	view = store->area.view + stored->off;
	*ret_why = "its table came back changed";
	if (kp_table_open(&stored->table, view, bytes, store->options.machine) != 0)
		return false;
	stored->data = view;
	stored->bytes = bytes;
	return true;
}

/* Takes the table over. It comes from a file or a worker; neither is trusted to have made one. */
static void become_ready(struct kp_store *store, struct entry *entry, void *table, uint64_t bytes)
{
	const char *why;
	bool taken = take_in(store, &entry->stored, table, bytes, &why);

	kp_cache_memory_destroy(table, bytes);
	if (taken)
		leave_queue(store, entry, KP_STORED_READY);
	else
		become_none(store, entry, why);
}

static struct entry *add(struct kp_store *store, const struct identity *identity, const char *name)
{
	struct entry *entry;

	if (store->count == store->room) {
		size_t room = store->room ? store->room * 2 : 32;
		struct entry **grown = reallocarray(store->entry, room, sizeof(*grown));

		if (!grown)
			return NULL;
		store->entry = grown;
		store->room = room;
	}
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->name = strdup(name);
	if (!entry->name) {
		free(entry);
		return NULL;
	}
	entry->identity = *identity;
	entry->fd = -1;
	entry->stored.number = (uint32_t)store->count;
	store->entry[store->count++] = entry;
	store->waiting++;
	return entry;
}

/* Whether nothing more is to be done: there is no room, or the table is on disk. */
static bool is_settled(struct kp_store *store, struct entry *entry)
{
	struct kp_cache_key key = key_of(store, entry);
	uint64_t bytes;
	void *table;

	if (store->count > KP_STORE_MODULES_MAX)
		become_none(store, entry, "too many modules");
	else if (entry->stored.segments.count == 0)
		become_none(store, entry, "no ELF file with code");
	else if (store->options.cache && key.build_id_len &&
		 kp_cache_load(store->options.cache, &key, &table, &bytes) == 0)
		become_ready(store, entry, table, bytes);
	return entry->stored.state != KP_STORED_BUILDING;
}

const struct kp_stored *kp_store_file(struct kp_store *store, int fd, const char *name,
				      const uint8_t *build_id, size_t build_id_len)
{
	struct identity identity;
	struct entry *entry;
	struct stat st;

	if (fstat(fd, &st) != 0)
		st = (struct stat){ 0 };
	identity = identity_of_file(&st, build_id, build_id_len);
	entry = find(store, &identity);
	if (entry)
		return &entry->stored;
	entry = add(store, &identity, name);
	if (!entry)
		return NULL;
	kp_segments_read(&entry->stored.segments, fd);
	entry->file_bytes = (uint64_t)st.st_size;
	if (is_settled(store, entry))
		return &entry->stored;
	entry->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (entry->fd < 0)
		become_none(store, entry, "no descriptor left");
	return &entry->stored;
}

const struct kp_stored *kp_store_image(struct kp_store *store, const void *image, size_t bytes,
				       const char *name)
{
	struct identity identity = { .by = BY_IMAGE, .bytes = bytes, .image = image };
	struct entry *entry = find(store, &identity);
	_cleanup_(kp_freep) void *copy = entry ? NULL : malloc(bytes ? bytes : 1);

	if (entry || !copy)
		return entry ? &entry->stored : NULL;
	memcpy(copy, image, bytes);
	identity.image = copy;
	entry = add(store, &identity, name);
	if (!entry)
		return NULL;
	entry->identity.image = kp_take(copy);
	entry->file_bytes = bytes;
	kp_segments_of_image(&entry->stored.segments, image, bytes);
	is_settled(store, entry);
	return &entry->stored;
}

/* ---- the worker ---- */

int kp_store_tables_fd(const struct kp_store *store)
{
	return store->area.fd;
}

int kp_store_fd(const struct kp_store *store)
{
	return kp_build_worker_fd(&store->worker);
}

uint64_t kp_store_changes(const struct kp_store *store)
{
	return store->changes;
}

uint64_t kp_store_cpu_ns(const struct kp_store *store)
{
	return store->cpu_ns;
}

static void take_result(struct kp_store *store, const struct kp_build_result *result)
{
	struct entry *entry = store->job[store->jobs_done++];
	void *table;

	if (result->outcome == KP_UNWIND_NONE || result->outcome < 0) {
		become_none(store, entry, result->outcome < 0 ? result->err.text : "");
		return;
	}
	table = result->bytes > 0 && result->bytes <= kp_store_cache_kind.entry_max
			? kp_cache_memory_create(result->bytes)
			: NULL;
	if (!table) {
		become_none(store, entry, "no memory for its table");
	} else if (kp_build_worker_copy(&store->worker, result, table) != 0) {
		kp_cache_memory_destroy(table, result->bytes);
		become_none(store, entry, "its table came back incomplete");
	} else {
		become_ready(store, entry, table, result->bytes);
	}
}

static void describe_end(int status, bool timed_out, char *ret, size_t size)
{
	if (timed_out)
		snprintf(ret, size, "building its table took too long");
	else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS)
		snprintf(ret, size, "the file was cut while its table was built");
	else
		snprintf(ret, size, "building its table failed (status %#x)", (unsigned)status);
}

/* A worker that has not done all has died of the module that it was at; the others wait again. */
static void bury(struct kp_store *store)
{
	char why[100];
	int status = 0;
	bool timed_out = store->worker.killed &&
			 kp_now_ns() - store->worker.since_ns > store->options.timeout_ms * MS;
	uint64_t cpu_ns = 0;

	if (!store->job_count || !kp_build_worker_reap(&store->worker, &status, &cpu_ns))
		return;
	store->cpu_ns += cpu_ns;
	describe_end(status, timed_out, why, sizeof(why));
	if (store->jobs_done < store->job_count)
		become_none(store, store->job[store->jobs_done++], why);
	store->job_count = store->jobs_done = 0;
}

static void listen_to_worker(struct kp_store *store)
{
	struct kp_build_result result;
	enum kp_build_read read = KP_BUILD_BUSY;

	for (unsigned i = 0; i < READ_MAX; i++) {
		read = kp_build_worker_read(&store->worker, &result);
		if (read != KP_BUILD_RESULT)
			break;
		if (store->jobs_done < store->job_count)
			take_result(store, &result);
		else
			kp_build_worker_kill(&store->worker);
	}
	if (read != KP_BUILD_ENDED &&
	    kp_now_ns() - store->worker.since_ns > store->options.timeout_ms * MS)
		kp_build_worker_kill(&store->worker);
}

static int by_size(const void *a, const void *b)
{
	const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;

	return x->file_bytes < y->file_bytes ? -1 : x->file_bytes > y->file_bytes;
}

/* Small ones first: most of a stack is in them, and they are soon done. */
static void start_worker(struct kp_store *store)
{
	struct kp_build_job jobs[KP_BUILD_JOBS_MAX];
	struct kp_err err;
	size_t n = 0;

	for (size_t i = 0; i < store->count && n < KP_BUILD_JOBS_MAX; i++)
		if (store->entry[i]->stored.state == KP_STORED_BUILDING)
			store->job[n++] = store->entry[i];
	qsort(store->job, n, sizeof(*store->job), by_size);
	for (size_t i = 0; i < n; i++) {
		struct entry *entry = store->job[i];

		jobs[i] = (struct kp_build_job){ .fd = entry->fd,
						 .image = entry->identity.image,
						 .image_bytes = entry->file_bytes,
						 .name = entry->name,
						 .key = key_of(store, entry) };
	}
	store->job_count = n;
	store->jobs_done = 0;
	if (kp_build_worker_start(&store->worker, jobs, n, store->options.build,
				  store->options.cache, &err) == 0)
		return;
	for (size_t i = 0; i < n; i++)
		become_none(store, store->job[i], err.text);
	store->job_count = 0;
}

size_t kp_store_turn(struct kp_store *store)
{
	size_t before = store->waiting;

	if (store->job_count) {
		listen_to_worker(store);
		if (kp_build_worker_fd(&store->worker) < 0)
			bury(store);
	}
	if (!store->job_count && store->waiting)
		start_worker(store);
	return before - store->waiting;
}

static bool wait_for(struct kp_store *store, uint32_t timeout_ms, bool worker_too)
{
	uint64_t deadline = kp_now_ns() + timeout_ms * MS, now;

	kp_store_turn(store);
	while (store->waiting || (worker_too && store->job_count)) {
		struct pollfd ready = { .fd = kp_store_fd(store), .events = POLLIN };
		uint64_t left;

		now = kp_now_ns();
		if (now >= deadline)
			return false;
		left = (deadline - now) / MS + 1;
		/* Not a descriptor, but a clock tells when a worker has its time behind it. */
		poll(&ready, 1, ready.fd < 0 ? 1 : left < 10 ? (int)left : 10);
		kp_store_turn(store);
	}
	return true;
}

bool kp_store_wait(struct kp_store *store, uint32_t timeout_ms)
{
	return wait_for(store, timeout_ms, false);
}

void kp_store_destroy(struct kp_store *store)
{
	uint64_t cpu_ns;
	int status;

	if (!store)
		return;
	if (store->options.cache)
		wait_for(store, FINISH_MS, true);
	kp_build_worker_kill(&store->worker);
	for (int i = 0; i < 100 && !kp_build_worker_reap(&store->worker, &status, &cpu_ns); i++)
		poll(NULL, 0, 1);
	for (size_t i = 0; i < store->count; i++)
		destroy_entry(store->entry[i]);
	free(store->entry);
	kp_table_area_deinit(&store->area);
	kp_cache_destroy(store->options.cache);
	free(store);
}
