/*
 * Addresses of modules -> frames. Runs in the daemon after the window (or in `kitprof report`),
 * in one thread, and in the workers that it starts (crew.h). Files are only read; the network is
 * used by nothing but kp_symbolizer_fetch_all().
 *
 * Order of sources for a module: the file itself (pinned descriptor, else the path, taken only if
 * its build id matches), and for names and lines in addition a separate debug file found by build
 * id (DIR/.build-id/ab/cdef.debug) or .gnu_debuglink (CRC checked) below the debug directories.
 */
#pragma once

#include "common/err.h"
#include "daemon/symbol/frame.h"

#include <stddef.h>
#include <stdint.h>

struct kp_cache;
struct kp_symbolizer;

struct kp_symbolizer_options {
	const char *const *debug_dirs; /* NULL-terminated; NULL: { "/usr/lib/debug" } */
	/*
	 * What the modules' paths start at, where they are another machine's or a container's: looked
	 * at first, taken by build id only, and no path of this machine is taken without. NULL: "/".
	 */
	const char *sysroot;
	unsigned workers; /* at most; 0: as many as CPUs, within reason */
	struct kp_cache *cache; /* of kp_answer_cache_kind; borrowed; NULL: none */
};

/* What is known of a module's file. Copied by kp_symbolizer_module(), except fd and image. */
struct kp_module_file {
	const char *path; /* as the target saw it; "[vdso]" and the like are no files */
	const uint8_t *build_id; /* GNU build id, or NULL */
	size_t build_id_len;
	int fd; /* the pinned file, or -1; borrowed until the symbolizer is destroyed */
	/*
	 * The ELF image itself, or what was in the target's memory of a file that could not be opened
	 * (then used where there is no file); or NULL. Borrowed likewise.
	 */
	const void *image;
	size_t image_size;
};

int kp_symbolizer_create(const struct kp_symbolizer_options *options, struct kp_symbolizer **ret,
			 struct kp_err *err);
void kp_symbolizer_destroy(struct kp_symbolizer *s);

/*
 * Makes a module known; cheap, the file is opened at the first kp_symbolizer_resolve(). The same
 * path and build id give the same id again.
 */
int kp_symbolizer_module(struct kp_symbolizer *s, const struct kp_module_file *file,
			 uint32_t *ret_module, struct kp_err *err);

/* Questions to one module. */
struct kp_symbolizer_request {
	uint32_t module;
	const uint64_t *file_offset; /* as for kp_symbolizer_resolve(), but each once */
	uint32_t count;
	struct kp_frames *ret; /* likewise */
	uint64_t samples; /* that are in the module; only matters where files are fetched */
};

/* How far it is. Modules of which something is asked, and addresses. */
struct kp_symbolizer_progress {
	size_t modules_done, modules;
	uint64_t done, asked;
};
typedef void (*kp_symbolizer_progress_fn)(void *ctx, const struct kp_symbolizer_progress *progress);

struct kp_symbolizer_limits {
	uint64_t budget_ns; /* what is not done in that time stays undone; 0: no limit */
	kp_symbolizer_progress_fn progress; /* called now and then; or NULL */
	void *ctx;
};

/* What was not looked up. */
struct kp_symbolizer_rest {
	uint64_t late; /* addresses for which there was no time */
	uint32_t late_modules; /* that they are of */
	uint64_t lost; /* addresses whose look-up ended a worker; their modules' notes say more */
};

/*
 * Looks up all that is asked, each module once, in several processes at a time, so that a file
 * which makes one of them crash or hang costs its own names and no others. What is not looked up
 * has count 0 and the offset for an address. What the cache has of the files as they are is taken
 * from there, and it is given what is new. Where no process can be started it is all done in this
 * one. < 0 only when out of memory.
 */
int kp_symbolizer_resolve_all(struct kp_symbolizer *s, const struct kp_symbolizer_request *request,
			      size_t count, const struct kp_symbolizer_limits *limits,
			      struct kp_symbolizer_rest *ret, struct kp_err *err);

/* Files from a debuginfod server. */
struct kp_symbolizer_fetch {
	uint64_t time_ns; /* for all of them */
	uint64_t
		samples; /* of all modules: one that is in less than a hundredth of them is not worth it */
	void (*say)(void *ctx, const char *line); /* what was fetched, and what not; or NULL */
	void *ctx;
};

/*
 * kp_symbolizer_resolve_all(), while debuginfod-find fetches what modules lack in the background; then
 * once more for these. What cannot be fetched in the time costs nothing but that time.
 */
int kp_symbolizer_fetch_all(struct kp_symbolizer *s, const struct kp_symbolizer_request *request,
			    size_t count, const struct kp_symbolizer_limits *limits,
			    const struct kp_symbolizer_fetch *fetch, struct kp_symbolizer_rest *ret,
			    struct kp_err *err);

/*
 * In this process: looks up n offsets into the module's file (PC - mapping start + mapping's file offset; for an
 * image: offset into it), sorted ascending. ret: n entries, valid until kp_symbolizer_destroy().
 * An address that nothing is known of, or a file that is missing, damaged or another than the one
 * that ran, is no error: its entries have count 0, and kp_symbolizer_note() says why. < 0 only
 * when out of memory.
 */
int kp_symbolizer_resolve(struct kp_symbolizer *s, uint32_t module, const uint64_t *file_offset,
			  size_t n, struct kp_frames *ret, struct kp_err *err);

/*
 * n bytes of the module's file from file_offset on: kp_code_read() of code.h. How many there are.
 */
size_t kp_symbolizer_code(const struct kp_symbolizer *s, uint32_t module, uint64_t file_offset,
			  void *ret, size_t n);

/*
 * One line in plain words on why the module has no (or poorer) names, e.g. "/usr/bin/x: the file
 * is another build than the one that ran"; NULL if there is nothing to say. Valid after resolve.
 */
const char *kp_symbolizer_note(const struct kp_symbolizer *s, uint32_t module);
