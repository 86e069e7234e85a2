#include "store/server.h"

#include "base/fail.h"
#include "base/random.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// Each client costs a descriptor: takes as many of those that the system allows this process as the server may need,
// since the usual soft limit, 1,024, is for programs that call select().
static void raise_descriptor_limit(void) {
  struct rlimit limit;
  rlim_t wanted = SERVER_MAX_CONNECTIONS + 1024;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
    return;
  limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

static int check(weft_store_server_t **server, const struct weft_store_server_options *options) {
  if (!server || !options)
    return fail(WEFT_ERR_INVALID, "%s is NULL", server ? "options" : "server");
  if (options->size != sizeof *options)
    return fail(WEFT_ERR_INVALID, "options of %zu bytes; this library's have %zu: use WEFT_STORE_SERVER_OPTIONS_INIT",
                options->size, sizeof *options);
  if (options->token && !*options->token)
    return fail(WEFT_ERR_INVALID, "the token is empty; NULL is for none");
  return 0;
}

// What start has made so far: also the way back when it fails.
static void destroy(struct weft_store_server *server) {
  if (server->listener >= 0)
    close(server->listener);
  core_free(server->gateway.core);
  free(server->token);
  pthread_mutex_destroy(&server->lock);
  free(server);
}

static int start(struct weft_store_server *server, const struct weft_store_server_options *options) {
  if (options->token && !(server->token = strdup(options->token)))
    return fail(WEFT_ERR_NOMEM, "no memory for an embedded server");
  int err = server_listen(options, &server->listener, server->url);
  if (err)
    return err;
  raise_descriptor_limit();
  err = server_minder_start(server);
  if (err)
    return err;
  server->daemon = server_http_start(server);
  if (server->daemon)
    return 0;
  err = fail_errno(errno, "the HTTP daemon for %s did not start", server->url);
  pthread_mutex_lock(&server->lock);
  server->stopping = true;
  pthread_mutex_unlock(&server->lock);
  server_minder_stop(server);
  close(server->minder_epoll);
  close(server->minder_wake);
  return err;
}

int weft_store_server_start(weft_store_server_t **server, const struct weft_store_server_options *options) {
  int err = check(server, options);
  if (err)
    return err;
  struct weft_store_server *started = calloc(1, sizeof *started);
  struct core *core = core_create(CORE_LIMITS_DEFAULT);
  if (!started || !core) {
    free(started);
    core_free(core);
    return fail(WEFT_ERR_NOMEM, "no memory for an embedded server");
  }
  started->listener = -1;
  started->gateway = (struct gateway){core, random_id(), random_id()};
  pthread_mutex_init(&started->lock, NULL);
  LIST_INIT(&started->streams);
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

void weft_store_server_stop(weft_store_server_t *server) {
  if (!server)
    return;
  MHD_quiesce_daemon(server->daemon); // nobody new; the listening socket is ours again
  pthread_mutex_lock(&server->lock);
  server->stopping = true;
  struct server_stream *stream;
  LIST_FOREACH(stream, &server->streams, link)
  server_stream_resume(stream); // libmicrohttpd must have none suspended when it stops
  pthread_mutex_unlock(&server->lock);
  server_minder_stop(server);
  MHD_stop_daemon(server->daemon);
  close(server->minder_epoll);
  close(server->minder_wake);
  destroy(server);
}
