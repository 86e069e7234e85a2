// HMAC-SHA256 (RFC 2104, FIPS 198-1), by libcrypto where the build found it.
#ifndef AGENT_HMAC_H
#define AGENT_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HMAC_SIZE = 32 };

struct hmac_part {
  const void *bytes;
  size_t size;
};

// Whether this build has it; if not, hmac_sha256() always fails.
bool hmac_is_there(void);

// Of all parts, one behind the other.
int hmac_sha256(const void *key, size_t key_size, const struct hmac_part *parts, size_t count, uint8_t out[HMAC_SIZE]);

// In a time that does not tell where they differ.
bool hmac_equal(const uint8_t a[HMAC_SIZE], const uint8_t b[HMAC_SIZE]);

#endif
