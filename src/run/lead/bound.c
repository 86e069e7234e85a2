// Finds the hardware bound of the run's operations, from the memory and the links between the ranks of the last phase
// that passed.
#include "run/lead/lead.h"

#include <string.h>

#include "base/text/digits.h"
#include "limits/limits.h"

struct moved {
  bool two_hosts, cuda;
  uint32_t ranks;
  double bytes; // of all ranks on the wire, in one operation
};

static void look(const struct results_phase *phase, struct moved *moved) {
  const char *host = NULL;
  for (uint32_t i = 0; i < phase->num_ranks; i++) {
    const struct results_rank *rank = &phase->ranks[i];
    if (rank->state != RESULTS_PASSED)
      continue;
    moved->two_hosts |= host && strcmp(host, rank->host) != 0;
    moved->cuda |= rank->gpu >= 0;
    moved->ranks++;
    moved->bytes += rank->dispatch_wire_bytes + rank->combine_wire_bytes;
    host = rank->host;
  }
}

// Ranks on GPUs of one host write over the links of the GPUs. On host memory every rank copies the rows that it sends,
// so the operations read and write at least this working set again and again.
static void find(struct limits *limits, const struct moved *moved, struct limits_bound *bound) {
  struct limits_route route = {.from.memory = LIMITS_HOST, .to.memory = LIMITS_HOST, .transport = "shm"};
  if (moved->cuda && !moved->two_hosts) {
    limits_gpu_link_bound(limits, bound);
    return;
  }
  if (moved->two_hosts)
    route.to.host = "another";
  route.working_set = (uint64_t)(2 * moved->bytes);
  limits_route_bound(limits, &route, bound);
}

static json_t *describe(const struct limits_bound *bound, bool of_rank) {
  json_t *json = json_pack("{s:s, s:b, s:s, s:s}", "name", bound->name, "measured", bound->measured, "detail",
                           bound->detail, "of", of_rank ? "rank" : "host");
  if (json && bound->gbps > 0)
    json_object_set_new(json, "gb_per_second", json_real(digits_rounded(bound->gbps)));
  return json;
}

// Results are complete without a bound too, so an error here only leaves the bound out.
void lead_fill_bound(struct results *results) {
  const struct results_phase *phase = results_last_passed(results);
  struct moved moved = {0};
  struct limits *limits = NULL;
  struct limits_bound bound;
  if (phase)
    look(phase, &moved);
  if (moved.ranks < 2 || limits_open(&limits) != 0)
    return;
  find(limits, &moved, &bound);
  json_object_set_new(results->config, "bound", describe(&bound, moved.cuda && !moved.two_hosts));
  limits_close(limits);
}
