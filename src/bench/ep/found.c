// Makes rows from the times of ranks.
//
// An operation takes as long as on its slowest rank: "latency" is the distribution of that time over the iterations.
// "rank_latency" is the distribution of the times of all ranks.
#include "bench/ep/found.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

int bench_ep_found_open(struct bench_ep_found *found, uint32_t num_ranks) {
  *found = (struct bench_ep_found){.num_ranks = num_ranks, .ranks = calloc(num_ranks, sizeof *found->ranks)};
  return found->ranks ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the times of %u ranks", num_ranks);
}

void bench_ep_found_free(struct bench_ep_found *found) {
  for (uint32_t i = 0; found->ranks && i < found->num_ranks; i++)
    free(found->ranks[i].times);
  free(found->ranks);
  *found = (struct bench_ep_found){0};
}

int bench_ep_found_take(struct bench_ep_found *found, uint32_t rank, const char *host, struct bench_ep_board *board,
                        uint32_t index) {
  struct bench_ep_found_rank *own = &found->ranks[rank];
  uint32_t count = board->rank[index].result.count;
  own->result = board->rank[index].result;
  snprintf(own->host, sizeof own->host, "%s", host);
  own->times = malloc((size_t)BENCH_EP_MAX_TIMES * (count ? count : 1) * sizeof *own->times);
  if (!own->times)
    return fail(WEFT_ERR_NOMEM, "no memory for the times of rank %u", rank);
  for (uint32_t k = 0; k < BENCH_EP_MAX_TIMES; k++)
    memcpy(own->times + (size_t)k * count, bench_ep_times(board, index, k), count * sizeof *own->times);
  return 0;
}

// --- keys ---

static json_t *keys_of(const struct bench_ep_config *config, const struct bench_ep_point *point, enum bench_ep_op op) {
  char skew[32];
  return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:i}",           //
                   "op", bench_ep_op_names[op], "tokens", (int)point->tokens, "hidden", (int)point->hidden, //
                   "topk", (int)point->topk, "ranks", (int)point->ranks, "experts",                         //
                   (int)(point->ranks * point->experts), "dtype", bench_ep_dtype_name(point->dtype),        //
                   "combine_dtype", bench_ep_combine_dtype_name(point->combine_dtype), "layout",            //
                   bench_ep_layout_name(point->layout), "skew",                                             //
                   bench_ep_skew_name(&point->skew, skew, sizeof skew), "memory",
                   bench_ep_memory_name(point->memory), //
                   "graph", point->loop == BENCH_EP_GRAPH, "mode", bench_ep_mode_names[config->mode], "route",
                   bench_ep_route_name(point->route), "processors", (int)point->processors);
}

// --- figures ---

// Bytes of a dispatch, of a combine, or of both. The send and receive parts of a half have no bytes of their own.
static double bytes_of(const uint64_t bytes[2], enum bench_ep_op op) {
  return op == BENCH_EP_DISPATCH  ? (double)bytes[0]
         : op == BENCH_EP_COMBINE ? (double)bytes[1]
         : op == BENCH_EP_BOTH    ? (double)bytes[0] + (double)bytes[1]
                                  : 0;
}

static uint64_t slowest_of(const struct bench_ep_found *found, uint32_t which, uint32_t iteration) {
  uint64_t slowest = 0;
  for (uint32_t r = 0; r < found->num_ranks; r++) {
    uint64_t ns = found->ranks[r].times[(size_t)which * found->count + iteration];
    slowest = ns > slowest ? ns : slowest;
  }
  return slowest;
}

static bool add_times(struct figures_row *row, const struct bench_ep_found *found, uint32_t which) {
  uint32_t count = found->count;
  uint64_t *times = malloc((size_t)count * found->num_ranks * sizeof *times);
  if (!times)
    return fail(WEFT_ERR_NOMEM, "no memory for times") == 0;
  for (uint32_t i = 0; i < count; i++)
    times[i] = slowest_of(found, which, i);
  bool added = figures_add_times(row, "latency", times, count) != NULL;
  for (uint32_t i = 0; i < count; i++) // in the order of the iterations
    for (uint32_t r = 0; r < found->num_ranks; r++)
      times[(size_t)i * found->num_ranks + r] = found->ranks[r].times[(size_t)which * count + i];
  added = added && figures_add_times(row, "rank_latency", times, (size_t)count * found->num_ranks);
  free(times);
  return added;
}

static bool add_bytes(struct figures_row *row, const struct bench_ep_found *found, enum bench_ep_op op) {
  double logical = 0, wire = 0, ns = figures_find(row, "latency")->value * 1e3;
  for (uint32_t r = 0; r < found->num_ranks; r++) {
    logical += bytes_of(found->ranks[r].result.logical, op) / found->num_ranks;
    wire += bytes_of(found->ranks[r].result.wire, op) / found->num_ranks;
  }
  if (op > BENCH_EP_BOTH)
    return true;
  return figures_add(row, "logical_bandwidth", "GB/s", FIGURE_HIGHER, ns > 0 ? logical / ns : 0) &&
         figures_add(row, "wire_bandwidth", "GB/s", FIGURE_HIGHER, ns > 0 ? wire / ns : 0) &&
         figures_add(row, "logical_bytes", "bytes", FIGURE_LOWER, logical) &&
         figures_add(row, "wire_bytes", "bytes", FIGURE_LOWER, wire);
}

// How uneven the load is: the (token, expert) pairs of the busiest rank and of the busiest expert, in percent of the
// mean.
static bool add_load(struct figures_row *row, const struct bench_ep_found *found, const struct bench_ep_point *point) {
  double pairs = 0, rank = 0, expert = 0;
  for (uint32_t r = 0; r < found->num_ranks; r++) {
    const struct bench_ep_result *result = &found->ranks[r].result;
    pairs += (double)result->pairs;
    rank = (double)result->pairs > rank ? (double)result->pairs : rank;
    expert = (double)result->hottest_pairs > expert ? (double)result->hottest_pairs : expert;
  }
  double mean = pairs / found->num_ranks;
  if (pairs <= 0)
    return true;
  return figures_add(row, "busiest_rank", "percent", FIGURE_LOWER, 100 * rank / mean) &&
         figures_add(row, "busiest_expert", "percent", FIGURE_LOWER, 100 * expert * point->experts / mean);
}

static double mean_us(const struct bench_ep_found *found, uint32_t rank, uint32_t which) {
  double sum = 0;
  for (uint32_t i = 0; i < found->count; i++)
    sum += (double)found->ranks[rank].times[(size_t)which * found->count + i];
  return sum / found->count / 1e3;
}

static void name_slowest(struct figures_row *row, const struct bench_ep_found *found, uint32_t which) {
  uint32_t slowest = 0;
  double own = 0;
  for (uint32_t r = 0; r < found->num_ranks; r++) {
    double mean = mean_us(found, r, which);
    slowest = mean > own ? r : slowest;
    own = mean > own ? mean : own;
  }
  const struct bench_ep_found_rank *rank = &found->ranks[slowest];
  if (found->num_ranks > 1)
    snprintf(row->slowest, sizeof row->slowest, "rank %u on %s%s%s", slowest, rank->host,
             rank->result.gpu[0] ? ", " : "", rank->result.gpu);
}

static int add_row(struct figures *figures, const struct bench_ep_config *config, const struct bench_ep_point *point,
                   enum bench_ep_op op, uint32_t run, const struct bench_ep_found *found) {
  uint32_t which = op - bench_ep_first_op(point->loop);
  json_t *keys = keys_of(config, point, op);
  struct figures_row *row = keys ? figures_add_row(figures, keys, run) : NULL;
  json_decref(keys);
  if (!row)
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  name_slowest(row, found, which);
  if (!add_times(row, found, which) || !add_bytes(row, found, op) || !add_load(row, found, point))
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  return 0;
}

int bench_ep_add_rows(struct figures *figures, const struct bench_ep_config *config, const struct bench_ep_sweep *sweep,
                      const struct bench_ep_point *point, uint32_t run, const struct bench_ep_found *found,
                      uint32_t *num_rows) {
  enum bench_ep_op first = bench_ep_first_op(point->loop);
  int err = 0;
  *num_rows = 0;
  for (uint32_t i = 0; i < bench_ep_times_of(point->loop) && found->count && !err; i++) {
    if (!sweep->wanted[first + i])
      continue;
    err = add_row(figures, config, point, (enum bench_ep_op)(first + i), run, found);
    *num_rows += !err;
  }
  return err;
}
