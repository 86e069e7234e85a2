// The results of an elastic run, as stored in results.json: the runner writes them, the reports read them.
#ifndef MEASURE_RESULTS_H
#define MEASURE_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

enum { RESULTS_TEXT = 256 };

enum results_state {
  RESULTS_NOT_MEMBER, // the plan does not have the rank in this phase
  RESULTS_PASSED,
  RESULTS_FAILED,      // `reason` says why
  RESULTS_KILLED,      // as planned
  RESULTS_LEFT,        // as planned (a negative rank of a run with --negative leave), or with its agent (`reason`)
  RESULTS_UNREACHED,   // the run ended before
  RESULTS_INTERRUPTED, // the run ended while the rank was in the phase
  RESULTS_LOST,        // the rank was lost with its agent, which ended (`reason` names it); the run went on
  RESULTS_NUM_STATES,
};

// Durations in microseconds.
struct results_times {
  uint64_t count;
  double avg, min, p50, p99, max;
};

// One rank in one phase.
struct results_rank {
  int32_t rank;
  int32_t local_rank; // process slot on its host
  int32_t gpu;        // index on its host, as its agent's processes count GPUs; negative: host memory
  char gpu_name[64];
  char host[64];
  uint64_t incarnation;
  enum results_state state;
  char reason[RESULTS_TEXT];
  uint64_t checked;                             // operations judged against the oracle
  uint64_t num_lost_selections;                 // (token, expert) contributions that were missing
  double worst_diff;                            // calc_diff
  struct results_times both, dispatch, combine; // timed operations; `both` is dispatch + combine
  // Bytes of one operation: means over the timed operations.
  double dispatch_logical_bytes, dispatch_wire_bytes, combine_logical_bytes, combine_wire_bytes;
  uint64_t window_bytes; // windows and workspace at the end of the phase
  // The total rows of all timed dispatches for each rank of the phase, in the order of ranks: one row for each token
  // and each rank that has any of its experts. The rank counts them from the routing that it gave to dispatch, in the
  // same way on host and CUDA memory; the entry of the rank itself counts the rows that stayed. Empty: not measured.
  uint32_t num_dispatch_rows; // number of the phase's ranks, or 0
  uint64_t *dispatch_rows;
};

struct results_phase {
  uint32_t index;
  uint32_t num_ranks;
  struct results_rank *ranks; // every rank that the plan ever names, ascending
  // Seconds from the start of the run, by the lead's clock; negative: the phase did not begin or end, or the time is
  // not known.
  double begin_s; // the lead began the phase: joining ranks are launched from then on
  double end_s;   // the lead had the record of its last rank
};

enum results_change { RESULTS_JOIN, RESULTS_LEAVE, RESULTS_KILL };

// One rank's part in the transition into a phase. Durations in microseconds; negative: does not apply or not known.
struct results_transition {
  uint32_t phase;
  enum results_change change;
  int32_t rank;
  uint64_t epoch; // view that agreed on it
  uint64_t op;    // operation with which that view took effect
  // When the change took effect, or a planned death happened: seconds from the start of the run by the lead's clock.
  // For other hosts, whose clocks cannot be compared, the time at which the lead learned of it. Negative: not known.
  double time_s;
  double launch_us;         // join: from the agent's decision to the first line of the rank process
  double connect_us;        // join: from there until it was connected to every active rank and proposed
  double first_dispatch_us; // join: from there until its first dispatch had returned; all: until the change took effect
  double longest_stall_us;  // longest dispatch or combine of a survivor that overlapped the change
  int32_t stalled_rank;     // rank of longest_stall_us
  double median_us;         // the same rank's longer of median dispatch and median combine in the phase before
  // The longest stall without the joiners' own work: it counts only the time after the first joiner has offered itself,
  // without the time in which a joiner did its own work in its first operation (its input, its experts). The rest is
  // the cost of membership. If a joiner is on another host, times cannot be compared, and the whole stall counts.
  double membership_stall_us;
  int32_t membership_rank;
  double membership_median_us; // as median_us, for the rank of membership_stall_us
  double detect_us; // kill: from the kill to the first survivor that knew; median over survivors in detect_median_us
  double detect_median_us;
};

// Ranks that shared processors: all ranks of one host, or those of the agents of a host that may run on the same
// processors.
struct results_processors {
  char host[64];
  uint32_t usable; // processors, by their affinity and the limits of their control groups
  uint32_t ranks;  // most ranks that ran there at the same time, in any phase
};

struct results {
  char run[37];
  char job[64];
  char version[32];
  char started[32]; // RFC 3339, UTC
  double elapsed_s;
  char store[128]; // what kind, and where
  json_t *config; // the run's configuration, as given and defaulted: an object with the names of struct run_config; the
                  // reports show num_tokens, hidden, topk, experts_per_rank, iterations and, as text, dtype, layout and
                  // memory, and memory_why: what kept `auto` from GPUs; and bound: {name, gb_per_second (missing where
                  // nobody knows), measured, detail, of}, of which `of` is "host" or "rank": whose wire rate it bounds;
                  // and uses: what the network libraries have chosen for ranks on other hosts, where there are any
  json_t *plan;   // the plan's JSON
  uint32_t num_processors;
  struct results_processors *processors;
  uint32_t num_phases;
  struct results_phase *phases;
  uint32_t num_transitions;
  struct results_transition *transitions;
  bool passed;
  int exit_status;
  char error[RESULTS_TEXT]; // why the run ended early, or ""
};

// The name of a state in results.json and CSV, e.g. "not_member".
const char *results_state_name(enum results_state state);

// Frees the contents, not the struct itself, and leaves it empty.
void results_free(struct results *results);

// Rounds every measured number to the digits that it has in JSON, so that reports made from a file equal the report of
// the run.
void results_round(struct results *results);

// The results as JSON. Measured numbers have six significant digits, or all digits before the point; counts are exact.
// NULL: memory ran out, or a count is 2^63 or more; the last error says which.
json_t *results_to_json(const struct results *results);

// Reads results from JSON. Every field must be present, of its type and in its range; unknown fields are ignored.
// PROTOCOL names the field that is wrong, e.g. "phases[1].ranks[3].state"; VERSION: the results have another format
// version.
int results_from_json(struct results *results, const json_t *json);

// Writes the file `name`, as a whole or not at all: it writes a temporary file beside it, mode 0600, and renames it.
// `directory` is a descriptor, or AT_FDCWD.
int results_save(const struct results *results, int directory, const char *name);

// Reads the file. SYSTEM: it cannot be read, or is no regular file (opening a FIFO would wait); other errors as in
// results_from_json(). Errors name the path.
int results_load(struct results *results, const char *path);

// Summary of `count` durations in nanoseconds; sorts `samples`. Percentiles are exact, by nearest rank: the smallest
// sample that at least p % of the samples do not exceed. Without samples, all zero.
void results_times_from_ns(struct results_times *times, uint64_t *samples, size_t count);

// GB/s (1e9) of `bytes` in `us` microseconds; 0 when there is no time.
double results_gbps(double bytes, double us);

// Logical dispatch + combine bandwidth of one rank, GB/s: the logical bytes of both over the mean time of both.
double results_rank_gbps(const struct results_rank *rank);

// Whether at least one rank passed the phase, none failed it, and all reached it.
bool results_phase_passed(const struct results_phase *phase);

enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_CSV };
enum { RESULTS_WIDTH = 100 };
struct report_options {
  enum report_format format;
  bool color;   // ANSI colours; the caller has looked at NO_COLOR and isatty
  bool unicode; // check marks rather than ASCII
  size_t width; // columns of the text; 0: RESULTS_WIDTH
};

// Writes a report. Text is for people, and omits figures that do not fit into the width; CSV is RFC 4180, one record
// per phase and rank, figures empty where a rank has none; JSON is results_to_json(). SYSTEM or LIMIT: `out` cannot be
// written.
int report_write(FILE *out, const struct results *results, const struct report_options *options);

// Mean of results_rank_gbps() over the ranks that passed the phase; 0 for none.
double results_phase_gbps(const struct results_phase *phase);

// The last phase that passed, or NULL.
const struct results_phase *results_last_passed(const struct results *results);

// results_phase_gbps() of the last phase that passed, 0 if none passed. Job drivers call this figure `default`; higher
// is better.
double results_default_metric(const struct results *results);

#endif
