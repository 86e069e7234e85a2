// Creates and ends a link to another host: its shadow, its registrations with the transport, and its number.
#include "ep/remote/remote_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "ep/remote/requests.h"

enum {
  INDEX_BITS = 16, // bits of a link's number that are its index
  END_MS = 1000,   // time for requests in flight to end, and again after the peer was disconnected
};

// --- numbers ---

static int take_number(struct ep_net *net, struct ep_remote *remote) {
  for (uint32_t i = 0; i < net->num_remotes; i++)
    if (!net->remotes[i]) {
      net->remotes[i] = remote;
      remote->id = random_id() << INDEX_BITS | i;
      return 0;
    }
  return fail(WEFT_ERR_LIMIT, "%u links to other hosts are in use", net->num_remotes);
}

struct ep_remote *ep_remote_find(struct ep_net *net, uint64_t id) {
  uint64_t index = id & ((1u << INDEX_BITS) - 1);
  struct ep_remote *remote = index < net->num_remotes ? net->remotes[index] : NULL;
  return remote && remote->id == id ? remote : NULL;
}

// --- making ---

static int reg(struct ep_net *net, const struct ep_window *window, int fd, struct transport_region **region) {
  if (!net->worker)
    return fail(WEFT_ERR_CLOSED, "this rank's transport was closed");
  struct transport_memory memory = {
      .kind = WEFT_MEMORY_HOST, .address = window->memory, .length = window->size, .device = -1, .fd = fd};
  return net->transport->reg(net->worker, &memory, region);
}

static const struct ep_carrier_ops *carrier_of(const struct ep_remote *remote) {
  return remote->ep->engine->carrier;
}

// The memory that the peer's transport writes.
static struct ep_window *written(struct ep_remote *remote) {
  return carrier_of(remote)->written(remote);
}

// Registers the memory that the transport writes and reads, and begins to receive messages to the link.
static int enroll(struct ep_remote *remote) {
  struct ep_net *net = remote->net;
  ep_net_lock(net);
  int rc = take_number(net, remote);
  if (rc == 0)
    rc = reg(net, written(remote), remote->area_fd, &remote->in);
  if (rc == 0)
    rc = reg(net, carrier_of(remote)->sent(remote), -1, &remote->out);
  if (rc == 0 && carrier_of(remote)->enroll)
    carrier_of(remote)->enroll(remote);
  ep_net_unlock(net);
  return rc;
}

int ep_remote_new(weft_ep_t *ep, struct ep_net *net, struct ep_link *link, int area_fd) {
  struct ep_remote *remote = calloc(1, sizeof *remote);
  if (!remote) {
    close(area_fd);
    return fail(WEFT_ERR_NOMEM, "no memory for the link to rank %d", link->rank);
  }
  remote->ep = ep;
  remote->net = net;
  remote->link = link;
  remote->area_fd = area_fd;
  pthread_mutex_init(&remote->socket_lock, NULL);
  link->remote = remote;
  link->path = &ep_path_remote;
  int rc = ep_window_private(&link->out, ep->layout.area);
  atomic_fetch_add(&ep->links.window_bytes, link->out.size); // besides the area, the link owns this memory too
  if (rc == 0)
    rc = ep_window_private(&link->bell, EP_DOORBELL_SIZE);
  if (rc == 0)
    rc = carrier_of(remote)->open(remote, &remote->area_fd);
  if (rc == 0 && net)
    rc = enroll(remote);
  return rc == 0 ? 0 : fail_context(rc, "link to rank %d", link->rank);
}

int ep_remote_describe(struct ep_remote *remote, struct ep_tcp_message *message) {
  struct ep_net *net = remote->net;
  size_t size = sizeof message->key;
  snprintf(message->transport, sizeof message->transport, "%s", ep_remote_way(remote));
  if (!net) {
    memcpy(message->key, remote->link->device.name, DEVICE_NAME);
    message->key_size = DEVICE_NAME;
    return 0;
  }
  ep_net_lock(net);
  int rc = remote->in ? net->transport->pack(remote->in, message->key, &size)
                      : fail(WEFT_ERR_CLOSED, "this rank's transport was closed");
  if (rc == 0 && carrier_of(remote)->describe)
    rc = carrier_of(remote)->describe(remote, message);
  ep_net_unlock(net);
  memcpy(message->address, net->address, net->address_size);
  message->address_size = (uint32_t)net->address_size;
  message->key_size = (uint32_t)size;
  message->link = remote->id;
  return rc;
}

static int reach(struct ep_remote *remote, const struct ep_tcp_message *message) {
  const struct transport *transport = remote->net->transport;
  size_t area = written(remote)->size;
  if (!remote->in)
    return fail(WEFT_ERR_CLOSED, "this rank's transport was closed");
  char owner[EP_NET_OWNER];
  ep_net_owner(owner, remote->link->rank, remote->link->incarnation);
  int rc = transport->connect(remote->net->worker, message->address, message->address_size, owner, &remote->peer);
  if (rc != 0)
    return rc;
  remote->peer->arg = remote;
  rc = transport->import(remote->peer, message->key, message->key_size, &remote->area);
  if (rc == 0 && (remote->area->kind != WEFT_MEMORY_HOST || remote->area->length != area))
    rc = fail(WEFT_ERR_PROTOCOL, "its area has %llu bytes, not %zu", (unsigned long long)remote->area->length, area);
  if (rc != 0)
    return rc;
  remote->area_at = remote->area->address;
  if (carrier_of(remote)->import)
    rc = carrier_of(remote)->import(remote, message);
  return rc == 0 ? carrier_of(remote)->prepare(remote) : rc;
}

int ep_remote_connect(struct ep_remote *remote, const struct ep_tcp_message *message) {
  if (message->address_size > sizeof message->address || message->key_size > sizeof message->key)
    return fail(WEFT_ERR_PROTOCOL, "a handshake message of rank %d is longer than it can be", remote->link->rank);
  if (!remote->net && message->key_size != DEVICE_NAME)
    return fail(WEFT_ERR_PROTOCOL, "rank %d names its window in %u bytes, not %d", remote->link->rank,
                message->key_size, DEVICE_NAME);
  if (!remote->net)
    return remote->ep->engine->link_map_fabric(remote->ep, remote->link, message->key);
  remote->peer_id = message->link;
  remote->met = true;
  ep_net_lock(remote->net);
  int rc = reach(remote, message);
  ep_net_unlock(remote->net);
  return rc == 0 ? 0 : fail_context(rc, "link to rank %d on another host", remote->link->rank);
}

// --- failing ---

void ep_remote_fail(struct ep_remote *remote, int err, const char *why) {
  if (ep_remote_failed(remote))
    return;
  snprintf(remote->why, sizeof remote->why, "%s", why && *why ? why : weft_strerror(err));
  atomic_store(&remote->failed, err);
  atomic_store(&remote->net->failures, true);
  ep_service_kick(remote->ep);
}

// --- ending ---

// Makes progress until no request of the link is in flight. False: some still are.
static bool quiesce(struct ep_remote *remote) {
  uint64_t deadline_ns = clock_deadline_ms(END_MS);
  do
    ep_net_progress(remote->net);
  while (ep_requests_under_way(remote) && !clock_passed(deadline_ns));
  return !ep_requests_under_way(remote);
}

// The same, as long as the peer can receive: a peer that has hung up has freed the link.
static void deliver(struct ep_remote *remote) {
  uint64_t deadline_ns = clock_deadline_ms(END_MS);
  do
    ep_net_progress(remote->net);
  while (ep_requests_under_way(remote) && ep_control_listen(remote->link) == 0 && !clock_passed(deadline_ns));
}

// Whether a newer link uses the same worker of the peer, which continues to write.
static bool is_shared(const struct ep_remote *remote) {
  const struct ep_net *net = remote->net;
  for (uint32_t i = 0; i < net->num_remotes; i++) {
    const struct ep_remote *other = net->remotes[i];
    if (other && other != remote && other->link->rank == remote->link->rank &&
        other->link->incarnation == remote->link->incarnation)
      return true;
  }
  return false;
}

// A peer that was stopped may be in the middle of a write, and continues it later whatever the window is used for then.
static void fence(struct ep_remote *remote) {
  const struct transport *transport = remote->net->transport;
  if (!transport->fence || is_shared(remote))
    return;
  transport->fence(remote->peer);
  remote->fenced = true;
}

static void let_go_of_peer(struct ep_remote *remote) {
  if (remote->peer) {
    fence(remote);
    remote->peer->arg = NULL;
    remote->net->transport->disconnect(remote->peer); // also frees its remotes when their requests have ended
  }
  remote->area = NULL;
  remote->peer = NULL;
}

void ep_remote_disconnect(struct ep_remote *remote) {
  int none = 0;
  atomic_compare_exchange_strong(&remote->failed, &none, WEFT_ERR_CANCELED); // queued posts of the link are dropped
  let_go_of_peer(remote);
}

// False: the transport still accesses memory of the link.
static bool end(struct ep_remote *remote) {
  struct ep_net *net = remote->net;
  int none = 0;
  if (atomic_load(&remote->link->state) == EP_LINK_LEFT) // data that it sent before counts
    deliver(remote);
  atomic_compare_exchange_strong(&remote->failed, &none, WEFT_ERR_CANCELED); // queued posts of the link are dropped
  if (remote->id != 0)
    net->remotes[remote->id & ((1u << INDEX_BITS) - 1)] = NULL;
  ep_requests_cancel(remote);
  bool quiet = quiesce(remote);
  if (!quiet) {
    let_go_of_peer(remote);
    quiet = quiesce(remote);
  }
  if (!quiet)
    return false;
  ep_requests_unprepare(remote);
  let_go_of_peer(remote);
  if (carrier_of(remote)->withdraw)
    carrier_of(remote)->withdraw(remote, remote->fenced || !remote->met);
  if (remote->out)
    net->transport->unreg(remote->out);
  if (remote->in) {
    net->transport->unreg(remote->in);
    ep_net_quarantine(net, written(remote));
  }
  return true;
}

void ep_remote_free(struct ep_remote *remote) {
  if (!remote)
    return;
  struct ep_link *link = remote->link;
  bool quiet = true;
  if (remote->net) {
    ep_net_lock(remote->net);
    quiet = end(remote);
    ep_net_unlock(remote->net);
  }
  link->remote = NULL;
  link->path = &ep_path_mapped;
  tls_close(remote->tls); // the socket is still open
  if (quiet) {
    close(remote->area_fd);
    pthread_mutex_destroy(&remote->socket_lock);
    carrier_of(remote)->close(remote);
    free(remote);
    return;
  }
  log_warn("rank %d: transfers to rank %d do not end; their memory is not freed", remote->ep->rank, link->rank);
  link->in = link->out = (struct ep_window){0};
  if (carrier_of(remote)->abandon)
    carrier_of(remote)->abandon(remote);
}
