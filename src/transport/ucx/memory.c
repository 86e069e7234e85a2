// Registered memory of the transport ucx, and the keys of it.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/wire/card.h"
#include "transport/ucx/ucx.h"

// Kind, read only, allocated, address, length, own key and its place; then UCX's rkey, where UCX may be reached by it.
static const struct card key_card = {"key of ucx", 0x6b757831, 3};

static int map_memory(struct ucx_worker *worker, struct ucx_region *region) {
  struct transport_memory *memory = &region->flow.base.memory;
  bool allocate = memory->kind == WEFT_MEMORY_HOST && !memory->address;
  ucp_mem_map_params_t params = {
      .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE |
                    (allocate ? UCP_MEM_MAP_PARAM_FIELD_FLAGS : UCP_MEM_MAP_PARAM_FIELD_ADDRESS),
      .address = memory->address,
      .length = memory->length,
      .flags = UCP_MEM_MAP_ALLOCATE,
      .memory_type = ucx_memory_type(memory->kind),
  };
  if (memory->read_only) {
    params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_PROT;
    params.prot = UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_REMOTE_READ;
  }
  if (memory->kind == WEFT_MEMORY_CUDA) {
    int rc = ucx_gpu_reg(worker, region);
    if (rc == 0 && worker->cuda)
      ucx_gpu_map(worker, region, &params);
    if (!region->memory)
      region->flow.max_operation = UCX_SERVED;
    return rc;
  }
  ucs_status_t status = ucp_mem_map(worker->context, &params, &region->memory);
  if (status != UCS_OK)
    return ucx_fail(status, "UCX cannot register %" PRIu64 " bytes at %p", memory->length, memory->address);
  if (!allocate)
    return 0;
  ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
  status = ucp_mem_query(region->memory, &attr);
  if (status != UCS_OK) {
    ucp_mem_unmap(worker->context, region->memory);
    return ucx_fail(status, "UCX does not give the address that it allocated");
  }
  memory->address = attr.address;
  region->allocated = true;
  memset(memory->address, 0, memory->length);
  return 0;
}

static void unmap_memory(struct ucx_worker *worker, struct ucx_region *region) {
  if (region->memory)
    ucp_mem_unmap(worker->context, region->memory);
}

int ucx_reg(struct transport_worker *base, const struct transport_memory *memory, struct transport_region **made) {
  struct ucx_worker *worker = (struct ucx_worker *)base;
  if (!(base->abilities.local_kinds >> memory->kind & 1))
    return fail(WEFT_ERR_UNSUPPORTED, "%s",
                memory->kind == WEFT_MEMORY_CUDA ? base->lacks : "ucx moves host and CUDA memory only");
  if (memory->length == 0)
    return fail(WEFT_ERR_INVALID, "a region has at least one byte");
  struct ucx_region *region = calloc(1, sizeof *region);
  if (!region)
    return fail(WEFT_ERR_NOMEM, "no memory for a region");
  flow_region_init(&region->flow, &worker->flow, memory);
  int rc = map_memory(worker, region);
  if (rc == 0) {
    rc = ucx_serve_region(worker, region);
    if (rc != 0)
      unmap_memory(worker, region);
  }
  if (rc != 0) {
    link_remove(&region->flow.regions);
    free(region);
    return rc;
  }
  *made = &region->flow.base;
  return 0;
}

void ucx_unreg(struct transport_region *base) {
  struct ucx_region *region = (struct ucx_region *)base;
  ucx_serve_forget((struct ucx_worker *)base->worker, region);
  unmap_memory((struct ucx_worker *)base->worker, region);
  link_remove(&region->flow.regions);
  free(region);
}

int ucx_pack(struct transport_region *base, void *bytes, size_t *size) {
  struct ucx_region *region = (struct ucx_region *)base;
  void *rkey = NULL;
  size_t rkey_size = 0;
  ucs_status_t status = UCS_OK;
  if (region->memory && ((struct ucx_worker *)base->worker)->serve != 1)
    status = ucp_rkey_pack(((struct ucx_worker *)base->worker)->context, region->memory, &rkey, &rkey_size);
  if (status != UCS_OK)
    return ucx_fail(status, "UCX gives no key of a region");
  struct wire_writer writer = card_begin(&key_card, bytes, *size);
  wire_put_number(&writer, base->memory.kind, 1);
  wire_put_number(&writer, base->memory.read_only, 1);
  wire_put_number(&writer, region->allocated, 1);
  wire_put_number(&writer, (uintptr_t)base->memory.address, 8);
  wire_put_number(&writer, base->memory.length, 8);
  wire_put_number(&writer, region->key, 8);
  wire_put_number(&writer, region->index, 4);
  wire_put(&writer, rkey, rkey_size);
  if (rkey)
    ucp_rkey_buffer_release(rkey);
  int rc = card_end(&key_card, &writer, size);
  return rc ? fail_context(rc, "choose fewer devices with UCX_NET_DEVICES") : 0;
}

static bool reaches(const struct ucx_peer *peer, bool allocated) {
  int serve = ((const struct ucx_worker *)peer->flow.base.worker)->serve;
  if (peer->own)
    return false;
  return serve >= 0 ? !serve : peer->direct || (peer->near && allocated);
}

static int unpack(struct ucx_peer *peer, bool gpu, const void *bytes, size_t size, ucp_rkey_h *rkey) {
  uint8_t room[TRANSPORT_MAX_KEY + UCX_SLACK] = {0};
  int rc = size > TRANSPORT_MAX_KEY ? fail(WEFT_ERR_PROTOCOL, "a key of ucx is too long") : 0;
  if (rc == 0)
    rc = ucx_rkey_check(bytes, size, gpu);
  if (rc != 0)
    return rc;
  memcpy(room, bytes, size);
  ucs_status_t status = ucp_ep_rkey_unpack(peer->ep, room, rkey);
  return status == UCS_OK ? 0 : ucx_fail(status, "UCX cannot reach that region");
}

int ucx_import(struct transport_peer *base, const void *bytes, size_t size, struct transport_remote **made) {
  struct ucx_peer *peer = (struct ucx_peer *)base;
  struct wire_reader reader;
  int rc = card_read(&key_card, bytes, size, &reader);
  if (rc != 0)
    return rc;
  uint64_t kind = wire_take_number(&reader, 1), read_only = wire_take_number(&reader, 1);
  uint64_t allocated = wire_take_number(&reader, 1);
  uint64_t address = wire_take_number(&reader, 8), length = wire_take_number(&reader, 8);
  uint64_t key = wire_take_number(&reader, 8);
  uint32_t index = (uint32_t)wire_take_number(&reader, 4);
  if (reader.failed || kind > WEFT_MEMORY_CUDA || read_only > 1 || allocated > 1)
    return fail(WEFT_ERR_PROTOCOL, "a key of ucx has another format");
  if (length == 0 || length - 1 > UINT64_MAX - address)
    return fail(WEFT_ERR_PROTOCOL, "a key of ucx is for %" PRIu64 " bytes, which no memory has there", length);
  if (!peer->ep && peer->again_ns == 0)
    return fail(WEFT_ERR_PEER_LOST, "%s", peer->flow.why);
  bool direct = wire_left(&reader) > 0 && reaches(peer, allocated);
  struct ucx_remote *remote = calloc(1, sizeof *remote);
  if (!remote)
    return fail(WEFT_ERR_NOMEM, "no memory for a remote region");
  remote->key = key;
  remote->index = index;
  rc =
      !direct ? 0 : unpack(peer, kind == WEFT_MEMORY_CUDA, reader.bytes + reader.at, wire_left(&reader), &remote->rkey);
  if (rc != 0) {
    free(remote);
    return rc;
  }
  flow_remote_init(&remote->flow, &peer->flow);
  remote->flow.base.kind = (enum weft_memory_kind)kind;
  remote->flow.base.address = address;
  remote->flow.base.length = length;
  remote->flow.base.copies = !direct;
  remote->flow.read_only = read_only;
  if (!direct)
    remote->flow.max_operation = peer->near && kind == WEFT_MEMORY_HOST ? UCX_SERVED_NEAR : UCX_SERVED;
  *made = &remote->flow.base;
  return 0;
}

void ucx_free_remote(struct flow_remote *base) {
  struct ucx_remote *remote = (struct ucx_remote *)base;
  if (remote->rkey)
    ucp_rkey_destroy(remote->rkey);
  free(remote);
}
