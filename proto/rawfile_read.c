/*
 * Raw profiles, the reading half: bytes of a file in memory to struct kp_raw_record, one at a
 * time. Trusts nothing in the file; strings of a record point into the span. Runs
 * wherever a raw profile is looked at; the only state is the caller's struct kp_raw_reader.
 */
#include "proto/rawfile.h"

#include "proto/rawfile_layout.h"

#include <assert.h>
#include <string.h>

int kp_raw_reader_init(struct kp_raw_reader *r, const void *data, size_t size, const char *name,
		       struct kp_err *err)
{
	struct kp_raw_file_header header;

	assert((uintptr_t)data % 8 == 0);
	if (size < sizeof(header))
		return kp_fail(err, KP_EBADDATA,
			       "%s: not a raw profile of kitprof: only %zu bytes long", name, size);
	memcpy(&header, data, sizeof(header));
	if (memcmp(header.magic, KP_RAW_MAGIC, sizeof(header.magic)) != 0)
		return kp_fail(err, KP_EBADDATA,
			       "%s: not a raw profile of kitprof: does not start with \"%s\"", name,
			       KP_RAW_MAGIC);
	if (header.version < 1 || header.version > KP_RAW_VERSION)
		return kp_fail(
			err, KP_EBADDATA,
			"%s: raw profile of format version %u; this kitprof reads versions 1 to %u",
			name, header.version, KP_RAW_VERSION);
	if (header.header_bytes < sizeof(header) || header.header_bytes % 8 != 0 ||
	    header.header_bytes > size)
		return kp_fail(err, KP_EBADDATA, "%s: offset 12: file header of %u bytes", name,
			       header.header_bytes);
	*r = (struct kp_raw_reader){
		.data = data,
		.size = size,
		.offset = header.header_bytes,
		.name = name,
		.version = header.version,
	};
	return 0;
}

/* One record whose head has been checked: size bytes that lie in the span. */
struct bytes {
	const uint8_t *at;
	uint32_t size;
};

/* A string behind the fixed part; NULL, or what is wrong with it. */
static const char *get_string(struct bytes b, size_t fixed_bytes, struct disk_string place,
			      uint32_t max, struct kp_raw_string *ret)
{
	if (place.len > max)
		return "a string in it is too long";
	if (place.off < fixed_bytes || place.off > b.size || place.len > b.size - place.off)
		return "a string of it lies outside of it";
	ret->text = (const char *)b.at + place.off;
	ret->len = place.len;
	return NULL;
}

static const char *decode_session(struct bytes b, struct kp_raw_record *ret)
{
	struct disk_session d;
	const char *fault;

	memcpy(&d, b.at, sizeof(d));
	ret->session = (struct kp_raw_session){
		.start_unix_ns = d.start_unix_ns,
		.elf_machine = d.elf_machine,
		.rate_mhz = d.rate_mhz,
		.depth = d.depth,
		.mode = d.mode,
	};
	fault = get_string(b, sizeof(d), d.command, KP_RAW_STRING_MAX, &ret->session.command);
	if (!fault)
		fault = get_string(b, sizeof(d), d.host, KP_RAW_STRING_MAX, &ret->session.host);
	if (!fault)
		fault = get_string(b, sizeof(d), d.creator, KP_RAW_STRING_MAX,
				   &ret->session.creator);
	return fault;
}

static const char *decode_process(struct bytes b, struct kp_raw_record *ret)
{
	struct disk_process d;
	const char *fault;

	memcpy(&d, b.at, sizeof(d));
	ret->process = (struct kp_raw_process){ .pid = d.pid, .parent = d.parent };
	fault = get_string(b, sizeof(d), d.comm, KP_RAW_STRING_MAX, &ret->process.comm);
	if (!fault)
		fault = get_string(b, sizeof(d), d.exe, KP_RAW_STRING_MAX, &ret->process.exe);
	return fault;
}

static const char *decode_thread(struct bytes b, struct kp_raw_record *ret)
{
	struct disk_thread d;

	memcpy(&d, b.at, sizeof(d));
	ret->thread = (struct kp_raw_thread){ .pid = d.pid, .tid = d.tid };
	return get_string(b, sizeof(d), d.comm, KP_RAW_STRING_MAX, &ret->thread.comm);
}

static const char *decode_module(struct bytes b, struct kp_raw_record *ret)
{
	struct disk_module d;
	const char *fault;

	memcpy(&d, b.at, sizeof(d));
	ret->module = (struct kp_raw_module){
		.pid = d.pid, .start = d.start, .end = d.end, .file_offset = d.file_offset
	};
	fault = get_string(b, sizeof(d), d.path, KP_RAW_STRING_MAX, &ret->module.path);
	if (!fault)
		fault = get_string(b, sizeof(d), d.build_id, KP_RAW_STRING_MAX,
				   &ret->module.build_id);
	return fault;
}

static const char *decode_image(struct bytes b, struct kp_raw_record *ret)
{
	struct disk_image d;
	const char *fault;

	memcpy(&d, b.at, sizeof(d));
	fault = get_string(b, sizeof(d), d.path, KP_RAW_STRING_MAX, &ret->image.path);
	if (!fault)
		fault = get_string(b, sizeof(d), d.bytes, KP_RAW_RECORD_MAX, &ret->image.bytes);
	return fault;
}

static const char *decode_clock(struct bytes b, struct kp_raw_record *ret)
{
	struct disk_clock d;

	memcpy(&d, b.at, sizeof(d));
	ret->clock = (struct kp_raw_clock){
		.source = d.source,
		.signal = d.signal,
		.period_ns = d.period_ns,
		.kernel = d.kernel,
	};
	return get_string(b, sizeof(d), d.name, KP_RAW_STRING_MAX, &ret->clock.name);
}

static const char *decode_time(struct bytes b, struct kp_raw_record *ret)
{
	struct disk_time d;

	memcpy(&d, b.at, sizeof(d));
	ret->time.elapsed_ns = d.elapsed_ns;
	return NULL;
}

static const char *get_pcs(struct kp_raw_reader *r, struct bytes b, uint32_t depth)
{
	const uint32_t fixed_bytes = sizeof(struct disk_sample);
	uint32_t room = b.size - fixed_bytes;
	int used;

	if (depth > KP_DEPTH_MAX)
		return "its depth is out of range";
	if (r->version == 1) {
		if (room != depth * 8)
			return "its size does not fit its depth";
		memcpy(r->pc, b.at + fixed_bytes, room);
		return NULL;
	}
	used = kp_raw_unpack_pcs(b.at + fixed_bytes, room, depth, r->pc);
	if (used < 0)
		return "its frames make no sense";
	if (room - (uint32_t)used >= 8)
		return "its size does not fit its depth";
	for (uint32_t i = (uint32_t)used; i < room; i++)
		if (b.at[fixed_bytes + i])
			return "its size does not fit its depth";
	return NULL;
}

static const char *decode_sample(struct kp_raw_reader *r, struct bytes b, struct kp_raw_record *ret)
{
	struct disk_sample d;

	memcpy(&d, b.at, sizeof(d));
	ret->sample = (struct kp_raw_sample){
		.pid = d.pid,
		.tid = d.tid,
		.weight_ns = d.weight_ns,
		.depth = d.depth,
		.source = d.source,
		.walk_end = d.walk_end,
		.overrun = d.overrun,
		.how = d.head.flags,
		.pc = r->pc,
	};
	return get_pcs(r, b, d.depth);
}

static const char *decode_tally(struct bytes b, struct kp_raw_record *ret)
{
	struct disk_tally d;

	memcpy(&d, b.at, sizeof(d));
	ret->tally = (struct kp_raw_tally){
		.pid = d.pid,
		.tid = d.tid,
		.cpu_ns = d.cpu_ns,
		.blind_ns = d.blind_ns,
		.delay_ns = d.delay_ns,
		.flags = d.flags,
	};
	return NULL;
}

static const char *decode_symbol(struct bytes b, struct kp_raw_record *ret)
{
	struct disk_symbol d;

	memcpy(&d, b.at, sizeof(d));
	ret->symbol = (struct kp_raw_symbol){ .pid = d.pid, .start = d.start, .end = d.end };
	return get_string(b, sizeof(d), d.name, KP_RAW_STRING_MAX, &ret->symbol.name);
}

static struct kp_raw_lost lost(const struct disk_sums *d)
{
	return (struct kp_raw_lost){
		.taken = d->taken,
		.kept = d->kept,
		.dropped_full = d->dropped_full,
		.dropped_cap = d->dropped_cap,
		.abandoned = d->abandoned,
		.bad = d->bad,
	};
}

static const char *decode_lost(struct bytes b, struct kp_raw_record *ret)
{
	struct disk_lost d;

	memcpy(&d, b.at, sizeof(d));
	ret->lost = lost(&d.sums);
	return NULL;
}

static const char *decode_end(struct bytes b, struct kp_raw_record *ret)
{
	struct disk_end d = { .head = { 0 } };

	if (b.size != DISK_END_BYTES_1 && b.size != sizeof(d))
		return "its size is that of no version";
	memcpy(&d, b.at, b.size);
	ret->end = (struct kp_raw_end){
		.window_ns = d.window_ns,
		.cpu_ns = d.cpu_ns,
		.stop_attach_ns = d.stop_attach_ns,
		.stop_detach_ns = d.stop_detach_ns,
		.own_cpu_ns = d.own_cpu_ns,
		.why = d.why,
		.threads_seen = d.threads_seen,
		.threads_unsampled = d.threads_unsampled,
		.exit_status = d.exit_status,
		.overruns = d.overruns,
		.lost = lost(&d.sums),
		.refused = d.refused,
		.privileged = d.privileged,
		.missed = d.missed,
		.clamped = d.clamped,
		.missed_cpu_ns = d.missed_cpu_ns,
		.stops = d.stops,
		.stops_ns = d.stops_ns,
		.modules = d.modules,
		.modules_with_table = d.modules_with_table,
	};
	return NULL;
}

/*
 * How to read a type: its fixed part with the head, whether more may follow, and its decoder (NULL:
 * decode_sample).
 */
static const struct decoder {
	uint16_t fixed_bytes;
	uint16_t has_tail;
	const char *(*decode)(struct bytes b, struct kp_raw_record *ret);
} decoders[] = {
	[KP_RAW_SESSION] = { sizeof(struct disk_session), 1, decode_session },
	[KP_RAW_PROCESS] = { sizeof(struct disk_process), 1, decode_process },
	[KP_RAW_THREAD] = { sizeof(struct disk_thread), 1, decode_thread },
	[KP_RAW_MODULE] = { sizeof(struct disk_module), 1, decode_module },
	[KP_RAW_IMAGE] = { sizeof(struct disk_image), 1, decode_image },
	[KP_RAW_CLOCK] = { sizeof(struct disk_clock), 1, decode_clock },
	[KP_RAW_TIME] = { sizeof(struct disk_time), 0, decode_time },
	[KP_RAW_SAMPLE] = { sizeof(struct disk_sample), 1, NULL },
	[KP_RAW_LOST] = { sizeof(struct disk_lost), 0, decode_lost },
	[KP_RAW_END] = { DISK_END_BYTES_1, 1, decode_end },
	[KP_RAW_TALLY] = { sizeof(struct disk_tally), 0, decode_tally },
	[KP_RAW_SYMBOL] = { sizeof(struct disk_symbol), 1, decode_symbol },
};

static const char *decode(struct kp_raw_reader *r, const struct kp_raw_head *head,
			  const uint8_t *at, struct kp_raw_record *ret)
{
	const struct decoder *decoder = &decoders[head->type];
	struct bytes b = { .at = at, .size = head->size };
	const char *fault;

	if (head->flags != 0 && head->type != KP_RAW_SAMPLE)
		return "its flags are unknown";
	if (head->size < decoder->fixed_bytes)
		return "it is too short";
	if (head->size > decoder->fixed_bytes && !decoder->has_tail)
		return "it is too long";
	ret->type = (enum kp_raw_type)head->type;
	fault = decoder->decode ? decoder->decode(b, ret) : decode_sample(r, b, ret);
	return fault ? fault : kp_raw_fault(ret);
}

int kp_raw_read(struct kp_raw_reader *r, struct kp_raw_record *ret, struct kp_err *err)
{
	for (;;) {
		size_t left = r->size - r->offset;
		const char *name, *fault;
		struct kp_raw_head head;

		if (left == 0)
			return KP_RAW_EOF;
		if (left < sizeof(head))
			return KP_RAW_CUT;
		memcpy(&head, r->data + r->offset, sizeof(head));
		name = kp_raw_type_name(head.type);
		if (head.size < sizeof(head) || head.size % 8 != 0 || head.size > KP_RAW_RECORD_MAX)
			return kp_fail(err, KP_EBADDATA,
				       "%s: offset %zu: record of type %u (%s) with a size of %u",
				       r->name, r->offset, head.type, name ? name : "unknown",
				       head.size);
		if (head.size > left)
			return KP_RAW_CUT;
		if (name) {
			ret->offset = r->offset;
			fault = decode(r, &head, r->data + r->offset, ret);
			if (fault)
				return kp_fail(err, KP_EBADDATA, "%s: offset %zu: %s record: %s",
					       r->name, r->offset, name, fault);
		}
		r->offset += head.size;
		if (name)
			return KP_RAW_RECORD;
	}
}
