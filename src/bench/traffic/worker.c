// Sets a worker up, and releases it again.
#include "bench/traffic/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/boot_id.h"
#include "base/fail.h"
#include "base/random.h"
#include "bench/common/card.h"
#include "limits/limits.h"

enum { HEARTBEAT_MS = 1000, SETUP_MS = 60000 };

// --- the workers that take part in each pattern ---

static int find_parts(struct traffic_worker *worker) {
  const struct traffic_plan *plan = worker->config->plan;
  worker->parts = calloc(plan->num_patterns, sizeof *worker->parts);
  for (uint32_t i = 0; worker->parts && i < plan->num_patterns; i++) {
    struct traffic_part *part = &worker->parts[i];
    part->ranks = calloc(plan->patterns[i].ranks, sizeof *part->ranks);
    for (uint32_t rank = 0; part->ranks && rank < plan->patterns[i].ranks; rank++) {
      if (!traffic_pattern_has(&plan->patterns[i], rank))
        continue;
      part->ranks[part->count++] = rank;
      part->mine |= rank == worker->sync.rank;
    }
    if (!part->ranks)
      return fail(WEFT_ERR_NOMEM, "no memory for a pattern");
  }
  return worker->parts ? 0 : fail(WEFT_ERR_NOMEM, "no memory for patterns");
}

// --- memory ---

// All workers of this host together must not allocate more than is free, or the kernel would kill one of them.
static int check_room(const struct traffic_worker *worker) {
  uint64_t bytes = 0, room = limits_memory_available();
  uint32_t here = 0;
  for (uint32_t rank = 0; rank < worker->sync.size; rank++) {
    if (!meet_same_host(worker->meet, rank, worker->sync.rank))
      continue;
    here++;
    for (int side = 0; side < 2; side++)
      bytes += traffic_layout_bytes(&worker->layout, rank, side, TRAFFIC_HOST);
  }
  if (bytes <= room)
    return 0;
  return fail(WEFT_ERR_LIMIT,
              "the %u workers on %s need %" PRIu64 " MiB of memory together, but only %" PRIu64
              " MiB are free: want smaller sizes%s",
              here, meet_host(worker->meet, worker->sync.rank), bytes >> 20, room >> 20,
              worker->config->check ? ", or no --check: without it patterns share memory" : "");
}

static uint32_t place_on_host(const struct traffic_worker *worker) {
  uint32_t place = 0;
  for (uint32_t rank = 0; rank < worker->sync.rank; rank++)
    place += meet_same_host(worker->meet, rank, worker->sync.rank);
  return place;
}

static int open_agent(struct traffic_worker *worker, const char *token) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  char name[WEFT_AGENT_MAX_NAME];
  snprintf(name, sizeof name, "traffic-%u-%016" PRIx64, worker->sync.rank, random_id());
  options.name = name;
  options.transports = worker->config->transport;
  options.token = token;
  options.heartbeat_ms = HEARTBEAT_MS;
  options.transfer_timeout_ms = worker->config->options->timeout_ms;
  int rc = weft_agent_open(&worker->agent, &options);
  worker->sync.agent = worker->agent;
  return rc == WEFT_ERR_NOT_FOUND ? fail_context(WEFT_ERR_INVALID, "--transport %s", worker->config->transport) : rc;
}

// --- what workers exchange ---

static int describe(struct traffic_worker *worker, bool front, json_t **out) {
  char boot[BOOT_ID_SIZE] = "";
  json_t *card = NULL;
  int rc = bench_card_make(worker->agent, &card);
  if (rc != 0)
    return rc;
  boot_id_read(boot);
  *out = json_pack("{s:o, s:s, s:b, s:s, s:i, s:o}", "agent", card, "boot", boot, "front", front, "gpu",
                   worker->memories.gpu_uuid, "gpu_index", worker->memories.has_gpu ? (int)worker->memories.gpu : -1,
                   "areas", traffic_memories_describe(&worker->memories));
  return *out ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the description of a worker");
}

static int load(struct traffic_worker *worker, uint32_t rank, const json_t *fact, struct traffic_far *far) {
  int rc = bench_card_load(worker->agent, json_object_get(fact, "agent"), &worker->sync.peers[rank].peer);
  if (rc == 0)
    rc = traffic_memories_read(json_object_get(fact, "areas"), far);
  return rc == 0 ? 0 : fail_context(rc, "worker %u on %s", rank, meet_host(worker->meet, rank));
}

static int exchange(struct traffic_worker *worker, bool front, struct traffic_far *fars) {
  uint32_t size = worker->sync.size;
  json_t *mine = NULL, **all = calloc(size, sizeof *all);
  int rc = all ? describe(worker, front, &mine) : fail(WEFT_ERR_NOMEM, "no memory for %u workers", size);
  if (rc == 0)
    rc = meet_all_gather(worker->meet, "agents", mine, SETUP_MS, all);
  json_decref(mine);
  worker->facts = rc == 0 ? json_array() : NULL;
  worker->reporter = size;
  for (uint32_t i = 0; i < size && rc == 0; i++) {
    rc = load(worker, i, all[i], &fars[i]);
    if (worker->reporter == size && json_is_true(json_object_get(all[i], "front")))
      worker->reporter = i;
  }
  for (uint32_t i = 0; worker->facts && i < size; i++)
    json_array_append_new(worker->facts, all[i]);
  free(all);
  if (rc == 0 && worker->reporter == size)
    rc = fail(WEFT_ERR_PROTOCOL, "no worker was started by a user");
  return rc;
}

// --- transfers ---

static int make_lists(struct traffic_worker *worker, struct traffic_lane *lane, const struct traffic_far *far) {
  const struct traffic_pattern *pattern = &worker->config->plan->patterns[lane->pattern];
  const struct traffic_pair *pair = &pattern->pairs[lane->pair];
  bool sends = pattern->op == WEFT_TRANSFER_WRITE;
  enum traffic_side own = sends ? TRAFFIC_SENDS : TRAFFIC_RECEIVES, other = sends ? TRAFFIC_RECEIVES : TRAFFIC_SENDS;
  enum traffic_memory memory = traffic_layout_memory(&worker->layout, lane->pattern);
  uint64_t here = (uint64_t)(uintptr_t)worker->memories.areas[memory][own].address +
                  traffic_layout_place(&worker->layout, lane->pattern, lane->pair, own);
  uint64_t there =
      far->address[memory][other] + traffic_layout_place(&worker->layout, lane->pattern, lane->pair, other);
  uint32_t count = traffic_pair_pieces(pair);
  struct weft_descriptor *local = calloc(count, sizeof *local), *remote = calloc(count, sizeof *remote);
  int rc = local && remote ? 0 : fail(WEFT_ERR_NOMEM, "no memory for %u pieces", count);
  for (uint32_t i = 0; rc == 0 && i < count; i++) {
    struct traffic_place place = traffic_place(pair, i);
    local[i] = (struct weft_descriptor){.address = here + (sends ? place.sender : place.receiver),
                                        .length = place.bytes,
                                        .region = worker->memories.areas[memory][own].region};
    remote[i] = (struct weft_descriptor){.address = there + (sends ? place.receiver : place.sender),
                                         .length = place.bytes,
                                         .region = far->region[memory][other]};
  }
  if (rc == 0)
    rc = weft_dlist_create(worker->agent, WEFT_PEER_SELF, local, count, &lane->local);
  if (rc == 0)
    rc = weft_dlist_create(worker->agent, worker->sync.peers[lane->other].peer, remote, count, &lane->remote);
  free(local);
  free(remote);
  return rc;
}

static int make_lane(struct traffic_worker *worker, uint32_t pattern, uint32_t index, const struct traffic_far *fars) {
  const struct traffic_pattern *p = &worker->config->plan->patterns[pattern];
  const struct traffic_pair *pair = &p->pairs[index];
  bool sends = p->op == WEFT_TRANSFER_WRITE;
  struct traffic_lane *lane = &worker->lanes[worker->num_lanes];
  *lane = (struct traffic_lane){.pattern = pattern, .pair = index, .other = sends ? pair->to : pair->from};
  worker->num_lanes++;
  int rc = make_lists(worker, lane, &fars[lane->other]);
  if (rc == 0)
    rc = weft_transfer_create(worker->agent, p->op, lane->local, lane->remote, NULL, &lane->transfer);
  return rc == 0 ? 0 : fail_context(rc, "pattern %s, %u to %u", p->name, pair->from, pair->to);
}

static uint32_t starter(const struct traffic_pattern *pattern, const struct traffic_pair *pair) {
  return pattern->op == WEFT_TRANSFER_WRITE ? pair->from : pair->to;
}

static void count_lanes(struct traffic_worker *worker) {
  uint32_t counts[TRAFFIC_MAX_RANKS] = {0};
  const struct traffic_plan *plan = worker->config->plan;
  for (uint32_t i = 0; i < plan->num_patterns; i++)
    for (uint32_t j = 0; j < plan->patterns[i].num_pairs; j++) {
      uint32_t count = ++counts[starter(&plan->patterns[i], &plan->patterns[i].pairs[j])];
      worker->most_lanes = count > worker->most_lanes ? count : worker->most_lanes;
    }
}

static int make_lanes(struct traffic_worker *worker, const struct traffic_far *fars) {
  const struct traffic_plan *plan = worker->config->plan;
  uint32_t count = 0;
  count_lanes(worker);
  for (int make = 0; make < 2; make++) {
    for (uint32_t i = 0; i < plan->num_patterns; i++)
      for (uint32_t j = 0; j < plan->patterns[i].num_pairs; j++) {
        if (starter(&plan->patterns[i], &plan->patterns[i].pairs[j]) != worker->sync.rank)
          continue;
        int rc = make ? make_lane(worker, i, j, fars) : 0;
        if (rc != 0)
          return rc;
        count++;
      }
    if (!make && !(worker->lanes = calloc(count + 1, sizeof *worker->lanes)))
      return fail(WEFT_ERR_NOMEM, "no memory for %u transfers", count);
  }
  return 0;
}

static bool has_name(const json_t *names, const char *name) {
  for (size_t i = 0; i < json_array_size(names); i++)
    if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
      return true;
  return false;
}

// Adds the names of the transports that carry this worker's transfers of a pattern, which begin at `*lane`.
static int name_transports(const struct traffic_worker *worker, uint32_t pattern, uint32_t *lane, json_t *names) {
  for (; *lane < worker->num_lanes && worker->lanes[*lane].pattern == pattern; ++*lane) {
    struct weft_transfer_info info = WEFT_TRANSFER_INFO_INIT;
    int rc = weft_transfer_get_info(worker->lanes[*lane].transfer, &info);
    if (rc != 0)
      return rc;
    if (!has_name(names, info.transport))
      json_array_append_new(names, json_string(info.transport));
  }
  return 0;
}

// Adds to the facts of all workers the transports that each uses for its part of each pattern: "via" has a list of
// names for each pattern.
static int gather_transports(struct traffic_worker *worker) {
  uint32_t size = worker->sync.size, lane = 0;
  json_t *mine = json_array(), **all = calloc(size, sizeof *all);
  int rc = all ? 0 : fail(WEFT_ERR_NOMEM, "no memory for %u workers", size);
  for (uint32_t i = 0; i < worker->config->plan->num_patterns && rc == 0; i++) {
    json_t *names = json_array();
    rc = name_transports(worker, i, &lane, names);
    json_array_append_new(mine, names);
  }
  if (rc == 0)
    rc = meet_all_gather(worker->meet, "transfers", mine, SETUP_MS, all);
  for (uint32_t i = 0; i < size && rc == 0; i++)
    json_object_set_new(json_array_get(worker->facts, i), "via", all[i]);
  json_decref(mine);
  free(all);
  return rc;
}

// --- opening and closing ---

static int open_sync(struct traffic_worker *worker) {
  const char **boots = calloc(worker->sync.size, sizeof *boots);
  for (uint32_t i = 0; boots && i < worker->sync.size; i++)
    boots[i] = json_string_value(json_object_get(json_array_get(worker->facts, i), "boot"));
  int rc = boots ? bench_sync_open(&worker->sync, boots) : fail(WEFT_ERR_NOMEM, "no memory for workers");
  free(boots);
  return rc;
}

static int set_up(struct traffic_worker *worker, const char *token, bool front, struct traffic_far *fars) {
  int rc = find_parts(worker);
  if (rc == 0)
    rc = check_room(worker);
  if (rc == 0)
    rc = open_agent(worker, token);
  if (rc == 0)
    rc = traffic_memories_open(&worker->memories, worker->agent, &worker->layout, worker->sync.rank,
                               place_on_host(worker));
  if (rc == 0)
    rc = exchange(worker, front, fars);
  if (rc == 0)
    rc = make_lanes(worker, fars);
  // When this returns, all workers know each other, so no notification is dropped.
  if (rc == 0)
    rc = gather_transports(worker);
  return rc == 0 ? open_sync(worker) : rc;
}

int traffic_worker_open(struct traffic_worker *worker, const struct traffic_config *config, struct meet *meet,
                        const char *token, bool front) {
  uint32_t size = meet_size(meet);
  *worker = (struct traffic_worker){.config = config,
                                    .meet = meet,
                                    .reporter = size,
                                    .layout = {.plan = config->plan, .memory = config->memory, .apart = config->check}};
  struct traffic_far *fars = calloc(size, sizeof *fars);
  int rc = fars ? bench_sync_init(&worker->sync, meet, config->options->timeout_ms)
                : fail(WEFT_ERR_NOMEM, "no memory for %u workers", size);
  if (rc == 0)
    rc = set_up(worker, token, front, fars);
  free(fars);
  return rc;
}

void traffic_worker_close(struct traffic_worker *worker) {
  for (uint32_t i = 0; i < worker->num_lanes; i++) {
    struct traffic_lane *lane = &worker->lanes[i];
    if (lane->transfer)
      weft_transfer_cancel(lane->transfer, 1000);
    weft_transfer_free(lane->transfer);
    weft_dlist_free(lane->local);
    weft_dlist_free(lane->remote);
  }
  free(worker->lanes);
  for (uint32_t i = 0; worker->parts && i < worker->config->plan->num_patterns; i++)
    free(worker->parts[i].ranks);
  free(worker->parts);
  weft_agent_close(worker->agent); // the agent frees the memory, when no transfer of a peer writes there any more
  traffic_memories_close(&worker->memories);
  bench_sync_close(&worker->sync);
  json_decref(worker->facts);
  *worker = (struct traffic_worker){0};
}
