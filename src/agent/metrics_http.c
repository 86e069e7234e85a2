// The metrics over HTTP, by libmicrohttpd, on a thread of its own.
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/endpoint.h"
#include "agent/meta.h"
#include "agent/metrics.h"
#include "base/fail.h"

enum { MAX_CONNECTIONS = 32, IDLE_S = 30 };

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status, const char *type, char *data,
                                 size_t size) {
  struct MHD_Response *response = MHD_create_response_from_buffer(size, data, MHD_RESPMEM_MUST_FREE);
  if (!response) {
    free(data);
    return MHD_NO;
  }
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  enum MHD_Result result = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *why) {
  char *text = strdup(why);
  return text ? send_text(connection, status, "text/plain", text, strlen(text)) : MHD_NO;
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *path, const char *method,
                              const char *version, const char *data, size_t *size, void **state) {
  (void)version, (void)data;
  weft_agent_t *agent = arg;
  if (!*state) { // the request's head; the answer comes behind its body, which has to be none
    *state = agent;
    return MHD_YES;
  }
  if (*size > 0) {
    *size = 0;
    return MHD_YES;
  }
  if (strcmp(path, "/metrics") != 0)
    return refuse(connection, MHD_HTTP_NOT_FOUND, "there is /metrics only\n");
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
    return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n");
  struct text text = {0};
  metrics_write(agent, &text);
  if (text.failed) {
    text_free(&text);
    return refuse(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory\n");
  }
  size_t length = text.size;
  return send_text(connection, MHD_HTTP_OK, "application/openmetrics-text; version=1.0.0; charset=utf-8",
                   text_take(&text), length);
}

int weft_agent_serve_metrics(weft_agent_t *agent, const char *address, uint16_t *port) {
  if (!agent || !address)
    return fail(WEFT_ERR_INVALID, "%s is NULL", agent ? "address" : "agent");
  int fd;
  uint16_t bound;
  int err = endpoint_listen(address, &fd, &bound);
  if (err)
    return err;
  struct MHD_Daemon *daemon = NULL;
  pthread_mutex_lock(&agent->tending);
  bool serves = agent->meta->metrics_server;
  if (!serves)
    daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, handle, agent, MHD_OPTION_LISTEN_SOCKET, fd,
                              MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
                              (unsigned)IDLE_S, MHD_OPTION_END);
  if (daemon)
    agent->meta->metrics_server = daemon;
  pthread_mutex_unlock(&agent->tending);
  if (!daemon)
    close(fd);
  if (serves)
    return fail(WEFT_ERR_EXISTS, "agent %s serves its metrics already", agent->name);
  if (!daemon)
    return fail(WEFT_ERR_SYSTEM, "libmicrohttpd cannot start a server at %s", address);
  if (port)
    *port = bound;
  return 0;
}

void metrics_server_close(struct agent_meta *meta) {
  pthread_mutex_lock(&meta->agent->tending);
  struct MHD_Daemon *daemon = meta->metrics_server;
  meta->metrics_server = NULL;
  pthread_mutex_unlock(&meta->agent->tending);
  if (daemon)
    MHD_stop_daemon(daemon);
}
