// Signs addresses and keys with the secrets of a worker, and checks such signatures.
#include <string.h>

#include "base/fail.h"
#include "transport/shm/identity/identity.h"

// `before` is the code that this one covers too; NULL: there is none.
static int sign(const uint8_t secret[SHM_SECRET], const char *kind, const void *bytes, size_t size, const char *owner,
                const uint8_t *before, uint8_t out[HMAC_SIZE]) {
  const struct hmac_part parts[] = {
      {kind, strlen(kind) + 1}, {bytes, size}, {owner, strlen(owner) + 1}, {before, before ? HMAC_SIZE : 0}};
  return hmac_sha256(secret, SHM_SECRET, parts, sizeof parts / sizeof *parts, out);
}

int shm_sign(const struct shm_home *home, const char *kind, const void *bytes, size_t size, const char *owner,
             struct shm_seal *seal) {
  int rc = sign(home->own_secret, kind, bytes, size, owner, NULL, seal->own);
  return rc == 0 ? sign(home->secret, kind, bytes, size, owner, seal->own, seal->others) : rc;
}

int shm_sign_check(const struct shm_trust *trust, const char *kind, const void *bytes, size_t size, const char *owner,
                   const struct shm_seal *seal) {
  uint8_t others[HMAC_SIZE], own[HMAC_SIZE];
  int rc = sign(trust->secret, kind, bytes, size, owner, seal->own, others);
  if (rc == 0 && trust->own)
    rc = sign(trust->own_secret, kind, bytes, size, owner, NULL, own);
  if (rc != 0)
    return rc;
  if (hmac_equal(others, seal->others) && (!trust->own || hmac_equal(own, seal->own)))
    return 0;
  return fail(WEFT_ERR_AUTH, "this %s was not made by the worker that it names, or not for this owner", kind);
}
