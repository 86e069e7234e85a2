// Carries batches of what kernels wrote to peers on other hosts, and theirs into the windows here.
#include "ep/gpu/proxy.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/gpu/gpu.h"
#include "ep/gpu/sharers.h"

enum {
  FLUSH_MS = 500,
  AT_ONCE = 4, // batches of a link in one round, so that others have theirs
};

struct batch {
  struct ep_post post;
  struct ep_proxy_update update;
  struct transport_piece piece;
  bool busy; // it has not left
};

struct ep_proxy {
  struct ep_remote *remote;
  const struct device_api *api;
  struct device_relay *relay;
  struct ep_window staging, landing;
  // All under the net lock.
  bool ready;
  struct batch batches[EP_PROXY_BATCHES];
  uint64_t posted, counted;          // batches, and those that the peer has counted
  uint64_t delivered, acknowledged;  // the peer's batches, and those of which it knows
  uint32_t landed[EP_PROXY_BATCHES]; // bytes of a batch of the peer's that waits for those before it, 0: none
  struct batch count;                // without data
};

// --- making and ending ---

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
  return rc == 0 ? 0 : device_fail(rc, "the way to a rank on another host", why);
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
  bool any = visit(remote, &proxy->count.post);
  for (int i = 0; i < EP_PROXY_BATCHES; i++)
    any |= visit(remote, &proxy->batches[i].post);
  return any;
}

static void left(struct ep_post *post, int err) {
  struct batch *batch = post->part;
  batch->busy = false;
  if (err != 0)
    ep_remote_fail(post->remote, err, post->request.why);
}

static int prepare(struct ep_remote *remote, struct batch *batch, uint32_t num_pieces) {
  batch->post = (struct ep_post){.remote = remote, .ended = left, .part = batch};
  batch->post.request = (struct transport_request){.peer = remote->peer,
                                                   .op = WEFT_TRANSFER_WRITE,
                                                   .pieces = num_pieces ? &batch->piece : NULL,
                                                   .num_pieces = num_pieces,
                                                   .message = &batch->update,
                                                   .message_size = sizeof batch->update};
  int rc = remote->net->transport->prepare(&batch->post.request);
  batch->post.prepared = rc == 0;
  return rc;
}

static int prepare_all(struct ep_remote *remote) {
  struct ep_proxy *proxy = remote->proxy;
  int rc = prepare(remote, &proxy->count, 0);
  for (int i = 0; i < EP_PROXY_BATCHES && rc == 0; i++) {
    size_t at = (size_t)i * EP_PROXY_BYTES;
    proxy->batches[i].piece = (struct transport_piece){.local = remote->out,
                                                       .remote = remote->area,
                                                       .local_address = (uintptr_t)proxy->staging.memory + at,
                                                       .remote_address = remote->area->address + at,
                                                       .length = EP_PROXY_BYTES};
    rc = prepare(remote, &proxy->batches[i], 1);
  }
  proxy->ready = rc == 0;
  ep_sharers_changed(remote->ep);
  return rc;
}

// --- sending ---

static void post(struct ep_proxy *proxy, struct batch *batch, uint32_t size) {
  batch->update = (struct ep_proxy_update){.link = proxy->remote->peer_id,
                                           .version = EP_LAYOUT_VERSION,
                                           .size = size,
                                           .number = proxy->posted,
                                           .delivered = proxy->delivered};
  proxy->acknowledged = proxy->delivered;
  atomic_fetch_add(&proxy->remote->messages_sent, 1);
  proxy->posted += size > 0;
  batch->busy = true;
  ep_net_post_now(proxy->remote->net, &batch->post);
}

// The next batch, if there is a place for it and anything to send.
static bool send_batch(struct ep_proxy *proxy) {
  uint64_t place = proxy->posted % EP_PROXY_BATCHES;
  struct batch *batch = &proxy->batches[place];
  if (batch->busy || proxy->posted - proxy->counted >= EP_PROXY_BATCHES)
    return false;
  char *bytes = (char *)proxy->staging.memory + place * EP_PROXY_BYTES;
  size_t size = proxy->api->relay_collect(proxy->relay, bytes, EP_PROXY_BYTES);
  if (size == 0)
    return false;
  batch->piece.length = size;
  post(proxy, batch, (uint32_t)size);
  return true;
}

static uint32_t carry(struct ep_proxy *proxy) {
  uint32_t news = 0;
  while (news < AT_ONCE && !ep_remote_failed(proxy->remote) && send_batch(proxy))
    news++;
  if (proxy->acknowledged != proxy->delivered && !proxy->count.busy && !ep_remote_failed(proxy->remote)) {
    post(proxy, &proxy->count, 0);
    news++;
  }
  return news;
}

uint32_t ep_proxy_poll(struct ep_net *net) {
  uint32_t news = 0;
  for (uint32_t i = 0; i < net->num_remotes; i++) {
    struct ep_remote *remote = net->remotes[i];
    if (remote && remote->proxy && remote->proxy->ready)
      news += carry(remote->proxy);
  }
  return news;
}

// True: all has been counted by the peer, or never will be.
static bool is_carried(struct ep_proxy *proxy) {
  bool idle = carry(proxy) == 0;
  return ep_remote_failed(proxy->remote) || (idle && proxy->posted == proxy->counted);
}

static void flush(struct ep_remote *remote) {
  if (!remote->proxy)
    return;
  struct ep_net *net = remote->net;
  uint64_t deadline_ns = clock_deadline_ms(FLUSH_MS);
  for (bool carried = false; !carried && ep_link_up(remote->link) && !clock_passed(deadline_ns);) {
    ep_net_lock(net);
    ep_net_progress(net);
    carried = !remote->proxy->ready || is_carried(remote->proxy);
    ep_net_unlock(net);
    if (!carried)
      sched_yield();
  }
}

// --- receiving ---

// Puts all batches that are next into their place.
static int deliver(struct ep_proxy *proxy) {
  char why[DEVICE_WHY] = "";
  for (;;) {
    uint64_t place = proxy->delivered % EP_PROXY_BATCHES;
    uint32_t size = proxy->landed[place];
    if (size == 0)
      return 0;
    const char *bytes = (const char *)proxy->landing.memory + place * EP_PROXY_BYTES;
    int rc = proxy->api->relay_deliver(proxy->relay, bytes, size, why);
    if (rc != 0)
      return device_fail(rc, "what came from another host", why);
    proxy->landed[place] = 0;
    proxy->delivered++;
  }
}

// Whether the peer can have sent it.
static int check(const struct ep_proxy *proxy, const struct ep_proxy_update *update) {
  if (update->version != EP_LAYOUT_VERSION)
    return fail(WEFT_ERR_PROTOCOL, "it sent a message of version %u, not %u", update->version, EP_LAYOUT_VERSION);
  if (update->delivered > proxy->posted)
    return fail(WEFT_ERR_PROTOCOL, "it has counted %llu batches of the %llu that were sent to it",
                (unsigned long long)update->delivered, (unsigned long long)proxy->posted);
  if (update->size == 0)
    return 0;
  if (update->size > EP_PROXY_BYTES)
    return fail(WEFT_ERR_PROTOCOL, "it sent a batch of %u bytes", update->size);
  if (update->number < proxy->delivered || update->number - proxy->delivered >= EP_PROXY_BATCHES ||
      proxy->landed[update->number % EP_PROXY_BATCHES] != 0)
    return fail(WEFT_ERR_PROTOCOL, "it sent batch %llu, with %llu in their places", (unsigned long long)update->number,
                (unsigned long long)proxy->delivered);
  return 0;
}

static int take_update(struct ep_proxy *proxy, const void *bytes, size_t size) {
  struct ep_proxy_update update;
  if (size != sizeof update)
    return fail(WEFT_ERR_PROTOCOL, "it sent a message of %zu bytes, not %zu", size, sizeof update);
  memcpy(&update, bytes, size);
  int rc = check(proxy, &update);
  if (rc != 0)
    return rc;
  if (update.delivered > proxy->counted)
    proxy->counted = update.delivered;
  if (update.size == 0)
    return 0;
  proxy->landed[update.number % EP_PROXY_BATCHES] = update.size;
  return deliver(proxy);
}

static void receive(struct ep_remote *remote, const void *bytes, size_t size) {
  int rc = take_update(remote->proxy, bytes, size);
  if (rc != 0)
    ep_remote_fail(remote, rc, weft_last_error());
}

// --- the net thread's rest ---

uint64_t ep_proxy_nap_ns(uint64_t last_ns) {
  static const struct {
    uint64_t quiet_ns, nap_ns;
  } steps[] = {{1000000000, 1000000}, {20000000, 200000}, {200000, 20000}};
  uint64_t quiet_ns = clock_ns() - last_ns;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    if (quiet_ns >= steps[i].quiet_ns)
      return steps[i].nap_ns;
  return 0;
}

const struct ep_carrier_ops ep_proxy_carrier = {
    .shown_bytes = ep_sharers_shown_bytes,
    .shown = ep_sharers_shown,
    .open = open_proxy,
    .close = close_proxy,
    .written = written,
    .sent = sent,
    .prepare = prepare_all,
    .each = each,
    .receive = receive,
    .flush = flush,
};
