// The report as CSV (RFC 4180): a header record, then one record for each phase and rank.
#include <inttypes.h>

#include "base/text/csv.h"
#include "measure/report.h"

static const char header[] = "run,job,phase,rank,host,slot,incarnation,state,reason,checked,lost_selections,worst_diff,"
                             "operations,"
                             "avg_us,min_us,p50_us,p99_us,max_us,"
                             "dispatch_avg_us,dispatch_min_us,dispatch_p50_us,dispatch_p99_us,dispatch_max_us,"
                             "combine_avg_us,combine_min_us,combine_p50_us,combine_p99_us,combine_max_us,"
                             "logical_gbps,dispatch_logical_gbps,dispatch_wire_gbps,combine_logical_gbps,"
                             "combine_wire_gbps,dispatch_logical_bytes,dispatch_wire_bytes,combine_logical_bytes,"
                             "combine_wire_bytes,gpu,gpu_name,window_bytes\r\n";

static void put_times(FILE *out, const struct results_times *times) {
  if (times->count == 0)
    fputs(",,,,,", out);
  else
    fprintf(out, ",%.3f,%.3f,%.3f,%.3f,%.3f", times->avg, times->min, times->p50, times->p99, times->max);
}

static void put_bandwidths(FILE *out, const struct results_rank *rank) {
  if (rank->both.count == 0) {
    fputs(",,,,,,,,,", out);
    return;
  }
  fprintf(out, ",%.6g,%.6g,%.6g,%.6g,%.6g", results_rank_gbps(rank),
          results_gbps(rank->dispatch_logical_bytes, rank->dispatch.avg),
          results_gbps(rank->dispatch_wire_bytes, rank->dispatch.avg),
          results_gbps(rank->combine_logical_bytes, rank->combine.avg),
          results_gbps(rank->combine_wire_bytes, rank->combine.avg));
  fprintf(out, ",%.12g,%.12g,%.12g,%.12g", rank->dispatch_logical_bytes, rank->dispatch_wire_bytes,
          rank->combine_logical_bytes, rank->combine_wire_bytes);
}

static void put_rank(FILE *out, const struct results *results, uint32_t phase, const struct results_rank *rank) {
  bool ran = rank->incarnation != 0;
  csv_write_text(out, results->run);
  fputc(',', out);
  csv_write_text(out, results->job);
  fprintf(out, ",%" PRIu32 ",%" PRId32 ",", phase, rank->rank);
  csv_write_text(out, rank->host);
  if (ran)
    fprintf(out, ",%" PRId32 ",%016" PRIx64, rank->local_rank, rank->incarnation);
  else
    fputs(",,", out);
  fprintf(out, ",%s,", results_state_name(rank->state));
  csv_write_text(out, rank->reason);
  if (ran)
    fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%.6g,%" PRIu64, rank->checked, rank->num_lost_selections, rank->worst_diff,
            rank->both.count);
  else
    fputs(",,,,", out);
  put_times(out, &rank->both);
  put_times(out, &rank->dispatch);
  put_times(out, &rank->combine);
  put_bandwidths(out, rank);
  if (ran && rank->gpu >= 0)
    fprintf(out, ",%" PRId32 ",", rank->gpu);
  else
    fputs(",,", out);
  csv_write_text(out, rank->gpu_name);
  if (ran)
    fprintf(out, ",%" PRIu64, rank->window_bytes);
  else
    fputc(',', out);
  fputs("\r\n", out);
}

void report_csv(FILE *out, const struct results *results) {
  fputs(header, out);
  for (uint32_t i = 0; i < results->num_phases; i++) {
    const struct results_phase *phase = &results->phases[i];
    for (uint32_t k = 0; k < phase->num_ranks; k++)
      put_rank(out, results, phase->index, &phase->ranks[k]);
  }
}
