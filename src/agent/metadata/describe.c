// The metadata of an agent.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/memory/region_index.h"
#include "agent/metadata/describe.h"
#include "agent/progress/submit.h"
#include "base/boot_id.h"
#include "base/fail.h"
#include "base/process.h"
#include "base/sized.h"

void agent_identify(weft_agent_t *agent) {
  boot_id_read(agent->host);
  struct stat info;
  agent->pid_namespace = stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
  agent->start_ticks = process_start(getpid());
}

// One block: the description, its regions, their keys, and bytes, which are handed out from its end.
struct block {
  struct agent_description description;
  size_t used, size;
  uint8_t *bytes;
};

static void *keep(struct block *block, const void *bytes, size_t size) {
  uint8_t *place = block->bytes + block->used;
  memcpy(place, bytes, size);
  block->used += size;
  return place;
}

// Workers that others can reach, in their order; `place` is by worker.
static uint32_t count_transports(const weft_agent_t *agent, uint32_t place[AGENT_MAX_WORKERS]) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    bool others = !(agent->workers[i].worker->abilities.flags & TRANSPORT_SELF_ONLY);
    place[i] = others ? count++ : UINT32_MAX;
  }
  return count;
}

static int describe_transports(weft_agent_t *agent, const uint32_t *place, bool with_addresses, struct block *block) {
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    if (place[i] == UINT32_MAX)
      continue;
    struct agent_worker *worker = &agent->workers[i];
    struct agent_transport *to = &block->description.transports[place[i]];
    snprintf(to->name, sizeof to->name, "%s", worker->transport->name);
    if (!with_addresses)
      continue;
    uint8_t address[TRANSPORT_MAX_ADDRESS];
    size_t size = sizeof address;
    agent_worker_lock(worker);
    int rc = worker->transport->address(worker->worker, address, &size);
    agent_worker_unlock(worker);
    if (rc != 0)
      return rc;
    to->address = keep(block, address, size);
    to->address_size = (uint32_t)size;
  }
  return 0;
}

static int describe_keys(weft_agent_t *agent, const uint32_t *place, const struct agent_region *region,
                         struct agent_region_description *to, struct agent_key *keys, struct block *block) {
  to->keys = keys;
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    if (place[i] == UINT32_MAX || !region->local[i])
      continue;
    struct agent_worker *worker = &agent->workers[i];
    if (!(worker->worker->abilities.remote_kinds & 1u << region->kind))
      continue;
    uint8_t key[TRANSPORT_MAX_KEY];
    size_t size = sizeof key;
    agent_worker_lock(worker);
    int rc = worker->transport->pack(region->local[i], key, &size);
    agent_worker_unlock(worker);
    if (rc != 0)
      return rc;
    keys[to->num_keys++] =
        (struct agent_key){.transport = place[i], .size = (uint32_t)size, .bytes = keep(block, key, size)};
  }
  return 0;
}

static int describe_all(weft_agent_t *agent, struct agent_region *const *regions, uint32_t count, bool with_addresses,
                        struct block *block) {
  uint32_t place[AGENT_MAX_WORKERS], num_transports = count_transports(agent, place);
  struct agent_description *description = &block->description;
  struct agent_region_description *described = (void *)(block + 1);
  struct agent_key *keys = (void *)(described + count);
  block->bytes = (void *)(keys + (size_t)count * num_transports);
  *description = (struct agent_description){.incarnation = agent->incarnation,
                                            .change = agent->change,
                                            .complete = with_addresses,
                                            .pid_namespace = agent->pid_namespace,
                                            .start_ticks = agent->start_ticks,
                                            .pid = (int32_t)getpid(),
                                            .heartbeat_ms = agent->options.heartbeat_ms,
                                            .num_transports = num_transports,
                                            .num_regions = count,
                                            .regions = described};
  memcpy(description->name, agent->name, sizeof description->name);
  memcpy(description->host, agent->host, sizeof description->host);
  memcpy(description->key, agent->exchange.public_key, sizeof description->key);
  int rc = describe_transports(agent, place, with_addresses, block);
  for (uint32_t i = 0; rc == 0 && i < count; i++) {
    struct agent_region *region = regions[i];
    region->described = true;
    described[i] = (struct agent_region_description){.id = region->id,
                                                     .kind = region->kind,
                                                     .read_only = region->read_only,
                                                     .address = region->address,
                                                     .length = region->length == UINT64_MAX ? 0 : region->length,
                                                     .device = region->device};
    rc = describe_keys(agent, place, region, &described[i], keys + (size_t)i * num_transports, block);
  }
  return rc;
}

static int by_id(const void *left, const void *right) {
  const struct agent_region *const *a = left, *const *b = right;
  return ((*a)->id > (*b)->id) - ((*a)->id < (*b)->id);
}

// The requested regions, ascending, each once; or all published ones. [lock]
static int gather(weft_agent_t *agent, const weft_region_t *ids, uint32_t num_ids, struct agent_region **regions,
                  uint32_t *count) {
  const struct agent_ranges *own = &agent->self.regions;
  uint32_t number = 0;
  for (uint32_t i = 0; !ids && i < own->count; i++)
    if (!own->by_id[i]->no_metadata)
      regions[number++] = own->by_id[i];
  for (uint32_t i = 0; ids && i < num_ids; i++) {
    regions[number] = agent_ranges_get(own, ids[i]);
    if (!regions[number])
      return fail(WEFT_ERR_NOT_FOUND, "there is no region %" PRIu64 " to describe", ids[i]);
    if (regions[number]->no_metadata)
      return fail(WEFT_ERR_INVALID, "region %" PRIu64 " was registered with WEFT_MEMORY_NO_METADATA", ids[i]);
    number++;
  }
  qsort(regions, number, sizeof *regions, by_id);
  *count = 0;
  for (uint32_t i = 0; i < number; i++)
    if (i == 0 || regions[i] != regions[i - 1])
      regions[(*count)++] = regions[i];
  return 0;
}

static int describe_locked(weft_agent_t *agent, const weft_region_t *ids, uint32_t num_ids, bool with_addresses,
                           struct agent_description **description) {
  uint32_t most = ids ? num_ids : agent->self.regions.count, count = 0;
  struct agent_region **regions = malloc((most + 1) * sizeof *regions);
  if (!regions)
    return fail(WEFT_ERR_NOMEM, "no memory to describe %u regions", most);
  int rc = gather(agent, ids, num_ids, regions, &count);
  struct block *block = NULL;
  if (rc == 0) {
    // The largest possible size; unused memory is not touched.
    size_t each = sizeof(struct agent_region_description) +
                  agent->num_workers * (sizeof(struct agent_key) + (size_t)TRANSPORT_MAX_KEY);
    block = malloc(sizeof *block + count * each + (size_t)AGENT_MAX_WORKERS * TRANSPORT_MAX_ADDRESS);
    rc = block ? 0 : fail(WEFT_ERR_NOMEM, "no memory to describe %u regions", count);
  }
  if (rc == 0) {
    block->used = 0;
    rc = describe_all(agent, regions, count, with_addresses, block);
    block->description.all_regions = !ids;
  }
  free(regions);
  if (rc == 0)
    *description = &block->description;
  else
    free(block);
  return rc;
}

int agent_describe(weft_agent_t *agent, const weft_region_t *regions, uint32_t num_regions, bool with_addresses,
                   struct agent_description **description) {
  pthread_mutex_lock(&agent->lock);
  int rc = describe_locked(agent, regions, num_regions, with_addresses, description);
  pthread_mutex_unlock(&agent->lock);
  return rc;
}

// Which regions the options choose: `*ids` NULL: all.
static int choose_regions(const struct weft_metadata_options *options, const weft_region_t **ids) {
  static const weft_region_t none;
  const uint32_t known = WEFT_METADATA_ADDRESSES | WEFT_METADATA_ALL_REGIONS;
  bool all = options->flags & WEFT_METADATA_ALL_REGIONS;
  if (options->flags & ~known)
    return fail(WEFT_ERR_INVALID, "flags of the metadata are 0x%x, and 0x%x is none of enum weft_metadata_flag",
                options->flags, options->flags & ~known);
  if (all && options->num_regions > 0)
    return fail(WEFT_ERR_INVALID, "WEFT_METADATA_ALL_REGIONS is set, but %u regions are named: want one or the other",
                options->num_regions);
  if (options->num_regions > 0 && !options->regions)
    return fail(WEFT_ERR_INVALID, "regions is NULL, but their number is %u", options->num_regions);
  *ids = all ? NULL : options->num_regions > 0 ? options->regions : &none;
  return 0;
}

int agent_describe_chosen(weft_agent_t *agent, const struct weft_metadata_options *given,
                          struct agent_description **description) {
  static const struct weft_metadata_options defaults = WEFT_METADATA_OPTIONS_INIT;
  struct weft_metadata_options copy;
  const struct weft_metadata_options *options = given ? given : &defaults;
  options = SIZED_READ(options, &copy, regions, "weft_metadata_options");
  const weft_region_t *ids = NULL;
  int rc = options ? choose_regions(options, &ids) : sized_refusal(given, sizeof copy);
  return rc == 0
             ? agent_describe(agent, ids, options->num_regions, options->flags & WEFT_METADATA_ADDRESSES, description)
             : rc;
}

int weft_agent_metadata(weft_agent_t *agent, const struct weft_metadata_options *options, void *blob, size_t cap,
                        size_t *size) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!size || (cap > 0 && !blob))
    return fail(WEFT_ERR_INVALID, "%s is NULL", !size ? "size" : "blob");
  struct agent_description *description;
  int err = agent_describe_chosen(agent, options, &description);
  if (err)
    return err;
  size_t need = 0; // the size is computed first: the blob is written completely or not at all
  err = agent_blob_write(description, agent_seal(agent), NULL, &need);
  if (err == WEFT_ERR_ROOM) {
    *size = need;
    if (cap == 0)
      err = 0;
    else if (cap < need)
      err = fail(WEFT_ERR_ROOM, "metadata takes %zu bytes, but there is room for %zu", need, cap);
    else
      err = agent_blob_write(description, agent_seal(agent), blob, &need);
  }
  free(description);
  return err;
}
