// The parts that scripts are made of.
#ifndef SLURM_SCRIPT_PARTS_H
#define SLURM_SCRIPT_PARTS_H

#include "slurm/script/script.h"

// The resources that a job asks for, and where its output goes.
struct slurm_header {
  const char *name, *log;
  const struct slurm_run *run; // the run whose resources it asks for
  uint32_t num_nodes;          // of the largest run
  uint32_t tasks_per_node;
  const char *time_limit;
  uint32_t warn_s;
  const char *array;
};

void slurm_part_header(struct text *text, const struct slurm_header *header);

// Write options of srun such as "--container-image=...", and the words before the program: "apptainer exec ..." and a
// profiler. Each text is empty or begins with a space.
void slurm_part_srun_options(struct text *text, const struct slurm_run *run);
void slurm_part_program(struct text *text, const struct slurm_run *run);

// Writes the run's own options and further words, on separate lines.
void slurm_part_options(struct text *text, const struct slurm_run *run);

// A shell that was just forked loses a signal for which its parent has a trap. So each started process first writes to
// a pipe that it is ready. SLURM_PART_SAYS and the command are within braces; SLURM_PART_WAIT follows "} &".
#define SLURM_PART_PIPE                                                                                                \
  "\n# A shell that was just forked loses signals: what begins reports through this pipe that it does not any more.\n" \
  "exec {ready}<> <(:)\n"
#define SLURM_PART_SAYS "{ echo >&\"$ready\"; exec "
#define SLURM_PART_WAIT "read -r -t 10 -u \"$ready\"\n"

// Write the steps of each program: functions, and lines that start them.
void slurm_part_elastic(struct text *text, const struct slurm_run *run);
void slurm_part_transfer(struct text *text, const struct slurm_run *run);
void slurm_part_as_written(struct text *text, const struct slurm_run *run);
// Writes how the logs of an AS_WRITTEN run are judged, after the end of its steps.
void slurm_part_fatal(struct text *text);

#endif
