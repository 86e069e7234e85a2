// Relays what kernels have written for a peer on another host: out of one window in host memory here, into another
// there. It never waits for a kernel: it collects what has arrived.
//
// A header goes last of its dispatch, so that a peer has either all of it or, if this process dies, nothing.
//
// What has arrived determines what follows. A header's unit says how many rows follow; their routing says where they
// stand, and which late weights may come; and the routing that the peer has sent, delivered here before, says which
// answers our kernels will write for it. So each part of a slot has a *front*: what is before it has been taken, and
// only what is next is looked at. A slot's fronts begin again with the header of another operation: then the reader has
// taken all values of the one before (kernels/layout.h), so that none are left here.
//
// A flag is read before what it covers, and written after it, by stores of 8 bytes. Kernels look twice, for lines may
// not come whole to them (the strict way). What needs no flag, rows, scales and answers, is taken as soon as no word of
// it is empty, and its place made empty again: our kernels write there again when the peer has given the credit, for
// which it must have had it from here. What is collected are *runs*: where they belong, how many bytes, and of which
// kind; then the bytes.
//
// In groups for throughput an area is that of control, whose operations have no rows; theirs go through the stream
// behind it (flow.c).
#include "cuda/relay/relay.h"

#include <stdlib.h>
#include <weft/err.h>

#include "cuda/engine/flow_layout.h"
#include "cuda/relay/area.h"
#include "cuda/relay/flow_share.h"

// The lists of what operations bring; of control, which brings none, they are empty. False: no memory.
static bool open_lists(struct device_relay *relay) {
  size_t tokens = (size_t)relay->layout.max_tokens + 1; // an empty list is memory too
  bool whole = true;
  for (int i = 0; i < CUDA_DEPTH; i++) {
    relay->outgoing[i].flag = CUDA_EMPTY; // as the window has it
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
