// Finds the route that the rows of an operation take, and the bound of that route.
//
// A bound is for a whole route, and a figure is for one rank. The ranks of a host share its memory and its NICs; only
// bytes for other hosts pass the NICs. Each GPU has links of its own.
#include "bench/ep/bound.h"

#include <string.h>

#include "base/fail.h"

struct way {
  struct limits_route route;
  char transport[16];
  double share;  // of the route's bound, for one rank
  double spread; // a rank may reach up to this multiple, since its links to several peers may be different ones
  bool same_gpu; // two ranks are on one GPU
};

static bool same_host(const struct bench_ep_found_rank *a, const struct bench_ep_found_rank *b) {
  return a->machine == b->machine;
}

// The number of ranks on the host that has the most.
static uint32_t most_on_a_host(const struct bench_ep_found *found) {
  uint32_t most = 0;
  for (uint32_t a = 0; a < found->num_ranks; a++) {
    uint32_t count = 0;
    for (uint32_t b = 0; b < found->num_ranks; b++)
      count += same_host(&found->ranks[a], &found->ranks[b]);
    most = count > most ? count : most;
  }
  return most;
}

static bool share_a_gpu(const struct bench_ep_found *found) {
  for (uint32_t a = 0; a < found->num_ranks; a++)
    for (uint32_t b = 0; b < a; b++) {
      const struct bench_ep_result *one = &found->ranks[a].result, *other = &found->ranks[b].result;
      if (one->gpu[0] && memcmp(one->gpu_id, other->gpu_id, sizeof one->gpu_id) == 0)
        return true;
    }
  return false;
}

// A rank on another host than rank 0, or the last rank if there is none.
static uint32_t far_rank(const struct bench_ep_found *found) {
  uint32_t far = found->num_ranks - 1;
  for (uint32_t r = found->num_ranks - 1; r > 0; r--)
    far = same_host(&found->ranks[r], &found->ranks[0]) ? far : r;
  return far;
}

static struct way way_of(const struct bench_ep_point *point, const struct bench_ep_found *found, uint32_t as_hosts,
                         double wire_bytes) {
  uint32_t far = far_rank(found), ranks = found->num_ranks;
  const struct bench_ep_found_rank *from = &found->ranks[0], *to = &found->ranks[far];
  bool spread = !same_host(from, to), cuda = point->memory == WEFT_EP_MEMORY_CUDA;
  uint32_t here = spread ? most_on_a_host(found) : ranks, groups = spread ? 1 : as_hosts ? as_hosts : 1;
  uint32_t together = spread ? here : (ranks - 1) / groups + 1; // the most that reach each other without the network
  bool network = spread || groups > 1;
  struct way way = {.share = 1.0 / here, .spread = 1, .same_gpu = share_a_gpu(found)};
  enum limits_memory memory = cuda ? LIMITS_CUDA : LIMITS_HOST;
  way.route =
      (struct limits_route){.from = {memory, from->result.gpu_index, NULL, spread ? "rank 0's host" : NULL},
                            .to = {memory, to->result.gpu_index, NULL, spread ? "another host" : NULL},
                            .pairs = here,
                            .working_set = (uint64_t)(3 * wire_bytes), // rows at the caller, in windows, received
                            .copiers = 1};
  snprintf(way.transport, sizeof way.transport, "%.*s", (int)strcspn(to->result.way, " ,:"), to->result.way);
  if (!network)
    snprintf(way.transport, sizeof way.transport, "%s", cuda ? "cuda" : "shm");
  if (cuda && !network) {
    way.share = 1;
    way.spread = ranks - 1;
    way.route.pairs = 1;
  }
  if (network) // only the bytes for other hosts pass the route
    way.share *= (double)(ranks - 1) / (ranks - together);
  return way;
}

int bench_ep_bound_row(struct limits *limits, struct bench_output *output, struct figures *figures,
                       struct figures_row *row, const struct bench_ep_point *point, const struct bench_ep_found *found,
                       uint32_t as_hosts) {
  struct figure *figure = (struct figure *)figures_find(row, "wire_bandwidth"); // the row is not const
  const struct figure *bytes = figures_find(row, "wire_bytes"), *latency = figures_find(row, "latency");
  if (!figure || found->num_ranks < 2)
    return 0;
  struct way way = way_of(point, found, as_hosts, bytes->value);
  struct limits_claim claim = {
      .gbps = figure->value, .window_s = latency->value * (double)found->count / 1e6, .same_gpu = way.same_gpu};
  way.route.transport = way.transport[0] ? way.transport : NULL;
  bench_output_uses(output, figures, found->ranks[far_rank(found)].result.way, &way.route);
  limits_route_bound(limits, &way.route, &claim.bound);
  int err = figures_add_bound(figures, claim.bound.name, claim.bound.gbps, claim.bound.measured, claim.bound.detail);
  if (err)
    return fail(err, "no memory for the results");
  if (claim.bound.gbps > 0) {
    figure->bound = claim.bound.gbps * way.share;
    snprintf(figure->bound_name, sizeof figure->bound_name, "%s", claim.bound.name);
    claim.bound.gbps *= way.share * way.spread;
  }
  if (limits_refuse(&claim, row->refused, sizeof row->refused))
    figures_withdraw_rates(row);
  else
    row->refused[0] = '\0';
  return 0;
}
