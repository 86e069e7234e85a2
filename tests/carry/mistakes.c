// The twelve easiest mistakes with weft/ep.h, weft/agent.h and weft/store.h: each gives an error that says what was
// wrong, where, and what would be right. docs/guide/mistakes.md has the same list.
#include <string.h>

#include "carry/carry.h"

enum { TOKENS = 4, HIDDEN = 256, TOPK = 2, EXPERTS = 2 };

static void agents(struct carry *c) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  struct weft_transfer_options carried = WEFT_TRANSFER_OPTIONS_INIT;
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  struct weft_descriptor at = {0};
  static char bytes[4096], blob[4096];
  weft_agent_t *agent;
  weft_region_t region;
  weft_dlist_t *list;
  weft_transfer_t *transfer;
  weft_peer_t peer;
  size_t size;
  (void)c;
  options.name = "one";
  options.transports = "rdma"; // 1: a transport that there is not
  carry_refused(weft_agent_open(&agent, &options), WEFT_ERR_NOT_FOUND, "no transport rdma: shm,");
  options.transports = "shm";
  carry_must(weft_agent_open(&agent, &options), "open");
  memory.kind = WEFT_MEMORY_HOST;
  memory.address = bytes;
  memory.length = sizeof bytes;
  carry_must(weft_agent_register(agent, &memory, &region), "register");
  at.address = (uintptr_t)bytes + 4000; // 2: beyond the region
  at.length = 200;
  at.region = region;
  carry_refused(weft_dlist_create(agent, WEFT_PEER_SELF, &at, 1, &list), WEFT_ERR_INVALID,
                "descriptor 0: 200 bytes from ");
  at.length = 96;
  carry_refused(weft_dlist_create(agent, 77, &at, 1, &list), WEFT_ERR_NOT_FOUND,
                "there is no peer 77: weft_agent_load"); // 3: nobody's metadata is loaded
  carry_must(weft_dlist_create(agent, WEFT_PEER_SELF, &at, 1, &list), "dlist_create");
  carried.transport = "ucx"; // 4: one that this agent has not opened
  carry_refused(weft_transfer_create(agent, WEFT_TRANSFER_READ, list, list, &carried, &transfer), WEFT_ERR_UNSUPPORTED,
                "no transport ucx: name it in weft_agent_options.transports");
  carry_must(weft_agent_metadata(agent, NULL, blob, sizeof blob, &size), "metadata");
  blob[size / 2] ^= 1; // 5: metadata that a text channel has changed
  carry_refused(weft_agent_load(agent, blob, size, &peer), WEFT_ERR_PROTOCOL, "send the bytes unchanged");
  carry_must(weft_dlist_free(list), "dlist_free");
  weft_agent_close(agent);
}

static void ranks(struct carry *c) {
  static const int64_t experts[] = {0, 1}, beyond[] = {0, 99};
  static const float weights[] = {1, 1};
  struct weft_ep_options options = c->options, wrong = options;
  struct weft_ep_dispatch_args dispatch = WEFT_EP_DISPATCH_ARGS_INIT, other;
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  uint16_t *x = carry_memory(c, TOKENS * HIDDEN * sizeof *x),
           *rows = carry_memory(c, EXPERTS * TOKENS * HIDDEN * sizeof *x);
  int32_t counts[EXPERTS];
  uint64_t op;
  wrong.size = 0; // 6: a struct that was not initialised
  carry_refused(weft_ep_open(&c->ep, &wrong, CARRY_MS), WEFT_ERR_INVALID, "initialise it with its *_INIT");
  wrong = options;
  wrong.hidden = 200; // 7: blocks of fp8 are 128 values
  carry_refused(weft_ep_open(&c->ep, &wrong, CARRY_MS), WEFT_ERR_INVALID,
                "hidden is 200; it must be a multiple of 128: the nearest are 128 and 256");
  carry_must(weft_ep_open(&c->ep, &options, CARRY_MS), "open");
  dispatch.x = x;
  dispatch.topk_idx = experts;
  dispatch.topk_weights = weights;
  dispatch.num_tokens = 1;
  recv.rows = TOKENS;
  recv.x = rows;
  recv.counts = counts;
  carry_refused(weft_ep_dispatch(c->ep, &dispatch, &recv, NULL, &op), WEFT_ERR_NOT_CONNECTED,
                "call weft_ep_activate first"); // 8
  carry_must(weft_ep_activate(c->ep, CARRY_MS), "activate");
  other = dispatch;
  other.num_tokens = TOKENS + 1; // 9: more than the group was opened for
  carry_refused(weft_ep_dispatch(c->ep, &other, &recv, NULL, &op), WEFT_ERR_INVALID, "opened for 4 at most");
  other = dispatch;
  other.topk_idx = beyond; // 10: no such expert
  carry_refused(weft_ep_dispatch(c->ep, &other, &recv, NULL, &op), WEFT_ERR_INVALID,
                "topk_idx[0][1] is 99; experts are 0 to 7");
  carry_must(weft_ep_dispatch(c->ep, &dispatch, &recv, NULL, &op), "dispatch");
  combine.out = x;
  carry_refused(weft_ep_combine(c->ep, op, &combine, NULL), WEFT_ERR_INVALID, "y is NULL"); // 11: no outputs
  combine.y = rows;
  carry_refused(weft_ep_combine(c->ep, op + 1, &combine, NULL), WEFT_ERR_INVALID,
                "operation 1 is not open: a dispatch returns its number"); // 12: another operation
  carry_must(weft_ep_combine(c->ep, op, &combine, NULL), "combine");
}

static void mistakes(struct carry *c) {
  agents(c);
  ranks(c);
}

int main(int argc, char **argv) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.capacity = 4;
  options.max_tokens = TOKENS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  options.experts_per_rank = EXPERTS;
  return carry_run(argc, argv, 1, &options, mistakes);
}
