// fabric_lies TRANSPORT [SETTING...]: the catalogue of forged addresses and keys: a peer's own address under another
// name, noise, truncated data, each bit flipped, a key that is widened, moved, expired, of another incarnation, beyond
// the end of all addresses, or of another region, and a write to read-only memory.
#include "lies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/time/clock.h"

enum {
  LENGTH_AFTER = 8,
  KEY_AFTER = 16,
  NOISES = 3000,
  LEAST_TURNED = 2,
  SERVED_MS = 60000
}; // from where the address stands in a key

// Where the address stands in the body of a key.
static size_t address_at(void) {
  return strcmp(lies_transport->name, "ucx") == 0 ? 3 : 2;
}

// A victim that lent, and a liar that knows the victim's address and key.
struct scene {
  struct side victim, liar;
  struct transport_peer *to_victim;
  struct blob address, key;
};

static void scene_open(struct scene *scene, bool read_only) {
  side_open(&scene->victim, read_only);
  side_open(&scene->liar, false);
  side_address(&scene->victim, &scene->address);
  side_key(scene->victim.lent, &scene->key);
  scene->to_victim = side_connect(&scene->liar, &scene->address);
  lies_check(scene->to_victim != NULL, weft_last_error());
  memset(scene->liar.arena + LENT_AT, LIE, LENT);
}

static void scene_close(struct scene *scene) {
  side_close(&scene->liar);
  side_close(&scene->victim);
}

static int move(struct scene *scene, const struct blob *key, enum weft_transfer_op op, uint64_t address,
                uint64_t length) {
  struct transport_remote *remote;
  if (lies_transport->import(scene->to_victim, key->bytes, key->size, &remote) != 0)
    return WEFT_ERR_PROTOCOL;
  int state = lies_move(&scene->liar, &scene->victim, remote, op, address, length);
  if (!scene->to_victim->failed)
    lies_transport->release(remote);
  return state;
}

// The liar's link may be gone by a lie.
static void connect_again(struct scene *scene) {
  if (!scene->to_victim->failed)
    lies_transport->disconnect(scene->to_victim);
  lies_drive(&scene->liar, &scene->victim, 1000);
  scene->to_victim = side_connect(&scene->liar, &scene->address);
  lies_check(scene->to_victim != NULL, weft_last_error());
}

// Of ofi the address in a key is but a name of the region's first byte: another name is no lie that reaches anything.
static bool names_bytes(void) {
  return strcmp(lies_transport->name, "ucx") == 0;
}

// What the liar is to be refused, both ways. It connects again where it lost its link by it.
static void expect_refused(struct scene *scene, const struct blob *key, uint64_t address, uint64_t length) {
  for (int write = 0; write < 2; write++) {
    int state = move(scene, key, write ? WEFT_TRANSFER_WRITE : WEFT_TRANSFER_READ, address, length);
    lies_check(state < 0 || !names_bytes(), "a lie was believed");
    lies_drive(&scene->liar, &scene->victim, 100);
    side_check(&scene->victim, "a lie wrote to what was not lent");
    for (size_t i = LENT_AT; i < LENT_AT + LENT; i++)
      lies_check(scene->liar.arena[i] != CANARY && scene->liar.arena[i] != SECRET, "a lie read what was not lent");
    if (state < 0 && (scene->to_victim->failed || !names_bytes()))
      connect_again(scene);
  }
}

static void expect_served(struct scene *scene) {
  struct blob key;
  side_key(scene->victim.lent, &key);
  uint64_t address = (uintptr_t)scene->victim.arena + LENT_AT;
  int state = -1;
  memset(scene->liar.arena + LENT_AT, LIE, LENT);
  // What ended the link for a lie may still be on its way.
  for (uint64_t deadline = clock_deadline_ms(SERVED_MS); state != 0 && !clock_passed(deadline);) {
    state = move(scene, &key, WEFT_TRANSFER_WRITE, address, LENT);
    if (state != 0)
      connect_again(scene);
  }
  lies_check(state == 0, "who tells the truth is not served");
  lies_check(scene->victim.arena[LENT_AT] == LIE && scene->victim.arena[LENT_AT + LENT - 1] == LIE,
             "what was written did not come");
}

static void widened(void) {
  struct scene scene;
  scene_open(&scene, false);
  uint64_t address = blob_number(&scene.key, address_at(), 8);
  const uint64_t ranges[][2] = {
      {address, 2 * LENT},  {address - 64, LENT},     {address - LENT, 2 * LENT},
      {address + LENT, 64}, {address + LENT - 8, 64}, {(uintptr_t)scene.victim.arena + OTHER_AT, 64},
      {0, UINT64_MAX},      {UINT64_MAX - 15, 16},    {UINT64_MAX - 15, LENT}};
  expect_served(&scene);
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    struct blob key = scene.key;
    lies_step(i);
    blob_set(&key, address_at(), ranges[i][0], 8);
    blob_set(&key, address_at() + LENGTH_AFTER, ranges[i][1], 8);
    uint64_t last = ranges[i][0] + (ranges[i][1] < LENT ? ranges[i][1] : LENT) - 16;
    expect_refused(&scene, &key, i == 0 ? address + LENT : i == 6 ? address + LENT : i < 3 ? ranges[i][0] : last, 16);
  }
  expect_served(&scene);
  scene_close(&scene);
}

// Keys near the one that was lent must not be those of other regions.
static void another_region(void) {
  struct scene scene;
  scene_open(&scene, false);
  uint64_t own = blob_number(&scene.key, address_at() + KEY_AFTER, 8);
  uint64_t other = (uintptr_t)scene.victim.arena + OTHER_AT;
  for (int64_t i = -8; i <= 8; i++) {
    struct blob key;
    side_key(scene.victim.other, &key); // it knows where it lies
    lies_step((uint64_t)(i + 8));
    blob_set(&key, address_at() + KEY_AFTER, own + (uint64_t)i, 8);
    expect_refused(&scene, &key, other, 64);
  }
  expect_served(&scene);
  scene_close(&scene);
}

static void read_only(void) {
  struct scene scene;
  scene_open(&scene, true);
  struct blob key = scene.key;
  uint64_t address = blob_number(&key, address_at(), 8);
  blob_set(&key, 1, 0, 1); // it is said to be for writing
  lies_check(move(&scene, &key, WEFT_TRANSFER_WRITE, address, 64) < 0, "a region for reading only was written");
  for (size_t i = 0; i < ARENA; i++)
    lies_check(scene.victim.arena[i] != LIE, "a region for reading only was changed");
  side_check(&scene.victim, "something else was changed");
  scene_close(&scene);
}

static void expired(void) {
  struct scene scene;
  scene_open(&scene, false);
  expect_served(&scene);
  lies_transport->unreg(scene.victim.lent);
  struct transport_memory memory = {.address = scene.victim.arena + LENT_AT, .length = LENT, .fd = -1, .device = -1};
  memset(scene.victim.arena + LENT_AT, LOAN, LENT);
  memset(scene.liar.arena + LENT_AT, LIE, LENT);
  expect_refused(&scene, &scene.key, (uintptr_t)memory.address, 64);
  lies_check(lies_transport->reg(scene.victim.worker, &memory, &scene.victim.lent) == 0, weft_last_error());
  lies_step(1); // lent again, by another key
  expect_refused(&scene, &scene.key, (uintptr_t)memory.address, 64);
  lies_check(scene.victim.arena[LENT_AT] == LOAN, "an expired key wrote");
  expect_served(&scene);
  scene_close(&scene);
}

static void another_incarnation(void) {
  struct scene scene;
  struct side successor;
  struct blob key;
  scene_open(&scene, false);
  side_open(&successor, false);
  side_address(&successor, &scene.address);
  scene.to_victim = side_connect(&scene.liar, &scene.address);
  lies_check(scene.to_victim != NULL, weft_last_error());
  key = scene.key; // of the first, for the memory of the second
  blob_set(&key, address_at(), (uintptr_t)successor.arena + LENT_AT, 8);
  struct side first = scene.victim;
  scene.victim = successor;
  expect_refused(&scene, &key, (uintptr_t)successor.arena + LENT_AT, 64);
  expect_served(&scene);
  side_close(&first);
  scene_close(&scene);
}

// The victim is shown its own address as the liar's, with keys for memory of its own: it must not be its own prey.
static void own_address(void) {
  struct scene scene;
  scene_open(&scene, false);
  struct side *victim = &scene.victim;
  struct transport_peer *self = side_connect(victim, &scene.address);
  const uint64_t at[] = {0, LENT_AT + LENT, OTHER_AT, OTHER_AT + LENT};
  memset(victim->arena + LENT_AT, LIE, LENT);
  for (size_t i = 0; self && i < sizeof at / sizeof *at; i++) {
    struct blob key = scene.key;
    struct transport_remote *remote;
    lies_step(i);
    blob_set(&key, address_at(), (uintptr_t)victim->arena + at[i], 8);
    if (lies_transport->import(self, key.bytes, key.size, &remote) != 0)
      continue;
    int state = lies_move(victim, NULL, remote, WEFT_TRANSFER_WRITE, (uintptr_t)victim->arena + at[i], 64);
    lies_check(state < 0 || !names_bytes(), "it wrote to itself");
    side_check(victim, "it changed memory of its own");
    self = self->failed ? side_connect(victim, &scene.address) : self;
  }
  scene_close(&scene);
}

// The liar's address, but that its operations are said to come from where the victim is called. Of ofi.
static void with_anothers_source(struct scene *scene, struct blob *lie) {
  enum { PROVIDER_AT = 20, MOST = 300 };
  unsigned char body[MOST];
  side_address(&scene->liar, lie);
  size_t name = PROVIDER_AT + 1 + blob_number(lie, PROVIDER_AT, 1), size = blob_number(lie, name, 2);
  lies_check(blob_number(&scene->address, name, 2) == size && name + 2 + 2 * size <= MOST, "another form of address");
  memcpy(body, blob_body(lie), name + 2 + size);
  memcpy(body + name + 2 + size, blob_body(&scene->address) + name + 2, size);
  blob_make(lie, &scene->address, body, name + 2 + 2 * size);
}

// A fenced peer must not cause another one to be cut off.
static void anothers_source(void) {
  struct scene scene;
  struct side third;
  struct blob lie;
  struct transport_remote *remote = NULL;
  if (names_bytes())
    return; // ucx names no source
  scene_open(&scene, false);
  side_open(&third, false);
  struct transport_peer *honest = side_connect(&third, &scene.address);
  lies_check(honest && lies_transport->import(honest, scene.key.bytes, scene.key.size, &remote) == 0,
             weft_last_error());
  uint64_t there = (uintptr_t)scene.victim.arena + LENT_AT;
  lies_check(lies_move(&third, &scene.victim, remote, WEFT_TRANSFER_READ, there, 64) == 0, "it does not serve");
  with_anothers_source(&scene, &lie);
  struct transport_peer *liar = side_connect(&third, &lie);
  lies_check(liar != NULL, weft_last_error());
  struct transport_piece piece = {.local = third.lent,
                                  .remote = remote,
                                  .local_address = (uintptr_t)third.arena + LENT_AT,
                                  .remote_address = there,
                                  .length = LENT};
  struct transport_request request = {.peer = honest, .op = WEFT_TRANSFER_READ, .pieces = &piece, .num_pieces = 1};
  lies_check(lies_transport->prepare(&request) == 0 && lies_transport->post(&request) == 0, weft_last_error());
  lies_transport->fence(liar);
  while (atomic_load(&request.state) == TRANSPORT_IN_FLIGHT)
    lies_drive(&third, &scene.victim, 1);
  lies_check(atomic_load(&request.state) == 0 && !honest->failed, "another was cut off by a liar's fence");
  lies_transport->unprepare(&request);
  side_close(&third);
  scene_close(&scene);
}

static void try_address(struct scene *scene, struct side *side, const struct blob *address) {
  struct transport_peer *peer = side_connect(side, address);
  struct transport_remote *remote = NULL;
  if (!peer)
    return;
  if (lies_transport->import(peer, scene->key.bytes, scene->key.size, &remote) == 0)
    lies_transport->release(remote);
  lies_drive(side, &scene->victim, 5);
  lies_transport->disconnect(peer);
  lies_drive(side, &scene->victim, 5);
}

static void noise(void) {
  struct scene scene;
  unsigned char body[300];
  struct blob lie;
  scene_open(&scene, false);
  for (uint64_t i = 0; i < NOISES; i++) {
    size_t size = i % sizeof body;
    lies_step(i);
    random_bytes(body, size);
    if (i % 2 == 0 && size > 10) // what it begins with is right
      memcpy(body, blob_body(&scene.address), i % 4 == 0 ? 10 : blob_body_size(&scene.address) < size ? 18 : 10);
    blob_make(&lie, &scene.address, body, size);
    try_address(&scene, &scene.liar, &lie);
    blob_make(&lie, &scene.key, body, size);
    struct transport_remote *remote;
    if (!scene.to_victim->failed && lies_transport->import(scene.to_victim, lie.bytes, lie.size, &remote) == 0)
      lies_transport->release(remote);
  }
  scene_close(&scene);
}

static void cut_and_turned_addresses(void) {
  struct scene scene;
  struct blob lie;
  scene_open(&scene, false);
  for (size_t size = 0; size < blob_body_size(&scene.address); size++) {
    lies_step(size);
    blob_make(&lie, &scene.address, blob_body(&scene.address), size);
    lies_check(side_connect(&scene.liar, &lie) == NULL, "an address that was cut is taken");
  }
  for (size_t bit = 0; bit < 8 * blob_body_size(&scene.address); bit++) {
    lie = scene.address;
    lies_step(10000 + bit);
    blob_set(&lie, bit / 8, blob_number(&lie, bit / 8, 1) ^ 1u << bit % 8, 1);
    try_address(&scene, &scene.liar, &lie);
  }
  side_check(&scene.victim, "an address changed memory");
  expect_served(&scene);
  scene_close(&scene);
}

static void cut_and_turned_keys(void) {
  struct scene scene;
  struct blob lie;
  scene_open(&scene, false);
  for (size_t size = 0; size < blob_body_size(&scene.key); size++) {
    struct transport_remote *remote;
    lies_step(size);
    blob_make(&lie, &scene.key, blob_body(&scene.key), size);
    if (lies_transport->import(scene.to_victim, lie.bytes, lie.size, &remote) == 0)
      lies_transport->release(remote);
  }
  for (size_t bit = 0; bit < 8 * blob_body_size(&scene.key); bit++) {
    lie = scene.key;
    lies_step(10000 + bit);
    blob_set(&lie, bit / 8, blob_number(&lie, bit / 8, 1) ^ 1u << bit % 8, 1);
    if (bit / 8 < LEAST_TURNED || names_bytes() || bit % 8 == 0)
      move(&scene, &lie, WEFT_TRANSFER_WRITE, blob_number(&lie, address_at(), 8), 64);
    side_check(&scene.victim, "a turned bit of a key wrote to what was not lent");
    if (scene.to_victim->failed)
      connect_again(&scene);
  }
  expect_served(&scene);
  scene_close(&scene);
}

static const struct lies_scenario scenarios[] = {
    {"widened", widened},
    {"another_region", another_region},
    {"read_only", read_only},
    {"expired", expired},
    {"another_incarnation", another_incarnation},
    {"own_address", own_address},
    {"anothers_source", anothers_source},
    {"noise", noise},
    {"cut_and_turned_addresses", cut_and_turned_addresses},
    {"cut_and_turned_keys", cut_and_turned_keys},
};

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s TRANSPORT [SETTING...]\n", argv[0]);
    return 2;
  }
  lies_settings = (const char *const *)argv + 2;
  if (transport_find(argv[1], &lies_transport) != 0) {
    printf("skipped: %s: %s\n", argv[1], weft_last_error());
    return 77;
  }
  return lies_main(argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
