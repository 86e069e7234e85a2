// Reads what the program that a test names has measured from the logs of its nodes, by the readers of `weft compare`.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "compare/input.h"
#include "slurm/report/report.h"

// The mean over ranks, while logs are read; or the highest bandwidth of a benchmark.
struct measured {
  double sum, highest;
  double ranks;
};

static double number_of(const struct compare_row *row, const char *key) {
  return (double)json_integer_value(json_object_get(row->keys, key));
}

// A log has a row for each phase, which is the mean over the ranks of its node; the last one counts.
static void take_rows(struct measured *measured, const struct compare_run *run) {
  const struct compare_row *last = NULL;
  for (size_t i = 0; i < run->num_rows; i++) {
    const struct compare_row *row = &run->rows[i];
    const struct compare_series *bandwidth = compare_row_find(row, "bandwidth");
    const char *op = json_string_value(json_object_get(row->keys, "op"));
    if (op && strcmp(op, "both") == 0 && compare_row_find(row, "logical_bandwidth") &&
        (!last || number_of(row, "phase") > number_of(last, "phase")))
      last = row;
    if (bandwidth && strcmp(bandwidth->unit, "GB/s") == 0 && compare_series_mean(bandwidth) > measured->highest)
      measured->highest = compare_series_mean(bandwidth);
  }
  if (last) {
    measured->sum += number_of(last, "ranks") * compare_series_mean(compare_row_find(last, "logical_bandwidth"));
    measured->ranks += number_of(last, "ranks");
  }
}

static void take_log(struct measured *measured, const char *directory, const char *name) {
  struct compare_run run = {0};
  struct text path = {0};
  text_add(&path, "%s/%s", directory, name);
  if (!path.failed && input_add_file(&run, path.data) == 0) // else the node has measured nothing
    take_rows(measured, &run);
  compare_run_free(&run);
  text_free(&path);
}

static bool is_node_log(const char *name) {
  size_t length = strlen(name);
  return strncmp(name, "node-", 5) == 0 && length > 9 && strcmp(name + length - 4, ".log") == 0;
}

double slurm_report_logs(const char *directory) {
  struct measured measured = {0};
  DIR *list = opendir(directory);
  for (struct dirent *entry; list && (entry = readdir(list)) != NULL;)
    if (is_node_log(entry->d_name))
      take_log(&measured, directory, entry->d_name);
  if (list)
    closedir(list);
  return measured.ranks > 0 ? measured.sum / measured.ranks : measured.highest;
}
