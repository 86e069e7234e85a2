// Opens a rank's access to other hosts, with the transport that its setting or its peers name; opens the worker again
// if peers cannot reach it; closes it.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "ep/core/engine.h"
#include "ep/remote/net/lock.h"
#include "transport/nics.h"

enum { LINKS_MORE = 64 }; // links that are being freed, besides two for each rank of the capacity

// --- which transport ---

static bool can_carry(const struct transport_abilities *abilities) {
  uint32_t host = 1u << WEFT_MEMORY_HOST;
  uint32_t flags = TRANSPORT_MESSAGES | TRANSPORT_LENGTHS;
  return (abilities->flags & flags) == flags && (abilities->local_kinds & host) && (abilities->remote_kinds & host);
}

static int find_named(const char *name, const struct transport **transport) {
  char why[FAIL_DETAIL_SIZE] = "";
  int rc = transport_find(name, transport);
  if (rc == 0 && !can_carry(&(*transport)->abilities))
    rc = fail(WEFT_ERR_UNSUPPORTED, "the transport %s does not carry messages between ranks", name);
  if (rc == 0 && (*transport)->probe && (*transport)->probe(why, sizeof why) != 0)
    rc = fail(WEFT_ERR_UNSUPPORTED, "the transport %s does not work here: %s", name, why);
  return rc;
}

// The first one that works is chosen. UCX is last: if nobody has named it, it uses only RDMA.
static const char *const networks[] = {"ofi", "ucx", NULL};

static int find_any(const struct transport **transport) {
  for (const char *const *name = networks; *name; name++)
    if (find_named(*name, transport) == 0)
      return 0;
  return fail(WEFT_ERR_UNSUPPORTED, "no transport to other hosts works here: `weft info` says what is missing");
}

// Finds the transport that a caller proposes to a rank without a setting; only one that this rank might choose itself.
static int find_proposed(const char *proposal, const struct transport **transport) {
  for (const char *const *name = networks; *name; name++)
    if (strcmp(*name, proposal) == 0)
      return find_named(*name, transport);
  return fail(WEFT_ERR_UNSUPPORTED, "a caller would be reached by %s: set WEFT_EP_TRANSPORT alike on all ranks",
              proposal);
}

// --- its worker ---

static void on_message(void *arg, const void *bytes, size_t size) {
  struct ep_net *net = arg;
  net->events->message(net, bytes, size);
}

static void on_peer(void *arg, struct transport_peer *peer, int err, const char *why) {
  struct ep_net *net = arg;
  if (peer->arg)
    net->events->failed(peer->arg, err, why);
}

void ep_net_owner(char owner[EP_NET_OWNER], int32_t rank, uint64_t incarnation) {
  snprintf(owner, EP_NET_OWNER, "rank %" PRId32 " %016" PRIx64, rank, incarnation);
}

static int open_worker(struct ep_net *net) {
  struct transport_nics nics;
  char owner[EP_NET_OWNER];
  ep_net_owner(owner, net->ep->rank, net->ep->incarnation);
  transport_nics_choose(net->transport, net->ep->device >= 0 ? net->ep->device : TRANSPORT_NO_GPU, &nics);
  struct transport_options options = {.size = sizeof options,
                                      .on_message = on_message,
                                      .on_peer = on_peer,
                                      .arg = net,
                                      .settings = nics.settings,
                                      .threads = true,
                                      .owner = owner,
                                      .unasked = net->ep->links.transport[0] == '\0'};
  if (nics.why[0])
    log_info("rank %d: NICs of %s: %s", net->ep->rank, net->transport->name, nics.why);
  int rc = net->transport->open(&options, &net->worker);
  net->address_size = sizeof net->address;
  if (rc == 0)
    rc = net->transport->address(net->worker, net->address, &net->address_size);
  return rc;
}

void ep_net_shut(struct ep_net *net) {
  struct transport_worker *worker = net->worker;
  for (uint32_t i = 0; i < net->num_remotes; i++)
    if (net->remotes[i])
      net->events->closing(net->remotes[i]);
  net->worker = NULL;
  if (worker)
    net->transport->close(worker);
}

static int open_new(weft_ep_t *ep, const struct transport *transport, const struct ep_net_events *events,
                    struct ep_net **out) {
  struct ep_net *net = calloc(1, sizeof *net);
  if (!net)
    return fail(WEFT_ERR_NOMEM, "no memory for connections to other hosts");
  net->ep = ep;
  net->events = events;
  net->transport = transport;
  net->kick = -1;
  net->num_remotes = 2 * ep->capacity + LINKS_MORE;
  net->remotes = calloc(net->num_remotes, sizeof(struct ep_remote *));
  int rc = net->remotes ? open_worker(net) : fail(WEFT_ERR_NOMEM, "no memory for links to other hosts");
  if (rc == 0)
    rc = ep_net_thread_start(net);
  if (rc != 0) {
    ep_net_close(net);
    return fail_context(rc, "transport %s", transport->name);
  }
  log_info("rank %d reaches other hosts by %s", ep->rank, transport->name);
  *out = net;
  return 0;
}

void ep_net_doubt(weft_ep_t *ep) {
  struct ep_net *net = atomic_load(&ep->net);
  if (net)
    atomic_store(&net->doubted, true);
}

static bool is_unused(const struct ep_net *net) {
  for (uint32_t i = 0; i < net->num_remotes; i++)
    if (net->remotes[i])
      return false;
  return true;
}

// Opens a worker in place of one that peers cannot reach. UNREACHABLE: none can be opened now.
static int renew(struct ep_net *net) {
  int rc = 0;
  ep_net_lock(net);
  if (is_unused(net)) {
    ep_net_shut(net);
    rc = open_worker(net);
    if (rc == 0) {
      atomic_store(&net->doubted, false);
      log_info("rank %d has reopened its transport to other hosts: a peer could not reach it", net->ep->rank);
    }
  }
  ep_net_unlock(net); // this wakes the net thread if it sleeps on the old worker's descriptor
  return rc == 0 ? 0 : fail_context(WEFT_ERR_UNREACHABLE, "transport %s", net->transport->name);
}

int ep_net_open(weft_ep_t *ep, const char *name, const struct ep_net_events *events, struct ep_net **out) {
  const char *own = ep->links.transport[0] ? ep->links.transport : NULL;
  const struct transport *transport = NULL;
  pthread_mutex_lock(&ep->net_lock);
  struct ep_net *net = atomic_load(&ep->net);
  int rc = 0;
  if (net && atomic_load(&net->doubted))
    rc = renew(net);
  if (!net && !(own && name && strcmp(own, name) != 0)) {
    if (own)
      rc = find_named(own, &transport);
    else if (name)
      rc = find_proposed(name, &transport);
    else
      rc = find_any(&transport);
    if (rc == 0)
      rc = open_new(ep, transport, events, &net);
    if (rc == 0) {
      atomic_store(&ep->net, net);
      atomic_store(&ep->background, &ep_net_background);
    }
  }
  pthread_mutex_unlock(&ep->net_lock);
  const char *used = net ? net->transport->name : own;
  if (rc == 0 && name && strcmp(used, name) != 0)
    rc = fail(WEFT_ERR_UNSUPPORTED,
              "rank %d reaches other hosts by %s and not by %s: set WEFT_EP_TRANSPORT alike on all ranks", ep->rank,
              used, name);
  if (rc == 0)
    *out = net;
  return rc;
}

void ep_net_close(struct ep_net *net) {
  if (!net)
    return;
  ep_net_thread_stop(net);
  if (net->worker)
    net->transport->close(net->worker);
  for (uint32_t i = 0; i < EP_NET_QUARANTINE; i++)
    ep_window_release(&net->quarantine[i]);
  if (net->kick >= 0)
    close(net->kick);
  free(net->remotes);
  free(net);
}

void ep_net_quarantine(struct ep_net *net, struct ep_window *window) {
  struct ep_window *place = &net->quarantine[net->num_quarantined++ % EP_NET_QUARANTINE];
  ep_window_release(place);
  void *memory = mmap(window->memory, window->size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (memory == MAP_FAILED)
    return; // the window stays unchanged, and its owner releases it
  *place = *window;
  *window = (struct ep_window){0};
}
