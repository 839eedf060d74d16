/*
 * rawdump FILE.kitprof: a raw profile as text, one record a line, for the scripts of tests/e2e.
 * Numbers come as key=value, text comes last. Ends with 1 at a record that is not well formed and
 * with 3 where the file was cut off; what comes before is printed in both cases.
 */
#include "proto/rawfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void put_text(const char *key, struct kp_raw_string s)
{
	printf(" %s=%.*s", key, (int)s.len, s.text);
}

static void put_hex(const char *key, struct kp_raw_string s)
{
	printf(" %s=", key);
	for (uint32_t i = 0; i < s.len; i++)
		printf("%02x", (unsigned char)s.text[i]);
}

static void put_sums(const struct kp_raw_lost *sums)
{
	printf(" taken=%" PRIu64 " kept=%" PRIu64 " dropped_full=%" PRIu64 " dropped_cap=%" PRIu64
	       " abandoned=%" PRIu64 " bad=%" PRIu64,
	       sums->taken, sums->kept, sums->dropped_full, sums->dropped_cap, sums->abandoned,
	       sums->bad);
}

static void put_session(const struct kp_raw_session *r)
{
	printf("session start_unix_ns=%" PRIu64 " machine=%u rate_mhz=%u depth=%u mode=%u",
	       r->start_unix_ns, r->elf_machine, r->rate_mhz, r->depth, r->mode);
	put_text("creator", r->creator);
	put_text("host", r->host);
	put_text("command", r->command);
}

static void put_module(const struct kp_raw_module *r)
{
	printf("module pid=%u start=%#" PRIx64 " end=%#" PRIx64 " offset=%#" PRIx64, r->pid,
	       r->start, r->end, r->file_offset);
	put_hex("build_id", r->build_id);
	put_text("path", r->path);
}

static void put_clock(const struct kp_raw_clock *r)
{
	printf("clock source=%u signal=%u period_ns=%" PRIu64 " kernel=%u", r->source, r->signal,
	       r->period_ns, r->kernel);
	put_text("name", r->name);
}

static void put_sample(const struct kp_raw_sample *r)
{
	printf("sample pid=%u tid=%u weight_ns=%" PRIu64
	       " source=%u overrun=%u walk_end=%u depth=%u pc=",
	       r->pid, r->tid, r->weight_ns, r->source, r->overrun, r->walk_end, r->depth);
	for (unsigned i = 0; i < r->depth; i++)
		printf("%s%" PRIx64, i ? "," : "", r->pc[i]);
}

static void put_end(const struct kp_raw_end *r)
{
	printf("end window_ns=%" PRIu64 " cpu_ns=%" PRIu64 " stop_attach_ns=%" PRIu64
	       " stop_detach_ns=%" PRIu64 " own_cpu_ns=%" PRIu64
	       " why=%u threads_seen=%u threads_unsampled=%u exit_status=%u overruns=%" PRIu64
	       " modules=%u modules_with_table=%u stops=%" PRIu64 " stops_ns=%" PRIu64
	       " clamped=%u refused=%u privileged=%u missed=%u missed_cpu_ns=%" PRIu64,
	       r->window_ns, r->cpu_ns, r->stop_attach_ns, r->stop_detach_ns, r->own_cpu_ns, r->why,
	       r->threads_seen, r->threads_unsampled, r->exit_status, r->overruns, r->modules,
	       r->modules_with_table, r->stops, r->stops_ns, r->clamped, r->refused, r->privileged,
	       r->missed, r->missed_cpu_ns);
	put_sums(&r->lost);
}

static void put(const struct kp_raw_record *r)
{
	switch (r->type) {
	case KP_RAW_SESSION:
		put_session(&r->session);
		break;
	case KP_RAW_PROCESS:
		printf("process pid=%u", r->process.pid);
		put_text("comm", r->process.comm);
		put_text("exe", r->process.exe);
		break;
	case KP_RAW_THREAD:
		printf("thread pid=%u tid=%u", r->thread.pid, r->thread.tid);
		put_text("comm", r->thread.comm);
		break;
	case KP_RAW_MODULE:
		put_module(&r->module);
		break;
	case KP_RAW_IMAGE:
		printf("image bytes=%u", r->image.bytes.len);
		put_text("path", r->image.path);
		break;
	case KP_RAW_CLOCK:
		put_clock(&r->clock);
		break;
	case KP_RAW_TIME:
		printf("time elapsed_ns=%" PRIu64, r->time.elapsed_ns);
		break;
	case KP_RAW_SAMPLE:
		put_sample(&r->sample);
		break;
	case KP_RAW_SYMBOL:
		printf("symbol pid=%u start=%#" PRIx64 " end=%#" PRIx64, r->symbol.pid,
		       r->symbol.start, r->symbol.end);
		put_text("name", r->symbol.name);
		break;
	case KP_RAW_TALLY:
		printf("tally pid=%u tid=%u cpu_ns=%" PRIu64 " blind_ns=%" PRIu64
		       " delay_ns=%" PRIu64 " flags=%u",
		       r->tally.pid, r->tally.tid, r->tally.cpu_ns, r->tally.blind_ns,
		       r->tally.delay_ns, r->tally.flags);
		break;
	case KP_RAW_LOST:
		printf("lost");
		put_sums(&r->lost);
		break;
	case KP_RAW_END:
		put_end(&r->end);
		break;
	}
	putchar('\n');
}

static void *read_whole(const char *path, size_t *ret_size)
{
	FILE *f = fopen(path, "rb");
	size_t room = 1 << 16, n;
	char *data = f ? malloc(room) : NULL; /* aligned for any type, so 8-aligned */

	*ret_size = 0;
	while (data && (n = fread(data + *ret_size, 1, room - *ret_size, f)) > 0) {
		*ret_size += n;
		if (*ret_size == room)
			data = realloc(data, room *= 2);
	}
	if (f)
		fclose(f);
	return data;
}

int main(int argc, char **argv)
{
	struct kp_raw_record record;
	struct kp_raw_reader reader;
	struct kp_err err;
	size_t size = 0;
	void *data = argc == 2 ? read_whole(argv[1], &size) : NULL;
	int r;

	if (!data) {
		fprintf(stderr, "rawdump: cannot read FILE.kitprof\n");
		return 2;
	}
	r = kp_raw_reader_init(&reader, data, size, argv[1], &err);
	while (r == 0) {
		r = kp_raw_read(&reader, &record, &err);
		if (r == KP_RAW_RECORD)
			put(&record);
	}
	free(data);
	if (r < 0)
		fprintf(stderr, "rawdump: %s\n", err.text);
	return r < 0 ? 1 : r == KP_RAW_CUT ? 3 : 0;
}
