// The proxy of a link: what it registers and prepares, and how it ends.
#include "ep/gpu/remote/proxy.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/fail.h"
#include "ep/gpu/gpu.h"
#include "ep/gpu/remote/batches.h"
#include "ep/gpu/remote/sharers.h"
#include "ep/remote/requests.h"

static int open_proxy(struct ep_remote *remote, int *fd) {
  struct ep_gpu *gpu = remote->ep->gpu;
  struct ep_link *link = remote->link;
  char why[DEVICE_WHY] = "";
  close(*fd); // no peer maps the area
  *fd = -1;
  if (!remote->net) // kernels write the peer's window, over NVLink
    return 0;
  struct ep_proxy *proxy = calloc(1, sizeof *proxy);
  if (!proxy)
    return fail(WEFT_ERR_NOMEM, "no memory for the link to rank %d", link->rank);
  remote->proxy = proxy;
  proxy->remote = remote;
  proxy->api = gpu->api;
  int rc = ep_window_private(&proxy->staging, (size_t)EP_PROXY_BATCHES * EP_PROXY_BYTES);
  if (rc == 0)
    rc = ep_window_create(&proxy->landing, (size_t)EP_PROXY_BATCHES * EP_PROXY_BYTES, fd);
  if (rc != 0)
    return rc;
  rc = gpu->api->relay_open(&gpu->options, link->device.host_in, link->device.host_out, &proxy->relay, why);
  if (rc != 0)
    return device_fail(rc, "the connection to a rank on another host", why);
  struct ep_rings *rings = &proxy->rings;
  gpu->api->relay_rings(proxy->relay, &rings->offset, &rings->bytes);
  rings->in = (char *)link->device.host_in + rings->offset;
  rings->out = (char *)link->device.host_out + rings->offset;
  return 0;
}

static void close_proxy(struct ep_remote *remote) {
  struct ep_proxy *proxy = remote->proxy;
  if (!proxy)
    return;
  proxy->api->relay_close(proxy->relay);
  ep_window_release(&proxy->staging);
  ep_window_release(&proxy->landing);
  free(proxy);
}

static struct ep_window *sent(struct ep_remote *remote) {
  return &remote->proxy->staging;
}

static struct ep_window *written(struct ep_remote *remote) {
  return &remote->proxy->landing;
}

static bool each(const struct ep_remote *remote, bool (*visit)(const struct ep_remote *remote, struct ep_post *post)) {
  struct ep_proxy *proxy = remote->proxy;
  bool any = proxy && visit(remote, &proxy->count.post);
  for (int i = 0; proxy && i < EP_PROXY_BATCHES; i++) {
    any |= visit(remote, &proxy->batches[i].post);
    any |= visit(remote, &proxy->batches[i].moving);
  }
  return any;
}

// --- the rings ---

static void enroll(struct ep_remote *remote) {
  ep_rings_register(&remote->proxy->rings, remote);
}

static int describe(struct ep_remote *remote, struct ep_tcp_message *message) {
  return ep_rings_describe(&remote->proxy->rings, remote, message);
}

static int import(struct ep_remote *remote, const struct ep_tcp_message *message) {
  return ep_rings_import(&remote->proxy->rings, remote, message);
}

// A peer that could not be fenced may still complete a write that it had begun: the window is then never used again. A
// link that could not be made may have no proxy.
static void withdraw(struct ep_remote *remote, bool fenced) {
  if (!remote->proxy)
    return;
  struct ep_rings *rings = &remote->proxy->rings;
  remote->proxy->ready = false;
  ep_batches_update_stamps(remote->proxy);
  remote->link->device.written_late = rings->in_region && !fenced;
  ep_rings_unregister(rings, remote);
}

static void forget(struct ep_remote *remote) {
  struct ep_rings *rings = &remote->proxy->rings;
  rings->in_region = rings->out_region = NULL;
  rings->there = NULL;
}

static void abandon(struct ep_remote *remote) {
  struct ep_link *link = remote->link;
  ep_net_lock(remote->net);
  remote->proxy->ready = false;
  ep_batches_update_stamps(remote->proxy);
  ep_net_unlock(remote->net);
  link->device.in = link->device.out = (struct device_window){0};
  link->device.host_in = link->device.host_out = NULL;
}

uint64_t ep_proxy_moved(const struct ep_remote *remote) {
  return remote->proxy->moved_bytes;
}

// --- requests ---

static void left(struct ep_post *post, int err) {
  struct ep_batch *batch = post->part;
  batch->busy = false;
  if (err != 0)
    ep_remote_fail(post->remote, err, post->request.why);
}

static int prepare(struct ep_remote *remote, struct ep_batch *batch, struct ep_post *post,
                   struct transport_piece *pieces, uint32_t num_pieces) {
  post->request.message = &batch->update;
  post->request.message_size = sizeof batch->update;
  return ep_request_prepare(remote, post, left, batch, num_pieces ? pieces : NULL, num_pieces);
}

// The places and lengths of the moves are not known yet: set_moves() in batches.c writes them.
static int prepare_moving(struct ep_remote *remote, struct ep_batch *batch) {
  const struct ep_rings *rings = &remote->proxy->rings;
  for (uint32_t i = 0; i < EP_BATCH_MOVES; i++)
    batch->pieces[i] = (struct transport_piece){.local = rings->out_region,
                                                .remote = rings->there,
                                                .local_address = (uintptr_t)rings->out,
                                                .remote_address = rings->there->address,
                                                .length = ep_batches_most_moved(rings)};
  batch->pieces[EP_BATCH_MOVES] = batch->piece;
  int rc = prepare(remote, batch, &batch->moving, batch->pieces, EP_BATCH_MOVES + 1);
  for (uint32_t i = 0; i < EP_BATCH_MOVES; i++)
    batch->pieces[i].length = 0;
  return rc;
}

static int prepare_all(struct ep_remote *remote) {
  struct ep_proxy *proxy = remote->proxy;
  int rc = prepare(remote, &proxy->count, &proxy->count.post, NULL, 0);
  for (int i = 0; i < EP_PROXY_BATCHES && rc == 0; i++) {
    struct ep_batch *batch = &proxy->batches[i];
    size_t at = (size_t)i * EP_PROXY_BYTES;
    batch->piece = (struct transport_piece){.local = remote->out,
                                            .remote = remote->area,
                                            .local_address = (uintptr_t)proxy->staging.memory + at,
                                            .remote_address = remote->area->address + at,
                                            .length = EP_PROXY_BYTES};
    rc = prepare(remote, batch, &batch->post, &batch->piece, 1);
    if (rc == 0 && proxy->rings.there)
      rc = prepare_moving(remote, batch);
  }
  proxy->ready = rc == 0;
  ep_share_counted(remote, 0, 0); // clears the stamps of the link that had the seat before
  ep_sharers_changed(remote->ep);
  return rc;
}

const struct ep_carrier_ops ep_proxy_carrier = {
    .shown_bytes = ep_sharers_shown_bytes,
    .shown = ep_sharers_shown,
    .open = open_proxy,
    .close = close_proxy,
    .written = written,
    .sent = sent,
    .enroll = enroll,
    .describe = describe,
    .import = import,
    .prepare = prepare_all,
    .each = each,
    .receive = ep_batches_receive,
    .withdraw = withdraw,
    .forget = forget,
    .abandon = abandon,
    .flush = ep_batches_flush,
};
