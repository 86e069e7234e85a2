// Reads the options of a client: endpoints, names, certificates, time limits.
#include "store/client/client.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/sized.h"
#include "store/purpose.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <curl/curl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { DEFAULT_CONNECT_MS = 2000, DEFAULT_REQUEST_MS = 5000 };

static int copy_string(const char *from, char **to) {
  if (!from || !*from)
    return 0;
  *to = strdup(from);
  return *to ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the store's options");
}

// The part of `url` that `part` names; NULL: it has none. Free it with curl_free().
static char *url_part(CURLU *url, CURLUPart part) {
  char *text = NULL;
  return curl_url_get(url, part, &text, 0) == CURLUE_OK ? text : NULL;
}

// Whether the URL is nothing but scheme, host and port.
static bool is_plain(CURLU *url) {
  static const CURLUPart none[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT};
  bool plain = true;
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    char *text = url_part(url, none[i]);
    plain = plain && !text;
    curl_free(text);
  }
  char *path = url_part(url, CURLUPART_PATH);
  char *scheme = url_part(url, CURLUPART_SCHEME);
  plain = plain && path && !strcmp(path, "/") && scheme && (!strcmp(scheme, "http") || !strcmp(scheme, "https"));
  curl_free(path);
  curl_free(scheme);
  return plain;
}

static int check_endpoint(const char *endpoint) {
  CURLU *url = curl_url();
  if (!url)
    return fail(WEFT_ERR_NOMEM, "no memory for the store's options");
  bool good = curl_url_set(url, CURLUPART_URL, endpoint, 0) == CURLUE_OK && is_plain(url);
  curl_url_cleanup(url);
  return good ? 0
              : fail(WEFT_ERR_INVALID, "store endpoint \"%s\": not of the form http://host:port or https://host:port",
                     endpoint);
}

static int add_endpoint(struct client *client, const char *from, size_t size) {
  while (size && isspace((unsigned char)*from))
    from++, size--;
  while (size && (isspace((unsigned char)from[size - 1]) || from[size - 1] == '/'))
    size--;
  if (client->num_endpoints == CLIENT_MAX_ENDPOINTS)
    return fail(WEFT_ERR_INVALID, "more than %d store endpoints", CLIENT_MAX_ENDPOINTS);
  char *endpoint = strndup(from, size);
  if (!endpoint)
    return fail(WEFT_ERR_NOMEM, "no memory for the store's options");
  client->endpoints[client->num_endpoints++] = endpoint;
  return check_endpoint(endpoint);
}

static int set_endpoints(struct client *client, const char *list) {
  if (!list || !*list)
    return fail(WEFT_ERR_INVALID, "no store endpoint given: http://host:port is needed");
  for (const char *from = list;; from++) {
    size_t size = strcspn(from, ",");
    int err = add_endpoint(client, from, size);
    if (err)
      return err;
    from += size;
    if (!*from)
      return 0;
  }
}

static int set_file(const char *path, const char *what, char **to) {
  if (path && *path && access(path, R_OK) != 0)
    return fail(WEFT_ERR_INVALID, "%s \"%s\" cannot be read", what, path);
  return copy_string(path, to);
}

static int set_credentials(struct client *client, const struct weft_store_options *options) {
  int err = copy_string(options->user, &client->user);
  if (!err)
    err = copy_string(options->password, &client->password);
  if (!err)
    err = copy_string(options->token, &client->bearer);
  if (err)
    return err;
  if (!client->user != !client->password)
    return fail(WEFT_ERR_INVALID, "store user and password go together: %s is missing",
                client->user ? "the password" : "the user");
  if (client->user && client->bearer)
    return fail(WEFT_ERR_INVALID,
                "a store token and a store user are both given: a token is for an embedded server, a user for etcd");
  for (const char *c = client->bearer; c && *c; c++)
    if (!isgraph((unsigned char)*c))
      return fail(WEFT_ERR_INVALID, "the store token holds a character that is not printable ASCII");
  if (client->bearer && strlen(client->bearer) >= CLIENT_MAX_TOKEN)
    return fail(WEFT_ERR_INVALID, "the store token is longer than %d bytes", CLIENT_MAX_TOKEN - 1);
  return 0;
}

static bool is_tls(const char *endpoint) {
  return strncasecmp(endpoint, "https:", strlen("https:")) == 0;
}

// Whether only processes of this host can listen at the endpoint.
static bool is_loopback(const char *endpoint) {
  CURLU *url = curl_url();
  char *host = url && curl_url_set(url, CURLUPART_URL, endpoint, 0) == CURLUE_OK ? url_part(url, CURLUPART_HOST) : NULL;
  struct in_addr v4;
  bool loopback = host && (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
                           (inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127));
  curl_free(host);
  curl_url_cleanup(url);
  return loopback;
}

// How the token applies to the endpoints: by the certificate that it makes, where no CA is given to check with.
static int set_pin(struct client *client) {
  uint8_t key[SECRET_KEY_SIZE];
  bool tls = false;
  for (size_t i = 0; client->bearer && i < client->num_endpoints; i++) {
    const char *endpoint = client->endpoints[i];
    tls = tls || is_tls(endpoint);
    if (!is_tls(endpoint) && !is_loopback(endpoint))
      return fail(WEFT_ERR_INVALID,
                  "store %s: a token is not sent over http://, where others could read it: give the https:// URL that "
                  "the server prints, or omit the token for an etcd without TLS",
                  endpoint);
  }
  if (!tls || client->ca_file)
    return 0;
  int err = secret_derive(client->bearer, STORE_PURPOSE, key);
  if (!err)
    err = certificate_pin(key, client->pin);
  OPENSSL_cleanse(key, sizeof key);
  return err;
}

// Unlike a token, which only Weft's own servers know, a password also works for an etcd without TLS. So it is sent, but
// not silently. One warning suffices for all clients of a process.
static void warn_of_readable_password(const struct client *client) {
  static atomic_flag warned = ATOMIC_FLAG_INIT;
  for (size_t i = 0; client->password && i < client->num_endpoints; i++) {
    const char *endpoint = client->endpoints[i];
    if (is_tls(endpoint) || is_loopback(endpoint) || atomic_flag_test_and_set(&warned))
      continue;
    log_warn("store %s: user and password are sent over http://, where others on the network can read them: give an "
             "https:// URL if the etcd has TLS",
             endpoint);
  }
}

int client_options_set(struct client *client, const struct weft_store_options *given) {
  struct weft_store_options copy;
  const struct weft_store_options *options = SIZED_READ(given, &copy, request_timeout_ms, "the store's options");
  if (!options)
    return sized_refusal(given, sizeof copy);
  int err = set_endpoints(client, options->endpoints);
  if (!err)
    err = set_file(options->ca_file, "store CA file", &client->ca_file);
  if (!err)
    err = set_file(options->cert_file, "store client certificate", &client->cert_file);
  if (!err)
    err = set_file(options->key_file, "store client key", &client->key_file);
  if (!err && !client->cert_file != !client->key_file)
    err = fail(WEFT_ERR_INVALID, "store client certificate and key go together: the %s is missing",
               client->cert_file ? "key" : "certificate");
  if (!err)
    err = set_credentials(client, options);
  if (!err)
    err = set_pin(client);
  if (err)
    return err;
  warn_of_readable_password(client);
  client->request_timeout_ms = options->request_timeout_ms ? options->request_timeout_ms : DEFAULT_REQUEST_MS;
  client->connect_timeout_ms = options->connect_timeout_ms ? options->connect_timeout_ms
                               : client->num_endpoints > 1 ? DEFAULT_CONNECT_MS
                                                           : client->request_timeout_ms;
  return 0;
}

void client_options_free(struct client *client) {
  for (size_t i = 0; i < client->num_endpoints; i++)
    free(client->endpoints[i]);
  free(client->ca_file);
  free(client->cert_file);
  free(client->key_file);
  free(client->user);
  secret_free(client->password);
  secret_free(client->bearer);
}
