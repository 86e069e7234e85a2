// The results of a benchmark, as stored in the files of `weft bench`: rows, each with a description of what was
// measured (its keys) and the figures. `weft compare`, the pages and any program that knows the format read these
// files. The document's member "weft_figures" contains the version of the format.
//
//   {"weft_figures": 1, "kind": "transfer", "version": "0.1.0", "started": "...", "elapsed_s": 1.5, "complete": true,
//    "cut_short": "", "passed": true, "error": "", "hosts": ["a", "b"], "settings": {...}, "bounds": [...],
//    "rows": [{"keys": {"op": "WRITE", "bytes": 4096}, "run": 0, "slowest": "rank 1 on b", "refused": "",
//              "figures": [{"name": "latency", "unit": "us", "better": "lower", "value": 3.1, "count": 1000,
//                           "min": ..., "samples": [...]}, ...]}]}
//
// Rows with the same keys are repeats of one measurement; `run` distinguishes them.
#ifndef MEASURE_FIGURES_H
#define MEASURE_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

enum { FIGURES_TEXT = 256, FIGURES_NAME = 48, FIGURES_MAX_SAMPLES = 1000 };

enum figure_better { FIGURE_LOWER, FIGURE_HIGHER };

// One figure. A distribution has a count; figures without one have count 0 and negative members, which are null in
// JSON.
struct figure {
  char name[FIGURES_NAME]; // "latency", "bandwidth", ...: the same in all rows of a kind
  char unit[16];           // "us", "GB/s" (1e9 bytes), "1/s", "bytes", "percent"
  enum figure_better better;
  double value; // the mean of a distribution; NAN, null in JSON: a rate that was refused
  uint64_t count;
  double min, p50, p95, p99, p999, max;
  json_t *samples;               // some of the measurements in the order of time, at most FIGURES_MAX_SAMPLES; or NULL
  double bound;                  // what the hardware allows, in the same unit; negative: not known
  char bound_name[FIGURES_NAME]; // one of the document's bounds, or ""
};

struct figures_row {
  json_t *keys;               // object of strings, integers and booleans: what was measured, and how
  uint32_t run;               // number of the repeat: 0, 1, ...
  char slowest[FIGURES_TEXT]; // who delayed the others, or ""
  char refused[FIGURES_TEXT]; // why the figures are not to be believed, or ""
  uint32_t num_figures;
  struct figure *figures;
};

// A limit of the hardware.
struct figures_bound {
  char name[FIGURES_NAME];   // "host copy", "nvlink 0-1", "nic mlx5_0", "disk /mnt", ...
  double value;              // GB/s, 1e9 bytes
  bool measured;             // by `weft bench limits`; else the hardware's own description says so
  char detail[FIGURES_TEXT]; // how it was found, in words
};

struct figures {
  char kind[FIGURES_NAME]; // "transfer", "ep", "traffic", "limits", "p2p"
  char version[32];        // of weft
  char started[32];        // RFC 3339, UTC
  double elapsed_s;
  bool complete;                // everything that was requested was measured
  char cut_short[FIGURES_TEXT]; // why it is not complete: "SIGINT", or ""
  bool passed;                  // it is complete, and nothing failed, was wrong, or was refused
  char error[FIGURES_TEXT];
  json_t *hosts;    // list of names
  json_t *settings; // object: every option as given or defaulted, by its name; no secrets
  uint32_t num_bounds;
  struct figures_bound *bounds;
  uint32_t num_rows;
  struct figures_row *rows;
};

// Makes an empty document of that kind with the current time as its start. NOMEM.
int figures_begin(struct figures *figures, const char *kind);
// Frees the contents, not the struct itself, and leaves it empty.
void figures_free(struct figures *figures);

// Adds a row at the end, with its own reference to `keys`; NULL: memory ran out. Pointers to rows are valid until the
// next row is added.
struct figures_row *figures_add_row(struct figures *figures, json_t *keys, uint32_t run);
// Adds a figure to the row; it has a value, but no distribution or bound yet. NULL: memory ran out.
struct figure *figures_add(struct figures_row *row, const char *name, const char *unit, enum figure_better better,
                           double value);
// Adds a figure in microseconds from durations in nanoseconds: mean and exact percentiles by nearest rank, and samples
// (all, or one of each of FIGURES_MAX_SAMPLES equal parts, in the order given). It does not change `samples`. NULL:
// memory ran out.
struct figure *figures_add_times(struct figures_row *row, const char *name, const uint64_t *samples, size_t count);
// The place of the measurement that stands for part `part` of `parts` equal parts of `count` measurements; count >=
// parts > `part`. The place within a part differs from part to part: if several ranks, or several slots of a ring, take
// turns in the measurements, equal steps might select those of only one of them.
size_t figures_place(size_t part, size_t parts, size_t count);
// Leaves out the rates of a row that was refused, which are the figures in GB/s and in 1/s: their values become NAN. A
// number that nobody may believe, or the 0 of a rate that could not be measured, would be read as a result. Durations
// stay.
void figures_withdraw_rates(struct figures_row *row);
// Adds a bound, or updates the bound of that name. NOMEM.
int figures_add_bound(struct figures *figures, const char *name, double value, bool measured, const char *detail);

// The figure of that name, or NULL.
const struct figure *figures_find(const struct figures_row *row, const char *name);

// The whole document as JSON. Measured numbers have six significant digits, or all digits before the point; counts are
// exact. NULL: memory ran out; the last error says so.
json_t *figures_to_json(const struct figures *figures);
// Reads the document from JSON. PROTOCOL names the member that is wrong; VERSION: the document has another format
// version.
int figures_from_json(struct figures *figures, const json_t *json);
// Whether a JSON document is a document of figures.
bool figures_is_json(const json_t *json);

// Writes the file, as a whole or not at all: the old contents stay if the disk is full. Errors name the path.
int figures_save(const struct figures *figures, const char *path);
// Reads the file. Errors are those of json_file_load() and figures_from_json(), and name the path.
int figures_load(struct figures *figures, const char *path);

#endif
