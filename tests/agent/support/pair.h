// Two agents of one process that know each other, with memory of both.
#ifndef TESTS_AGENT_PAIR_H
#define TESTS_AGENT_PAIR_H

#include <weft/agent.h>

#include "agent/agent.h"

enum { PAIR_BYTES = 1 << 20 };

struct pair_end {
  weft_agent_t *agent;
  weft_peer_t peer; // this agent's handle of the other end
  weft_region_t region;
  uint8_t *memory; // PAIR_BYTES, allocated by the agent
};

struct pair {
  struct pair_end a, b;
};

// Opens both with `more` (agent_open_with()) or the named transports; fails the test on an error.
void pair_open(struct pair *pair, const char *transports, const struct transport *const *more,
               const struct weft_agent_options *options);
void pair_close(struct pair *pair);

// Makes `to` load the metadata of `from`.
int pair_load_metadata(weft_agent_t *from, weft_agent_t *to, weft_peer_t *peer);
void pair_acquaint(struct pair *pair);

// A list of one descriptor in the region of `of`, as seen by `by`.
weft_dlist_t *pair_list(struct pair_end *by, struct pair_end *of, uint64_t offset, uint64_t length);

// A transfer of a, between its bytes at `here` and the bytes of b at `there`.
weft_transfer_t *pair_transfer(struct pair *pair, enum weft_transfer_op op, uint64_t here, uint64_t there,
                               uint64_t length, const struct weft_transfer_options *options);
// Frees a transfer with its lists.
void pair_free(weft_transfer_t *transfer);

// Drives both agents, with or without threads of their own, until the condition holds. False: a deadline passed.
bool pair_until(struct pair *pair, bool (*condition)(void *arg), void *arg);

// Waits for one notification at that end, and copies its bytes. Returns its size.
uint32_t pair_hear(struct pair *pair, struct pair_end *end, void *bytes, uint32_t room);

#endif
