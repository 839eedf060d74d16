/* TALLY records in memory, and what comes with them, for the tests of who wrote them. */
#pragma once

#include "daemon/session/tally.h"
#include "tests/support/test.h"

#include <stdint.h>
#include <string.h>

struct page {
	_Alignas(8) uint8_t bytes[1 << 16];
	size_t size;
	struct kp_raw_writer writer;
	struct kp_raw_end sums;
	struct kp_tally_book book;
};

static int write_page(void *ctx, const void *data, size_t size, struct kp_err *err)
{
	struct page *page = ctx;

	(void)err;
	cr_assert_leq(page->size + size, sizeof(page->bytes));
	memcpy(page->bytes + page->size, data, size);
	page->size += size;
	return 0;
}

static void page_begin(struct page *page)
{
	struct kp_err err;

	page->size = 0;
	page->sums = (struct kp_raw_end){ 0 };
	page->writer = (struct kp_raw_writer){ write_page, page };
	page->book = (struct kp_tally_book){ .writer = &page->writer, .sums = &page->sums };
	cr_assert_eq(kp_raw_put_header(&page->writer, &err), 0);
}

/* The records so far; their number. */
static int page_read(const struct page *page, struct kp_raw_record *ret, int room)
{
	struct kp_raw_reader reader;
	struct kp_err err;
	int n = 0;

	cr_assert_eq(kp_raw_reader_init(&reader, page->bytes, page->size, "page", &err), 0);
	while (n < room && kp_raw_read(&reader, &ret[n], &err) == KP_RAW_RECORD)
		n++;
	return n;
}
