// The times that the lanes of a worker have measured, in ns.
#include <stdlib.h>
#include <string.h>

#include "base/time/ticks.h"
#include "bench/transfer/row.h"

static int allocate(struct transfer_times *times, size_t count, size_t num_prep, uint64_t **ends) {
  times->latency = calloc(count + 1, sizeof *times->latency);
  times->post = calloc(count + 1, sizeof *times->post);
  times->transfer = calloc(count + 1, sizeof *times->transfer);
  times->prep = calloc(num_prep + 1, sizeof *times->prep);
  *ends = calloc(count + 1, sizeof **ends);
  if (times->latency && times->post && times->transfer && times->prep && *ends)
    return 0;
  return fail(WEFT_ERR_NOMEM, "no memory for the times of %zu iterations", count);
}

// The time of the end by this host's clock. The rate of the tick counter is known with an error of some millionths.
// After a long loop this error would put the last iterations behind its end.
static uint64_t end_of(const struct transfer_lane *lane, uint32_t iteration) {
  uint64_t ns = lane->begin_ns + ticks_to_ns(lane->ended[iteration] - lane->begin_ticks);
  return ns < lane->end_ns ? ns : lane->end_ns;
}

static void take_iteration(struct transfer_result *result, const struct transfer_lane *lane, uint32_t i) {
  struct transfer_times *times = &result->times;
  size_t to = times->count++;
  times->latency[to] = ticks_to_ns(lane->ended[i] - lane->started[i]);
  if (lane->posted[i] != 0) {
    times->post[times->num_post] = ticks_to_ns(lane->posted[i] - lane->started[i]);
    times->transfer[times->num_post++] = ticks_to_ns(lane->ended[i] - lane->posted[i]);
  }
  result->ends[to] = end_of(lane, i);
}

// The lanes ran at the same time, so their iterations are taken by turns: one lane after the other would look like one
// that became faster or slower in the middle.
static void take_times(struct transfer_result *result, const struct transfer_rowing *rowing, size_t num_prep) {
  struct transfer_times *times = &result->times;
  for (uint32_t i = 0; i < rowing->load.iterations; i++)
    for (uint32_t k = 0; k < rowing->num_lanes; k++)
      take_iteration(result, &rowing->lanes[k], i);
  for (uint32_t i = 0; times->num_prep < num_prep; i++)
    for (uint32_t k = 0; k < rowing->num_lanes; k++)
      if (i < rowing->lanes[k].num_prep)
        times->prep[times->num_prep++] = ticks_to_ns(rowing->lanes[k].prep[i]);
}

static void take_window(struct transfer_result *result, const struct transfer_lane *lane) {
  if (result->begin_ns == 0 || lane->begin_ns < result->begin_ns)
    result->begin_ns = lane->begin_ns;
  if (lane->end_ns > result->end_ns)
    result->end_ns = lane->end_ns;
}

int transfer_result_take(const struct transfer_rowing *rowing, struct transfer_result *result) {
  const struct transfer_load *load = &rowing->load;
  size_t num_prep = 0;
  *result = (struct transfer_result){.initiates = rowing->initiates, .bytes = load->block * load->batch * load->group};
  result->cpu_percent = rowing->wall_ns > 0 ? rowing->cpu_us * 1e5 / (double)rowing->wall_ns : 0;
  for (uint32_t i = 0; i < rowing->num_lanes; i++)
    num_prep += rowing->lanes[i].num_prep;
  int err = allocate(&result->times, (size_t)rowing->num_lanes * load->iterations, num_prep, &result->ends);
  if (err) {
    transfer_result_free(result);
    return err;
  }
  take_times(result, rowing, num_prep);
  for (uint32_t i = 0; i < rowing->num_lanes; i++)
    take_window(result, &rowing->lanes[i]);
  result->iterations = result->times.count;
  if (rowing->num_lanes == 1 && rowing->lanes[0].rate_end_ns > 0) {
    result->begin_ns = rowing->lanes[0].rate_begin_ns;
    result->end_ns = rowing->lanes[0].rate_end_ns;
    result->blind = true;
  }
  if (rowing->num_lanes > 0)
    memcpy(result->transport, rowing->lanes[0].transport, sizeof result->transport);
  return 0;
}

void transfer_result_free(struct transfer_result *result) {
  free(result->times.latency);
  free(result->times.post);
  free(result->times.transfer);
  free(result->times.prep);
  free(result->ends);
  *result = (struct transfer_result){0};
}
