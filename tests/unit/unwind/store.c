/*
 * Unit tests of the tables in memory and of the worker that builds them. What the worker does is
 * said by the name of the module: the builder of this file runs in it.
 */
#include "common/cleanup.h"
#include "daemon/unwind/build.h"
#include "daemon/unwind/store.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MACHINE 62
#define LONG_MS 20000

static struct kp_err err;
static char dir[64], pid_path[96];
static uint8_t id[20] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };

/* ---- what the worker does ---- */

struct tiny {
	struct kp_table_head head;
	struct kp_table_rule rule;
	uint32_t pages[2];
	struct kp_table_row row;
};

static int make_tiny(void **ret, size_t *ret_bytes, int32_t cfa_off)
{
	struct tiny *tiny = calloc(1, sizeof(*tiny));

	tiny->head = (struct kp_table_head){ .magic = KP_TABLE_MAGIC,
					     .version = KP_TABLE_VERSION,
					     .machine = MACHINE,
					     .bytes = sizeof(*tiny),
					     .rule_count = 1,
					     .page_count = 1,
					     .row_count = 1 };
	tiny->rule = (struct kp_table_rule){ .cfa = KP_CFA_SP, .cfa_off = cfa_off };
	tiny->pages[1] = 1;
	*ret = tiny;
	*ret_bytes = sizeof(*tiny);
	return 0;
}

static int tell_surroundings(struct kp_err *e)
{
	_cleanup_(kp_closedirp) DIR *open = opendir("/proc/self/fd");
	struct rlimit space, core;
	int fds = -3; /* ".", "..", and the one that reads */

	while (readdir(open))
		fds++;
	getrlimit(RLIMIT_AS, &space);
	getrlimit(RLIMIT_CORE, &core);
	return kp_fail(e, KP_EBADDATA, "fds %d nice %d bounded %d core %d", fds,
		       getpriority(PRIO_PROCESS, 0), space.rlim_max != RLIM_INFINITY,
		       (int)core.rlim_max);
}

/* The pid of the worker, for whoever wants to know whether it has ended. */
static void tell_pid(void)
{
	char text[32];
	int fd = open(pid_path, O_WRONLY | O_CREAT, 0600);
	int n = snprintf(text, sizeof(text), "%d", (int)getpid());

	if (write(fd, text, (size_t)n) != n)
		_exit(9);
	close(fd);
}

static bool is(const char *name, const char *wanted)
{
	return strncmp(name, wanted, strlen(wanted)) == 0;
}

static int build(const void *image, size_t size, const char *name, void **ret, size_t *ret_bytes,
		 struct kp_err *e)
{
	char path[128];

	if (is(name, "none"))
		return KP_UNWIND_NONE;
	if (is(name, "bad"))
		return kp_fail(e, KP_EBADDATA, "%s: it is bad", name);
	if (is(name, "dies"))
		kill(getpid(), SIGKILL);
	if (is(name, "crashes"))
		abort();
	if (is(name, "sleeps")) {
		tell_pid();
		pause();
	}
	if (is(name, "surroundings"))
		return tell_surroundings(e);
	if (is(name, "garbage")) {
		*ret = calloc(1, 4096);
		*ret_bytes = 4096;
		return 0;
	}
	if (is(name, "cut")) {
		snprintf(path, sizeof(path), "%s/cut", dir);
		if (truncate(path, 0) != 0)
			return -KP_ESYSTEM;
	}
	return make_tiny(ret, ret_bytes, ((const uint8_t *)image)[size - 1]);
}

static int refuse(const void *image, size_t size, const char *name, void **ret, size_t *ret_bytes,
		  struct kp_err *e)
{
	(void)image, (void)size, (void)name, (void)ret, (void)ret_bytes;
	return kp_fail(e, KP_EBADDATA, "was built again");
}

/* ---- the tests ---- */

static void remove_dir(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	if (system(command) != 0)
		perror(command);
}

static void make_dir(void)
{
	snprintf(dir, sizeof(dir), "/tmp/kitprof-store.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	snprintf(pid_path, sizeof(pid_path), "%s/pid", dir);
	atexit(remove_dir);
}

static struct kp_store *open_store(kp_build_fn fn, bool cached, uint32_t timeout_ms)
{
	struct kp_store_options options = { .machine = MACHINE,
					    .build = fn,
					    .timeout_ms = timeout_ms };
	struct kp_store *store;

	if (cached)
		cr_assert_eq(
			kp_cache_create(dir, &kp_store_cache_kind, 1 << 20, &options.cache, &err),
			0);
	cr_assert_eq(kp_store_create(&options, &store, &err), 0);
	return store;
}

static struct kp_store *begin(void)
{
	make_dir();
	return open_store(build, false, 0);
}

/* A file with a header that says that it has code; its last byte is seed. */
static size_t make_image(uint8_t *image, uint8_t seed)
{
	Elf64_Ehdr ehdr = { .e_phoff = sizeof(ehdr),
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_phnum = 1 };
	Elf64_Phdr phdr = { .p_type = PT_LOAD, .p_flags = PF_X, .p_filesz = 4096, .p_vaddr = 0 };

	memset(image, 0, 4096);
	memcpy(ehdr.e_ident, ELFMAG, SELFMAG);
	ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(image, &ehdr, sizeof(ehdr));
	memcpy(image + sizeof(ehdr), &phdr, sizeof(phdr));
	image[4095] = seed;
	return 4096;
}

static int make_file(const char *name, uint8_t seed, mode_t mode)
{
	uint8_t image[4096];
	size_t size = make_image(image, seed);
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(fchmod(fd, mode), 0);
	cr_assert_eq(write(fd, image, size), (ssize_t)size);
	return fd;
}

/* The module of a file of that name, whose build id is its number. */
static const struct kp_stored *ask(struct kp_store *store, const char *name, uint8_t number)
{
	_cleanup_(kp_closep) int fd = make_file(name, number, 0600);
	const struct kp_stored *stored;

	id[0] = number;
	stored = kp_store_file(store, fd, name, id, sizeof(id));
	cr_assert_not_null(stored);
	return stored;
}

static bool has_table(const struct kp_stored *stored, int32_t cfa_off)
{
	struct kp_table_rule rule;

	return stored->state == KP_STORED_READY && kp_table_find(&stored->table, 1, &rule) == 0 &&
	       rule.cfa_off == cfa_off;
}

static void no_child_is_left(void)
{
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
	cr_assert_eq(errno, ECHILD);
}

Test(store, builds_a_table_in_a_worker)
{
	struct kp_store *store = begin();
	const struct kp_stored *stored = ask(store, "fine", 8);

	cr_assert_eq(stored->state, KP_STORED_BUILDING);
	cr_assert_eq(kp_store_fd(store), -1);
	kp_store_turn(store);
	cr_assert_geq(kp_store_fd(store), 0);
	cr_assert(kp_store_wait(store, LONG_MS));
	cr_assert(has_table(stored, 8));
	cr_assert_eq(stored->segments.count, 1);
	cr_assert_eq(ask(store, "fine", 8), stored);
	cr_assert_gt(kp_store_cpu_ns(store) + 1, 0);
	kp_store_destroy(store);
	no_child_is_left();
}

/* Targets map what the daemon reads, and no more than that. */
Test(store, has_all_tables_in_one_file)
{
	struct kp_store_options options = { .machine = MACHINE,
					    .build = build,
					    .memory_empty = 8192 };
	const struct kp_stored *stored[2];
	struct kp_store *store;
	uint8_t bytes[64];
	struct stat st;

	make_dir();
	cr_assert_eq(kp_store_create(&options, &store, &err), 0);
	stored[0] = ask(store, "fine", 8);
	stored[1] = ask(store, "other", 9);
	cr_assert(kp_store_wait(store, LONG_MS));
	for (size_t i = 0; i < 2; i++) {
		size_t n = stored[i]->bytes < sizeof(bytes) ? stored[i]->bytes : sizeof(bytes);

		cr_assert(has_table(stored[i], (uint8_t)(8 + i)));
		cr_assert_geq(stored[i]->off, 8192);
		cr_assert_eq(pread(kp_store_tables_fd(store), bytes, n, (off_t)stored[i]->off),
			     (ssize_t)n);
		cr_assert_arr_eq(bytes, stored[i]->data, n);
	}
	cr_assert_eq(fstat(kp_store_tables_fd(store), &st), 0);
	cr_assert_leq((uint64_t)st.st_size, 8192 + stored[0]->bytes + stored[1]->bytes + 16);
	cr_assert_eq(st.st_mode & 0777, S_IRUSR);
	kp_store_destroy(store);
	no_child_is_left();
}

Test(store, keeps_reasons)
{
	struct kp_store *store = begin();
	const struct kp_stored *none = ask(store, "none", 1), *bad = ask(store, "bad", 2);
	const struct kp_stored *garbage = ask(store, "garbage", 3), *good = ask(store, "good", 4);

	cr_assert(kp_store_wait(store, LONG_MS));
	cr_assert_eq(none->state, KP_STORED_NONE);
	cr_assert_str_eq(none->why, "");
	cr_assert_eq(bad->state, KP_STORED_NONE);
	cr_assert_str_eq(bad->why, "bad: it is bad");
	cr_assert_eq(garbage->state, KP_STORED_NONE);
	cr_assert_str_eq(garbage->why, "no table for this CPU");
	cr_assert(has_table(good, 4));
	kp_store_destroy(store);
}

Test(store, builds_more_than_one_batch)
{
	const struct kp_stored *stored[100];
	struct kp_store *store = begin();
	char name[16];

	for (uint8_t i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		stored[i] = ask(store, name, i);
	}
	cr_assert(kp_store_wait(store, LONG_MS));
	for (uint8_t i = 0; i < 100; i++)
		cr_assert(has_table(stored[i], i), "%d", i);
	kp_store_destroy(store);
	no_child_is_left();
}

Test(store, loses_one_module_to_a_worker_that_dies)
{
	struct kp_store *store = begin();
	const struct kp_stored *a = ask(store, "a", 1), *dies = ask(store, "dies", 2);
	const struct kp_stored *b = ask(store, "b", 3), *crashes = ask(store, "crashes", 4);
	const struct kp_stored *c = ask(store, "c", 5);

	cr_assert(kp_store_wait(store, LONG_MS));
	cr_assert(has_table(a, 1) && has_table(b, 3) && has_table(c, 5));
	cr_assert_eq(dies->state, KP_STORED_NONE);
	cr_assert_not_null(strstr(dies->why, "failed (status 0x9)"), "%s", dies->why);
	cr_assert_eq(crashes->state, KP_STORED_NONE);
	kp_store_destroy(store);
	no_child_is_left();
}

Test(store, survives_a_file_that_is_cut_while_it_is_read)
{
	struct kp_store *store = begin();
	const struct kp_stored *cut = ask(store, "cut", 1), *fine = ask(store, "fine", 2);

	cr_assert(kp_store_wait(store, LONG_MS));
	cr_assert_eq(cut->state, KP_STORED_NONE);
	cr_assert_not_null(strstr(cut->why, "was cut"), "%s", cut->why);
	cr_assert(has_table(fine, 2));
	kp_store_destroy(store);
}

Test(store, gives_a_module_up_that_takes_too_long)
{
	struct kp_store *store;
	const struct kp_stored *sleeps, *fine;

	make_dir();
	store = open_store(build, false, 300);
	sleeps = ask(store, "sleeps", 1);
	fine = ask(store, "fine", 2);
	cr_assert_not(kp_store_wait(store, 20));
	cr_assert(kp_store_wait(store, LONG_MS));
	cr_assert_eq(sleeps->state, KP_STORED_NONE);
	cr_assert_not_null(strstr(sleeps->why, "too long"), "%s", sleeps->why);
	cr_assert(has_table(fine, 2));
	kp_store_destroy(store);
	no_child_is_left();
}

Test(store, leaves_no_worker_behind)
{
	struct kp_store *store = begin();

	ask(store, "sleeps", 1);
	while (access(pid_path, F_OK) != 0)
		kp_store_wait(store, 1);
	kp_store_destroy(store);
	no_child_is_left();
}

static pid_t told_pid(void)
{
	_cleanup_(kp_fclosep) FILE *file = fopen(pid_path, "re");
	int told = 0;

	return file && fscanf(file, "%d", &told) == 1 ? told : 0;
}

static void start_and_die(void)
{
	struct kp_store *store = open_store(build, false, 0);

	ask(store, "sleeps", 1);
	while (!told_pid())
		kp_store_wait(store, 1);
	kill(getpid(), SIGKILL);
}

Test(store, has_workers_that_do_not_outlive_the_daemon)
{
	pid_t daemon;
	int tries = 500;

	make_dir();
	daemon = fork();
	if (daemon == 0)
		start_and_die();
	cr_assert_eq(waitpid(daemon, NULL, 0), daemon);
	cr_assert_gt(told_pid(), 0);
	/* Whoever inherited it may not have waited for it yet. */
	while (kill(told_pid(), 0) == 0 && --tries) {
		char path[64], state = 0;
		_cleanup_(kp_fclosep) FILE *file = NULL;

		snprintf(path, sizeof(path), "/proc/%d/stat", (int)told_pid());
		file = fopen(path, "re");
		if (!file || fscanf(file, "%*d %*s %c", &state) != 1 || state == 'Z')
			break;
		usleep(10000);
	}
	cr_assert_gt(tries, 0);
}

Test(store, has_workers_that_own_nothing_and_stand_back)
{
	struct kp_store *store;
	const struct kp_stored *stored;
	int pipe_ends[2], nice = getpriority(PRIO_PROCESS, 0);
	char wanted[64];

	make_dir();
	store = open_store(build, true, 0);
	cr_assert_eq(pipe(pipe_ends), 0);
	stored = ask(store, "surroundings", 1);
	cr_assert(kp_store_wait(store, LONG_MS));
	/* Pipe, memory, cache, the file. */
	snprintf(wanted, sizeof(wanted), "fds 4 nice %d bounded 1 core 0", nice > 5 ? nice : 5);
	cr_assert_str_eq(stored->why, wanted);
	kp_store_destroy(store);
}

Test(store, finds_on_disk_what_was_built_before)
{
	struct kp_store *store;
	const struct kp_stored *stored;

	make_dir();
	store = open_store(build, true, 0);
	ask(store, "fine", 8);
	kp_store_turn(store);
	kp_store_destroy(store); /* which gives the worker its time */
	store = open_store(refuse, true, 0);
	stored = ask(store, "another name", 8);
	cr_assert(has_table(stored, 8));
	cr_assert_eq(kp_store_fd(store), -1);
	kp_store_destroy(store);
}

Test(store, does_not_believe_the_build_id_of_a_stranger)
{
	struct kp_store *store;
	const struct kp_stored *ours, *strange;
	int fd;

	make_dir();
	store = open_store(build, true, 0);
	fd = make_file("strange", 1, 0666);
	id[0] = 8;
	strange = kp_store_file(store, fd, "strange", id, sizeof(id));
	cr_assert(kp_store_wait(store, LONG_MS));
	ours = ask(store, "ours", 8);
	cr_assert_neq(ours, strange);
	cr_assert_eq(ours->state, KP_STORED_BUILDING);
	cr_assert(kp_store_wait(store, LONG_MS));
	cr_assert(has_table(strange, 1) && has_table(ours, 8));
	/* Its own file is known again all the same, until it is another one. */
	cr_assert_eq(kp_store_file(store, fd, "strange", id, sizeof(id)), strange);
	cr_assert_eq(ftruncate(fd, 5000), 0);
	cr_assert_neq(kp_store_file(store, fd, "strange", id, sizeof(id)), strange);
	close(fd);
	kp_store_destroy(store);
	store = open_store(refuse, true, 0);
	cr_assert_eq(ask(store, "ours", 8)->state, KP_STORED_READY);
	kp_store_destroy(store);
}

Test(store, knows_files_without_build_id_by_themselves)
{
	struct kp_store *store = begin();
	int a = make_file("a", 1, 0600), b = make_file("b", 2, 0600);
	const struct kp_stored *x = kp_store_file(store, a, "a", NULL, 0);
	const struct kp_stored *y = kp_store_file(store, b, "b", NULL, 0);

	cr_assert_neq(x, y);
	cr_assert_eq(kp_store_file(store, a, "a again", NULL, 0), x);
	cr_assert(kp_store_wait(store, LONG_MS));
	cr_assert(has_table(x, 1) && has_table(y, 2));
	close(a);
	close(b);
	kp_store_destroy(store);
}

Test(store, builds_images_without_a_file)
{
	struct kp_store *store = begin();
	uint8_t image[4096];
	size_t size = make_image(image, 7);
	const struct kp_stored *a = kp_store_image(store, image, size, "[vdso]"), *b;

	cr_assert_eq(kp_store_image(store, image, size, "[vdso]"), a);
	make_image(image, 9);
	b = kp_store_image(store, image, size, "[vdso]");
	cr_assert_neq(a, b);
	memset(image, 0, sizeof(image));
	cr_assert(kp_store_wait(store, LONG_MS));
	cr_assert(has_table(a, 7) && has_table(b, 9));
	kp_store_destroy(store);
}

Test(store, does_not_bother_a_worker_with_what_is_no_program)
{
	struct kp_store *store = begin();
	int fd = memfd_create("jit", MFD_CLOEXEC);
	const struct kp_stored *stored;

	cr_assert_eq(ftruncate(fd, 8192), 0);
	stored = kp_store_file(store, fd, "jit", NULL, 0);
	cr_assert_eq(stored->state, KP_STORED_NONE);
	cr_assert_str_eq(stored->why, "no ELF file with code");
	close(fd);
	kp_store_destroy(store);
}
