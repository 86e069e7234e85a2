// HMAC-SHA-256 and SHA-256, by OpenSSL.
#include "secure/hmac.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "base/fail.h"

static int fail_here(const char *what) {
  ERR_clear_error(); // libcrypto keeps its errors in its own memory
  return fail(WEFT_ERR_NOMEM, "no memory for %s, or libcrypto has none here", what);
}

static bool reckon(EVP_MAC_CTX *context, const void *key, size_t key_size, const struct hmac_part *parts, size_t count,
                   uint8_t out[HMAC_SIZE]) {
  char digest[] = "SHA256";
  OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0), OSSL_PARAM_construct_end()};
  if (!context || !EVP_MAC_init(context, key, key_size, params))
    return false;
  for (size_t i = 0; i < count; i++)
    if (!EVP_MAC_update(context, parts[i].bytes, parts[i].size))
      return false;
  size_t size = 0;
  return EVP_MAC_final(context, out, &size, HMAC_SIZE) && size == HMAC_SIZE;
}

int hmac_sha256(const void *key, size_t key_size, const struct hmac_part *parts, size_t count, uint8_t out[HMAC_SIZE]) {
  EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
  EVP_MAC_CTX *context = mac ? EVP_MAC_CTX_new(mac) : NULL;
  bool done = reckon(context, key, key_size, parts, count, out);
  EVP_MAC_CTX_free(context);
  EVP_MAC_free(mac);
  return done ? 0 : fail_here("HMAC-SHA256");
}

int secure_sha256(const struct hmac_part *parts, size_t count, uint8_t out[HMAC_SIZE]) {
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  bool done = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
  for (size_t i = 0; done && i < count; i++)
    done = EVP_DigestUpdate(context, parts[i].bytes, parts[i].size) == 1;
  unsigned size = 0;
  done = done && EVP_DigestFinal_ex(context, out, &size) == 1 && size == HMAC_SIZE;
  EVP_MD_CTX_free(context);
  return done ? 0 : fail_here("SHA-256");
}

bool hmac_equal(const uint8_t a[HMAC_SIZE], const uint8_t b[HMAC_SIZE]) {
  return CRYPTO_memcmp(a, b, HMAC_SIZE) == 0;
}
