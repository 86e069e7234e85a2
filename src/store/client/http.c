// Requests to etcd's gateway, by libcurl.
#include "store/client/http.h"

#include "base/fail.h"
#include "base/http_only.h"
#include "base/time/clock.h"
#include "store/limit.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum { IDLE_HANDLES = 16, TCP_IDLE_S = 5, TCP_INTERVAL_S = 2 };

struct client_pool {
  pthread_mutex_t lock;
  CURL *idle[IDLE_HANDLES];
  size_t count;
};

static size_t take_body(char *data, size_t size, size_t count, void *arg) {
  struct client_transfer *transfer = arg;
  if (transfer->body.size + size * count > CLIENT_MAX_REPLY) {
    transfer->too_big = true;
    return 0;
  }
  text_add_bytes(&transfer->body, data, size * count);
  return transfer->body.failed ? 0 : size * count;
}

// curl calls this when a connection is established, each time before it sends the request. Without this, curl sends a
// request again if a kept connection turns out to be dead, although the server may have carried out the request.
//
// While no server listens at a port of this host that the kernel also gives to outgoing connections, one of them may
// get it, and then it is connected to itself. Its client would take its own request for a malformed answer, and keep
// the port from the server that is about to begin again.
static int before_request(void *arg, char *ip, char *local_ip, int port, int local_port) {
  struct client_transfer *transfer = arg;
  transfer->to_itself = port == local_port && strcmp(ip, local_ip) == 0;
  if (transfer->to_itself || (transfer->once && transfer->sent))
    return CURL_PREREQFUNC_ABORT;
  transfer->sent++;
  return CURL_PREREQFUNC_OK;
}

// The sockets of connections; curl's own wakeup pairs stay open across an exec, so a program that starts others has to
// close them.
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address) {
  (void)arg, (void)purpose;
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// curl calls this about once a second while nothing arrives.
static int has_to_stop(void *arg, curl_off_t to_come, curl_off_t came, curl_off_t to_go, curl_off_t gone) {
  (void)arg, (void)to_come, (void)came, (void)to_go, (void)gone;
  return clock_passed(store_limit());
}

static pthread_once_t global_once = PTHREAD_ONCE_INIT;

static void init_global(void) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
}

void client_http_init(void) {
  pthread_once(&global_once, init_global);
}

// Sets how the server is verified. A pin replaces a CA: the public key that the server proves to have must be the one
// that is derived from the token, whatever else its certificate contains and whoever signed it. If an option cannot be
// set, there is no handle.
static bool set_security(CURL *handle, const struct client *client) {
  bool pinned = *client->pin != '\0';
  CURLcode code = http_only(handle);
  if (!code)
    code = curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L); // a store sends nobody elsewhere
  if (!code)
    code = curl_easy_setopt(handle, CURLOPT_SSLVERSION,
                            (long)(pinned ? CURL_SSLVERSION_TLSv1_3 : CURL_SSLVERSION_TLSv1_2));
  if (!code && pinned)
    code = curl_easy_setopt(handle, CURLOPT_PINNEDPUBLICKEY, client->pin);
  if (!code && pinned) // the host's CAs would be read for each connection, some milliseconds, and not be asked
    code = curl_easy_setopt(handle, CURLOPT_CAINFO, NULL);
  if (!code && pinned)
    code = curl_easy_setopt(handle, CURLOPT_CAPATH, NULL);
  if (!code && pinned)
    code = curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 0L);
  if (!code && pinned)
    code = curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 0L);
  if (!code && client->ca_file)
    code = curl_easy_setopt(handle, CURLOPT_CAINFO, client->ca_file);
  if (!code && client->cert_file)
    code = curl_easy_setopt(handle, CURLOPT_SSLCERT, client->cert_file);
  if (!code && client->cert_file)
    code = curl_easy_setopt(handle, CURLOPT_SSLKEY, client->key_file);
  return code == CURLE_OK;
}

CURL *client_http_handle(const struct client *client) {
  client_http_init();
  CURL *handle = curl_easy_init();
  if (!handle)
    return NULL;
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_NOPROXY, "*"); // a store is never behind the proxy of the environment
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(handle, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPIDLE, (long)TCP_IDLE_S);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPINTVL, (long)TCP_INTERVAL_S);
  curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, before_request);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, has_to_stop);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, (long)client->connect_timeout_ms);
  if (set_security(handle, client))
    return handle;
  curl_easy_cleanup(handle);
  return NULL;
}

static bool add_header(struct curl_slist **headers, const char *line) {
  struct curl_slist *longer = curl_slist_append(*headers, line);
  if (longer)
    *headers = longer;
  return longer != NULL;
}

static bool set_headers(struct client_transfer *transfer, const char *authorization) {
  char line[CLIENT_MAX_TOKEN + 32];
  snprintf(line, sizeof line, "Authorization: %s", authorization);
  return add_header(&transfer->headers, "Content-Type: application/json") &&
         add_header(&transfer->headers, "Expect:") && // else curl waits before it sends a body above 1 MiB
         (!transfer->needs_leader || add_header(&transfer->headers, "Grpc-Metadata-hasleader: true")) &&
         (!*authorization || add_header(&transfer->headers, line));
}

int client_http_prepare(CURL *handle, struct client_transfer *transfer, const char *endpoint, const char *path,
                        const struct text *body, const char *authorization) {
  struct text url = {0};
  text_add(&url, "%s%s", endpoint, path);
  bool good = !url.failed && set_headers(transfer, authorization);
  // curl copies the URL but not the headers and the body
  good = good && curl_easy_setopt(handle, CURLOPT_URL, url.data) == CURLE_OK;
  text_free(&url);
  if (!good)
    return fail(WEFT_ERR_NOMEM, "no memory for a request to the store");
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, transfer->headers);
  if (body) {
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size);
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, body->data);
  } else {
    curl_easy_setopt(handle, CURLOPT_HTTPGET, 1L);
  }
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, transfer->reason);
  curl_easy_setopt(handle, CURLOPT_PREREQDATA, transfer);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, transfer);
  return 0;
}

void client_transfer_end(struct client_transfer *transfer) {
  text_free(&transfer->body);
  curl_slist_free_all(transfer->headers);
  *transfer = (struct client_transfer){0};
}

struct client_pool *client_pool_create(void) {
  struct client_pool *pool = calloc(1, sizeof *pool);
  if (pool)
    pthread_mutex_init(&pool->lock, NULL);
  return pool;
}

void client_pool_free(struct client_pool *pool) {
  if (!pool)
    return;
  for (size_t i = 0; i < pool->count; i++)
    curl_easy_cleanup(pool->idle[i]);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

static CURL *take_handle(struct client *client) {
  struct client_pool *pool = client->pool;
  pthread_mutex_lock(&pool->lock);
  CURL *handle = pool->count ? pool->idle[--pool->count] : NULL;
  pthread_mutex_unlock(&pool->lock);
  return handle ? handle : client_http_handle(client);
}

static void give_handle(struct client *client, CURL *handle) {
  struct client_pool *pool = client->pool;
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, NULL);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, NULL);
  pthread_mutex_lock(&pool->lock);
  bool kept = pool->count < IDLE_HANDLES;
  if (kept)
    pool->idle[pool->count++] = handle;
  pthread_mutex_unlock(&pool->lock);
  if (!kept)
    curl_easy_cleanup(handle);
}

// Whether the connection that the handle kept is unusable: without a request, only its end can arrive on it. curl
// checks that itself, but later releases (8.22) only once a second: they would send on a dead connection, and a request
// that modifies cannot be sent again.
static bool kept_is_dead(CURL *handle) {
  curl_socket_t kept = CURL_SOCKET_BAD;
  if (curl_easy_getinfo(handle, CURLINFO_ACTIVESOCKET, &kept) != CURLE_OK || kept == CURL_SOCKET_BAD)
    return false;
  struct pollfd ended = {.fd = kept, .events = POLLIN | POLLRDHUP};
  return poll(&ended, 1, 0) > 0;
}

int client_http_exchange(struct client *client, struct client_transfer *transfer, const char *endpoint,
                         const struct client_request *request, const char *authorization, uint64_t deadline_ns,
                         long *status) {
  CURL *handle = take_handle(client);
  if (!handle)
    return fail(WEFT_ERR_NOMEM, "no memory for a connection to the store");
  transfer->once = request->modifies;
  int err = client_http_prepare(handle, transfer, endpoint, request->path, request->body, authorization);
  if (!err) {
    int left_ms = clock_left_ms(store_limit() < deadline_ns ? store_limit() : deadline_ns);
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, left_ms ? (long)left_ms : 1L); // curl takes 0 for never
    curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, kept_is_dead(handle) ? 1L : 0L);
    CURLcode code = curl_easy_perform(handle);
    if (code == CURLE_OK) {
      curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, status);
    } else {
      curl_easy_getinfo(handle, CURLINFO_OS_ERRNO, &transfer->os_errno);
      err = client_http_failure(code, transfer, endpoint);
    }
  }
  give_handle(client, handle);
  return err;
}

// Whether the server ended the handshake, or the connection after it (TLS 1.3), because the client showed none.
static bool wants_certificate(const char *reason) {
  return strstr(reason, "certificate required") || strstr(reason, "bad certificate") ||
         strstr(reason, "handshake failure");
}

static const char may_be_https[] = "; an embedded server with a token is reached by https://";

int client_http_failure(CURLcode code, const struct client_transfer *transfer, const char *endpoint) {
  const char *reason = *transfer->reason ? transfer->reason : curl_easy_strerror(code);
  if (strstr(reason, "alert") && wants_certificate(reason))
    return fail(WEFT_ERR_AUTH,
                "store %s: the server requires a client certificate that it trusts (%s); give one with its key",
                endpoint, reason);
  bool tls = strncasecmp(endpoint, "https:", strlen("https:")) == 0;
  switch (code) {
  case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    return fail(WEFT_ERR_AUTH,
                "store %s: its certificate is not derived from the token: give the token that the "
                "server was started with, or the CA that signed its certificate. Nothing was sent to it",
                endpoint);
  case CURLE_SSL_CONNECT_ERROR:
    return fail(WEFT_ERR_UNREACHABLE,
                "store %s: no TLS connection (%s); the server may not speak TLS, or only an older version", endpoint,
                reason);
  case CURLE_PEER_FAILED_VERIFICATION:
    return fail(WEFT_ERR_AUTH,
                "store %s: its certificate is not accepted (%s); give the CA that signed it, or, for an embedded "
                "server, give the token",
                endpoint, reason);
  case CURLE_SSL_CACERT_BADFILE: // the given file, or the host has none
    return fail(WEFT_ERR_AUTH,
                "store %s: its certificate cannot be checked (%s); give the CA that signed it, or, for an embedded "
                "server, give the token",
                endpoint, reason);
  case CURLE_SSL_CERTPROBLEM:
    return fail(WEFT_ERR_AUTH, "store %s: a certificate or key file given cannot be used: %s", endpoint, reason);
  case CURLE_OPERATION_TIMEDOUT:
    if (transfer->sent)
      return fail(WEFT_ERR_TIMEOUT, "store %s: no answer in time (%s)", endpoint, reason);
    return fail(WEFT_ERR_UNREACHABLE, "store %s: no connection in time (%s)", endpoint, reason);
  case CURLE_WRITE_ERROR:
    if (transfer->too_big)
      return fail(WEFT_ERR_PROTOCOL, "store %s: an answer of more than %d bytes", endpoint, CLIENT_MAX_REPLY);
    return fail(WEFT_ERR_NOMEM, "no memory for an answer of the store");
  case CURLE_WEIRD_SERVER_REPLY:
  case CURLE_UNSUPPORTED_PROTOCOL:
    return fail(WEFT_ERR_PROTOCOL, "store %s: no HTTP answer (%s)%s", endpoint, reason, tls ? "" : may_be_https);
  case CURLE_GOT_NOTHING:
    return fail(WEFT_ERR_UNREACHABLE, "store %s: %s%s", endpoint, reason, tls ? "" : may_be_https);
  case CURLE_ABORTED_BY_CALLBACK:
    if (clock_passed(store_limit()))
      return fail(WEFT_ERR_TIMEOUT, "store %s: cancelled before an answer arrived", endpoint);
    if (transfer->to_itself)
      return fail(WEFT_ERR_UNREACHABLE, "store %s: nobody listens there: the connection came back to this client",
                  endpoint);
    return fail(WEFT_ERR_UNREACHABLE, "store %s: the connection was closed before the answer", endpoint);
  case CURLE_SEND_ERROR: // its alert may be overtaken by the end of the connection
  case CURLE_RECV_ERROR:
    return fail(WEFT_ERR_UNREACHABLE, "store %s: %s%s", endpoint, reason,
                tls ? "; the server may require a client certificate that it trusts" : may_be_https);
  default:
    return fail(WEFT_ERR_UNREACHABLE, "store %s: %s%s", endpoint, reason,
                transfer->os_errno == ENETUNREACH ? "; no interface that is up leads there ('ip link' shows them)"
                                                  : "");
  }
}
