/*
 * The raw profile (*.kitprof): what was sampled, before anything is looked up. Append-only, every
 * prefix of a file is readable; docs/raw-format.md describes the bytes. No I/O here: the writer
 * hands bytes to a callback, the reader works on a span of memory.
 *
 * A file is a struct kp_raw_file_header and then records, each a struct kp_raw_head followed by
 * its payload, padded with zeros to a multiple of 8. Everything is little-endian. Records of an
 * unknown type are skipped by their size. Facts come before what refers to them: a PROCESS before
 * its THREADs and MODULEs, a THREAD before its SAMPLEs. A later record for the same pid, tid or
 * address range replaces the earlier one from there on (exec, tid reuse, dlopen).
 */
#pragma once

#include "common/err.h"
#include "proto/ring.h"

#include <stddef.h>
#include <stdint.h>

#define KP_RAW_MAGIC "KITPROF" /* 8 bytes with the NUL */
#define KP_RAW_VERSION 2u /* 1 is read too: it had no TALLY, a shorter END, plainer SAMPLEs */
#define KP_RAW_RECORD_MAX (16u << 20) /* bytes of a record at most, head included */
#define KP_RAW_STRING_MAX 65535u

struct kp_raw_file_header {
	char magic[8];
	uint32_t version;
	uint32_t header_bytes; /* where the first record starts */
};
_Static_assert(sizeof(struct kp_raw_file_header) == 16, "on disk");

enum kp_raw_type {
	KP_RAW_SESSION = 1,
	KP_RAW_PROCESS = 2,
	KP_RAW_THREAD = 3,
	KP_RAW_MODULE = 4,
	KP_RAW_IMAGE = 5,
	KP_RAW_CLOCK = 6,
	KP_RAW_TIME = 7,
	KP_RAW_SAMPLE = 8,
	KP_RAW_LOST = 9,
	KP_RAW_END = 10,
	KP_RAW_TALLY = 11,
	KP_RAW_SYMBOL = 12,
};

struct kp_raw_head {
	uint16_t type;
	uint16_t flags; /* of a SAMPLE: kp_raw_sample.how; else 0 */
	uint32_t size; /* of the whole record, head and padding included; a multiple of 8 */
};
_Static_assert(sizeof(struct kp_raw_head) == 8, "on disk");

/* Bytes inside a record; not NUL-terminated, any content. Lives as long as the span read from. */
struct kp_raw_string {
	const char *text;
	uint32_t len;
};

/* First record. */
struct kp_raw_session {
	uint64_t start_unix_ns; /* wall clock (UTC) at the start of the window */
	uint32_t elf_machine; /* EM_... of the target */
	uint32_t rate_mhz; /* rate asked for, in thousandths of a hertz */
	uint32_t depth; /* frames per sample at most */
	uint32_t mode; /* enum kp_raw_mode */
	struct kp_raw_string command; /* run: the command line, words separated by a space */
	struct kp_raw_string host; /* node name */
	struct kp_raw_string creator; /* "kitprof 0.1.0" */
};
enum kp_raw_mode {
	KP_RAW_MODE_RUN = 1,
	KP_RAW_MODE_ATTACH = 2,
	KP_RAW_MODE_ALL = 3, /* attach, to all processes of a user; no PROCESS is the target */
};

/*
 * A process with parent was forked from that one: until MODULEs of its own follow, what is mapped in
 * it is what was mapped in the parent at this record.
 */
struct kp_raw_process {
	uint32_t pid; /* in the daemon's pid namespace */
	uint32_t parent; /* pid, or 0 */
	struct kp_raw_string comm;
	struct kp_raw_string exe; /* path as the target sees it */
};

struct kp_raw_thread {
	uint32_t pid;
	uint32_t tid; /* in the daemon's pid namespace */
	struct kp_raw_string comm;
};

/* A file mapped executable, [start, end) in the target. */
struct kp_raw_module {
	uint32_t pid;
	uint64_t start;
	uint64_t end;
	uint64_t file_offset; /* of start */
	struct kp_raw_string path; /* as the target sees it; "[vdso]", "//anon" without a file */
	struct kp_raw_string build_id; /* bytes of the GNU build id note, or empty */
};

/* The ELF image of a module that is no file (the vdso); tied to MODULE by its build id and path. */
struct kp_raw_image {
	struct kp_raw_string path;
	struct kp_raw_string bytes;
};

/*
 * A function in memory that no file is behind, [start, end), as the program itself has told it (a
 * JIT compiler's perf map). Holds for all samples of the process; a later one replaces what it
 * covers.
 */
struct kp_raw_symbol {
	uint32_t pid;
	uint64_t start;
	uint64_t end;
	struct kp_raw_string name;
};

/* A clock that is used from here on. */
struct kp_raw_clock {
	uint32_t source; /* enum kp_sample_source */
	uint32_t signal; /* number */
	uint64_t period_ns; /* asked of the clock */
	uint32_t kernel; /* 1: its samples count kernel time as well as user time; 2: kernel only */
	struct kp_raw_string name; /* "cpu-timer", "task-clock", "cycles" */
};

/* Samples that follow were drained at this time, ns since the start of the window. */
struct kp_raw_time {
	uint64_t elapsed_ns;
};

struct kp_raw_sample {
	uint32_t pid;
	uint32_t tid;
	uint64_t weight_ns; /* time it stands for: period * (1 + overrun); CPU, or waiting (WAIT) */
	uint16_t depth; /* number of PCs, 1..KP_DEPTH_MAX */
	uint8_t source; /* enum kp_sample_source */
	uint8_t walk_end; /* enum kp_walk_end */
	uint32_t overrun;
	uint16_t how; /* set of enum kp_walk_how; 0: not known (version 1) */
	const uint64_t
		*pc; /* leaf first, callers are return addresses; read: until the next record */
};

/*
 * What the kernel says of a thread's part of the window: when it has ended or executes another
 * program, or at the end. Several for one tid are one after another: their times add up.
 */
struct kp_raw_tally {
	uint32_t pid;
	uint32_t tid;
	uint64_t cpu_ns; /* CPU time that it used in the window */
	uint64_t blind_ns; /* of that, before a clock ran for it: it could not be sampled then */
	uint64_t delay_ns; /* time that it waited for a CPU; 0 also where that is not known */
	uint32_t flags; /* set of enum kp_raw_tally_flag */
};
enum kp_raw_tally_flag {
	KP_TALLY_PRESENT = 1, /* it lived when the window ended */
	KP_TALLY_BLOCKED = 2, /* it blocks the sampling signal */
	KP_TALLY_STOPPED = 4, /* it was sampled in short stops instead */
	KP_TALLY_UNARMED = 8, /* no clock could be started for it */
	KP_TALLY_ENDED = 16, /* it has ended; cpu_ns is all but what that took */
};
#define KP_TALLY_ALL 31u

/* Sums since the start; the last one counts. Also part of END. */
struct kp_raw_lost {
	uint64_t taken;
	uint64_t kept;
	uint64_t dropped_full;
	uint64_t dropped_cap;
	uint64_t abandoned;
	uint64_t bad;
};

enum kp_raw_end_why {
	KP_RAW_END_TARGET = 1, /* the target ended */
	KP_RAW_END_TIME = 2, /* -d */
	KP_RAW_END_SIGNAL = 3, /* the user ended it */
	KP_RAW_END_FULL = 4, /* --cap was reached: buffer_full */
	KP_RAW_END_HANDLER = 5, /* the target took the signal for itself */
};

/* Last record. A file without one was cut off. */
struct kp_raw_end {
	uint64_t window_ns; /* length of the window */
	uint64_t cpu_ns; /* CPU time that the target used in it, from the kernel; 0 unknown */
	uint64_t stop_attach_ns; /* time that the target's thread stood still to attach */
	uint64_t stop_detach_ns;
	uint64_t own_cpu_ns; /* CPU time that kitprof itself used in the window */
	uint32_t why; /* enum kp_raw_end_why */
	uint32_t threads_seen;
	uint32_t threads_unsampled; /* no clock could be armed for them */
	uint32_t exit_status; /* as wait(2) gives it; run only, 0 otherwise */
	uint64_t overruns; /* timer expirations that shared a signal with another */
	uint32_t refused; /* programs that were met on the way and could not be sampled */
	uint32_t privileged; /* of those, because they run with other rights (set-uid) */
	uint32_t missed; /* threads and processes that ended before a clock ran for them */
	uint32_t clamped; /* set of enum kp_raw_clamped */
	uint64_t missed_cpu_ns; /* CPU time that those used, as far as it is known */
	uint64_t stops; /* stops of threads to sample them (not to attach) */
	uint64_t stops_ns; /* time that threads stood still in those */
	uint32_t modules; /* executable mappings seen */
	uint32_t modules_with_table; /* of those, with an unwind table in the target */
	struct kp_raw_lost lost;
};

enum kp_raw_clamped {
	KP_CLAMPED_RATE = 1, /* sampling in stops: at most 1000 Hz */
	KP_CLAMPED_TIME = 2, /* sampling in stops: at most 60 s of a session */
};

/* ---- writing ---- */

/* Takes bytes to append. Returns 0 or < 0, which the kp_raw_put function then returns. */
typedef int (*kp_raw_write_fn)(void *ctx, const void *data, size_t size, struct kp_err *err);

struct kp_raw_writer {
	kp_raw_write_fn write;
	void *ctx;
};

/* Strings longer than KP_RAW_STRING_MAX (an image: than KP_RAW_RECORD_MAX allows) are cut. */
int kp_raw_put_header(struct kp_raw_writer *w, struct kp_err *err);
int kp_raw_put_session(struct kp_raw_writer *w, const struct kp_raw_session *r, struct kp_err *err);
int kp_raw_put_process(struct kp_raw_writer *w, const struct kp_raw_process *r, struct kp_err *err);
int kp_raw_put_thread(struct kp_raw_writer *w, const struct kp_raw_thread *r, struct kp_err *err);
int kp_raw_put_module(struct kp_raw_writer *w, const struct kp_raw_module *r, struct kp_err *err);
int kp_raw_put_image(struct kp_raw_writer *w, const struct kp_raw_image *r, struct kp_err *err);
int kp_raw_put_symbol(struct kp_raw_writer *w, const struct kp_raw_symbol *r, struct kp_err *err);
int kp_raw_put_clock(struct kp_raw_writer *w, const struct kp_raw_clock *r, struct kp_err *err);
int kp_raw_put_time(struct kp_raw_writer *w, const struct kp_raw_time *r, struct kp_err *err);
int kp_raw_put_sample(struct kp_raw_writer *w, const struct kp_raw_sample *r, struct kp_err *err);
int kp_raw_put_tally(struct kp_raw_writer *w, const struct kp_raw_tally *r, struct kp_err *err);
int kp_raw_put_lost(struct kp_raw_writer *w, const struct kp_raw_lost *r, struct kp_err *err);
int kp_raw_put_end(struct kp_raw_writer *w, const struct kp_raw_end *r, struct kp_err *err);

/* A NUL-terminated string as a kp_raw_string; NULL gives the empty one. */
struct kp_raw_string kp_raw_string(const char *text);

/* ---- reading ---- */

/* One decoded record; which member holds is said by type. */
struct kp_raw_record {
	enum kp_raw_type type;
	size_t offset; /* of the record in the file */
	union {
		struct kp_raw_session session;
		struct kp_raw_process process;
		struct kp_raw_thread thread;
		struct kp_raw_module module;
		struct kp_raw_image image;
		struct kp_raw_clock clock;
		struct kp_raw_time time;
		struct kp_raw_sample sample;
		struct kp_raw_tally tally;
		struct kp_raw_symbol symbol;
		struct kp_raw_lost lost;
		struct kp_raw_end end;
	};
};

struct kp_raw_reader {
	const uint8_t *data; /* 8-aligned */
	size_t size;
	size_t offset; /* of the next record */
	const char *name; /* for messages */
	uint32_t version;
	uint64_t pc[KP_DEPTH_MAX]; /* of the last SAMPLE */
};

enum kp_raw_result {
	KP_RAW_RECORD = 0, /* *ret is filled in */
	KP_RAW_EOF = 1, /* the file ends at a record's border */
	KP_RAW_CUT = 2, /* the file ends inside a record, at reader->offset; all before is good */
};

/*
 * Checks the file header. data must be 8-aligned and stay while the reader and its records are in
 * use. < 0: not a raw profile, or of a version that this build does not know.
 */
int kp_raw_reader_init(struct kp_raw_reader *r, const void *data, size_t size, const char *name,
		       struct kp_err *err);

/*
 * The next record of a known type; a SAMPLE's PCs are in the reader, which must not be moved. An
 * enum kp_raw_result, or -KP_EBADDATA when the record at reader->offset is not well formed (then the
 * reader stays there; what came before is good).
 */
int kp_raw_read(struct kp_raw_reader *r, struct kp_raw_record *ret, struct kp_err *err);
