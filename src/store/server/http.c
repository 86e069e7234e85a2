// The HTTP part of an embedded server, by libmicrohttpd: connections, permissions, requests and answers.
#include "store/server/server.h"

#include "base/log.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum {
  GRPC_RESOURCE_EXHAUSTED = 8,
  GRPC_UNAUTHENTICATED = 16,
  // If a request is refused, so many bytes of its body are read and dropped, so that the client gets the answer and not
  // the end of the connection. The limits are for strangers, which may send only small requests, and for other clients.
  MAX_STRANGERS_BODY = 16 << 10,
  MAX_DISCARDED = 8 << 20,
  CONNECTION_MEMORY = 32 << 10, // bytes of a connection's buffers: the headers have to fit
};

// TLS 1.3 and nothing older, where the clients are Weft's own; others' certificates are for others' clients, too.
#define PRIORITIES_DERIVED "NORMAL:-VERS-ALL:+VERS-TLS1.3"
#define PRIORITIES_GIVEN   "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

// A request on its way in, and its stream if it becomes one.
struct exchange {
  struct text body;
  size_t discarded;
  size_t held;      // bytes of the body and of the answer that are counted in server->held
  bool shown;       // the token
  const char *busy; // why there is no place for the request, NULL: there is
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

static bool shows_token(const struct weft_store_server *server, struct MHD_Connection *connection) {
  if (!server->token)
    return true;
  const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
  if (!given)
    return false;
  if (strncasecmp(given, "Bearer ", 7) == 0)
    given += 7;
  return equal(given, server->token);
}

// Counts bytes that the exchange keeps; false: all clients together have as many as they may.
static bool hold(struct weft_store_server *server, struct exchange *exchange, size_t size) {
  if (size > SERVER_MAX_HELD - server->held)
    return false;
  server->held += size;
  exchange->held += size;
  return true;
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

static enum MHD_Result send_reply(struct weft_store_server *server, struct MHD_Connection *connection,
                                  struct exchange *exchange, struct gateway_reply *reply) {
  if (!hold(server, exchange, reply->body.size))
    gateway_fail(reply, GRPC_RESOURCE_EXHAUSTED, "weft: no memory for another answer: clients do not read theirs");
  size_t size = reply->body.size;
  char *data = text_take(&reply->body);
  if (!data)
    return MHD_NO;
  struct MHD_Response *response = MHD_create_response_from_buffer(size, data, MHD_RESPMEM_MUST_FREE);
  if (!response)
    free(data);
  return send_response(connection, response, reply->status, reply->content_type);
}

// Receives a part of the body. False: the connection has to be closed.
static bool collect(struct weft_store_server *server, struct exchange *exchange, const char *data, size_t size) {
  bool keep = exchange->shown && !exchange->busy && exchange->discarded == 0;
  if (keep && size <= GATEWAY_MAX_BODY - exchange->body.size) {
    if (hold(server, exchange, size)) {
      text_add_bytes(&exchange->body, data, size);
      return !exchange->body.failed;
    }
    exchange->busy = "weft: too many requests at once";
  }
  exchange->discarded += size;
  return exchange->discarded <= (exchange->shown ? MAX_DISCARDED : MAX_STRANGERS_BODY);
}

static enum MHD_Result answer_watch(struct weft_store_server *server, struct MHD_Connection *connection,
                                    struct exchange *exchange) {
  struct gateway_reply reply = {0};
  pthread_mutex_lock(&server->lock);
  bool open = server_stream_open(server, connection, &exchange->body, &exchange->stream, &reply);
  pthread_mutex_unlock(&server->lock);
  if (!open)
    return send_reply(server, connection, exchange, &reply);
  return send_response(connection, server_stream_response(exchange->stream), MHD_HTTP_OK, "application/json");
}

static enum MHD_Result answer_it(struct weft_store_server *server, struct MHD_Connection *connection,
                                 const char *method, const char *path, struct exchange *exchange) {
  struct gateway_reply reply = {0};
  if (!exchange->shown && !gateway_is_public(path)) {
    gateway_fail(&reply, GRPC_UNAUTHENTICATED, "etcdserver: invalid auth token");
  } else if (exchange->busy) {
    gateway_fail(&reply, GRPC_RESOURCE_EXHAUSTED, exchange->busy);
  } else if (exchange->discarded > 0) {
    gateway_fail(&reply, core_status_grpc(CORE_TOO_LARGE), core_status_text(CORE_TOO_LARGE));
  } else if (gateway_is_watch(path) && strcmp(method, MHD_HTTP_METHOD_POST) == 0) {
    return answer_watch(server, connection, exchange);
  } else {
    pthread_mutex_lock(&server->lock);
    server_note_standstill(server);
    size_t leases = core_lease_count(server->gateway.core);
    gateway_handle(&server->gateway, clock_ns(), method, path, &exchange->body, &reply);
    bool granted = core_lease_count(server->gateway.core) > leases;
    pthread_mutex_unlock(&server->lock);
    if (granted) // it may be the next to expire
      server_reactor_wake(server);
  }
  return send_reply(server, connection, exchange, &reply);
}

static enum MHD_Result answer(struct weft_store_server *server, struct MHD_Connection *connection, const char *method,
                              const char *path, struct exchange *exchange) {
  struct server_meter *meter = &server->meter;
  uint64_t begun = clock_ns();
  enum MHD_Result result = answer_it(server, connection, method, path, exchange);
  bool stranger = !exchange->shown && !gateway_is_public(path);
  atomic_fetch_add_explicit(stranger ? &meter->strangers : &meter->calls[server_meter_call(path)], 1,
                            memory_order_relaxed);
  if (!stranger)
    metrics_histogram_add(&meter->times, clock_ns() - begun);
  return result;
}

// Whether a stranger announces a body that is not worth waiting for. (One in chunks has no length.)
static bool announces_much(struct MHD_Connection *connection) {
  const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING))
    return true;
  return length && strtoull(length, NULL, 10) > MAX_STRANGERS_BODY;
}

// The headers have come.
static enum MHD_Result begin(struct weft_store_server *server, struct MHD_Connection *connection, const char *method,
                             const char *path, struct exchange *exchange) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  struct gate_entry *entry = info ? info->socket_context : NULL;
  if (!entry)
    return MHD_NO;
  exchange->shown = shows_token(server, connection);
  if (exchange->shown) {
    pthread_mutex_lock(&server->lock);
    if (!server_gate_admit(&server->gate, entry, SERVER_MAX_CONNECTIONS))
      exchange->busy = "weft: too many connections";
    pthread_mutex_unlock(&server->lock);
  } else if (announces_much(connection)) {
    return answer(server, connection, method, path, exchange); // and the connection ends
  }
  return MHD_YES;
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
    *state = exchange;
    return begin(server, connection, method, path, exchange);
  }
  if (*size > 0) {
    bool go_on = collect(server, exchange, data, *size);
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
  server->held -= exchange->held;
  text_free(&exchange->body);
  free(exchange);
  *state = NULL;
}

// A connection begins or ends.
static void note_connection(void *arg, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode code) {
  struct weft_store_server *server = arg;
  bool first = false;
  pthread_mutex_lock(&server->lock);
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    const struct sockaddr *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    *context = server_gate_enter(&server->gate, fd, address, clock_ns(), &first);
    if (!*context)
      shutdown(fd, SHUT_RDWR);
  } else if (*context) {
    server_gate_leave(&server->gate, *context);
    *context = NULL;
  }
  pthread_mutex_unlock(&server->lock);
  if (first)
    server_reactor_wake(server);
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
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
                   MHD_USE_ERROR_LOG;
  const char *priorities = server->derived ? PRIORITIES_DERIVED : PRIORITIES_GIVEN;
  struct MHD_OptionItem tls[] = {
      {MHD_OPTION_HTTPS_MEM_KEY, 0, server->key},
      {MHD_OPTION_HTTPS_MEM_CERT, 0, server->certificate},
      {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)priorities},
      {MHD_OPTION_END, 0, NULL},
  };
  struct MHD_OptionItem none = {MHD_OPTION_END, 0, NULL};
  sigset_t before;
  thread_block_signals(&before);
  struct MHD_Daemon *daemon = MHD_start_daemon(
      flags | (server->key ? MHD_USE_TLS : 0), 0, NULL, NULL, handle, server, MHD_OPTION_EXTERNAL_LOGGER, log_message,
      server, // first, as it logs errors of the others
      MHD_OPTION_ARRAY, server->key ? tls : &none, MHD_OPTION_NOTIFY_COMPLETED, completed, server,
      MHD_OPTION_NOTIFY_CONNECTION, note_connection, server, MHD_OPTION_CONNECTION_LIMIT,
      (unsigned)(SERVER_MAX_CONNECTIONS + 2 * GATE_PLACES), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SERVER_IDLE_S, MHD_OPTION_END);
  thread_restore_signals(&before);
  return daemon;
}
