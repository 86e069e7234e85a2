// A worker's agent and memory, and the cards that workers exchange to know each other.
#include "bench/transfer/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/boot_id.h"
#include "base/processors.h"
#include "base/random.h"
#include "base/signal/stop.h"
#include "bench/common/card.h"

// --- agent and memory ---

static int open_agent(struct transfer_worker *worker) {
  char name[WEFT_AGENT_MAX_NAME];
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  snprintf(name, sizeof name, "bench-%u-%016llx", worker->rank, (unsigned long long)random_id());
  options.name = name;
  options.transports = *worker->plan->transports ? worker->plan->transports : NULL;
  options.transfer_timeout_ms = worker->plan->config.common.timeout_ms;
  int err = weft_agent_open(&worker->agent, &options);
  const char *asked = worker->plan->config.transport;
  return err == WEFT_ERR_NOT_FOUND && asked ? fail_context(WEFT_ERR_INVALID, "--transport %s", asked) : err;
}

// The GPU of the first buffer. The workers of a host take one GPU after the other, in the order of their ranks.
static uint32_t first_gpu(const struct transfer_worker *worker) {
  uint32_t gpu = 0;
  for (uint32_t rank = 0; rank < worker->rank; rank++)
    if (meet_same_host(worker->meet, rank, worker->rank))
      gpu += transfer_pairs_buffers(worker->plan, rank);
  return gpu;
}

static int open_buffers(struct transfer_worker *worker) {
  const struct transfer_config *config = &worker->plan->config;
  bool initiates = transfer_pairs_initiates(&worker->pairs, worker->rank);
  struct transfer_memory memory = {
      .segment = initiates ? config->initiator_seg_type : config->target_seg_type,
      .huge = config->use_hugepages,
      .own = initiates && config->reregister_mem,
      .length = config->max_block_size * config->max_batch_size * config->num_threads * config->pipeline_depth *
                transfer_pairs_areas(&worker->pairs, worker->rank),
  };
  uint32_t count = transfer_pairs_buffers(worker->plan, worker->rank), gpu = worker->meet ? first_gpu(worker) : 0;
  int err = 0;
  for (; worker->num_buffers < count && !err; worker->num_buffers++) {
    memory.gpu = gpu + worker->num_buffers;
    err = transfer_buffer_open(&worker->buffers[worker->num_buffers], worker->agent, &memory);
  }
  return err;
}

static int list_mine(struct transfer_worker *worker) {
  worker->mine = calloc(worker->pairs.count, sizeof *worker->mine);
  worker->others = calloc(worker->size, sizeof *worker->others);
  if (!worker->mine || !worker->others)
    return fail(WEFT_ERR_NOMEM, "no memory for %u workers", worker->size);
  for (uint32_t i = 0; i < worker->pairs.count; i++)
    if (worker->pairs.list[i].initiator.rank == worker->rank)
      worker->mine[worker->num_mine++] = i;
  return 0;
}

// How long the others may take: each transfer of a row has its own deadline, and a worker that fails or dies ends this
// wait at once.
static uint32_t wait_limit_ms(const struct transfer_plan *plan) {
  uint64_t requests = plan->iterations > plan->warmup ? plan->iterations : plan->warmup;
  uint64_t ms = plan->config.common.timeout_ms * (2 + requests);
  return ms < UINT32_MAX / 2 ? (uint32_t)ms : UINT32_MAX / 2;
}

// --- cards ---

static json_t *describe_buffers(const struct transfer_worker *worker) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < worker->num_buffers; i++) {
    const struct transfer_buffer *buffer = &worker->buffers[i];
    char memory[32], gpu[33];
    transfer_buffer_name(buffer, memory, sizeof memory);
    transfer_buffer_uuid(buffer, gpu);
    json_array_append_new(list, json_pack("{s:I, s:I, s:s, s:s}", "region", (json_int_t)buffer->region, "address",
                                          (json_int_t)(uintptr_t)buffer->address, "memory", memory, "gpu", gpu));
  }
  return list;
}

static int malformed(uint32_t rank) {
  return fail(WEFT_ERR_PROTOCOL, "rank %u sent a malformed description of its agent: is it of another version?", rank);
}

static int load_metadata(struct transfer_worker *worker, uint32_t rank, const json_t *card) {
  int err = bench_card_load(worker->agent, json_object_get(card, "metadata"), &worker->sync.peers[rank].peer);
  return err ? fail_context(err, "rank %u on %s", rank, meet_host(worker->meet, rank)) : 0;
}

static int read_buffers(struct transfer_other *other, uint32_t rank, const json_t *card) {
  const json_t *list = json_object_get(card, "buffers"), *one;
  size_t i;
  if (json_array_size(list) == 0 || json_array_size(list) > TRANSFER_MAX_DEVICES)
    return malformed(rank);
  json_array_foreach(list, i, one) {
    struct transfer_remote *remote = &other->buffers[i];
    const char *memory = json_string_value(json_object_get(one, "memory"));
    const char *gpu = json_string_value(json_object_get(one, "gpu"));
    if (!memory || !gpu || !json_is_integer(json_object_get(one, "region")))
      return malformed(rank);
    remote->region = (weft_region_t)json_integer_value(json_object_get(one, "region"));
    remote->address = (uint64_t)json_integer_value(json_object_get(one, "address"));
    snprintf(remote->memory, sizeof remote->memory, "%s", memory);
    snprintf(remote->gpu, sizeof remote->gpu, "%s", gpu);
  }
  other->num_buffers = (uint32_t)json_array_size(list);
  return 0;
}

// Whether this worker needs the card of `rank`: the two are the ends of a pair, or one of them is rank 0, which
// exchanges notifications with all workers.
static bool joined(const struct transfer_worker *worker, uint32_t rank) {
  for (uint32_t i = 0; i < worker->pairs.count; i++) {
    const struct transfer_pair *pair = &worker->pairs.list[i];
    if ((pair->initiator.rank == worker->rank && pair->target.rank == rank) ||
        (pair->target.rank == worker->rank && pair->initiator.rank == rank))
      return true;
  }
  return rank == 0 || worker->rank == 0;
}

static int load_all(struct transfer_worker *worker, json_t *const *all) {
  const char **boots = calloc(worker->size, sizeof *boots);
  int err = boots ? 0 : fail(WEFT_ERR_NOMEM, "no memory for %u workers", worker->size);
  for (uint32_t rank = 0; rank < worker->size && !err; rank++) {
    boots[rank] = json_string_value(json_object_get(all[rank], "boot"));
    if (rank != worker->rank && joined(worker, rank))
      err = load_metadata(worker, rank, all[rank]);
    if (!err)
      err = read_buffers(&worker->others[rank], rank, all[rank]);
    worker->others[rank].processors = (uint32_t)json_integer_value(json_object_get(all[rank], "processors"));
  }
  if (!err) // a worker drops the notifications of a worker whose card it has not loaded
    err = transfer_worker_step(worker, "known");
  worker->sync.agent = worker->agent;
  if (!err)
    err = bench_sync_open(&worker->sync, boots);
  free(boots);
  return err;
}

static int exchange(struct transfer_worker *worker) {
  char boot[BOOT_ID_SIZE] = "", cpus[256];
  uint32_t timeout_ms = worker->plan->config.common.timeout_ms;
  json_t **all = calloc(worker->size, sizeof(json_t *)), *card = NULL, *metadata = NULL;
  int err = all ? bench_card_make(worker->agent, &metadata)
                : fail(WEFT_ERR_NOMEM, "no memory for a description of this worker");
  boot_id_read(boot);
  if (!err)
    card = json_pack("{s:o, s:s, s:o, s:I}", "metadata", metadata, "boot", boot, "buffers", describe_buffers(worker),
                     "processors", (json_int_t)processors_usable(NULL, cpus, sizeof cpus));
  if (!err && !card)
    err = fail(WEFT_ERR_NOMEM, "no memory for a description of this worker");
  if (!err)
    err = bench_sync_init(&worker->sync, worker->meet, timeout_ms);
  worker->sync.start_ms = wait_limit_ms(worker->plan); // others may still be in their warm-up
  if (!err)
    err = meet_all_gather(worker->meet, "cards", card, timeout_ms, all);
  if (!err)
    err = load_all(worker, all);
  for (uint32_t rank = 0; all && rank < worker->size; rank++)
    json_decref(all[rank]);
  free(all);
  json_decref(card);
  return err;
}

// --- opening and closing ---

int transfer_worker_open(struct transfer_worker *worker, const struct transfer_plan *plan, struct meet *meet) {
  *worker = (struct transfer_worker){
      .plan = plan, .meet = meet, .rank = meet ? meet_rank(meet) : 0, .size = meet ? meet_size(meet) : 1, .seed = 1};
  int err = transfer_pairs_make(&worker->pairs, plan);
  if (!err)
    err = list_mine(worker);
  if (!err)
    err = open_agent(worker);
  if (!err)
    err = open_buffers(worker);
  if (!err && plan->storage != TRANSFER_NONE)
    err = transfer_stored_open(&worker->stored, plan, worker->agent);
  if (!err && meet)
    err = exchange(worker);
  if (err)
    transfer_worker_close(worker);
  return err;
}

void transfer_worker_close(struct transfer_worker *worker) {
  if (worker->stored.agent)
    transfer_stored_close(&worker->stored);
  weft_agent_close(worker->agent); // afterwards no transfer of a peer uses the buffers any more
  for (uint32_t i = 0; i < worker->num_buffers; i++)
    transfer_buffer_close(&worker->buffers[i]);
  bench_sync_close(&worker->sync);
  transfer_pairs_free(&worker->pairs);
  free(worker->mine);
  free(worker->others);
  *worker = (struct transfer_worker){0};
}

int transfer_worker_step(struct transfer_worker *worker, const char *name) {
  int err = stop_check();
  return err || !worker->meet ? err : meet_barrier(worker->meet, name, wait_limit_ms(worker->plan));
}

int transfer_worker_start(struct transfer_worker *worker) {
  uint64_t start_ns;
  int err = bench_sync_compare(&worker->sync);
  return err ? err : bench_sync_start(&worker->sync, ++worker->window, NULL, worker->size, &start_ns);
}
