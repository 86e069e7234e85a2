// Diffie-Hellman key agreement on Curve25519 (X25519, RFC 7748): two parties that know each other's public keys derive
// a common key that nobody else has, even if others know both public keys.
#ifndef SECURE_EXCHANGE_H
#define SECURE_EXCHANGE_H

#include <stdint.h>

#include "secure/secret.h"

enum { EXCHANGE_SIZE = 32 }; // bytes of each key

struct exchange {
  struct evp_pkey_st *pair; // libcrypto's
  uint8_t public_key[EXCHANGE_SIZE];
};

// Makes a new key pair. NOMEM. [any]
int exchange_make(struct exchange *exchange);
// Frees it; a struct of zeros is legal. [any]
void exchange_free(struct exchange *exchange);

// Derives the common key from the pair and the other side's public key, for one purpose; it is the same on both sides.
// PROTOCOL: no key can be derived with the other side's public key; NOMEM. Takes some 50 us. [any]
int exchange_agree(const struct exchange *exchange, const uint8_t other[EXCHANGE_SIZE], const char *purpose,
                   uint8_t key[SECRET_KEY_SIZE]);

#endif
