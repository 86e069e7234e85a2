// The messages of a watch's stream.
#ifndef STORE_CLIENT_STREAM_H
#define STORE_CLIENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <weft/store.h>

struct client_message {
  bool created;             // the watch was created; `revision` is that of the store at that moment
  bool fragment;            // the next message has further events, maybe of the last event's revision
  bool canceled;            // the watch ended; `reason` says why
  int64_t compact_revision; // above 0: it ended because the requested revision is gone
  int64_t revision;         // 0: none given
  uint64_t cluster;         // the store's identity, 0: none given
  char reason[256];
  struct weft_store_list *events; // in revision order
  bool *deleted;                  // [events->count]; true: the event deletes the key
};

// Reads one line of a stream. Every event's key must begin with `prefix`. A message that reports an error is a failure
// with the corresponding code.
int client_message_read(const char *line, size_t size, const char *endpoint, const char *prefix,
                        struct client_message *out);
void client_message_free(struct client_message *message);

#endif
