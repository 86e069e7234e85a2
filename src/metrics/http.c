// Serves the metrics over HTTP by libmicrohttpd on a separate thread. Another thread accepts connections (door.c).
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/net/endpoint.h"
#include "base/thread.h"
#include "metrics/door.h"
#include "metrics/server.h"
#include "secure/hmac.h"

enum {
  IDLE_S = 10,
  CONNECTION_BYTES = 16 << 10, // of a request's head
};

struct metrics_server {
  void (*write)(void *arg, struct text *text);
  void *arg;
  struct MHD_Daemon *daemon;
  struct metrics_door *door;
  bool asks;                 // requests need the bearer text
  uint8_t bearer[HMAC_SIZE]; // its hash
};

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status, const char *type, char *data,
                                 size_t size) {
  struct MHD_Response *response = MHD_create_response_from_buffer(size, data, MHD_RESPMEM_MUST_FREE);
  if (!response) {
    free(data);
    return MHD_NO;
  }
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close"); // frees the place for the next caller
  if (status == MHD_HTTP_UNAUTHORIZED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"weft metrics\"");
  enum MHD_Result result = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *why) {
  char *text = strdup(why);
  return text ? send_text(connection, status, "text/plain", text, strlen(text)) : MHD_NO;
}

// Takes the same time, no matter how much of the bearer text is right.
static bool may_read(const struct metrics_server *server, struct MHD_Connection *connection) {
  static const char scheme[] = "Bearer ";
  if (!server->asks)
    return true;
  const char *shown = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
  if (!shown || strncmp(shown, scheme, sizeof scheme - 1) != 0)
    return false;
  shown += sizeof scheme - 1;
  uint8_t hash[HMAC_SIZE];
  const struct hmac_part part = {shown, strlen(shown)};
  return secure_sha256(&part, 1, hash) == 0 && hmac_equal(hash, server->bearer);
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *path, const char *method,
                              const char *version, const char *data, size_t *size, void **state) {
  (void)version, (void)data;
  struct metrics_server *server = arg;
  if (!*state && !may_read(server, connection))
    return refuse(connection, MHD_HTTP_UNAUTHORIZED,
                  "these metrics need the bearer token that is derived from the token\n");
  if (!*state) { // the request's head; the answer follows after the body, which must be empty
    metrics_door_known(server->door, connection);
    *state = server;
    return MHD_YES;
  }
  if (*size > 0) {
    *size = 0;
    return MHD_YES;
  }
  if (strcmp(path, "/metrics") != 0)
    return refuse(connection, MHD_HTTP_NOT_FOUND, "there is only /metrics\n");
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
    return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n");
  struct text text = {0};
  server->write(server->arg, &text);
  if (text.failed) {
    text_free(&text);
    return refuse(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory\n");
  }
  size_t length = text.size;
  return send_text(connection, MHD_HTTP_OK, "application/openmetrics-text; version=1.0.0; charset=utf-8",
                   text_take(&text), length);
}

// Metrics are served beyond loopback only if requests need the bearer text.
static int check_reach(const struct metrics_source *source, int fd, const char *address) {
  struct sockaddr_storage bound = {0};
  socklen_t size = sizeof bound;
  getsockname(fd, (struct sockaddr *)&bound, &size);
  const struct sockaddr_in *v4 = (const void *)&bound;
  const struct sockaddr_in6 *v6 = (const void *)&bound;
  bool near = bound.ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
                                         : bound.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
  return near || (source->token && *source->token)
             ? 0
             : fail(WEFT_ERR_INVALID,
                    "everybody who reaches the address %s could read these metrics: give %s a token, or serve them at "
                    "127.0.0.1 or [::1]",
                    address, source->of);
}

// --- the server ---

void metrics_server_close(struct metrics_server *server) {
  if (!server)
    return;
  metrics_door_stop(server->door); // the daemon gets no more connections
  if (server->daemon)
    MHD_stop_daemon(server->daemon);
  metrics_door_free(server->door);
  free(server);
}

static int set_bearer(struct metrics_server *server, const char *token) {
  char bearer[METRICS_BEARER + 1];
  const struct hmac_part part = {bearer, METRICS_BEARER};
  server->asks = token && *token;
  int rc = server->asks ? metrics_bearer(token, bearer) : 0;
  if (rc == 0 && server->asks)
    rc = secure_sha256(&part, 1, server->bearer);
  explicit_bzero(bearer, sizeof bearer);
  return rc;
}

static int start_daemon(struct metrics_server *server, const char *address) {
  sigset_t before;
  thread_block_signals(&before);
  server->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET, 0, NULL,
                                    NULL, handle, server, MHD_OPTION_CONNECTION_LIMIT,
                                    (unsigned)METRICS_CONNECTIONS + 8, // some are being closed
                                    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                    (size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_CONNECTION, metrics_door_notified,
                                    server->door, MHD_OPTION_END);
  thread_restore_signals(&before);
  return server->daemon ? metrics_door_start(server->door, server->daemon)
                        : fail(WEFT_ERR_SYSTEM, "libmicrohttpd cannot start a server at %s", address);
}

// Takes over ownership of the listener.
static int start(const struct metrics_source *source, int fd, const char *address, struct metrics_server **made) {
  struct metrics_server *server = calloc(1, sizeof *server);
  int rc = server ? metrics_door_make(&server->door, fd) : fail(WEFT_ERR_NOMEM, "no memory to serve metrics");
  if (rc != 0) {
    close(fd);
    free(server);
    return rc;
  }
  server->write = source->write;
  server->arg = source->arg;
  rc = set_bearer(server, source->token);
  if (rc == 0)
    rc = start_daemon(server, address);
  if (rc == 0)
    *made = server;
  else
    metrics_server_close(server);
  return rc;
}

int metrics_server_open(const struct metrics_source *source, const char *address, uint16_t *port,
                        struct metrics_server **server) {
  int fd;
  uint16_t bound;
  int err = endpoint_listen(address, &fd, &bound);
  if (err)
    return err;
  err = check_reach(source, fd, address);
  if (err) {
    close(fd);
    return err;
  }
  err = start(source, fd, address, server);
  if (!err && port)
    *port = bound;
  return err;
}
