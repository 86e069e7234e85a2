// The memory, files or objects between which the suite moves bytes.
#include "conformance/suite.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conformance/objects.h"
#include "support/temporary.h"

enum { GUARD = 4096, GUARD_BYTE = 0xA5, STEP = 1 << 16 };

// --- memory of a GPU: a window ---

static const struct device_api *api;
static struct device *device;

static bool has_gpu(void) {
  char why[DEVICE_WHY] = "";
  int count = 0;
  if (!device && device_load(&api) == 0 && api->count(&count, why) == 0 && api->open(0, &device, why) != 0)
    device = NULL;
  return device != NULL;
}

#define assert_device_works(call)                                                                                      \
  do {                                                                                                                 \
    char why[DEVICE_WHY] = "";                                                                                         \
    if ((call) != 0)                                                                                                   \
      fail_msg("%s: %s", #call, why);                                                                                  \
  } while (0)

static void open_cuda(struct place *place, struct transport_memory *memory) {
  assert_true(has_gpu());
  assert_device_works(api->window_create(device, place->length, &place->window, &place->fd, why));
  memory->address = place->window.memory;
  memory->fd = place->fd;
}

static void copy_cuda(void *to, const void *from, size_t size) {
  assert_device_works(api->copy(device, to, from, size, NULL, true, why));
}

bool place_can(enum weft_memory_kind kind) {
  return kind == WEFT_MEMORY_HOST || kind == WEFT_MEMORY_FILE || (kind == WEFT_MEMORY_CUDA && has_gpu()) ||
         (kind == WEFT_MEMORY_OBJECT && objects_can());
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

static void open_object(struct place *place, struct transport_memory *memory) {
  assert_true(place_can(WEFT_MEMORY_OBJECT));
  objects_name(place->path, sizeof place->path);
  memory->path = place->path;
}

void place_show(struct place *place, struct end *end, enum weft_memory_kind kind, bool plain, uint64_t length) {
  *place = (struct place){.end = end, .kind = kind, .length = length, .fd = -1};
  struct transport_memory memory = {.kind = place->kind, .length = length, .device = -1, .fd = -1};
  if (place->kind == WEFT_MEMORY_HOST)
    open_host(place, &memory, plain);
  else if (place->kind == WEFT_MEMORY_CUDA)
    open_cuda(place, &memory);
  else if (place->kind == WEFT_MEMORY_FILE)
    open_file(place, &memory);
  else
    open_object(place, &memory);
  assert_works(suite.transport->reg(end->worker, &memory, &place->region));
}

void place_open(struct place *place, struct end *end, struct transport_peer *peer, uint64_t length) {
  place_show(place, end, peer ? suite.kind : suite.local_kind, !peer || suite.plain, length);
  if (!peer)
    return;
  unsigned char key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key;
  assert_works(suite.transport->pack(place->region, key, &size));
  assert_works(suite.transport->import(peer, key, size, &place->remote));
  assert_int_equal(place->remote->length, length);
}

void place_forget(struct place *place) {
  for (uint32_t i = 0; i < place->num_parts; i++)
    place_forget(&place->parts[i]);
  if (place->region && place->end->worker)
    suite.transport->unreg(place->region);
  place->region = NULL;
}

void place_close(struct place *place) {
  for (uint32_t i = 0; i < place->num_parts; i++)
    place_close(&place->parts[i]);
  free(place->parts);
  place->num_parts = 0;
  place_check_guards(place);
  if (place->remote)
    suite.transport->release(place->remote);
  place_forget(place);
  if (place->mapping)
    munmap(place->mapping, place->mapping_size);
  if (place->window.memory)
    api->window_release(device, &place->window);
  if (place->fd >= 0)
    close(place->fd);
  memset(place, 0, sizeof *place);
}

uint64_t place_address(const struct place *place, uint64_t offset) {
  const void *memory = place->kind == WEFT_MEMORY_CUDA ? place->window.memory : place->bytes;
  return (uintptr_t)memory + offset;
}

void place_write(struct place *place, uint64_t offset, const void *bytes, size_t size) {
  if (place->bytes)
    memcpy(place->bytes + offset, bytes, size);
  else if (place->window.memory)
    copy_cuda((char *)place->window.memory + offset, bytes, size);
  else if (place_is_whole(place))
    place_write_object(place, offset, bytes, size);
  else
    assert_int_equal(pwrite(place->fd, bytes, size, (off_t)offset), size);
}

void place_read(struct place *place, uint64_t offset, void *bytes, size_t size) {
  if (place->bytes)
    memcpy(bytes, place->bytes + offset, size);
  else if (place->window.memory)
    copy_cuda(bytes, (const char *)place->window.memory + offset, size);
  else if (place_is_whole(place))
    place_read_object(place, offset, bytes, size);
  else
    assert_int_equal(pread(place->fd, bytes, size, (off_t)offset), size);
}

void pattern_fill(unsigned char *bytes, uint64_t seed, uint64_t position, uint64_t size) {
  uint64_t i = 0;
  for (; i < size && (position + i) % 8 != 0; i++)
    bytes[i] = pattern(seed, position + i);
  for (; i + 8 <= size; i += 8) {
    uint64_t word = htole64(pattern_word(seed, (position + i) / 8));
    memcpy(bytes + i, &word, sizeof word);
  }
  for (; i < size; i++)
    bytes[i] = pattern(seed, position + i);
}

// How much is filled or looked at at once: of objects all, since each time is an exchange with their server.
static size_t step_of(const struct place *place, uint64_t size) {
  return place_is_whole(place) || size < STEP ? (size_t)size : STEP;
}

void place_fill(struct place *place, uint64_t seed) {
  size_t step = step_of(place, place->length);
  unsigned char *bytes = malloc(step + 1);
  assert_non_null(bytes);
  for (uint64_t at = 0; at < place->length; at += step) {
    size_t size = place->length - at < step ? (size_t)(place->length - at) : step;
    pattern_fill(bytes, seed, at, size);
    place_write(place, at, bytes, size);
  }
  free(bytes);
}

void place_check(struct place *place, uint64_t offset, uint64_t size, uint64_t seed, uint64_t seed_offset) {
  size_t step = step_of(place, size);
  unsigned char *bytes = malloc(2 * step + 1), *wanted = bytes + step;
  assert_non_null(bytes);
  for (uint64_t at = 0; at < size; at += step) {
    size_t part = size - at < step ? (size_t)(size - at) : step;
    place_read(place, offset + at, bytes, part);
    pattern_fill(wanted, seed, seed_offset + at, part);
    if (memcmp(bytes, wanted, part) == 0)
      continue;
    for (size_t i = 0; i < part; i++)
      if (bytes[i] != wanted[i])
        fail_msg("byte %llu is %02x, not %02x", (unsigned long long)(offset + at + i), bytes[i], wanted[i]);
  }
  free(bytes);
}

static void check_guard(const struct place *place, const unsigned char *at, const unsigned char *end) {
  for (; at < end; at++)
    if (*at != GUARD_BYTE)
      fail_msg("the byte %td before or after a region of %llu was written", at - place->bytes,
               (unsigned long long)place->length);
}

void place_check_guards(const struct place *place) {
  if (!place->mapping)
    return;
  check_guard(place, place->mapping, place->bytes);
  check_guard(place, place->bytes + place->length, place->mapping + place->mapping_size);
}

void route_open(struct route *route, uint64_t length) {
  pair_open(&route->pair, false);
  place_open(&route->local, route->pair.a, NULL, length);
  place_open(&route->there, route->pair.b, route->pair.to_b, length);
}

void route_open_parts(struct route *route, uint64_t length, uint64_t part) {
  pair_open(&route->pair, false);
  place_open(&route->local, route->pair.a, NULL, length);
  place_open_parts(&route->there, route->pair.b, route->pair.to_b, length, part);
}

void route_close(struct route *route) {
  place_close(&route->there);
  place_close(&route->local);
  pair_close(&route->pair);
}
