// Checks the features of throughput mode that the timed operations do not use. The checks run in the steady part of a
// phase, in which nothing changes and all ranks run the same operations from the same one on.
//
// Each check runs one of three rounds, in turn: rank-major rows with two biases and with weights that go back; packed
// rows with one bias, unweighted; rows per expert. The first two fill a route, run an operation by it, and then a
// combine alone by it. The last check of a phase leaves a route to the next phase. There the route works for the
// remaining ranks, or is refused if a rank has joined. The plan decides which of the two happens, so all ranks do the
// same.
#include "run/rank/rank.h"

// The alignment with which packed rows are checked if the configuration has none: not 1, and no power of two.
enum { ALIGNMENT = 24, ROUNDS = 3 };

static bool has(const struct rank *rank, enum run_feature feature) {
  return !(rank->config.left_out & 1u << feature);
}

static bool has_layout(const struct rank *rank, enum weft_ep_layout layout) {
  return has(rank, (enum run_feature)(RUN_FEATURE_PER_EXPERT + (layout - WEFT_EP_PER_EXPERT)));
}

static struct run_config with_layout(const struct rank *rank, enum weft_ep_layout layout) {
  struct run_config config = rank->config;
  config.layout = has_layout(rank, layout) ? layout : config.layout;
  if (config.layout == WEFT_EP_PACKED && !config.alignment)
    config.alignment = ALIGNMENT;
  return config;
}

// Runs and judges one operation, with other buffers and another form than the timed operations.
static int operate(struct rank *rank, struct traffic *traffic, const struct traffic_form *form) {
  struct traffic *timed = rank->traffic;
  struct traffic_op op;
  uint64_t lost = rank->record.rank.num_lost_selections;
  traffic_set_form(traffic, form);
  rank->traffic = traffic;
  int err = rank_operate_steady(rank, true, &op);
  rank->traffic = timed;
  rank->record.rank.num_lost_selections = lost; // a kept route still has selections of ranks that left as planned
  return err;
}

// Runs the form by a route: fills the route (`fills`), uses the kept route, and combines alone by it.
static int operate_by_route(struct rank *rank, struct traffic *traffic, struct traffic_form form, bool fills) {
  static const enum traffic_way ways[] = {TRAFFIC_FILLING, TRAFFIC_KEPT, TRAFFIC_COMBINE_ROUTE};
  int err = 0;
  if (!has(rank, RUN_FEATURE_ROUTES)) {
    form.way = TRAFFIC_ROUTED;
    return operate(rank, traffic, &form);
  }
  for (int i = fills ? 0 : 1; i < 3 && !err; i++) {
    form.way = ways[i];
    err = operate(rank, traffic, &form);
  }
  return err;
}

static struct traffic_form form_of(const struct rank *rank, enum weft_ep_layout layout, uint32_t biases) {
  bool rank_major = layout == WEFT_EP_RANK_MAJOR;
  return (struct traffic_form){.biases = has(rank, RUN_FEATURE_BIASES) ? biases : 0,
                               .unweighted = !rank_major && has(rank, RUN_FEATURE_UNWEIGHTED),
                               .weights_back = layout != WEFT_EP_PER_EXPERT && has(rank, RUN_FEATURE_WEIGHTS_BACK),
                               .zero_padding = layout == WEFT_EP_PACKED};
}

static int check_round(struct rank *rank, uint32_t round) {
  static const enum weft_ep_layout layouts[ROUNDS] = {WEFT_EP_RANK_MAJOR, WEFT_EP_PACKED, WEFT_EP_PER_EXPERT};
  struct run_config config = with_layout(rank, layouts[round % ROUNDS]);
  struct traffic *traffic = NULL;
  int err = traffic_open_variant(&traffic, rank->traffic, &config);
  if (!err && config.layout != WEFT_EP_PER_EXPERT)
    err = operate_by_route(rank, traffic, form_of(rank, config.layout, config.layout == WEFT_EP_PACKED ? 1 : 2), true);
  for (uint32_t biases = 0; biases < 2 && !err && config.layout == WEFT_EP_PER_EXPERT; biases++) {
    struct traffic_form form = form_of(rank, config.layout, biases);
    form.unweighted = form.unweighted && biases > 0;
    err = operate(rank, traffic, &form);
  }
  traffic_close(traffic);
  return err;
}

// --- from one phase to the next ---

static bool contains(const struct plan_ranks *ranks, int32_t rank) {
  for (uint32_t i = 0; i < ranks->count; i++)
    if (ranks->rank[i] == rank)
      return true;
  return false;
}

static bool joined(const struct rank *rank) {
  const struct plan_phase *phases = rank->plan->phases;
  for (uint32_t i = 0; i < phases[rank->phase].live.count; i++)
    if (!contains(&phases[rank->phase - 1].live, phases[rank->phase].live.rank[i]))
      return true;
  return false;
}

// Whether a rank joined and died in this phase. It is not known whether such a rank was in a view in the meantime.
static bool came_and_died(const struct rank *rank) {
  const struct plan_phase *phases = rank->plan->phases;
  for (uint32_t i = 0; i < phases[rank->phase].kills.count; i++)
    if (!contains(&phases[rank->phase - 1].live, phases[rank->phase].kills.rank[i]))
      return true;
  return false;
}

static int use_kept(struct rank *rank) {
  int err = 0;
  if (!rank->kept)
    return 0;
  // On CUDA memory kernels find the conflict, in an operation in which the joiner would have to take part. So the route
  // is only given up here; tests/cuda/flow.cu tests the conflict.
  if (joined(rank))
    err = weft_ep_get_memory(rank->ep, NULL) == WEFT_EP_MEMORY_HOST ? traffic_check_refused(rank->kept) : 0;
  else if (!came_and_died(rank))
    err = operate_by_route(rank, rank->kept, form_of(rank, rank->kept_config.layout, 0), false);
  rank_close_features(rank);
  return err;
}

static int keep(struct rank *rank) {
  rank->kept_config = with_layout(rank, WEFT_EP_RANK_MAJOR);
  struct traffic_form form = form_of(rank, rank->kept_config.layout, 0);
  form.way = TRAFFIC_FILLING;
  int err = traffic_open_variant(&rank->kept, rank->traffic, &rank->kept_config);
  if (!err)
    err = operate(rank, rank->kept, &form);
  if (!err)
    traffic_release_rows(rank->kept);
  return err;
}

int rank_check_features(struct rank *rank, bool last) {
  int err = last ? 0 : use_kept(rank);
  if (!err)
    err = check_round(rank, 2 * rank->phase + last);
  bool keeps = last && rank->phase + 1 < rank->plan->num_phases && has(rank, RUN_FEATURE_ROUTES);
  return !err && keeps ? keep(rank) : err;
}

void rank_close_features(struct rank *rank) {
  traffic_close(rank->kept);
  rank->kept = NULL;
}
