/*
 * Runs a fuzz target on files, without a fuzzer: what a corpus has found once stays found, with any
 * compiler. Each argument is a file or a directory of them.
 *
 * Each file is also run cut off at some lengths: a cheap look at how a target takes a short read.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CUTS 64 /* lengths a file, about */

/* In memory of exactly that size. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(size ? copy : copy + 1, size);
	free(copy);
}

static int run_file(const char *path, size_t bytes)
{
	uint8_t *data = malloc(bytes + 1);
	FILE *file = fopen(path, "rb");
	size_t size = 0, cut = bytes / CUTS + 1;

	if (data && file)
		size = fread(data, 1, bytes, file);
	if (!data || !file || size != bytes) {
		fprintf(stderr, "%s: cannot be read\n", path);
		exit(1);
	}
	fclose(file);
	/* Shortest first, so that the last line before a crash is of the file as it is. */
	for (size_t length = size % cut; length < size; length += cut)
		run(data, length);
	run(data, size);
	free(data);
	return 1;
}

static int run_path(const char *path)
{
	struct dirent *entry;
	struct stat st;
	char below[4096];
	DIR *directory;
	int files = 0;

	if (stat(path, &st)) {
		perror(path);
		exit(1);
	}
	if (!S_ISDIR(st.st_mode))
		return run_file(path, (size_t)st.st_size);
	directory = opendir(path);
	if (!directory) {
		perror(path);
		exit(1);
	}
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		files += run_path(below);
	}
	closedir(directory);
	return files;
}

int main(int argc, char **argv)
{
	int files = 0;

	for (int i = 1; i < argc; i++)
		files += run_path(argv[i]);
	printf("%d files\n", files);
	return files == 0;
}
