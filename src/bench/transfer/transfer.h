// weft bench transfer: sweeps of reads and writes between workers, or with files and objects, with the options, the
// defaults and the table of nixlbench, and figures of our own.
//
// Every worker runs the same sweep (worker.c). The scheme makes pairs of buffers (pairs.h). A worker moves the data of
// the pairs in which it is the initiator, and provides the memory of the pairs in which it is the target.
#ifndef BENCH_TRANSFER_TRANSFER_H
#define BENCH_TRANSFER_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>
#include <weft/agent.h>

#include "bench/common/output.h"

enum transfer_runtime { TRANSFER_ETCD, TRANSFER_ASIO };
enum transfer_segment { TRANSFER_DRAM, TRANSFER_VRAM };
enum transfer_scheme { TRANSFER_PAIRWISE, TRANSFER_MANYTOONE, TRANSFER_ONETOMANY, TRANSFER_TP };
enum transfer_mode { TRANSFER_SG, TRANSFER_MG };
enum transfer_location { TRANSFER_FIXED, TRANSFER_BLOCK_ALIGNED, TRANSFER_BYTE_ALIGNED };
enum transfer_storage { TRANSFER_NONE, TRANSFER_FILES, TRANSFER_OBJECTS };

// NULL at the end; in the order of the enums.
extern const char *const transfer_runtime_names[],
    *const transfer_worker_names[],
        *const transfer_segment_names[],
            *const transfer_scheme_names[],
                *const transfer_mode_names[], *const transfer_op_names[], *const transfer_location_names[],
                                                                              *const transfer_posix_names[],
                                                                                  *const transfer_obj_scheme_names[],
                                                                                      *const transfer_checksum_names[];

enum { TRANSFER_MAX_BACKENDS = 8, TRANSFER_MAX_THREADS = 64, TRANSFER_MAX_DEVICES = 64, TRANSFER_MAX_FILES = 1024 };

// The options, each under its own name.
struct transfer_config {
  const char *config_file, *backend, *filepath, *filenames, *device_list, *asio_address;
  enum transfer_runtime runtime_type;
  unsigned worker_type;
  enum transfer_segment initiator_seg_type, target_seg_type;
  enum transfer_scheme scheme;
  enum transfer_mode mode;
  enum weft_transfer_op op_type;
  bool check_consistency, recreate_xfer, reregister_mem, prepared_xfer, enable_pt, enable_vmm, use_hugepages,
      storage_enable_direct, use_device_api;
  uint64_t total_buffer_size, start_block_size, max_block_size, start_batch_size, max_batch_size;
  uint32_t num_iter, warmup_iter, large_blk_iter_ftr, pipeline_depth, num_threads, num_initiator_dev, num_target_dev,
      progress_threads, num_files;
  uint32_t gds_batch_pool_size, gds_batch_limit, gds_mt_num_threads;
  uint16_t asio_port;
  enum transfer_location randomize_location_mode;
  uint64_t randomize_location_mode_seed;
  unsigned posix_api_type;
  uint32_t posix_ios_pool_size, posix_kernel_queue_size;
  const char *obj_access_key, *obj_secret_key, *obj_session_token, *obj_bucket_name, *obj_region,
      *obj_endpoint_override, *obj_ca_bundle, *obj_accelerated_type;
  unsigned obj_scheme, obj_req_checksum;
  bool obj_use_virtual_addressing, obj_accelerated_enable;
  uint64_t obj_crt_min_limit;
  // Options of back ends that Weft does not have.
  const char *gpunetio_device_list, *gpunetio_oob_list, *azure_blob_account_url, *azure_blob_container_name,
      *azure_blob_connection_string, *infinia_config_file, *gusli_client_name, *gusli_config_file,
      *gusli_device_byte_offsets, *gusli_device_security;
  uint32_t hf3fs_iopool_size, gusli_max_simultaneous_requests;
  bool gusli_try_use_uring;
  // Our own.
  const char *transport; // exactly this one carries; NULL: the back end's
  // workers that this process starts, including itself; 0: all workers if there is no store, else 1
  uint32_t local_workers;
  struct bench_options common;
};

// A back end that is measured.
struct transfer_backend {
  char name[32];                 // name as given
  const char *transport;         // transport of Weft; NULL: the cheapest suitable one
  enum transfer_storage storage; // kind of storage, or none: then it connects workers
};

// The plan that follows from the options.
struct transfer_plan {
  struct transfer_config config;
  struct transfer_backend backends[TRANSFER_MAX_BACKENDS];
  uint32_t num_backends;
  enum transfer_storage storage; // of all back ends
  uint32_t iterations, warmup;   // of all threads together, up to a block of 1 MiB
  uint32_t workers;              // workers that take part
  uint32_t files;                // storage: number of files
  char transports[256];          // for the agent; "": all
};

// Checks the options and computes the plan; reports rounded values on standard error. INVALID says which options do not
// fit together and what would be right; UNSUPPORTED says what is not available, and why.
int transfer_settle(struct transfer_plan *plan, const struct transfer_config *config);

// Whether `names` would be a right --backend of some run; errors as above.
int transfer_check_backends(const char *names);

struct transfer_call {
  const struct transfer_config *config;
  const char *command;        // "weft bench transfer"
  const json_t *settings;     // object: every option by its name, for the figures and the block of settings; no secrets
  const json_t *agreed;       // the settings that have to be equal in all workers
  struct bench_output output; // after bench_output_init(), with the properties of the terminal
};

// Runs the whole benchmark. CANCELED: a signal came, and everything measured so far is written. DATA: bytes were wrong.
// `*refused`: figures cannot be true, and contain the reason.
int transfer_run(struct transfer_call *call, bool *refused);

// The timed and untimed transfers of one thread for a block size.
static inline uint32_t transfer_share(const struct transfer_plan *plan, uint32_t all, uint64_t block) {
  uint32_t each = all / plan->config.num_threads;
  return block > (1 << 20) ? each / plan->config.large_blk_iter_ftr : each;
}

#endif
