// logfmt10: the portable kernels stay within the error bound of the format, which is computed in double precision, and
// every other variant gives the same bits.
#include "device/logfmt10.h"
#include "base/random.h"
#include "cmocka_all.h"
#include "ep/kernels/kernels.h"
#include "support/sanitized.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 128, BLOCKS = 4, ROW = BLOCKS * BLOCK, CODES = BLOCKS * LOGFMT10_CODE_BYTES };

// Of 2,000 rounds, and of the blocks of all values, as many fewer as a sanitizer or valgrind makes each longer.
static int rounds(void) {
  return support_slowed() ? 200 : 2000;
}

static uint32_t values_apart(void) {
  return support_slowed() ? 16 * BLOCKS : BLOCKS;
}

struct coded {
  uint8_t codes[CODES];
  float heads[BLOCKS][2];
  uint16_t out[ROW];
};

static double value_of(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return (double)value;
}

static void code(const struct ep_kernels *kernels, struct coded *coded, const uint16_t *x) {
  memset(coded, 0xA5, sizeof *coded);
  kernels->encode10(coded->codes, coded->heads[0], x, ROW);
  kernels->decode10(coded->out, coded->codes, coded->heads[0], ROW);
}

struct range {
  double most, least; // magnitudes, denormal numbers aside
  bool special;
};

static struct range range_of(const uint16_t *x) {
  struct range range = {0, INFINITY, false};
  for (int i = 0; i < BLOCK; i++) {
    double size = fabs(value_of(x[i]));
    range.special |= !isfinite(size);
    range.most = size > range.most ? size : range.most;
    range.least = size >= 0x1p-126 && size < range.least ? size : range.least;
  }
  return range;
}

// How far what the codes say may be from x: half a step of values, in the worst place.
static double bound_of(const struct range *range, double x) {
  bool cut = range->least < range->most * 0x1p-32;
  double low = cut ? range->most * 0x1p-32 : range->least;
  double ratio = exp2(log2(range->most / low) / LOGFMT10_STEPS), slack = (double)LOGFMT10_SLACK;
  double off = fabs(x) * ((ratio - 1) / (ratio + 1) + slack);
  return fabs(x) < low && low * (0.5 + slack) > off ? low * (0.5 + slack) : off;
}

// What the codes of a block say of value i.
static double meaning_of(const uint8_t *codes, const float *head, int i) {
  int code = codes[i] | (codes[LOGFMT10_BITS + i / 8] >> i % 8 & 1) << 8;
  double size = code == 0 ? 0 : exp2((double)head[0] + (code - 1) * (double)head[1]);
  return codes[LOGFMT10_SIGNS + i / 8] >> i % 8 & 1 ? -size : size;
}

static void check_value(const struct range *range, uint16_t x, uint16_t out, double meaning) {
  double right = value_of(x), is = value_of(out), bound = bound_of(range, right);
  bool end = fabs(right) == range->most || (fabs(right) == range->least && range->least >= range->most * 0x1p-31);
  if (!(fabs(meaning - right) <= bound) || (out ^ x) >> 15)
    fail_msg("%a is coded as %a in a block from %a to %a; the bound is %a", right, meaning, range->least, range->most,
             bound);
  if (!(fabs(is - meaning) <= fabs(meaning) * (0x1p-8 + (double)LOGFMT10_SLACK)) || (end && is != right))
    fail_msg("%a is coded as %a, and comes back as %a in a block from %a to %a", right, meaning, is, range->least,
             range->most);
}

static void check_block(const uint16_t *x, const struct coded *coded, int b) {
  const uint16_t *out = coded->out + b * BLOCK;
  struct range range = range_of(x);
  for (int i = 0; i < BLOCK; i++) {
    bool zero = fabs(value_of(x[i])) < 0x1p-126;
    if (range.special ? out[i] == 0x7FC0 : zero && out[i] == (x[i] & 0x8000))
      continue;
    check_value(&range, x[i], out[i], meaning_of(coded->codes + b * LOGFMT10_CODE_BYTES, coded->heads[b], i));
  }
}

static void check(const uint16_t *x) {
  struct coded right, coded;
  code(ep_kernels_named("portable"), &right, x);
  for (int b = 0; b < BLOCKS; b++)
    check_block(x + b * BLOCK, &right, b);
  for (const struct ep_kernels *const *k = ep_kernels_all(); *k; k++) {
    code(*k, &coded, x);
    for (size_t i = 0; i < sizeof coded; i++)
      if (((uint8_t *)&coded)[i] != ((uint8_t *)&right)[i])
        fail_msg("%s: byte %zu (codes, heads, then values back) is 0x%02x, portable's 0x%02x", (*k)->name, i,
                 ((uint8_t *)&coded)[i], ((uint8_t *)&right)[i]);
  }
}

static void random_rows_come_back_within_the_bound(void **state) {
  (void)state;
  uint64_t random = 7;
  for (int round = 0; round < rounds(); round++) {
    uint16_t x[ROW];
    uint32_t mask = round % 4 == 0 ? 0x7FFF : round % 4 == 1 ? 0x01FF : round % 4 == 2 ? 0x07FF : 0x003F;
    uint16_t base = round % 4 == 0 ? 0 : (uint16_t)(random_next(&random) % 0x7000);
    for (int i = 0; i < ROW; i++) {
      uint64_t bits = random_next(&random);
      uint32_t magnitude = base + ((uint32_t)bits & mask);
      // any finite number; or from about 1 to 16, 65,536 or 1.5 times the lowest
      magnitude = magnitude < 0x7F80 || bits >> 60 == 0 ? magnitude : 0x7F7F;
      x[i] = (uint16_t)(magnitude | (bits >> 16 & 0x8000));
      if ((bits >> 56) % 8 == 0)
        x[i] &= 0x8000;
    }
    check(x);
  }
}

// Blocks of one value, and of it and its neighbour, with both signs: for every value, four at a time.
static void every_value_comes_back_where_there_is_no_other(void **state) {
  (void)state;
  for (uint32_t value = 0; value < 32768; value += values_apart()) {
    uint16_t x[ROW];
    for (uint32_t i = 0; i < ROW; i++)
      x[i] = (uint16_t)(value + i / BLOCK);
    check(x);
    for (uint32_t i = 0; i < ROW; i++)
      x[i] ^= i % 3 == 0 ? 1 : i % 3 == 1 ? 0x8000 : 0;
    check(x);
  }
}

// All magnitudes between 1 and 2^40, of which those below 2^8 are cut.
static void a_block_has_a_range_of_32_powers_of_two(void **state) {
  (void)state;
  for (uint32_t first = 0x3F80; first < 0x3F80 + 40 * 128; first += ROW - BLOCKS) {
    uint16_t x[ROW];
    for (uint32_t i = 0; i < ROW; i++) {
      uint32_t value = first + i / BLOCK * (BLOCK - 1) + i % BLOCK;
      x[i] = (uint16_t)(i % BLOCK == 0 ? 0x3F80 + 40 * 128 : value);
    }
    check(x);
  }
  uint16_t x[ROW] = {0};
  struct coded coded;
  x[0] = 0x3F80 + 40 * 128; // 2^40
  x[1] = 0x3F80 + 7 * 128;  // 2^7: half of the lowest
  x[2] = 0x3F80 + 7 * 128 - 1;
  x[3] = 0xBF80 + 6 * 128;
  code(ep_kernels_named("portable"), &coded, x);
  assert_int_equal(coded.out[0], x[0]);
  assert_int_equal(coded.out[1], 0x3F80 + 8 * 128);
  assert_int_equal(coded.out[2], 0);
  assert_int_equal(coded.out[3], 0x8000);
}

// The format by hand: 1 and 2^17 are 17 / 510 apart.
static void codes_stand_where_the_format_says(void **state) {
  (void)state;
  for (const struct ep_kernels *const *k = ep_kernels_all(); *k; k++) {
    uint16_t x[ROW] = {0};
    struct coded coded;
    x[0] = 0x3F80;             // 1: code 1
    x[9] = 0xBF80 + 17 * 128;  // -2^17: code 511
    x[127] = 0x3F80 + 9 * 128; // 2^9: code 1 + 270
    code(*k, &coded, x);
    uint8_t right[LOGFMT10_CODE_BYTES] = {[0] = 1, [9] = 255, [127] = 15, [129] = 2, [143] = 128, [145] = 2};
    assert_memory_equal(coded.codes, right, sizeof right);
    assert_true(coded.heads[0][0] == 0 && fabsf(coded.heads[0][1] - 17.0f / 510) < 1e-7f);
    assert_memory_equal(coded.out, x, BLOCK * sizeof *x);
  }
}

static void a_block_with_a_value_that_is_no_number_is_none(void **state) {
  (void)state;
  static const uint16_t special[] = {0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x7F81};
  for (size_t s = 0; s < sizeof special / sizeof *special; s++) {
    uint16_t x[ROW];
    struct coded coded;
    for (int i = 0; i < ROW; i++)
      x[i] = (uint16_t)(0x3F80 + i);
    x[BLOCK + 17 * s] = special[s];
    check(x);
    code(ep_kernels_best(), &coded, x);
    for (int i = 0; i < ROW; i++)
      assert_int_equal(coded.out[i] == 0x7FC0, i / BLOCK == 1);
  }
}

// Whatever a peer may write: the same bits from all variants.
static void any_bytes_are_decoded_alike(void **state) {
  (void)state;
  uint64_t random = 8;
  for (int round = 0; round < rounds(); round++) {
    struct coded right, coded;
    for (size_t i = 0; i < sizeof right; i += 4) {
      uint32_t bits = (uint32_t)random_next(&random);
      memcpy((char *)&right + i, &bits, sizeof bits);
    }
    for (int b = 0; b < BLOCKS && round % 2; b++) { // heads as they may be
      right.heads[b][0] = (float)(random_next(&random) % 254) - 126.5f;
      right.heads[b][1] = (float)(random_next(&random) % 1024) / 16384;
    }
    coded = right;
    ep_kernels_named("portable")->decode10(right.out, right.codes, right.heads[0], ROW);
    for (const struct ep_kernels *const *k = ep_kernels_all(); *k; k++) {
      (*k)->decode10(coded.out, coded.codes, coded.heads[0], ROW);
      for (int i = 0; i < ROW; i++)
        if (coded.out[i] != right.out[i])
          fail_msg("%s: low %a, step %a gives 0x%04x, portable 0x%04x", (*k)->name, (double)coded.heads[i / BLOCK][0],
                   (double)coded.heads[i / BLOCK][1], coded.out[i], right.out[i]);
    }
  }
}

// Buffers of the very size, for the sanitizer, aligned to their elements only.
static void stays_within_its_buffers(void **state) {
  (void)state;
  for (const struct ep_kernels *const *k = ep_kernels_all(); *k; k++) {
    uint16_t *x = malloc((BLOCK + 1) * sizeof *x), *out = malloc((BLOCK + 2) * sizeof *out);
    uint8_t *codes = malloc(LOGFMT10_CODE_BYTES + 1);
    float *head = malloc(3 * sizeof *head);
    for (int i = 0; i <= BLOCK; i++)
      x[i] = (uint16_t)(0x3F80 + i);
    out[0] = out[BLOCK + 1] = 0xA5A5;
    codes[0] = 0xA5;
    (*k)->encode10(codes + 1, head + 1, x + 1, BLOCK);
    (*k)->decode10(out + 1, codes + 1, head + 1, BLOCK);
    assert_true(out[0] == 0xA5A5 && out[BLOCK + 1] == 0xA5A5 && codes[0] == 0xA5);
    assert_memory_equal(out + 1, x + 1, sizeof *x);
    free(x);
    free(out);
    free(codes);
    free(head);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_rows_come_back_within_the_bound),
      cmocka_unit_test(every_value_comes_back_where_there_is_no_other),
      cmocka_unit_test(a_block_has_a_range_of_32_powers_of_two),
      cmocka_unit_test(codes_stand_where_the_format_says),
      cmocka_unit_test(a_block_with_a_value_that_is_no_number_is_none),
      cmocka_unit_test(any_bytes_are_decoded_alike),
      cmocka_unit_test(stays_within_its_buffers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
