// The readers: one for each format, found by what the content is.
#ifndef COMPARE_READ_READ_H
#define COMPARE_READ_READ_H

#include "compare/model/run.h"

// A whole file.
struct compare_text {
  const char *data; // `size` bytes and a NUL
  size_t size;
  const json_t *json; // what it is as JSON, or NULL
};

struct compare_reader {
  const char *name; // of the format, in words
  bool (*is)(const struct compare_text *text);
  // Adds what the file has to the run, its repeats from `base` on. PROTOCOL: something in it is wrong, and where;
  // VERSION: it is of another version. After an error the run holds a part of it.
  int (*read)(struct compare_run *run, const struct compare_text *text, uint32_t base);
};

// The figure of `weft bench traffic` that says how two others differ: it may be negative, and they are compared.
#define COMPARE_READ_DIFFERENCE "slowdown"

extern const struct compare_reader compare_read_figures, compare_read_figures_csv, compare_read_results,
    compare_read_baseline, compare_read_p2p_json, compare_read_p2p_csv, compare_read_nixlbench, compare_read_nccl,
    compare_read_perftest, compare_read_ep;

#endif
