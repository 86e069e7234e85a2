// Settles the options: finds back ends, rounds numbers, and refuses options that contradict each other.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "bench/transfer/pairs.h"

const char *const transfer_runtime_names[] = {"ETCD", "ASIO", NULL};
const char *const transfer_worker_names[] = {"nixl", "nvshmem", NULL};
const char *const transfer_segment_names[] = {"DRAM", "VRAM", NULL};
const char *const transfer_scheme_names[] = {"pairwise", "manytoone", "onetomany", "tp", NULL};
const char *const transfer_mode_names[] = {"SG", "MG", NULL};
const char *const transfer_op_names[] = {"READ", "WRITE", NULL}; // enum weft_transfer_op
const char *const transfer_location_names[] = {"none", "blockaligned", "bytealigned", NULL};
const char *const transfer_posix_names[] = {"AIO", "URING", "POSIXAIO", NULL};
const char *const transfer_obj_scheme_names[] = {"http", "https", NULL};
const char *const transfer_checksum_names[] = {"supported", "required", NULL};

// --- back ends ---

static const struct transfer_backend known[] = {
    {.name = "UCX", .transport = "ucx"},
    {.name = "LIBFABRIC", .transport = "ofi"},
    {.name = "OFI", .transport = "ofi"},
    {.name = "SHM", .transport = "shm"},
    {.name = "CUDA", .transport = "cuda"},
    {.name = "AUTO"},
    {.name = "POSIX", .transport = "file", .storage = TRANSFER_FILES},
    {.name = "GDS", .transport = "file", .storage = TRANSFER_FILES},
    {.name = "GDS_MT", .transport = "file", .storage = TRANSFER_FILES},
    {.name = "OBJ", .transport = "object", .storage = TRANSFER_OBJECTS},
};

static const char *const of_vendors[] = {"GPUNETIO", "MOONCAKE", "HF3FS",   "GUSLI",
                                         "UCX_MO",   "UCCL",     "INFINIA", "AZURE_BLOB"};

static const struct transfer_backend *find_backend(const char *name, size_t size) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strlen(known[i].name) == size && strncasecmp(known[i].name, name, size) == 0)
      return &known[i];
  return NULL;
}

static int refuse_backend(const char *name, size_t size) {
  for (size_t i = 0; i < sizeof of_vendors / sizeof *of_vendors; i++)
    if (strlen(of_vendors[i]) == size && strncasecmp(of_vendors[i], name, size) == 0)
      return fail(
          WEFT_ERR_UNSUPPORTED,
          "--backend %s: Weft has no such back end, as it needs a vendor's library or service; want one of UCX, "
          "LIBFABRIC, SHM, CUDA, AUTO, POSIX, GDS, GDS_MT, OBJ",
          of_vendors[i]);
  return fail(WEFT_ERR_INVALID,
              "--backend %.*s: there is no back end of that name; want one or, separated by commas, several of UCX, "
              "LIBFABRIC, SHM, CUDA and AUTO, or of POSIX, GDS and GDS_MT, or OBJ",
              (int)size, name);
}

static int add_backend(struct transfer_plan *plan, const char *name, size_t size) {
  const struct transfer_backend *found = find_backend(name, size);
  if (!found)
    return refuse_backend(name, size);
  if (plan->num_backends == TRANSFER_MAX_BACKENDS)
    return fail(WEFT_ERR_INVALID, "--backend names more than %d", TRANSFER_MAX_BACKENDS);
  if (plan->num_backends > 0 && found->storage != plan->storage)
    return fail(WEFT_ERR_INVALID,
                "--backend %s: %s and %s do not reach the same kind of memory: measure them in separate commands",
                plan->config.backend, plan->backends[0].name, found->name);
  for (uint32_t i = 0; i < plan->num_backends; i++)
    if (strcmp(plan->backends[i].name, found->name) == 0) // two rows could not be distinguished
      return fail(WEFT_ERR_INVALID, "--backend %s: %s is named twice; want each once, and --repeat for repeats",
                  plan->config.backend, found->name);
  struct transfer_backend *backend = &plan->backends[plan->num_backends++];
  *backend = *found;
  if (plan->config.transport)
    backend->transport = plan->config.transport;
  plan->storage = found->storage;
  return 0;
}

// Lists each transport once. If a back end takes the cheapest transport, the list is empty: all transports are needed.
static void list_transports(struct transfer_plan *plan) {
  size_t used = 0;
  for (uint32_t i = 0; i < plan->num_backends; i++) {
    const char *name = plan->backends[i].transport;
    if (!name) {
      plan->transports[0] = '\0';
      return;
    }
    bool there = false;
    for (uint32_t j = 0; j < i; j++)
      there |= strcmp(plan->backends[j].transport, name) == 0;
    if (!there && used < sizeof plan->transports)
      used += (size_t)snprintf(plan->transports + used, sizeof plan->transports - used, "%s%s", used ? "," : "", name);
  }
}

static int settle_backends(struct transfer_plan *plan) {
  if (plan->config.transport && strchr(plan->config.transport, ','))
    return fail(
        WEFT_ERR_INVALID,
        "--transport %s: want the name of one transport; --backend takes several names, and measures them in turn",
        plan->config.transport);
  for (const char *at = plan->config.backend;; at++) {
    size_t size = strcspn(at, ",");
    int err = add_backend(plan, at, size);
    if (err)
      return err;
    at += size;
    if (!*at)
      break;
  }
  list_transports(plan);
  return 0;
}

int transfer_check_backends(const char *names) {
  struct transfer_plan plan = {.config = {.backend = names}};
  return settle_backends(&plan);
}

// --- what Weft does not have ---

static int refuse_vendors(const struct transfer_config *config) {
  const struct {
    bool given;
    const char *option, *what;
  } options[] = {
      {config->gpunetio_device_list, "gpunetio_device_list", "GPUNetIO"},
      {config->gpunetio_oob_list, "gpunetio_oob_list", "GPUNetIO"},
      {config->azure_blob_account_url, "azure_blob_account_url", "Azure Blob"},
      {config->azure_blob_container_name, "azure_blob_container_name", "Azure Blob"},
      {config->azure_blob_connection_string, "azure_blob_connection_string", "Azure Blob"},
      {config->infinia_config_file, "infinia_config_file", "Infinia"},
      {config->hf3fs_iopool_size, "hf3fs_iopool_size", "3FS"},
      {config->gusli_client_name, "gusli_client_name", "GUSLI"},
      {config->gusli_max_simultaneous_requests, "gusli_max_simultaneous_requests", "GUSLI"},
      {config->gusli_config_file, "gusli_config_file", "GUSLI"},
      {config->gusli_device_byte_offsets, "gusli_device_byte_offsets", "GUSLI"},
      {config->gusli_device_security, "gusli_device_security", "GUSLI"},
      {config->gusli_try_use_uring, "gusli_try_use_uring", "GUSLI"},
      {config->obj_accelerated_enable || config->obj_accelerated_type, "obj_accelerated_enable",
       "an accelerated S3 client"},
  };
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if (options[i].given)
      return fail(WEFT_ERR_UNSUPPORTED, "--%s is for the back end %s, which Weft does not have: leave it out",
                  options[i].option, options[i].what);
  return 0;
}

static int refuse_kinds(const struct transfer_plan *plan) {
  const struct transfer_config *config = &plan->config;
  bool storage = plan->storage != TRANSFER_NONE;
  bool vram = config->initiator_seg_type == TRANSFER_VRAM || (!storage && config->target_seg_type == TRANSFER_VRAM);
  bool dram = config->initiator_seg_type == TRANSFER_DRAM || (!storage && config->target_seg_type == TRANSFER_DRAM);
  if (config->worker_type != 0)
    return fail(WEFT_ERR_UNSUPPORTED, "--worker_type nvshmem: Weft's workers are its own agents; want nixl");
  if (config->use_device_api)
    return fail(WEFT_ERR_UNSUPPORTED, "--use_device_api: kernels cannot start transfers of weft/agent.h; omit the "
                                      "option ('weft bench ep' measures what kernels send)");
  if (config->enable_vmm && !vram)
    return fail(WEFT_ERR_INVALID, "--enable_vmm is about GPU memory: want --initiator_seg_type or --target_seg_type "
                                  "VRAM with it");
  if (config->use_hugepages && !dram)
    return fail(WEFT_ERR_INVALID, "--use_hugepages is about host memory: want a segment of type DRAM with it");
  if (config->randomize_location_mode != TRANSFER_FIXED && plan->storage != TRANSFER_FILES)
    return fail(WEFT_ERR_INVALID, "--randomize_location_mode %s is about places in files: want --backend POSIX or GDS",
                transfer_location_names[config->randomize_location_mode]);
  if (plan->storage == TRANSFER_OBJECTS && !config->obj_bucket_name)
    return fail(WEFT_ERR_INVALID, "--backend OBJ needs an existing bucket: want --obj_bucket_name NAME");
  return 0;
}

// --- numbers ---

static void round_up(uint32_t *number, uint32_t step, const char *option) {
  uint64_t rounded = ((uint64_t)*number + step - 1) / step * step;
  if (rounded == *number)
    return;
  fprintf(stderr, "weft: --%s is rounded up from %u to %" PRIu64 ", a multiple of num_threads x large_blk_iter_ftr\n",
          option, *number, rounded);
  *number = (uint32_t)rounded;
}

static int check_sizes(const struct transfer_config *config) {
  if (config->start_block_size > config->max_block_size)
    return fail(WEFT_ERR_INVALID, "--start_block_size %" PRIu64 " is more than --max_block_size %" PRIu64,
                config->start_block_size, config->max_block_size);
  if (config->start_batch_size > config->max_batch_size)
    return fail(WEFT_ERR_INVALID, "--start_batch_size %" PRIu64 " is more than --max_batch_size %" PRIu64,
                config->start_batch_size, config->max_batch_size);
  if (config->reregister_mem && (config->pipeline_depth > 1 || config->num_threads > 1))
    return fail(WEFT_ERR_INVALID, "--reregister_mem deregisters memory that other transfers use: want --pipeline_depth "
                                  "1 and --num_threads 1 with it");
  return 0;
}

// The largest number of areas that lie in one buffer. Each area has a place for every transfer under way.
static uint64_t most_areas(const struct transfer_plan *plan) {
  struct transfer_pairs pairs;
  uint64_t most = 1;
  if (transfer_pairs_make(&pairs, plan) != 0)
    return most;
  for (uint32_t rank = 0; rank < plan->workers; rank++) {
    uint32_t areas = transfer_pairs_areas(&pairs, rank);
    most = areas > most ? areas : most;
  }
  transfer_pairs_free(&pairs);
  return most;
}

static int check_room(const struct transfer_plan *plan) {
  const struct transfer_config *config = &plan->config;
  uint64_t places = (uint64_t)config->num_threads * config->pipeline_depth * config->max_batch_size * most_areas(plan);
  uint64_t fits = config->total_buffer_size / places;
  if (config->max_block_size <= fits)
    return 0;
  return fail(WEFT_ERR_INVALID,
              "--max_block_size %" PRIu64 " does not fit: a buffer has %" PRIu64
              " places (threads, pipeline, batch and "
              "peers) in --total_buffer_size %" PRIu64 ", so the largest block is %" PRIu64,
              config->max_block_size, places, config->total_buffer_size, fits);
}

static int settle_numbers(struct transfer_plan *plan) {
  struct transfer_config *config = &plan->config;
  uint32_t step = config->num_threads * config->large_blk_iter_ftr;
  int err = check_sizes(config);
  if (err)
    return err;
  if (config->max_batch_size > WEFT_AGENT_MAX_DESCRIPTORS)
    return fail(WEFT_ERR_INVALID, "--max_batch_size %" PRIu64 ": a request has at most %d blocks",
                config->max_batch_size, WEFT_AGENT_MAX_DESCRIPTORS);
  plan->iterations = config->num_iter;
  plan->warmup = config->warmup_iter;
  round_up(&plan->iterations, step, "num_iter");
  round_up(&plan->warmup, step, "warmup_iter");
  return 0;
}

int transfer_settle(struct transfer_plan *out, const struct transfer_config *config) {
  struct transfer_plan plan = {.config = *config};
  int err = settle_backends(&plan);
  if (!err)
    err = refuse_vendors(config);
  if (!err)
    err = refuse_kinds(&plan);
  if (!err && plan.storage == TRANSFER_NONE)
    err = transfer_pairs_check(config);
  if (err)
    return err;
  bool storage = plan.storage != TRANSFER_NONE;
  plan.workers = storage ? 1 : plan.config.mode == TRANSFER_MG ? 2 : config->num_initiator_dev + config->num_target_dev;
  err = settle_numbers(&plan);
  if (!err)
    err = check_room(&plan);
  if (!err)
    *out = plan;
  return err;
}
