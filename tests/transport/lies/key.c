// Peers that lie about the memory that was shared.
#include "lies/lies.h"

#include <string.h>

#include "base/wire/wire.h"

static size_t key_of(const struct place *place, unsigned char *key) {
  size_t size = TRANSPORT_MAX_KEY;
  assert_works(suite.transport->pack(place->region, key, &size));
  return size;
}

static int take(void *peer, const void *bytes, size_t size) {
  return lies_import(peer, bytes, size);
}

static void test_each_byte_of_a_key(void **state) {
  (void)state;
  struct lies lies;
  struct place there;
  unsigned char key[TRANSPORT_MAX_KEY];
  lies_open(&lies);
  place_open(&there, lies.pair.b, lies.pair.to_b, LIES_BYTES);
  lies_each_byte(key, key_of(&there, key), take, lies.pair.to_b);
  if (lies.third)
    lies_each_byte(lies.third_key, lies.third_key_size, take, lies.third);
  place_close(&there);
  lies_close(&lies);
}

// The fields of keys that say where the memory is; 0: the transport has none.
struct fields {
  const char *transport;
  size_t address, length, read_only;
};
static const struct fields fields[] = {{"shm", 12 + 16, 12 + 24, 12 + 64}, {"cuda", 12 + 8, 12 + 16, 12 + 24}};

static void put(unsigned char *key, size_t size, size_t at, uint64_t value) {
  struct wire_writer writer = {.bytes = key, .capacity = size, .at = at};
  wire_put_number(&writer, value, 8);
  lies_card(key, size);
}

static const struct fields *find_fields(void) {
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (strcmp(fields[i].transport, suite.name) == 0)
      return &fields[i];
  return NULL;
}

// Moved to other memory of its owner, there and in this process, widened, and so far that it wraps around.
static void test_moved_and_widened_keys(void **state) {
  (void)state;
  const struct fields *at = find_fields();
  NEEDS(at, "its keys name no memory");
  struct lies lies;
  struct place there, canary;
  unsigned char key[TRANSPORT_MAX_KEY], changed[TRANSPORT_MAX_KEY];
  lies_open(&lies);
  place_open(&there, lies.pair.b, lies.pair.to_b, LIES_BYTES);
  place_open(&canary, lies.pair.a, NULL, LIES_BYTES);
  size_t size = key_of(&there, key);
  const uint64_t from = place_address(&there, 0);
  const uint64_t ranges[][2] = {{place_address(&canary, 0), LIES_BYTES},
                                {(uintptr_t)&lies, sizeof lies},
                                {from - 1, LIES_BYTES},
                                {from, LIES_BYTES + 1},
                                {from, UINT64_MAX},
                                {from, 0 - from},
                                {0, UINT64_MAX},
                                {UINT64_MAX, 1}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    memcpy(changed, key, size);
    put(changed, size, at->address, ranges[i][0]);
    put(changed, size, at->length, ranges[i][1]);
    if (lies_import(lies.pair.to_b, changed, size) == 0)
      fail_msg("range %zu was believed", i);
    memcpy(changed, lies.third_key, lies.third_key_size);
    put(changed, lies.third_key_size, at->address, ranges[i][0]);
    put(changed, lies.third_key_size, at->length, ranges[i][1]);
    if (lies_import(lies.third, changed, lies.third_key_size) == 0)
      fail_msg("range %zu of the other process was believed", i);
  }
  place_close(&canary);
  place_close(&there);
  lies_close(&lies);
}

static void test_read_only_stays_so(void **state) {
  (void)state;
  struct lies lies;
  struct place there, local;
  unsigned char key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key;
  struct transport_region *region;
  struct transport_remote *remote;
  lies_open(&lies);
  place_open(&there, lies.pair.b, lies.pair.to_b, LIES_BYTES);
  place_open(&local, lies.pair.a, NULL, LIES_BYTES);
  place_fill(&there, 4);
  struct transport_memory memory = there.region->memory;
  memory.read_only = true;
  assert_works(suite.transport->reg(lies.pair.b->worker, &memory, &region));
  assert_works(suite.transport->pack(region, key, &size));
  assert_works(suite.transport->import(lies.pair.to_b, key, size, &remote));
  struct transport_piece piece = piece_of(&local, 0, &there, 0, LIES_BYTES);
  struct transport_request request;
  piece.remote = remote;
  request_init(&request, lies.pair.to_b, WEFT_TRANSFER_WRITE, &piece, 1);
  assert_true(suite.transport->prepare(&request) < 0);
  assert_true(weft_last_error()[0] != '\0');
  suite.transport->release(remote);
  if (find_fields()) {
    put(key, size, find_fields()->read_only, 0);
    assert_true(lies_import(lies.pair.to_b, key, size) < 0);
  }
  suite.transport->unreg(region);
  place_check(&there, 0, LIES_BYTES, 4, 0);
  place_close(&local);
  place_close(&there);
  lies_close(&lies);
}

// Pieces beyond the region, by sums that wrap around too. Both sides have guard bytes, which place_close() looks at.
static void test_pieces_beyond_what_was_lent(void **state) {
  (void)state;
  struct lies lies;
  struct place there, local;
  lies_open(&lies);
  place_open(&there, lies.pair.b, lies.pair.to_b, LIES_BYTES);
  place_open(&local, lies.pair.a, NULL, LIES_BYTES);
  const uint64_t ranges[][2] = {{1, LIES_BYTES},         {LIES_BYTES, 1}, {(uint64_t)-1, 2}, {0, LIES_BYTES + 1},
                                {(uint64_t)-4096, 4096}, {0, UINT64_MAX}, {1, UINT64_MAX},   {UINT64_MAX / 2, 1 << 20}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    for (int op = 0; op < 2; op++) {
      struct transport_piece piece = piece_of(&local, 0, &there, ranges[i][0], ranges[i][1]);
      struct transport_request request;
      request_init(&request, lies.pair.to_b, op ? WEFT_TRANSFER_WRITE : WEFT_TRANSFER_READ, &piece, 1);
      if (suite.transport->prepare(&request) >= 0)
        fail_msg("range %zu was taken", i);
    }
  place_close(&local);
  place_close(&there);
  lies_close(&lies);
}

// Keys of others: of the victim's own region, of the other process, and of the peer's worker before it was opened anew.
static void test_keys_of_others(void **state) {
  (void)state;
  struct lies lies;
  struct place own, there;
  unsigned char own_key[TRANSPORT_MAX_KEY], old_key[TRANSPORT_MAX_KEY];
  lies_open(&lies);
  place_show(&own, lies.pair.a, suite.kind, suite.plain, LIES_BYTES);
  place_show(&there, lies.pair.b, suite.kind, suite.plain, LIES_BYTES);
  size_t own_size = key_of(&own, own_key), old_size = key_of(&there, old_key);
  if (lies.third) {
    assert_true(lies_import(lies.pair.to_b, own_key, own_size) < 0);
    assert_true(lies_import(lies.pair.to_b, lies.third_key, lies.third_key_size) < 0);
    assert_true(lies_import(lies.third, own_key, own_size) < 0);
    assert_true(lies_import(lies.third, old_key, old_size) < 0);
  }
  const struct transport_memory memory = there.region->memory;
  place_forget(&there);
  place_close(&own);
  suite.transport->disconnect(lies.pair.to_b);
  end_close(lies.pair.b);
  suite.owner = lies.third ? LIES_LIAR : LIES_VICTIM;
  end_open(lies.pair.b);
  lies.pair.to_b = end_connect(lies.pair.a, lies.pair.b);
  assert_works(suite.transport->reg(lies.pair.b->worker, &memory, &there.region));
  assert_true(lies_import(lies.pair.to_b, old_key, old_size) < 0);
  place_close(&there);
  lies.third = NULL;
  lies_close(&lies);
}

static void test_key_of_what_was_taken_back(void **state) {
  (void)state;
  struct lies lies;
  struct place there;
  unsigned char key[TRANSPORT_MAX_KEY];
  lies_open(&lies);
  place_show(&there, lies.pair.b, suite.kind, suite.plain, LIES_BYTES);
  size_t size = key_of(&there, key);
  assert_int_equal(lies_import(lies.pair.to_b, key, size), 0);
  place_forget(&there);
  assert_true(lies_import(lies.pair.to_b, key, size) < 0);
  place_close(&there);
  lies_close(&lies);
}

const struct CMUnitTest lies_key_cases[] = {
    CASE(test_each_byte_of_a_key),          CASE(test_moved_and_widened_keys), CASE(test_read_only_stays_so),
    CASE(test_pieces_beyond_what_was_lent), CASE(test_keys_of_others),         CASE(test_key_of_what_was_taken_back),
};
const size_t num_lies_key_cases = sizeof lies_key_cases / sizeof *lies_key_cases;
