// Ranks on CUDA memory, with a fake plug-in that needs no GPU.
#include "ep/gpu/support/fake_ranks.h"

#include <stdio.h>

static weft_store_t *store;

int fake_open_store(void **state) {
  (void)state;
  return weft_store_open_local(&store);
}

int fake_close_store(void **state) {
  (void)state;
  weft_store_close(store);
  return 0;
}

void assert_ok(int rc) {
  if (rc != 0)
    fail_msg("%s: %s", weft_err_name(rc), weft_last_error());
}

void assert_says(const char *words) {
  if (!strstr(weft_last_error(), words))
    fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

void fake_take_events(weft_ep_t *ep, struct fake_events *events) {
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  while (weft_ep_next_event(ep, &event) > 0) {
    events->activated += event.kind == WEFT_EP_EVENT_ACTIVATED;
    events->released += event.kind == WEFT_EP_EVENT_RELEASED;
    events->lost += event.kind == WEFT_EP_EVENT_PEER_LOST;
  }
}

struct weft_ep_options fake_options(int32_t rank, const int32_t *founders, uint32_t count) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.rank = rank;
  options.capacity = 8;
  options.founders = founders;
  options.num_founders = count;
  options.hidden = getenv("WEFT_TEST_HIDDEN") ? (uint32_t)atoi(getenv("WEFT_TEST_HIDDEN")) : 128;
  options.max_tokens = 4;
  options.op_timeout_ms = 20000;
  options.memory = WEFT_EP_MEMORY_CUDA;
  if (getenv("WEFT_TEST_THROUGHPUT")) {
    options.mode = WEFT_EP_THROUGHPUT;
    options.hidden = 1024; // rows of this size are moved from window to window (LEAST_MOVE of cuda/relay/flow.c)
  }
  if (getenv("WEFT_TEST_HOSTS")) // as if odd ranks were on another host than even ones
    options.host_id = rank % 2 ? "odd" : "even";
  return options;
}

weft_ep_t *fake_open(struct weft_ep_options options) {
  weft_ep_t *ep = NULL;
  assert_ok(weft_ep_open(&ep, &options, DEADLINE_MS));
  return ep;
}

static void *activate(void *arg) {
  struct fake_activation *activation = arg;
  activation->rc = weft_ep_activate(activation->ep, DEADLINE_MS);
  snprintf(activation->error, sizeof activation->error, "%s", weft_last_error());
  atomic_store(&activation->done, true);
  return NULL;
}

void fake_begin(struct fake_activation *activation, weft_ep_t *ep) {
  *activation = (struct fake_activation){.ep = ep};
  assert_int_equal(pthread_create(&activation->thread, NULL, activate, activation), 0);
}

void fake_end(struct fake_activation *activation) {
  pthread_join(activation->thread, NULL);
  if (activation->rc != 0)
    fail_msg("activate: %s", activation->error);
}

void fake_found_with(weft_ep_t **eps, uint32_t count, uint32_t op_timeout_ms) {
  static const int32_t founders[] = {0, 1, 2, 3};
  struct fake_activation activations[4];
  for (uint32_t i = 0; i < count; i++) {
    struct weft_ep_options options = fake_options((int32_t)i, founders, count);
    options.op_timeout_ms = op_timeout_ms ? op_timeout_ms : options.op_timeout_ms;
    eps[i] = fake_open(options);
  }
  for (uint32_t i = 0; i < count; i++)
    fake_begin(&activations[i], eps[i]);
  for (uint32_t i = 0; i < count; i++)
    fake_end(&activations[i]);
}

void fake_found(weft_ep_t **eps, uint32_t count) {
  fake_found_with(eps, count, 0);
}

const struct weft_ep_recv_args *fake_no_rows(void) {
  static int32_t counts[2];
  static struct weft_ep_recv_args recv = {.size = sizeof recv, .layout = WEFT_EP_PER_EXPERT, .counts = counts};
  return &recv;
}

uint64_t fake_launch(weft_ep_t *ep) {
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  uint64_t op;
  assert_ok(weft_ep_dispatch(ep, &none, fake_no_rows(), NULL, &op));
  assert_ok(weft_ep_combine(ep, op, &combine, NULL));
  return op;
}

void fake_operate(weft_ep_t **eps, uint32_t count, struct weft_ep_info *info) {
  uint64_t ops[8], next = weft_ep_next_op(eps[0]);
  bool active[8];
  for (uint32_t i = 0; i < count; i++) {
    active[i] = weft_ep_is_active(eps[i]) && weft_ep_next_op(eps[i]) <= next;
    if (active[i])
      ops[i] = fake_launch(eps[i]);
  }
  for (uint32_t i = 0; i < count; i++)
    if (active[i])
      assert_ok(weft_ep_await(eps[i], ops[i], i == 0 ? info : NULL, NULL, DEADLINE_MS));
}

// Runs the next operation of the other ranks. The joiner has to take part from its first operation on; its activation
// may return later than that operation begins.
static void operate_while_joining(weft_ep_t **eps, uint32_t others, const struct fake_activation *activation) {
  weft_ep_t *joiner = activation->ep;
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS), op = weft_ep_next_op(eps[0]);
  bool runs[8];
  for (uint32_t i = 0; i < others; i++) {
    runs[i] = weft_ep_next_op(eps[i]) <= op; // a rank that has just joined may begin with a later operation
    if (runs[i])
      fake_launch(eps[i]);
  }
  for (uint32_t i = 0; i < others; i++)
    while (runs[i] && weft_ep_await(eps[i], op, NULL, NULL, 5) == WEFT_ERR_TIMEOUT && !clock_passed(deadline_ns))
      if (atomic_load(&activation->done) && activation->rc == 0 && weft_ep_next_op(joiner) <= op)
        fake_launch(joiner);
}

void fake_take_in(weft_ep_t **eps, uint32_t count, struct fake_activation *activation) {
  weft_ep_t *joiner = eps[count - 1];
  while (!atomic_load(&activation->done))
    operate_while_joining(eps, count - 1, activation);
  fake_end(activation);
  while (weft_ep_next_op(joiner) < weft_ep_next_op(eps[0]))
    fake_launch(joiner);
  while (weft_ep_next_op(eps[0]) < weft_ep_next_op(joiner))
    fake_operate(eps, count - 1, NULL);
}

void fake_join(weft_ep_t **eps, uint32_t count, struct weft_ep_options options) {
  struct fake_activation activation;
  eps[count - 1] = fake_open(options);
  fake_begin(&activation, eps[count - 1]);
  fake_take_in(eps, count, &activation);
}
