// The requests of a link to another host, which its carrier lists (carrier.h), and what its files share.
#ifndef EP_REMOTE_REQUESTS_H
#define EP_REMOTE_REQUESTS_H

#include "ep/remote/remote_link.h"

// --- requests.c: all requests of a link; [net lock] ---

void ep_requests_cancel(struct ep_remote *remote);          // cancels all
bool ep_requests_under_way(const struct ep_remote *remote); // whether any has not ended
void ep_requests_unprepare(struct ep_remote *remote);
// Prepares a request that writes `pieces`, and calls `ended` each time that it ends.
int ep_request_prepare(struct ep_remote *remote, struct ep_post *post, void (*ended)(struct ep_post *post, int err),
                       void *part, struct transport_piece *pieces, uint32_t num_pieces);
// The same for a request that also sends a message.
int ep_message_prepare(struct ep_remote *remote, struct ep_message *message,
                       void (*ended)(struct ep_post *post, int err), void *part, struct transport_piece *pieces,
                       uint32_t num_pieces);

// --- message.c: the words of a message (update.h); [owner] or [net lock], depending on who uses the message ---

void ep_message_begin(struct ep_message *message, struct ep_remote *remote);
void ep_message_add(struct ep_update *update, enum ep_place place, size_t offset, uint64_t value);
// Adds the start that this rank has published, if it has published one.
void ep_message_add_start(struct ep_update *update, struct ep_remote *remote);
void ep_message_end(struct ep_message *message);
// Where a word of the link's `out` lies in the peer's area.
static inline size_t ep_message_offset(const struct ep_remote *remote, const void *word) {
  return (size_t)((const char *)word - (const char *)remote->link->out.memory);
}

// --- words.c ---
int ep_words_prepare(struct ep_remote *remote); // [net lock]

// --- put.c ---
void ep_put_chunk_left(struct ep_post *post, int err);
void ep_put_last_left(struct ep_post *post, int err);

// --- put_prepare.c ---
int ep_put_prepare(struct ep_remote *remote); // [net lock]

#endif
