// The request of the command line: files, and options that have precedence over the files.
#ifndef SLURM_CORE_REQUEST_H
#define SLURM_CORE_REQUEST_H

#include <stdbool.h>

#include "slurm/run_spec.h"

// Checks an option of a program of Weft, whose name is given without dashes; `value` NULL: a flag. 0: it is right.
// Negative: its value is wrong, and the last error says why. 1: there is no such option, and `*near` is the most
// similar one or NULL.
typedef int slurm_check_option_fn(enum slurm_program program, const char *name, const char *value, const char **near);

// NULL, 0 and false: the value in the files is used, else the default.
struct slurm_request {
  const char *const *files; // tests, scenarios, systems, in any order
  size_t num_files;
  const char *system;    // --system-config
  const char *tests_dir; // --tests-dir: tests that a scenario may name
  const char *scenario;  // --test-scenario

  const char *plan; // --plan: of every run
  const char *name; // --name: of the batch
  uint32_t nodes, processes_per_node, gpus_per_node, iterations;
  const char *node_list, *exclude;
  const char *partition, *account, *qos, *reservation, *time_limit;
  const char *output;    // --output-dir
  const char *directory; // of the batch itself; NULL: OUTPUT/NAME
  const char *container; // --container: "none", "pyxis", "apptainer"
  const char *image, *mounts;
  const char *options; // --options: of the program, as one line
  const char *weft;    // --weft: its path on the nodes; NULL: "weft" in a container, else `own`
  const char *own;     // path of this program
  const char *store;
  uint16_t store_port;
  uint32_t warn_s;
  enum slurm_followers followers;
  enum slurm_submission submission;
  const char *memory; // value of WEFT_MEMORY in the environment of this command, which jobs inherit; NULL: not set
  bool as_written, requeue, share_nodes;
  slurm_check_option_fn *check_option;
};

#endif
