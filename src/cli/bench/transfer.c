// weft bench transfer, also as weft bench nixlbench.
#include "cli/bench/transfer.h"

#include "base/fail.h"
#include "base/signal/stop.h"
#include "bench/transfer/transfer.h"
#include "cli/bench/devices.h"
#include "cli/commands/commands.h"
#include "cli/option/toml.h"
#include "cli/process/terminal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SCRAPED = 160 }; // columns of the text that scrapers read

// Options that may differ between workers; all others must be equal.
static const char *const own[] = {
    "config_file", "device_list", "local_workers",   "filepath",        "filenames",    "store", "rank_server",
    "listen",      "store_port",  "benchmark_group", "token",           "token_file",   "ca",    "cert",
    "key",         "user",        "password",        "startup_timeout", "json",         "csv",   "html",
    "prometheus",  "quiet",       "color",           "asio_address",    "runtime_type", NULL};

// --- the options in the form of figures and scrapers ---

static json_t *text_of(const struct cli_option *row, const void *field) {
  const char *text;
  memcpy(&text, field, sizeof text);
  return json_string(!text ? "" : row->secret || row->type == OPTION_SECRET_FILE ? "***" : text);
}

static json_t *number_of(const struct cli_option *row, const void *field) {
  uint64_t number = 0;
  memcpy(&number, field, row->size); // little-endian, like all platforms of Weft
  return json_integer((json_int_t)number);
}

static json_t *value_of(const struct cli_option *row, const struct transfer_config *config) {
  const void *field = (const char *)config + row->offset;
  uint32_t choice;
  switch (row->type) {
  case OPTION_FLAG:
    return json_boolean(*(const bool *)field);
  case OPTION_UINT:
    return number_of(row, field);
  case OPTION_ENUM:
    memcpy(&choice, field, sizeof choice);
    return json_string(row->choices[choice - row->first]);
  default:
    return text_of(row, field);
  }
}

static bool is_own(const char *name) {
  for (size_t i = 0; own[i]; i++)
    if (strcmp(own[i], name) == 0)
      return true;
  return false;
}

static int describe(const struct transfer_config *config, json_t **settings, json_t **agreed) {
  int failed = 0;
  *settings = json_object();
  *agreed = json_object();
  for (size_t i = 0; i < CLI_BENCH_TRANSFER_ROWS && !failed; i++) {
    const struct cli_option *row = &cli_bench_transfer_rows[i];
    char name[64];
    snprintf(name, sizeof name, "%s", row->name);
    for (char *c = name; *c; c++)
      *c = *c == '-' ? '_' : *c;
    json_t *value = value_of(row, config);
    if (!is_own(name) && !row->secret)
      failed |= json_object_set(*agreed, name, value);
    failed |= json_object_set_new(*settings, name, value);
  }
  return failed ? fail(WEFT_ERR_NOMEM, "no memory for the settings") : 0;
}

// --- the command ---

static int settle(struct cli_option_table table, struct transfer_config *config, bool as_nixlbench) {
  int err = config->config_file ? cli_toml_apply(table, config, config->config_file) : 0;
  if (!err)
    err = bench_options_check_input(&config->common, config->config_file);
  if (!err && as_nixlbench && config->runtime_type == TRANSFER_ETCD && !config->common.store &&
      !config->common.rank_server && !config->local_workers)
    config->common.store = "http://localhost:2379";
  return err;
}

static int measure(struct transfer_config *config, const char *command, bool *refused) {
  json_t *settings = NULL, *agreed = NULL;
  struct transfer_call transfer = {.config = config, .command = command};
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, config->common.color);
  int err = describe(config, &settings, &agreed);
  transfer.settings = settings;
  transfer.agreed = agreed;
  bench_output_init(&transfer.output, &config->common);
  transfer.output.color = terminal.color;
  transfer.output.unicode = terminal.unicode;
  transfer.output.width = terminal.width > SCRAPED ? terminal.width : SCRAPED; // as wide as the table above it
  if (!err)
    err = cli_bench_devices_choose(config->device_list);
  if (!err)
    err = transfer_run(&transfer, refused);
  json_decref(settings);
  json_decref(agreed);
  return err;
}

// `as_nixlbench`: without other options, workers meet on the etcd of this host.
static int run_by_name(const struct cli_call *call, bool as_nixlbench) {
  struct transfer_config config = {0};
  bool given[CLI_BENCH_TRANSFER_ROWS] = {false}, refused = false;
  int status = 0;
  if (!cli_command_options_given(call, &config, given, &status))
    return status;
  char command[64];
  snprintf(command, sizeof command, "weft %s", call->command->name);
  struct cli_option_table table = call->command->options;
  table.given = given;
  int err = settle(table, &config, as_nixlbench);
  if (!err)
    err = measure(&config, command, &refused);
  if (stop_came()) { // whatever the signal interrupted
    cli_command_failed(call, stop_check());
    return 128 + stop_came();
  }
  return err ? cli_command_failed(call, err) : refused ? 1 : 0;
}

static int run(const struct cli_call *call) {
  return run_by_name(call, false);
}

static int run_as_nixlbench(const struct cli_call *call) {
  return run_by_name(call, true);
}

static const struct cli_example examples[] = {
    {"weft bench transfer --backend SHM --check_consistency",
     "two processes of this host, by shared memory; every byte is checked"},
    {"weft bench transfer --backend SHM,UCX --repeat 5 --json runs.json",
     "two transports by turns, for 'weft compare'"},
    {"weft bench transfer --backend UCX --num_initiator_dev 4 --num_target_dev 4 --local_workers 4 --listen 10.0.0.1",
     "on one host: four initiators, which wait for four targets; prints the command for the other host"},
    {"weft bench transfer --backend POSIX --filepath /mnt/nvme --op_type READ --pipeline_depth 16",
     "reads of files, without the page cache"},
    {NULL, NULL},
};

static const struct cli_example nixlbench_examples[] = {
    {"weft bench nixlbench -etcd_endpoints http://10.0.0.1:2379 -backend UCX -initiator_seg_type VRAM "
     "-target_seg_type VRAM",
     "on each of two hosts: a command line of nixlbench, unchanged"},
    {NULL, NULL},
};

const struct cli_command cli_bench_transfer = {
    .name = "bench transfer",
    .summary = "measure reads and writes of memory, files and objects",
    .description =
        "Measures one-sided reads and writes of block sizes from --start_block_size to --max_block_size, between "
        "workers that meet on a store, or between memory and storage. Options and defaults are those of nixlbench; a "
        "name may have one dash or two, and '_' for '-'. --noNAME clears a flag, and an empty value of an option of "
        "nixlbench that is a text means that it is not given. Without a store all workers are processes of this host; "
        "with "
        "--store, --etcd_endpoints or --rank_server the same line is started once for each worker.\n"
        "Standard output has the settings and the ten columns that scripts for nixlbench read, then a table of Weft: "
        "percentiles of the latency of a request, the bandwidth over the time in which all initiators were active, its "
        "bound, and the slowest worker. --json writes all of these, for 'weft compare'.\n"
        "Exit status 1 means that a figure cannot be true (the table says why), 2 that the options were wrong or "
        "differ among workers, 4 wrong data, 5 that a worker was lost, 124 that a deadline passed, 130 Ctrl-C.",
    .options = CLI_BENCH_TRANSFER_TABLE,
    .examples = examples,
    .run = run,
};

const struct cli_command cli_bench_nixlbench = {
    .name = "bench nixlbench",
    .summary = "the same, for unchanged command lines of nixlbench",
    .description =
        "Does what 'weft bench transfer' does, with the same options. If neither a store nor another way to meet is "
        "given, the workers meet on the etcd of this host, http://localhost:2379, as with nixlbench.",
    .options = CLI_BENCH_TRANSFER_TABLE,
    .examples = nixlbench_examples,
    .run = run_as_nixlbench,
};
