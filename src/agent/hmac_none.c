// Stands in where libcrypto was not found at build time.
#include "agent/hmac.h"
#include "base/fail.h"

bool hmac_is_there(void) {
  return false;
}

int hmac_sha256(const void *key, size_t key_size, const struct hmac_part *parts, size_t count, uint8_t out[HMAC_SIZE]) {
  (void)key, (void)key_size, (void)parts, (void)count, (void)out;
  return fail(WEFT_ERR_UNSUPPORTED, "this build cannot meet by socket, for want of libcrypto (libssl-dev)");
}

bool hmac_equal(const uint8_t a[HMAC_SIZE], const uint8_t b[HMAC_SIZE]) {
  (void)a, (void)b;
  return false;
}
