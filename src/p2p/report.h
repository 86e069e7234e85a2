// Writes results as they are measured, as a table or as CSV, or at the end as one JSON document. Results are also kept
// as figures if a page or a node exporter's file is to be written.
#ifndef P2P_REPORT_H
#define P2P_REPORT_H

#include <jansson.h>

#include "base/text/digits.h"
#include "limits/uses.h"
#include "measure/figures.h"
#include "p2p/p2p.h"

// What the bytes move between, for the report's reader.
struct p2p_ends {
  char here[32], there[32]; // "host", "user", "cuda:1", "file", "object"
  bool same_gpu;            // both ends are on one GPU, so the measured bytes crossed no link
  bool two_hosts;
};

enum { P2P_BOUNDS = 16 };

struct p2p_report {
  FILE *out;
  const struct p2p_config *config;
  struct p2p_ends ends;
  int size_width; // of the table's column
  json_t *list;   // of the rows, for JSON
  uint32_t rows;
  struct limits *limits;                  // of this host
  uint32_t refused;                       // of the rows
  struct limits_bound bounds[P2P_BOUNDS]; // the bounds of the rows, for the table's foot
  uint32_t num_bounds;
  struct limits_uses uses;
  struct figures figures; // the rows again, if a page or a node exporter's file is to be written
  uint64_t begun_ns;
};

// `sizes` are the sizes that will be measured. Loads this host's bounds, so the process must not fork afterwards.
int p2p_report_begin(struct p2p_report *report, FILE *out, const struct p2p_config *config,
                     const struct p2p_sizes *sizes);
// Compares the row with its bound, and writes and flushes it, so that it is not lost if the process ends; a JSON row is
// kept until the end.
int p2p_report_row(struct p2p_report *report, struct p2p_result *result);
// `err` is 0 if everything that was asked for was measured; otherwise the last error says why not, and is kept. The
// report is empty afterwards. P2P_REFUSED: at least one row was refused.
int p2p_report_end(struct p2p_report *report, int err);

// Nanoseconds as microseconds, with the digits that reports show; then the same for a percentile of the latencies.
static inline double p2p_us(double ns) {
  return digits_rounded(ns / 1e3);
}
static inline double p2p_percentile_us(const struct p2p_result *result, double percent) {
  return p2p_us((double)histogram_percentile(&result->latency, percent));
}

// --- figures for a page or a node exporter (report_figures.c) ---

bool p2p_figures_wanted(const struct p2p_report *report);
int p2p_figures_begin(struct p2p_report *report);
int p2p_figures_row(struct p2p_report *report, const struct p2p_result *result);
// Also writes the part that was measured before an interruption. SYSTEM: a file cannot be written.
int p2p_figures_write(struct p2p_report *report, bool complete);

// --- the table (report_table.c) ---

void p2p_table_head(const struct p2p_report *report);
void p2p_table_row(const struct p2p_report *report, const struct p2p_result *result);
// Prints what the network libraries use, and the bounds that the rates were compared with.
void p2p_table_foot(const struct p2p_report *report);

#endif
