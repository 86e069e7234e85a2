// Training two MoE layers on three ranks: forward by dispatches that fill a route for each layer and by combines,
// backward by dispatches and combines that use these routes. Gradients of the inputs and of the gates' weights are
// compared with those that each rank computes in double precision for its own tokens.
//
// The tolerance is derived: for each number the oracle has a bound of the effect of all roundings of the real
// computation (bf16 rows, f32 sums and weights), and each result has to be within its bound. Central differences check
// that the oracle's gradients are those of its loss.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "ep/support/rank.h"

enum { RANKS = 3, CAPACITY = 4, TOKENS = 10, HIDDEN = 128, TOPK = 3, EXPERTS = 2, LAYERS = 2, STEPS = 4 };
enum { ROWS = CAPACITY * TOKENS };

// --- experts ---

// Expert e makes of x: s x_i x_j + c x_i, j the other of i's pair.
static double scale_of(int64_t expert) {
  return 0.25 + 0.125 * (double)(expert % 3);
}
static double slope_of(int64_t expert) {
  return 1.0 - 0.25 * (double)(expert % 4);
}

// --- numbers with a bound of their error ---

struct approx {
  double value, error; // |what was computed - value| <= error
};

static struct approx exact(double value) {
  return (struct approx){value, 0};
}
static struct approx add(struct approx a, struct approx b) {
  return (struct approx){a.value + b.value, a.error + b.error};
}
static struct approx times(struct approx a, struct approx b) {
  return (struct approx){a.value * b.value, fabs(a.value) * b.error + fabs(b.value) * a.error + a.error * b.error};
}
// Rounded to `bits` bits of a significand, to nearest.
static struct approx rounded(struct approx a, int bits) {
  a.error += ldexp(fabs(a.value) + a.error, -bits);
  return a;
}
enum { BF16_BITS = 8, F32_BITS = 24 };

static struct approx expert_value(int64_t expert, const struct approx *x, uint32_t i) {
  struct approx product = times(exact(scale_of(expert)), times(x[i], x[i ^ 1]));
  return add(product, times(exact(slope_of(expert)), x[i]));
}
// Of the gradient dy of what it made.
static struct approx expert_back(int64_t expert, const struct approx *x, const struct approx *dy, uint32_t i) {
  struct approx product = times(exact(scale_of(expert)), times(x[i ^ 1], add(dy[i], dy[i ^ 1])));
  return add(product, times(exact(slope_of(expert)), dy[i]));
}

// --- the oracle: one token ---

struct gate {
  int64_t experts[TOPK];
  double weights[TOPK];
};

// The sum of the ranks' rows, each rounded: `part` gives the part of one selection.
struct parts {
  const struct gate *gate;
  struct approx of[TOPK]; // [K]
};

static struct approx sum_of_ranks(const struct parts *parts) {
  struct approx sum = exact(0);
  for (int64_t rank = 0; rank < RANKS; rank++) {
    struct approx row = exact(0);
    for (int k = 0; k < TOPK; k++)
      if (parts->gate->experts[k] >= 0 && parts->gate->experts[k] / EXPERTS == rank)
        row = add(row, times(exact(parts->gate->weights[k]), parts->of[k]));
    sum = rounded(add(sum, rounded(row, BF16_BITS)), F32_BITS);
  }
  return rounded(sum, BF16_BITS);
}

static void forward(const struct gate *gate, const struct approx *x, struct approx *y) {
  for (uint32_t i = 0; i < HIDDEN; i++) {
    struct parts parts = {.gate = gate};
    for (int k = 0; k < TOPK; k++)
      if (gate->experts[k] >= 0)
        parts.of[k] = expert_value(gate->experts[k], x, i);
    y[i] = sum_of_ranks(&parts);
  }
}

static void backward(const struct gate *gate, const struct approx *x, const struct approx *dy, struct approx *dx,
                     struct approx *dweights) {
  for (uint32_t i = 0; i < HIDDEN; i++) {
    struct parts parts = {.gate = gate};
    for (int k = 0; k < TOPK; k++)
      if (gate->experts[k] >= 0)
        parts.of[k] = expert_back(gate->experts[k], x, dy, i);
    dx[i] = sum_of_ranks(&parts);
  }
  for (int k = 0; k < TOPK; k++) {
    dweights[k] = exact(0);
    for (uint32_t i = 0; i < HIDDEN && gate->experts[k] >= 0; i++)
      dweights[k] = add(dweights[k], times(dy[i], expert_value(gate->experts[k], x, i)));
    dweights[k] = rounded(dweights[k], F32_BITS);
  }
}

struct token {
  struct gate gates[LAYERS];
  double x[HIDDEN], direction[HIDDEN]; // the loss is the output's part in that direction
};

struct gradients {
  struct approx dx[HIDDEN], dweights[LAYERS][TOPK];
};

static void differentiate(const struct token *token, struct gradients *gradients) {
  struct approx x[LAYERS + 1][HIDDEN], dx[LAYERS + 1][HIDDEN];
  for (int i = 0; i < HIDDEN; i++) {
    x[0][i] = exact(token->x[i]);
    dx[LAYERS][i] = exact(token->direction[i]);
  }
  for (int layer = 0; layer < LAYERS; layer++)
    forward(&token->gates[layer], x[layer], x[layer + 1]);
  for (int layer = LAYERS - 1; layer >= 0; layer--)
    backward(&token->gates[layer], x[layer], dx[layer + 1], dx[layer], gradients->dweights[layer]);
  memcpy(gradients->dx, dx[0], sizeof gradients->dx);
}

static double loss_of(const struct token *token) {
  struct approx x[LAYERS + 1][HIDDEN];
  double loss = 0;
  for (int i = 0; i < HIDDEN; i++)
    x[0][i] = exact(token->x[i]);
  for (int layer = 0; layer < LAYERS; layer++)
    forward(&token->gates[layer], x[layer], x[layer + 1]);
  for (int i = 0; i < HIDDEN; i++)
    loss += token->direction[i] * x[LAYERS][i].value;
  return loss;
}

// --- drawn tokens ---

static double draw(uint64_t *state) { // a bf16 in [-1, 1]
  return (double)((int64_t)(random_next(state) % 129) - 64) / 64;
}

static void draw_token(uint64_t seed, struct token *token) {
  uint64_t state = random_mix(seed);
  for (int layer = 0; layer < LAYERS; layer++)
    for (int k = 0; k < TOPK; k++) {
      int64_t *experts = token->gates[layer].experts;
      experts[k] = (int64_t)(random_next(&state) % (RANKS * EXPERTS));
      for (int j = 0; j < k; j++)
        if (experts[j] == experts[k])
          experts[k] = -1;
      token->gates[layer].weights[k] = (double)(1 + random_next(&state) % 64) / 64;
    }
  for (int i = 0; i < HIDDEN; i++) {
    token->x[i] = draw(&state);
    token->direction[i] = draw(&state);
  }
}

// A polynomial of small degree: central differences are off by the third derivative's part and by cancellation.
static void the_oracle_differentiates_its_loss(void **state) {
  (void)state;
  const double step = 1e-4;
  for (uint64_t seed = 0; seed < 20; seed++) {
    struct token token, less, more;
    struct gradients gradients;
    draw_token(seed, &token);
    differentiate(&token, &gradients);
    for (int i = 0; i < HIDDEN; i += 7) {
      less = more = token;
      less.x[i] -= step;
      more.x[i] += step;
      double slope = (loss_of(&more) - loss_of(&less)) / (2 * step);
      if (fabs(slope - gradients.dx[i].value) > 1e-5 * (1 + fabs(slope)))
        fail_msg("token %d, x[%d]: %g is not %g", (int)seed, i, gradients.dx[i].value, slope);
    }
    for (int layer = 0; layer < LAYERS; layer++)
      for (int k = 0; k < TOPK; k++) {
        less = more = token;
        less.gates[layer].weights[k] -= step;
        more.gates[layer].weights[k] += step;
        double slope = (loss_of(&more) - loss_of(&less)) / (2 * step);
        if (fabs(slope - gradients.dweights[layer][k].value) > 1e-5 * (1 + fabs(slope)))
          fail_msg("token %d, layer %d, weight %d: %g is not %g", (int)seed, layer, k,
                   gradients.dweights[layer][k].value, slope);
      }
  }
}

// --- the ranks ---

static float from_bf16(uint16_t value) {
  uint32_t bits = (uint32_t)value << 16;
  float out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

// One layer of a rank: its route, and what its experts received.
struct layer {
  weft_ep_route_t *route;
  int64_t topk_idx[TOKENS * TOPK];
  float topk_weights[TOKENS * TOPK], dweights[TOKENS * TOPK];
  uint16_t received[ROWS * HIDDEN]; // forward, by row
  int32_t local_expert[ROWS * TOPK], counts[EXPERTS];
  float weights[ROWS * TOPK];
  uint32_t rows;
};

static struct weft_ep_recv_args receive_into(struct layer *layer, void *x) {
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  recv.layout = WEFT_EP_RANK_MAJOR;
  recv.flags = WEFT_EP_RECV_KEEP_PLACES;
  recv.rows = ROWS;
  recv.x = x;
  recv.counts = layer->counts;
  recv.local_expert = layer->local_expert;
  recv.weights = layer->weights;
  return recv;
}

static struct approx value_of(uint16_t value) {
  return exact((double)from_bf16(value));
}

static void load_row(const uint16_t *row, struct approx *values) {
  for (int i = 0; i < HIDDEN; i++)
    values[i] = value_of(row[i]);
}

// What this rank's experts make of a row, weighted and summed.
static void run_experts(const struct rank *rank, const struct layer *layer, uint32_t row, uint16_t *y) {
  struct approx x[HIDDEN];
  load_row(layer->received + (size_t)row * HIDDEN, x);
  for (uint32_t i = 0; i < HIDDEN; i++) {
    double sum = 0;
    for (size_t at = (size_t)row * TOPK; at < (size_t)(row + 1) * TOPK; at++)
      if (layer->local_expert[at] >= 0)
        sum += (double)layer->weights[at] * expert_value(rank->index * EXPERTS + layer->local_expert[at], x, i).value;
    y[i] = oracle_to_bf16(sum);
  }
}

// The gradients of that: of the row, and of each weight at its place.
static void run_experts_back(const struct rank *rank, const struct layer *layer, uint32_t row, const uint16_t *dy_row,
                             uint16_t *dx, float *dweights) {
  struct approx x[HIDDEN], dy[HIDDEN];
  double sums[HIDDEN] = {0};
  load_row(layer->received + (size_t)row * HIDDEN, x);
  load_row(dy_row, dy);
  for (int k = 0; k < TOPK; k++) {
    size_t at = (size_t)row * TOPK + (size_t)k;
    double product = 0;
    int64_t expert = rank->index * EXPERTS + layer->local_expert[at];
    for (uint32_t i = 0; i < HIDDEN && layer->local_expert[at] >= 0; i++) {
      product += dy[i].value * expert_value(expert, x, i).value;
      sums[i] += (double)layer->weights[at] * expert_back(expert, x, dy, i).value;
    }
    dweights[k] = (float)product;
  }
  for (int i = 0; i < HIDDEN; i++)
    dx[i] = oracle_to_bf16(sums[i]);
}

// y of x. The dispatch fills the layer's route.
static bool layer_forward(struct rank *rank, struct layer *layer, uint32_t tokens, const uint16_t *x, uint16_t *y) {
  static _Thread_local uint16_t answers[ROWS * HIDDEN];
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  args.x = x;
  args.num_tokens = tokens;
  args.topk_idx = layer->topk_idx;
  args.topk_weights = layer->topk_weights;
  args.route = layer->route;
  struct weft_ep_recv_args recv = receive_into(layer, layer->received);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  uint64_t op;
  if (weft_ep_dispatch(rank->ep, &args, &recv, &info, &op) != 0)
    return rank_fail(rank, "forward: %s", weft_last_error());
  layer->rows = info.num_rows;
  for (uint32_t row = 0; row < layer->rows; row++)
    run_experts(rank, layer, row, answers + (size_t)row * HIDDEN);
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  combine.y = answers;
  combine.out = y;
  return weft_ep_combine(rank->ep, op, &combine, NULL) == 0 ? true : rank_fail(rank, "combine: %s", weft_last_error());
}

// dx of dy. A combine's backward is a dispatch by the route, a dispatch's is a combine by it.
static bool layer_backward(struct rank *rank, struct layer *layer, uint32_t tokens, const uint16_t *dy, uint16_t *dx) {
  static _Thread_local uint16_t received[ROWS * HIDDEN], answers[ROWS * HIDDEN];
  static _Thread_local float row_weights[ROWS * TOPK];
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  args.x = dy;
  args.num_tokens = tokens;
  args.route = layer->route;
  struct weft_ep_recv_args recv = receive_into(layer, received);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  uint64_t op;
  if (weft_ep_dispatch(rank->ep, &args, &recv, &info, &op) != 0 || weft_ep_finish(rank->ep, op) != 0)
    return rank_fail(rank, "backward: %s", weft_last_error());
  if (info.num_rows != layer->rows)
    return rank_fail(rank, "%u rows came, and %u did forward", info.num_rows, layer->rows);
  for (uint32_t row = 0; row < layer->rows; row++)
    run_experts_back(rank, layer, row, received + (size_t)row * HIDDEN, answers + (size_t)row * HIDDEN,
                     row_weights + (size_t)row * TOPK);
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  combine.y = answers;
  combine.out = dx;
  combine.row_weights = row_weights;
  combine.out_weights = layer->dweights;
  return weft_ep_combine_route(rank->ep, layer->route, &combine, NULL, &op) == 0
             ? true
             : rank_fail(rank, "combine_route: %s", weft_last_error());
}

// --- judging ---

// How much of all magnitudes the bounds are: they have to say something.
struct share {
  double bounds, magnitudes;
};

static bool within(struct rank *rank, double is, struct approx right, struct share *share, const char *what,
                   uint32_t token, uint32_t place) {
  share->bounds += right.error;
  share->magnitudes += fabs(right.value);
  if (fabs(is - right.value) <= right.error)
    return true;
  return rank_fail(rank, "%s of token %u at %u is %g, should be %g, give or take %g", what, token, place, is,
                   right.value, right.error);
}

static bool judge(struct rank *rank, const struct token *tokens, uint32_t count, const struct layer *layers,
                  const uint16_t *dx) {
  struct share share = {0, 0};
  for (uint32_t t = 0; t < count; t++) {
    struct gradients right;
    differentiate(&tokens[t], &right);
    for (uint32_t i = 0; i < HIDDEN; i++)
      if (!within(rank, (double)from_bf16(dx[t * HIDDEN + i]), right.dx[i], &share, "dx", t, i))
        return false;
    for (uint32_t at = 0; at < LAYERS * TOPK; at++) {
      uint32_t layer = at / TOPK, k = at % TOPK;
      if (!within(rank, (double)layers[layer].dweights[t * TOPK + k], right.dweights[layer][k], &share,
                  "the weights' gradient", t, at))
        return false;
    }
  }
  if (share.bounds > 0.1 * share.magnitudes)
    return rank_fail(rank, "the bounds are %g of %g: they judge nothing", share.bounds, share.magnitudes);
  return true;
}

static void train(struct rank *rank, void *arg) {
  (void)arg;
  struct layer *layers = calloc(LAYERS, sizeof *layers);
  struct token *tokens = calloc(TOKENS, sizeof *tokens);
  uint16_t x[LAYERS + 1][TOKENS * HIDDEN], dx[LAYERS + 1][TOKENS * HIDDEN];
  bool good = true;
  for (int layer = 0; layer < LAYERS; layer++) {
    struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
    if (weft_ep_route_create(rank->ep, &options, &layers[layer].route) != 0)
      good = rank_fail(rank, "route_create: %s", weft_last_error());
  }
  for (uint64_t step = 0; step < STEPS && good; step++) {
    uint32_t count = step == 1 && rank->index == 2 ? 0 : TOKENS - (uint32_t)rank->index;
    for (uint32_t t = 0; t < count; t++) {
      draw_token(step * 1000 + (uint64_t)rank->index * 100 + t, &tokens[t]);
      for (int i = 0; i < HIDDEN; i++) {
        x[0][t * HIDDEN + (uint32_t)i] = oracle_to_bf16(tokens[t].x[i]);
        dx[LAYERS][t * HIDDEN + (uint32_t)i] = oracle_to_bf16(tokens[t].direction[i]);
      }
      for (int at = 0; at < LAYERS * TOPK; at++) {
        layers[at / TOPK].topk_idx[t * TOPK + (uint32_t)(at % TOPK)] = tokens[t].gates[at / TOPK].experts[at % TOPK];
        layers[at / TOPK].topk_weights[t * TOPK + (uint32_t)(at % TOPK)] =
            (float)tokens[t].gates[at / TOPK].weights[at % TOPK];
      }
    }
    for (int layer = 0; layer < LAYERS && good; layer++)
      good = layer_forward(rank, &layers[layer], count, x[layer], x[layer + 1]);
    for (int layer = LAYERS - 1; layer >= 0 && good; layer--)
      good = layer_backward(rank, &layers[layer], count, dx[layer + 1], dx[layer]);
    good = good && judge(rank, tokens, count, layers, dx[0]);
  }
  for (int layer = 0; layer < LAYERS; layer++)
    weft_ep_route_free(layers[layer].route);
  free(tokens);
  free(layers);
}

static void two_layers_have_the_gradients_of_double_precision(void **state) {
  (void)state;
  static const int32_t ranks[RANKS] = {0, 1, 2};
  struct setup setup = {.capacity = CAPACITY, .tokens = TOKENS, .hidden = HIDDEN, .topk = TOPK, .experts = EXPERTS};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, ranks, RANKS, train, NULL);
  weft_store_close(setup.store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_oracle_differentiates_its_loss),
      cmocka_unit_test(two_layers_have_the_gradients_of_double_precision),
  };
  return cmocka_run_group_tests_name("ep_training", tests, NULL, NULL);
}
