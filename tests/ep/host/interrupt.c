// weft_ep_interrupt: every wait of a rank ends with CANCELED, and the interrupted call goes on when it is repeated.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cmocka_all.h"

#include "ep/core/engine.h"
#include "ep/support/rank.h"

enum { DEADLINE_MS = 60000, RANKS = 3, OPERATIONS = 60, MANY = 8 };

static void assert_ok(int rc) {
  if (rc != 0)
    fail_msg("%s: %s", weft_err_name(rc), weft_last_error());
}

// --- A nagger interrupts again and again until it is stopped: from another thread, or by a signal whose handler does
// it on the owner's thread.

static _Thread_local weft_ep_t *own;

static void on_signal(int number) {
  (void)number;
  if (own)
    weft_ep_interrupt(own);
}

struct nagger {
  weft_ep_t *ep;
  pthread_t owner, thread;
  bool by_signal;
  _Atomic bool stop;
};

static void *nag(void *arg) {
  struct nagger *nagger = arg;
  while (!atomic_load(&nagger->stop)) {
    if (nagger->by_signal)
      pthread_kill(nagger->owner, SIGUSR1);
    else
      weft_ep_interrupt(nagger->ep);
    sched_yield();
  }
  return NULL;
}

static void nagger_start(struct nagger *nagger, weft_ep_t *ep, bool by_signal) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  own = ep;
  *nagger = (struct nagger){.ep = ep, .owner = pthread_self(), .by_signal = by_signal};
  pthread_create(&nagger->thread, NULL, nag, nagger);
}

// No mark is left.
static void nagger_stop(struct nagger *nagger) {
  atomic_store(&nagger->stop, true);
  pthread_join(nagger->thread, NULL);
  own = NULL;
  ep_interrupted(nagger->ep);
}

// --- Waits for the store and for peers.

static struct weft_ep_options options_of(weft_store_t *store, int32_t rank, const int32_t *founders, uint32_t count) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.rank = rank;
  options.founders = founders;
  options.num_founders = count;
  options.capacity = 8;
  options.hidden = 128;
  options.max_tokens = 4;
  return options;
}

static weft_ep_t *open_rank(weft_store_t *store, int32_t rank, const int32_t *founders, uint32_t count) {
  weft_ep_t *ep = NULL;
  struct weft_ep_options options = options_of(store, rank, founders, count);
  assert_ok(weft_ep_open(&ep, &options, DEADLINE_MS));
  return ep;
}

static void waits_for_peers_end(void **state) {
  (void)state;
  static const int32_t founders[] = {0, 1}, absent = 1;
  weft_store_t *store;
  assert_ok(weft_store_open_local(&store));
  weft_ep_t *ep = open_rank(store, 0, founders, 2);
  for (int by_signal = 0; by_signal < 2; by_signal++) {
    struct nagger nagger;
    nagger_start(&nagger, ep, by_signal);
    int connect = weft_ep_connect(ep, &absent, 1, WEFT_WAIT_FOREVER);
    int activate = weft_ep_activate(ep, WEFT_WAIT_FOREVER);
    nagger_stop(&nagger);
    assert_int_equal(connect, WEFT_ERR_CANCELED);
    assert_int_equal(activate, WEFT_ERR_CANCELED);
    assert_non_null(strstr(weft_last_error(), "missing: 1"));
  }
  weft_ep_close(ep);
  weft_store_close(store);
}

static void one_interrupt_ends_one_wait_and_no_call_that_does_not_wait(void **state) {
  (void)state;
  static const int32_t absent = 2, other = 1;
  weft_store_t *store;
  assert_ok(weft_store_open_local(&store));
  weft_ep_t *ep = open_rank(store, 0, NULL, 0), *peer = open_rank(store, 1, NULL, 0);
  assert_ok(weft_ep_connect(ep, &other, 1, DEADLINE_MS));
  weft_ep_interrupt(ep);
  weft_ep_interrupt(ep);
  assert_ok(weft_ep_connect(ep, &other, 1, DEADLINE_MS)); // connected: no wait
  assert_int_equal(weft_ep_connect(ep, &absent, 1, DEADLINE_MS), WEFT_ERR_CANCELED);
  assert_int_equal(weft_ep_connect(ep, &absent, 1, 0), WEFT_ERR_TIMEOUT); // the mark is gone
  assert_int_equal(weft_ep_connect(ep, &absent, 1, 20), WEFT_ERR_TIMEOUT);
  weft_ep_interrupt(NULL);
  weft_ep_close(peer);
  weft_ep_close(ep);
  weft_store_close(store);
}

// A peer that has claimed its rank and answers no call: the handshake is interrupted.
static void a_handshake_ends(void **state) {
  (void)state;
  static const int32_t silent = 1;
  weft_store_t *store;
  assert_ok(weft_store_open_local(&store));
  weft_ep_t *ep = open_rank(store, 0, NULL, 0), *peer = open_rank(store, 1, NULL, 0);
  pthread_mutex_lock(&peer->links.lock); // its service thread goes no further than the call
  for (int by_signal = 0; by_signal < 2; by_signal++) {
    struct nagger nagger;
    nagger_start(&nagger, ep, by_signal);
    int rc = weft_ep_connect(ep, &silent, 1, WEFT_WAIT_FOREVER);
    nagger_stop(&nagger);
    assert_int_equal(rc, WEFT_ERR_CANCELED);
  }
  pthread_mutex_unlock(&peer->links.lock);
  assert_ok(weft_ep_connect(ep, &silent, 1, DEADLINE_MS));
  weft_ep_close(peer);
  weft_ep_close(ep);
  weft_store_close(store);
}

// --- Operations. Each call of a rank is made again and again until it is not interrupted.

static _Atomic uint64_t canceled[MANY];

#define AGAIN(index, call)                                                                                             \
  int rc;                                                                                                              \
  while ((rc = (call)) == WEFT_ERR_CANCELED)                                                                           \
    atomic_fetch_add(&canceled[index], 1);                                                                             \
  return rc

int __real_weft_ep_dispatch(weft_ep_t *, const struct weft_ep_dispatch_args *, const struct weft_ep_recv_args *,
                            struct weft_ep_info *, uint64_t *);
int __wrap_weft_ep_dispatch(weft_ep_t *, const struct weft_ep_dispatch_args *, const struct weft_ep_recv_args *,
                            struct weft_ep_info *, uint64_t *);
int __wrap_weft_ep_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch_args *args,
                            const struct weft_ep_recv_args *recv, struct weft_ep_info *info, uint64_t *op) {
  AGAIN(0, __real_weft_ep_dispatch(ep, args, recv, info, op));
}

int __real_weft_ep_dispatch_send(weft_ep_t *, const struct weft_ep_dispatch_args *, uint64_t *);
int __wrap_weft_ep_dispatch_send(weft_ep_t *, const struct weft_ep_dispatch_args *, uint64_t *);
int __wrap_weft_ep_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint64_t *op) {
  AGAIN(1, __real_weft_ep_dispatch_send(ep, args, op));
}

int __real_weft_ep_dispatch_recv(weft_ep_t *, uint64_t, const struct weft_ep_recv_args *, struct weft_ep_info *);
int __wrap_weft_ep_dispatch_recv(weft_ep_t *, uint64_t, const struct weft_ep_recv_args *, struct weft_ep_info *);
int __wrap_weft_ep_dispatch_recv(weft_ep_t *ep, uint64_t op, const struct weft_ep_recv_args *recv,
                                 struct weft_ep_info *info) {
  AGAIN(2, __real_weft_ep_dispatch_recv(ep, op, recv, info));
}

int __real_weft_ep_combine(weft_ep_t *, uint64_t, const struct weft_ep_combine_args *, struct weft_ep_result *);
int __wrap_weft_ep_combine(weft_ep_t *, uint64_t, const struct weft_ep_combine_args *, struct weft_ep_result *);
int __wrap_weft_ep_combine(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine_args *args,
                           struct weft_ep_result *result) {
  AGAIN(3, __real_weft_ep_combine(ep, op, args, result));
}

int __real_weft_ep_combine_send(weft_ep_t *, uint64_t, const struct weft_ep_combine_args *);
int __wrap_weft_ep_combine_send(weft_ep_t *, uint64_t, const struct weft_ep_combine_args *);
int __wrap_weft_ep_combine_send(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine_args *args) {
  AGAIN(4, __real_weft_ep_combine_send(ep, op, args));
}

int __real_weft_ep_combine_recv(weft_ep_t *, uint64_t, const struct weft_ep_combine_args *, struct weft_ep_result *);
int __wrap_weft_ep_combine_recv(weft_ep_t *, uint64_t, const struct weft_ep_combine_args *, struct weft_ep_result *);
int __wrap_weft_ep_combine_recv(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine_args *args,
                                struct weft_ep_result *result) {
  AGAIN(5, __real_weft_ep_combine_recv(ep, op, args, result));
}

int __real_weft_ep_combine_rows(weft_ep_t *, uint64_t, void **);
int __wrap_weft_ep_combine_rows(weft_ep_t *, uint64_t, void **);
int __wrap_weft_ep_combine_rows(weft_ep_t *ep, uint64_t op, void **rows_at) {
  AGAIN(6, __real_weft_ep_combine_rows(ep, op, rows_at));
}

int __real_weft_ep_barrier(weft_ep_t *);
int __wrap_weft_ep_barrier(weft_ep_t *);
int __wrap_weft_ep_barrier(weft_ep_t *ep) {
  AGAIN(7, __real_weft_ep_barrier(ep));
}

static void nagged(struct rank *rank, void *arg) {
  struct nagger nagger;
  (void)arg;
  nagger_start(&nagger, rank->ep, rank->index % 2 == 0);
  bool ok = true;
  for (int i = 0; i < OPERATIONS && ok; i++) {
    ok = rank_operate(rank);
    if (ok && i % 8 == 7 && weft_ep_barrier(rank->ep) != 0)
      ok = rank_fail(rank, "barrier: %s", weft_last_error());
  }
  if (ok)
    rank_end_together(rank);
  nagger_stop(&nagger);
}

static void operations_go_on_where_they_were(void **state) {
  (void)state;
  static const int32_t ranks[RANKS] = {0, 1, 2};
  static const struct setup setups[] = {
      {.drop = 0.1f},
      {.layout = WEFT_EP_RANK_MAJOR, .uneven = true},
      {.apart = true, .late_weights = true, .in_place = true},
      {.apart = true, .layout = WEFT_EP_RANK_MAJOR, .in_place = true, .placed = true},
      {.layout = WEFT_EP_RANK_MAJOR, .in_place = true, .placed = true, .dtype = WEFT_EP_FP8},
      {.late_weights = true, .combine_dtype = WEFT_EP_COMBINE_LOGFMT10},
  };
  for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
    struct setup setup = setups[i];
    assert_ok(weft_store_open_local(&setup.store));
    ranks_run(&setup, ranks, RANKS, nagged, NULL);
    weft_store_close(setup.store);
  }
  for (int i = 0; i < MANY; i++)
    print_message("call %d: interrupted %llu times\n", i, (unsigned long long)canceled[i]);
  assert_true(canceled[0] > 0 && canceled[2] > 0);
}

// --- What may be called after an interruption, and what may not.

struct pair {
  weft_ep_t *ep[2];
  int rc;
};

static void *activate_other(void *arg) {
  struct pair *pair = arg;
  pair->rc = weft_ep_activate(pair->ep[1], DEADLINE_MS);
  return NULL;
}

static void pair_open(struct pair *pair, weft_store_t *store) {
  static const int32_t founders[] = {0, 1};
  pthread_t thread;
  pair->ep[0] = open_rank(store, 0, founders, 2);
  pair->ep[1] = open_rank(store, 1, founders, 2);
  assert_int_equal(pthread_create(&thread, NULL, activate_other, pair), 0);
  assert_ok(weft_ep_activate(pair->ep[0], DEADLINE_MS));
  pthread_join(thread, NULL);
  assert_ok(pair->rc);
}

static void an_interrupted_dispatch_may_be_received(void **state) {
  (void)state;
  weft_store_t *store;
  struct pair pair;
  int32_t counts[2];
  uint64_t op = UINT64_MAX, other;
  const struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  recv.layout = WEFT_EP_PER_EXPERT;
  recv.counts = counts;
  assert_ok(weft_store_open_local(&store));
  pair_open(&pair, store);
  weft_ep_interrupt(pair.ep[0]);
  assert_int_equal(__real_weft_ep_dispatch(pair.ep[0], &none, &recv, NULL, &op), WEFT_ERR_CANCELED);
  assert_int_equal(op, 0);
  assert_int_equal(weft_ep_next_op(pair.ep[0]), 1);
  assert_int_equal(__real_weft_ep_barrier(pair.ep[0]), WEFT_ERR_BUSY); // the dispatch first
  assert_non_null(strstr(weft_last_error(), "dispatch: operation 0 was interrupted"));
  assert_ok(weft_ep_dispatch_send(pair.ep[1], &none, &other));
  assert_ok(__real_weft_ep_dispatch_recv(pair.ep[0], op, &recv, NULL));
  assert_ok(weft_ep_dispatch_recv(pair.ep[1], other, &recv, NULL));
  assert_ok(weft_ep_finish(pair.ep[0], op));
  assert_ok(weft_ep_finish(pair.ep[1], op));

  // The same call again; then a barrier, which goes on only as a barrier.
  weft_ep_interrupt(pair.ep[0]);
  assert_int_equal(__real_weft_ep_dispatch(pair.ep[0], &none, &recv, NULL, &op), WEFT_ERR_CANCELED);
  assert_ok(weft_ep_dispatch_send(pair.ep[1], &none, &other));
  assert_ok(__real_weft_ep_dispatch(pair.ep[0], &none, &recv, NULL, &op));
  assert_int_equal(op, 1);
  assert_ok(weft_ep_dispatch_recv(pair.ep[1], other, &recv, NULL));
  assert_ok(weft_ep_finish(pair.ep[0], op));
  assert_ok(weft_ep_finish(pair.ep[1], op));
  weft_ep_interrupt(pair.ep[0]);
  assert_int_equal(__real_weft_ep_barrier(pair.ep[0]), WEFT_ERR_CANCELED);
  assert_int_equal(__real_weft_ep_dispatch(pair.ep[0], &none, &recv, NULL, &op), WEFT_ERR_BUSY);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, (void *(*)(void *))(void (*)(void))weft_ep_barrier, pair.ep[1]), 0);
  assert_ok(__real_weft_ep_barrier(pair.ep[0]));
  pthread_join(thread, NULL);
  assert_int_equal(weft_ep_next_op(pair.ep[0]), 3);
  weft_ep_close(pair.ep[1]);
  weft_ep_close(pair.ep[0]);
  weft_store_close(store);
}

// Sends and receives an operation on both, one after the other; of the second in place if `at`.
static void operate_pair(struct pair *pair, const void **at) {
  uint64_t op[2];
  int32_t counts[2];
  const struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  recv.layout = WEFT_EP_PER_EXPERT;
  recv.counts = counts;
  for (int i = 0; i < 2; i++)
    assert_ok(__real_weft_ep_dispatch_send(pair->ep[i], &none, &op[i]));
  assert_ok(__real_weft_ep_dispatch_recv(pair->ep[0], op[0], &recv, NULL));
  recv.rows_at = at;
  assert_ok(__real_weft_ep_dispatch_recv(pair->ep[1], op[1], &recv, NULL));
  assert_ok(weft_ep_finish(pair->ep[0], op[0]));
}

// The other rank still reads its rows of two operations ago, and has its room for them.
static void an_interrupted_send_goes_on(void **state) {
  (void)state;
  weft_store_t *store;
  struct pair pair;
  const void *at[1];
  uint64_t op = UINT64_MAX;
  const struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  assert_ok(weft_store_open_local(&store));
  pair_open(&pair, store);
  operate_pair(&pair, at);
  operate_pair(&pair, NULL);
  for (int i = 0; i < 3; i++) {
    weft_ep_interrupt(pair.ep[0]);
    assert_int_equal(__real_weft_ep_dispatch_send(pair.ep[0], &none, &op), WEFT_ERR_CANCELED);
    assert_int_equal(op, UINT64_MAX);
    assert_int_equal(weft_ep_next_op(pair.ep[0]), 2);
  }
  assert_int_equal(__real_weft_ep_barrier(pair.ep[0]), WEFT_ERR_BUSY);
  assert_int_equal(weft_ep_finish(pair.ep[0], 2), WEFT_ERR_INVALID);
  assert_ok(weft_ep_finish(pair.ep[1], 0));
  assert_ok(__real_weft_ep_dispatch_send(pair.ep[0], &none, &op));
  assert_int_equal(op, 2);
  weft_ep_close(pair.ep[1]);
  weft_ep_close(pair.ep[0]);
  weft_store_close(store);
}

// A rank that falls silent is lost after the time limit of an operation, however often the waits for it are
// interrupted: a caller that looks for signals repeats its call all the time.
static void time_limits_count_over_all_attempts(void **state) {
  (void)state;
  static const int32_t founders[] = {0, 1};
  for (int mode = WEFT_EP_LATENCY; mode <= WEFT_EP_THROUGHPUT; mode++) {
    weft_store_t *store;
    struct pair pair;
    struct nagger nagger;
    pthread_t thread;
    int32_t counts[2];
    uint64_t op;
    assert_ok(weft_store_open_local(&store));
    for (int32_t rank = 0; rank < 2; rank++) {
      struct weft_ep_options options = options_of(store, rank, founders, 2);
      options.mode = mode;
      options.op_timeout_ms = 100;
      assert_ok(weft_ep_open(&pair.ep[rank], &options, DEADLINE_MS));
    }
    assert_int_equal(pthread_create(&thread, NULL, activate_other, &pair), 0);
    assert_ok(weft_ep_activate(pair.ep[0], DEADLINE_MS));
    pthread_join(thread, NULL);
    assert_ok(pair.rc);
    const struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
    struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    recv.layout = WEFT_EP_PER_EXPERT;
    recv.counts = counts;
    nagger_start(&nagger, pair.ep[0], false);
    uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
    int rc;
    do
      rc = __real_weft_ep_dispatch(pair.ep[0], &none, &recv, &info, &op);
    while (rc == WEFT_ERR_CANCELED && !clock_passed(deadline_ns));
    nagger_stop(&nagger);
    assert_ok(rc);
    assert_int_equal(info.num_lost, 1);
    assert_int_equal(pair.ep[0]->interrupt.waited_ns, 0);
    weft_ep_close(pair.ep[1]);
    weft_ep_close(pair.ep[0]);
    weft_store_close(store);
  }
}

// What is awaited may come between two attempts: the last one then waits for nothing. What the attempts before have
// waited must not count for the next operation.
static void a_call_that_ends_without_a_wait_settles_time_limits(void **state) {
  (void)state;
  static const int32_t founder = 0;
  weft_store_t *store;
  int32_t counts[2];
  uint64_t op;
  assert_ok(weft_store_open_local(&store));
  weft_ep_t *ep = open_rank(store, 0, &founder, 1);
  assert_ok(weft_ep_activate(ep, DEADLINE_MS));
  const struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  const struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  recv.layout = WEFT_EP_PER_EXPERT;
  recv.counts = counts;
  for (int call = 0; call < 3; call++) {
    ep->interrupt.waited_ns = 1000000000;
    ep->interrupt.extensions = 1;
    assert_ok(call == 0   ? __real_weft_ep_dispatch(ep, &none, &recv, NULL, &op)
              : call == 1 ? __real_weft_ep_combine(ep, op, &combine, NULL)
                          : __real_weft_ep_barrier(ep));
    assert_int_equal(ep->interrupt.waited_ns + ep->interrupt.extensions, 0);
  }
  weft_ep_close(ep);
  weft_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(waits_for_peers_end),
      cmocka_unit_test(one_interrupt_ends_one_wait_and_no_call_that_does_not_wait),
      cmocka_unit_test(a_handshake_ends),
      cmocka_unit_test(operations_go_on_where_they_were),
      cmocka_unit_test(an_interrupted_dispatch_may_be_received),
      cmocka_unit_test(an_interrupted_send_goes_on),
      cmocka_unit_test(time_limits_count_over_all_attempts),
      cmocka_unit_test(a_call_that_ends_without_a_wait_settles_time_limits),
  };
  return cmocka_run_group_tests_name("ep_interrupt", tests, NULL, NULL);
}
