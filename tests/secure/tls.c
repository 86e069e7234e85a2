// TLS between two parties with one key, over a pair of sockets in one thread.
#include "secure/tls.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/err.h>

#include "cmocka_all.h"
#include "secure/certificate.h"

enum { CALLER, LISTENER, TURNS = 100, LARGE = 3 << 20 };

static const uint8_t key[SECRET_KEY_SIZE] = {1, 2, 3}, other_key[SECRET_KEY_SIZE] = {3, 2, 1};

struct pair {
  int sockets[2];
  struct tls *ends[2];
  int said[2];
};

static void open_pair(struct pair *pair, const uint8_t *caller_key, const char *protocol) {
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair->sockets), 0);
  assert_int_equal(tls_open(&pair->ends[CALLER], pair->sockets[CALLER], true, protocol, caller_key), 0);
  assert_int_equal(tls_open(&pair->ends[LISTENER], pair->sockets[LISTENER], false, "weft test 1", key), 0);
}

static void close_pair(struct pair *pair) {
  for (int i = 0; i < 2; i++) {
    tls_close(pair->ends[i]);
    close(pair->sockets[i]);
  }
}

// Both ends in turns, until each has said something final.
static void shake_hands(struct pair *pair) {
  pair->said[CALLER] = pair->said[LISTENER] = TLS_WANTS_READ;
  for (int i = 0; i < TURNS; i++)
    if (pair->said[i % 2] > 0)
      pair->said[i % 2] = tls_handshake(pair->ends[i % 2]);
}

static void test_through(void **state) {
  struct pair pair;
  (void)state;
  open_pair(&pair, key, "weft test 1");
  shake_hands(&pair);
  assert_int_equal(pair.said[CALLER], 0);
  assert_int_equal(pair.said[LISTENER], 0);
  unsigned char *bytes = malloc(LARGE), *got = calloc(1, LARGE);
  for (size_t i = 0; i < LARGE; i++)
    bytes[i] = (unsigned char)(i * 7 + i / 251);
  for (int from = 0; from < 2; from++) {
    size_t sent = 0, read = 0;
    for (int i = 0; read < LARGE && i < LARGE; i++) {
      size_t now = 0;
      if (sent < LARGE && tls_write(pair.ends[from], bytes + sent, LARGE - sent, &now) == 0)
        sent += now;
      now = 0;
      if (tls_read(pair.ends[1 - from], got + read, LARGE - read, &now) == 0)
        read += now;
    }
    assert_int_equal(read, LARGE);
    assert_memory_equal(bytes, got, LARGE);
    memset(got, 0, LARGE);
  }
  free(bytes);
  free(got);
  close_pair(&pair);
}

static void test_other_key(void **state) {
  struct pair pair;
  (void)state;
  open_pair(&pair, other_key, "weft test 1");
  shake_hands(&pair);
  assert_int_equal(pair.said[LISTENER], WEFT_ERR_AUTH);
  assert_int_equal(pair.said[CALLER], WEFT_ERR_AUTH);
  close_pair(&pair);
}

static void test_other_protocol(void **state) {
  struct pair pair;
  (void)state;
  open_pair(&pair, key, "weft test 2");
  shake_hands(&pair);
  assert_int_equal(pair.said[LISTENER], WEFT_ERR_AUTH);
  assert_int_equal(pair.said[CALLER], WEFT_ERR_AUTH);
  close_pair(&pair);
}

static bool use_certificate(SSL_CTX *context) {
  char *private_key, *text;
  assert_int_equal(certificate_make(other_key, &private_key, &text), 0);
  BIO *pair_text = BIO_new_mem_buf(private_key, -1), *certificate_text = BIO_new_mem_buf(text, -1);
  EVP_PKEY *pair = PEM_read_bio_PrivateKey(pair_text, NULL, NULL, NULL);
  X509 *certificate = PEM_read_bio_X509(certificate_text, NULL, NULL, NULL);
  bool used = SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, pair) == 1;
  X509_free(certificate);
  EVP_PKEY_free(pair);
  BIO_free(certificate_text);
  BIO_free(pair_text);
  secret_free(private_key);
  free(text);
  return used;
}

// A listener without the key that ignores the caller's key and shows a certificate.
static void test_certificate_instead(void **state) {
  int sockets[2], said = TLS_WANTS_READ;
  struct tls *caller;
  (void)state;
  SSL_CTX *context = SSL_CTX_new(TLS_server_method());
  assert_non_null(context);
  assert_true(use_certificate(context));
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  assert_int_equal(tls_open(&caller, sockets[CALLER], true, "weft test 1", key), 0);
  SSL *impostor = SSL_new(context);
  assert_true(impostor && SSL_set_fd(impostor, sockets[LISTENER]));
  for (int i = 0; i < TURNS && said > 0; i++) {
    said = tls_handshake(caller);
    SSL_accept(impostor);
  }
  assert_int_equal(said, WEFT_ERR_AUTH);
  tls_close(caller);
  SSL_free(impostor);
  SSL_CTX_free(context);
  close(sockets[CALLER]);
  close(sockets[LISTENER]);
}

// A stranger that sends anything else is distinguished from one that hangs up.
static void test_stranger(void **state) {
  static const char *const said[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", ""};
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    struct pair pair;
    open_pair(&pair, key, "weft test 1");
    assert_int_equal(write(pair.sockets[CALLER], said[i], strlen(said[i])), strlen(said[i]));
    if (i > 0)
      shutdown(pair.sockets[CALLER], SHUT_WR);
    int rc = tls_handshake(pair.ends[LISTENER]);
    assert_true(rc == WEFT_ERR_AUTH || (i > 0 && rc == WEFT_ERR_PEER_LOST));
    close_pair(&pair);
  }
}

// A relay flips a bit of what comes after the handshake.
static void test_altered(void **state) {
  struct pair pair;
  unsigned char record[256];
  size_t sent = 0, got = 0;
  (void)state;
  open_pair(&pair, key, "weft test 1");
  shake_hands(&pair);
  assert_int_equal(tls_write(pair.ends[CALLER], "to be altered", 13, &sent), 0);
  ssize_t size = read(pair.sockets[LISTENER], record, sizeof record);
  assert_true(size > 13);
  record[size - 1] ^= 1;
  int relay[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, relay), 0);
  assert_int_equal(dup2(relay[0], pair.sockets[LISTENER]), pair.sockets[LISTENER]);
  assert_int_equal(write(relay[1], record, (size_t)size), size);
  assert_int_equal(tls_read(pair.ends[LISTENER], record, sizeof record, &got), WEFT_ERR_PROTOCOL);
  close(relay[0]);
  close(relay[1]);
  close_pair(&pair);
}

// Writing to who has gone is an error and no signal.
static void test_hang_up(void **state) {
  struct pair pair;
  size_t moved = 0;
  (void)state;
  open_pair(&pair, key, "weft test 1");
  shake_hands(&pair);
  tls_close(pair.ends[CALLER]);
  pair.ends[CALLER] = NULL;
  close(pair.sockets[CALLER]);
  pair.sockets[CALLER] = -1;
  char byte;
  assert_int_equal(tls_read(pair.ends[LISTENER], &byte, 1, &moved), WEFT_ERR_PEER_LOST);
  int rc = 0;
  for (int i = 0; i < 10 && rc == 0; i++)
    rc = tls_write(pair.ends[LISTENER], "x", 1, &moved);
  assert_int_equal(rc, WEFT_ERR_PEER_LOST);
  close_pair(&pair);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_through),        cmocka_unit_test(test_other_key),
      cmocka_unit_test(test_other_protocol), cmocka_unit_test(test_certificate_instead),
      cmocka_unit_test(test_stranger),       cmocka_unit_test(test_altered),
      cmocka_unit_test(test_hang_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
