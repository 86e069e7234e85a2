// Measures how fast the kernels are on one core, in memory that fits the second-level cache: bytes read and written per
// second, and the ratio to memcpy measured in the same round. Usage: bench_kernels [--json] [KERNEL]
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/time/clock.h"
#include "ep/kernels/kernels.h"

enum {
  HIDDEN = 7168,
  ROWS = 8,
  ROUNDS = 200, // the best of so many rounds, or of as many as there is time for
  SECONDS = 2,
  ROUND_BYTES = 16 << 20, // bytes that one round moves, about 1 ms
};

struct buffers {
  uint16_t x[ROWS][HIDDEN];
  uint16_t out[ROWS][HIDDEN];
  uint8_t q[ROWS][HIDDEN];
  float scales[ROWS][HIDDEN / 128];
  uint8_t codes[ROWS][HIDDEN * 10 / 8];
  float heads[ROWS][HIDDEN / 128 * 2];
  float weights[ROWS];
  const uint16_t *rows[ROWS];
};

// One measurement: a kernel on row i of the buffers, and the bytes that it reads and writes.
struct subject {
  const char *name;
  void (*run)(const struct ep_kernels *kernels, struct buffers *b, int i);
  size_t bytes;
};

static void run_memcpy(const struct ep_kernels *kernels, struct buffers *b, int i) {
  (void)kernels;
  memcpy(b->out[i], b->x[i], sizeof b->x[i]);
}

static void run_cast(const struct ep_kernels *kernels, struct buffers *b, int i) {
  kernels->cast_fp8(b->q[i], b->scales[i], b->x[i], HIDDEN, false);
}

static void run_cast_pow2(const struct ep_kernels *kernels, struct buffers *b, int i) {
  kernels->cast_fp8(b->q[i], b->scales[i], b->x[i], HIDDEN, true);
}

static void run_uncast(const struct ep_kernels *kernels, struct buffers *b, int i) {
  kernels->uncast_fp8(b->out[i], b->q[i], b->scales[i], HIDDEN);
}

static void run_encode10(const struct ep_kernels *kernels, struct buffers *b, int i) {
  kernels->encode10(b->codes[i], b->heads[i], b->x[i], HIDDEN);
}

static void run_decode10(const struct ep_kernels *kernels, struct buffers *b, int i) {
  kernels->decode10(b->out[i], b->codes[i], b->heads[i], HIDDEN);
}

static void run_reduce2(const struct ep_kernels *kernels, struct buffers *b, int i) {
  kernels->reduce(b->out[i], b->rows, b->weights, 2, 1.0f, HIDDEN);
}

static void run_reduce8(const struct ep_kernels *kernels, struct buffers *b, int i) {
  kernels->reduce(b->out[i], b->rows, b->weights, 8, 1.0f, HIDDEN);
}

static void run_sum2(const struct ep_kernels *kernels, struct buffers *b, int i) {
  kernels->reduce(b->out[i], b->rows, NULL, 2, 1.0f, HIDDEN);
}

static void run_sum8(const struct ep_kernels *kernels, struct buffers *b, int i) {
  kernels->reduce(b->out[i], b->rows, NULL, 8, 1.0f, HIDDEN);
}

static void run_copy(const struct ep_kernels *kernels, struct buffers *b, int i) {
  kernels->copy(b->out[i], b->x[i], sizeof b->x[i]);
}

static const struct subject memcpy_subject = {"memcpy", run_memcpy, 4 * HIDDEN};
static const struct subject subjects[] = {
    {"cast_fp8", run_cast, 3 * HIDDEN + HIDDEN / 32},
    {"cast_fp8 pow2", run_cast_pow2, 3 * HIDDEN + HIDDEN / 32},
    {"uncast_fp8", run_uncast, 3 * HIDDEN + HIDDEN / 32},
    {"encode10", run_encode10, 2 * HIDDEN + HIDDEN * 10 / 8 + HIDDEN / 16},
    {"decode10", run_decode10, 2 * HIDDEN + HIDDEN * 10 / 8 + HIDDEN / 16},
    {"reduce 2 rows", run_reduce2, 6 * HIDDEN},
    {"reduce 8 rows", run_reduce8, 18 * HIDDEN},
    {"sum 2 rows", run_sum2, 6 * HIDDEN},
    {"sum 8 rows", run_sum8, 18 * HIDDEN},
    {"copy", run_copy, 4 * HIDDEN},
};

// Seconds that one call takes.
static double measure_round(const struct subject *subject, const struct ep_kernels *kernels, struct buffers *b) {
  size_t calls = ROUND_BYTES / subject->bytes;
  uint64_t start = clock_ns();
  for (size_t i = 0; i < calls; i++) {
    subject->run(kernels, b, (int)(i % ROWS));
    __asm__ volatile("" ::: "memory");
  }
  return (double)(clock_ns() - start) * 1e-9 / (double)calls;
}

// The best round, and the best of memcpy among the rounds that took turns with it.
static void measure(const struct subject *subject, const struct ep_kernels *kernels, struct buffers *b, bool json,
                    bool *first) {
  double best = 1e9, copying = 1e9;
  uint64_t end = clock_ns() + (uint64_t)SECONDS * 1000000000;
  for (int round = 0; round < ROUNDS && clock_ns() < end; round++) {
    double seconds = measure_round(subject, kernels, b);
    best = seconds < best ? seconds : best;
    seconds = measure_round(&memcpy_subject, kernels, b);
    copying = seconds < copying ? seconds : copying;
  }
  double rate = (double)subject->bytes / best / 1e9;
  double ratio = rate / ((double)memcpy_subject.bytes / copying / 1e9);
  if (json)
    printf("%s\n  {\"kernel\": \"%s\", \"variant\": \"%s\", \"us_per_row\": %.4f, \"gb_per_s\": %.2f, \"to_memcpy\": "
           "%.3f}",
           *first ? "" : ",", subject->name, kernels->name, best * 1e6, rate, ratio);
  else
    printf("%-14s %-11s %10.3f %10.1f %10.2f\n", subject->name, kernels->name, best * 1e6, rate, ratio);
  *first = false;
}

int main(int argc, char **argv) {
  bool json = argc >= 2 && strcmp(argv[1], "--json") == 0;
  const char *only = argc > 1 + json ? argv[1 + json] : ""; // only kernels whose names begin with this
  if (argc > 2 + json || *only == '-') {
    fprintf(stderr, "usage: bench_kernels [--json] [KERNEL]\n");
    return 2;
  }
  struct buffers *b = aligned_alloc(4096, (sizeof *b + 4095) / 4096 * 4096);
  if (!b) {
    perror("bench_kernels");
    return 3;
  }
  memset(b, 0, sizeof *b);
  uint64_t random = 1;
  for (int r = 0; r < ROWS; r++) {
    b->rows[r] = b->x[r];
    b->weights[r] = 0.125f * (float)(r + 1);
    for (int i = 0; i < HIDDEN; i++)
      b->x[r][i] = (uint16_t)((random_next(&random) & 0x81FF) | 0x3E00);
    // Input for the kernels that convert back.
    ep_kernels_best()->cast_fp8(b->q[r], b->scales[r], b->x[r], HIDDEN, false);
    ep_kernels_best()->encode10(b->codes[r], b->heads[r], b->x[r], HIDDEN);
  }
  if (json)
    printf("{\"hidden\": %d, \"rows\": %d, \"results\": [", HIDDEN, ROWS);
  else
    printf("# rows of %d values, %d rows, one core; bytes read and written, GB = 1e9, best of up to %d rounds\n"
           "%-14s %-11s %10s %10s %10s\n",
           HIDDEN, ROWS, ROUNDS, "kernel", "variant", "us/row", "GB/s", "/memcpy");
  bool first = true;
  for (size_t s = 0; s < sizeof subjects / sizeof *subjects; s++)
    for (const struct ep_kernels *const *k = ep_kernels_all(); *k; k++)
      if (strncmp(subjects[s].name, only, strlen(only)) == 0)
        measure(&subjects[s], *k, b, json, &first);
  if (json)
    printf("\n]}\n");
  free(b);
  return 0;
}
