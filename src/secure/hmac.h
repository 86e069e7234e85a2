// HMAC-SHA256 (RFC 2104, FIPS 198-1), by libcrypto.
#ifndef SECURE_HMAC_H
#define SECURE_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HMAC_SIZE = 32 };

struct hmac_part {
  const void *bytes;
  size_t size;
};

// HMAC of the concatenation of all parts.
int hmac_sha256(const void *key, size_t key_size, const struct hmac_part *parts, size_t count, uint8_t out[HMAC_SIZE]);

// SHA-256 (FIPS 180-4) of the concatenation of all parts, without a key.
int secure_sha256(const struct hmac_part *parts, size_t count, uint8_t out[HMAC_SIZE]);

// Compares in constant time.
bool hmac_equal(const uint8_t a[HMAC_SIZE], const uint8_t b[HMAC_SIZE]);

#endif
