#include "conformance/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/temporary.h"

enum { GUARD = 4096, GUARD_BYTE = 0xA5 };

bool place_can(enum weft_memory_kind kind) {
  return kind == WEFT_MEMORY_HOST || kind == WEFT_MEMORY_FILE;
}

static void open_host(struct place *place, struct transport_memory *memory, bool plain) {
  place->mapping_size = (size_t)(place->length + 2 * GUARD + 4095) / 4096 * 4096;
  if (!plain) {
    place->fd = memfd_create("weft-place", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(place->fd >= 0);
    assert_int_equal(ftruncate(place->fd, (off_t)place->mapping_size), 0);
    assert_int_equal(fcntl(place->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  }
  place->mapping = mmap(NULL, place->mapping_size, PROT_READ | PROT_WRITE,
                        plain ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, place->fd, 0);
  assert_true(place->mapping != MAP_FAILED);
  memset(place->mapping, GUARD_BYTE, place->mapping_size);
  place->bytes = place->mapping + GUARD;
  memory->address = place->bytes;
  memory->fd = place->fd;
  memory->fd_offset = place->fd >= 0 ? GUARD : 0;
}

static void open_file(struct place *place, struct transport_memory *memory) {
  support_temporary(place->path, sizeof place->path, "weft-place");
  place->fd = mkostemp(place->path, O_CLOEXEC);
  assert_true(place->fd >= 0);
  unlink(place->path);
  assert_int_equal(ftruncate(place->fd, (off_t)place->length), 0);
  memory->fd = place->fd;
  memory->path = place->path;
}

void place_open(struct place *place, struct end *end, struct transport_peer *peer, uint64_t length) {
  *place = (struct place){.end = end, .length = length, .fd = -1};
  place->kind = peer ? suite.kind : WEFT_MEMORY_HOST;
  struct transport_memory memory = {.kind = place->kind, .length = length, .device = -1, .fd = -1};
  if (place->kind == WEFT_MEMORY_HOST)
    open_host(place, &memory, suite.plain || !peer);
  else
    open_file(place, &memory);
  assert_works(suite.transport->reg(end->worker, &memory, &place->region));
  if (!peer)
    return;
  unsigned char key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key;
  assert_works(suite.transport->pack(place->region, key, &size));
  assert_works(suite.transport->import(peer, key, size, &place->remote));
  assert_int_equal(place->remote->length, length);
}

void place_forget(struct place *place) {
  if (place->region && place->end->worker)
    suite.transport->unreg(place->region);
  place->region = NULL;
}

void place_close(struct place *place) {
  place_check_guards(place);
  if (place->remote)
    suite.transport->release(place->remote);
  place_forget(place);
  if (place->mapping)
    munmap(place->mapping, place->mapping_size);
  if (place->fd >= 0)
    close(place->fd);
  memset(place, 0, sizeof *place);
}

uint64_t place_address(const struct place *place, uint64_t offset) {
  return place->bytes ? (uintptr_t)place->bytes + offset : offset;
}

void place_write(struct place *place, uint64_t offset, const void *bytes, size_t size) {
  if (place->bytes)
    memcpy(place->bytes + offset, bytes, size);
  else
    assert_int_equal(pwrite(place->fd, bytes, size, (off_t)offset), size);
}

void place_read(struct place *place, uint64_t offset, void *bytes, size_t size) {
  if (place->bytes)
    memcpy(bytes, place->bytes + offset, size);
  else
    assert_int_equal(pread(place->fd, bytes, size, (off_t)offset), size);
}

void pattern_fill(unsigned char *bytes, uint64_t seed, uint64_t position, uint64_t size) {
  for (uint64_t i = 0; i < size; i++)
    bytes[i] = pattern(seed, position + i);
}

void place_fill(struct place *place, uint64_t seed) {
  unsigned char bytes[4096];
  for (uint64_t at = 0; at < place->length; at += sizeof bytes) {
    size_t size = place->length - at < sizeof bytes ? (size_t)(place->length - at) : sizeof bytes;
    pattern_fill(bytes, seed, at, size);
    place_write(place, at, bytes, size);
  }
}

void place_check(struct place *place, uint64_t offset, uint64_t size, uint64_t seed, uint64_t seed_offset) {
  unsigned char bytes[4096];
  for (uint64_t at = 0; at < size; at += sizeof bytes) {
    size_t part = size - at < sizeof bytes ? (size_t)(size - at) : sizeof bytes;
    place_read(place, offset + at, bytes, part);
    for (size_t i = 0; i < part; i++)
      if (bytes[i] != pattern(seed, seed_offset + at + i))
        fail_msg("byte %llu is %02x, not %02x", (unsigned long long)(offset + at + i), bytes[i],
                 pattern(seed, seed_offset + at + i));
  }
}

void place_check_guards(const struct place *place) {
  if (!place->mapping)
    return;
  const unsigned char *end = place->bytes + place->length;
  for (const unsigned char *at = place->mapping; at < place->mapping + place->mapping_size; at++)
    if ((at < place->bytes || at >= end) && *at != GUARD_BYTE)
      fail_msg("the byte %td before or after a region of %llu was written", at - place->bytes,
               (unsigned long long)place->length);
}
