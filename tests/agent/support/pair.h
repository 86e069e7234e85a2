// Two agents of one process that know each other, with memory of both.
#ifndef TESTS_AGENT_PAIR_H
#define TESTS_AGENT_PAIR_H

#include <weft/agent.h>

#include "agent/agent.h"

enum { PAIR_BYTES = 1 << 20 };

struct pair_end {
  weft_agent_t *agent;
  weft_peer_t peer; // the other end, as this one knows it
  weft_region_t region;
  uint8_t *memory; // PAIR_BYTES, allocated by the agent
};

struct pair {
  struct pair_end a, b;
};

// Opens both with `more` (agent_open_with()) or the transports named; cmocka asserts that it goes well.
void pair_open(struct pair *pair, const char *transports, const struct transport *const *more,
               const struct weft_agent_options *options);
void pair_close(struct pair *pair);

// Tells `to` what `from` tells of itself.
int pair_load_metadata(weft_agent_t *from, weft_agent_t *to, weft_peer_t *peer);
void pair_acquaint(struct pair *pair);

// A list of one descriptor in the region of `of`, as seen by `by`.
weft_dlist_t *pair_list(struct pair_end *by, struct pair_end *of, uint64_t offset, uint64_t length);

// A transfer of a between bytes of a from `here` on and of b from `there` on.
weft_transfer_t *pair_transfer(struct pair *pair, enum weft_transfer_op op, uint64_t here, uint64_t there,
                               uint64_t length, const struct weft_transfer_options *options);
// Frees it with its lists.
void pair_free(weft_transfer_t *transfer);

// Drives both agents (which have no threads, or have them) until the condition holds; false: a deadline passed.
bool pair_until(struct pair *pair, bool (*condition)(void *arg), void *arg);

// Takes one notification at that end, waiting for it: its size, the bytes copied.
uint32_t pair_hear(struct pair *pair, struct pair_end *end, void *bytes, uint32_t room);

#endif
