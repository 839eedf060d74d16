/*
 * Raw profiles, the writing half: struct kp_raw_... to bytes, handed to the caller's callback. A
 * record of up to OUT_BYTES is one call, a longer one several; nothing is allocated. Runs in the
 * daemon, in whatever thread owns the writer.
 */
#include "proto/rawfile.h"

#include "proto/rawfile_layout.h"
#include "proto/ring.h"

#include <stddef.h>
#include <string.h>

#define OUT_BYTES 4096u

/* Bytes on their way to the callback. Keeps the first failure; after it nothing is written. */
struct out {
	struct kp_raw_writer *writer;
	struct kp_err *err;
	int result;
	size_t used;
	uint8_t bytes[OUT_BYTES];
};

static void flush(struct out *out)
{
	if (out->result == 0 && out->used > 0)
		out->result = out->writer->write(out->writer->ctx, out->bytes, out->used, out->err);
	out->used = 0;
}

static void append(struct out *out, const void *data, size_t size)
{
	const uint8_t *next = data;

	while (size > 0) {
		size_t part = OUT_BYTES - out->used;

		if (part > size)
			part = size;
		memcpy(out->bytes + out->used, next, part);
		out->used += part;
		next += part;
		size -= part;
		if (out->used == OUT_BYTES)
			flush(out);
	}
}

/* What follows a record's fixed part: strings, whose place is noted in the fixed part, or PCs. */
struct tail {
	const void *data;
	uint32_t size;
	struct disk_string *place; /* NULL for PCs */
};

static void add_string(struct tail *tail, struct disk_string *place, struct kp_raw_string s,
		       uint32_t max)
{
	tail->data = s.text;
	tail->size = s.len < max ? s.len : max;
	tail->place = place;
}

/* Fills in the head and the places, and writes the record: fixed part, tails, padding. */
static int put_flagged(struct kp_raw_writer *w, enum kp_raw_type type, uint16_t flags, void *fixed,
		       size_t fixed_bytes, const struct tail *tails, size_t tail_count,
		       struct kp_err *err)
{
	static const uint8_t zeros[8];
	struct out out = { .writer = w, .err = err };
	struct kp_raw_head head = { .type = (uint16_t)type, .flags = flags };
	uint32_t end = (uint32_t)fixed_bytes;

	for (size_t i = 0; i < tail_count; i++) {
		if (tails[i].place)
			*tails[i].place = (struct disk_string){ .off = end, .len = tails[i].size };
		end += tails[i].size;
	}
	head.size = (end + 7) & ~7u;
	memcpy(fixed, &head, sizeof(head));

	append(&out, fixed, fixed_bytes);
	for (size_t i = 0; i < tail_count; i++)
		append(&out, tails[i].data, tails[i].size);
	append(&out, zeros, head.size - end);
	flush(&out);
	return out.result;
}

static int put(struct kp_raw_writer *w, enum kp_raw_type type, void *fixed, size_t fixed_bytes,
	       const struct tail *tails, size_t tail_count, struct kp_err *err)
{
	return put_flagged(w, type, 0, fixed, fixed_bytes, tails, tail_count, err);
}

/* A record that no reader would take is a mistake of the caller's, told before it is on disk. */
static int check(const struct kp_raw_record *record, struct kp_err *err)
{
	const char *fault = kp_raw_fault(record);

	if (fault)
		return kp_fail(err, KP_EBADDATA, "a %s record cannot be written: %s",
			       kp_raw_type_name(record->type), fault);
	return 0;
}

int kp_raw_put_header(struct kp_raw_writer *w, struct kp_err *err)
{
	struct kp_raw_file_header header = {
		.magic = KP_RAW_MAGIC,
		.version = KP_RAW_VERSION,
		.header_bytes = sizeof(header),
	};

	return w->write(w->ctx, &header, sizeof(header), err);
}

int kp_raw_put_session(struct kp_raw_writer *w, const struct kp_raw_session *r, struct kp_err *err)
{
	struct disk_session d = {
		.start_unix_ns = r->start_unix_ns,
		.elf_machine = r->elf_machine,
		.rate_mhz = r->rate_mhz,
		.depth = r->depth,
		.mode = r->mode,
	};
	struct tail tails[3];
	int result;

	result = check(&(struct kp_raw_record){ .type = KP_RAW_SESSION, .session = *r }, err);
	if (result < 0)
		return result;
	add_string(&tails[0], &d.command, r->command, KP_RAW_STRING_MAX);
	add_string(&tails[1], &d.host, r->host, KP_RAW_STRING_MAX);
	add_string(&tails[2], &d.creator, r->creator, KP_RAW_STRING_MAX);
	return put(w, KP_RAW_SESSION, &d, sizeof(d), tails, 3, err);
}

int kp_raw_put_process(struct kp_raw_writer *w, const struct kp_raw_process *r, struct kp_err *err)
{
	struct disk_process d = { .pid = r->pid, .parent = r->parent };
	struct tail tails[2];

	add_string(&tails[0], &d.comm, r->comm, KP_RAW_STRING_MAX);
	add_string(&tails[1], &d.exe, r->exe, KP_RAW_STRING_MAX);
	return put(w, KP_RAW_PROCESS, &d, sizeof(d), tails, 2, err);
}

int kp_raw_put_thread(struct kp_raw_writer *w, const struct kp_raw_thread *r, struct kp_err *err)
{
	struct disk_thread d = { .pid = r->pid, .tid = r->tid };
	struct tail comm;

	add_string(&comm, &d.comm, r->comm, KP_RAW_STRING_MAX);
	return put(w, KP_RAW_THREAD, &d, sizeof(d), &comm, 1, err);
}

int kp_raw_put_module(struct kp_raw_writer *w, const struct kp_raw_module *r, struct kp_err *err)
{
	struct disk_module d = {
		.pid = r->pid,
		.start = r->start,
		.end = r->end,
		.file_offset = r->file_offset,
	};
	struct tail tails[2];
	int result;

	result = check(&(struct kp_raw_record){ .type = KP_RAW_MODULE, .module = *r }, err);
	if (result < 0)
		return result;
	add_string(&tails[0], &d.path, r->path, KP_RAW_STRING_MAX);
	add_string(&tails[1], &d.build_id, r->build_id, KP_RAW_STRING_MAX);
	return put(w, KP_RAW_MODULE, &d, sizeof(d), tails, 2, err);
}

int kp_raw_put_image(struct kp_raw_writer *w, const struct kp_raw_image *r, struct kp_err *err)
{
	struct disk_image d = { .head = { 0 } };
	struct tail tails[2];

	add_string(&tails[0], &d.path, r->path, KP_RAW_STRING_MAX);
	add_string(&tails[1], &d.bytes, r->bytes,
		   KP_RAW_RECORD_MAX - (uint32_t)sizeof(d) - tails[0].size);
	return put(w, KP_RAW_IMAGE, &d, sizeof(d), tails, 2, err);
}

int kp_raw_put_symbol(struct kp_raw_writer *w, const struct kp_raw_symbol *r, struct kp_err *err)
{
	struct disk_symbol d = { .pid = r->pid, .start = r->start, .end = r->end };
	struct tail name;
	int result;

	result = check(&(struct kp_raw_record){ .type = KP_RAW_SYMBOL, .symbol = *r }, err);
	if (result < 0)
		return result;
	add_string(&name, &d.name, r->name, KP_RAW_STRING_MAX);
	return put(w, KP_RAW_SYMBOL, &d, sizeof(d), &name, 1, err);
}

int kp_raw_put_clock(struct kp_raw_writer *w, const struct kp_raw_clock *r, struct kp_err *err)
{
	struct disk_clock d = {
		.source = r->source,
		.signal = r->signal,
		.period_ns = r->period_ns,
		.kernel = r->kernel,
	};
	struct tail name;
	int result;

	result = check(&(struct kp_raw_record){ .type = KP_RAW_CLOCK, .clock = *r }, err);
	if (result < 0)
		return result;
	add_string(&name, &d.name, r->name, KP_RAW_STRING_MAX);
	return put(w, KP_RAW_CLOCK, &d, sizeof(d), &name, 1, err);
}

int kp_raw_put_time(struct kp_raw_writer *w, const struct kp_raw_time *r, struct kp_err *err)
{
	struct disk_time d = { .elapsed_ns = r->elapsed_ns };

	return put(w, KP_RAW_TIME, &d, sizeof(d), NULL, 0, err);
}

int kp_raw_put_sample(struct kp_raw_writer *w, const struct kp_raw_sample *r, struct kp_err *err)
{
	struct disk_sample d = {
		.pid = r->pid,
		.tid = r->tid,
		.weight_ns = r->weight_ns,
		.depth = r->depth,
		.source = r->source,
		.walk_end = r->walk_end,
		.overrun = r->overrun,
	};
	uint8_t packed[DISK_PCS_MAX];
	struct tail pcs = { .data = packed };
	int result;

	result = check(&(struct kp_raw_record){ .type = KP_RAW_SAMPLE, .sample = *r }, err);
	if (result < 0)
		return result;
	pcs.size = kp_raw_pack_pcs(r->pc, r->depth, packed);
	return put_flagged(w, KP_RAW_SAMPLE, r->how, &d, sizeof(d), &pcs, 1, err);
}

int kp_raw_put_tally(struct kp_raw_writer *w, const struct kp_raw_tally *r, struct kp_err *err)
{
	struct disk_tally d = {
		.pid = r->pid,
		.tid = r->tid,
		.cpu_ns = r->cpu_ns,
		.blind_ns = r->blind_ns,
		.delay_ns = r->delay_ns,
		.flags = r->flags,
	};
	int result;

	result = check(&(struct kp_raw_record){ .type = KP_RAW_TALLY, .tally = *r }, err);
	if (result < 0)
		return result;
	return put(w, KP_RAW_TALLY, &d, sizeof(d), NULL, 0, err);
}

static struct disk_sums disk_sums(const struct kp_raw_lost *r)
{
	return (struct disk_sums){
		.taken = r->taken,
		.kept = r->kept,
		.dropped_full = r->dropped_full,
		.dropped_cap = r->dropped_cap,
		.abandoned = r->abandoned,
		.bad = r->bad,
	};
}

int kp_raw_put_lost(struct kp_raw_writer *w, const struct kp_raw_lost *r, struct kp_err *err)
{
	struct disk_lost d = { .sums = disk_sums(r) };

	return put(w, KP_RAW_LOST, &d, sizeof(d), NULL, 0, err);
}

int kp_raw_put_end(struct kp_raw_writer *w, const struct kp_raw_end *r, struct kp_err *err)
{
	struct disk_end d = {
		.window_ns = r->window_ns,
		.cpu_ns = r->cpu_ns,
		.stop_attach_ns = r->stop_attach_ns,
		.stop_detach_ns = r->stop_detach_ns,
		.own_cpu_ns = r->own_cpu_ns,
		.why = r->why,
		.threads_seen = r->threads_seen,
		.threads_unsampled = r->threads_unsampled,
		.exit_status = r->exit_status,
		.overruns = r->overruns,
		.sums = disk_sums(&r->lost),
		.refused = r->refused,
		.privileged = r->privileged,
		.missed = r->missed,
		.clamped = r->clamped,
		.missed_cpu_ns = r->missed_cpu_ns,
		.stops = r->stops,
		.stops_ns = r->stops_ns,
		.modules = r->modules,
		.modules_with_table = r->modules_with_table,
	};
	int result;

	result = check(&(struct kp_raw_record){ .type = KP_RAW_END, .end = *r }, err);
	if (result < 0)
		return result;
	return put(w, KP_RAW_END, &d, sizeof(d), NULL, 0, err);
}
