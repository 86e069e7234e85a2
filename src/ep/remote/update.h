// A message between ranks on different hosts: words that the sender would store directly in the receiver's memory if
// both were on one host. In native byte order, like the handshake message.
#ifndef EP_REMOTE_UPDATE_H
#define EP_REMOTE_UPDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ep/core/layout.h"

enum { EP_WORDS = 10 }; // most words of a message

// Where a word of a message belongs.
enum ep_place {
  EP_PLACE_AREA,   // the receiver's area: flags, headers, the start
  EP_PLACE_SHADOW, // the receiver's shadow: `taken`
  EP_PLACE_SIGN,   // nowhere: a heartbeat, the sender waits
};

// `value` for the place `offset` in the receiver's area, or in its shadow of the sender's area.
struct ep_word {
  uint32_t place; // enum ep_place
  uint32_t offset;
  uint64_t value;
};

struct ep_update {
  uint64_t link; // the receiver's number of the link
  uint32_t version, count;
  struct ep_word words[EP_WORDS];
};

// Copies the message in `bytes` if all of it is valid: PROTOCOL, VERSION. [any]
int ep_update_check(const struct ep_layout *layout, const void *bytes, size_t size, struct ep_update *update);

// Stores the words of a checked message. True: the sender waits. [net lock]
bool ep_update_store(const struct ep_update *update, const struct ep_layout *layout, void *area, void *shadow);

#endif
