// What the examples in the comments of the public headers take for granted: handles, memory, what comes from elsewhere.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

// store.h and err.h
extern weft_store_t *store;
extern struct weft_store_options options;

// agent.h
extern weft_agent_t *agent;
extern const char *token;
extern void *bytes;
extern uint64_t length, there;
extern weft_region_t region;
extern weft_peer_t peer;
extern weft_dlist_t *local, *remote;
extern weft_transfer_t *transfer;
extern int fd;
extern uint32_t timeout_ms;

// ep.h
extern weft_ep_t *ep;
extern struct weft_ep_dispatch_args tokens;
extern struct weft_ep_recv_args received;
extern struct weft_ep_combine_args y_and_sums;
extern uint64_t op;
extern const int32_t *joiners;
