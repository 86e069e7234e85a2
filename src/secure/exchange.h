// Key agreement of Diffie and Hellman on Curve25519 (X25519, RFC 7748): two that know each other's public keys have a
// key in common that nobody else has, also none who knows both public keys.
#ifndef SECURE_EXCHANGE_H
#define SECURE_EXCHANGE_H

#include <stdint.h>

#include "secure/secret.h"

enum { EXCHANGE_SIZE = 32 }; // bytes of each key

struct exchange {
  struct evp_pkey_st *pair; // libcrypto's
  uint8_t public_key[EXCHANGE_SIZE];
};

// A new pair. NOMEM. [any]
int exchange_make(struct exchange *exchange);
// Forgets it; one of zeros is legal. [any]
void exchange_free(struct exchange *exchange);

// The key that the pair and the other's public key agree on, for one purpose; it is the same on both sides. PROTOCOL:
// the other's is none that a key can be agreed on with; NOMEM. Some 50 us. [any]
int exchange_agree(const struct exchange *exchange, const uint8_t other[EXCHANGE_SIZE], const char *purpose,
                   uint8_t key[SECRET_KEY_SIZE]);

#endif
