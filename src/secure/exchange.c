// Key agreement on Curve25519, by OpenSSL.
#include "secure/exchange.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/fail.h"
#include "secure/hmac.h"

void exchange_free(struct exchange *exchange) {
  EVP_PKEY_free(exchange->pair);
  *exchange = (struct exchange){.pair = NULL};
}

int exchange_make(struct exchange *exchange) {
  EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
  size_t size = sizeof exchange->public_key;
  if (pair && EVP_PKEY_get_raw_public_key(pair, exchange->public_key, &size) == 1) {
    exchange->pair = pair;
    return 0;
  }
  EVP_PKEY_free(pair);
  ERR_clear_error(); // libcrypto keeps its errors in its own memory
  return fail(WEFT_ERR_NOMEM, "no memory for a pair of keys, or libcrypto has no X25519 here");
}

// PROTOCOL: the other side's key is of small order, so that the common key would be known to everybody.
static int multiply(EVP_PKEY *own, EVP_PKEY *other, uint8_t shared[EXCHANGE_SIZE]) {
  EVP_PKEY_CTX *context = own && other ? EVP_PKEY_CTX_new(own, NULL) : NULL;
  size_t size = EXCHANGE_SIZE;
  int rc = 0;
  if (!context || EVP_PKEY_derive_init(context) != 1 || EVP_PKEY_derive_set_peer(context, other) != 1)
    rc = fail(WEFT_ERR_NOMEM, "no memory to agree on a key");
  else if (EVP_PKEY_derive(context, shared, &size) != 1 || size != EXCHANGE_SIZE)
    rc = fail(WEFT_ERR_PROTOCOL, "the peer's public key is invalid: no shared key can be derived");
  EVP_PKEY_CTX_free(context);
  return rc;
}

int exchange_agree(const struct exchange *exchange, const uint8_t other[EXCHANGE_SIZE], const char *purpose,
                   uint8_t key[SECRET_KEY_SIZE]) {
  EVP_PKEY *theirs = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, other, EXCHANGE_SIZE);
  uint8_t shared[EXCHANGE_SIZE];
  const struct hmac_part part = {purpose, strlen(purpose)};
  int rc = multiply(exchange->pair, theirs, shared);
  if (rc == 0)
    rc = hmac_sha256(shared, sizeof shared, &part, 1, key);
  else
    ERR_clear_error();
  EVP_PKEY_free(theirs);
  OPENSSL_cleanse(shared, sizeof shared);
  return rc;
}
