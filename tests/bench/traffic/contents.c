// The bytes of a pattern: each piece has one place, and a wrong byte, piece, pair or round is found.
#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "bench/traffic/contents.h"
#include "cmocka_all.h"

static struct traffic_pair split(uint64_t bytes, uint32_t shards) {
  struct traffic_pair pair = {.from = 1, .to = 2};
  traffic_pair_split(&pair, bytes, shards);
  return pair;
}

// What a transfer does.
static void carry(const struct traffic_pair *pair, const char *from, char *to) {
  for (uint32_t i = 0; i < traffic_pair_pieces(pair); i++) {
    struct traffic_place place = traffic_place(pair, i);
    memcpy(to + place.receiver, from + place.sender, place.bytes);
  }
}

static void each_piece_has_a_place_of_its_own(void **state) {
  (void)state;
  for (uint32_t bytes = 1; bytes < 200; bytes++)
    for (uint32_t shards = 1; shards < 40; shards++) {
      struct traffic_pair pair = split(bytes, shards);
      char sender[200] = {0}, receiver[200] = {0};
      uint64_t end_sender = 0, end_receiver = 0;
      for (uint32_t i = 0; i < traffic_pair_pieces(&pair); i++) {
        struct traffic_place place = traffic_place(&pair, i);
        if (i > 0 && place.sender == end_sender) // neighbours there are no neighbours here
          assert_int_not_equal(place.receiver, end_receiver);
        end_sender = place.sender + place.bytes;
        end_receiver = place.receiver + place.bytes;
        assert_true(end_sender <= bytes && end_receiver <= bytes);
        for (uint64_t j = 0; j < place.bytes; j++) {
          assert_int_equal(sender[place.sender + j]++, 0);
          assert_int_equal(receiver[place.receiver + j]++, 0);
        }
      }
      assert_null(memchr(sender, 0, bytes));
      assert_null(memchr(receiver, 0, bytes));
    }
}

static void a_stream_does_not_depend_on_how_it_is_read(void **state) {
  (void)state;
  char whole[100], part[100];
  traffic_stream_bytes(7, 0, whole, sizeof whole);
  for (size_t at = 0; at < sizeof whole; at++)
    for (size_t size = 1; size < sizeof whole - at; size++) {
      traffic_stream_bytes(7, at, part, size);
      assert_memory_equal(part, whole + at, size);
    }
}

static void assert_wrong(const struct traffic_area *area, const struct traffic_pair *pair, uint64_t stream,
                         const char *says) {
  assert_int_equal(traffic_area_check(area, pair, stream), WEFT_ERR_DATA);
  if (!strstr(weft_last_error(), says))
    fail_msg("\"%s\" instead of \"%s\"", weft_last_error(), says);
}

static void a_spoilt_byte_is_found(void **state) {
  (void)state;
  enum { BYTES = (2 << 20) + 12345, SHARDS = 3 };
  struct traffic_pair pair = split(BYTES, SHARDS), other = pair;
  char *sent = malloc(BYTES), *got = calloc(1, BYTES);
  struct traffic_area from = {.address = sent}, to = {.address = got};
  uint64_t stream = traffic_stream(1, 2, 3, &pair);
  assert_true(sent && got);
  assert_int_equal(traffic_area_fill(&from, &pair, stream), 0);
  carry(&pair, sent, got);
  assert_int_equal(traffic_area_check(&to, &pair, stream), 0);
  got[BYTES - 1] ^= 1;
  got[1500000] ^= 0x80;
  assert_wrong(&to, &pair, stream, "2 of the 2109497 bytes that worker 1 sent to worker 2 are wrong");
  got[1500000] ^= 0x80;
  assert_wrong(&to, &pair, stream,
               "1 of the 2109497 bytes that worker 1 sent to worker 2 are wrong, the first of them "
               "at offset 2109496, in piece ");
  got[BYTES - 1] ^= 1;
  assert_int_equal(traffic_area_check(&to, &pair, stream), 0);
  other.to = 3;
  assert_int_equal(traffic_area_check(&to, &pair, traffic_stream(0, 2, 3, &pair)), WEFT_ERR_DATA); // another seed
  assert_int_equal(traffic_area_check(&to, &pair, traffic_stream(1, 1, 3, &pair)), WEFT_ERR_DATA); // round
  assert_int_equal(traffic_area_check(&to, &pair, traffic_stream(1, 2, 0, &pair)), WEFT_ERR_DATA); // pattern
  assert_int_equal(traffic_area_check(&to, &other, traffic_stream(1, 2, 3, &other)), WEFT_ERR_DATA);
  memcpy(got, sent, BYTES); // pieces at the places of the sender
  assert_int_equal(traffic_area_check(&to, &pair, stream), WEFT_ERR_DATA);
  free(sent);
  free(got);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_piece_has_a_place_of_its_own),
      cmocka_unit_test(a_stream_does_not_depend_on_how_it_is_read),
      cmocka_unit_test(a_spoilt_byte_is_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
