// A certificate that is derived from a key. Everybody who has the key knows the certificate's public key beforehand,
// and needs no other proof of the server. It is for HTTP, whose libraries use TLS only with certificates (tls.h needs
// none).
#ifndef SECURE_CERTIFICATE_H
#define SECURE_CERTIFICATE_H

#include <stdint.h>

#include "secure/secret.h"

enum { CERTIFICATE_PIN = 56 }; // bytes of a pin, its NUL included

// Derives a private key (Ed25519, RFC 8032) from `key`, and makes a certificate that it signs itself, both as PEM text.
// The caller frees both, the private key by secret_free(). NOMEM, SYSTEM. [any]
int certificate_make(const uint8_t key[SECRET_KEY_SIZE], char **private_key, char **certificate);

// "sha256//" and base64 of the SHA-256 of the certificate's public key (SubjectPublicKeyInfo in DER), as in RFC 7469
// and in libcurl's CURLOPT_PINNEDPUBLICKEY. [any]
int certificate_pin(const uint8_t key[SECRET_KEY_SIZE], char pin[CERTIFICATE_PIN]);

#endif
