/*
 * The PCs of a SAMPLE as they lie in the file: docs/raw-format.md. Callers are often near each
 * other, and in interpreters the same few come again and again. Each record stands by itself, so that
 * what comes before it may be damaged or left out. Runs in the daemon and the command, in any thread.
 */
#include "proto/rawfile_layout.h"

#define MORE 0x80u /* of a number's byte: another one follows */
#define BACK_MAX 255u /* frames between a PC and one that is the same */

static uint32_t put_number(uint8_t *to, uint64_t value)
{
	uint32_t n = 0;

	for (; value >= MORE; value >>= 7)
		to[n++] = (uint8_t)(value | MORE);
	to[n++] = (uint8_t)value;
	return n;
}

/* Small for small differences of either sign; 0 for 0 only. */
static uint64_t fold(uint64_t difference)
{
	return difference << 1 ^ (0 - (difference >> 63));
}

static uint64_t unfold(uint64_t number)
{
	return number >> 1 ^ (0 - (number & 1));
}

/* How many frames before i the nearest one with the same PC is; 0: none. */
static uint32_t same_before(const uint64_t *pc, uint32_t i)
{
	for (uint32_t back = 1; back <= i && back <= BACK_MAX; back++)
		if (pc[i - back] == pc[i])
			return back;
	return 0;
}

uint32_t kp_raw_pack_pcs(const uint64_t *pc, uint32_t depth, uint8_t *to)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < depth; i++) {
		uint32_t back = same_before(pc, i);

		if (back) {
			to[n++] = 0;
			to[n++] = (uint8_t)back;
		} else {
			n += put_number(to + n, fold(pc[i] - (i ? pc[i - 1] : 0)));
		}
	}
	return n;
}

/* Moves *at behind the number. -1: it does not end, or has more than 64 bits. */
static int get_number(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
	*ret = 0;
	for (uint32_t shift = 0; *at < end && shift < 64; shift += 7) {
		uint64_t byte = *(*at)++;

		if (shift == 63 && byte > 1)
			return -1;
		*ret |= (byte & ~(uint64_t)MORE) << shift;
		if (byte < MORE)
			return 0;
	}
	return -1;
}

int kp_raw_unpack_pcs(const uint8_t *bytes, uint32_t size, uint32_t depth, uint64_t *ret)
{
	const uint8_t *at = bytes, *end = bytes + size;

	for (uint32_t i = 0; i < depth; i++) {
		uint64_t number;

		if (get_number(&at, end, &number) < 0)
			return -1;
		if (number || !i) {
			ret[i] = (i ? ret[i - 1] : 0) + unfold(number);
			continue;
		}
		if (at == end || !*at || *at > i)
			return -1;
		ret[i] = ret[i - *at++];
	}
	return (int)(at - bytes);
}
