// Results made by hand for the tests of files and reports.
#include "measure/support/sample.h"

#include <stdlib.h>
#include <string.h>

static void fill_times(struct results_times *times, double avg) {
  *times = (struct results_times){
      .count = 20, .avg = avg, .min = 0.8 * avg, .p50 = 0.95 * avg, .p99 = 1.5 * avg, .max = 1.75 * avg};
}

// As measured: bytes of 128 tokens of 7,168 values in bf16, eight experts each.
static void fill_passed(struct results_rank *rank, uint32_t num_ranks, double dispatch_us, double combine_us) {
  rank->state = RESULTS_PASSED;
  rank->checked = 6;
  rank->num_dispatch_rows = num_ranks;
  rank->dispatch_rows = calloc(num_ranks, sizeof *rank->dispatch_rows);
  for (uint32_t i = 0; i < num_ranks; i++) // some have none, and some many more than others
    rank->dispatch_rows[i] = i % 3 == 2 ? 0 : 100 + i * i * i * i * (uint64_t)rank->rank;
  rank->worst_diff = 3.1e-6;
  rank->dispatch_logical_bytes = 14696448;
  rank->dispatch_wire_bytes = 4975616;
  rank->combine_logical_bytes = 14680064;
  rank->combine_wire_bytes = 4972544;
  fill_times(&rank->dispatch, dispatch_us);
  fill_times(&rank->combine, combine_us);
  fill_times(&rank->both, dispatch_us + combine_us);
}

static struct results_rank *add_phase(struct results *results, uint32_t index, uint32_t num_ranks,
                                      const enum results_state *states) {
  struct results_phase *phase = &results->phases[index];
  *phase = (struct results_phase){index, num_ranks, calloc(num_ranks, sizeof *phase->ranks), 0.5 + index, -1};
  if (index + 1 < results->num_phases) // the last one did not end
    phase->end_s = 1.25 + index;
  for (uint32_t i = 0; i < num_ranks; i++) {
    struct results_rank *rank = &phase->ranks[i];
    rank->rank = rank->local_rank = (int32_t)i;
    rank->gpu = -1;
    rank->state = states[i];
    if (states[i] == RESULTS_NOT_MEMBER || states[i] == RESULTS_UNREACHED)
      continue;
    strcpy(rank->host, i < 4 ? "node-a" : "gpu-host-0017.example.org");
    rank->incarnation = 0xF00D000000000000u + 100 * index + i;
    if (states[i] == RESULTS_PASSED)
      fill_passed(rank, num_ranks, 2100.5 + 10 * i + 300 * index, 1800.25 + 7 * i + 200 * index);
  }
  return phase->ranks;
}

static void begin(struct results *results, uint32_t num_phases, uint32_t num_transitions, const char *plan) {
  *results = (struct results){.elapsed_s = 4.25, .num_phases = num_phases, .num_transitions = num_transitions};
  strcpy(results->run, "5f0c3e1a-9b7d-4c52-8e64-2a1b0c9d8e7f");
  strcpy(results->job, "elastic");
  strcpy(results->version, "0.1.0");
  strcpy(results->started, "2026-11-20T12:00:00Z");
  strcpy(results->store, "embedded, http://127.0.0.1:40123");
  results->config = json_pack("{s:i, s:i, s:i, s:i, s:i, s:s, s:s}", "num_tokens", 128, "hidden", 7168, "topk", 8,
                              "experts_per_rank", 2, "iterations", 20, "dtype", "bf16", "layout", "per-expert");
  results->plan = json_loads(plan, 0, NULL);
  results->phases = calloc(num_phases, sizeof *results->phases);
  results->transitions = calloc(num_transitions, sizeof *results->transitions);
}

static struct results_transition transition(uint32_t phase, enum results_change change, int32_t rank, uint64_t op) {
  return (struct results_transition){
      .phase = phase,
      .change = change,
      .rank = rank,
      .epoch = 1 + phase,
      .op = op,
      .time_s = 0.75 + phase,
      .launch_us = -1,
      .connect_us = -1,
      .first_dispatch_us = 1250.5,
      .longest_stall_us = 5210.75,
      .stalled_rank = 2,
      .median_us = 2084.3,
      .membership_stall_us = 4120.5,
      .membership_rank = 3,
      .membership_median_us = 2010.25,
      .detect_us = -1,
      .detect_median_us = -1,
  };
}

static struct results_transition join(uint32_t phase, int32_t rank, uint64_t op) {
  struct results_transition t = transition(phase, RESULTS_JOIN, rank, op);
  t.launch_us = 3100 + 100 * rank;
  t.connect_us = 12345.6;
  return t;
}

#define N RESULTS_NOT_MEMBER
#define P RESULTS_PASSED
#define F RESULTS_FAILED
#define K RESULTS_KILLED
#define L RESULTS_LEFT
#define U RESULTS_UNREACHED

// All ranks on GPUs of their own.
static void put_on_gpus(struct results *results) {
  json_object_set_new(results->config, "memory", json_string("cuda"));
  for (uint32_t i = 0; i < results->num_phases; i++) {
    for (uint32_t k = 0; k < results->phases[i].num_ranks; k++) {
      struct results_rank *rank = &results->phases[i].ranks[k];
      if (!*rank->host)
        continue;
      rank->gpu = (int32_t)k % 4;
      strcpy(rank->gpu_name, "NVIDIA H200");
      rank->window_bytes = 15728640 * (i + 1);
    }
  }
}

void sample_passed(struct results *results) {
  begin(results, 4, 7, "[[0,1,2,3],[0,1,2,3,4,5,6,7],[0,1,2,3,4,-6,7],[0,1,2,3,4,5,6,7]]");
  add_phase(results, 0, 8, (enum results_state[]){P, P, P, P, N, N, N, N});
  add_phase(results, 1, 8, (enum results_state[]){P, P, P, P, P, P, P, P});
  add_phase(results, 2, 8, (enum results_state[]){P, P, P, P, P, L, K, P});
  add_phase(results, 3, 8, (enum results_state[]){P, P, P, P, P, P, P, P});
  for (int32_t i = 0; i < 4; i++)
    results->transitions[i] = join(1, 4 + i, 44);
  results->transitions[4] = transition(2, RESULTS_LEAVE, 5, 91);
  results->transitions[5] = transition(2, RESULTS_KILL, 6, 93);
  results->transitions[5].detect_us = 912.5;
  results->transitions[5].detect_median_us = 1087;
  results->transitions[6] = join(3, 6, 140);
  put_on_gpus(results);
  json_object_set_new(results->config, "bound",
                      json_pack("{s:s, s:b, s:s, s:s, s:f}", "name", "link 0000:1b:00.0 to 0000:43:00.0", "measured", 1,
                                "detail", "by the test", "of", "rank", "gb_per_second", 385.25));
  results->passed = true;
}

void sample_failed(struct results *results) {
  begin(results, 3, 1, "[[0,1,2,3],[0,1,2,3,4],[0,1,2,3,4,6]]");
  add_phase(results, 0, 6, (enum results_state[]){P, P, P, P, N, N});
  struct results_rank *ranks = add_phase(results, 1, 6, (enum results_state[]){P, P, F, P, F, N});
  add_phase(results, 2, 6, (enum results_state[]){U, U, U, U, U, U});
  for (uint32_t i = 0; i < 3; i++)
    results->phases[i].ranks[5].rank = 6;
  strcpy(ranks[2].reason,
         "operation 47: dispatch: row 12 of local expert 1 (rank 3, token 17) has 0x3f80 in column 64, "
         "and is to have 0x4000; the row before it, of rank 3, token 16, is right in every column");
  ranks[2].checked = 3;
  strcpy(ranks[4].reason, "lost: \"signal 9\",\nin operation 48");
  results->transitions[0] = join(1, 4, 44);
  results->transitions[0].longest_stall_us = -1;
  results->transitions[0].stalled_rank = -1;
  results->transitions[0].median_us = -1;
  results->transitions[0].membership_stall_us = -1;
  results->transitions[0].membership_rank = -1;
  results->transitions[0].membership_median_us = -1;
  results->num_processors = 2;
  results->processors = calloc(2, sizeof *results->processors);
  results->processors[0] = (struct results_processors){"node-a", 2, 4};
  results->processors[1] = (struct results_processors){"gpu-host-0017.example.org", 64, 1};
  results->phases[0].ranks[0].both.max = 12345678.9;
  results->phases[0].ranks[1].num_lost_selections = 32;
  json_object_set_new(results->config, "memory", json_string("host"));
  json_object_set_new(results->config, "memory_why", json_string("there is no GPU"));
  json_object_set_new(results->config, "bound",
                      json_pack("{s:s, s:b, s:s, s:s}", "name", "host copy", "measured", 0, "detail",
                                "not measured on this host: 'weft bench limits' does that", "of", "host"));
  results->phases[0].ranks[0].window_bytes = 1048576;
  results->exit_status = 4;
  strcpy(results->error,
         "rank 2, phase 1: operation 47: dispatch: row 12 of local expert 1 (rank 3, token 17) is wrong");
}

void sample_wide(struct results *results) {
  begin(results, 2, 3, "[[900]]");
  memset(results->job, 'j', sizeof results->job - 1);
  memset(results->store, 's', sizeof results->store - 1);
  add_phase(results, 0, 8, (enum results_state[]){P, P, N, N, N, L, K, P});
  add_phase(results, 1, 8, (enum results_state[]){P, F, U, U, U, U, U, U});
  for (uint32_t i = 0; i < 16; i++) {
    struct results_rank *rank = &results->phases[i / 8].ranks[i % 8];
    rank->rank += 900;
    rank->local_rank += 4000;
    if (*rank->host)
      memset(rank->host, 'h', sizeof rank->host - 1);
    if (rank->state != RESULTS_PASSED)
      continue;
    fill_times(&rank->both, 5123456.7);
    fill_times(&rank->dispatch, 0.0123);
    fill_times(&rank->combine, 0.0123);
  }
  memset(results->phases[1].ranks[1].reason, 'r', RESULTS_TEXT - 1);
  for (uint32_t i = 0; i < 3; i++) {
    struct results_transition *t = &results->transitions[i];
    *t = transition(1, (enum results_change)i, 900, 12345);
    t->epoch = 12345;
    t->launch_us = t->connect_us = t->first_dispatch_us = t->detect_us = t->detect_median_us = 9999e3;
    t->longest_stall_us = 5123456.7;
    t->stalled_rank = 907;
    t->median_us = 98765.4;
  }
}
