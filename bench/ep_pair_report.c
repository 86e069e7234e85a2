// The tables of bench_ep_pair.
#include <stdio.h>

#include "ep_pair.h"
#include "support/values.h"

// Two processors may share a cache or not, and the hypervisor may move a virtual machine from one kind of pair to the
// other during a run. Each round is counted for one of the two.
enum place { NEAR, FAR, PLACES };
static const double far_ns = 90;
enum { FEWEST = 20 }; // rounds that a median needs

static const char *const place_names[] = {"near", "far"};

struct spread {
  double p10, p50, p90; // us
  int rounds;
};

static struct spread spread_of(double *values, int count) {
  bench_sort(values, (size_t)count);
  if (count == 0)
    return (struct spread){0};
  return (struct spread){values[count / 10], values[count / 2], values[count * 9 / 10], count};
}

static bool is_at(const struct board *board, int shape, int round, enum place place) {
  return (board->ping_ns[shape][round] < far_ns) == (place == NEAR);
}

// The times of the slower rank in each round, in us.
static struct spread times_of(const struct board *board, int shape, enum half half, enum measure measure,
                              enum place place) {
  double slower[ROUNDS];
  int count = 0;
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t a = board->ns[shape][half][measure][0][i], b = board->ns[shape][half][measure][1][i];
    if (is_at(board, shape, i, place) && a + b > 0) // 0: not measured in this round
      slower[count++] = (double)(a > b ? a : b) / 1e3;
  }
  return spread_of(slower, count);
}

// The fastest way of copying here.
static struct spread fastest(const struct board *board, int shape, enum half half, enum measure first,
                             enum place place) {
  struct spread best = {0};
  for (enum way way = 0; way < WAYS; way++) {
    struct spread spread = times_of(board, shape, half, first + way, place);
    if (spread.rounds > 0 && (best.rounds == 0 || spread.p50 < best.p50))
      best = spread;
  }
  return best;
}

static void report_half(const struct board *board, int shape, enum half half, enum place place, bool json) {
  struct spread own = times_of(board, shape, half, OPERATION, place);
  struct spread copy = fastest(board, shape, half, COPY, place), write = fastest(board, shape, half, WRITE, place);
  if (own.rounds < FEWEST)
    return;
  double bytes = (double)board->wire_bytes[shape][half];
  const char *name = half == COMBINE ? "combine" : "dispatch";
  if (json)
    printf("{\"shape\": \"%s\", \"operation\": \"%s\", \"place\": \"%s\", \"rounds\": %d, \"wire_bytes\": %.0f, "
           "\"us\": [%.1f, %.1f, %.1f], \"copy_us\": [%.1f, %.1f, %.1f], \"write_us\": [%.1f, %.1f, %.1f], "
           "\"ratio\": %.3f, \"write_ratio\": %.3f}\n",
           shapes[shape].name, name, place_names[place], own.rounds, bytes, own.p10, own.p50, own.p90, copy.p10,
           copy.p50, copy.p90, write.p10, write.p50, write.p90, copy.p50 / own.p50, write.p50 / own.p50);
  else
    printf("%-24s %-8s %-4s %4d %7.1f (%6.1f-%6.1f) %7.1f (%6.1f-%6.1f) %7.1f  %5.2f  %5.2f\n", shapes[shape].name,
           name, place_names[place], own.rounds, own.p50, own.p10, own.p90, copy.p50, copy.p10, copy.p90, write.p50,
           copy.p50 / own.p50, write.p50 / own.p50);
}

void report_pair(const struct board *board, bool json) {
  if (!json)
    printf("%d tokens, hidden %d, top-%d, %d experts per rank, 2 ranks on 2 processors. us: medians (p10-p90) of the\n"
           "slower rank. copy: the same bytes through the same windows, in and out; write: the way in only.\n"
           "near: the processors share a cache (a word goes from one to the other in less than %.0f ns); far: they do "
           "not.\n\n%-24s %-8s %-4s %4s %-24s %-24s %7s  %5s  %5s\n",
           TOKENS, HIDDEN, TOPK, EXPERTS, far_ns, "shape", "half", "at", "n", "operation us", "copy us", "write us",
           "copy/", "write/");
  for (int shape = 0; shape < SHAPES; shape++)
    for (enum half half = 0; half < HALVES; half++)
      for (enum place place = 0; place < PLACES; place++)
        report_half(board, shape, half, place, json);
}
