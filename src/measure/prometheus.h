// Figures and results as text for the textfile collector of Prometheus's node exporter: gauges in base units (seconds,
// bytes, ratios), in the text format 0.0.4. metrics/text.h writes the part of it that OpenMetrics has, too. A collector
// reads each FILE.prom in its directory at any time, so files are written as a whole.
#ifndef MEASURE_PROMETHEUS_H
#define MEASURE_PROMETHEUS_H

#include <stdio.h>

#include "measure/figures.h"
#include "measure/results.h"
#include "metrics/text.h"

// Each row's keys are labels of weft_bench_FIGURE_UNIT; a distribution has its mean there, and its percentiles in
// weft_bench_FIGURE_quantile_UNIT. Rows that were refused are left out. The file is written as a whole or not at all.
// SYSTEM or LIMIT: it cannot be written; errors name the path. [any]
int figures_save_prometheus(const char *path, const struct figures *figures);
// weft_elastic_...: figures of each phase, and of each rank in the last phase that passed. Otherwise as above. [any]
int results_save_prometheus(const char *path, const struct results *results);

// --- functions for the writers ---

// Adds a label, with a comma before it if there are others.
void prometheus_label(struct text *labels, const char *name, const char *value);
// Writes the text and frees it. NOMEM: it has failed; SYSTEM or LIMIT: `out` cannot be written.
int prometheus_hand_out(FILE *out, struct text *text);

#endif
