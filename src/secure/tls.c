// TLS between two holders of one secret, over a socket that never blocks.
#include "secure/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fail.h"

// TLS_AES_128_GCM_SHA256 (RFC 8446, B.4): the one cipher of external keys whose hash is SHA-256, their default.
static const unsigned char cipher_id[] = {0x13, 0x01};
#define CIPHER "TLS_AES_128_GCM_SHA256"

enum { MAX_PROTOCOL = 64 };

struct tls {
  SSL *ssl;
  char protocol[MAX_PROTOCOL]; // the identity of the key
  uint8_t key[SECRET_KEY_SIZE];
  bool calls, done;
};

// --- the socket, without SIGPIPE ---

static int send_bytes(BIO *bio, const char *bytes, int size) {
  int fd = (int)(intptr_t)BIO_get_data(bio);
  ssize_t sent;
  do
    sent = send(fd, bytes, (size_t)size, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  BIO_clear_retry_flags(bio);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    BIO_set_retry_write(bio);
  return (int)sent;
}

static int receive_bytes(BIO *bio, char *bytes, int size) {
  int fd = (int)(intptr_t)BIO_get_data(bio);
  ssize_t got;
  do
    got = recv(fd, bytes, (size_t)size, 0);
  while (got < 0 && errno == EINTR);
  BIO_clear_retry_flags(bio);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    BIO_set_retry_read(bio);
  return (int)got;
}

static long control(BIO *bio, int command, long number, void *pointer) {
  (void)bio, (void)number, (void)pointer;
  return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP ? 1 : 0;
}

// --- shared by all connections ---

static pthread_once_t once = PTHREAD_ONCE_INIT;
static BIO_METHOD *sockets;
static SSL_CTX *context;

static SSL_SESSION *session_of(SSL *ssl, const struct tls *tls) {
  const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
  SSL_SESSION *session = cipher ? SSL_SESSION_new() : NULL;
  if (session && SSL_SESSION_set1_master_key(session, tls->key, sizeof tls->key) &&
      SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
    return session;
  SSL_SESSION_free(session);
  return NULL;
}

static int use_key(SSL *ssl, const EVP_MD *digest, const unsigned char **identity, size_t *size,
                   SSL_SESSION **session) {
  struct tls *tls = SSL_get_app_data(ssl);
  *identity = (const unsigned char *)tls->protocol;
  *size = strlen(tls->protocol);
  *session = digest && EVP_MD_get_type(digest) != NID_sha256 ? NULL : session_of(ssl, tls);
  return 1;
}

static int find_key(SSL *ssl, const unsigned char *identity, size_t size, SSL_SESSION **session) {
  struct tls *tls = SSL_get_app_data(ssl);
  bool named = size == strlen(tls->protocol) && memcmp(identity, tls->protocol, size) == 0;
  *session = named ? session_of(ssl, tls) : NULL;
  return 1;
}

static void prepare(void) {
  SSL_CTX *made = SSL_CTX_new(TLS_method());
  BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft socket");
  if (!made || !method || !BIO_meth_set_write(method, send_bytes) || !BIO_meth_set_read(method, receive_bytes) ||
      !BIO_meth_set_ctrl(method, control) || !SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) ||
      !SSL_CTX_set_ciphersuites(made, CIPHER)) {
    SSL_CTX_free(made);
    BIO_meth_free(method);
    return;
  }
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(made, 0);
  SSL_CTX_set_psk_use_session_callback(made, use_key);
  SSL_CTX_set_psk_find_session_callback(made, find_key);
  // Partial writes, from a buffer that may have moved meanwhile; idle connections keep no buffers.
  SSL_CTX_set_mode(made,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  sockets = method;
  context = made;
}

// --- connections ---

// Fills in `tls`; also after a failure, `tls` has everything that was made.
static bool set_up(struct tls *tls, int fd) {
  tls->ssl = SSL_new(context);
  BIO *bio = tls->ssl ? BIO_new(sockets) : NULL;
  if (!bio)
    return false;
  BIO_set_data(bio, (void *)(intptr_t)fd);
  BIO_set_init(bio, 1);
  SSL_set_bio(tls->ssl, bio, bio);
  SSL_set_app_data(tls->ssl, tls);
  if (tls->calls)
    SSL_set_connect_state(tls->ssl);
  else
    SSL_set_accept_state(tls->ssl);
  return true;
}

int tls_open(struct tls **out, int fd, bool calls, const char *protocol, const uint8_t key[SECRET_KEY_SIZE]) {
  pthread_once(&once, prepare);
  if (!context)
    return fail(WEFT_ERR_SYSTEM, "libssl cannot speak TLS 1.3 with " CIPHER " here");
  struct tls *tls = calloc(1, sizeof *tls);
  if (!tls)
    return fail(WEFT_ERR_NOMEM, "no memory for a connection");
  tls->calls = calls;
  snprintf(tls->protocol, sizeof tls->protocol, "%s", protocol);
  memcpy(tls->key, key, sizeof tls->key);
  if (!set_up(tls, fd)) {
    tls_close(tls);
    return fail(WEFT_ERR_NOMEM, "no memory for a connection");
  }
  *out = tls;
  return 0;
}

// Why a call failed; to be called at once after it.
static int reason(struct tls *tls, int result) {
  int error = errno, kind = SSL_get_error(tls->ssl, result);
  if (kind == SSL_ERROR_WANT_READ)
    return TLS_WANTS_READ;
  if (kind == SSL_ERROR_WANT_WRITE)
    return TLS_WANTS_WRITE;
  unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (kind == SSL_ERROR_ZERO_RETURN)
    return fail(WEFT_ERR_PEER_LOST, "the peer closed the connection");
  if (kind == SSL_ERROR_SYSCALL)
    return fail(WEFT_ERR_PEER_LOST, "the connection to the peer broke: %s",
                error ? strerror(error) : "the peer hung up");
  const char *text = ERR_reason_error_string(code);
  if (ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
    return fail(WEFT_ERR_PEER_LOST, "the connection to the peer broke: the peer hung up");
  if (!tls->done)
    return fail(WEFT_ERR_AUTH, "the peer does not share this side's secret, or does not speak %s (%s)", tls->protocol,
                text ? text : "TLS failed");
  return fail(WEFT_ERR_PROTOCOL, "the received data was changed in transit (%s)", text ? text : "TLS failed");
}

int tls_handshake(struct tls *tls) {
  ERR_clear_error();
  errno = 0;
  int result = SSL_do_handshake(tls->ssl);
  if (result != 1)
    return reason(tls, result);
  // A listener that does not choose the offered key (RFC 8446, 4.1.1) shows a certificate instead: any certificate, as
  // there is no CA here.
  if (!tls_is_proved(tls))
    return fail(WEFT_ERR_AUTH, "the peer does not share this side's secret: it offers a certificate instead");
  tls->done = true;
  OPENSSL_cleanse(tls->key, sizeof tls->key);
  return 0;
}

bool tls_is_proved(const struct tls *tls) {
  return SSL_session_reused(tls->ssl); // the key was chosen; its binder (RFC 8446, 4.2.11.2) was right
}

int tls_read(struct tls *tls, void *bytes, size_t size, size_t *got) {
  ERR_clear_error();
  errno = 0;
  int result = SSL_read_ex(tls->ssl, bytes, size, got);
  return result == 1 ? 0 : reason(tls, result);
}

int tls_write(struct tls *tls, const void *bytes, size_t size, size_t *sent) {
  ERR_clear_error();
  errno = 0;
  int result = SSL_write_ex(tls->ssl, bytes, size, sent);
  return result == 1 ? 0 : reason(tls, result);
}

int tls_binding(const struct tls *tls, uint8_t binding[TLS_BINDING_SIZE]) {
  static const char label[] = "EXPORTER-Channel-Binding";
  ERR_clear_error();
  if (SSL_export_keying_material(tls->ssl, binding, TLS_BINDING_SIZE, label, sizeof label - 1, NULL, 0, 0) == 1)
    return 0;
  ERR_clear_error();
  return fail(WEFT_ERR_NOMEM, "no memory to name a connection");
}

bool tls_has_bytes(const struct tls *tls) {
  return SSL_has_pending(tls->ssl);
}

void tls_close(struct tls *tls) {
  if (!tls)
    return;
  ERR_clear_error();
  if (tls->done)
    SSL_shutdown(tls->ssl);
  ERR_clear_error();
  SSL_free(tls->ssl);
  OPENSSL_cleanse(tls->key, sizeof tls->key);
  free(tls);
}
