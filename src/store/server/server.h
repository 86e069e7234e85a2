// The inside of the embedded server, shared by the files of this folder.
//
// libmicrohttpd's one thread reads requests, runs them on the gateway and sends. A stream that has nothing to send is
// suspended until the next event for it. The reactor, a separate thread, passes callers that have sent their first
// message (secure/lobby.h) to libmicrohttpd, expires leases, and closes connections that have not presented the token
// in time. It also notices when the client of a suspended stream disconnects, since libmicrohttpd does not watch the
// socket of such a stream.
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
  SERVER_MAX_CONNECTIONS = 8192, // connections that have presented the token
  SERVER_IDLE_S = 120,           // a connection that is idle for so long is closed, except a suspended stream
  SERVER_MAX_HELD = 256 << 20,   // bytes of incomplete requests and of unsent answers, of all clients
};

struct server_stream;

struct weft_store_server {
  uint32_t opened;                            // forked_now() of its start
  struct weft_store_server *next_left_behind; // in a forked child
  char url[96];
  char *token;             // NULL: none is required
  char *key, *certificate; // PEM; NULL: no TLS
  bool derived;            // both are derived from the token
  int listener;
  struct lobby *lobby;
  struct MHD_Daemon *daemon;
  _Atomic size_t held; // bytes, at most SERVER_MAX_HELD; only libmicrohttpd's thread changes it
  struct server_meter meter;

  pthread_mutex_t lock; // guards the rest
  struct gateway gateway;
  LIST_HEAD(, server_stream) streams;
  uint64_t next_stream;
  bool stopping;
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
  size_t sent; // bytes sent of gateway.out
  size_t held; // bytes of gateway.out that are counted in server->held
  bool suspended;
  bool gone; // the client has closed the connection
  LIST_ENTRY(server_stream) link;
};

// listen.c: a listening socket for the options' address, and its URL. INVALID, BUSY or SYSTEM name address and
// port.
int server_listen(const struct weft_store_server_options *options, int *listener, char url[96]);

// secure.c: sets token, key and certificate by the options. INVALID, UNSUPPORTED, NOMEM, SYSTEM. They are freed with
// the server, also after a failure.
int server_secure(struct weft_store_server *server, const struct weft_store_server_options *options);

// http.c: libmicrohttpd's side. Returns NULL when it cannot start.
struct MHD_Daemon *server_http_start(struct weft_store_server *server);

// stream.c: all with the server's lock held.

// Opens the stream and queues its response; false: `reply` has the error.
bool server_stream_open(struct weft_store_server *server, struct MHD_Connection *connection, const struct text *body,
                        struct server_stream **out, struct gateway_reply *reply);
void server_stream_resume(struct server_stream *stream);
void server_stream_close(struct server_stream *stream);

// The response that sends the stream; no lock held. NULL: no memory.
struct MHD_Response *server_stream_response(struct server_stream *stream);

// reactor.c
int server_reactor_start(struct weft_store_server *server);
void server_reactor_stop(struct weft_store_server *server);

// Called before leases are used: core_lease_note_pause(). With the server's lock held.
void server_note_standstill(struct weft_store_server *server);

// Makes the reactor check the leases and the connections again. [any]
void server_reactor_wake(struct weft_store_server *server);

#endif
