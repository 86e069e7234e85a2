// /v3/watch: one stream of answers, one JSON object a line, for the watches that its request body creates.
//
// A stream holds at most about one batch of text. Events that it has not written yet wait in the core's history. A
// reader that is so slow that history drops them gets `compact_revision`, as from etcd.
#ifndef STORE_GATEWAY_WATCH_H
#define STORE_GATEWAY_WATCH_H

#include "store/gateway/gateway.h"
#include <sys/queue.h>

struct gateway_stream {
  struct gateway *gateway;
  void (*wake)(struct gateway_stream *stream); // called inside the call that made events for gateway_stream_fill()
  TAILQ_HEAD(, gateway_watch) watches;
  size_t num_watches;
  struct text out; // lines to send
  bool broken;     // memory ran out: the stream can only be closed
};

// Sets up a stream (`gateway` and `wake` set, the rest zero) from the request's body. False: `reply` has the error, and
// there is nothing to close.
bool gateway_stream_open(struct gateway_stream *stream, const struct text *body, struct gateway_reply *reply);

// Adds the next events to `out`, about a batch; nothing if there are none.
void gateway_stream_fill(struct gateway_stream *stream);

void gateway_stream_close(struct gateway_stream *stream);

#endif
