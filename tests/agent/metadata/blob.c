// The codec of metadata: encoded metadata is decoded again, its bytes are those of docs/design/agent.md on every
// machine, and nothing else is accepted.
#include "agent/metadata/blob.h"

#include <stdlib.h>

#include "agent/support/describe.h"
#include "base/wire/wire.h"
#include "cmocka_all.h"

static void test_there_and_back(void **state) {
  (void)state;
  size_t size;
  void *blob = describe_write(describe_fixed(), &size);
  struct agent_description *read = NULL;
  assert_int_equal(agent_blob_read(blob, size, NULL, &read), 0);
  free(blob); // the description needs it no more
  assert_true(describe_equal(read, describe_fixed()));
  size_t again_size;
  void *again = describe_write(read, &again_size);
  assert_int_equal(again_size, size);
  free(again);
  free(read);
}

static void test_partial(void **state) {
  (void)state;
  struct agent_description update = *describe_fixed();
  update.complete = update.all_regions = false;
  update.regions++;
  update.num_regions = 1;
  size_t size;
  void *blob = describe_write(&update, &size);
  struct agent_description *read = NULL;
  assert_int_equal(agent_blob_read(blob, size, NULL, &read), 0);
  assert_false(read->complete || read->all_regions);
  assert_null(read->transports[0].address); // an update brings none
  assert_int_equal(read->num_regions, 1);
  assert_int_equal(read->regions[0].id, 3);
  assert_string_equal(read->transports[1].name, "ucx"); // its keys name transports all the same
  free(read);
  free(blob);
}

// A blob of the same content, byte for byte: a machine that writes otherwise, or another format under the same number,
// fails here.
static void test_golden(void **state) {
  (void)state;
  static const uint8_t golden[] = {
#include "agent/metadata/support/golden_blob.h"
  };
  size_t size;
  void *blob = describe_write(describe_fixed(), &size);
  assert_int_equal(size, sizeof golden);
  assert_memory_equal(blob, golden, size);
  free(blob);
}

static void test_truncated(void **state) {
  (void)state;
  size_t size;
  uint8_t *blob = describe_write(describe_fixed(), &size);
  struct agent_description *read = NULL;
  for (size_t less = 0; less < size; less++) {
    uint8_t *part = malloc(less ? less : 1);
    memcpy(part, blob, less);
    assert_int_equal(agent_blob_read(part, less, NULL, &read), WEFT_ERR_PROTOCOL);
    if (less >= AGENT_BLOB_HEAD) { // also with a head that agrees: the parts within are bounded too
      struct wire_writer writer = {.bytes = part, .capacity = less};
      wire_patch_number(&writer, BLOB_AT_SIZE, less, 8);
      describe_seal(part, less);
      assert_int_equal(agent_blob_read(part, less, NULL, &read), WEFT_ERR_PROTOCOL);
    }
    free(part);
  }
  assert_null(read);
  free(blob);
}

static void test_every_bit(void **state) {
  (void)state;
  size_t size;
  uint8_t *blob = describe_write(describe_fixed(), &size);
  struct agent_description *read = NULL;
  for (size_t bit = 0; bit < size * 8; bit++) {
    blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_int_equal(agent_blob_read(blob, size, NULL, &read), WEFT_ERR_PROTOCOL);
    assert_true(*weft_last_error());
    blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  assert_null(read);
  free(blob);
}

// The same with a seal.
static void test_golden_sealed(void **state) {
  (void)state;
  static const uint8_t golden[] = {
#include "agent/metadata/support/golden_sealed.h"
  };
  uint8_t key[SECRET_KEY_SIZE], blob[sizeof golden];
  for (size_t i = 0; i < sizeof key; i++)
    key[i] = (uint8_t)i;
  size_t size = sizeof blob;
  assert_int_equal(agent_blob_write(describe_fixed(), key, blob, &size), 0);
  assert_int_equal(size, sizeof golden);
  assert_memory_equal(blob, golden, size);
  struct agent_description *read = NULL;
  assert_int_equal(agent_blob_read(golden, size, NULL, &read), 0); // who has no key takes it too
  assert_true(describe_equal(read, describe_fixed()));
  free(read);
  uint64_t incarnation = 0; // and that of the fixed one is of its name and key
  assert_int_equal(agent_incarnation(describe_fixed()->name, describe_fixed()->key, &incarnation), 0);
  assert_true(incarnation == describe_fixed()->incarnation);
}

// Every bit again, with a checksum that matches: what is taken then is sound.
static void test_every_bit_sealed(void **state) {
  (void)state;
  size_t size, taken = 0;
  uint8_t *blob = describe_write(describe_fixed(), &size);
  for (size_t bit = 0; bit < size * 8; bit++) {
    struct agent_description *read = NULL;
    blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
    describe_seal(blob, size);
    if (agent_blob_read(blob, size, NULL, &read) == 0) {
      size_t again_size;
      free(describe_write(read, &again_size));
      free(read);
      taken++;
    }
    blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  assert_true(taken > 0);
  free(blob);
}

// A blob of the fixed description in which `size` bytes at `place` are the number `value`, sealed.
static int read_changed(size_t place, uint64_t value, size_t bytes) {
  size_t size;
  uint8_t *blob = describe_write(describe_fixed(), &size);
  struct wire_writer writer = {.bytes = blob, .capacity = size};
  wire_patch_number(&writer, place, value, bytes);
  describe_seal(blob, size);
  struct agent_description *read = NULL;
  int err = agent_blob_read(blob, size, NULL, &read);
  free(read);
  free(blob);
  return err;
}

static void test_versions(void **state) {
  (void)state;
  assert_int_equal(read_changed(8, BLOB_VERSION + 1, 2), 0); // newer, and readable for this one
  assert_int_equal(read_changed(10, BLOB_VERSION + 1, 2), WEFT_ERR_VERSION);
  assert_non_null(strstr(weft_last_error(), "same version"));
  assert_int_equal(read_changed(10, 0xFFFF, 2), WEFT_ERR_VERSION);
  assert_int_equal(read_changed(8, BLOB_OLDEST - 1, 2), WEFT_ERR_VERSION); // without keys and seals
  assert_int_equal(read_changed(0, 'w', 1), WEFT_ERR_PROTOCOL);
}

// What a newer version may add, this one passes over: a section behind its own, and bytes at the end of one.
static void test_newer_parts(void **state) {
  (void)state;
  size_t size;
  uint8_t *blob = describe_write(describe_fixed(), &size), longer[4096];
  memcpy(longer, blob, size);
  struct wire_writer writer = {.bytes = longer, .capacity = sizeof longer, .at = size};
  wire_put_number(&writer, 77, 2);
  wire_put_number(&writer, 0, 2);
  wire_put_number(&writer, 5, 4);
  wire_put(&writer, "later", 5);
  wire_patch_number(&writer, BLOB_AT_SIZE, writer.at, 8);
  describe_seal(longer, writer.at);
  struct agent_description *read = NULL;
  assert_int_equal(agent_blob_read(longer, writer.at, NULL, &read), 0);
  assert_true(describe_equal(read, describe_fixed()));
  free(read);
  read = NULL;
  wire_patch_number(&writer, size, BLOB_REGIONS, 2); // a second one of the same number
  describe_seal(longer, writer.at);
  assert_int_equal(agent_blob_read(longer, writer.at, NULL, &read), WEFT_ERR_PROTOCOL);
  assert_null(read);
  free(blob);
}

static void test_big_endian(void **state) {
  (void)state;
  size_t size;
  uint8_t *blob = describe_write(describe_fixed(), &size);
  uint64_t swapped = __builtin_bswap64(size);
  struct wire_writer writer = {.bytes = blob, .capacity = size};
  wire_patch_number(&writer, BLOB_AT_SIZE, swapped, 8);
  struct agent_description *read = NULL;
  assert_int_equal(agent_blob_read(blob, size, NULL, &read), WEFT_ERR_PROTOCOL);
  assert_non_null(strstr(weft_last_error(), "big-endian"));
  assert_null(read);
  free(blob);
}

static size_t place_of(const void *blob, size_t size, const void *what, size_t what_size) {
  const uint8_t *found = memmem(blob, size, what, what_size);
  assert_non_null(found);
  return (size_t)(found - (const uint8_t *)blob);
}

// Counts and lengths that promise more than there is. None is allocated for.
static void test_hostile_counts(void **state) {
  (void)state;
  size_t size;
  uint8_t *blob = describe_write(describe_fixed(), &size);
  size_t shm = place_of(blob, size, "\3\0shm", 5), name = place_of(blob, size, "\x9\0decoder/7", 11);
  size_t first = place_of(blob, size, "\0\x50\x34\x12\0\x7F", 6) - 8 - 4; // the first region's length
  size_t keys = first + 4 + 32;
  free(blob);
  static const uint64_t counts[] = {0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0, AGENT_MAX_REGIONS + 1, 1000};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    assert_int_equal(read_changed(shm - 4, counts[i], 4), WEFT_ERR_PROTOCOL);   // transports
    assert_int_equal(read_changed(shm + 5, counts[i], 4), WEFT_ERR_PROTOCOL);   // an address
    assert_int_equal(read_changed(first - 4, counts[i], 4), WEFT_ERR_PROTOCOL); // regions
    assert_int_equal(read_changed(first, counts[i], 4), WEFT_ERR_PROTOCOL);     // a region's length
    assert_int_equal(read_changed(first - 8, counts[i], 4), WEFT_ERR_PROTOCOL); // the section's length
    assert_int_equal(read_changed(keys + 4, counts[i], 4), WEFT_ERR_PROTOCOL);  // a key's length
  }
  assert_int_equal(read_changed(keys, 0xFFFF, 2), WEFT_ERR_PROTOCOL); // keys of a region
  assert_int_equal(read_changed(keys, 3, 2), WEFT_ERR_PROTOCOL);
  assert_int_equal(read_changed(keys + 2, 2, 2), WEFT_ERR_PROTOCOL); // a key of no transport
  assert_int_equal(read_changed(keys + 2, 1, 2), WEFT_ERR_PROTOCOL); // two keys of one transport
  assert_int_equal(read_changed(name, 0xFFFF, 2), WEFT_ERR_PROTOCOL);
  assert_int_equal(read_changed(name, 0, 2), WEFT_ERR_PROTOCOL);
  assert_int_equal(read_changed(name + 2, 0x0A, 1), WEFT_ERR_PROTOCOL);                   // a line end in a name
  assert_int_equal(read_changed(first + 4, 0, 8), WEFT_ERR_PROTOCOL);                     // region 0
  assert_int_equal(read_changed(first + 4, 9, 8), WEFT_ERR_PROTOCOL);                     // not ascending
  assert_int_equal(read_changed(first + 12, UINT64_MAX, 8), WEFT_ERR_PROTOCOL);           // past all addresses
  assert_int_equal(read_changed(first + 32, TRANSPORT_KINDS, 2), WEFT_ERR_PROTOCOL);      // of no kind
  assert_int_equal(read_changed(AGENT_BLOB_HEAD + 12, 0, 8), WEFT_ERR_PROTOCOL);          // no incarnation
  assert_int_equal(read_changed(AGENT_BLOB_HEAD + 12, UINT64_MAX, 8), WEFT_ERR_PROTOCOL); // WEFT_PEER_SELF
}

static void test_arguments(void **state) {
  (void)state;
  struct agent_description *read = NULL;
  assert_int_equal(agent_blob_read(NULL, 10, NULL, &read), WEFT_ERR_INVALID);
  assert_int_equal(agent_blob_read("x", 1, NULL, NULL), WEFT_ERR_INVALID);
  uint8_t small[64];
  memset(small, 0xAA, sizeof small);
  size_t size = 40;
  assert_int_equal(agent_blob_write(describe_fixed(), NULL, small, &size), WEFT_ERR_ROOM);
  assert_true(size > 40 && small[40] == 0xAA);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_there_and_back),   cmocka_unit_test(test_partial),
      cmocka_unit_test(test_golden),           cmocka_unit_test(test_golden_sealed),
      cmocka_unit_test(test_truncated),        cmocka_unit_test(test_every_bit),
      cmocka_unit_test(test_every_bit_sealed), cmocka_unit_test(test_versions),
      cmocka_unit_test(test_newer_parts),      cmocka_unit_test(test_big_endian),
      cmocka_unit_test(test_hostile_counts),   cmocka_unit_test(test_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
