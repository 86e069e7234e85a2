// Streams of watches from the embedded server.
#include "store/server/server.h"

#include "base/log.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum {
  BLOCK = 32 << 10,       // bytes that libmicrohttpd requests at a time
  KEEP_BUFFER = 16 << 10, // a stream gives larger buffers back when they are sent; smaller ones are not counted
};

void server_stream_resume(struct server_stream *stream) {
  if (!stream->suspended)
    return;
  stream->suspended = false;
  MHD_resume_connection(stream->connection);
}

static void wake(struct gateway_stream *gateway) {
  server_stream_resume((struct server_stream *)gateway);
}

bool server_stream_open(struct weft_store_server *server, struct MHD_Connection *connection, const struct text *body,
                        struct server_stream **out, struct gateway_reply *reply) {
  struct server_stream *stream = calloc(1, sizeof *stream);
  if (!stream) {
    gateway_fail(reply, core_status_grpc(CORE_NO_MEMORY), core_status_text(CORE_NO_MEMORY));
    return false;
  }
  stream->gateway.gateway = &server->gateway;
  stream->gateway.wake = wake;
  stream->server = server;
  stream->connection = connection;
  stream->number = ++server->next_stream;
  stream->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  if (!gateway_stream_open(&stream->gateway, body, reply)) {
    free(stream);
    return false;
  }
  struct epoll_event hangup = {.events = EPOLLRDHUP | EPOLLET, .data.u64 = stream->number};
  if (epoll_ctl(server->reactor_epoll, EPOLL_CTL_ADD, stream->fd, &hangup) != 0)
    log_warn("%s: the end of a watch will be noticed late: epoll_ctl failed with errno %d", server->url, errno);
  LIST_INSERT_HEAD(&server->streams, stream, link);
  *out = stream;
  return true;
}

void server_stream_close(struct server_stream *stream) {
  epoll_ctl(stream->server->reactor_epoll, EPOLL_CTL_DEL, stream->fd, NULL);
  LIST_REMOVE(stream, link);
  gateway_stream_close(&stream->gateway);
  stream->server->held -= stream->held;
  free(stream);
}

// Counts the buffer of the stream in server->held. A revision is sent as a whole, so one message may be large, and a
// client that does not read keeps it here. Without room the stream ends; its client may open it again.
static void hold(struct server_stream *stream) {
  struct weft_store_server *server = stream->server;
  size_t size = stream->gateway.out.capacity > KEEP_BUFFER ? stream->gateway.out.capacity : 0;
  server->held -= stream->held;
  stream->held = size <= SERVER_MAX_HELD - server->held ? size : 0;
  server->held += stream->held;
  if (stream->held < size)
    stream->gateway.broken = true;
}

static void fill(struct server_stream *stream) {
  struct text *out = &stream->gateway.out;
  if (out->capacity > KEEP_BUFFER)
    text_free(out);
  out->size = 0;
  stream->sent = 0;
  gateway_stream_fill(&stream->gateway);
  hold(stream);
}

static ssize_t next_bytes(struct server_stream *stream, char *buffer, size_t max) {
  struct text *out = &stream->gateway.out;
  if (stream->sent == out->size)
    fill(stream);
  if (stream->gone || stream->gateway.broken || stream->server->stopping)
    return MHD_CONTENT_READER_END_OF_STREAM;
  size_t size = out->size - stream->sent;
  if (size > 0) {
    size = size < max ? size : max;
    memcpy(buffer, out->data + stream->sent, size);
    stream->sent += size;
    return (ssize_t)size;
  }
  stream->suspended = true;
  MHD_suspend_connection(stream->connection);
  return 0;
}

static ssize_t read_stream(void *arg, uint64_t position, char *buffer, size_t max) {
  (void)position;
  struct server_stream *stream = arg;
  pthread_mutex_lock(&stream->server->lock);
  ssize_t size = next_bytes(stream, buffer, max);
  pthread_mutex_unlock(&stream->server->lock);
  return size;
}

struct MHD_Response *server_stream_response(struct server_stream *stream) {
  return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, stream, NULL);
}
