// The carrier of ranks on host memory: it publishes, part by part, what the owner has written to a link's shadow
// (put.c), and stores into the area what peers have published.
#include <stdlib.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/remote/requests.h"

// The peer's transport writes the area itself, so the descriptor does not change.
static int open_parts(struct ep_remote *remote, int *area_fd) {
  (void)remote, (void)area_fd;
  return 0;
}

// Neighbours read rows only with THROUGHPUT, where rows flow in pieces that can be shared.
static size_t shown_bytes(const weft_ep_t *ep) {
  return ep->layout.flows ? ep->layout.area : 0;
}

static int shown(const struct ep_remote *remote) {
  return remote->area_fd;
}

static void close_parts(struct ep_remote *remote) {
  for (int slot = 0; slot < EP_DEPTH; slot++)
    for (int part = 0; part < EP_PARTS; part++) {
      free(remote->parts[slot][part].chunks);
      free(remote->parts[slot][part].pieces);
    }
}

static struct ep_window *written(struct ep_remote *remote) {
  return &remote->link->in;
}

static struct ep_window *sent(struct ep_remote *remote) {
  return &remote->link->out;
}

static bool each(const struct ep_remote *remote, bool (*visit)(const struct ep_remote *remote, struct ep_post *post)) {
  bool any = visit(remote, (struct ep_post *)&remote->state.post);
  for (int slot = 0; slot < EP_DEPTH; slot++)
    for (int i = 0; i < EP_PARTS; i++) {
      const struct ep_publication *part = &remote->parts[slot][i];
      for (uint32_t chunk = 0; part->chunks && chunk < part->num_chunks; chunk++)
        any |= visit(remote, &part->chunks[chunk]);
      any |= visit(remote, (struct ep_post *)&part->heads);
      any |= visit(remote, (struct ep_post *)&part->last.post);
    }
  return any;
}

// A message with any error writes nothing, and ends its link.
static int store(struct ep_remote *remote, const void *bytes, size_t size) {
  struct ep_link *link = remote->link;
  struct ep_update update;
  int rc = ep_update_check(&remote->ep->layout, bytes, size, &update);
  if (rc != 0)
    return rc;
  if (ep_update_store(&update, &remote->ep->layout, link->in.memory, link->out.memory))
    atomic_store_explicit(&ep_link_bell(link)->waiting_ns, clock_ns(), memory_order_relaxed);
  return 0;
}

static void receive(struct ep_remote *remote, const void *bytes, size_t size) {
  if (store(remote, bytes, size) != 0)
    ep_remote_fail(remote, WEFT_ERR_PROTOCOL, weft_last_error());
  ep_doorbell_ring(ep_own_bell(remote->ep));
}

static void flush(struct ep_remote *remote) {
  (void)remote;
}

const struct ep_carrier_ops ep_put_carrier = {
    .shown_bytes = shown_bytes,
    .shown = shown,
    .open = open_parts,
    .close = close_parts,
    .written = written,
    .sent = sent,
    .prepare = ep_put_prepare,
    .each = each,
    .receive = receive,
    .flush = flush,
};
