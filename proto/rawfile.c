/*
 * What the writer and the reader of raw profiles share: the names of the record types and the
 * rules that the values of a record keep. Writing is in rawfile_write.c, reading in
 * rawfile_read.c. Runs in the daemon and the command, in any thread; no state, no I/O.
 */
#include "proto/rawfile.h"

#include "common/unwind/walk.h"
#include "proto/rawfile_layout.h"
#include "proto/ring.h"

#include <string.h>

struct kp_raw_string kp_raw_string(const char *text)
{
	size_t len = text ? strlen(text) : 0;

	if (len > KP_RAW_STRING_MAX)
		len = KP_RAW_STRING_MAX;
	return (struct kp_raw_string){ .text = text ? text : "", .len = (uint32_t)len };
}

const char *kp_raw_type_name(uint32_t type)
{
	static const char *const names[] = {
		[KP_RAW_SESSION] = "SESSION", [KP_RAW_PROCESS] = "PROCESS",
		[KP_RAW_THREAD] = "THREAD",   [KP_RAW_MODULE] = "MODULE",
		[KP_RAW_IMAGE] = "IMAGE",     [KP_RAW_CLOCK] = "CLOCK",
		[KP_RAW_TIME] = "TIME",	      [KP_RAW_SAMPLE] = "SAMPLE",
		[KP_RAW_LOST] = "LOST",	      [KP_RAW_END] = "END",
		[KP_RAW_TALLY] = "TALLY",     [KP_RAW_SYMBOL] = "SYMBOL",
	};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
}

static int is_source(uint32_t source)
{
	return source >= KP_SOURCE_TIMER && source <= KP_SOURCE_LAST;
}

static const char *session_fault(const struct kp_raw_session *r)
{
	if (r->mode < KP_RAW_MODE_RUN || r->mode > KP_RAW_MODE_ALL)
		return "its mode is unknown";
	if (r->depth < 1 || r->depth > KP_DEPTH_MAX)
		return "its depth is out of range";
	return NULL;
}

static const char *clock_fault(const struct kp_raw_clock *r)
{
	if (!is_source(r->source))
		return "its source is unknown";
	if (r->kernel > 2)
		return "its kernel field is unknown";
	return NULL;
}

static const char *sample_fault(const struct kp_raw_sample *r)
{
	if (r->depth < 1 || r->depth > KP_DEPTH_MAX)
		return "its depth is out of range";
	if (!is_source(r->source))
		return "its source is unknown";
	if (r->walk_end >= KP_WALK_END_COUNT)
		return "its end of the walk is unknown";
	if (r->how & ~KP_HOW_ALL)
		return "its flags are unknown";
	return NULL;
}

const char *kp_raw_fault(const struct kp_raw_record *record)
{
	switch (record->type) {
	case KP_RAW_SESSION:
		return session_fault(&record->session);
	case KP_RAW_MODULE:
		return record->module.start < record->module.end ? NULL
								 : "it ends before it starts";
	case KP_RAW_SYMBOL:
		return record->symbol.start < record->symbol.end ? NULL
								 : "it ends before it starts";
	case KP_RAW_CLOCK:
		return clock_fault(&record->clock);
	case KP_RAW_SAMPLE:
		return sample_fault(&record->sample);
	case KP_RAW_END:
		if (record->end.why < KP_RAW_END_TARGET || record->end.why > KP_RAW_END_HANDLER)
			return "its reason for the end is unknown";
		return NULL;
	case KP_RAW_TALLY:
		return record->tally.flags & ~KP_TALLY_ALL ? "its flags are unknown" : NULL;
	case KP_RAW_PROCESS:
	case KP_RAW_THREAD:
	case KP_RAW_IMAGE:
	case KP_RAW_TIME:
	case KP_RAW_LOST:
		return NULL;
	}
	return NULL;
}
