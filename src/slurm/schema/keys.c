// One table for each kind of table in the files. Sources: CloudAI's schema of tests, scenarios and Slurm systems; and
// what Weft adds to systems: container_runtime, container_image, qos, reservation.
#include "slurm/schema/keys.h"

#include <string.h>

#include "slurm/schema/words.h"

static const char *const templates[] = {"NixlEP", "NIXLBench", NULL};
static const char *const agents[] = {"grid_search", NULL};
static const char *const rewards[] = {"inverse", "negative", "identity", NULL};
static const char *const dependency_types[] = {"start_post_comp", "end_post_comp", "start_post_init", NULL};
static const char *const schedulers[] = {"slurm", NULL};
static const char *const runtimes[] = {"none", "pyxis", "enroot", "apptainer", NULL};

#define POSITIVE .types = SCHEMA_INTEGER, .min = 1, .max = INT64_MAX
#define STRINGS  .types = SCHEMA_ARRAY, .elements = SCHEMA_STRING

// clang-format off
static const struct slurm_key git_repo_keys[] = {
  {.name = "url", .types = SCHEMA_STRING, .required = true},
  {.name = "commit", .types = SCHEMA_STRING, .required = true},
  {.name = "init_submodules", .types = SCHEMA_BOOLEAN},
  {.name = "mount_as", .types = SCHEMA_STRING},
};
static const struct slurm_schema git_repo = SLURM_SCHEMA("git_repos", git_repo_keys, false);

static const struct slurm_key nsys_keys[] = {
  {.name = "enable", .types = SCHEMA_BOOLEAN},
  {.name = "nsys_binary", .types = SCHEMA_STRING},
  {.name = "task", .types = SCHEMA_STRING},
  {.name = "output", .types = SCHEMA_STRING},
  {.name = "sample", .types = SCHEMA_STRING},
  {.name = "trace", .types = SCHEMA_STRING},
  {.name = "force_overwrite", .types = SCHEMA_BOOLEAN},
  {.name = "capture_range", .types = SCHEMA_STRING},
  {.name = "capture_range_end", .types = SCHEMA_STRING},
  {.name = "cuda_graph_trace", .types = SCHEMA_STRING},
  {.name = "gpu_metrics_devices", .types = SCHEMA_STRING},
  {.name = "extra_args", STRINGS},
};
static const struct slurm_schema nsys = SLURM_SCHEMA("nsys", nsys_keys, false);

// Keys of a test, in its own file or in its entry of a scenario.
#define TEST_KEYS(required_) \
  {.name = "name", .types = SCHEMA_STRING, .required = required_, .check = slurm_line_check}, \
  {.name = "description", .types = SCHEMA_STRING, .required = required_}, \
  {.name = "test_template_name", .types = SCHEMA_STRING, .required = required_, .choices = templates}, \
  {.name = "cmd_args", .types = SCHEMA_TABLE, .required = required_}, \
  {.name = "extra_env_vars", .types = SCHEMA_TABLE}, \
  {.name = "extra_cmd_args", .types = SCHEMA_TABLE}, \
  {.name = "extra_container_mounts", STRINGS}, \
  {.name = "git_repos", .types = SCHEMA_ARRAY, .elements = SCHEMA_TABLE, .inside = &git_repo}, \
  {.name = "nsys", .types = SCHEMA_TABLE, .inside = &nsys}, \
  {.name = "dse_excluded_args", STRINGS}, \
  {.name = "agent", .types = SCHEMA_STRING, .choices = agents}, \
  {.name = "agent_steps", POSITIVE}, \
  {.name = "agent_metrics", STRINGS}, \
  {.name = "agent_reward_function", .types = SCHEMA_STRING, .choices = rewards}, \
  {.name = "agent_config", .types = SCHEMA_TABLE}, \
  {.name = "env_params", .types = SCHEMA_TABLE}

static const struct slurm_key test_keys[] = {
  TEST_KEYS(true),
  {.name = "etcd_image_url", .types = SCHEMA_STRING},
};
const struct slurm_schema slurm_keys_test = SLURM_SCHEMA("a test", test_keys, false);

static const struct slurm_key dependency_keys[] = {
  {.name = "type", .types = SCHEMA_STRING, .required = true, .choices = dependency_types},
  {.name = "id", .types = SCHEMA_STRING, .required = true},
};
static const struct slurm_schema dependency = SLURM_SCHEMA("dependencies", dependency_keys, false);

static const struct slurm_key entry_keys[] = {
  {.name = "id", .types = SCHEMA_STRING, .required = true, .check = slurm_id_check},
  {.name = "test_name", .types = SCHEMA_STRING},
  {.name = "path", .types = SCHEMA_STRING},
  {.name = "num_nodes", .types = SCHEMA_INTEGER, .grid = true, .min = 1, .max = 65536},
  {.name = "nodes", STRINGS},
  {.name = "exclude_nodes", STRINGS},
  {.name = "weight", .types = SCHEMA_NUMBER, .min = 0, .max = INT64_MAX},
  {.name = "iterations", .types = SCHEMA_INTEGER, .min = 1, .max = 10000},
  {.name = "sol", .types = SCHEMA_NUMBER, .min = 0, .max = INT64_MAX},
  {.name = "ideal_perf", .types = SCHEMA_NUMBER},
  {.name = "time_limit", .types = SCHEMA_STRING, .check = slurm_time_limit_check},
  {.name = "extra_srun_args", .types = SCHEMA_STRING},
  {.name = "dependencies", .types = SCHEMA_ARRAY, .elements = SCHEMA_TABLE, .inside = &dependency},
  {.name = "pre_test", .types = SCHEMA_STRING},
  {.name = "post_test", .types = SCHEMA_STRING},
  {.name = "job_status_check", .types = SCHEMA_BOOLEAN},
  {.name = "reports", .types = SCHEMA_TABLE},
  TEST_KEYS(false),
  {.name = "etcd_image_url", .types = SCHEMA_STRING},
};
// [[Tests]], with or without a test's own keys.
static const struct slurm_schema entry = SLURM_SCHEMA("[[Tests]]", entry_keys, false);

static const struct slurm_key scenario_keys[] = {
  {.name = "name", .types = SCHEMA_STRING, .required = true, .check = slurm_id_check},
  {.name = "Tests", .types = SCHEMA_ARRAY, .required = true, .elements = SCHEMA_TABLE, .inside = &entry},
  {.name = "job_status_check", .types = SCHEMA_BOOLEAN},
  {.name = "pre_test", .types = SCHEMA_STRING},
  {.name = "post_test", .types = SCHEMA_STRING},
  {.name = "sol_path", .types = SCHEMA_STRING},
  {.name = "reports", .types = SCHEMA_TABLE},
};
const struct slurm_schema slurm_keys_scenario = SLURM_SCHEMA("a scenario", scenario_keys, false);

static const struct slurm_key group_keys[] = {
  {.name = "name", .types = SCHEMA_STRING, .required = true},
  {.name = "nodes", STRINGS, .required = true, .check = slurm_line_check},
};
static const struct slurm_schema group = SLURM_SCHEMA("groups", group_keys, false);

static const struct slurm_key partition_keys[] = {
  {.name = "name", .types = SCHEMA_STRING, .required = true, .check = slurm_line_check},
  {.name = "nodes", STRINGS},
  {.name = "groups", .types = SCHEMA_ARRAY, .elements = SCHEMA_TABLE, .inside = &group},
};
static const struct slurm_schema partition = SLURM_SCHEMA("[[partitions]]", partition_keys, false);

static const struct slurm_key repository_keys[] = {
  {.name = "endpoint", .types = SCHEMA_STRING, .required = true},
  {.name = "verify_certs", .types = SCHEMA_BOOLEAN},
};
static const struct slurm_schema repository = SLURM_SCHEMA("data_repository", repository_keys, false);

static const struct slurm_key system_keys[] = {
  {.name = "name", .types = SCHEMA_STRING, .required = true},
  {.name = "scheduler", .types = SCHEMA_STRING, .required = true, .choices = schedulers},
  {.name = "install_path", .types = SCHEMA_STRING},
  {.name = "output_path", .types = SCHEMA_STRING, .required = true},
  {.name = "default_partition", .types = SCHEMA_STRING, .required = true, .check = slurm_line_check},
  {.name = "partitions", .types = SCHEMA_ARRAY, .required = true, .elements = SCHEMA_TABLE, .inside = &partition},
  {.name = "account", .types = SCHEMA_STRING, .check = slurm_line_check},
  {.name = "qos", .types = SCHEMA_STRING, .check = slurm_line_check},
  {.name = "reservation", .types = SCHEMA_STRING, .check = slurm_line_check},
  {.name = "distribution", .types = SCHEMA_STRING},
  {.name = "mpi", .types = SCHEMA_STRING},
  {.name = "gpus_per_node", .types = SCHEMA_INTEGER, .min = 0, .max = 1024},
  {.name = "ntasks_per_node", .types = SCHEMA_INTEGER, .min = 1, .max = 65536},
  {.name = "cache_docker_images_locally", .types = SCHEMA_BOOLEAN},
  {.name = "monitor_interval", POSITIVE},
  {.name = "extra_srun_args", .types = SCHEMA_STRING},
  {.name = "extra_sbatch_args", STRINGS, .check = slurm_line_check},
  {.name = "container_mount_home", .types = SCHEMA_BOOLEAN},
  {.name = "container_runtime", .types = SCHEMA_STRING, .choices = runtimes},
  {.name = "container_image", .types = SCHEMA_STRING},
  {.name = "global_env_vars", .types = SCHEMA_TABLE},
  {.name = "data_repository", .types = SCHEMA_TABLE, .inside = &repository},
  {.name = "reports", .types = SCHEMA_TABLE},
};
const struct slurm_schema slurm_keys_system = SLURM_SCHEMA("a system", system_keys, false);

#define PORT .types = SCHEMA_INTEGER, .min = 1, .max = 65535

static const struct slurm_key nixl_ep_keys[] = {
  {.name = "docker_image_url", .types = SCHEMA_STRING, .required = true, .grid = true},
  {.name = "elastic_script", .types = SCHEMA_STRING, .grid = true},
  {.name = "python_executable", .types = SCHEMA_STRING, .grid = true},
  {.name = "plan", .types = SCHEMA_STRING | SCHEMA_ARRAY, .grid = true},
  {.name = "input_json", .types = SCHEMA_STRING, .grid = true},
  {.name = "num_processes_per_node", .types = SCHEMA_INTEGER, .required = true, .grid = true, .each = true, .min = 1,
   .max = 4096},
  {.name = "service_startup_timeout_seconds", .types = SCHEMA_INTEGER, .grid = true, .min = 1, .max = 86400},
  {.name = "store_port", PORT, .grid = true},
  {.name = "rank_server_port", PORT, .grid = true},
};
const struct slurm_schema slurm_keys_nixl_ep = SLURM_SCHEMA("cmd_args", nixl_ep_keys, true);

static const struct slurm_key nixl_bench_keys[] = {
  {.name = "docker_image_url", .types = SCHEMA_STRING, .required = true, .grid = true},
  {.name = "path_to_benchmark", .types = SCHEMA_STRING, .grid = true},
  {.name = "etcd_path", .types = SCHEMA_STRING, .grid = true},
  {.name = "etcd_endpoint", .types = SCHEMA_STRING, .grid = true},
  {.name = "etcd_endpoints", .types = SCHEMA_STRING, .grid = true},
  {.name = "wait_etcd_for", .types = SCHEMA_INTEGER, .grid = true, .min = 1, .max = 86400},
  {.name = "num_processes_per_node", .types = SCHEMA_INTEGER, .grid = true, .each = true, .min = 1, .max = 128},
  {.name = "store_port", PORT, .grid = true},
};
const struct slurm_schema slurm_keys_nixl_bench = SLURM_SCHEMA("cmd_args", nixl_bench_keys, true);
// clang-format on

enum slurm_test_type slurm_keys_type(const char *template_name) {
  return strcmp(template_name, templates[0]) == 0   ? SLURM_TEST_NIXL_EP
         : strcmp(template_name, templates[1]) == 0 ? SLURM_TEST_NIXL_BENCH
                                                    : SLURM_TEST_UNKNOWN;
}
