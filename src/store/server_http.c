#include "store/server.h"

#include "base/clock.h"
#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
  GRPC_UNAUTHENTICATED = 16,
  MAX_DISCARDED = 64 << 20, // of a request that is refused anyway; a client that sends more is cut off
};

// A request on its way in, and its stream if it becomes one.
struct exchange {
  struct text body;
  size_t discarded;
  bool authorized;
  struct server_stream *stream;
};

// Whether both are equal, in a time that depends on their lengths only.
static bool equal(const char *given, const char *expected) {
  size_t given_size = strlen(given), expected_size = strlen(expected);
  unsigned difference = given_size != expected_size;
  for (size_t i = 0; i < given_size; i++)
    difference |= (unsigned char)given[i] ^ (unsigned char)expected[i < expected_size ? i : 0];
  return difference == 0;
}

static bool is_authorized(const struct weft_store_server *server, struct MHD_Connection *connection, const char *path) {
  if (!server->token || gateway_is_public(path))
    return true;
  const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
  if (!given)
    return false;
  if (strncasecmp(given, "Bearer ", 7) == 0)
    given += 7;
  return equal(given, server->token);
}

static enum MHD_Result send_response(struct MHD_Connection *connection, struct MHD_Response *response, unsigned status,
                                     const char *content_type) {
  if (!response)
    return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
  enum MHD_Result result = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result send_reply(struct MHD_Connection *connection, struct gateway_reply *reply) {
  size_t size = reply->body.size;
  char *data = text_take(&reply->body);
  if (!data)
    return MHD_NO;
  struct MHD_Response *response = MHD_create_response_from_buffer(size, data, MHD_RESPMEM_MUST_FREE);
  if (!response)
    free(data);
  return send_response(connection, response, reply->status, reply->content_type);
}

// Takes a part of the body. False: the connection is to be cut.
static bool collect(struct exchange *exchange, const char *data, size_t size) {
  if (exchange->authorized && exchange->discarded == 0 && size <= GATEWAY_MAX_BODY - exchange->body.size) {
    text_add_bytes(&exchange->body, data, size);
    return !exchange->body.failed;
  }
  exchange->discarded += size;
  return exchange->discarded <= MAX_DISCARDED;
}

static enum MHD_Result answer_watch(struct weft_store_server *server, struct MHD_Connection *connection,
                                    struct exchange *exchange) {
  struct gateway_reply reply = {0};
  pthread_mutex_lock(&server->lock);
  bool open = server_stream_open(server, connection, &exchange->body, &exchange->stream, &reply);
  pthread_mutex_unlock(&server->lock);
  if (!open)
    return send_reply(connection, &reply);
  return send_response(connection, server_stream_response(exchange->stream), MHD_HTTP_OK, "application/json");
}

static enum MHD_Result answer(struct weft_store_server *server, struct MHD_Connection *connection, const char *method,
                              const char *path, struct exchange *exchange) {
  struct gateway_reply reply = {0};
  if (!exchange->authorized) {
    gateway_fail(&reply, GRPC_UNAUTHENTICATED, "etcdserver: invalid auth token");
  } else if (exchange->discarded > 0) {
    gateway_fail(&reply, core_status_grpc(CORE_TOO_LARGE), core_status_text(CORE_TOO_LARGE));
  } else if (gateway_is_watch(path) && strcmp(method, MHD_HTTP_METHOD_POST) == 0) {
    return answer_watch(server, connection, exchange);
  } else {
    pthread_mutex_lock(&server->lock);
    size_t leases = core_lease_count(server->gateway.core);
    gateway_handle(&server->gateway, clock_ns(), method, path, &exchange->body, &reply);
    bool granted = core_lease_count(server->gateway.core) > leases;
    pthread_mutex_unlock(&server->lock);
    if (granted) // it may be the next to expire
      server_minder_wake(server);
  }
  return send_reply(connection, &reply);
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *path, const char *method,
                              const char *version, const char *data, size_t *size, void **state) {
  (void)version;
  struct weft_store_server *server = arg;
  struct exchange *exchange = *state;
  if (!exchange) {
    exchange = calloc(1, sizeof *exchange);
    if (!exchange)
      return MHD_NO;
    exchange->authorized = is_authorized(server, connection, path);
    *state = exchange;
    return MHD_YES;
  }
  if (*size > 0) {
    bool go_on = collect(exchange, data, *size);
    *size = 0;
    return go_on ? MHD_YES : MHD_NO;
  }
  return answer(server, connection, method, path, exchange);
}

static void completed(void *arg, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode reason) {
  (void)connection, (void)reason;
  struct weft_store_server *server = arg;
  struct exchange *exchange = *state;
  if (!exchange)
    return;
  if (exchange->stream) {
    pthread_mutex_lock(&server->lock);
    server_stream_close(exchange->stream);
    pthread_mutex_unlock(&server->lock);
  }
  text_free(&exchange->body);
  free(exchange);
  *state = NULL;
}

static void log_message(void *arg, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

static void log_message(void *arg, const char *format, va_list args) {
  const struct weft_store_server *server = arg;
  char line[256];
  vsnprintf(line, sizeof line, format, args);
  line[strcspn(line, "\n")] = '\0';
  log_debug("%s: %s", server->url, line);
}

struct MHD_Daemon *server_http_start(struct weft_store_server *server) {
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
  return MHD_start_daemon(flags, 0, NULL, NULL, handle, server, MHD_OPTION_EXTERNAL_LOGGER, log_message, server,
                          MHD_OPTION_LISTEN_SOCKET, server->listener, MHD_OPTION_NOTIFY_COMPLETED, completed, server,
                          MHD_OPTION_CONNECTION_LIMIT, (unsigned)SERVER_MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
                          (unsigned)SERVER_IDLE_S, MHD_OPTION_END);
}
