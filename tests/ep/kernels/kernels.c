// Every variant of the kernels against the definitions of kernels.h, written once more in double precision.
#include "ep/kernels/kernels.h"
#include "base/random.h"
#include "cmocka_all.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 128, ROW = 1024, MOST_ROWS = 16 };

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static double bf16_value(uint16_t bits) {
  return (double)float_of((uint32_t)bits << 16);
}

// To nearest even, from the exponent and a whole number of units.
static uint16_t bf16_rounded(double value) {
  if (isnan(value))
    return 0x7FC0;
  int exponent;
  frexp(value, &exponent); // |value| in [2^(exponent - 1), 2^exponent)
  int unit = exponent - 8 < -133 ? -133 : exponent - 8;
  double rounded = isinf(value) ? value : ldexp(rint(ldexp(value, -unit)), unit);
  return (uint16_t)(bits_of((float)rounded) >> 16); // exact, or infinite
}

static double e4m3_value(int code) { // of codes 0 to 126
  return code < 8 ? ldexp(code, -9) : ldexp(8 + code % 8, code / 8 - 10);
}

// By search: the code nearest to |value|, the even one of two that are equally near.
static uint8_t e4m3_nearest(double value, bool negative) {
  uint8_t sign = negative ? 0x80 : 0;
  if (isnan(value))
    return sign | 0x7F;
  double magnitude = fabs(value);
  int low = 0, high = 126; // the last code that is not above
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (e4m3_value(middle) <= magnitude)
      low = middle;
    else
      high = middle - 1;
  }
  if (low < 126) {
    double down = magnitude - e4m3_value(low), up = e4m3_value(low + 1) - magnitude;
    low += up < down || (up == down && low % 2 == 1);
  }
  return (uint8_t)(sign | low);
}

static void cast_block(uint8_t *q, float *scale, const uint16_t *x, bool pow2) {
  double amax = (double)1e-4f;
  for (int i = 0; i < BLOCK; i++)
    if (isfinite(bf16_value(x[i])) && fabs(bf16_value(x[i])) > amax)
      amax = fabs(bf16_value(x[i]));
  *scale = (float)(amax / 448.0);
  float inverse = (float)(448.0 / amax);
  if (pow2) {
    int exponent = -140;
    while (ldexp(448.0, exponent) < amax)
      exponent++;
    *scale = (float)ldexp(1.0, exponent);
    inverse = (float)ldexp(1.0, -exponent);
  }
  for (int i = 0; i < BLOCK; i++) // products of two f32 are exact in double
    q[i] = e4m3_nearest((double)(float)(bf16_value(x[i]) * (double)inverse), x[i] >> 15);
}

static void check_cast(const uint16_t *x, uint32_t hidden) {
  for (int pow2 = 0; pow2 < 2; pow2++) {
    uint8_t right[ROW], q[ROW];
    float right_scales[ROW / BLOCK], scales[ROW / BLOCK];
    for (uint32_t b = 0; b < hidden / BLOCK; b++)
      cast_block(right + b * BLOCK, right_scales + b, x + b * BLOCK, pow2);
    for (const struct ep_kernels *const *k = ep_kernels_all(); *k; k++) {
      (*k)->cast_fp8(q, scales, x, hidden, pow2);
      for (uint32_t i = 0; i < hidden; i++)
        if (q[i] != right[i] || bits_of(scales[i / BLOCK]) != bits_of(right_scales[i / BLOCK]))
          fail_msg("%s, pow2 %d: 0x%04x gives code 0x%02x, scale %a; right are 0x%02x, %a", (*k)->name, pow2, x[i],
                   q[i], (double)scales[i / BLOCK], right[i], (double)right_scales[i / BLOCK]);
    }
  }
}

// Each block holds 127 values and one that is the largest; values above that one stand aside.
static void casts_every_bf16_value_as_defined_whatever_the_scale(void **state) {
  (void)state;
  static const uint16_t largest[] = {0x0000, 0x0001, 0x0080, 0x3830, 0x38D1, 0x38D2, 0x3F80, 0x3FC1, 0x3FE0, 0x40FF,
                                     0x4260, 0x43E0, 0x43E1, 0x477F, 0x5A3B, 0x7E60, 0x7EFF, 0x7F60, 0x7F7F, 0xFF7F};
  for (size_t l = 0; l < sizeof largest / sizeof *largest; l++)
    for (uint32_t value = 0; value < 65536;) {
      uint16_t x[ROW];
      for (uint32_t i = 0; i < ROW; i++)
        if (i % BLOCK == i / BLOCK * 17)
          x[i] = largest[l];
        else {
          bool above = (value & 0x7FFF) > (largest[l] & 0x7FFF) && (value & 0x7FFF) < 0x7F80;
          x[i] = above ? 0 : (uint16_t)value;
          value++;
        }
      check_cast(x, ROW);
    }
}

static void casts_millions_of_random_values_as_defined(void **state) {
  (void)state;
  uint64_t random = 1;
  for (int round = 0; round < 6000; round++) {
    uint16_t x[ROW];
    uint32_t hidden = BLOCK * (1 + (uint32_t)(random_next(&random) % (ROW / BLOCK)));
    for (uint32_t i = 0; i < hidden; i++) {
      uint64_t bits = random_next(&random);
      // any bits; or a bell around 1, where the numbers of a model are
      x[i] = round % 2 ? (uint16_t)bits : (uint16_t)((bits & 0x807F) | (0x3F80 - (bits >> 20) % 14 * 128));
    }
    check_cast(x, hidden);
  }
}

static uint16_t uncast_value(uint8_t q, float scale) {
  uint16_t sign = q & 0x80 ? 0x8000 : 0;
  if ((q & 0x7F) == 0x7F)
    return sign | 0x7FC0;
  return sign | bf16_rounded((double)(float)(e4m3_value(q & 0x7F) * (double)scale));
}

static void casts_every_code_back_as_defined_whatever_the_scale(void **state) {
  (void)state;
  uint64_t random = 2;
  for (int round = 0; round < 4000; round++) {
    uint8_t q[2 * BLOCK];
    float scales[2];
    for (int i = 0; i < 2 * BLOCK; i++)
      q[i] = (uint8_t)(i * 37); // every code once
    for (int b = 0; b < 2; b++) {
      uint32_t bits = (uint32_t)random_next(&random) & 0x7FFFFFFF;
      if (round % 4 == 0)
        bits &= 0x7F800000; // a power of two
      scales[b] = float_of(bits < 0x7F800000 ? bits : 0);
    }
    for (const struct ep_kernels *const *k = ep_kernels_all(); *k; k++) {
      uint16_t out[2 * BLOCK];
      (*k)->uncast_fp8(out, q, scales, 2 * BLOCK);
      for (int i = 0; i < 2 * BLOCK; i++)
        if (out[i] != uncast_value(q[i], scales[i / BLOCK]))
          fail_msg("%s: code 0x%02x, scale %a gives 0x%04x; right is 0x%04x", (*k)->name, q[i],
                   (double)scales[i / BLOCK], out[i], uncast_value(q[i], scales[i / BLOCK]));
    }
  }
}

static void packs_scales_and_takes_them_apart_again(void **state) {
  (void)state;
  for (uint32_t blocks = 1; blocks <= 128; blocks++) {
    float scales[128], back[129];
    uint8_t packed[129];
    memset(packed, 0xA5, sizeof packed);
    for (uint32_t b = 0; b < blocks; b++)
      scales[b] = ldexpf(1.0f, (int)b * 2 - 127);
    ep_kernels_pack_scales(packed, scales, blocks * BLOCK);
    for (uint32_t b = 0; b < sizeof packed; b++)
      assert_int_equal(packed[b], b < blocks ? 2 * b : b < (blocks + 3) / 4 * 4 ? 0 : 0xA5);
    back[blocks] = 7;
    ep_kernels_unpack_scales(back, packed, blocks * BLOCK);
    assert_memory_equal(back, scales, blocks * sizeof *scales);
    assert_true(back[blocks] == 7);
  }
  const uint8_t nan[4] = {255};
  float value;
  ep_kernels_unpack_scales(&value, nan, BLOCK);
  assert_true(isnan(value));
}

// Sums of two f32, rounded from double, are those of f32 arithmetic: 53 bits are more than twice 24 and two.
static uint16_t reduced_value(const uint16_t *const *rows, const float *weights, uint32_t count, float factor,
                              uint32_t i) {
  float sum = 0;
  for (uint32_t r = 0; r < count; r++) {
    float product = (float)(bf16_value(rows[r][i]) * (double)(weights ? weights[r] : 1.0f));
    sum = r == 0 ? product : (float)((double)sum + (double)product);
  }
  return count == 0 ? 0 : bf16_rounded((double)(float)((double)factor * (double)sum));
}

static void check_reduce(const uint16_t *const *rows, const float *weights, uint32_t count, float factor,
                         uint32_t hidden) {
  for (const struct ep_kernels *const *k = ep_kernels_all(); *k; k++) {
    uint16_t out[ROW];
    (*k)->reduce(out, rows, weights, count, factor, hidden);
    for (uint32_t i = 0; i < hidden; i++) {
      uint16_t right = reduced_value(rows, weights, count, factor, i);
      if (out[i] != right)
        fail_msg("%s: %u rows, weights %d, factor %a, column %u gives 0x%04x; right is 0x%04x", (*k)->name, count,
                 weights != NULL, (double)factor, i, out[i], right);
    }
  }
}

static uint16_t biased_value(const uint16_t *const *rows, uint32_t count, float factor, const uint16_t *const *biases,
                             uint32_t num_biases, uint32_t i) {
  float sum = 0;
  for (uint32_t r = 0; r < count; r++)
    sum = r == 0 ? (float)bf16_value(rows[r][i]) : (float)((double)sum + bf16_value(rows[r][i]));
  sum = (float)((double)factor * (double)sum);
  for (uint32_t b = 0; b < num_biases; b++)
    sum = count + b == 0 ? (float)bf16_value(biases[b][i]) : (float)((double)sum + bf16_value(biases[b][i]));
  return bf16_rounded((double)sum);
}

static void check_biased(const uint16_t *const *rows, uint32_t count, float factor, const uint16_t *const *biases,
                         uint32_t num_biases, uint32_t hidden) {
  for (const struct ep_kernels *const *k = ep_kernels_all(); *k; k++) {
    uint16_t out[ROW];
    (*k)->reduce_biased(out, rows, count, factor, biases, num_biases, hidden);
    for (uint32_t i = 0; i < hidden; i++) {
      uint16_t right = biased_value(rows, count, factor, biases, num_biases, i);
      if (out[i] != right)
        fail_msg("%s: %u rows, %u biases, factor %a, column %u gives 0x%04x; right is 0x%04x", (*k)->name, count,
                 num_biases, (double)factor, i, out[i], right);
    }
  }
}

static void reduces_random_rows_as_defined(void **state) {
  (void)state;
  uint64_t random = 3;
  static uint16_t values[MOST_ROWS][ROW];
  for (int round = 0; round < 600; round++) {
    const uint16_t *rows[MOST_ROWS];
    float weights[MOST_ROWS];
    uint32_t count = (uint32_t)(random_next(&random) % (MOST_ROWS + 1));
    uint32_t hidden = BLOCK * (1 + (uint32_t)(random_next(&random) % 4));
    for (uint32_t r = 0; r < MOST_ROWS; r++) {
      rows[r] = values[r];
      weights[r] = (float)(random_next(&random) % 65536) / 32768.0f - (round % 5 == 0 ? 1.0f : 0.0f);
      for (uint32_t i = 0; i < hidden; i++) {
        uint64_t bits = random_next(&random);
        values[r][i] = round % 3 == 0 ? (uint16_t)bits : (uint16_t)((bits & 0x83FF) | 0x3C00);
      }
    }
    check_reduce(rows, round % 2 ? weights : NULL, count, round % 4 < 2 ? 1.0f : 1.37f, hidden);
    if (count <= MOST_ROWS - 2)
      check_biased(rows, count, round % 4 < 2 ? 1.0f : 1.37f, rows + MOST_ROWS - 2, 1 + round % 2, hidden);
  }
}

// Pairs of special numbers, in both orders: infinities that cancel, NaNs with payloads, zeros of both signs, overflow,
// ties.
static void reduces_special_numbers_as_defined(void **state) {
  (void)state;
  static const uint16_t special[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x3F80, 0x3F81, 0x3B80, 0xBB80,
                                     0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC0, 0x7F81, 0xFFFF, 0x7B00, 0x4049};
  enum { N = sizeof special / sizeof *special };
  uint16_t first[ROW] = {0}, second[ROW] = {0};
  for (int i = 0; i < N * N; i++) {
    first[i] = special[i / N];
    second[i] = special[i % N];
  }
  static const float weights[][2] = {{1, 1},   {-1, 1},       {0.5f, 0.25f},         {0, 3},
                                     {NAN, 1}, {1, INFINITY}, {0x1p-140f, 0x1p-149f}};
  static const float factors[] = {1, -2, 0, 1.7f, INFINITY, NAN};
  const uint16_t *rows[] = {first, second}, *zeros[] = {(uint16_t[ROW]){0}};
  for (uint32_t count = 0; count <= 2; count++)
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
      check_reduce(rows, NULL, count, factors[f], ROW / 2);
      check_biased(zeros, 1, factors[f], rows, 2, ROW / 2);
      check_biased(rows, count, factors[f], rows, 2, ROW / 2);
      for (size_t w = 0; w < sizeof weights / sizeof *weights; w++)
        check_reduce(rows, weights[w], count, factors[f], ROW / 2);
    }
}

// To any place, aligned for the kernel or not, and of any size.
static void streams_like_copies(const struct ep_kernels *kernels) {
  enum { SIZE = 1024, GUARD = 64 };
  static _Alignas(64) uint8_t to[SIZE + 2 * GUARD];
  uint8_t from[SIZE];
  for (size_t i = 0; i < SIZE; i++)
    from[i] = (uint8_t)(i * 7 + 1);
  for (size_t at = 0; at <= GUARD; at += at < 2 ? 1 : at)
    for (size_t size = 0; size <= SIZE; size += size % 3 ? 61 : 64) {
      memset(to, 0, sizeof to);
      kernels->stream(to + at, from, size);
      ep_kernels_fence();
      assert_memory_equal(to + at, from, size);
      for (size_t i = 0; i < sizeof to; i++)
        if ((i < at || i >= at + size) && to[i] != 0)
          fail_msg("%s: %zu bytes streamed to byte %zu reach byte %zu", kernels->name, size, at, i);
    }
}

// Inputs end where their memory ends, outputs lie between guards, and all are aligned to their elements only.
static void stays_within_its_buffers(void **state) {
  (void)state;
  uint16_t *x = malloc(BLOCK * sizeof *x + 2); // of the exact size, for the sanitizer
  uint8_t *q = malloc(BLOCK), *wide = malloc(2 * BLOCK + 2);
  float scale;
  for (int i = 0; i < BLOCK + 1; i++)
    x[i] = (uint16_t)(0x3F80 + i);
  const uint16_t *rows[] = {x + 1};
  for (const struct ep_kernels *const *k = ep_kernels_all(); *k; k++) {
    (*k)->cast_fp8(q, &scale, x + 1, BLOCK, false);
    memset(wide, 0xA5, 2 * BLOCK + 2);
    uint16_t *out = malloc((BLOCK + 2) * sizeof *out);
    out[0] = out[BLOCK + 1] = 0xA5A5;
    (*k)->uncast_fp8(out + 1, q, &scale, BLOCK);
    assert_true(out[0] == 0xA5A5 && out[BLOCK + 1] == 0xA5A5);
    (*k)->reduce(out + 1, rows, NULL, 1, 1.0f, BLOCK);
    assert_memory_equal(out + 1, x + 1, BLOCK * sizeof *x);
    assert_true(out[0] == 0xA5A5 && out[BLOCK + 1] == 0xA5A5);
    (*k)->copy(wide + 1, x + 1, 2 * BLOCK);
    assert_memory_equal(wide + 1, x + 1, 2 * BLOCK);
    assert_true(wide[0] == 0xA5 && wide[2 * BLOCK + 1] == 0xA5);
    streams_like_copies(*k);
    free(out);
  }
  free(wide);
  free(q);
  free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(casts_every_bf16_value_as_defined_whatever_the_scale),
      cmocka_unit_test(casts_millions_of_random_values_as_defined),
      cmocka_unit_test(casts_every_code_back_as_defined_whatever_the_scale),
      cmocka_unit_test(packs_scales_and_takes_them_apart_again),
      cmocka_unit_test(reduces_random_rows_as_defined),
      cmocka_unit_test(reduces_special_numbers_as_defined),
      cmocka_unit_test(stays_within_its_buffers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
