// The batch to submit: runs, each with everything that its script and its directory need. It is made from files, grids
// and options of the command line, and does not refer to them any more.
#ifndef SLURM_RUN_SPEC_H
#define SLURM_RUN_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The files of a run directory.
#define SLURM_FILE_PLAN       "plan.json"
#define SLURM_FILE_RUN        "run.toml" // the run, resolved: what slurm_run_to_toml() writes
#define SLURM_FILE_SCRIPT     "script.sbatch"
#define SLURM_FILE_ENV        "env.sh"
#define SLURM_FILE_RESULTS    "results.json" // of the lead agent, or of a benchmark, which writes it by --json
#define SLURM_FILE_STATUS     "status.json"
#define SLURM_FILE_STATUS_NEW SLURM_FILE_STATUS ".new" // it remains if SLURM_FILE_STATUS could not be written
#define SLURM_FILE_FATAL      "fatal.txt"              // why an AS_WRITTEN run failed: lines of its logs
#define SLURM_NODE_LOG        "node-%s.log"            // of each node, by its name

enum slurm_program {
  SLURM_ELASTIC,    // weft elastic: one agent for each node
  SLURM_TRANSFER,   // weft bench transfer: one worker for each process
  SLURM_AS_WRITTEN, // the program that the test file names, by its own python_executable and script
};

enum slurm_container { SLURM_NO_CONTAINER, SLURM_PYXIS, SLURM_APPTAINER };

enum slurm_followers { SLURM_FOLLOWERS_EARLY, SLURM_FOLLOWERS_LATE };

enum slurm_dependency_type { SLURM_START_POST_COMP, SLURM_END_POST_COMP, SLURM_START_POST_INIT };

enum slurm_reward { SLURM_REWARD_DEFAULT, SLURM_REWARD_INVERSE, SLURM_REWARD_NEGATIVE, SLURM_REWARD_IDENTITY };

// "name" and "value"; value NULL: a flag without a value. All lists are arrays of `count`.
struct slurm_setting {
  const char *name, *value;
};

struct slurm_settings {
  struct slurm_setting *list;
  size_t count;
};

struct slurm_words {
  const char **list;
  size_t count;
};

struct slurm_dependency {
  enum slurm_dependency_type type;
  const char *test;    // the id in the scenario: the run depends on all runs of that test
  bool only_if_passed; // START_POST_COMP: does not start if the other one failed
};

// Processes that are started together.
struct slurm_launch {
  uint32_t phase, node, processes;
};

// The resources that Slurm is asked for.
struct slurm_resources {
  const char *partition, *account, *qos, *reservation; // NULL: Slurm's defaults
  uint32_t num_nodes;
  const char *nodes, *exclude; // lists as Slurm writes them (n[1-4]); NULL: any
  uint32_t gpus_per_node;      // 0: none are asked for
  const char *time_limit;      // as Slurm reads it; NULL: the partition's
  uint64_t time_limit_s;       // the same; 0: none
  uint32_t warn_s;             // SIGUSR1 comes so long before the limit; 0: it does not come
  bool requeue;                // after preemption or the failure of a node
  bool exclusive;              // no other job on the nodes
  struct slurm_words extra_sbatch_args;
  struct slurm_words extra_srun_args;
  const char *mpi; // of srun; NULL: its default
};

struct slurm_image {
  enum slurm_container kind;
  const char *image;         // NULL with NO_CONTAINER
  struct slurm_words mounts; // HOST:CONTAINER[:FLAGS]; the run directory is mounted too
};

// A profiler in front of the program, on each node.
struct slurm_profiler {
  struct slurm_words command; // count 0: there is none
  bool has_output;            // false: its reports go to the run's directory, one for each node
};

// One run: one job, or one element of an array, or one part of a job with the others.
struct slurm_run {
  const char *id;        // unique in the batch, and usable as a file name: the test's id, with .stepN and .iterationN
  const char *test;      // the test's id in the scenario
  const char *test_name; // its name in the test file
  const char *description;
  uint32_t step, num_steps;           // of the test's grid, from 1; num_steps 1: there is no grid
  uint32_t iteration, num_iterations; // repeats of the same step, from 1
  struct slurm_settings action;       // what the grid chose for this step: its keys, as "num_tokens", and their values
  const char *directory;              // of this run, absolute

  enum slurm_program program;
  struct slurm_words command;    // the path of weft and its command, or python and the script
  struct slurm_settings args;    // options without their dashes, in the order in which they are given; value NULL: bare
  struct slurm_words extra_args; // further words after the options, unchanged
  const char *memory;            // of a plan's operations: "cuda", and why, in words; NULL: the program chooses
  struct slurm_profiler profiler;

  const char *plan;                 // JSON of a plan; NULL: there is none
  const char *plan_source;          // the file that it comes from, or its place there; for people
  uint32_t plan_phases, plan_ranks; // of the plan: how many phases, the most ranks that are live at once
  uint32_t processes_per_node;      // slots of each agent, or workers of each node; the most of any
  uint32_t *node_processes;         // [num_nodes] the same for each node
  enum slurm_followers followers;
  uint32_t *node_first_phase; // [num_nodes] the phase (from 0) that first needs the node's slots; UINT32_MAX: none does

  struct slurm_launch *launches; // of an AS_WRITTEN plan, in the order of their start: the lead's is the first one
  size_t num_launches;

  const char *store;          // URL of an etcd or `weft serve`; NULL: the lead agent has the store
  uint16_t store_port;        // of the lead's; 0: made from the job's number
  uint32_t startup_timeout_s; // a follower must have joined within this time

  struct slurm_resources resources;
  struct slurm_image container;
  struct slurm_settings environment; // the global ones, then the test's, which replace earlier ones of the same name
  const char *pre_test, *post_test;  // NULL, or the command lines to run before and after it
  struct slurm_dependency *dependencies;
  size_t num_dependencies;

  struct slurm_words metrics; // "default", ...
  enum slurm_reward reward;   // DEFAULT: depends on the metric; a larger bandwidth is better
};

enum slurm_submission {
  SLURM_JOB_EACH, // a job for each run
  SLURM_ONE_JOB,  // one allocation runs all, one after the other
  SLURM_ARRAY,    // an array for each test with several runs
};

struct slurm_batch {
  const char *name;      // of the scenario
  const char *directory; // of the batch, absolute: the runs' directories are in it
  enum slurm_submission submission;
  struct slurm_run *runs; // in the order of their submission: a run comes after the runs that it depends on
  size_t num_runs;
  // The memory of the strings follows this struct; only slurm_batch_free() knows it.
};

void slurm_batch_free(struct slurm_batch *batch); // NULL is legal

#endif
