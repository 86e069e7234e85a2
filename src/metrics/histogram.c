// Buckets of times.
#include "metrics/histogram.h"

#include <inttypes.h>

static void add(_Atomic uint64_t *to, uint64_t value) {
  atomic_fetch_add_explicit(to, value, memory_order_relaxed);
}

// The first bucket whose bound is at least `ns`.
static unsigned bucket_of(uint64_t ns) {
  unsigned bits = ns > 1 ? 64 - (unsigned)__builtin_clzll(ns - 1) : 0; // ns <= 2^bits
  return bits > METRICS_FIRST ? bits - METRICS_FIRST : 0;
}

void metrics_histogram_add(struct metrics_histogram *histogram, uint64_t ns) {
  unsigned bucket = bucket_of(ns);
  add(&histogram->nanoseconds, ns);
  if (bucket < METRICS_BUCKETS)
    add(&histogram->buckets[bucket], 1);
  add(&histogram->ended, 1);
}

void metrics_histogram_merge(struct metrics_histogram *to, const struct metrics_histogram *from) {
  add(&to->ended, from->ended);
  add(&to->nanoseconds, from->nanoseconds);
  for (unsigned i = 0; i < METRICS_BUCKETS; i++)
    add(&to->buckets[i], from->buckets[i]);
}

// `count` is the sum of the buckets as they were read, plus the times that are in no bucket.
void metrics_put_histogram(struct text *text, const char *name, const char *labels,
                           const struct metrics_histogram *histogram) {
  const char *comma = *labels ? "," : "", *open = *labels ? "{" : "", *close = *labels ? "}" : "";
  uint64_t ended = histogram->ended, count = 0;
  for (unsigned i = 0; i < METRICS_BUCKETS; i++) {
    count += histogram->buckets[i];
    text_add(text, "%s_bucket{%s%sle=\"%.9g\"} %" PRIu64 "\n", name, labels, comma,
             (double)(UINT64_C(1) << (METRICS_FIRST + i)) / 1e9, count);
  }
  count = ended > count ? ended : count;
  text_add(text, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, count);
  text_add(text, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, count);
  text_add(text, "%s_sum%s%s%s %.9f\n", name, open, labels, close, (double)histogram->nanoseconds / 1e9);
}
