// Results, for people and for programs.
#include <jansson.h>

#include "base/fail.h"
#include "base/text/digits.h"
#include "base/text/table.h"
#include "p2p/p2p.h"

enum { WIDTH = 100 }; // columns of the table

static double us(uint64_t ns) {
  return (double)ns / 1e3;
}

static double rate(const struct p2p_result *result) { // messages a second, one after the other
  double mean = histogram_mean(&result->latency);
  return mean > 0 ? 1e9 / mean : 0;
}

static void add_rate(struct table *table, enum table_style style, double gbps) {
  if (gbps > 0)
    table_add(table, style, "%.3f", gbps);
  else
    table_add(table, style, "%s", "");
}

static int report_table(FILE *out, const struct p2p_config *config, const struct p2p_results *results) {
  static const struct table_column columns[] = {{.heading = "operation"},
                                                {.heading = "size", .right = true},
                                                {.heading = "p50", .group = "latency (us)", .right = true},
                                                {.heading = "p99", .group = "latency (us)", .right = true},
                                                {.heading = "min", .group = "latency (us)", .right = true},
                                                {.heading = "max", .group = "latency (us)", .right = true},
                                                {.heading = "1/s", .right = true},
                                                {.heading = "GB/s", .right = true},
                                                {.heading = "peer's GB/s", .right = true},
                                                {.heading = "at once", .right = true},
                                                {.heading = "checked"},
                                                {.heading = "transport"}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof *columns};
  for (uint32_t i = 0; i < results->count; i++) {
    const struct p2p_result *one = &results->list[i];
    char size[32];
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%s", p2p_op_names[one->op]);
    table_add(&table, TABLE_PLAIN, "%s", p2p_size_text(one->bytes, size, sizeof size));
    table_add(&table, TABLE_BOLD, "%.2f", us(histogram_percentile(&one->latency, 50)));
    table_add(&table, TABLE_PLAIN, "%.2f", us(histogram_percentile(&one->latency, 99)));
    table_add(&table, TABLE_PLAIN, "%.2f", us(one->latency.min));
    table_add(&table, TABLE_PLAIN, "%.2f", us(one->latency.max));
    table_add(&table, TABLE_PLAIN, "%.0f", rate(one));
    add_rate(&table, TABLE_BOLD, one->gbps);
    add_rate(&table, TABLE_PLAIN, one->peer_gbps);
    if (one->gbps > 0)
      table_add(&table, TABLE_PLAIN, "%u", one->depth);
    else
      table_add(&table, TABLE_PLAIN, "%s", "");
    table_add(&table, one->checked ? TABLE_GREEN : TABLE_PLAIN, "%s", one->checked ? "yes" : "");
    table_add(&table, TABLE_PLAIN, "%s", one->transport);
  }
  const struct table_look look = {.color = config->color, .unicode = config->unicode, .width = WIDTH};
  bool failed = table.failed;
  if (!failed)
    table_print(out, &table, &look);
  table_free(&table);
  return failed ? fail(WEFT_ERR_NOMEM, "no memory for the report") : 0;
}

static json_t *describe(const struct p2p_result *one) {
  json_t *object =
      json_pack("{s:s, s:I, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:s}", "operation", p2p_op_names[one->op],
                "bytes", (json_int_t)one->bytes, "iterations", one->iterations, "at_once", one->depth, "latency_p50_us",
                digits_rounded(us(histogram_percentile(&one->latency, 50))), "latency_p99_us",
                digits_rounded(us(histogram_percentile(&one->latency, 99))), "latency_min_us",
                digits_rounded(us(one->latency.min)), "latency_max_us", digits_rounded(us(one->latency.max)),
                "latency_avg_us", digits_rounded(histogram_mean(&one->latency) / 1e3), "per_second",
                digits_rounded(rate(one)), "checked", one->checked, "transport", one->transport);
  if (object && one->gbps > 0)
    json_object_set_new(object, "gb_per_second", json_real(digits_rounded(one->gbps)));
  if (object && one->peer_gbps > 0)
    json_object_set_new(object, "peer_gb_per_second", json_real(digits_rounded(one->peer_gbps)));
  return object;
}

static int report_json(FILE *out, const struct p2p_config *config, const struct p2p_results *results) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < results->count; i++)
    json_array_append_new(list, describe(&results->list[i]));
  json_t *all = json_pack("{s:s, s:b, s:o}", "memory", p2p_memory_names[config->memory], "bidirectional",
                          config->bidirectional, "results", list);
  int rc = all && json_dumpf(all, out, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS_IN_JSON)) == 0
               ? 0
               : fail(WEFT_ERR_SYSTEM, "cannot write the results");
  fputc('\n', out);
  json_decref(all);
  return rc;
}

int p2p_report(FILE *out, const struct p2p_config *config, const struct p2p_results *results) {
  return config->json ? report_json(out, config, results) : report_table(out, config, results);
}
