// The oracle's formats, checked by a search over all values, and against the kernels, which implement the same
// definition independently.
#include "base/random.h"
#include "cmocka_all.h"
#include "ep/kernels/kernels.h"
#include "ep/oracle/oracle.h"
#include <math.h>
#include <string.h>

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// Every value of a format comes back, and what lies between two neighbours goes to the nearer one, from the middle to
// the even one. Codes ascend with their values from 0 to `last`.
#define check_neighbours(to_bits, to_value, last)                                                                      \
  for (unsigned code = 0; code < (last); code++) {                                                                     \
    double low = to_value(code), high = to_value(code + 1), middle = (low + high) / 2;                                 \
    unsigned even = code + code % 2;                                                                                   \
    assert_true(low < high);                                                                                           \
    assert_int_equal(to_bits(low), code);                                                                              \
    assert_int_equal(to_bits(middle), even);                                                                           \
    assert_int_equal(to_bits(nextafter(middle, low)), code);                                                           \
    assert_int_equal(to_bits(nextafter(middle, high)), code + 1);                                                      \
    assert_int_equal(to_bits(nextafter(high, low)), code + 1);                                                         \
  }

static void rounds_to_the_nearest_bf16(void **state) {
  (void)state;
  check_neighbours(oracle_to_bf16, oracle_bf16, 0x7F7Fu);
  for (unsigned bits = 0; bits < 0x7F80; bits++)
    assert_int_equal(oracle_to_bf16(-oracle_bf16((uint16_t)bits)), bits | 0x8000);
  assert_int_equal(oracle_to_bf16(INFINITY), 0x7F80);
  assert_int_equal(oracle_to_bf16(-1e300), 0xFF80);
  double largest = oracle_bf16(0x7F7F), limit = 0x1.FFp127; // half a unit above
  assert_int_equal(oracle_to_bf16(nextafter(limit, largest)), 0x7F7F);
  assert_int_equal(oracle_to_bf16(limit), 0x7F80);
  assert_int_equal(oracle_to_bf16(NAN), 0x7FC0);
  assert_true(oracle_bf16(0x3F80) == 1 && oracle_bf16(0xC040) == -3 && isnan(oracle_bf16(0x7FC0)));
}

static void rounds_to_the_nearest_e4m3(void **state) {
  (void)state;
  check_neighbours(oracle_to_e4m3, oracle_e4m3, 0x7Eu);
  for (unsigned bits = 0; bits < 0x7F; bits++)
    assert_int_equal(oracle_to_e4m3(-oracle_e4m3((uint8_t)bits)), bits | 0x80);
  assert_true(oracle_e4m3(0x7E) == 448 && oracle_e4m3(0x38) == 1 && oracle_e4m3(0x01) == 0x1p-9);
  assert_int_equal(oracle_to_e4m3(1e9), 0x7E);
  assert_int_equal(oracle_to_e4m3(-INFINITY), 0xFE);
  assert_int_equal(oracle_to_e4m3(NAN), 0x7F);
  assert_true(isnan(oracle_e4m3(0x7F)) && isnan(oracle_e4m3(0xFF)));
}

static void casts_rows_as_the_kernels_do(void **state) {
  (void)state;
  enum { HIDDEN = 1024 };
  const struct ep_kernels *kernels = ep_kernels_best();
  uint64_t random = 1;
  for (int round = 0; round < 2000; round++) {
    uint16_t x[HIDDEN], back[HIDDEN];
    uint8_t q[HIDDEN], right[HIDDEN];
    float scales[HIDDEN / 128], right_scales[HIDDEN / 128];
    double row[HIDDEN];
    for (int i = 0; i < HIDDEN; i++) { // any bits; or numbers of about the same size
      uint64_t bits = random_next(&random);
      x[i] = (uint16_t)(round % 2 ? bits : (bits & 0x83FF) | 0x3C00);
    }
    bool pow2 = round % 4 < 2;
    kernels->cast_fp8(q, scales, x, HIDDEN, pow2);
    oracle_cast(right, right_scales, x, HIDDEN, pow2 ? WEFT_EP_FP8_POW2 : WEFT_EP_FP8);
    assert_memory_equal(scales, right_scales, sizeof scales);
    assert_memory_equal(q, right, sizeof q);
    kernels->uncast_fp8(back, q, scales, HIDDEN);
    oracle_uncast(row, q, scales, HIDDEN);
    for (int i = 0; i < HIDDEN; i++)
      assert_true(row[i] == oracle_bf16(back[i]) || (isnan(row[i]) && isnan(oracle_bf16(back[i]))));
  }
}

static void knows_scales_by_hand(void **state) {
  (void)state;
  uint16_t x[256] = {0};
  uint8_t q[256];
  float scales[2];
  x[5] = oracle_to_bf16(-896);
  x[6] = oracle_to_bf16(1);
  oracle_cast(q, scales, x, 256, WEFT_EP_FP8);
  assert_true(scales[0] == 2 && q[5] == 0xFE && q[6] == 0x30);
  assert_true(scales[1] == 1e-4f / 448 && q[128] == 0);
  x[5] = oracle_to_bf16(900);
  oracle_cast(q, scales, x, 256, WEFT_EP_FP8_POW2);
  assert_true(scales[0] == 4 && scales[1] == 0x1p-22f);
  x[5] = oracle_to_bf16(896);
  oracle_cast(q, scales, x, 256, WEFT_EP_FP8_POW2);
  assert_true(scales[0] == 2);
}

static void packs_scales_by_hand(void **state) {
  (void)state;
  const float scales[5] = {1, 0x1p-22f, 0x1p120f, 2, 0x1p-126f};
  uint8_t packed[8];
  memset(packed, 0xFF, sizeof packed);
  assert_int_equal(oracle_pack_scales(packed, scales, 5 * 128), 8);
  const uint8_t right[8] = {127, 105, 247, 128, 1};
  assert_memory_equal(packed, right, sizeof right);
}

static void measures_the_difference_as_the_field_does(void **state) {
  (void)state;
  double a[] = {1, 2, 3, -1}, b[] = {1, 2, 5, -1};
  // shifted: 2 3 4 0 and 2 3 6 0
  assert_true(fabs(oracle_calc_diff(a, b, 4) - (1 - 2 * (4.0 + 9 + 24) / (8 + 18 + 16 + 36))) < 1e-15);
  assert_true(oracle_calc_diff(a, a, 4) == 0);
  assert_true(oracle_calc_diff(a, b, 0) == 0);
  b[2] = (double)float_of(0x7FC00000);
  assert_true(isnan(oracle_calc_diff(a, b, 4)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rounds_to_the_nearest_bf16),   cmocka_unit_test(rounds_to_the_nearest_e4m3),
      cmocka_unit_test(casts_rows_as_the_kernels_do), cmocka_unit_test(knows_scales_by_hand),
      cmocka_unit_test(packs_scales_by_hand),         cmocka_unit_test(measures_the_difference_as_the_field_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
