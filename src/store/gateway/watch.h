// /v3/watch: one stream of answers, one JSON object a line, for the watches that its request body creates.
//
// A stream holds at most about one batch of text: what it has not written yet waits in the core's history, and a reader
// that is slower than history is told `compact_revision`, as by etcd.
#ifndef STORE_GATEWAY_WATCH_H
#define STORE_GATEWAY_WATCH_H

#include "store/gateway/gateway.h"
#include <sys/queue.h>

struct gateway_stream {
  struct gateway *gateway;
  void (*wake)(struct gateway_stream *stream); // inside the call that made the events: gateway_stream_fill() has work
  TAILQ_HEAD(, gateway_watch) watches;
  size_t num_watches;
  struct text out; // lines to send
  bool broken;     // memory ran out: the stream can only be cut
};

// Sets up a stream (`gateway` and `wake` set, the rest zero) from the request's body. False: `reply` holds the error,
// and nothing is left to close.
bool gateway_stream_open(struct gateway_stream *stream, const struct text *body, struct gateway_reply *reply);

// Adds the next events to `out`, about a batch; nothing when there are none.
void gateway_stream_fill(struct gateway_stream *stream);

void gateway_stream_close(struct gateway_stream *stream);

#endif
