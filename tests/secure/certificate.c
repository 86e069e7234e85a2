// Certificates that are derived from a key.
#include "secure/certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

static const uint8_t key[SECRET_KEY_SIZE] = {1, 2, 3}, other_key[SECRET_KEY_SIZE] = {3, 2, 1};

static void test_pin(void **state) {
  char pin[CERTIFICATE_PIN], again[CERTIFICATE_PIN], other[CERTIFICATE_PIN];
  (void)state;
  assert_int_equal(certificate_pin(key, pin), 0);
  assert_int_equal(certificate_pin(key, again), 0);
  assert_int_equal(certificate_pin(other_key, other), 0);
  assert_string_equal(pin, again);
  assert_string_not_equal(pin, other);
  assert_int_equal(strncmp(pin, "sha256//", 8), 0);
  assert_int_equal(strlen(pin), 8 + 44);
}

static void test_certificate(void **state) {
  char *pair_text = NULL, *text = NULL;
  (void)state;
  assert_int_equal(certificate_make(key, &pair_text, &text), 0);
  BIO *bio = BIO_new_mem_buf(text, -1), *pair_bio = BIO_new_mem_buf(pair_text, -1);
  X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
  EVP_PKEY *pair = PEM_read_bio_PrivateKey(pair_bio, NULL, NULL, NULL);
  assert_non_null(certificate);
  assert_non_null(pair);
  assert_int_equal(X509_check_private_key(certificate, pair), 1);
  assert_int_equal(X509_verify(certificate, pair), 1);
  assert_int_equal(X509_cmp_current_time(X509_get0_notBefore(certificate)), -1);
  assert_int_equal(X509_cmp_current_time(X509_get0_notAfter(certificate)), 1);
  X509_free(certificate);
  EVP_PKEY_free(pair);
  BIO_free(bio);
  BIO_free(pair_bio);
  secret_free(pair_text);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pin), cmocka_unit_test(test_certificate)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
