// The lead processes of all hosts meet on a store. The times of their ranks are sent as JSON.
#include "bench/ep/hosts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"
#include "bench/ep/found_json.h"

enum {
  SPARE_MS = 30000,
  STOP_MS = 3000,
  MAX_MS = 24 * 3600 * 1000,
  VALUES_MAX = 100000, // times that one host sends in one value of the store, which has room for 1.5 MB
};

// After a signal the measurement under way may end, so that it counts. A wait is interrupted only if it lasts longer.
static bool is_interrupted(void *arg) {
  struct bench_ep_hosts *hosts = arg;
  if (!stop_came())
    return false;
  if (!hosts->met)
    return true;
  if (hosts->stopped_ns == 0)
    hosts->stopped_ns = clock_ns();
  return clock_ns() - hosts->stopped_ns > STOP_MS * UINT64_C(1000000);
}

// Longer than all waits of the ranks together. Other means notice a death, at once.
static uint32_t longest_ms(const struct bench_ep_config *config) {
  uint64_t operations = 8 * (uint64_t)config->common.timeout_ms * (config->warmup + config->iterations);
  uint64_t ms = (uint64_t)config->common.startup_timeout_s * 1000 + operations + SPARE_MS;
  return ms < MAX_MS ? (uint32_t)ms : MAX_MS;
}

int bench_ep_hosts_check(const struct bench_ep_config *config, uint32_t max_ranks) {
  if (max_ranks % config->local_ranks)
    return fail(WEFT_ERR_INVALID,
                "--local-ranks %u does not fit --ranks %u: all hosts have the same number of ranks, so want a divisor "
                "of --ranks",
                config->local_ranks, max_ranks);
  uint64_t values = (uint64_t)config->iterations * config->local_ranks * BENCH_EP_MAX_TIMES;
  if (max_ranks > config->local_ranks && values > VALUES_MAX)
    return fail(WEFT_ERR_INVALID, "--iterations %u is too much for %u ranks of a host among several: want at most %u",
                config->iterations, config->local_ranks, VALUES_MAX / BENCH_EP_MAX_TIMES / config->local_ranks);
  return 0;
}

static int meet_others(struct bench_ep_hosts *hosts, const struct bench_options *options, const json_t *settings,
                       const char *host) {
  struct meet_options how = {.store = hosts->store.client,
                             .prefix = hosts->store.prefix,
                             .size = hosts->size,
                             .settings = settings,
                             .follows = hosts->store.follows,
                             .host = host,
                             .address = hosts->store.address[0] ? hosts->store.address : NULL,
                             .timeout_ms = options->startup_timeout_s * 1000,
                             .interrupted = is_interrupted,
                             .arg = hosts};
  int err = meet_open(&hosts->meet, &how);
  if (err)
    return err;
  hosts->met = true;
  hosts->index = meet_rank(hosts->meet);
  json_t **all = calloc(hosts->size, sizeof *all), *mine = json_pack("{s:s}", "id", hosts->id);
  err = all && mine ? meet_all_gather(hosts->meet, "id", mine, hosts->timeout_ms, all)
                    : fail(WEFT_ERR_NOMEM, "no memory for %u hosts", hosts->size);
  const char *id = err ? NULL : json_string_value(json_object_get(all[0], "id"));
  if (!err && (!id || strlen(id) >= sizeof hosts->id))
    err = fail(WEFT_ERR_PROTOCOL, "the first host sent no id of the run");
  if (!err)
    snprintf(hosts->id, sizeof hosts->id, "%s", id);
  for (uint32_t i = 0; all && i < hosts->size; i++)
    json_decref(all[i]);
  free(all);
  json_decref(mine);
  return err;
}

static void fill_board(const struct bench_ep_hosts *hosts, const struct bench_options *options,
                       struct bench_ep_board *board) {
  bench_store_describe(&hosts->store, options, &board->place);
  snprintf(board->prefix, sizeof board->prefix, "%sep-%s/", hosts->store.prefix, hosts->id);
  board->others = hosts->size > 1;
  board->first_rank = (int32_t)(hosts->index * hosts->local_ranks);
}

int bench_ep_hosts_open(struct bench_ep_hosts *hosts, const struct bench_options *options,
                        const struct bench_ep_config *config, uint32_t max_ranks, const json_t *settings,
                        const char *host, struct bench_ep_board *board) {
  *hosts = (struct bench_ep_hosts){.local_ranks = config->local_ranks, .timeout_ms = longest_ms(config)};
  hosts->size = max_ranks / config->local_ranks;
  snprintf(hosts->id, sizeof hosts->id, "%016" PRIx64, random_id());
  int err = bench_store_open(&hosts->store, options, hosts->size > 1, "weft bench ep");
  if (!err && hosts->size > 1)
    err = meet_others(hosts, options, settings, host);
  if (!err)
    fill_board(hosts, options, board);
  return err;
}

// The host that runs the store waits until the others do not need it any more.
void bench_ep_hosts_close(struct bench_ep_hosts *hosts, int err, const char *why) {
  if (hosts->meet && err)
    meet_fail(hosts->meet, err, why);
  else if (hosts->meet)
    meet_barrier(hosts->meet, "end", hosts->timeout_ms);
  meet_close(hosts->meet);
  bench_store_close(&hosts->store);
  hosts->meet = NULL;
}

const char *bench_ep_hosts_name(const struct bench_ep_hosts *hosts, uint32_t index, const char *own) {
  return hosts->meet ? meet_host(hosts->meet, index) : own;
}

int bench_ep_hosts_failed(const struct bench_ep_hosts *hosts) {
  char why[FAIL_DETAIL_SIZE];
  uint32_t index;
  if (!hosts->meet || !meet_lost(hosts->meet, &index, why, sizeof why))
    return 0;
  return fail(WEFT_ERR_PEER_LOST, "%s", why);
}

static int take_all(struct bench_ep_hosts *hosts, json_t *const *all, uint32_t num_times,
                    struct bench_ep_found *found) {
  int err = 0;
  for (uint32_t i = 0; i < hosts->size && !err; i++) {
    uint32_t first = i * hosts->local_ranks;
    uint32_t count = found->num_ranks > first ? found->num_ranks - first : 0;
    count = count < hosts->local_ranks ? count : hosts->local_ranks;
    if (i == hosts->index)
      continue;
    err = bench_ep_found_from_json(found, first, count, meet_host(hosts->meet, i), num_times, all[i]);
    if (err)
      fail_context(err, "the results of host %s", meet_host(hosts->meet, i));
  }
  return err;
}

// The first host that is on the same machine as host `index`.
static uint32_t machine_of(const struct bench_ep_hosts *hosts, uint32_t index) {
  uint32_t first = 0;
  while (first < index && hosts->meet && !meet_same_machine(hosts->meet, first, index))
    first++;
  return first;
}

int bench_ep_hosts_gather(struct bench_ep_hosts *hosts, const struct bench_ep_command *command, uint32_t num_times,
                          struct bench_ep_found *found) {
  char name[32], prefix[BENCH_STORE_PREFIX + 64];
  int err = 0;
  for (uint32_t r = 0; r < found->num_ranks; r++)
    found->ranks[r].machine = machine_of(hosts, r / hosts->local_ranks);
  if (hosts->meet) {
    uint32_t first = hosts->index * hosts->local_ranks;
    json_t **all = calloc(hosts->size, sizeof *all);
    json_t *mine = bench_ep_found_to_json(found, first, hosts->local_ranks, num_times);
    snprintf(name, sizeof name, "point-%u", command->sequence);
    err = all && mine ? meet_all_gather(hosts->meet, name, mine, hosts->timeout_ms, all)
                      : fail(WEFT_ERR_NOMEM, "no memory for what %u hosts measured", hosts->size);
    if (!err)
      err = take_all(hosts, all, num_times, found);
    for (uint32_t i = 0; all && i < hosts->size; i++)
      json_decref(all[i]);
    free(all);
    json_decref(mine);
  }
  snprintf(prefix, sizeof prefix, "%sep-%s/ep/%u/", hosts->store.prefix, hosts->id, command->sequence);
  if (!err && hosts->index == 0) // all ranks have left the group by now
    err = weft_store_delete(hosts->store.client, prefix, true, NULL);
  return err;
}
