// Addresses and keys as bytes: cards, little-endian, which end with their seal.
#include "base/fail.h"
#include "base/wire/card.h"
#include "transport/shm/identity/identity.h"

static const struct card address_card = {"address of a worker for shared memory", 0x61534657, SHM_VERSION};
static const struct card key_card = {"key of a region in shared memory", 0x6b534657, SHM_VERSION};

// The fields in their order: X(name, bytes).
#define ADDRESS_FIELDS(X)                                                                                              \
  X(host[0], 8)                                                                                                        \
  X(host[1], 8)                                                                                                        \
  X(pid_space, 8)                                                                                                      \
  X(cookie, 8)                                                                                                         \
  X(proof_inode, 8) X(pid, 4) X(proof_fd, 4)
#define KEY_FIELDS(X)                                                                                                  \
  X(cookie, 8)                                                                                                         \
  X(id, 8)                                                                                                             \
  X(address, 8) X(length, 8) X(device, 8) X(inode, 8) X(fd_offset, 8) X(gate, 4) X(fd, 4) X(read_only, 4)

#define PUT(name, size) wire_put_number(&writer, (uint64_t)from->name, size);
#define GET(name, size) to->name = (__typeof__(to->name))wire_take_number(&reader, size);

// The fields, then their seal.
static int finish(const struct shm_home *home, const char *owner, const struct card *card,
                  const struct wire_writer *fields, void *bytes, size_t *size) {
  struct shm_seal seal;
  int rc = shm_sign(home, card->what, fields->bytes, fields->at, owner, &seal);
  if (rc != 0)
    return rc;
  struct wire_writer writer = card_begin(card, bytes, *size);
  wire_put(&writer, fields->bytes, fields->at);
  wire_put(&writer, &seal, sizeof seal);
  return card_end(card, &writer, size);
}

// Every field and the seal were there, and nothing else. The fields begin where the reader's bytes do.
static int take_seal(struct wire_reader *reader, const struct card *card, struct shm_signed *signature) {
  *signature = (struct shm_signed){.bytes = reader->bytes, .size = reader->at};
  const void *seal = wire_take(reader, sizeof signature->seal);
  if (!seal || wire_left(reader) != 0)
    return fail(WEFT_ERR_PROTOCOL, "the %s has other fields", card->what);
  memcpy(&signature->seal, seal, sizeof signature->seal);
  return 0;
}

int shm_address_pack(const struct shm_home *home, const char *owner, const struct shm_address *from, void *bytes,
                     size_t *size) {
  uint8_t fields[128];
  struct wire_writer writer = {.bytes = fields, .capacity = sizeof fields};
  ADDRESS_FIELDS(PUT)
  return finish(home, owner, &address_card, &writer, bytes, size);
}

int shm_address_read(struct shm_address *to, const void *bytes, size_t size, struct shm_signed *signature) {
  struct wire_reader reader;
  int rc = card_read(&address_card, bytes, size, &reader);
  if (rc != 0)
    return rc;
  ADDRESS_FIELDS(GET)
  if (to->pid == 0 || to->pid > INT32_MAX || to->proof_fd < 0)
    return fail(WEFT_ERR_PROTOCOL, "the %s names no process", address_card.what);
  return take_seal(&reader, &address_card, signature);
}

int shm_address_check(const struct shm_trust *trust, const char *owner, const struct shm_signed *signature) {
  return shm_sign_check(trust, address_card.what, signature->bytes, signature->size, owner, &signature->seal);
}

int shm_key_pack(const struct shm_home *home, const struct shm_key *from, void *bytes, size_t *size) {
  uint8_t fields[128];
  struct wire_writer writer = {.bytes = fields, .capacity = sizeof fields};
  KEY_FIELDS(PUT)
  return finish(home, "", &key_card, &writer, bytes, size);
}

int shm_key_read(struct shm_key *to, const void *bytes, size_t size, struct shm_signed *signature) {
  struct wire_reader reader;
  int rc = card_read(&key_card, bytes, size, &reader);
  if (rc != 0)
    return rc;
  KEY_FIELDS(GET)
  if (to->gate >= SHM_REGIONS || to->address + to->length < to->address || to->fd < -1)
    return fail(WEFT_ERR_PROTOCOL, "the %s is malformed", key_card.what);
  return take_seal(&reader, &key_card, signature);
}

int shm_key_check(const struct shm_trust *trust, const struct shm_signed *signature) {
  return shm_sign_check(trust, key_card.what, signature->bytes, signature->size, "", &signature->seal);
}
