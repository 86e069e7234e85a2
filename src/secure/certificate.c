// Makes the certificate of a key. Everybody who has the key can make the same one.
#include "secure/certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

// The certificate follows from the key alone. It is always valid, so that clocks that differ do not matter.
#define NOT_BEFORE "20000101000000Z"
#define NOT_AFTER  "99991231235959Z" // RFC 5280, 4.1.2.5: no end

static int no_certificate(void) {
  return fail(WEFT_ERR_SYSTEM, "libcrypto cannot make an Ed25519 certificate here, or has no memory for it");
}

static EVP_PKEY *pair_of(const uint8_t key[SECRET_KEY_SIZE]) {
  return EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, key, SECRET_KEY_SIZE);
}

static bool fill(X509 *certificate, EVP_PKEY *pair) {
  X509_NAME *name = X509_get_subject_name(certificate);
  return X509_set_version(certificate, X509_VERSION_3) && ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) &&
         ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate), NOT_BEFORE) &&
         ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate), NOT_AFTER) &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"weft", -1, -1, 0) &&
         X509_set_issuer_name(certificate, name) && X509_set_pubkey(certificate, pair) &&
         X509_sign(certificate, pair, NULL);
}

// The text that was written to memory; the caller frees it. NULL: no memory.
static char *text_of(BIO *bio) {
  char *bytes;
  long size = BIO_get_mem_data(bio, &bytes);
  char *text = size > 0 ? malloc((size_t)size + 1) : NULL;
  if (!text)
    return NULL;
  memcpy(text, bytes, (size_t)size);
  text[size] = '\0';
  return text;
}

static char *write_pair(EVP_PKEY *pair) {
  BIO *bio = BIO_new(BIO_s_secmem());
  char *text = bio && PEM_write_bio_PrivateKey(bio, pair, NULL, NULL, 0, NULL, NULL) ? text_of(bio) : NULL;
  BIO_free(bio);
  return text;
}

static char *write_certificate(X509 *certificate) {
  BIO *bio = BIO_new(BIO_s_mem());
  char *text = bio && PEM_write_bio_X509(bio, certificate) ? text_of(bio) : NULL;
  BIO_free(bio);
  return text;
}

int certificate_make(const uint8_t key[SECRET_KEY_SIZE], char **private_key, char **certificate) {
  EVP_PKEY *pair = pair_of(key);
  X509 *made = pair ? X509_new() : NULL;
  bool filled = made && fill(made, pair);
  char *pair_text = filled ? write_pair(pair) : NULL, *text = filled ? write_certificate(made) : NULL;
  X509_free(made);
  EVP_PKEY_free(pair);
  if (!pair_text || !text) {
    secret_free(pair_text);
    free(text);
    return no_certificate();
  }
  *private_key = pair_text;
  *certificate = text;
  return 0;
}

int certificate_pin(const uint8_t key[SECRET_KEY_SIZE], char pin[CERTIFICATE_PIN]) {
  unsigned char *public_key = NULL, digest[EVP_MAX_MD_SIZE];
  EVP_PKEY *pair = pair_of(key);
  int size = pair ? i2d_PUBKEY(pair, &public_key) : -1;
  unsigned digest_size = 0;
  bool done = size > 0 && EVP_Digest(public_key, (size_t)size, digest, &digest_size, EVP_sha256(), NULL);
  OPENSSL_free(public_key);
  EVP_PKEY_free(pair);
  if (!done)
    return no_certificate();
  int used = snprintf(pin, CERTIFICATE_PIN, "sha256//");
  EVP_EncodeBlock((unsigned char *)pin + used, digest, (int)digest_size);
  return 0;
}
