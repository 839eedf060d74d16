/*
 * A cursor over bytes of a file, which never leaves them: a read past the end yields 0, and
 * `cut` stays set from there on, so that a parser may ask once, behind a group of reads.
 * Little-endian, like all files that we read.
 */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct kp_bytes {
	const uint8_t *at, *end;
	bool cut; /* something was read that is not there, or does not fit 64 bits */
};

static inline struct kp_bytes kp_bytes(const uint8_t *at, size_t size)
{
	return (struct kp_bytes){ .at = at, .end = at + size };
}

static inline size_t kp_bytes_left(const struct kp_bytes *bytes)
{
	return (size_t)(bytes->end - bytes->at);
}

/* n bytes: where they are, or NULL. */
static inline const uint8_t *kp_bytes_take(struct kp_bytes *bytes, uint64_t n)
{
	const uint8_t *taken = bytes->at;

	if (n > kp_bytes_left(bytes)) {
		bytes->cut = true;
		bytes->at = bytes->end;
		return NULL;
	}
	bytes->at += n;
	return taken;
}

static inline uint8_t kp_bytes_u8(struct kp_bytes *bytes)
{
	const uint8_t *p = kp_bytes_take(bytes, 1);

	return p ? *p : 0;
}

static inline uint16_t kp_bytes_u16(struct kp_bytes *bytes)
{
	const uint8_t *p = kp_bytes_take(bytes, 2);
	uint16_t value = 0;

	if (p)
		memcpy(&value, p, 2);
	return le16toh(value);
}

static inline uint32_t kp_bytes_u32(struct kp_bytes *bytes)
{
	const uint8_t *p = kp_bytes_take(bytes, 4);
	uint32_t value = 0;

	if (p)
		memcpy(&value, p, 4);
	return le32toh(value);
}

static inline uint64_t kp_bytes_u64(struct kp_bytes *bytes)
{
	const uint8_t *p = kp_bytes_take(bytes, 8);
	uint64_t value = 0;

	if (p)
		memcpy(&value, p, 8);
	return le64toh(value);
}

/* DWARF 5, 7.6. Padding is allowed, as long as the value fits 64 bits. */
static inline uint64_t kp_bytes_uleb(struct kp_bytes *bytes)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = kp_bytes_u8(bytes);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if ((shift == 63 && (byte & 0x7e)) || (shift > 63 && (byte & 0x7f)))
			bytes->cut = true;
		shift = shift < 64 ? shift + 7 : shift;
	} while (byte & 0x80);
	return value;
}

static inline int64_t kp_bytes_sleb(struct kp_bytes *bytes)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = kp_bytes_u8(bytes);
		if (shift < 64) {
			value |= (uint64_t)(byte & 0x7f) << shift;
			shift += 7;
		}
	} while (byte & 0x80);
	if (shift < 64 && (byte & 0x40))
		value |= UINT64_MAX << shift;
	return (int64_t)value;
}

/* Up to and with the terminating 0; NULL where there is none. */
static inline const char *kp_bytes_string(struct kp_bytes *bytes)
{
	const uint8_t *end = memchr(bytes->at, 0, kp_bytes_left(bytes));

	return (const char *)kp_bytes_take(bytes,
					   end ? (uint64_t)(end - bytes->at) + 1 : UINT64_MAX);
}
