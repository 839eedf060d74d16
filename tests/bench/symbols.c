/*
 * Names for a list of addresses, through the symbolizer of the product: what symbols.py measures
 * beside other tools. bench-symbols MODULE [CACHE] <addresses, hexadecimal, one a line: the function and
 * FILE:LINE of each frame, innermost first, and an empty line, as llvm-symbolizer prints them.
 * Last on stderr: seconds that the look-ups took, without reading and printing, and the most memory
 * that this process and its workers can have had: as if each had had as much as the largest.
 */
#include "common/cleanup.h"
#include "daemon/symbol/answer_cache.h"
#include "daemon/symbol/crew.h"
#include "daemon/symbol/elffile.h"
#include "daemon/symbol/symbolizer.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

struct place {
	uint64_t offset;
	size_t number; /* in the input */
};

struct places {
	struct place *place;
	size_t count, capacity;
};

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "bench-symbols: %s\n", what);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The symbolizer takes offsets in the file, the other tools addresses. */
static bool offset_of(const struct kp_elf_file *file, uint64_t address, uint64_t *ret)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct kp_elf_segment *s = &file->segment[i];

		if (address >= s->address && address - s->address < s->size) {
			*ret = address - s->address + s->offset;
			return true;
		}
	}
	return false;
}

static void read_places(const struct kp_elf_file *file, struct places *ret)
{
	uint64_t address;

	while (scanf("%" SCNx64, &address) == 1) {
		if (ret->count == ret->capacity) {
			ret->capacity = ret->capacity ? ret->capacity * 2 : 1024;
			ret->place = reallocarray(ret->place, ret->capacity, sizeof(*ret->place));
			if (!ret->place)
				die("out of memory");
		}
		if (!offset_of(file, address, &ret->place[ret->count].offset))
			die("an address that is not in the file");
		ret->place[ret->count].number = ret->count;
		ret->count++;
	}
}

static int by_offset(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void print(const struct kp_frames *frames)
{
	for (uint32_t i = 0; i < frames->count; i++) {
		const struct kp_frame *f = &frames->frame[i];

		printf("%s\n%s:%u\n", f->name, f->file ? f->file : "??", f->line);
	}
	if (!frames->count)
		puts("??\n??:0");
	putchar('\n');
}

/* Sorted, and each once, as the product asks. */
static void resolve(const char *path, const char *cache_base, const struct places *places,
		    struct kp_frames *ret)
{
	struct kp_symbolizer_options options = { 0 };
	struct kp_module_file module = { .path = path, .fd = -1 };
	uint64_t *offset = calloc(places->count, sizeof(*offset));
	struct kp_symbolizer_request request = { .file_offset = offset, .ret = ret };
	struct kp_symbolizer_limits limits = { 0 };
	struct kp_symbolizer_rest rest;
	struct kp_symbolizer *symbolizer;
	struct kp_err err;

	if (cache_base && kp_cache_create(cache_base, &kp_answer_cache_kind, KP_ANSWER_CACHE_BYTES,
					  &options.cache, &err) < 0)
		die(err.text);
	if (!offset || kp_symbolizer_create(&options, &symbolizer, &err) < 0 ||
	    kp_symbolizer_module(symbolizer, &module, &request.module, &err) < 0)
		die("cannot begin");
	for (size_t i = 0; i < places->count; i++)
		offset[i] = places->place[i].offset;
	request.count = (uint32_t)places->count;
	if (kp_symbolizer_resolve_all(symbolizer, &request, 1, &limits, &rest, &err) < 0)
		die(err.text);
	if (rest.lost)
		die("workers died");
	if (kp_symbolizer_note(symbolizer, request.module))
		fprintf(stderr, "bench-symbols: %s\n",
			kp_symbolizer_note(symbolizer, request.module));
}

/* At most: as many as the symbolizer starts. */
static long workers(void)
{
	cpu_set_t cpus;
	long count = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;

	return count < (long)KP_CREW_MAX ? count : (long)KP_CREW_MAX;
}

static void say_figures(double seconds)
{
	struct rusage own, children;

	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &children);
	fprintf(stderr, "seconds=%.4f peak_kib=%ld\n", seconds,
		own.ru_maxrss + workers() * children.ru_maxrss);
}

int main(int argc, char **argv)
{
	struct places places = { 0 };
	struct kp_elf_file *file;
	struct kp_frames *sorted, *frames;
	struct kp_err err;
	double start;

	if (argc < 2 || kp_elf_file_open(argv[1], &file, &err) < 0)
		die(argc < 2 ? "bench-symbols MODULE [CACHE] <ADDRESSES" : err.text);
	read_places(file, &places);
	kp_elf_file_destroy(file);
	sorted = calloc(places.count, sizeof(*sorted));
	frames = calloc(places.count, sizeof(*frames));
	if (!sorted || !frames)
		die("out of memory");
	start = now();
	qsort(places.place, places.count, sizeof(*places.place), by_offset);
	resolve(argv[1], argc > 2 ? argv[2] : NULL, &places, sorted);
	say_figures(now() - start);
	for (size_t i = 0; i < places.count; i++)
		frames[places.place[i].number] = sorted[i];
	for (size_t i = 0; i < places.count; i++)
		print(&frames[i]);
	return 0;
}
