// The options of `weft bench transfer`: those of nixlbench with their names and defaults, and Weft's own.
#include "bench/transfer/transfer.h"
#include "cli/bench/transfer.h"
#include "cli/process/terminal.h"

// More than any memory or file has. So sizes can be doubled and multiplied without an overflow of 64 bits.
#define MOST_BYTES (UINT64_C(1) << 50)

#define CONFIG        struct transfer_config
#define FIELD(member) OPTION_FIELD(CONFIG, member)

// A row with only a name, a type, a default and a help text.
#define TEXT(name_, member, metavar_, help_)                                                                           \
  { .name = name_, .type = OPTION_STRING, .metavar = metavar_, FIELD(member), .help = help_ }
#define FLAG(name_, member, help_)                                                                                     \
  { .name = name_, .type = OPTION_FLAG, .preset = "false", FIELD(member), .help = help_ }
#define NUMBER(name_, member, least, most, preset_, help_)                                                             \
  {                                                                                                                    \
    .name = name_, .type = OPTION_UINT, .metavar = "N", .min = least, .max = most, .preset = preset_, FIELD(member),   \
    .help = help_                                                                                                      \
  }
#define CHOICE(name_, member, choices_, metavar_, preset_, help_)                                                      \
  {                                                                                                                    \
    .name = name_, .type = OPTION_ENUM, .metavar = metavar_, .choices = choices_, .preset = preset_, FIELD(member),    \
    .help = help_                                                                                                      \
  }
#define SECRET(name_, member, metavar_, help_)                                                                         \
  { .name = name_, .type = OPTION_STRING, .metavar = metavar_, .secret = true, FIELD(member), .help = help_ }
#define VENDOR(name_, member) TEXT(name_, member, "TEXT", "of a back end that Weft does not have: refused")
#define VENDOR_NUMBER(name_, member)                                                                                   \
  {                                                                                                                    \
    .name = name_, .type = OPTION_UINT, .metavar = "N", FIELD(member),                                                 \
    .help = "of a back end that Weft does not have: "                                                                  \
            "refused"                                                                                                  \
  }

// clang-format off
const struct cli_option cli_bench_transfer_rows[] = {
  {.section = "What is measured", .name = "config-file", .type = OPTION_PATH, .metavar = "FILE", FIELD(config_file),
   .help = "TOML file that sets any of these options at its top level; the command line overrides it"},
  {.name = "backend", .type = OPTION_STRING, .metavar = "NAMES", .preset = "UCX", FIELD(backend),
   .help = "what carries the bytes: UCX, LIBFABRIC, SHM, CUDA, or AUTO (the cheapest); POSIX, GDS or GDS_MT for files; "
   "OBJ for objects of S3. Several, separated by commas, are measured in turn"},
  CHOICE("op-type", op_type, transfer_op_names, "OP", "WRITE", "direction of the transfers"),
  CHOICE("scheme", scheme, transfer_scheme_names, "SCHEME", "pairwise", "which workers exchange data: initiator i and "
   "target i; all initiators and one target; one initiator and all targets; or tp, where each worker of the smaller "
   "side serves an equal share of the larger side"),
  CHOICE("mode", mode, transfer_mode_names, "MODE", "SG", "SG: one worker for each device; MG: two workers, each with "
   "all its devices"),
  NUMBER("num-initiator-dev", num_initiator_dev, 1, 64, "1", "initiators: workers with SG, devices of one worker with "
   "MG"),
  NUMBER("num-target-dev", num_target_dev, 1, 64, "1", "targets, in the same way"),
  CHOICE("initiator-seg-type", initiator_seg_type, transfer_segment_names, "KIND", "DRAM", "memory of initiators: of "
   "the host or of a GPU. The workers of a host use its GPUs in turn"),
  CHOICE("target-seg-type", target_seg_type, transfer_segment_names, "KIND", "DRAM", "memory of targets"),
  {.name = "start-block-size", .type = OPTION_UINT, .metavar = "BYTES", .min = 1, .max = MOST_BYTES, .preset = "4096",
   .unit = "bytes", FIELD(start_block_size), .help = "smallest block; each further size is twice the one before"},
  {.name = "max-block-size", .type = OPTION_UINT, .metavar = "BYTES", .min = 1, .max = MOST_BYTES,
   .preset = "67108864", .unit = "bytes", FIELD(max_block_size), .help = "largest block"},
  NUMBER("start-batch-size", start_batch_size, 1, 1 << 20, "1", "fewest blocks of a request; each further number is "
   "twice the one before"),
  NUMBER("max-batch-size", max_batch_size, 1, 1 << 20, "1", "most blocks of a request"),
  {.name = "total-buffer-size", .type = OPTION_UINT, .metavar = "BYTES", .min = 1, .max = MOST_BYTES,
   .preset = "8589934592", .unit = "bytes", FIELD(total_buffer_size),
   .help = "most memory of a device, and the range of random places in files; memory that is not needed is not "
   "allocated"},
  NUMBER("num-iter", num_iter, 1, 10000000, "1000", "timed requests of all threads together; rounded up to a multiple "
         "of num_threads x large_blk_iter_ftr"),
  NUMBER("warmup-iter", warmup_iter, 0, 10000000, "100", "untimed requests before them; rounded in the same way"),
  NUMBER("large-blk-iter-ftr", large_blk_iter_ftr, 1, 1000000, "16", "for blocks above 1 MiB the number of requests "
   "is divided by this"),
  NUMBER("num-threads", num_threads, 1, 64, "1", "threads of an initiator that post requests"),
  NUMBER("pipeline-depth", pipeline_depth, 1, 1024, "1", "requests in flight at once in each thread"),
  FLAG("recreate-xfer", recreate_xfer, "make a new request each time, in the timed loop"),
  FLAG("reregister-mem", reregister_mem, "register the initiator's memory again before each request, in the timed "
   "loop"),
  FLAG("prepared-xfer", prepared_xfer, "prepare lists of descriptors once, and make each request from them"),
  FLAG("check-consistency", check_consistency, "check every byte where it arrived; its value depends on its place and "
   "its iteration"),

  {.section = "Memory and threads", .name = "use-hugepages", .type = OPTION_FLAG, .preset = "false",
   FIELD(use_hugepages), .help = "huge pages for host memory"},
  FLAG("enable-vmm", enable_vmm, "accepted: GPU memory comes from CUDA's virtual memory management in any case"),
  FLAG("enable-pt", enable_pt, "a progress thread: Weft's agents have one in any case"),
  NUMBER("progress-threads", progress_threads, 0, 64, "0", "accepted: an agent has one progress thread"),
  CHOICE("worker-type", worker_type, transfer_worker_names, "TYPE", "nixl", "accepted: nixl means Weft's own agents"),
  FLAG("use-device-api", use_device_api, "transfers that kernels start: refused"),
  {.name = "device-list", .type = OPTION_STRING, .metavar = "NICS", .preset = "all", FIELD(device_list),
   .help = "NICs to use, with commas between them"},
  TEXT("transport", transport, "NAME", "use exactly this transport of Weft ('weft info' lists them) instead of those "
   "of the back end"),

  {.section = "Files", .name = "filepath", .type = OPTION_PATH, .metavar = "FOLDER",
   .preset_note = "the working folder", FIELD(filepath), .help = "folder in which files are made, which are removed "
   "at the end"},
  TEXT("filenames", filenames, "NAMES", "files to use instead, separated by commas; they are made if they do "
   "not exist, their contents are overwritten, and they are not removed"),
  NUMBER("num-files", num_files, 1, TRANSFER_MAX_FILES, "1", "number of files over which the blocks are spread in "
   "turn"),
  FLAG("storage-enable-direct", storage_enable_direct, "refuse a file system without O_DIRECT; Weft bypasses the page "
   "cache in any case if whole pages are moved and the file system allows it"),
  CHOICE("randomize-location-mode", randomize_location_mode, transfer_location_names, "MODE", "none", "places in "
         "files: one after the other, or random ones"),
  {.name = "randomize-location-mode-seed", .type = OPTION_UINT, .metavar = "N", .preset = "0",
   FIELD(randomize_location_mode_seed), .help = "of the random places"},
  CHOICE("posix-api-type", posix_api_type, transfer_posix_names, "API", "AIO", "accepted: Weft uses io_uring, or "
         "pread() and pwrite() where there is none"),
  NUMBER("posix-ios-pool-size", posix_ios_pool_size, 1, 1 << 30, "65536", "accepted: Weft needs no such pool"),
  NUMBER("posix-kernel-queue-size", posix_kernel_queue_size, 1, 1 << 20, "256", "accepted: Weft chooses it"),
  NUMBER("gds-batch-pool-size", gds_batch_pool_size, 1, 1 << 20, "32", "accepted: Weft needs no such pool"),
  NUMBER("gds-batch-limit", gds_batch_limit, 1, 1 << 20, "128", "accepted: Weft needs no such limit"),
  NUMBER("gds-mt-num-threads", gds_mt_num_threads, 1, 64, "1", "accepted: Weft chooses it"),

  {.section = "Objects", .name = "obj-bucket-name", .type = OPTION_STRING, .metavar = "NAME", FIELD(obj_bucket_name),
   .help = "bucket, which has to exist; its objects are overwritten, and are not removed"},
  {.name = "obj-access-key", .type = OPTION_STRING, .metavar = "KEY", .secret = true, FIELD(obj_access_key),
   .preset_note = "AWS_ACCESS_KEY_ID", .help = "access key"},
  {.name = "obj-secret-key", .type = OPTION_STRING, .metavar = "KEY", .secret = true, FIELD(obj_secret_key),
   .preset_note = "AWS_SECRET_ACCESS_KEY", .help = "secret key"},
  {.name = "obj-session-token", .type = OPTION_STRING, .metavar = "TOKEN", .secret = true, FIELD(obj_session_token),
   .preset_note = "AWS_SESSION_TOKEN, if the access key is the environment's", .help = "session token"},
  CHOICE("obj-scheme", obj_scheme, transfer_obj_scheme_names, "SCHEME", "http", "for an endpoint that names none"),
  {.name = "obj-region", .type = OPTION_STRING, .metavar = "REGION", .preset = "eu-central-1", FIELD(obj_region),
   .help = "region of the server"},
  FLAG("obj-use-virtual-addressing", obj_use_virtual_addressing, "name the bucket in the host name, as without an "
   "endpoint"),
  {.name = "obj-endpoint-override", .type = OPTION_STRING, .metavar = "URL", .preset_note = "AWS_ENDPOINT_URL_S3, "
   "AWS_ENDPOINT_URL, else Amazon's", FIELD(obj_endpoint_override), .help = "server, HOST:PORT or its URL"},
  CHOICE("obj-req-checksum", obj_req_checksum, transfer_checksum_names, "WHEN", "supported", "accepted: Weft sends no "
   "checksums; TLS, or without it TCP, protects the bytes on the way"),
  {.name = "obj-ca-bundle", .type = OPTION_PATH, .metavar = "FILE", FIELD(obj_ca_bundle),
   .preset_note = "those of the system", .help = "certificates of the CA that signed the server's certificate"},
  {.name = "obj-crt-min-limit", .type = OPTION_UINT, .metavar = "BYTES", .preset = "0", FIELD(obj_crt_min_limit),
   .help = "accepted: Weft uses one client for all sizes"},
  FLAG("obj-accelerated-enable", obj_accelerated_enable, "refused: there is no such client"),
  VENDOR("obj-accelerated-type", obj_accelerated_type),

  {.section = "Back ends of vendors, which are refused with the reason", .name = "gpunetio-device-list",
   .type = OPTION_STRING, .metavar = "TEXT", FIELD(gpunetio_device_list),
   .help = "of a back end that Weft does not have: refused"},
  VENDOR("gpunetio-oob-list", gpunetio_oob_list),
  VENDOR("azure-blob-account-url", azure_blob_account_url),
  VENDOR("azure-blob-container-name", azure_blob_container_name),
  SECRET("azure-blob-connection-string", azure_blob_connection_string, "TEXT", "of a back end that Weft does not have: "
         "refused"),
  VENDOR("infinia-config-file", infinia_config_file),
  VENDOR_NUMBER("hf3fs-iopool-size", hf3fs_iopool_size),
  VENDOR("gusli-client-name", gusli_client_name),
  VENDOR_NUMBER("gusli-max-simultaneous-requests", gusli_max_simultaneous_requests),
  VENDOR("gusli-config-file", gusli_config_file),
  VENDOR("gusli-device-byte-offsets", gusli_device_byte_offsets),
  VENDOR("gusli-device-security", gusli_device_security),
  FLAG("gusli-try-use-uring", gusli_try_use_uring, "of a back end that Weft does not have: refused"),

  {.section = "Workers", .name = "local-workers", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 128,
   .preset_note = "all workers if no store is named, else 1", FIELD(local_workers),
   .help = "workers that this command starts on this host"},
  CHOICE("runtime-type", runtime_type, transfer_runtime_names, "TYPE", "ETCD", "how workers find each other: ETCD: on "
   "a store; ASIO: the worker that can listen at --asio_address has the store, and is rank 0"),
  {.name = "asio-address", .type = OPTION_STRING, .metavar = "ADDRESS", .preset = "127.0.0.1", FIELD(asio_address),
   .help = "numeric address of rank 0's host"},
  {.name = "asio-port", .type = OPTION_UINT, .metavar = "PORT", .min = 1, .max = 65535, .preset = "12345",
   FIELD(asio_port), .help = "port there"},
  BENCH_OPTION_ROWS_STORE(CONFIG, common),
  BENCH_OPTION_ROWS_OUTPUT(CONFIG, common),
};
// clang-format on

_Static_assert(sizeof cli_bench_transfer_rows / sizeof *cli_bench_transfer_rows == CLI_BENCH_TRANSFER_ROWS,
               "the number in transfer.h");

const char *const cli_bench_transfer_may_be_empty[] = {
    "asio-address",
    "azure-blob-account-url",
    "azure-blob-connection-string",
    "azure-blob-container-name",
    "backend",
    "benchmark-group",
    "config-file",
    "device-list",
    "etcd-endpoints",
    "filenames",
    "filepath",
    "gpunetio-device-list",
    "gpunetio-oob-list",
    "gusli-client-name",
    "gusli-config-file",
    "gusli-device-byte-offsets",
    "gusli-device-security",
    "infinia-config-file",
    "obj-accelerated-type",
    "obj-access-key",
    "obj-bucket-name",
    "obj-ca-bundle",
    "obj-endpoint-override",
    "obj-region",
    "obj-req-checksum",
    "obj-scheme",
    "obj-secret-key",
    "obj-session-token",
    NULL,
};
