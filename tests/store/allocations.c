// What the store's hot calls allocate and free after warm-up. In a store inside the process, calls that return no
// memory to their caller allocate nothing. Over HTTP, curl, jansson and libmicrohttpd allocate a few hundred times for
// each call.
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cmocka_all.h"

#include <weft/weft.h>

#include "base/time/clock.h"
#include "support/allocations.h"

enum { WARM_UP = 200, CALLS = 500, DEADLINE_MS = 20000, HISTORY = 70000 };

struct world {
  weft_store_t *store;
  int64_t lease;
  _Atomic int64_t seen; // newest revision that the watch reported
};

static void on_event(void *arg, const struct weft_store_event *event) {
  ((struct world *)arg)->seen = event->revision;
}

// Puts, and waits until the watch has reported it.
static void put(struct world *world) {
  int64_t revision;
  assert_int_equal(weft_store_put(world->store, "/weft/hot", "0123456789abcdef", 16, world->lease, &revision), 0);
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (world->seen < revision && !clock_passed(deadline))
    poll(NULL, 0, 0);
  assert_true(world->seen >= revision);
}

static void get(struct world *world) {
  struct weft_store_list *list;
  assert_int_equal(weft_store_range(world->store, "/weft/hot", false, 0, &list), 0);
  assert_int_equal(list->count, 1);
  weft_store_list_free(list);
}

static void keepalive(struct world *world) {
  assert_int_equal(weft_store_lease_keepalive(world->store, world->lease, NULL), 0);
}

static void txn(struct world *world) {
  const struct weft_store_compare compare = {
      .key = "/weft/hot", .target = WEFT_STORE_CREATE, .relation = WEFT_STORE_GREATER, .number = 0};
  const struct weft_store_op op = {.kind = WEFT_STORE_PUT, .key = "/weft/other", .value = "x", .value_len = 1};
  struct weft_store_txn_result *result;
  assert_int_equal(weft_store_txn_commit(world->store,
                                         &(struct weft_store_txn){.size = sizeof(struct weft_store_txn),
                                                                  .each_compare = sizeof compare,
                                                                  .each_op = sizeof op,
                                                                  .compares = &compare,
                                                                  .num_compares = 1,
                                                                  .success = &op,
                                                                  .num_success = 1},
                                         &result),
                   0);
  assert_true(result->succeeded);
  weft_store_txn_result_free(result);
}

// `bare`: such a call hands no memory to its caller, and allocates none in a store of this process.
static const struct {
  const char *name;
  void (*call)(struct world *world);
  bool bare;
} calls[] = {{"put and watch", put, true}, {"keepalive", keepalive, true}, {"get", get, false}, {"txn", txn, false}};

// More puts than history keeps: from then on each drops the record of another.
static void fill_history(struct world *world) {
  for (int i = 0; i < HISTORY; i++)
    assert_int_equal(weft_store_put(world->store, "/weft/hot", "0123456789abcdef", 16, 0, NULL), 0);
}

static void measure(struct world *world, bool here) {
  weft_store_watch_t *watch;
  assert_int_equal(weft_store_lease_grant(world->store, 60, &world->lease, NULL), 0);
  if (here)
    fill_history(world);
  assert_int_equal(weft_store_watch_open(world->store, "/weft/hot", 0, on_event, world, &watch), 0);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    for (int n = 0; n < WARM_UP; n++)
      calls[i].call(world);
    struct allocations all = {0}, caller = {0};
    allocations_begin_all();
    allocations_begin();
    for (int n = 0; n < CALLS; n++)
      calls[i].call(world);
    allocations_end(&caller);
    allocations_end_all(&all);
    print_message(
        "%-13s per call: %5.2f by the library, %5.2f of them in the caller's thread; %6.2f by curl and others\n",
        calls[i].name, (double)all.own / CALLS, (double)caller.own / CALLS, (double)all.others / CALLS);
    if (here && calls[i].bare)
      assert_int_equal(all.own + all.others, 0);
  }
  weft_store_watch_close(watch);
}

static void a_store_of_this_process_allocates_nothing(void **state) {
  (void)state;
  struct world world = {.store = NULL};
  assert_int_equal(weft_store_open_local(&world.store), 0);
  measure(&world, true);
  weft_store_close(world.store);
}

// Counted, and not nothing: see docs/notebook/store-and-group.md.
static void a_store_over_http_is_counted(void **state) {
  (void)state;
  struct world world = {.store = NULL};
  weft_store_server_t *server;
  struct weft_store_server_options server_options = WEFT_STORE_SERVER_OPTIONS_INIT;
  if (weft_store_server_start(&server, &server_options) == WEFT_ERR_UNSUPPORTED)
    skip();
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = weft_store_server_url(server);
  options.token = weft_store_server_token(server);
  assert_int_equal(weft_store_open(&world.store, &options), 0);
  measure(&world, false);
  weft_store_close(world.store);
  weft_store_server_stop(server);
}

int main(void) {
  if (!allocations_counted()) {
    print_message("skipped: a sanitizer has an allocator of its own\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_store_of_this_process_allocates_nothing),
                                     cmocka_unit_test(a_store_over_http_is_counted)};
  return cmocka_run_group_tests_name("store_allocations", tests, NULL, NULL);
}
