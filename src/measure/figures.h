// What a benchmark found, as kept in the files of `weft bench`: rows, each with what was measured (its keys) and the
// figures. `weft compare` and the pages read these; so does every program that knows the format, whose version stands
// in the document's member "weft_figures".
//
//   {"weft_figures": 1, "kind": "transfer", "version": "0.1.0", "started": "...", "elapsed_s": 1.5, "complete": true,
//    "cut_short": "", "passed": true, "error": "", "hosts": ["a", "b"], "settings": {...}, "bounds": [...],
//    "rows": [{"keys": {"op": "WRITE", "bytes": 4096}, "run": 0, "slowest": "rank 1 on b", "refused": "",
//              "figures": [{"name": "latency", "unit": "us", "better": "lower", "value": 3.1, "count": 1000, "min":
//              ...,
//                           "samples": [...]}, ...]}]}
//
// Rows with the same keys are repeats of one measurement, told apart by `run`.
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
  double value; // the mean of a distribution
  uint64_t count;
  double min, p50, p95, p99, p999, max;
  json_t *samples;               // some of the measurements in the order of time, at most FIGURES_MAX_SAMPLES; or NULL
  double bound;                  // what the hardware allows, in the same unit; negative: not known
  char bound_name[FIGURES_NAME]; // one of the document's bounds, or ""
};

struct figures_row {
  json_t *keys;               // object of strings, integers and booleans: what was measured, and how
  uint32_t run;               // 0, 1, ... of the repeats
  char slowest[FIGURES_TEXT]; // who held the others up, or ""
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
  bool complete;                // all that was asked for was measured
  char cut_short[FIGURES_TEXT]; // by what it was not: "SIGINT", or ""
  bool passed;                  // it is complete, and nothing failed, was wrong or was refused
  char error[FIGURES_TEXT];
  json_t *hosts;    // list of names
  json_t *settings; // object: every option as given or defaulted, by its name; no secrets
  uint32_t num_bounds;
  struct figures_bound *bounds;
  uint32_t num_rows;
  struct figures_row *rows;
};

// An empty document of that kind, which began now. NOMEM.
int figures_begin(struct figures *figures, const char *kind);
// Frees what it points to, not itself, and leaves it empty.
void figures_free(struct figures *figures);

// A new row at the end, with a reference of its own to `keys`; NULL: memory ran out. Pointers to rows last until the
// next one is added.
struct figures_row *figures_add_row(struct figures *figures, json_t *keys, uint32_t run);
// A new figure of the row; it has a value, and neither a distribution nor a bound yet. NULL: memory ran out.
struct figure *figures_add(struct figures_row *row, const char *name, const char *unit, enum figure_better better,
                           double value);
// A figure out of durations in nanoseconds, in microseconds: mean and percentiles by nearest rank, exact, and samples
// (all, or evenly chosen ones, in the order given). It leaves `samples` as it is. NULL: memory ran out.
struct figure *figures_add_times(struct figures_row *row, const char *name, const uint64_t *samples, size_t count);
// Adds a bound, or gives the one of that name its new value. NOMEM.
int figures_add_bound(struct figures *figures, const char *name, double value, bool measured, const char *detail);

// The figure of that name, or NULL.
const struct figure *figures_find(const struct figures_row *row, const char *name);

// The whole of it as JSON. Measured numbers have six significant digits, or all before the point; counts are exact.
// NULL: memory ran out; the last error says so.
json_t *figures_to_json(const struct figures *figures);
// The way back. PROTOCOL names the member that is wrong; VERSION: the document is of another format.
int figures_from_json(struct figures *figures, const json_t *json);
// Whether a document says that it is one.
bool figures_is_json(const json_t *json);

// Writes the file, whole or not at all: what was there stays when the disk is full. Errors name the path.
int figures_save(const struct figures *figures, const char *path);
// Reads it. Errors name the path, as those of json_file_load() and figures_from_json().
int figures_load(struct figures *figures, const char *path);

#endif
