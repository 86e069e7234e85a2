// Numbers and bytes on the wire: their order, and that nothing is read or written out of bounds.
#include "base/wire/wire.h"
#include "base/wire/card.h"
#include "base/wire/crc32c.h"
#include "cmocka_all.h"
#include <weft/err.h>

static void test_order(void **state) {
  (void)state;
  uint8_t bytes[16] = {0};
  struct wire_writer writer = {.bytes = bytes, .capacity = sizeof bytes};
  wire_put_number(&writer, 0x1234, 2);
  wire_put_number(&writer, 0x89ABCDEF, 4);
  wire_put_number(&writer, 0x0102030405060708, 8);
  wire_patch_number(&writer, 0, 0x4321, 2);
  static const uint8_t want[] = {0x21, 0x43, 0xEF, 0xCD, 0xAB, 0x89, 8, 7, 6, 5, 4, 3, 2, 1};
  assert_int_equal(writer.at, sizeof want);
  assert_memory_equal(bytes, want, sizeof want);
  struct wire_reader reader = {.bytes = bytes, .size = writer.at};
  assert_int_equal(wire_take_number(&reader, 2), 0x4321);
  assert_int_equal(wire_take_number(&reader, 4), 0x89ABCDEF);
  assert_true(wire_take_number(&reader, 8) == 0x0102030405060708);
  assert_int_equal(wire_left(&reader), 0);
  assert_false(reader.failed);
}

static void test_no_room(void **state) {
  (void)state;
  uint8_t bytes[4] = {0};
  struct wire_writer writer = {.bytes = bytes, .capacity = 3};
  wire_put_number(&writer, 0x1111, 2);
  wire_put_number(&writer, 0x2222, 2); // no half of it
  wire_put_number(&writer, 0x33, 1);
  wire_patch_number(&writer, 2, 0x4444, 2);
  assert_int_equal(writer.at, 5);
  static const uint8_t want[4] = {0x11, 0x11};
  assert_memory_equal(bytes, want, sizeof want);
}

static void test_the_end(void **state) {
  (void)state;
  static const uint8_t bytes[3] = {1, 2, 3};
  struct wire_reader reader = {.bytes = bytes, .size = sizeof bytes};
  assert_null(wire_take(&reader, SIZE_MAX));
  assert_true(reader.failed);
  assert_null(wire_take(&reader, 0)); // and it stays so
  assert_int_equal(wire_take_number(&reader, 1), 0);
  reader = (struct wire_reader){.bytes = bytes, .size = sizeof bytes};
  struct wire_reader part = wire_take_part(&reader, 2);
  assert_int_equal(wire_take_number(&part, 1), 1);
  assert_int_equal(wire_take_number(&part, 2), 0); // not into what follows the part
  assert_true(part.failed);
  assert_int_equal(wire_take_number(&reader, 1), 3);
  part = wire_take_part(&reader, 1);
  assert_true(part.failed && reader.failed);
}

static void test_checksum(void **state) {
  (void)state;
  uint8_t bytes[32] = {0};
  assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
  assert_int_equal(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xE3069283);
  assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x8A9136AA); // RFC 3720, B.4
  memset(bytes, 0xFF, sizeof bytes);
  assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x62A8AB43);
  for (int i = 0; i < 32; i++)
    bytes[i] = (uint8_t)i;
  assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x46DD794E);
}

static void test_card(void **state) {
  (void)state;
  static const struct card one = {"test of cards", 0x12345678, 1}, two = {"test of cards", 0x12345678, 2};
  uint8_t bytes[32], wanted[] = {0x78, 0x56, 0x34, 0x12, 1, 0, 0, 0, 3, 0, 0, 0, 'a', 'b', 'c'};
  for (size_t room = 0; room <= sizeof bytes; room++) {
    size_t size = SIZE_MAX;
    struct wire_writer writer = card_begin(&one, bytes, room);
    wire_put(&writer, "abc", 3);
    int rc = card_end(&one, &writer, &size);
    assert_int_equal(rc, room < 19 ? WEFT_ERR_LIMIT : 0);
    assert_true(size == (room < 19 ? SIZE_MAX : 19));
  }
  assert_memory_equal(bytes, wanted, sizeof wanted);
  struct wire_reader body = {0};
  assert_int_equal(card_read(&two, bytes, 19, &body), WEFT_ERR_VERSION);
  assert_int_equal(card_read(&(struct card){"other", 1, 1}, bytes, 19, &body), WEFT_ERR_PROTOCOL);
  for (size_t at = 0; at < 19; at++) {
    assert_int_equal(card_read(&one, bytes, at, &body), WEFT_ERR_PROTOCOL);
    bytes[at] ^= 0x10;
    assert_int_equal(card_read(&one, bytes, 19, &body), WEFT_ERR_PROTOCOL);
    bytes[at] ^= 0x10;
  }
  assert_int_equal(card_read(&one, bytes, 20, &body), WEFT_ERR_PROTOCOL);
  assert_null(body.bytes);
  assert_int_equal(card_read(&one, bytes, 19, &body), 0);
  assert_memory_equal(wire_take(&body, 3), "abc", 3);
  assert_int_equal(wire_left(&body), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_no_room),
                                     cmocka_unit_test(test_the_end), cmocka_unit_test(test_checksum),
                                     cmocka_unit_test(test_card)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
