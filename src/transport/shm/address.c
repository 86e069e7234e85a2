// Addresses and keys as bytes: cards, little-endian.
#include "base/card.h"
#include "base/fail.h"
#include "transport/shm/shm.h"

static const struct card address_card = {"address of a worker for shared memory", 0x61534657, SHM_VERSION};
static const struct card key_card = {"key of a region in shared memory", 0x6b534657, SHM_VERSION};

// The fields in their order: X(name, bytes).
#define ADDRESS_FIELDS(X)                                                                                              \
  X(host[0], 8)                                                                                                        \
  X(host[1], 8)                                                                                                        \
  X(pid_space, 8)                                                                                                      \
  X(cookie, 8)                                                                                                         \
  X(page_device, 8) X(page_inode, 8) X(bell_inode, 8) X(pid, 4) X(page_fd, 4) X(bell_fd, 4)
#define KEY_FIELDS(X)                                                                                                  \
  X(cookie, 8)                                                                                                         \
  X(id, 8)                                                                                                             \
  X(address, 8) X(length, 8) X(device, 8) X(inode, 8) X(fd_offset, 8) X(gate, 4) X(fd, 4) X(read_only, 4)

#define PUT(name, size) wire_put_number(&writer, (uint64_t)from->name, size);
#define GET(name, size) to->name = (__typeof__(to->name))wire_take_number(&reader, size);

// Every field was there, and nothing else.
static int whole(const struct wire_reader *reader, const struct card *card) {
  return !reader->failed && wire_left(reader) == 0 ? 0 : fail(WEFT_ERR_PROTOCOL, "the %s has other fields", card->what);
}

int shm_address_pack(const struct shm_address *from, void *bytes, size_t *size) {
  struct wire_writer writer = card_begin(&address_card, bytes, *size);
  ADDRESS_FIELDS(PUT)
  return card_end(&address_card, &writer, size);
}

int shm_address_read(struct shm_address *to, const void *bytes, size_t size) {
  struct wire_reader reader;
  int rc = card_read(&address_card, bytes, size, &reader);
  if (rc != 0)
    return rc;
  ADDRESS_FIELDS(GET)
  return whole(&reader, &address_card);
}

int shm_key_pack(const struct shm_key *from, void *bytes, size_t *size) {
  struct wire_writer writer = card_begin(&key_card, bytes, *size);
  KEY_FIELDS(PUT)
  return card_end(&key_card, &writer, size);
}

int shm_key_read(struct shm_key *to, const void *bytes, size_t size) {
  struct wire_reader reader;
  int rc = card_read(&key_card, bytes, size, &reader);
  if (rc != 0)
    return rc;
  KEY_FIELDS(GET)
  if (to->gate >= SHM_REGIONS || to->address + to->length < to->address)
    return fail(WEFT_ERR_PROTOCOL, "the %s makes no sense", key_card.what);
  return whole(&reader, &key_card);
}
