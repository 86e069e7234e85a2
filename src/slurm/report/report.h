// The report of a batch: its runs, the ranks of each run, and the best step of each grid.
#ifndef SLURM_REPORT_REPORT_H
#define SLURM_REPORT_REPORT_H

#include <stdio.h>

#include "base/text/text.h"
#include "measure/figures.h"
#include "measure/results.h"
#include "slurm/folder/state.h"

// One run with its measurements.
struct slurm_reported {
  const struct slurm_run_record *run;
  const struct slurm_run_state *state;
  struct results results; // of an elastic plan
  struct figures figures; // of a benchmark
  bool has_results, has_figures;
  // metric `default`, in GB/s; 0: none. For a plan: dispatch and combine in the last phase that passed, mean over its
  // ranks; for a benchmark: the highest bandwidth; for AS_WRITTEN runs the same from their logs
  double metric;
};

struct slurm_report {
  const struct slurm_record *record;
  struct slurm_run_state *states; // [record->num_runs]
  struct slurm_reported *runs;    // [record->num_runs]
  bool silent;                    // Slurm did not answer: the states come from the files
};

// Asks Slurm for the states of the runs, and reads their results.
int slurm_report_open(struct slurm_report *report, const struct slurm_record *record);
void slurm_report_close(struct slurm_report *report);

// --- logs.c ---

// The figure `default` by the logs of an AS_WRITTEN run, in GB/s: for a plan the mean over the ranks that measured in
// the last phase of their node. 0: the logs have none.
double slurm_report_logs(const char *directory);

// The result of a rank in the last phase that it passed; NULL: it passed none.
const struct results_rank *slurm_report_last(const struct results *results, size_t rank);

// A step of a test's grid, with all of its iterations.
struct slurm_step {
  const struct slurm_run_record *run; // the first of them
  uint32_t iterations, passed;
  double metric, reward; // means over the iterations that passed; NaN if none did
};

// Fills list[record->num_runs] with the steps of the test, in order; returns their number.
size_t slurm_report_steps(const struct slurm_report *report, const char *test, struct slurm_step *list);
// The step with the highest reward; NULL: no step has a reward.
const struct slurm_step *slurm_report_best(const struct slurm_step *list, size_t count);
// Whether the mean of its step includes a run: it has passed, and has the figure.
bool slurm_report_counts(const struct slurm_reported *one);

// --- iterations.c ---

// The best step of a grid compared with the next best one.
struct slurm_lead {
  const struct slurm_step *best, *next; // NULL: there is none
  double percent;                       // change of `default` from `next` to `best`
  bool has_interval;                    // false: too few iterations
  double low, high;                     // interval of `percent`, at 95 %
  bool significant;                     // the interval does not contain 0
};

// NOMEM.
int slurm_report_lead(struct slurm_lead *lead, const struct slurm_report *report, const struct slurm_step *list,
                      size_t count);
// "+2.1 % (+0.3 .. +3.9 % at 95 %) against the next best, step 3: more than noise". There is a next one.
void slurm_report_lead_words(struct text *text, const struct slurm_lead *lead);

// Whether a run is the first of its test.
bool slurm_report_first(const struct slurm_report *report, size_t run);

// Adds "num_tokens=128 plan=..." to `text`.
void slurm_report_action(struct text *text, const json_t *action);

// The reports. NOMEM; SYSTEM or LIMIT: `out` cannot be written.
int slurm_report_write(FILE *out, const struct slurm_report *report, const struct report_options *look);
int slurm_report_runs(FILE *out, const struct slurm_report *report, const struct report_options *look); // their table
int slurm_report_text(FILE *out, const struct slurm_report *report, const struct report_options *look);
void slurm_report_csv(FILE *out, const struct slurm_report *report);
int slurm_report_json(FILE *out, const struct slurm_report *report);

// Writes the page of the batch to the file: its runs, their phases, and links to the runs' own pages (SLURM_REPORT_PAGE
// in the directory of a run that has one). Errors are those of page_save_batch().
#define SLURM_REPORT_PAGE "report.html"
int slurm_report_page(const char *path, const struct slurm_report *report);

// Writes DIR/trajectory-TEST.csv, and the same as DIR/TEST/trajectory.csv, for each test with a grid: step, action.*,
// reward, observation.*.
int slurm_report_trajectories(const struct slurm_report *report);
// Writes nixlbench.csv into the directory of each run of a transfer benchmark, with the columns that CloudAI gives it:
// block_size, batch_size, avg_lat (us, of a block, as in the table of nixlbench), bw_gb_sec. Without refused rows.
int slurm_report_tables(const struct slurm_report *report);

#endif
