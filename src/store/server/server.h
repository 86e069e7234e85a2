// The embedded server's inside, shared by server*.c.
//
// libmicrohttpd's one thread reads requests, runs them on the gateway and sends. A stream that has nothing to send is
// suspended, and resumed by the event that it waits for. The reactor, a thread of its own, gives libmicrohttpd the
// callers that have spoken (secure/lobby.h), expires leases, cuts connections that have not shown the token in time,
// and notices clients that went away from a suspended stream, whose socket libmicrohttpd does not look at.
#ifndef STORE_SERVER_SERVER_H
#define STORE_SERVER_SERVER_H

#include "secure/lobby.h"
#include "secure/secret.h"
#include "store/gateway/watch.h"
#include "store/server/gate.h"
#include "store/server/meter.h"
#include <microhttpd.h>
#include <pthread.h>
#include <weft/store.h>

enum {
  SERVER_MAX_CONNECTIONS = 8192, // that have shown the token
  SERVER_IDLE_S = 120, // a connection on which nothing moves for so long is closed; a suspended stream is not meant
  SERVER_MAX_HELD = 256 << 20, // bytes of requests that are not whole and of answers that are not sent, of all clients
};

struct server_stream;

struct weft_store_server {
  uint32_t opened;                            // forked_now() of its start
  struct weft_store_server *next_left_behind; // in a forked child
  char url[96];
  char *token;             // NULL: none is asked for
  char *key, *certificate; // PEM; NULL: no TLS
  bool derived;            // they are those that the token makes
  int listener;
  struct lobby *lobby;
  struct MHD_Daemon *daemon;
  _Atomic size_t held; // bytes, at most SERVER_MAX_HELD; libmicrohttpd's thread writes
  struct server_meter meter;

  pthread_mutex_t lock; // guards the rest
  struct gateway gateway;
  LIST_HEAD(, server_stream) streams;
  uint64_t next_stream;
  bool stopping;
  uint64_t look_ns; // when the reactor is to look at the leases at the latest; 0: there are none
  struct server_gate gate;

  int reactor_epoll; // the sockets of streams, each with its number, `reactor_wake` with number 0, and the lobby
  int reactor_wake;  // eventfd: an earlier expiry, or the end
  pthread_t reactor;
};

// One /v3/watch connection.
struct server_stream {
  struct gateway_stream gateway; // first
  struct weft_store_server *server;
  struct MHD_Connection *connection;
  uint64_t number; // from 1; never used again
  int fd;
  size_t sent; // of gateway.out
  bool suspended;
  bool gone; // the client closed
  LIST_ENTRY(server_stream) link;
};

// listen.c: a listening socket for the options' address, and its URL. INVALID, BUSY or SYSTEM name address and
// port.
int server_listen(const struct weft_store_server_options *options, int *listener, char url[96]);

// secure.c: token, key and certificate as the options want them. INVALID, UNSUPPORTED, NOMEM, SYSTEM. What it
// has made is freed with the server, also after a failure.
int server_secure(struct weft_store_server *server, const struct weft_store_server_options *options);

// http.c: libmicrohttpd's side. Returns NULL when it cannot start.
struct MHD_Daemon *server_http_start(struct weft_store_server *server);

// stream.c: all with the server's lock held.

// Opens the stream and queues its response; false: `reply` holds the error.
bool server_stream_open(struct weft_store_server *server, struct MHD_Connection *connection, const struct text *body,
                        struct server_stream **out, struct gateway_reply *reply);
void server_stream_resume(struct server_stream *stream);
void server_stream_close(struct server_stream *stream);

// The response that sends the stream; no lock held. NULL: no memory.
struct MHD_Response *server_stream_response(struct server_stream *stream);

// reactor.c
int server_reactor_start(struct weft_store_server *server);
void server_reactor_stop(struct weft_store_server *server);

// Before leases are looked at: where this process has stood still, they go on as they stood, since nobody could renew
// them. With the server's lock held.
void server_note_standstill(struct weft_store_server *server);

// Makes it look at the leases and the connections again. [any]
void server_reactor_wake(struct weft_store_server *server);

#endif
