// Fills the record of a phase, and writes it to the store.
#include <stdio.h>
#include <string.h>

#include "run/common/rank_pipe.h"
#include "run/common/roster.h"
#include "run/rank/rank.h"

void rank_record_begin(struct rank *rank) {
  struct run_record *record = &rank->record;
  run_record_free(&rank->before);
  rank->before = *record;
  *record = (struct run_record){.launch_us = -1, .connect_us = -1, .first_dispatch_us = -1, .stall_us = -1};
  record->median_us = rank->median_ns ? (double)rank->median_ns / 1000 : -1;
  record->rank.rank = rank->task.rank;
  record->rank.local_rank = (int32_t)rank->task.slot;
  record->rank.gpu = rank->task.gpu;
  snprintf(record->rank.gpu_name, sizeof record->rank.gpu_name, "%s", rank->gpu_name);
  record->rank.incarnation = rank->ep ? weft_ep_incarnation(rank->ep) : 0;
  snprintf(record->rank.host, sizeof record->rank.host, "%s", rank->host);
  snprintf(record->boot, sizeof record->boot, "%s", rank->boot);
  rank->num_expected = run_roster_start(rank->plan, rank->config.negative, rank->phase, rank->expected);
}

void rank_record_back(struct rank *rank) {
  run_record_free(&rank->record);
  rank->record = rank->before;
  rank->before = (struct run_record){0};
}

void rank_record_put(struct rank *rank, enum results_state state, const char *reason) {
  char key[RUN_KEY_SIZE];
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  if (rank->ep && !weft_ep_get_stats(rank->ep, &stats))
    rank->record.rank.window_bytes = stats.window_bytes;
  rank->record.rank.state = state;
  rank->record.losses_known = rank->miss.deadline_ns ? -1 : (int32_t)rank->settled; // -1: the loss is not reported
  snprintf(rank->record.rank.reason, sizeof rank->record.rank.reason, "%s", reason);
  run_key(key, &rank->keys, "record/%u/%d", rank->phase, rank->task.rank);
  run_reporter_put(rank->reporter, key, run_record_to_json(&rank->record));
}

void rank_report_bandwidth(struct rank *rank) {
  const struct results_rank *found = &rank->record.rank;
  const struct results_times *both = &found->both, *dispatch = &found->dispatch, *combine = &found->combine;
  double dispatch_bytes = found->dispatch_logical_bytes, combine_bytes = found->combine_logical_bytes;
  int fd = rank->task.message_fd;
  run_message_line(fd, "[rank %d] Dispatch + combine bandwidth: %.2f GB/s, avg_t=%.2f us, min_t=%.2f us, max_t=%.2f us",
                   found->rank, results_gbps(dispatch_bytes + combine_bytes, both->avg), both->avg, both->min,
                   both->max);
  run_message_line(
      fd, "[rank %d] Dispatch bandwidth: %.2f GB/s, avg_t=%.2f us | Combine bandwidth: %.2f GB/s, avg_t=%.2f us",
      found->rank, results_gbps(dispatch_bytes, dispatch->avg), dispatch->avg,
      results_gbps(combine_bytes, combine->avg), combine->avg);
}

void rank_report_progress(struct rank *rank, const char *step, uint32_t done, uint32_t of) {
  run_message_offer(rank->task.message_fd, json_pack("{s:s, s:i, s:s, s:i, s:i}", "kind", "progress", "phase",
                                                     (int)rank->phase, "step", step, "done", (int)done, "of", (int)of));
}
