// Compares rates with the bound of their route.
#include "p2p/bound.h"

#include <stdlib.h>
#include <string.h>

#include "base/boot_id.h"
#include "p2p/session/message.h"

enum { PAGE = 4096 };

void p2p_bound_describe(json_t *ready) {
  char boot[BOOT_ID_SIZE];
  if (boot_id_read(boot) == 0)
    json_object_set_new(ready, "boot", json_string(boot));
}

// A target of an older version sends no identity. It then counts as a target on this host, whose bounds are higher.
void p2p_bound_compare(const json_t *ready, struct p2p_ends *ends) {
  char boot[BOOT_ID_SIZE];
  const char *there = p2p_text(ready, "boot");
  ends->two_hosts = *there && boot_id_read(boot) == 0 && strcmp(boot, there) != 0;
}

// --- the route of a row ---

static void fill_end(struct limits_end *end, const char *name, const struct p2p_config *config) {
  const char *colon = strchr(name, ':');
  end->memory = strncmp(name, "cuda", 4) == 0 ? LIMITS_CUDA
                : strcmp(name, "file") == 0   ? LIMITS_FILE
                : strcmp(name, "object") == 0 ? LIMITS_OBJECT
                                              : LIMITS_HOST;
  end->gpu = colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
  end->path = config->path;
}

static bool by_shm(const struct p2p_result *result) {
  return strcmp(result->transport, "shm") == 0;
}

bool p2p_bound_is_shared(const struct p2p_report *report) {
  const struct p2p_ends *ends = &report->ends;
  return !ends->two_hosts && strchr(ends->here, ':') == NULL && strchr(ends->there, ':') == NULL;
}

// The thread that posts a copy of shared memory also makes it. If two GPUs were meant but both ends are on one, its
// rate is compared with the bound of the GPU's link.
static void fill_route(const struct p2p_report *report, const struct p2p_result *result, struct limits_route *route) {
  const struct p2p_ends *ends = &report->ends;
  struct limits_end here = {0}, there = {0};
  fill_end(&here, ends->here, report->config);
  fill_end(&there, ends->there, report->config);
  there.host = ends->two_hosts ? "the target's host" : NULL;
  if (ends->same_gpu && !report->config->one_gpu)
    there.memory = LIMITS_HOST;
  bool writes = result->op == P2P_OP_WRITE;
  *route = (struct limits_route){.from = writes ? here : there, .to = writes ? there : here};
  route->transport = result->transport;
  route->pairs = report->config->bidirectional && p2p_bound_is_shared(report) ? 2 : 1;
  route->working_set = 2 * result->bytes * result->depth;
  route->copiers = by_shm(result) ? 1 : 0;
}

// --- the figure ---

static double rate_of(const struct p2p_report *report, const struct p2p_result *result) {
  if (p2p_bound_is_shared(report))
    return result->gbps + result->peer_gbps;
  return result->gbps > result->peer_gbps ? result->gbps : result->peer_gbps;
}

static double window_of(const struct p2p_result *result) {
  if (result->window_s > 0)
    return result->window_s;
  uint32_t count = result->iterations > result->depth ? result->iterations : result->depth;
  return (double)result->bytes * count / (result->gbps * 1e9);
}

// Pieces that are not whole pages go through the page cache, which then may also serve later pieces.
static bool through_cache(const struct p2p_report *report, const struct p2p_result *result, double gbps) {
  return report->config->memory == P2P_MEMORY_FILE && result->bytes % PAGE != 0 && result->bound.gbps > 0 &&
         gbps > result->bound.gbps;
}

void p2p_bound_note_uses(struct p2p_report *report, const struct p2p_result *result) {
  struct limits_route route;
  fill_route(report, result, &route);
  limits_uses_note(&report->uses, result->uses, &route);
}

void p2p_bound_judge(const struct p2p_report *report, struct p2p_result *result) {
  struct limits_route route;
  result->bound.gbps = result->percent = -1;
  if (!report->limits || result->gbps <= 0)
    return;
  fill_route(report, result, &route);
  limits_route_bound(report->limits, &route, &result->bound);
  double gbps = rate_of(report, result);
  const struct limits_claim claim = {.gbps = gbps,
                                     .window_s = window_of(result),
                                     .same_gpu = report->ends.same_gpu && !report->config->one_gpu,
                                     .cached = through_cache(report, result, gbps),
                                     .bound = result->bound};
  result->percent = limits_percent(&result->bound, gbps);
  if (limits_refuse(&claim, result->refused, sizeof result->refused))
    result->gbps = result->peer_gbps = result->per_second = 0;
}
