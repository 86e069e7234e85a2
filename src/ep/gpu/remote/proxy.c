// Carries batches of what kernels wrote to peers on other hosts, and theirs into the windows here.
#include "ep/gpu/remote/proxy.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/gpu/gpu.h"
#include "ep/gpu/remote/rings.h"
#include "ep/gpu/remote/share.h"
#include "ep/gpu/remote/sharers.h"
#include "ep/remote/requests.h"

enum {
  FLUSH_MS = 500,
  AT_ONCE = 4, // batches of a link in one round, so that others have theirs
  MOVES = 64,  // of a batch
  // Bytes of them. With all batches under way that is 8 MiB of a link, so that links share what carries them.
  MOVED_BYTES = 1 << 20,
};

struct batch {
  struct ep_post post;   // without moves,
  struct ep_post moving; // with them: one of the two is posted
  struct ep_proxy_update update;
  struct transport_piece piece;
  struct transport_piece pieces[MOVES + 1]; // the moves; and the batch
  uint32_t moved;                           // pieces that moves had the last time
  bool busy;                                // it has not left
  uint64_t stamp, posted_ns;                // of the newest post
};

struct ep_proxy {
  struct ep_remote *remote;
  const struct device_api *api;
  struct device_relay *relay;
  struct ep_window staging, landing;
  struct ep_rings rings;
  // All under the net lock.
  bool ready;
  struct batch batches[EP_PROXY_BATCHES];
  uint64_t posted, counted;          // batches, and those that the peer has counted,
  uint64_t counted_ns;               // the newest of them then
  uint64_t delivered, acknowledged;  // the peer's batches, and those of which it knows
  uint32_t landed[EP_PROXY_BATCHES]; // bytes of a batch of the peer's that waits for those before it, 0: none
  struct batch count;                // without data
  struct device_move moves[MOVES];
  uint64_t moved_bytes;
  struct ep_share share; // of the batch at hand
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
  if (rc != 0)
    return device_fail(rc, "the way to a rank on another host", why);
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

static uint64_t most_moved(const struct ep_rings *rings) {
  return rings->bytes < MOVED_BYTES ? rings->bytes : MOVED_BYTES;
}

static void enroll(struct ep_remote *remote) {
  ep_rings_register(&remote->proxy->rings, remote);
}

static int describe(struct ep_remote *remote, struct ep_tcp_message *message) {
  return ep_rings_describe(&remote->proxy->rings, remote, message);
}

static int import(struct ep_remote *remote, const struct ep_tcp_message *message) {
  return ep_rings_import(&remote->proxy->rings, remote, message);
}

// NULL: the link carries nothing, or nothing any more.
static struct device_relay *relay_of(const struct ep_remote *remote) {
  const struct ep_proxy *proxy = remote->proxy;
  bool carries = proxy && proxy->ready && ep_link_up(remote->link) && atomic_load(&remote->failed) == 0;
  return carries ? proxy->relay : NULL;
}

// A wait for the peer to put batches in place ends when the link has gone.
static void update_stamps(struct ep_proxy *proxy) {
  const struct batch *oldest = &proxy->batches[proxy->counted % EP_PROXY_BATCHES];
  bool waits = proxy->posted > proxy->counted && relay_of(proxy->remote);
  uint64_t since_ns = oldest->posted_ns > proxy->counted_ns ? oldest->posted_ns : proxy->counted_ns;
  ep_share_counted(proxy->remote, waits ? oldest->stamp : 0, since_ns);
}

// What the peer had begun may still come where it could not be fenced: into a window that nobody uses, then. A link
// that could not be made may have no proxy.
static void withdraw(struct ep_remote *remote, bool fenced) {
  if (!remote->proxy)
    return;
  struct ep_rings *rings = &remote->proxy->rings;
  remote->proxy->ready = false;
  update_stamps(remote->proxy);
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
  update_stamps(remote->proxy);
  ep_net_unlock(remote->net);
  link->device.in = link->device.out = (struct device_window){0};
  link->device.host_in = link->device.host_out = NULL;
}

uint64_t ep_proxy_moved(const struct ep_remote *remote) {
  return remote->proxy->moved_bytes;
}

// --- requests ---

static void left(struct ep_post *post, int err) {
  struct batch *batch = post->part;
  batch->busy = false;
  if (err != 0)
    ep_remote_fail(post->remote, err, post->request.why);
}

static int prepare(struct ep_remote *remote, struct batch *batch, struct ep_post *post, struct transport_piece *pieces,
                   uint32_t num_pieces) {
  post->request.message = &batch->update;
  post->request.message_size = sizeof batch->update;
  return ep_request_prepare(remote, post, left, batch, num_pieces ? pieces : NULL, num_pieces);
}

// What is not known yet are the places and lengths of the moves.
static int prepare_moving(struct ep_remote *remote, struct batch *batch) {
  const struct ep_rings *rings = &remote->proxy->rings;
  for (uint32_t i = 0; i < MOVES; i++)
    batch->pieces[i] = (struct transport_piece){.local = rings->out_region,
                                                .remote = rings->there,
                                                .local_address = (uintptr_t)rings->out,
                                                .remote_address = rings->there->address,
                                                .length = most_moved(rings)};
  batch->pieces[MOVES] = batch->piece;
  int rc = prepare(remote, batch, &batch->moving, batch->pieces, MOVES + 1);
  for (uint32_t i = 0; i < MOVES; i++)
    batch->pieces[i].length = 0;
  return rc;
}

static int prepare_all(struct ep_remote *remote) {
  struct ep_proxy *proxy = remote->proxy;
  int rc = prepare(remote, &proxy->count, &proxy->count.post, NULL, 0);
  for (int i = 0; i < EP_PROXY_BATCHES && rc == 0; i++) {
    struct batch *batch = &proxy->batches[i];
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
  ep_share_counted(remote, 0, 0); // of the link that had the seat before
  ep_sharers_changed(remote->ep);
  return rc;
}

// --- sending ---

static void post(struct ep_proxy *proxy, struct batch *batch, struct ep_post *with, uint32_t size) {
  batch->update = (struct ep_proxy_update){.link = proxy->remote->peer_id,
                                           .version = EP_LAYOUT_VERSION,
                                           .size = size,
                                           .number = proxy->posted,
                                           .delivered = proxy->delivered};
  proxy->acknowledged = proxy->delivered;
  atomic_fetch_add(&proxy->remote->messages_sent, 1);
  proxy->posted += size > 0;
  batch->busy = true;
  ep_net_post_now(proxy->remote->net, with);
}

// The pieces of a batch are those of its moves, and itself.
static struct ep_post *set_moves(struct ep_proxy *proxy, struct batch *batch, const struct device_moves *moves) {
  const struct ep_rings *rings = &proxy->rings;
  if (moves->count == 0)
    return &batch->post;
  for (uint32_t i = 0; i < moves->count; i++) {
    uint64_t at = moves->list[i].offset - rings->offset;
    batch->pieces[i].local_address = (uintptr_t)rings->out + at;
    batch->pieces[i].remote_address = rings->there->address + at;
    batch->pieces[i].length = moves->list[i].bytes;
  }
  for (uint32_t i = moves->count; i < batch->moved; i++)
    batch->pieces[i].length = 0;
  batch->moved = moves->count;
  batch->pieces[MOVES].length = batch->piece.length;
  proxy->moved_bytes += moves->bytes;
  return &batch->moving;
}

// The next batch, if there is a place for it and anything to send.
static bool send_batch(struct ep_proxy *proxy) {
  uint64_t place = proxy->posted % EP_PROXY_BATCHES;
  struct batch *batch = &proxy->batches[place];
  if (batch->busy || proxy->posted - proxy->counted >= EP_PROXY_BATCHES)
    return false;
  struct device_moves moves = {.list = proxy->moves,
                               .room = MOVES,
                               .most = most_moved(&proxy->rings),
                               .number = proxy->posted + 1,
                               .landed = proxy->counted};
  char *bytes = (char *)proxy->staging.memory + place * EP_PROXY_BYTES;
  ep_share_begin(&proxy->share, proxy->remote, relay_of);
  size_t size = proxy->api->relay_collect(proxy->relay, bytes, EP_PROXY_BYTES, proxy->rings.there ? &moves : NULL,
                                          &proxy->share.sharing);
  if (size == 0)
    return false;
  batch->piece.length = size;
  batch->stamp = proxy->share.sharing.stamp;
  batch->posted_ns = clock_ns();
  post(proxy, batch, set_moves(proxy, batch, &moves), (uint32_t)size);
  ep_share_posted(&proxy->share, proxy->remote);
  update_stamps(proxy);
  return true;
}

static uint32_t carry(struct ep_proxy *proxy) {
  uint32_t news = 0;
  while (news < AT_ONCE && !ep_remote_failed(proxy->remote) && send_batch(proxy))
    news++;
  if (proxy->acknowledged != proxy->delivered && !proxy->count.busy && !ep_remote_failed(proxy->remote)) {
    post(proxy, &proxy->count, &proxy->count.post, 0);
    news++;
  }
  return news;
}

uint32_t ep_proxy_poll(struct ep_net *net) {
  uint32_t news = 0;
  ep_sharers_find(net);
  for (uint32_t i = 0; i < net->num_remotes; i++) {
    struct ep_remote *remote = net->remotes[i];
    if (!remote || !remote->proxy || !remote->proxy->ready)
      continue;
    if (!relay_of(remote))
      update_stamps(remote->proxy);
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
    struct ep_share_windows windows;
    const struct device_neighbours neighbours = ep_share_neighbours(&windows, proxy->remote);
    int rc = proxy->api->relay_deliver(proxy->relay, bytes, size, &neighbours, why);
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
  if (update.delivered > proxy->counted) {
    proxy->counted = update.delivered;
    proxy->counted_ns = clock_ns();
    proxy->api->relay_landed(proxy->relay, proxy->batches[(proxy->counted - 1) % EP_PROXY_BATCHES].stamp);
    update_stamps(proxy);
  }
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
    .enroll = enroll,
    .describe = describe,
    .import = import,
    .prepare = prepare_all,
    .each = each,
    .receive = receive,
    .withdraw = withdraw,
    .forget = forget,
    .abandon = abandon,
    .flush = flush,
};
