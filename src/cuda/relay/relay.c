// Relays data that kernels have written for a peer on another host, from a window in host memory here into a window
// there. It never waits for a kernel: it collects the data that has arrived.
//
// The header of a dispatch is sent last, so that a peer gets either the whole dispatch or, if this process dies,
// nothing.
//
// The data that has arrived determines what follows. A header's unit says how many rows follow. The routing of the rows
// says where they lie, and which late weights may follow. The routing that the peer has sent, and that was delivered
// here before, says which answers our kernels will write for it. So each part of a slot has a *front*: everything
// before it has been collected, and only the next piece is examined. The fronts of a slot start again with the header
// of another operation: then the reader has taken all values of the former operation (kernels/layout.h), so that none
// are left here.
//
// A flag is read before the data that it covers, and written after it, with stores of 8 bytes. Kernels read twice,
// since lines may not arrive as a whole (the strict way). Rows, scales and answers need no flag: they are collected
// when no word of them is empty, and their place is made empty again. Our kernels write there again only when the peer
// has given credit, and the peer does so only after it got the data from here. The relay collects *runs*: the place,
// the number of bytes and the kind; then the bytes.
//
// In groups for throughput an area belongs to control, whose operations have no rows; the rows use the stream after the
// area (flow.c).
#include "cuda/relay/relay.h"

#include <stdlib.h>
#include <weft/err.h>

#include "cuda/engine/flow_layout.h"
#include "cuda/relay/area.h"
#include "cuda/relay/flow_share.h"

// Allocates the lists for operations; for control, which has no rows, they are empty. False: no memory.
static bool open_lists(struct device_relay *relay) {
  size_t tokens = (size_t)relay->layout.max_tokens + 1; // an empty list is allocated, too
  bool whole = true;
  for (int i = 0; i < CUDA_DEPTH; i++) {
    relay->outgoing[i].flag = CUDA_EMPTY; // as in an empty window
    relay->outgoing[i].weights = calloc(tokens * relay->layout.late_units, sizeof(uint32_t));
    relay->outgoing[i].token = calloc(tokens, sizeof(uint32_t));
    relay->incoming[i].token = calloc(tokens, sizeof(uint32_t));
    whole = whole && relay->outgoing[i].weights && relay->outgoing[i].token && relay->incoming[i].token;
  }
  return whole;
}

int cuda_relay_open(const struct device_ep_options *o, void *in, void *out, struct device_relay **made, char *why) {
  struct device_relay *relay = calloc(1, sizeof *relay);
  int rc = relay ? 0 : WEFT_ERR_NOMEM;
  if (relay) {
    cuda_area_of(o, &relay->layout, &relay->forms);
    relay->in = in;
    relay->out = out;
    relay->flows = o->throughput;
    rc = open_lists(relay) ? 0 : WEFT_ERR_NOMEM;
  }
  if (rc == WEFT_ERR_NOMEM)
    cuda_relay_fail(why, rc, "no memory for the relay to a rank on another host");
  if (rc == 0 && relay->flows)
    rc = cuda_flow_relay_open(&relay->flow, o, in, out, why);
  if (rc == 0)
    *made = relay;
  else
    cuda_relay_close(relay);
  return rc;
}

void cuda_relay_rings(const struct device_relay *relay, uint64_t *offset, uint64_t *bytes) {
  *offset = *bytes = 0;
  if (relay->flows)
    cuda_flow_relay_rings(&relay->flow, offset, bytes);
}

void cuda_relay_close(struct device_relay *relay) {
  for (int i = 0; i < CUDA_DEPTH && relay; i++) {
    free(relay->outgoing[i].weights);
    free(relay->outgoing[i].token);
    free(relay->incoming[i].token);
  }
  if (relay)
    cuda_flow_relay_close(&relay->flow);
  free(relay);
}

void cuda_relay_landed(struct device_relay *relay, uint64_t stamp) {
  if (relay->flows)
    cuda_flow_share_land(&relay->flow, stamp);
}
