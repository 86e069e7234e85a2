// Collects what kernels have written into batches, posts these to the peer, and puts the peer's batches into the window
// here.
#include "ep/gpu/remote/batches.h"

#include <sched.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/gpu/remote/sharers.h"

enum {
  FLUSH_MS = 500,
  AT_ONCE = 4, // most batches of a link in one round, so that other links get a turn
};

// The relay of a link; NULL: the link carries nothing yet, or nothing any more.
static struct device_relay *relay_of(const struct ep_remote *remote) {
  const struct ep_proxy *proxy = remote->proxy;
  bool carries = proxy && proxy->ready && ep_link_up(remote->link) && atomic_load(&remote->failed) == 0;
  return carries ? proxy->relay : NULL;
}

// When the link has gone, nothing waits any more for the peer to put batches in place.
void ep_batches_update_stamps(struct ep_proxy *proxy) {
  const struct ep_batch *oldest = &proxy->batches[proxy->counted % EP_PROXY_BATCHES];
  bool waits = proxy->posted > proxy->counted && relay_of(proxy->remote);
  uint64_t since_ns = oldest->posted_ns > proxy->counted_ns ? oldest->posted_ns : proxy->counted_ns;
  ep_share_counted(proxy->remote, waits ? oldest->stamp : 0, since_ns);
}

// --- sending ---

static void post(struct ep_proxy *proxy, struct ep_batch *batch, struct ep_post *with, uint32_t size) {
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

// The pieces of a request are those of the moves, and the batch itself.
static struct ep_post *set_moves(struct ep_proxy *proxy, struct ep_batch *batch, const struct device_moves *moves) {
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
  batch->pieces[EP_BATCH_MOVES].length = batch->piece.length;
  proxy->moved_bytes += moves->bytes;
  return &batch->moving;
}

// Sends the next batch, if there is a place for it and there is data to send.
static bool send_batch(struct ep_proxy *proxy) {
  uint64_t place = proxy->posted % EP_PROXY_BATCHES;
  struct ep_batch *batch = &proxy->batches[place];
  if (batch->busy || proxy->posted - proxy->counted >= EP_PROXY_BATCHES)
    return false;
  struct device_moves moves = {.list = proxy->moves,
                               .room = EP_BATCH_MOVES,
                               .most = ep_batches_most_moved(&proxy->rings),
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
  ep_batches_update_stamps(proxy);
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

uint32_t ep_batches_poll(struct ep_net *net) {
  uint32_t news = 0;
  ep_sharers_find(net);
  for (uint32_t i = 0; i < net->num_remotes; i++) {
    struct ep_remote *remote = net->remotes[i];
    if (!remote || !remote->proxy || !remote->proxy->ready)
      continue;
    if (!relay_of(remote))
      ep_batches_update_stamps(remote->proxy);
    news += carry(remote->proxy);
  }
  return news;
}

// True: the peer has counted all batches, or never will.
static bool is_carried(struct ep_proxy *proxy) {
  bool idle = carry(proxy) == 0;
  return ep_remote_failed(proxy->remote) || (idle && proxy->posted == proxy->counted);
}

void ep_batches_flush(struct ep_remote *remote) {
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

// Puts all batches that are next in order into their place.
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
      return device_fail(rc, "data from another host", why);
    proxy->landed[place] = 0;
    proxy->delivered++;
  }
}

// Checks that the peer may send this message.
static int check(const struct ep_proxy *proxy, const struct ep_proxy_update *update) {
  if (update->version != EP_LAYOUT_VERSION)
    return fail(WEFT_ERR_PROTOCOL, "it sent a message of version %u, not %u", update->version, EP_LAYOUT_VERSION);
  if (update->delivered > proxy->posted)
    return fail(WEFT_ERR_PROTOCOL, "it acknowledged %llu batches, but only %llu were sent to it",
                (unsigned long long)update->delivered, (unsigned long long)proxy->posted);
  if (update->size == 0)
    return 0;
  if (update->size > EP_PROXY_BYTES)
    return fail(WEFT_ERR_PROTOCOL, "it sent a batch of %u bytes", update->size);
  if (update->number < proxy->delivered || update->number - proxy->delivered >= EP_PROXY_BATCHES ||
      proxy->landed[update->number % EP_PROXY_BATCHES] != 0)
    return fail(WEFT_ERR_PROTOCOL, "it sent batch %llu out of order: %llu were delivered so far",
                (unsigned long long)update->number, (unsigned long long)proxy->delivered);
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
    ep_batches_update_stamps(proxy);
  }
  if (update.size == 0)
    return 0;
  proxy->landed[update.number % EP_PROXY_BATCHES] = update.size;
  return deliver(proxy);
}

void ep_batches_receive(struct ep_remote *remote, const void *bytes, size_t size) {
  int rc = take_update(remote->proxy, bytes, size);
  if (rc != 0)
    ep_remote_fail(remote, rc, weft_last_error());
}

// --- the net thread's rest ---

uint64_t ep_batches_nap_ns(uint64_t last_ns) {
  static const struct {
    uint64_t quiet_ns, nap_ns;
  } steps[] = {{1000000000, 1000000}, {20000000, 200000}, {200000, 20000}};
  uint64_t quiet_ns = clock_ns() - last_ns;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    if (quiet_ns >= steps[i].quiet_ns)
      return steps[i].nap_ns;
  return 0;
}
