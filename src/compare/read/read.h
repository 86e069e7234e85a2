// The readers: one for each format. The content decides which reader is used.
#ifndef COMPARE_READ_READ_H
#define COMPARE_READ_READ_H

#include "compare/model/run.h"

// A whole file.
struct compare_text {
  const char *data; // `size` bytes and a NUL
  size_t size;
  const json_t *json; // the content parsed as JSON, or NULL
};

struct compare_reader {
  const char *name; // of the format, in words
  bool (*is)(const struct compare_text *text);
  // Adds the content to the run; its repeats are numbered from `base`. PROTOCOL: something in it is wrong, and the
  // error says where; VERSION: it has another version. After an error the run has a part of the content.
  int (*read)(struct compare_run *run, const struct compare_text *text, uint32_t base);
};

// The figure of `weft bench traffic` that is the difference of two other figures. It may be negative, so it is not
// compared; the two others are.
#define COMPARE_READ_DIFFERENCE "slowdown"

extern const struct compare_reader compare_read_figures, compare_read_figures_csv, compare_read_results,
    compare_read_baseline, compare_read_p2p_json, compare_read_p2p_csv, compare_read_nixlbench, compare_read_nccl,
    compare_read_perftest, compare_read_ep;

#endif
