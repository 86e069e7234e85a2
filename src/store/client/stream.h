// The messages of a watch's stream.
#ifndef STORE_CLIENT_STREAM_H
#define STORE_CLIENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <weft/store.h>

struct client_message {
  bool created;             // the watch stands; `revision` is the store's at that moment
  bool canceled;            // the watch ended; `reason` says why
  int64_t compact_revision; // above 0: because the revision asked for is gone
  int64_t revision;         // 0: none given
  uint64_t cluster;         // the store's identity, 0: none given
  char reason[256];
  struct weft_store_list *events; // in revision order
  bool *deleted;                  // [events->count]: the event is the key's deletion
};

// Reads one line of a stream. Every event's key must begin with `prefix`. A message that reports an error is a failure
// with the code that it stands for.
int client_message_read(const char *line, size_t size, const char *endpoint, const char *prefix,
                        struct client_message *out);
void client_message_free(struct client_message *message);

#endif
