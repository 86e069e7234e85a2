// A run in the form that `weft compare` uses for all formats. It has rows, which are identified by their keys. A row
// has figures, and each figure was measured in one or more repeats.
#ifndef COMPARE_MODEL_RUN_H
#define COMPARE_MODEL_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

enum { COMPARE_NAME = 64, COMPARE_UNIT = 16 };

#define COMPARE_MOST 1e15 // larger than every real figure and size; below it, sums and ratios stay finite

// The result of one repeat for one figure of one row. Values are from 0 to COMPARE_MOST.
struct compare_repeat {
  uint32_t index;    // of the repeat in its run, from 0
  double value;      // the mean, or a percentile
  double percentile; // which percentile, as a fraction of 1; 0: the mean
  double error;      // its standard error, if this was reported instead of samples; negative: not known
  uint64_t count;    // number of iterations; 0: not known
  size_t num_samples;
  double *samples; // some iterations in the order of time; NULL: none
};

struct compare_series {
  char name[COMPARE_NAME]; // "latency", "bandwidth", ...
  char unit[COMPARE_UNIT];
  bool higher; // higher values are better
  bool detail; // a percentile: shown only if the user asks for percentiles
  size_t num_repeats;
  struct compare_repeat *repeats; // by index
};

struct compare_row {
  json_t *keys; // object of strings, integers and booleans
  size_t num_series;
  struct compare_series *series;
};

struct compare_run {
  char label[COMPARE_NAME];
  char *path;                // of its first file
  char format[COMPARE_NAME]; // in words: "weft figures", "nixlbench table", ...
  uint32_t num_repeats;
  uint64_t *started; // [num_repeats]: seconds since 1970; 0: not known
  size_t num_rows;
  struct compare_row *rows;
  json_t *index;          // from the canonical text of keys to places in `rows`
  uint32_t left_out;      // number of rows that their own benchmark refused
  char why_left[256];     // the first of these reasons
  uint32_t without_rates; // number of rows that are here, but whose rates their benchmark refused
  char why_without[256];  // the first of these reasons
  char remark[256];       // a fact about the whole run for the reader of a comparison: it was interrupted, it failed
  json_t *hosts;          // the names of its hosts, as members of an object; NULL: not known
  json_t *versions;       // the versions of weft that made it, in the same form
};

// Frees what it points to, and leaves it empty.
void compare_run_free(struct compare_run *run);

// Finds the row with these keys, or adds a new one; takes over the reference. NULL: memory ran out.
struct compare_row *compare_run_row(struct compare_run *run, json_t *keys);

// Makes sure that the run has at least `count` repeats; new ones get the begin `started`. The next file's repeats
// follow them.
int compare_run_repeats(struct compare_run *run, uint32_t count, uint64_t started);

// Adds a list of host names, and a version, to those of the run; anything else than texts and a list is skipped. NOMEM.
int compare_run_made(struct compare_run *run, const json_t *hosts, const char *version);
// Returns such names as a list that the caller owns; for NULL an empty list. NULL: memory ran out.
json_t *compare_run_names(const json_t *names);

// Adds the figure of a repeat and takes over `samples`, also after an error. If the repeat has this figure already, the
// figure is added to the next repeat. PROTOCOL: the figure is negative, not finite or too large, or has another unit or
// direction than before.
struct compare_figure {
  const char *name, *unit;
  bool higher, detail;
  double value, percentile, error;
  uint64_t count;
  size_t num_samples;
  double *samples;
};
int compare_row_add(struct compare_run *run, struct compare_row *row, uint32_t repeat,
                    const struct compare_figure *figure);

// Finds the series of that name, or NULL.
const struct compare_series *compare_row_find(const struct compare_row *row, const char *name);

// Mean over the repeats.
double compare_series_mean(const struct compare_series *series);

// The keys' canonical text, which the caller frees; NULL: memory ran out.
char *compare_keys_text(const json_t *keys);

#endif
