// Writes an elastic run for a node exporter. With 200 phases and 64 ranks, all figures would be 100,000 series. So each
// phase has only figures over all ranks, and each rank only those of the last phase that passed.
#include "measure/prometheus.h"
#include "measure/whole_file.h"

static void add_number(struct text *labels, const char *name, long number) {
  char text[24];
  snprintf(text, sizeof text, "%ld", number);
  prometheus_label(labels, name, text);
}

static void put(struct text *text, const char *name, struct text *labels, double value) {
  if (labels->data)
    metrics_put_gauge(text, name, labels->data, value);
  text->failed |= labels->failed;
  text_free(labels);
}

static void family(struct text *text, const char *name, const char *help) {
  metrics_put_family(text, name, "gauge", "", help);
}

// --- the run ---

static void put_run(struct text *text, const struct results *results) {
  struct text job = {0};
  const struct {
    const char *name, *help;
    double value;
  } rows[] = {
      {"weft_elastic_passed", "1 if every phase passed on every rank.", results->passed},
      {"weft_elastic_elapsed_seconds", "Duration of the run.", results->elapsed_s},
      {"weft_elastic_bandwidth_bytes_per_second",
       "Logical dispatch and combine of the last phase that passed, mean of its ranks.",
       results_default_metric(results) * 1e9},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    family(text, rows[i].name, rows[i].help);
    prometheus_label(&job, "job", results->job);
    put(text, rows[i].name, &job, rows[i].value);
  }
}

static void put_phases(struct text *text, const struct results *results) {
  static const char name[] = "weft_elastic_phase_bandwidth_bytes_per_second";
  family(text, name, "Logical dispatch and combine of a phase, mean of its ranks.");
  for (uint32_t i = 0; i < results->num_phases; i++) {
    struct text labels = {0};
    prometheus_label(&labels, "job", results->job);
    add_number(&labels, "phase", (long)results->phases[i].index);
    put(text, name, &labels, results_phase_gbps(&results->phases[i]) * 1e9);
  }
}

static void put_states(struct text *text, const struct results *results) {
  static const char name[] = "weft_elastic_phase_ranks";
  family(text, name, "Ranks of a phase, by what became of them.");
  for (uint32_t i = 0; i < results->num_phases; i++) {
    for (int state = RESULTS_PASSED; state < RESULTS_NUM_STATES; state++) {
      struct text labels = {0};
      uint32_t count = 0;
      for (uint32_t k = 0; k < results->phases[i].num_ranks; k++)
        count += results->phases[i].ranks[k].state == (enum results_state)state;
      if (count == 0)
        continue;
      prometheus_label(&labels, "job", results->job);
      add_number(&labels, "phase", (long)results->phases[i].index);
      prometheus_label(&labels, "state", results_state_name((enum results_state)state));
      put(text, name, &labels, count);
    }
  }
}

// --- ranks ---

static void label_rank(struct text *labels, const struct results *results, const struct results_rank *rank) {
  prometheus_label(labels, "job", results->job);
  add_number(labels, "rank", rank->rank);
  prometheus_label(labels, "host", rank->host);
}

static void put_times(struct text *text, const struct results *results, const struct results_rank *rank,
                      const char *operation, const struct results_times *times) {
  const struct {
    const char *quantile;
    double us;
  } rows[] = {{"0", times->min}, {"0.5", times->p50}, {"0.99", times->p99}, {"1", times->max}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows && times->count > 0; i++) {
    struct text labels = {0};
    label_rank(&labels, results, rank);
    prometheus_label(&labels, "operation", operation);
    prometheus_label(&labels, "quantile", rows[i].quantile);
    put(text, "weft_elastic_rank_operation_quantile_seconds", &labels, rows[i].us / 1e6);
  }
}

static void put_ranks(struct text *text, const struct results *results, const struct results_phase *phase) {
  family(text, "weft_elastic_rank_operation_quantile_seconds",
         "Percentiles of a rank's operations in the last phase that passed; 0 is the least, 1 the most.");
  for (uint32_t i = 0; i < phase->num_ranks; i++) {
    const struct results_rank *rank = &phase->ranks[i];
    put_times(text, results, rank, "both", &rank->both);
    put_times(text, results, rank, "dispatch", &rank->dispatch);
    put_times(text, results, rank, "combine", &rank->combine);
  }
  static const char name[] = "weft_elastic_rank_bandwidth_bytes_per_second";
  family(text, name, "Logical dispatch and combine of a rank in the last phase that passed.");
  for (uint32_t i = 0; i < phase->num_ranks; i++) {
    struct text labels = {0};
    if (phase->ranks[i].both.count == 0)
      continue;
    label_rank(&labels, results, &phase->ranks[i]);
    put(text, name, &labels, results_rank_gbps(&phase->ranks[i]) * 1e9);
  }
}

// --- changes ---

static void put_changes(struct text *text, const struct results *results) {
  static const char *const words[] = {[RESULTS_JOIN] = "join", [RESULTS_LEAVE] = "leave", [RESULTS_KILL] = "kill"};
  static const char name[] = "weft_elastic_longest_stall_seconds";
  family(text, name, "Longest operation of a survivor that overlapped a change.");
  for (uint32_t i = 0; i < results->num_transitions; i++) {
    const struct results_transition *change = &results->transitions[i];
    struct text labels = {0};
    if (change->longest_stall_us < 0)
      continue;
    prometheus_label(&labels, "job", results->job);
    add_number(&labels, "phase", (long)change->phase);
    add_number(&labels, "rank", change->rank);
    prometheus_label(&labels, "change", words[change->change]);
    put(text, name, &labels, change->longest_stall_us / 1e6);
  }
}

static int write_results(FILE *out, const void *arg) {
  const struct results *results = arg;
  struct text text = {0};
  const struct results_phase *last = results_last_passed(results);
  put_run(&text, results);
  put_phases(&text, results);
  put_states(&text, results);
  if (last)
    put_ranks(&text, results, last);
  put_changes(&text, results);
  return prometheus_hand_out(out, &text);
}

int results_save_prometheus(const char *path, const struct results *results) {
  return whole_file_save(path, write_results, results);
}
