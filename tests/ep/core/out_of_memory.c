// Memory runs out: each allocation in turn fails while a rank opens, connects, joins, runs and leaves. The calls report
// it, the other rank goes on, and nothing is left when all are closed.
#include <inttypes.h>

#include "cmocka_all.h"

#include "ep/support/background_rank.h"
#include "support/allocations.h"
#include "support/entries.h"

enum { SOON_MS = 10000, ROUNDS_MAX = 5000, WARM_UP = 4 };

static struct weft_ep_options small(weft_store_t *store, int32_t rank) {
  return (struct weft_ep_options){.size = sizeof(struct weft_ep_options),
                                  .store = store,
                                  .rank = rank,
                                  .capacity = 2,
                                  .hidden = 128,
                                  .max_tokens = 4,
                                  .topk = 2};
}

// A thread that cannot start for lack of memory cannot be distinguished from one too many.
static bool fair(int rc) {
  return (rc == WEFT_ERR_NOMEM || rc == WEFT_ERR_LIMIT) && weft_last_error()[0] != '\0';
}

static int visit(weft_ep_t *ep, const char **call) {
  static const int32_t zero = 0, self = 1;
  *call = "connect";
  int rc = weft_ep_connect(ep, &zero, 1, SOON_MS);
  if (rc == 0)
    *call = "activate", rc = weft_ep_activate(ep, SOON_MS);
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  weft_ep_route_t *route = NULL;
  if (rc == 0)
    *call = "route_create", rc = weft_ep_route_create(ep, &options, &route);
  weft_ep_route_free(route);
  for (int i = 0; rc == 0 && i < 3; i++)
    *call = "barrier", rc = weft_ep_barrier(ep);
  if (rc == 0)
    *call = "disconnect", rc = weft_ep_disconnect(ep, &self, 1, SOON_MS);
  while (rc == 0 && weft_ep_is_active(ep))
    *call = "barrier", rc = weft_ep_barrier(ep);
  return rc;
}

// One visit, in which the n-th allocation fails. Returns whether it came to so many.
static bool run(uint64_t n, uint32_t *errors) {
  weft_store_t *store;
  struct background_rank resident;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options = small(store, 0);
  background_rank_start(&resident, &options);

  weft_ep_t *guest = NULL;
  const char *call = "open";
  options = small(store, 1);
  allocations_fail(n);
  int rc = weft_ep_open(&guest, &options, SOON_MS);
  if (rc == 0)
    rc = visit(guest, &call);
  bool failed = allocations_failed();
  allocations_fail(0);
  if (rc != 0 && !fair(rc))
    fail_msg("allocation %" PRIu64 ": %s: %s: \"%s\"", n, call, weft_err_name(rc), weft_last_error());
  if (rc != 0 && !failed)
    fail_msg("no allocation failed, but %s did: %s", call, weft_last_error());
  *errors += rc != 0;
  weft_ep_close(guest);

  background_rank_assert_runs(&resident);
  background_rank_end(&resident);
  weft_store_close(store);
  return failed;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  uint32_t errors = 0;
  for (int i = 0; i < WARM_UP; i++)
    run(0, &errors);
  int64_t live = allocations_live();
  int descriptors = support_descriptors();
  uint64_t n = 1;
  while (n < ROUNDS_MAX && run(n, &errors)) {
    if (allocations_live() != live)
      fail_msg("allocation %" PRIu64 ": %" PRId64 " allocations are left behind", n, allocations_live() - live);
    assert_int_equal(support_descriptors(), descriptors);
    n++;
  }
  print_message("each of %" PRIu64 " allocations failed once; %u visits were ended by it, the others went on\n", n - 1,
                errors);
  assert_true(n > 50 && n < ROUNDS_MAX);
}

// --- Without memory for the names of missing ranks in its error message, a call fails all the same.

static void connect_fails_without_memory_for_names(void **state) {
  (void)state;
  static const int32_t absent = 1;
  weft_store_t *store;
  weft_ep_t *ep;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options = small(store, 0);
  assert_int_equal(weft_ep_open(&ep, &options, SOON_MS), 0);
  allocations_fail_here(1);
  assert_int_equal(weft_ep_connect(ep, &absent, 1, 0), WEFT_ERR_TIMEOUT);
  assert_true(allocations_failed());
  assert_string_equal(weft_last_error(), "connect: not connected: ?");
  weft_ep_close(ep);
  weft_store_close(store);
}

static void *take_part_once(void *arg) {
  weft_ep_t *ep = arg;
  bool done = weft_ep_activate(ep, SOON_MS) == 0 && weft_ep_barrier(ep) == 0;
  weft_ep_close(ep); // without leaving the group
  return done ? ep : NULL;
}

static void a_barrier_fails_without_memory_for_names(void **state) {
  (void)state;
  static const int32_t founders[] = {0, 1};
  weft_store_t *store;
  weft_ep_t *eps[2];
  pthread_t other;
  void *done;
  assert_int_equal(weft_store_open_local(&store), 0);
  for (int32_t rank = 0; rank < 2; rank++) {
    struct weft_ep_options options = small(store, rank);
    options.founders = founders;
    options.num_founders = 2;
    assert_int_equal(weft_ep_open(&eps[rank], &options, SOON_MS), 0);
  }
  assert_int_equal(pthread_create(&other, NULL, take_part_once, eps[1]), 0);
  assert_int_equal(weft_ep_activate(eps[0], SOON_MS), 0);
  assert_int_equal(weft_ep_barrier(eps[0]), 0);
  pthread_join(other, &done);
  assert_non_null(done);
  allocations_fail_here(1);
  assert_int_equal(weft_ep_barrier(eps[0]), WEFT_ERR_PEER_LOST);
  assert_true(allocations_failed());
  assert_string_equal(weft_last_error(), "barrier: operation 1 continued without rank ?");
  weft_ep_close(eps[0]);
  weft_store_close(store);
}

int main(void) {
  if (!allocations_counted()) {
    print_message("skipped: a sanitizer has an allocator of its own\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(connect_fails_without_memory_for_names),
      cmocka_unit_test(a_barrier_fails_without_memory_for_names),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests_name("ep_out_of_memory", tests, NULL, NULL);
}
