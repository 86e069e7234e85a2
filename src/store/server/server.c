// Opens and closes the embedded server.
#include "store/server/server.h"

#include "base/fail.h"
#include "base/forked.h"
#include "base/random.h"
#include "base/sized.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static int check(const struct weft_store_server_options *options) {
  uint32_t unknown = options->flags & ~(uint32_t)WEFT_STORE_SERVER_INSECURE;
  if (unknown)
    return fail(WEFT_ERR_INVALID, "the store server's flags: bit 0x%x is no flag of enum weft_store_server_flag",
                (unsigned)unknown);
  if (options->reserved)
    return fail(WEFT_ERR_INVALID, "the store server's options: reserved is %u: want 0", options->reserved);
  return 0;
}

// Frees everything that start has made so far; also used when start fails.
static void destroy(struct weft_store_server *server) {
  lobby_close(server->lobby);
  if (server->listener >= 0)
    close(server->listener);
  core_free(server->gateway.core);
  secret_free(server->token);
  secret_free(server->key);
  free(server->certificate);
  pthread_mutex_destroy(&server->lock);
  free(server);
}

// A server that can accept nobody would look like one that does not answer. A client takes descriptors here, and as
// many again if it is in this process.
static int check_room(const struct weft_store_server *server) {
  int spare[8], count = 0, error = 0;
  for (; count < (int)(sizeof spare / sizeof *spare) && !error; count += !error) {
    spare[count] = fcntl(server->listener, F_DUPFD_CLOEXEC, 0);
    error = spare[count] < 0 ? errno : 0;
  }
  while (count > 0)
    close(spare[--count]);
  return error ? fail_errno(error, "no file descriptors for clients of %s", server->url) : 0;
}

static int start(struct weft_store_server *server, const struct weft_store_server_options *options) {
  int err = server_secure(server, options);
  if (!err)
    err = server_listen(options, &server->listener, server->url);
  if (err)
    return err;
  lobby_raise_limit(SERVER_MAX_CONNECTIONS + GATE_PLACES); // each client costs a descriptor
  err = lobby_open(&server->lobby, server->listener,
                   options->flags & WEFT_STORE_SERVER_INSECURE ? LOBBY_HTTP : LOBBY_TLS, LOBBY_PLACES);
  if (err)
    return err;
  server->daemon = server_http_start(server);
  if (!server->daemon)
    return options->cert_file
               ? fail(WEFT_ERR_INVALID, "no HTTPS server for %s: %s and %s have to be a certificate and its key",
                      server->url, options->cert_file, options->key_file)
               : fail_errno(errno, "the HTTP daemon for %s did not start", server->url);
  err = check_room(server);
  if (!err)
    err = server_reactor_start(server);
  if (err)
    MHD_stop_daemon(server->daemon);
  return err;
}

int weft_store_server_start(weft_store_server_t **server, const struct weft_store_server_options *given) {
  if (!server)
    return fail(WEFT_ERR_INVALID, "server is NULL: want a place for the handle");
  struct weft_store_server_options copy;
  const struct weft_store_server_options *options = SIZED_READ(given, &copy, reserved, "the store server's options");
  if (!options)
    return sized_refusal(given, sizeof copy);
  int err = check(options);
  if (err)
    return err;
  struct weft_store_server *started = calloc(1, sizeof *started);
  struct core *core = core_create(CORE_LIMITS_DEFAULT);
  if (!started || !core) {
    free(started);
    core_free(core);
    return fail(WEFT_ERR_NOMEM, "no memory for an embedded server");
  }
  started->opened = forked_now();
  started->listener = -1;
  started->gateway = (struct gateway){.core = core, .cluster_id = random_id(), .member_id = random_id()};
  pthread_mutex_init(&started->lock, NULL);
  LIST_INIT(&started->streams);
  server_gate_init(&started->gate);
  err = start(started, options);
  if (err)
    destroy(started);
  else
    *server = started;
  return err;
}

const char *weft_store_server_url(const weft_store_server_t *server) {
  return server ? server->url : "";
}

const char *weft_store_server_token(const weft_store_server_t *server) {
  return server && server->token ? server->token : "";
}

// Servers of the parent that a forked child has stopped.
static _Atomic(struct weft_store_server *) left_behind;

// In a forked child: frees the token and the descriptors. libmicrohttpd's memory stays, since freeing it waits for its
// thread. Data that a missing thread was changing stays, too.
static void forget(struct weft_store_server *server) {
  close(server->listener);
  close(server->reactor_epoll);
  close(server->reactor_wake);
  secret_free(server->token);
  secret_free(server->key);
  server->token = server->key = NULL;
  server->next_left_behind = atomic_exchange(&left_behind, server);
}

void weft_store_server_stop(weft_store_server_t *server) {
  if (!server)
    return;
  if (forked_since(server->opened)) {
    forget(server);
    return;
  }
  pthread_mutex_lock(&server->lock);
  server->stopping = true;
  struct server_stream *stream;
  LIST_FOREACH(stream, &server->streams, link)
  server_stream_resume(stream); // libmicrohttpd must have none suspended when it stops
  pthread_mutex_unlock(&server->lock);
  server_reactor_stop(server); // no new connections
  MHD_stop_daemon(server->daemon);
  close(server->reactor_epoll);
  close(server->reactor_wake);
  destroy(server);
}
