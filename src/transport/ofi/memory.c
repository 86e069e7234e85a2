// Registered memory of the transport ofi, and the keys of it.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/wire/card.h"
#include "transport/ofi/ofi.h"

static const struct card key_card = {"key of ofi", 0x6b666f31, 2};

// A key gives a peer access, so no key may be guessed from another: each key that this transport chooses is random,
// with as many bits as the provider has. If the provider chooses (FI_MR_PROV_KEY), the key is that of the device: for
// RDMA, 32 bits that belong to the protection domain, of which the driver makes a part random. There the connection, a
// queue pair for each peer, keeps strangers out.
static uint64_t random_key(const struct ofi_worker *worker) {
  size_t size = worker->info->domain_attr->mr_key_size;
  uint64_t mask = size < 8 ? (UINT64_C(1) << 8 * size) - 1 : UINT64_MAX;
  uint64_t key = random_id() & mask;
  return key == FI_KEY_NOTAVAIL ? key - 1 : key;
}

static int register_any(struct ofi_worker *worker, struct fi_mr_attr *attr, struct fid_mr **mr) {
  enum { TRIES = 8 }; // short keys may be taken
  int rc = -FI_ENOKEY;
  for (int i = 0; i < TRIES && (rc == -FI_ENOKEY || rc == -FI_EKEYREJECTED); i++) {
    attr->requested_key = random_key(worker);
    rc = fi_mr_regattr(worker->domain, attr, 0, mr);
  }
  return rc;
}

int ofi_register(struct ofi_worker *worker, const struct transport_memory *memory, uint64_t access,
                 struct fid_mr **made) {
  struct iovec part = {.iov_base = memory->address, .iov_len = memory->length};
  struct fi_mr_attr attr = {
      .mr_iov = &part,
      .iov_count = 1,
      .access = access,
      .iface = memory->kind == WEFT_MEMORY_CUDA ? FI_HMEM_CUDA : FI_HMEM_SYSTEM,
  };
  if (memory->kind == WEFT_MEMORY_CUDA)
    attr.device.cuda = memory->device;
  struct fid_mr *mr;
  int rc = register_any(worker, &attr, &mr);
  if (rc != 0)
    return ofi_fail(rc, "libfabric cannot register %" PRIu64 " bytes at %p%s", memory->length, memory->address,
                    memory->kind == WEFT_MEMORY_CUDA ? " of CUDA memory (was it built with CUDA?)" : "");
  if (worker->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
    rc = fi_mr_bind(mr, &worker->home->fid, 0);
    if (rc == 0)
      rc = fi_mr_enable(mr);
    if (rc != 0) {
      fi_close(&mr->fid);
      return ofi_fail(rc, "libfabric cannot bind a region to its endpoint");
    }
  }
  *made = mr;
  return 0;
}

int ofi_reg(struct transport_worker *base, const struct transport_memory *memory, struct transport_region **made) {
  struct ofi_worker *worker = (struct ofi_worker *)base;
  if (!(base->abilities.local_kinds >> memory->kind & 1))
    return fail(WEFT_ERR_UNSUPPORTED, "%s",
                memory->kind == WEFT_MEMORY_CUDA ? base->lacks : "ofi moves host and CUDA memory only");
  if (memory->length == 0 || !memory->address)
    return fail(WEFT_ERR_INVALID, "a region has an address and at least one byte");
  struct ofi_region *region = calloc(1, sizeof *region);
  if (!region)
    return fail(WEFT_ERR_NOMEM, "no memory for a region");
  uint64_t access = FI_WRITE | FI_REMOTE_READ | (memory->read_only ? 0 : FI_READ | FI_REMOTE_WRITE);
  int rc = ofi_register(worker, memory, access, &region->mr);
  if (rc != 0) {
    free(region);
    return rc;
  }
  flow_region_init(&region->flow, &worker->flow, memory);
  *made = &region->flow.base;
  return 0;
}

void ofi_unreg(struct transport_region *base) {
  struct ofi_region *region = (struct ofi_region *)base;
  fi_close(&region->mr->fid);
  link_remove(&region->flow.regions);
  free(region);
}

int ofi_pack(struct transport_region *base, void *bytes, size_t *size) {
  struct ofi_region *region = (struct ofi_region *)base;
  struct ofi_worker *worker = (struct ofi_worker *)base->worker;
  uint64_t address = (uintptr_t)base->memory.address;
  struct wire_writer writer = card_begin(&key_card, bytes, *size);
  wire_put_number(&writer, base->memory.kind, 1);
  wire_put_number(&writer, base->memory.read_only, 1);
  wire_put_number(&writer, address, 8);
  wire_put_number(&writer, base->memory.length, 8);
  wire_put_number(&writer, fi_mr_key(region->mr), 8);
  wire_put_number(&writer, worker->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? address : 0, 8);
  return card_end(&key_card, &writer, size);
}

int ofi_import(struct transport_peer *base, const void *bytes, size_t size, struct transport_remote **made) {
  struct wire_reader reader;
  int rc = card_read(&key_card, bytes, size, &reader);
  if (rc != 0)
    return rc;
  struct ofi_remote found = {.flow.base.kind = (enum weft_memory_kind)wire_take_number(&reader, 1)};
  uint64_t read_only = wire_take_number(&reader, 1);
  found.flow.read_only = read_only;
  found.flow.base.address = wire_take_number(&reader, 8);
  found.flow.base.length = wire_take_number(&reader, 8);
  found.key = wire_take_number(&reader, 8);
  found.base = wire_take_number(&reader, 8);
  if (reader.failed || wire_left(&reader) > 0 || found.flow.base.kind > WEFT_MEMORY_CUDA || read_only > 1)
    return fail(WEFT_ERR_PROTOCOL, "a key of ofi has another format");
  uint64_t address = found.flow.base.address, length = found.flow.base.length;
  if (length == 0 || length - 1 > UINT64_MAX - address)
    return fail(WEFT_ERR_PROTOCOL, "a key of ofi is for %" PRIu64 " bytes, which no memory has there", length);
  if (found.base != 0 && found.base != address) // the provider's address of its first byte
    return fail(WEFT_ERR_PROTOCOL, "a key of ofi is for other bytes than it claims");
  struct ofi_remote *remote = malloc(sizeof *remote);
  if (!remote)
    return fail(WEFT_ERR_NOMEM, "no memory for a remote region");
  *remote = found;
  flow_remote_init(&remote->flow, (struct flow_peer *)base);
  *made = &remote->flow.base;
  return 0;
}

void ofi_free_remote(struct flow_remote *remote) {
  free(remote);
}
