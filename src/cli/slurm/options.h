// Parts that the commands of `weft slurm` share: the options that make a batch, and the check of a test's options.
#ifndef CLI_SLURM_OPTIONS_H
#define CLI_SLURM_OPTIONS_H

#include "cli/command/command.h"
#include "slurm/batch.h"

struct cli_slurm_options {
  struct slurm_request request;
  struct cli_words files;
  unsigned container; // 1 + index of cli_slurm_containers; 0: not given
  bool single_sbatch, array;
};

extern const char *const cli_slurm_containers[], *const cli_slurm_followers[]; // NULL at the end

// The rows of a table of options, for a command whose target begins with the struct.
// clang-format off
#define CLI_SLURM_FIELD(member) OPTION_FIELD(struct cli_slurm_options, member)
#define CLI_SLURM_OPTION_ROWS \
  {.section = "Tests", .name = "files", .operand = true, .type = OPTION_WORDS, .metavar = "FILES", \
   CLI_SLURM_FIELD(files), .help = "TOML files of tests, of a scenario, of the system, in any order"}, \
  {.name = "test-scenario", .type = OPTION_PATH, .metavar = "FILE", CLI_SLURM_FIELD(request.scenario), \
   .help = "the scenario"}, \
  {.name = "tests-dir", .type = OPTION_PATH, .metavar = "FOLDER", CLI_SLURM_FIELD(request.tests_dir), \
   .help = "folder of the tests that the scenario names"}, \
  {.name = "system-config", .type = OPTION_PATH, .metavar = "FILE", CLI_SLURM_FIELD(request.system), \
   .help = "file of the system: partitions, account, GPUs, output path"}, \
  {.name = "plan", .letter = 'p', .type = OPTION_PATH, .metavar = "PLAN", CLI_SLURM_FIELD(request.plan), \
   .help = "plan of every run, instead of the plans of the tests; with it no other file is needed"}, \
  {.name = "processes-per-node", .letter = 'n', .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 4096, \
   .preset_note = "1", CLI_SLURM_FIELD(request.processes_per_node), .help = "process slots of each node"}, \
  {.name = "iterations", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 4096, .preset_note = "1", \
   CLI_SLURM_FIELD(request.iterations), .help = "how often each run is repeated"}, \
  {.name = "options", .type = OPTION_STRING, .metavar = "TEXT", CLI_SLURM_FIELD(request.options), \
   .help = "further options of the program, as one text: --options=\"--dtype fp8 --iterations 50\""}, \
  {.name = "name", .type = OPTION_STRING, .metavar = "NAME", .preset_note = "that of the scenario, test or plan", \
   CLI_SLURM_FIELD(request.name), .help = "name of the batch, of its folder and of its jobs"}, \
  {.name = "as-written", .type = OPTION_FLAG, CLI_SLURM_FIELD(request.as_written), \
   .help = "run the program that the test names (python_executable, elastic_script, path_to_benchmark) in its image; " \
   "without this, Weft runs what the test says"}, \
  {.section = "What Slurm is asked for", .name = "nodes", .letter = 'N', .type = OPTION_UINT, .metavar = "N", \
   .min = 1, .max = 65536, .preset_note = "1", CLI_SLURM_FIELD(request.nodes), .help = "nodes of each run"}, \
  {.name = "nodelist", .letter = 'w', .type = OPTION_STRING, .metavar = "NODES", CLI_SLURM_FIELD(request.node_list), \
   .help = "exactly these nodes, as \"n[01-04]\""}, \
  {.name = "exclude", .letter = 'x', .type = OPTION_STRING, .metavar = "NODES", CLI_SLURM_FIELD(request.exclude), \
   .help = "none of these nodes"}, \
  {.name = "partition", .type = OPTION_STRING, .metavar = "NAME", .preset_note = "the system's, else Slurm's", \
   CLI_SLURM_FIELD(request.partition), .help = "partition"}, \
  {.name = "account", .letter = 'A', .type = OPTION_STRING, .metavar = "NAME", CLI_SLURM_FIELD(request.account), \
   .help = "account that is charged"}, \
  {.name = "qos", .type = OPTION_STRING, .metavar = "NAME", CLI_SLURM_FIELD(request.qos), \
   .help = "quality of service"}, \
  {.name = "reservation", .type = OPTION_STRING, .metavar = "NAME", CLI_SLURM_FIELD(request.reservation), \
   .help = "reservation"}, \
  {.name = "time-limit", .letter = 't', .type = OPTION_STRING, .metavar = "TIME", \
   .preset_note = "the tests', else the partition's", CLI_SLURM_FIELD(request.time_limit), \
   .help = "time limit of each run, as Slurm reads it: minutes, H:M:S, D-H:M:S"}, \
  {.name = "warn", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 65535, .unit = "s", \
   .preset_note = "60, or a quarter of the limit if that is less", CLI_SLURM_FIELD(request.warn_s), \
   .help = "how long before the limit the run is warned, so that it can write its results"}, \
  {.name = "gpus-per-node", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 1024, \
   .preset_note = "the system's, else none", CLI_SLURM_FIELD(request.gpus_per_node), .help = "GPUs of each node"}, \
  {.name = "share-nodes", .type = OPTION_FLAG, CLI_SLURM_FIELD(request.share_nodes), \
   .help = "let other jobs run on the nodes, too"}, \
  {.name = "requeue", .type = OPTION_FLAG, CLI_SLURM_FIELD(request.requeue), \
   .help = "let Slurm start a job again when its node failed or it was preempted"}, \
  {.name = "single-sbatch", .type = OPTION_FLAG, CLI_SLURM_FIELD(single_sbatch), \
   .help = "use one job that makes all runs one after the other, instead of one job for each run"}, \
  {.name = "array", .type = OPTION_FLAG, CLI_SLURM_FIELD(array), \
   .help = "use an array of jobs for each test with several runs"}, \
  {.section = "On the nodes", .name = "output-dir", .type = OPTION_PATH, .metavar = "DIR", \
   .preset_note = "the system's output_path, else weft-slurm", CLI_SLURM_FIELD(request.output), \
   .help = "folder that all nodes see; each run has its own folder in it"}, \
  {.name = "weft", .type = OPTION_PATH, .metavar = "PATH", .preset_note = "this program; in a container: weft", \
   CLI_SLURM_FIELD(request.weft), .help = "weft on the nodes"}, \
  {.name = "followers", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_slurm_followers, .preset = "early", \
   CLI_SLURM_FIELD(request.followers), \
   .help = "when agents of other nodes start: at once, or in the phase before the one that first needs their node"}, \
  {.name = "store", .alias = "etcd-server", .type = OPTION_URL, .metavar = "URL", \
   .preset_note = "a store in the lead agent", CLI_SLURM_FIELD(request.store), \
   .help = "existing store, etcd or 'weft serve'"}, \
  {.name = "store-port", .type = OPTION_UINT, .metavar = "PORT", .min = 1, .max = 65535, \
   .preset_note = "the test's store_port, else a port computed from the job's " \
   "number", CLI_SLURM_FIELD(request.store_port), \
   .help = "port of the lead agent's store"}, \
  {.name = "container", .type = OPTION_ENUM, .metavar = "RUNTIME", .choices = cli_slurm_containers, .first = 1, \
   .preset_note = "the system's container_runtime; none; pyxis with an image or --as-written", \
   CLI_SLURM_FIELD(container), .help = "what runs the programs in a container"}, \
  {.name = "container-image", .type = OPTION_STRING, .metavar = "IMAGE", CLI_SLURM_FIELD(request.image), \
   .help = "image that contains weft; with --as-written the default is the test's own image"}, \
  {.name = "container-mounts", .type = OPTION_STRING, .metavar = "MOUNTS", CLI_SLURM_FIELD(request.mounts), \
   .help = "HOST:CONTAINER[,HOST:CONTAINER...] beside the run's folder, which has its own path there"}
// clang-format on

// Prints in which memory the runs of plans run, and why: a line for each answer, which begins with `before`.
void cli_slurm_print_memory(const struct slurm_batch *batch, const char *before);

// Makes the batch and prints its warnings; the caller owns `*batch`. False: the faults have been printed too, and the
// command ends with `*status`.
bool cli_slurm_read(const struct cli_call *call, struct cli_slurm_options *options, struct slurm_batch **batch,
                    int *status);

#endif
