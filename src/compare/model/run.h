// A run as `weft compare` sees it, whatever wrote it: rows by their keys, each with figures, each measured in one or
// more repeats.
#ifndef COMPARE_MODEL_RUN_H
#define COMPARE_MODEL_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

enum { COMPARE_NAME = 64, COMPARE_UNIT = 16 };

#define COMPARE_MOST 1e15 // no figure and no size is that large; below it, sums and ratios stay finite

// What one repeat found of one figure of one row. Values are from 0 to COMPARE_MOST.
struct compare_repeat {
  uint32_t index;    // of the repeat in its run, from 0
  double value;      // the mean, or a percentile
  double percentile; // which one, as a part of 1; 0: the mean
  double error;      // its standard error, where that was reported in the place of samples; negative: not known
  uint64_t count;    // iterations behind it; 0: not known
  size_t num_samples;
  double *samples; // some iterations in the order of time; NULL: none
};

struct compare_series {
  char name[COMPARE_NAME]; // "latency", "bandwidth", ...
  char unit[COMPARE_UNIT];
  bool higher; // is better
  bool detail; // a percentile: shown only where it is asked for
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
  json_t *index;      // from the canonical text of keys to places in `rows`
  uint32_t left_out;  // rows that their own benchmark did not believe
  char why_left[256]; // the first of these reasons
  char remark[256];   // what a reader of the comparison has to know of the whole run: it was cut short, it failed
  json_t *hosts;      // the names of its hosts, as members of an object; NULL: not known
  json_t *versions;   // those of the versions of weft that made it, likewise
};

// Frees what it points to, and leaves it empty.
void compare_run_free(struct compare_run *run);

// The row of these keys, a new one where there is none; takes the reference. NULL: memory ran out.
struct compare_row *compare_run_row(struct compare_run *run, json_t *keys);

// Where repeats of the next file begin, and who counts them: sees that there are at least `count`, which began then.
int compare_run_repeats(struct compare_run *run, uint32_t count, uint64_t started);

// Adds the host names of a list, and a version, to those of the run; what is no text or no list is passed over. NOMEM.
int compare_run_made(struct compare_run *run, const json_t *hosts, const char *version);
// Such names as a list, the caller's; of NULL an empty one. NULL: memory ran out.
json_t *compare_run_names(const json_t *names);

// Adds what a repeat found; `samples` is taken, also after an error. A repeat that has this figure already makes it the
// next one. PROTOCOL: it is negative, not finite or too large, or of another unit or direction than before.
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

// The series of that name, or NULL.
const struct compare_series *compare_row_find(const struct compare_row *row, const char *name);

// Mean over the repeats.
double compare_series_mean(const struct compare_series *series);

// The keys' canonical text, the caller's to free; NULL: memory ran out.
char *compare_keys_text(const json_t *keys);

#endif
