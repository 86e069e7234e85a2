// The protection of an embedded server: its token, and the key and the certificate of its TLS.
#include "store/server/server.h"

#include "base/fail.h"
#include "secure/certificate.h"
#include "store/purpose.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 20 }; // bytes of a certificate's or key's file

static int no_memory(void) {
  return fail(WEFT_ERR_NOMEM, "no memory for an embedded server");
}

static int check(const struct weft_store_server_options *options) {
  if ((options->flags & WEFT_STORE_SERVER_INSECURE) && (options->token || options->cert_file || options->key_file))
    return fail(WEFT_ERR_INVALID, "an insecure store has no token and no certificate: leave them out, or INSECURE");
  if (options->token && !*options->token)
    return fail(WEFT_ERR_INVALID, "the token is empty: want NULL for a random one");
  if (options->token && strlen(options->token) > SECRET_MAX)
    return fail(WEFT_ERR_INVALID, "the token is longer than %d bytes", SECRET_MAX);
  for (const char *c = options->token; c && *c; c++)
    if (!isgraph((unsigned char)*c))
      return fail(WEFT_ERR_INVALID, "the token holds a character that is not printable ASCII, or a blank");
  if (!options->cert_file != !options->key_file)
    return fail(WEFT_ERR_INVALID, "the store's certificate and key go together: the %s is missing",
                options->cert_file ? "key" : "certificate");
  if (!(options->flags & WEFT_STORE_SERVER_INSECURE) && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
    return fail(WEFT_ERR_UNSUPPORTED, "this host's libmicrohttpd has no TLS: want one that has, or an etcd, or an "
                                      "insecure store on a loopback address");
  return 0;
}

static int make_token(struct weft_store_server *server, const char *given) {
  char random[SECRET_DIGITS + 1];
  if (!given)
    secret_make(random);
  server->token = strdup(given ? given : random);
  OPENSSL_cleanse(random, sizeof random);
  return server->token ? 0 : no_memory();
}

static int derive(struct weft_store_server *server) {
  uint8_t key[SECRET_KEY_SIZE];
  int err = secret_derive(server->token, STORE_PURPOSE, key);
  if (!err)
    err = certificate_make(key, &server->key, &server->certificate);
  OPENSSL_cleanse(key, sizeof key);
  server->derived = !err;
  return err;
}

static int read_file(const char *path, const char *what, char **text) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0)
    return fail(WEFT_ERR_INVALID, "cannot open the store's %s, %s: %s", what, path, strerror(errno));
  char *bytes = calloc(1, MAX_FILE + 1);
  ssize_t size = bytes ? read(fd, bytes, MAX_FILE) : 0;
  int error = errno;
  close(fd);
  if (!bytes)
    return no_memory();
  if (size > 0 && size < MAX_FILE && strlen(bytes) == (size_t)size) {
    *text = bytes;
    return 0;
  }
  secret_free(bytes);
  return size < 0 ? fail_errno(error, "cannot read %s", path)
                  : fail(WEFT_ERR_INVALID, "%s is not a %s: want PEM text of less than %d bytes", path, what, MAX_FILE);
}

int server_secure(struct weft_store_server *server, const struct weft_store_server_options *options) {
  int err = check(options);
  if (err || (options->flags & WEFT_STORE_SERVER_INSECURE))
    return err;
  err = make_token(server, options->token);
  if (!err && !options->cert_file)
    return derive(server);
  if (!err)
    err = read_file(options->cert_file, "certificate", &server->certificate);
  return err ? err : read_file(options->key_file, "key", &server->key);
}
