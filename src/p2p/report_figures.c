// The rows once more as figures, for pages and node exporters.
#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/signal/stop.h"
#include "base/text/digits.h"
#include "base/time/clock.h"
#include "measure/prometheus.h"
#include "p2p/bound.h"
#include "p2p/report.h"
#include "page/page.h"

bool p2p_figures_wanted(const struct p2p_report *report) {
  return report->config->html || report->config->prometheus;
}

int p2p_figures_begin(struct p2p_report *report) {
  const struct p2p_config *config = report->config;
  char host[256] = "";
  int rc = figures_begin(&report->figures, "p2p");
  if (rc != 0)
    return rc;
  gethostname(host, sizeof host - 1);
  json_array_append_new(report->figures.hosts, json_string(host));
  if (config->mode == P2P_INITIATOR)
    json_array_append_new(report->figures.hosts, json_string(config->host));
  json_t *settings =
      json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:b}", "mode", p2p_mode_names[config->mode], "op",
                p2p_op_names[config->op], "memory", p2p_memory_names[config->memory], "buffer-sizes", config->sizes,
                "iterations", (int)config->iterations, "warmup", (int)config->warmup, "depth", (int)config->depth,
                "bidirectional", config->bidirectional, "no-check", config->no_check);
  rc = settings ? json_object_update(report->figures.settings, settings) : -1;
  json_decref(settings);
  return rc == 0 ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the results");
}

static json_t *keys_of(const struct p2p_report *report, const struct p2p_result *one) {
  char op[16];
  size_t i = 0;
  for (const char *name = p2p_op_names[one->op]; *name && i + 1 < sizeof op; name++)
    op[i++] = (char)toupper((unsigned char)*name);
  op[i] = '\0';
  // The number of transfers under way depends on the size. It is no key, because it would split one line of a chart.
  json_t *keys = json_pack("{s:s, s:I, s:s, s:s, s:b}", "op", op, "bytes", (json_int_t)one->bytes, "initiator_memory",
                           report->ends.here, "target_memory", report->ends.there, "same_gpu", report->ends.same_gpu);
  if (one->op != P2P_OP_NOTIFY)
    json_object_set_new(keys, "transport", json_string(one->transport));
  return keys;
}

// Adds the rate of one direction, or of both together; `bound` is NULL if it is not the bound of this rate.
static bool add_rate(struct figures_row *row, const char *name, double gbps, const struct limits_bound *bound) {
  struct figure *figure = figures_add(row, name, "GB/s", FIGURE_HIGHER, digits_rounded(gbps));
  if (figure && bound) {
    figure->bound = bound->gbps;
    snprintf(figure->bound_name, sizeof figure->bound_name, "%s", bound->name);
  }
  return figure != NULL;
}

static bool add_rates(const struct p2p_report *report, struct figures_row *row, const struct p2p_result *one) {
  bool together = one->peer_gbps > 0 && p2p_bound_is_shared(report);
  if (one->gbps > 0 && !add_rate(row, "bandwidth", one->gbps, together ? NULL : &one->bound))
    return false;
  if (one->peer_gbps > 0 && !add_rate(row, "peer_bandwidth", one->peer_gbps, NULL))
    return false;
  return !together || add_rate(row, "both_bandwidth", one->gbps + one->peer_gbps, &one->bound);
}

static bool fill_row(const struct p2p_report *report, struct figures_row *row, const struct p2p_result *one) {
  struct figure *latency = figures_add(row, "latency", "us", FIGURE_LOWER, p2p_us(histogram_mean(&one->latency)));
  if (!latency)
    return false;
  latency->count = one->latency.count;
  latency->min = p2p_us((double)one->latency.min);
  latency->p50 = p2p_percentile_us(one, 50);
  latency->p95 = p2p_percentile_us(one, 95);
  latency->p99 = p2p_percentile_us(one, 99);
  latency->p999 = p2p_percentile_us(one, 99.9);
  latency->max = p2p_us((double)one->latency.max);
  snprintf(row->refused, sizeof row->refused, "%.*s", (int)sizeof row->refused - 1, one->refused);
  if (!add_rates(report, row, one) ||
      !figures_add(row, "messages", "1/s", FIGURE_HIGHER, digits_rounded(one->per_second)))
    return false;
  if (row->refused[0])
    figures_withdraw_rates(row);
  return true;
}

int p2p_figures_row(struct p2p_report *report, const struct p2p_result *one) {
  json_t *keys = keys_of(report, one);
  struct figures_row *row = keys ? figures_add_row(&report->figures, keys, 0) : NULL;
  json_decref(keys);
  if (!row || !fill_row(report, row, one))
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  const struct limits_bound *bound = &one->bound;
  return *bound->name ? figures_add_bound(&report->figures, bound->name, bound->gbps, bound->measured, bound->detail)
                      : 0;
}

// Also writes the part that was measured before an interruption.
int p2p_figures_write(struct p2p_report *report, bool complete) {
  const struct p2p_config *config = report->config;
  struct figures *figures = &report->figures;
  const struct figures *list[] = {figures};
  const char *label = "p2p";
  if (*report->uses.text)
    json_object_set_new(figures->settings, "uses", json_string(report->uses.text));
  figures->elapsed_s = digits_rounded((double)(clock_ns() - report->begun_ns) / 1e9);
  figures->complete = complete;
  figures->passed = complete && report->refused == 0;
  if (!complete && stop_came())
    snprintf(figures->cut_short, sizeof figures->cut_short, "SIG%s", sigabbrev_np(stop_came()));
  else if (!complete)
    snprintf(figures->error, sizeof figures->error, "%s", weft_last_error());
  int rc = config->html ? page_save_figures(config->html, list, &label, 1) : 0;
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", rc != 0 ? weft_last_error() : "");
  int other = config->prometheus ? figures_save_prometheus(config->prometheus, figures) : 0;
  return rc != 0 ? fail(rc, "%s", why) : other;
}
