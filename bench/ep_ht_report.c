// The tables of bench_ep_ht.
#include <stdio.h>
#include <string.h>

#include "ep_ht.h"
#include "support/values.h"

struct spread {
  double p10, p50, p90; // us
};

// The times of the slowest rank in each round.
static struct spread spread_of(const struct ht_board *board, uint32_t point, enum ht_measure measure) {
  double slowest[HT_MAX_ROUNDS];
  uint32_t count = board->found[0][point].rounds;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t most = 0;
    for (uint32_t rank = 0; rank < board->setup.ranks; rank++) {
      uint64_t its = board->found[rank][point].ns[measure][i];
      most = its > most ? its : most;
    }
    slowest[i] = (double)most / 1e3;
  }
  if (count == 0)
    return (struct spread){0};
  bench_sort(slowest, count);
  return (struct spread){slowest[count / 10], slowest[count / 2], slowest[count * 9 / 10]};
}

static const char *dtype_of(const struct ht_point *point) {
  return point->dtype == WEFT_EP_BF16 ? "bf16" : point->casts ? "fp8, cast inside" : "fp8";
}

static const char *layout_of(const struct ht_point *point) {
  return point->layout == WEFT_EP_PACKED ? "packed" : "rank-major";
}

static const char *way_of(const struct ht_point *p) {
  static const char *const names[] = {[HT_FRESH] = "fresh", [HT_FILLS] = "fills", [HT_KEPT] = "kept"};
  return names[p->way];
}

// The same point with a fresh dispatch. NULL if there is none before this point.
static const struct ht_point *fresh_of(const struct ht_board *board, uint32_t number, uint32_t *found) {
  const struct ht_point *other = &board->setup.points[number];
  for (uint32_t i = 0; i < number; i++) {
    const struct ht_point *p = &board->setup.points[i];
    if (p->tokens == other->tokens && p->dtype == other->dtype && p->layout == other->layout && p->way == HT_FRESH &&
        p->casts == other->casts && p->processors == other->processors && board->found[0][i].rounds > 0) {
      *found = i;
      return p;
    }
  }
  return NULL;
}

static void report_half(const struct ht_board *board, uint32_t number, int half) {
  const struct ht_setup *s = &board->setup;
  const struct ht_point *p = &s->points[number];
  const struct ht_found *f = &board->found[0][number];
  struct spread own = spread_of(board, number, HT_DISPATCH + half);
  struct spread copy = spread_of(board, number, HT_DISPATCH_COPY + half);
  struct spread all = spread_of(board, number, HT_DISPATCH_ALL + half);
  const char *half_name = half ? "combine" : "dispatch";
  double bytes = (double)f->wire_bytes[half], to_fresh = 0;
  uint32_t fresh;
  if (p->way != HT_FRESH && !half && fresh_of(board, number, &fresh))
    to_fresh = own.p50 / spread_of(board, fresh, HT_DISPATCH).p50;
  if (s->json)
    printf("{\"memory\": \"%s\", \"ranks\": %u, \"tokens\": %u, \"hidden\": %u, \"topk\": %u, \"experts\": %u, "
           "\"dtype\": \"%s\", \"layout\": \"%s\", \"route\": \"%s\", \"processors\": %u, \"operation\": \"%s\", "
           "\"zero_copy\": %s, \"rounds\": %u, \"wire_bytes\": %.0f, \"window_bytes\": %llu, \"us\": [%.1f, %.1f, "
           "%.1f], \"bound_us\": "
           "[%.1f, %.1f, %.1f], \"ratio\": %.3f, \"all_us\": %.1f, \"ratio_all\": %.3f, \"to_fresh\": %.3f, "
           "\"product\": %.3f}\n",
           s->cuda ? "cuda" : "host", s->ranks, p->tokens, s->hidden, s->topk, s->experts, dtype_of(p), layout_of(p),
           way_of(p), p->processors, half_name, ht_zero_copy_bytes(s, p) ? "true" : "false", f->rounds, bytes,
           (unsigned long long)f->window_bytes, own.p10, own.p50, own.p90, copy.p10, copy.p50, copy.p90,
           copy.p50 / own.p50, all.p50, all.p50 / own.p50, to_fresh, f->product);
  else {
    printf("%6u %-16s %-10s %-5s %3u %-8s %9.1f (%8.1f-%8.1f) %6.1f %9.1f %5.2f", p->tokens, dtype_of(p), layout_of(p),
           way_of(p), p->processors, half_name, own.p50, own.p10, own.p90, bytes / own.p50 / 1e3, copy.p50,
           copy.p50 / own.p50);
    if (!s->cuda)
      printf(" %9.1f %5.2f", all.p50, all.p50 / own.p50);
    printf(" %6.1f", (double)f->window_bytes / (1 << 20));
    if (to_fresh > 0)
      printf("  %.2f of fresh", to_fresh);
    if (f->product > 0 && !half)
      printf("  product %.2f", f->product);
    printf("\n");
  }
}

static void report_refused(const struct ht_board *board, uint32_t number, const char *sentence) {
  const struct ht_point *p = &board->setup.points[number];
  char why[HT_WHY];
  snprintf(why, sizeof why, "%s", sentence);
  for (char *quote = strpbrk(why, "\"\\"); quote; quote = strpbrk(quote, "\"\\"))
    *quote = '\''; // a string of JSON must not have these without an escape
  if (board->setup.json)
    printf("{\"memory\": \"%s\", \"tokens\": %u, \"dtype\": \"%s\", \"layout\": \"%s\", \"route\": \"%s\", "
           "\"processors\": %u, \"refused\": \"%s\"}\n",
           board->setup.cuda ? "cuda" : "host", p->tokens, dtype_of(p), layout_of(p), way_of(p), p->processors, why);
  else
    printf("%6u %-16s %-10s %-5s %3u refused: %s\n", p->tokens, dtype_of(p), layout_of(p), way_of(p), p->processors,
           why);
}

static void head(const struct ht_setup *s) {
  printf("hidden %u, top-%u, %u experts per rank, %u ranks. us: medians (p10-p90) of the slowest rank.\n", s->hidden,
         s->topk, s->experts, s->ranks);
  if (s->cuda)
    printf("links: the same bytes by the copy engines, in both directions at once. product: a matrix product on the "
           "other\nprocessors, its time alone against beside the operations.\n\n");
  else
    printf("copy: the bytes that travel, through a window in pieces, in and out, by the fastest of several ways; all: "
           "and this\nrank's own rows, and each row to all of its places. A combine of packed rows "
           "reads all\nrows of a token besides.\n\n");
  printf("%6s %-16s %-10s %-5s %3s %-8s %-29s %6s %9s %5s", "tokens", "dtype", "layout", "route", "SMs", "half",
         "operation us", "GB/s", s->cuda ? "links us" : "copy us", "ratio");
  printf(s->cuda ? " %6s\n" : " %9s %5s %6s\n", s->cuda ? "MiB" : "all us", "ratio", "MiB");
}

static const char *refused_by_any(const struct ht_board *board, uint32_t number) {
  for (uint32_t rank = 1; rank < board->setup.ranks; rank++)
    if (board->found[rank][number].refused[0])
      return board->found[rank][number].refused;
  return board->found[0][number].refused;
}

void ht_report(const struct ht_board *board) {
  if (!board->setup.json)
    head(&board->setup);
  for (uint32_t i = 0; i < board->setup.num_points; i++) {
    const char *why = refused_by_any(board, i);
    if (why[0])
      report_refused(board, i, why);
    for (int half = 0; half < 2 && !why[0] && board->found[0][i].rounds > 0; half++)
      report_half(board, i, half);
  }
}
