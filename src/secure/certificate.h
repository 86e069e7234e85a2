// A certificate that is made from a key: all who have the key know its public key beforehand, and need no other proof
// of the server. For HTTP, whose libraries speak TLS with certificates only (tls.h needs none).
#ifndef SECURE_CERTIFICATE_H
#define SECURE_CERTIFICATE_H

#include <stdint.h>

#include "secure/secret.h"

enum { CERTIFICATE_PIN = 56 }; // bytes of a pin, its NUL included

// A private key (Ed25519, RFC 8032) that `key` decides, and a certificate that it signs itself, both as PEM text. The
// caller frees both, the private key by secret_free(). NOMEM, SYSTEM. [any]
int certificate_make(const uint8_t key[SECRET_KEY_SIZE], char **private_key, char **certificate);

// "sha256//" and base64 of the SHA-256 of its public key (SubjectPublicKeyInfo in DER): what RFC 7469 pins and libcurl
// takes as CURLOPT_PINNEDPUBLICKEY. [any]
int certificate_pin(const uint8_t key[SECRET_KEY_SIZE], char pin[CERTIFICATE_PIN]);

#endif
