// Peers of the transport ofi: addresses and connections.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "base/wire/card.h"
#include "transport/ofi/address_check.h"
#include "transport/ofi/ofi.h"

static const struct card address_card = {"address of ofi", 0x61666f31, 3};

static bool is_shm(const struct fi_info *info) {
  return strncmp(info->fabric_attr->prov_name, "shm", 3) == 0 || strncmp(info->fabric_attr->prov_name, "sm2", 3) == 0;
}

// Whether the address is valid on its own host only.
static bool is_local(const struct fi_info *info, const void *name) {
  const struct sockaddr_in *four = name;
  const struct sockaddr_in6 *six = name;
  switch (info->addr_format) {
  case FI_SOCKADDR_IN:
    return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  case FI_SOCKADDR_IN6:
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
  default:
    return is_shm(info);
  }
}

int ofi_address(struct transport_worker *base, void *bytes, size_t *size) {
  struct ofi_worker *worker = (struct ofi_worker *)base;
  const char *provider = worker->info->fabric_attr->prov_name;
  uint8_t name[OFI_MAX_NAME];
  size_t name_size = sizeof name;
  uint8_t source[OFI_MAX_NAME];
  size_t source_size = sizeof source;
  int rc = fi_getname(&worker->home->fid, name, &name_size);
  if (rc == 0)
    rc = fi_getname(&worker->source->ep->fid, source, &source_size);
  if (rc != 0)
    return ofi_fail(rc, "libfabric does not give its own address");
  bool local = is_local(worker->info, name);
  struct wire_writer writer = card_begin(&address_card, bytes, *size);
  wire_put_number(&writer, worker->info->addr_format, 4);
  wire_put_number(&writer, local ? worker->host : 0, 8);
  wire_put_number(&writer, local ? worker->net : 0, 8);
  wire_put_number(&writer, strlen(provider), 1);
  wire_put(&writer, provider, strlen(provider));
  wire_put_number(&writer, name_size, 2);
  wire_put(&writer, name, name_size);
  wire_put(&writer, source, source_size);
  return card_end(&address_card, &writer, size);
}

struct names {
  const void *home, *source;
  size_t home_size, source_size;
};

static int check_names(const struct ofi_worker *worker, const struct names *names) {
  uint32_t format = worker->info->addr_format;
  uint8_t own[OFI_MAX_NAME];
  size_t own_size = sizeof own;
  int rc = fi_getname(&worker->home->fid, own, &own_size);
  if (rc != 0)
    return ofi_fail(rc, "libfabric does not give its own address");
  rc = ofi_name_check(format, names->home, names->home_size, own_size);
  return rc ? rc : ofi_name_check(format, names->source, names->source_size, own_size);
}

// Reads an address: gives the libfabric names in it, if this worker can reach them.
static int read_address(const struct ofi_worker *worker, const void *address, size_t size, struct names *names) {
  struct wire_reader reader;
  int rc = card_read(&address_card, address, size, &reader);
  if (rc != 0)
    return rc;
  uint64_t format = wire_take_number(&reader, 4), host = wire_take_number(&reader, 8);
  uint64_t net = wire_take_number(&reader, 8), length = wire_take_number(&reader, 1);
  const char *provider = wire_take(&reader, length);
  const char *here = worker->info->fabric_attr->prov_name;
  names->home_size = wire_take_number(&reader, 2);
  names->home = wire_take(&reader, names->home_size);
  names->source_size = wire_left(&reader);
  names->source = wire_take(&reader, names->source_size);
  if (reader.failed || names->home_size == 0 || names->source_size == 0)
    return fail(WEFT_ERR_PROTOCOL, "an address of ofi has another format");
  if (length != strlen(here) || memcmp(provider, here, length) != 0 || format != worker->info->addr_format)
    return fail(WEFT_ERR_UNREACHABLE,
                "that worker uses the provider %.*s of libfabric, with another kind of address, but this one uses %s: "
                "choose one with FI_PROVIDER",
                (int)length, provider, here);
  if (host != 0 && (host != worker->host || net != worker->net))
    return fail(WEFT_ERR_UNREACHABLE,
                "the address of that worker is only valid on its own host: choose an interface that other hosts reach");
  if (names->home_size > OFI_MAX_NAME || names->source_size > OFI_MAX_NAME)
    return fail(WEFT_ERR_PROTOCOL, "an address of ofi is too long");
  return check_names(worker, names);
}

int ofi_connect(struct transport_worker *base, const void *address, size_t size, const char *owner,
                struct transport_peer **made) {
  (void)owner;
  struct ofi_worker *worker = (struct ofi_worker *)base;
  struct names names;
  int rc = read_address(worker, address, size, &names);
  if (rc != 0)
    return rc;
  struct ofi_peer *peer = calloc(1, sizeof *peer);
  if (!peer)
    return fail(WEFT_ERR_NOMEM, "no memory for a peer");
  rc = ofi_name_insert(worker, names.home, names.home_size, &peer->address);
  if (rc != 0) {
    free(peer);
    return ofi_fail(rc, "libfabric does not take that address");
  }
  memcpy(peer->source, names.source, names.source_size);
  peer->source_size = names.source_size;
  peer->doubtful = worker->has_left_names;
  flow_peer_init(&peer->flow, &worker->flow);
  *made = &peer->flow.base;
  return 0;
}

// Operations on that source whose requests are to be ended by force, of that peer; NULL: of all peers.
static uint32_t count_overdue(const struct ofi_worker *worker, const struct ofi_source *source,
                              const struct flow_peer *only) {
  const struct flow_worker *flow = &worker->flow;
  uint64_t now = clock_ns();
  uint32_t count = 0;
  for (const struct link *link = flow->peers.next; link != &flow->peers; link = link->next) {
    const struct flow_peer *peer = LINK_OF(link, struct flow_peer, peers);
    for (const struct link *one = peer->active.next; one != &peer->active; one = one->next) {
      struct flow_request *own = LINK_OF(one, struct flow_request, active);
      for (uint32_t i = 0; (!only || only == peer) && flow_overdue(own, now) && i < own->window; i++)
        count += ((struct ofi_op *)flow_op_of(own, i))->source == source;
    }
  }
  return count;
}

// Ends the operations under way to that peer by closing its connection. The next operation makes a new connection.
static void cut_off(struct ofi_worker *worker, struct ofi_peer *peer) {
  uint8_t name[OFI_MAX_NAME];
  size_t size = sizeof name;
  if (fi_av_lookup(worker->av, peer->address, name, &size) != 0 || size > sizeof name)
    return;
  peer->cutting = true;
  ofi_break(worker, peer);
  ofi_name_remove(worker, peer->address, peer->doubtful);
  if (ofi_name_insert(worker, name, size, &peer->address) != 0)
    flow_peer_failed(&peer->flow, WEFT_ERR_PEER_LOST, "it was cut off");
  while (ofi_complete_sources(worker) > 0)
    ;
  peer->cutting = false;
}

// If removing an address does not end its connection, stuck operations end when their source is closed; later
// operations use a new source. libfabric 1.17 crashes in fi_cq_read() after an endpoint of shm was closed during an
// operation: there, requests end when the peer's process ends or continues, or with this worker.
void ofi_sever(struct flow_peer *base) {
  struct ofi_worker *worker = (struct ofi_worker *)base->base.worker;
  struct ofi_source *source;
  uint32_t overdue = is_shm(worker->info) ? 0 : count_overdue(worker, worker->source, base);
  if (overdue > 0 && base->running > overdue)
    flow_peer_failed(base, WEFT_ERR_PEER_LOST, "requests to it did not end after they were cancelled: it was cut off");
  if (overdue > 0)
    cut_off(worker, (struct ofi_peer *)base);
  if (overdue == 0 || count_overdue(worker, worker->source, base) == 0 || ofi_source_open(worker, &source) != 0)
    return;
  link_add(&worker->sources, &worker->source->sources);
  worker->source = source;
}

static void end_ops(struct ofi_worker *worker, struct ofi_source *source) {
  struct flow_worker *flow = &worker->flow;
  for (struct link *link = flow->peers.next; link != &flow->peers; link = link->next) {
    struct flow_peer *peer = LINK_OF(link, struct flow_peer, peers);
    for (struct link *one = peer->active.next, *next; one != &peer->active; one = next) {
      struct flow_request *own = LINK_OF(one, struct flow_request, active);
      next = one->next;
      flow_hold(own);
      for (uint32_t i = 0; i < own->window; i++) {
        struct ofi_op *op = (struct ofi_op *)flow_op_of(own, i);
        if (op->source == source)
          ofi_op_ended(op, FI_ECANCELED, "it was cut off");
      }
      flow_let(own);
    }
  }
}

void ofi_leave_sources(struct ofi_worker *worker) {
  for (struct link *link = worker->sources.next, *next; link != &worker->sources; link = next) {
    struct ofi_source *source = LINK_OF(link, struct ofi_source, sources);
    next = link->next;
    if (count_overdue(worker, source, NULL) < source->running)
      continue; // operations to other peers may still complete there
    fi_close(&source->ep->fid);
    source->ep = NULL;
    while (ofi_complete_closed(worker, source) > 0) // completions of that endpoint
      ;
    end_ops(worker, source);
    ofi_source_close(source);
  }
}

// Another peer that has that address too: it was connected while this one was being disconnected.
static struct ofi_peer *find_other(struct ofi_worker *worker, const struct ofi_peer *peer) {
  const struct link *peers = &worker->flow.peers;
  for (struct link *link = peers->next; link != peers; link = link->next) {
    struct ofi_peer *other = (struct ofi_peer *)LINK_OF(link, struct flow_peer, peers);
    if (other != peer && other->address == peer->address)
      return other;
  }
  return NULL;
}

// Whether that peer is called by the name that this one has given as the source of its operations.
static bool is_called_so(const struct ofi_worker *worker, const struct ofi_peer *other, const struct ofi_peer *peer) {
  uint8_t name[OFI_MAX_NAME];
  size_t size = sizeof name;
  return fi_av_lookup(worker->av, other->address, name, &size) == 0 && size == peer->source_size &&
         memcmp(name, peer->source, size) == 0;
}

// Whether a peer of another worker has given the same source for its operations, or is called there: one of the two is
// false.
static bool source_is_disputed(const struct ofi_worker *worker, const struct ofi_peer *peer) {
  const struct link *peers = &worker->flow.peers;
  for (const struct link *link = peers->next; link != peers; link = link->next) {
    const struct ofi_peer *other = (const struct ofi_peer *)LINK_OF(link, struct flow_peer, peers);
    if (other == peer || other->address == peer->address)
      continue;
    bool same = other->source_size == peer->source_size && memcmp(other->source, peer->source, peer->source_size) == 0;
    if (same || is_called_so(worker, other, peer))
      return true;
  }
  return false;
}

// Removing the address closes the connection, even if others use it.
bool ofi_part(struct flow_peer *base) {
  struct ofi_peer *peer = (struct ofi_peer *)base;
  struct ofi_worker *worker = (struct ofi_worker *)base->base.worker;
  struct ofi_peer *other = find_other(worker, peer);
  if (other)
    other->doubtful |= peer->doubtful;
  else
    ofi_name_remove(worker, peer->address, peer->doubtful);
  return true;
}

// A peer that gave a false source is not disconnected by this, and must not cause the disconnection of another peer
// instead. Against such a peer, deregister the regions that it knows.
void ofi_fence(struct transport_peer *base) {
  struct ofi_peer *peer = (struct ofi_peer *)base;
  struct ofi_worker *worker = (struct ofi_worker *)base->worker;
  fi_addr_t source;
  if (!source_is_disputed(worker, peer) && ofi_name_insert(worker, peer->source, peer->source_size, &source) == 0)
    ofi_name_remove(worker, source, false); // to which this worker begins no connections
}
