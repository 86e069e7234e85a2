// Results of elastic runs, and their JSON form.
#include "measure/results.h"

#include <stdlib.h>

#include "base/fail.h"
#include "measure/fields.h"

enum { FORMAT = 1 }; // of results.json, its field "weft_results"

static const char *const state_names[] = {
    [RESULTS_NOT_MEMBER] = "not_member",   [RESULTS_PASSED] = "passed", [RESULTS_FAILED] = "failed",
    [RESULTS_KILLED] = "killed",           [RESULTS_LEFT] = "left",     [RESULTS_UNREACHED] = "unreached",
    [RESULTS_INTERRUPTED] = "interrupted", [RESULTS_LOST] = "lost",     [RESULTS_NUM_STATES] = NULL,
};

static const char *const change_names[] = {
    [RESULTS_JOIN] = "join",
    [RESULTS_LEAVE] = "leave",
    [RESULTS_KILL] = "kill",
    [RESULTS_KILL + 1] = NULL,
};

static const struct field times_fields[] = {
    {FIELD_OF(struct results_times, count), .type = FIELD_U64},
    {FIELD_OF(struct results_times, avg), .type = FIELD_REAL},
    {FIELD_OF(struct results_times, min), .type = FIELD_REAL},
    {FIELD_OF(struct results_times, p50), .type = FIELD_REAL},
    {FIELD_OF(struct results_times, p99), .type = FIELD_REAL},
    {FIELD_OF(struct results_times, max), .type = FIELD_REAL},
    FIELD_END,
};

#define RANK(member) FIELD_OF(struct results_rank, member)
static const struct field rank_fields[] = {
    {RANK(rank), .type = FIELD_INDEX},
    {RANK(local_rank), .type = FIELD_INDEX},
    {RANK(gpu), .type = FIELD_INDEX, .optional = true},
    {RANK(gpu_name), .type = FIELD_TEXT, .optional = true},
    {RANK(host), .type = FIELD_TEXT},
    {RANK(incarnation), .type = FIELD_ID},
    {RANK(state), .type = FIELD_NAME, .names = state_names},
    {RANK(reason), .type = FIELD_TEXT},
    {RANK(checked), .type = FIELD_U64},
    {RANK(num_lost_selections), .type = FIELD_U64},
    {RANK(worst_diff), .type = FIELD_REAL},
    {RANK(both), .type = FIELD_STRUCT, .fields = times_fields},
    {RANK(dispatch), .type = FIELD_STRUCT, .fields = times_fields},
    {RANK(combine), .type = FIELD_STRUCT, .fields = times_fields},
    {RANK(dispatch_logical_bytes), .type = FIELD_REAL},
    {RANK(dispatch_wire_bytes), .type = FIELD_REAL},
    {RANK(combine_logical_bytes), .type = FIELD_REAL},
    {RANK(combine_wire_bytes), .type = FIELD_REAL},
    {RANK(window_bytes), .type = FIELD_U64, .optional = true},
    {FIELD_COUNTS_OF(struct results_rank, dispatch_rows, num_dispatch_rows), .optional = true},
    FIELD_END,
};

static const struct field phase_fields[] = {
    {FIELD_OF(struct results_phase, index), .type = FIELD_U32},
    {FIELD_OF(struct results_phase, begin_s), .type = FIELD_DURATION, .optional = true},
    {FIELD_OF(struct results_phase, end_s), .type = FIELD_DURATION, .optional = true},
    {FIELD_LIST_OF(struct results_phase, ranks, struct results_rank, num_ranks), .fields = rank_fields},
    FIELD_END,
};

#define TRANSITION(member) FIELD_OF(struct results_transition, member)
static const struct field transition_fields[] = {
    {TRANSITION(phase), .type = FIELD_U32},
    {TRANSITION(change), .type = FIELD_NAME, .names = change_names},
    {TRANSITION(rank), .type = FIELD_INDEX},
    {TRANSITION(epoch), .type = FIELD_U64},
    {TRANSITION(op), .type = FIELD_U64},
    {TRANSITION(time_s), .type = FIELD_DURATION, .optional = true},
    {TRANSITION(launch_us), .type = FIELD_DURATION},
    {TRANSITION(connect_us), .type = FIELD_DURATION},
    {TRANSITION(first_dispatch_us), .type = FIELD_DURATION},
    {TRANSITION(longest_stall_us), .type = FIELD_DURATION},
    {TRANSITION(stalled_rank), .type = FIELD_INDEX},
    {TRANSITION(median_us), .type = FIELD_DURATION},
    {TRANSITION(membership_stall_us), .type = FIELD_DURATION, .optional = true},
    {TRANSITION(membership_rank), .type = FIELD_INDEX, .optional = true},
    {TRANSITION(membership_median_us), .type = FIELD_DURATION, .optional = true},
    {TRANSITION(detect_us), .type = FIELD_DURATION},
    {TRANSITION(detect_median_us), .type = FIELD_DURATION},
    FIELD_END,
};

#define PROCESSORS(member) FIELD_OF(struct results_processors, member)
static const struct field processors_fields[] = {
    {PROCESSORS(host), .type = FIELD_TEXT},
    {PROCESSORS(usable), .type = FIELD_U32},
    {PROCESSORS(ranks), .type = FIELD_U32},
    FIELD_END,
};

#define RESULTS(member) FIELD_OF(struct results, member)
static const struct field results_fields[] = {
    {RESULTS(run), .type = FIELD_TEXT},
    {RESULTS(job), .type = FIELD_TEXT},
    {RESULTS(version), .type = FIELD_TEXT},
    {RESULTS(started), .type = FIELD_TEXT},
    {RESULTS(elapsed_s), .type = FIELD_REAL},
    {RESULTS(store), .type = FIELD_TEXT},
    {RESULTS(config), .type = FIELD_OBJECT},
    {RESULTS(plan), .type = FIELD_ARRAY},
    {RESULTS(passed), .type = FIELD_BOOL},
    {RESULTS(exit_status), .type = FIELD_I32},
    {RESULTS(error), .type = FIELD_TEXT},
    {FIELD_LIST_OF(struct results, processors, struct results_processors, num_processors), .fields = processors_fields,
     .optional = true},
    {FIELD_LIST_OF(struct results, phases, struct results_phase, num_phases), .fields = phase_fields},
    {FIELD_LIST_OF(struct results, transitions, struct results_transition, num_transitions),
     .fields = transition_fields},
    FIELD_END,
};

const char *results_state_name(enum results_state state) {
  return state_names[state];
}

static void free_ranks(struct results_phase *phase) {
  for (uint32_t i = 0; phase->ranks && i < phase->num_ranks; i++)
    free(phase->ranks[i].dispatch_rows);
  free(phase->ranks);
}

void results_free(struct results *results) {
  for (uint32_t i = 0; results->phases && i < results->num_phases; i++)
    free_ranks(&results->phases[i]);
  free(results->phases);
  free(results->transitions);
  free(results->processors);
  json_decref(results->config);
  json_decref(results->plan);
  *results = (struct results){0};
}

void results_round(struct results *results) {
  fields_round(results_fields, results);
}

json_t *results_to_json(const struct results *results) {
  return fields_to_document(results_fields, results, "weft_results", FORMAT);
}

// Readers use the index of a rank in one list for other lists, and the index in one phase for all phases. So the
// lists must have the same length; dispatch_rows may also be empty.
static int check_places(const struct results *results) {
  for (uint32_t p = 0; p < results->num_phases; p++) {
    const struct results_phase *phase = &results->phases[p];
    if (phase->num_ranks != results->phases[0].num_ranks)
      return fail(WEFT_ERR_PROTOCOL, "phases[%u].ranks: are %u, and those of phases[0] %u: want every rank in each", p,
                  phase->num_ranks, results->phases[0].num_ranks);
    for (uint32_t i = 0; i < phase->num_ranks; i++)
      if (phase->ranks[i].num_dispatch_rows != 0 && phase->ranks[i].num_dispatch_rows != phase->num_ranks)
        return fail(
            WEFT_ERR_PROTOCOL,
            "phases[%u].ranks[%u].dispatch_rows: has %u numbers, where the phase has %u ranks: want as many, or "
            "none",
            p, i, phase->ranks[i].num_dispatch_rows, phase->num_ranks);
  }
  return 0;
}

int results_from_json(struct results *out, const json_t *json) {
  struct results results = {0};
  int err = fields_check_document(json, "weft_results", FORMAT, "results");
  if (err)
    return err;
  err = fields_from_json(results_fields, &results, json);
  if (!err)
    err = check_places(&results);
  if (err)
    results_free(&results);
  else
    *out = results;
  return err;
}
