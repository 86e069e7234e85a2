// Registered memory of the transport cuda, its keys, and where this process maps the regions of peers.
#include "transport/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/wire/card.h"

// The bytes of pack(): this struct in its memory layout, since it never leaves the host; the key of shm (HOST); and a
// seal over both.
static const struct card key_card = {"key of cuda", 0x77435544, 3};
struct key {
  uint32_t kind;
  int32_t fd; // of the window in its owner's process; -1: none
  uint64_t address, length, read_only;
  struct shm_grant grant; // CUDA
  struct device_share share;
};

static struct cuda_worker *worker_of(struct transport_worker *worker) {
  return (struct cuda_worker *)worker;
}

static int register_host(struct cuda_worker *worker, struct cuda_region *region) {
  char why[DEVICE_WHY] = "";
  int rc = worker->shm->transport->reg(worker->shm, &region->base.memory, &region->shm);
  if (rc != 0)
    return rc;
  rc = worker->api->pin(region->base.memory.address, region->base.memory.length, why);
  region->pinned = rc == 0;
  return rc == 0 || rc == WEFT_ERR_EXISTS ? 0 : device_fail(rc, "host memory for copies by GPUs", why);
}

static int register_cuda(struct cuda_worker *worker, struct cuda_region *region) {
  const struct transport_memory *memory = &region->base.memory;
  char why[DEVICE_WHY] = "";
  int owner = -1;
  int rc = worker->api->owner(memory->address, &owner, why);
  if (rc == 0 && (owner < 0 || (memory->device >= 0 && memory->device != owner)))
    return fail(WEFT_ERR_INVALID, "%p is memory of %s %d, but should be of GPU %d", memory->address,
                owner < 0 ? "no GPU:" : "GPU", owner, memory->device);
  if (rc != 0)
    return device_fail(rc, "memory of a GPU", why);
  region->base.memory.device = owner;
  struct device *device;
  rc = cuda_device_open(worker, owner, &device);
  if (rc != 0)
    return rc;
  rc = shm_grant_open(worker->shm, &region->grant);
  if (rc != 0)
    return rc;
  region->granted = true;
  // Memory that other processes cannot map can still be the local side of transfers.
  region->shared =
      worker->api->share(memory->address, memory->length, memory->fd >= 0, &region->share, region->why_not) == 0;
  return 0;
}

int cuda_transport_reg(struct transport_worker *base, const struct transport_memory *memory,
                       struct transport_region **out) {
  struct cuda_worker *worker = worker_of(base);
  if (memory->kind != WEFT_MEMORY_HOST && memory->kind != WEFT_MEMORY_CUDA)
    return fail(WEFT_ERR_UNSUPPORTED, "the transport cuda registers memory of hosts and GPUs, not files or objects");
  if (!memory->address || memory->length == 0)
    return fail(WEFT_ERR_INVALID, "the transport cuda cannot register %llu bytes at %p",
                (unsigned long long)memory->length, memory->address);
  struct cuda_region *region = calloc(1, sizeof *region);
  if (!region)
    return fail(WEFT_ERR_NOMEM, "no memory for a region");
  region->base = (struct transport_region){.worker = base, .memory = *memory};
  region->next = worker->regions;
  worker->regions = region;
  int rc = memory->kind == WEFT_MEMORY_HOST ? register_host(worker, region) : register_cuda(worker, region);
  if (rc == 0)
    *out = &region->base;
  else
    cuda_transport_unreg(&region->base);
  return rc;
}

void cuda_transport_unreg(struct transport_region *base) {
  struct cuda_region *region = (struct cuda_region *)base, **link;
  struct cuda_worker *worker = worker_of(base->worker);
  for (link = &worker->regions; *link != region; link = &(*link)->next)
    continue;
  *link = region->next;
  if (region->pinned)
    worker->api->unpin(base->memory.address, base->memory.length);
  if (region->shm)
    worker->shm->transport->unreg(region->shm);
  if (region->granted)
    shm_grant_close(worker->shm, &region->grant);
  free(region);
}

int cuda_transport_pack(struct transport_region *base, void *bytes, size_t *size) {
  struct cuda_region *region = (struct cuda_region *)base;
  struct cuda_worker *worker = worker_of(base->worker);
  struct key key;
  memset(&key, 0, sizeof key); // its padding is sent too
  key.kind = base->memory.kind;
  key.fd = base->memory.kind == WEFT_MEMORY_CUDA ? base->memory.fd : -1;
  key.address = (uintptr_t)base->memory.address;
  key.length = base->memory.length;
  key.read_only = base->memory.read_only;
  key.grant.id = region->grant.id;
  key.grant.gate = region->grant.gate;
  memcpy(&key.share, &region->share, sizeof key.share);
  if (base->memory.kind == WEFT_MEMORY_CUDA && !region->shared)
    return fail(WEFT_ERR_UNSUPPORTED, "%s", region->why_not);
  uint8_t body[TRANSPORT_MAX_KEY];
  size_t inner_size = sizeof body - sizeof key;
  struct shm_seal seal;
  memcpy(body, &key, sizeof key);
  int rc = region->shm ? worker->shm->transport->pack(region->shm, body + sizeof key, &inner_size) : 0;
  size_t body_size = sizeof key + (region->shm ? inner_size : 0);
  if (rc == 0)
    rc = shm_seal_make(worker->shm, key_card.what, body, body_size, &seal);
  if (rc != 0)
    return rc;
  struct wire_writer writer = card_begin(&key_card, bytes, *size);
  wire_put(&writer, body, body_size);
  wire_put(&writer, &seal, sizeof seal);
  return card_end(&key_card, &writer, size);
}

// --- a peer's ---

static int import_cuda(struct cuda_peer *peer, const struct key *key, struct cuda_remote *remote) {
  if (!shm_grant_holds(peer->shm, &key->grant))
    return fail(WEFT_ERR_UNREACHABLE, "that region was deregistered");
  remote->share = key->share;
  // Another process's address must not be used as one of this process. A window is mapped once more in its own process,
  // too: its owner may free it while this agent does not know yet that the region has gone, and a GPU's access to
  // memory that is not mapped ends all work of the process on that GPU.
  if (!shm_peer_is_own(peer->shm) || key->fd >= 0)
    remote->share.process = 0;
  // The descriptor of a window has no path to open it by, so it is duplicated from its owner.
  return key->fd >= 0 ? shm_peer_descriptor(peer->shm, key->fd, &remote->fd) : 0;
}

static int import_host(struct cuda_worker *worker, struct cuda_peer *peer, const void *bytes, size_t size,
                       struct cuda_remote *remote) {
  const struct transport *shm = worker->shm->transport;
  char why[DEVICE_WHY] = "";
  int rc = shm->import(peer->shm, bytes, size, &remote->shm);
  if (rc != 0)
    return rc;
  remote->host = shm->map(remote->shm);
  if (!remote->host)
    return fail(WEFT_ERR_UNREACHABLE, "the peer's host memory is its own allocation, which GPUs here cannot map: want "
                                      "memory of weft_agent_allocate");
  rc = worker->api->pin(remote->host, remote->base.length, why);
  remote->pinned = rc == 0;
  return rc == 0 || rc == WEFT_ERR_EXISTS ? 0 : device_fail(rc, "a peer's host memory for copies by GPUs", why);
}

// Leaves `*reader` at the bytes between the key and the seal, which are shm's key.
static int read_key(const struct cuda_peer *peer, const void *bytes, size_t size, struct key *key,
                    struct wire_reader *reader) {
  struct shm_seal seal;
  int rc = card_read(&key_card, bytes, size, reader);
  if (rc != 0)
    return rc;
  if (wire_left(reader) < sizeof *key + sizeof seal)
    return fail(WEFT_ERR_PROTOCOL, "a key of the transport cuda is too short");
  reader->size -= sizeof seal;
  memcpy(&seal, reader->bytes + reader->size, sizeof seal);
  rc = shm_seal_check(peer->shm, key_card.what, reader->bytes, reader->size, &seal);
  if (rc != 0)
    return rc;
  memcpy(key, wire_take(reader, sizeof *key), sizeof *key);
  bool host = key->kind == WEFT_MEMORY_HOST;
  if ((!host && key->kind != WEFT_MEMORY_CUDA) || host != (wire_left(reader) > 0) || key->fd < -1 || key->length == 0 ||
      key->address + key->length < key->address)
    return fail(WEFT_ERR_PROTOCOL, "a key of the transport cuda has a malformed field");
  if (!host && (key->share.address != key->address || key->share.size != key->length))
    return fail(WEFT_ERR_PROTOCOL, "a key of the transport cuda names two different ranges");
  return 0;
}

int cuda_transport_import(struct transport_peer *base, const void *bytes, size_t size, struct transport_remote **out) {
  struct cuda_peer *peer = (struct cuda_peer *)base;
  struct cuda_worker *worker = worker_of(base->worker);
  struct key key;
  struct wire_reader reader;
  int rc = read_key(peer, bytes, size, &key, &reader);
  if (rc != 0)
    return rc;
  struct cuda_remote *remote = calloc(1, sizeof *remote);
  if (!remote)
    return fail(WEFT_ERR_NOMEM, "no memory for a remote region");
  remote->base = (struct transport_remote){
      .peer = base, .kind = (enum weft_memory_kind)key.kind, .address = key.address, .length = key.length};
  remote->fd = -1;
  remote->read_only = key.read_only;
  remote->next = peer->remotes;
  peer->remotes = remote;
  if (key.kind == WEFT_MEMORY_CUDA)
    rc = import_cuda(peer, &key, remote);
  else
    rc = import_host(worker, peer, reader.bytes + reader.at, wire_left(&reader), remote);
  if (rc == 0)
    *out = &remote->base;
  else
    cuda_transport_release(&remote->base);
  return rc;
}

void cuda_transport_release(struct transport_remote *base) {
  struct cuda_remote *remote = (struct cuda_remote *)base, **link;
  struct cuda_peer *peer = (struct cuda_peer *)base->peer;
  struct cuda_worker *worker = worker_of(base->peer->worker);
  for (int i = 0; i < worker->num_devices; i++)
    if (remote->mapped[i])
      worker->api->share_close(worker->devices[i], &remote->share, remote->mapped[i]);
  if (remote->fd >= 0)
    close(remote->fd);
  if (remote->pinned)
    worker->api->unpin(remote->host, remote->base.length);
  if (remote->shm)
    worker->shm->transport->release(remote->shm);
  for (link = &peer->remotes; *link != remote; link = &(*link)->next)
    continue;
  *link = remote->next;
  free(remote);
}

int cuda_remote_on(struct cuda_remote *remote, int index, void **memory) {
  struct cuda_worker *worker = worker_of(remote->base.peer->worker);
  char why[DEVICE_WHY] = "";
  struct device *device;
  if (remote->base.kind == WEFT_MEMORY_HOST) {
    *memory = remote->host;
    return 0;
  }
  int rc = cuda_device_open(worker, index, &device);
  if (rc != 0)
    return rc;
  if (!remote->mapped[index]) {
    rc = worker->api->share_open(device, &remote->share, remote->fd, &remote->mapped[index], why);
    if (rc != 0)
      return device_fail(rc, "the peer's GPU memory", why);
  }
  *memory = remote->mapped[index];
  return 0;
}
