// Registers rings with the transport, and imports the peer's rings.
#include "ep/gpu/remote/rings.h"

#include "base/fail.h"
#include "base/log.h"

static const struct transport *transport_of(const struct ep_remote *remote) {
  return remote->net->transport;
}

static void log_batches(const struct ep_remote *remote, const char *which, const char *why) {
  log_debug("rank %d: rows %s rank %d on another host are sent in batches: %s", remote->ep->rank, which,
            remote->link->rank, why);
}

static struct transport_region *reg(const struct ep_rings *rings, const struct ep_remote *remote, char *begin,
                                    const char *which) {
  struct transport_region *region = NULL;
  const struct transport_memory memory = {
      .kind = WEFT_MEMORY_HOST, .address = begin, .length = rings->bytes, .device = -1, .fd = -1};
  if (transport_of(remote)->reg(remote->net->worker, &memory, &region) == 0)
    return region;
  log_batches(remote, which, weft_last_error());
  return NULL;
}

void ep_rings_register(struct ep_rings *rings, struct ep_remote *remote) {
  if (rings->bytes == 0)
    return;
  if (!(remote->net->worker->abilities.flags & TRANSPORT_MOVES)) {
    log_batches(remote, "to and from", "its transport cannot move them");
    return;
  }
  rings->in_region = reg(rings, remote, rings->in, "from");
  rings->out_region = reg(rings, remote, rings->out, "to");
}

int ep_rings_describe(struct ep_rings *rings, struct ep_remote *remote, struct ep_tcp_message *message) {
  size_t size = sizeof message->rings_key;
  if (!rings->in_region)
    return 0;
  int rc = transport_of(remote)->pack(rings->in_region, message->rings_key, &size);
  message->rings_key_size = rc == 0 ? (uint32_t)size : 0;
  return rc;
}

int ep_rings_import(struct ep_rings *rings, struct ep_remote *remote, const struct ep_tcp_message *message) {
  struct transport_remote *there = NULL;
  if (message->rings_key_size == 0 && rings->bytes > 0)
    log_batches(remote, "to", "it has not registered its rings");
  if (message->rings_key_size == 0)
    return 0;
  if (rings->bytes == 0)
    return fail(WEFT_ERR_PROTOCOL, "rank %d offers rings, but this group has none", remote->link->rank);
  int rc = transport_of(remote)->import(remote->peer, message->rings_key, message->rings_key_size, &there);
  if (rc == WEFT_ERR_UNREACHABLE) {
    log_batches(remote, "to", weft_last_error());
    return 0;
  }
  if (rc != 0)
    return fail_context(rc, "the rings of rank %d", remote->link->rank);
  if (there->kind != WEFT_MEMORY_HOST || there->length != rings->bytes)
    return fail(WEFT_ERR_PROTOCOL, "the rings of rank %d have %llu bytes, not %llu", remote->link->rank,
                (unsigned long long)there->length, (unsigned long long)rings->bytes);
  if (rings->out_region)
    rings->there = there;
  return 0;
}

void ep_rings_unregister(struct ep_rings *rings, struct ep_remote *remote) {
  struct transport_region **regions[] = {&rings->in_region, &rings->out_region};
  for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) {
    if (*regions[i])
      transport_of(remote)->unreg(*regions[i]);
    *regions[i] = NULL;
  }
  rings->there = NULL;
}
