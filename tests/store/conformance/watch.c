// Watches, on every kind of store.
#include "conformance/suite.h"
#include "support/events.h"
#include <stdio.h>
#include <string.h>

static void a_watch_from_now_sees_what_comes_and_nothing_before(void **state) {
  struct support_events events;
  weft_store_watch_t *watch;
  support_events_init(&events);
  suite_put(*state, "/w/now/a", "before", 0);
  assert_ok(weft_store_watch_open(*state, "/w/now/", 0, support_events_take, &events, &watch));
  suite_put(*state, "/w/other", "x", 0);
  int64_t put = suite_put(*state, "/w/now/a", "after", 0);
  assert_ok(weft_store_delete(*state, "/w/now/a", false, NULL));
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_DELETE, 1));
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_PUT), 1);
  struct support_event event = support_events_get(&events, WEFT_STORE_EVENT_PUT, 0);
  assert_string_equal(event.key, "/w/now/a");
  assert_string_equal(event.value, "after");
  assert_int_equal(event.revision, put);
  event = support_events_get(&events, WEFT_STORE_EVENT_DELETE, 0);
  assert_string_equal(event.key, "/w/now/a");
  assert_int_equal(event.revision, put + 1);
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_RESUMED), 1);
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_LOST), 0);
  weft_store_watch_close(watch);
  support_events_free(&events);
}

static void a_watch_from_a_past_revision_replays_it(void **state) {
  struct support_events events;
  weft_store_watch_t *watch;
  support_events_init(&events);
  suite_put(*state, "/w/past/a", "0", 0);
  int64_t from = suite_put(*state, "/w/past/b", "1", 0);
  assert_ok(weft_store_delete(*state, "/w/past/a", false, NULL));
  suite_put(*state, "/w/past/c", "2", 0);
  assert_ok(weft_store_watch_open(*state, "/w/past/", from, support_events_take, &events, &watch));
  suite_put(*state, "/w/past/d", "3", 0);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, 3));
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_DELETE), 1);
  static const char *const keys[] = {"/w/past/b", "/w/past/c", "/w/past/d"};
  for (size_t i = 0; i < 3; i++)
    assert_string_equal(support_events_get(&events, WEFT_STORE_EVENT_PUT, i).key, keys[i]);
  assert_int_equal(support_events_get(&events, WEFT_STORE_EVENT_PUT, 0).revision, from);
  assert_int_equal(support_events_get(&events, WEFT_STORE_EVENT_DELETE, 0).revision, from + 1);
  weft_store_watch_close(watch);
  support_events_free(&events);
}

static void a_watch_from_a_negative_revision_is_refused(void **state) {
  struct support_events events;
  weft_store_watch_t *watch = NULL;
  support_events_init(&events);
  assert_int_equal(weft_store_watch_open(*state, "/w/", -1, support_events_take, &events, &watch), WEFT_ERR_INVALID);
  assert_null(watch);
  support_events_free(&events);
}

// Such a revision is of another store, for instance of one that was restarted empty since.
static void a_watch_from_a_revision_to_come_is_reset(void **state) {
  struct support_events events;
  struct weft_store_list *list;
  weft_store_watch_t *watch;
  support_events_init(&events);
  suite_put(*state, "/w/ahead/a", "1", 0);
  assert_ok(weft_store_range(*state, "/w/ahead/", true, 0, &list));
  assert_ok(weft_store_watch_open(*state, "/w/ahead/", list->revision + 1000, support_events_take, &events, &watch));
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_RESET, 1));
  suite_put(*state, "/w/ahead/b", "2", 0);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, 1));
  assert_string_equal(support_events_get(&events, WEFT_STORE_EVENT_PUT, 0).key, "/w/ahead/b");
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_RESET), 1);
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_RESUMED), 0);
  weft_store_list_free(list);
  weft_store_watch_close(watch);
  support_events_free(&events);
}

static void range_then_watch_misses_nothing(void **state) {
  struct support_events events;
  struct weft_store_list *list;
  weft_store_watch_t *watch;
  support_events_init(&events);
  suite_put(*state, "/w/gap/a", "1", 0);
  assert_ok(weft_store_range(*state, "/w/gap/", true, 0, &list));
  suite_put(*state, "/w/gap/b", "2", 0); // between the two
  assert_ok(weft_store_watch_open(*state, "/w/gap/", list->revision + 1, support_events_take, &events, &watch));
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, 1));
  assert_string_equal(support_events_get(&events, WEFT_STORE_EVENT_PUT, 0).key, "/w/gap/b");
  weft_store_list_free(list);
  weft_store_watch_close(watch);
  support_events_free(&events);
}

static void a_transaction_is_seen_whole_at_one_revision(void **state) {
  enum { KEYS = 20 };
  struct support_events events;
  struct weft_store_op ops[KEYS];
  char keys[KEYS][24];
  weft_store_watch_t *watch;
  support_events_init(&events);
  assert_ok(weft_store_watch_open(*state, "/w/txn/", 0, support_events_take, &events, &watch));
  for (int i = 0; i < KEYS; i++) {
    snprintf(keys[i], sizeof keys[i], "/w/txn/%02d", i);
    ops[i] = (struct weft_store_op){.kind = WEFT_STORE_PUT, .key = keys[i], .value = "x", .value_len = 1};
  }
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.success = ops;
  txn.num_success = KEYS;
  struct weft_store_txn_result *result;
  assert_ok(weft_store_txn_commit(*state, &txn, &result));
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, KEYS));
  for (size_t i = 0; i < KEYS; i++) {
    assert_string_equal(support_events_get(&events, WEFT_STORE_EVENT_PUT, i).key, keys[i]);
    assert_int_equal(support_events_get(&events, WEFT_STORE_EVENT_PUT, i).revision, result->revision);
  }
  weft_store_txn_result_free(result);
  weft_store_watch_close(watch);
  support_events_free(&events);
}

// More than one message can have. etcd sends them in parts, which also begin and end within a revision.
static void large_revisions_are_replayed_whole(void **state) {
  enum { REVISIONS = 12, KEYS = 3, SIZE = 450000 };
  struct support_events events;
  weft_store_watch_t *watch;
  int64_t from = 0;
  char *value = test_malloc(SIZE), keys[KEYS][24];
  memset(value, 'v', SIZE);
  for (int i = 0; i < REVISIONS; i++) {
    struct weft_store_op ops[KEYS];
    struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
    struct weft_store_txn_result *result;
    for (int k = 0; k < KEYS; k++) {
      snprintf(keys[k], sizeof keys[k], "/w/large/%d", k);
      ops[k] = (struct weft_store_op){.kind = WEFT_STORE_PUT, .key = keys[k], .value = value, .value_len = SIZE};
    }
    txn.success = ops;
    txn.num_success = KEYS;
    assert_ok(weft_store_txn_commit(*state, &txn, &result));
    from = from ? from : result->revision;
    weft_store_txn_result_free(result);
  }
  support_events_init(&events);
  assert_ok(weft_store_watch_open(*state, "/w/large/", from, support_events_take, &events, &watch));
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, REVISIONS * KEYS));
  weft_store_watch_close(watch);
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_PUT), REVISIONS * KEYS);
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_RESET), 0);
  for (size_t i = 0; i < (size_t)REVISIONS * KEYS; i++) {
    struct support_event event = support_events_get(&events, WEFT_STORE_EVENT_PUT, i);
    assert_string_equal(event.key, keys[i % KEYS]);
    assert_int_equal(event.revision, from + (int64_t)(i / KEYS));
  }
  assert_ok(weft_store_delete(*state, "/w/large/", true, NULL));
  support_events_free(&events);
  test_free(value);
}

static void a_closed_watch_says_nothing_more(void **state) {
  struct support_events closed, open;
  weft_store_watch_t *first, *second;
  support_events_init(&closed);
  support_events_init(&open);
  assert_ok(weft_store_watch_open(*state, "/w/close/", 0, support_events_take, &closed, &first));
  assert_ok(weft_store_watch_open(*state, "/w/close/", 0, support_events_take, &open, &second));
  weft_store_watch_close(first);
  size_t before = closed.count; // without the lock: nobody else may touch it any longer
  suite_put(*state, "/w/close/a", "x", 0);
  assert_true(support_events_wait(&open, WEFT_STORE_EVENT_PUT, 1));
  assert_int_equal(closed.count, before);
  support_events_free(&closed);
  weft_store_watch_close(second);
  support_events_free(&open);
}

static void watches_see_each_their_own(void **state) {
  enum { WATCHES = 24 };
  struct support_events events[WATCHES];
  weft_store_watch_t *watches[WATCHES];
  char prefix[24];
  for (int i = 0; i < WATCHES; i++) {
    snprintf(prefix, sizeof prefix, "/w/each/%02d/", i);
    support_events_init(&events[i]);
    assert_ok(weft_store_watch_open(*state, prefix, 0, support_events_take, &events[i], &watches[i]));
  }
  for (int i = 0; i < WATCHES; i++) {
    snprintf(prefix, sizeof prefix, "/w/each/%02d/", i);
    suite_put(*state, prefix, "x", 0);
  }
  for (int i = 0; i < WATCHES; i++) {
    snprintf(prefix, sizeof prefix, "/w/each/%02d/", i);
    assert_true(support_events_wait(&events[i], WEFT_STORE_EVENT_PUT, 1));
    assert_string_equal(support_events_get(&events[i], WEFT_STORE_EVENT_PUT, 0).key, prefix);
    weft_store_watch_close(watches[i]);
    assert_int_equal(support_events_count(&events[i], WEFT_STORE_EVENT_PUT), 1);
    support_events_free(&events[i]);
  }
}

static void closing_the_store_ends_its_watches(void **state) {
  struct support_events events;
  weft_store_watch_t *watch;
  support_events_init(&events);
  assert_ok(weft_store_watch_open(*state, "/w/end/", 0, support_events_take, &events, &watch));
  suite_put(*state, "/w/end/a", "x", 0);
  weft_store_close(*state);
  *state = NULL;
  support_events_free(&events); // a callback from now on would be found by the sanitizers
  weft_store_watch_close(watch);
}

int suite_run_watch(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_watch_from_now_sees_what_comes_and_nothing_before),
      TEST(a_watch_from_a_past_revision_replays_it),
      TEST(a_watch_from_a_negative_revision_is_refused),
      TEST(a_watch_from_a_revision_to_come_is_reset),
      TEST(range_then_watch_misses_nothing),
      TEST(a_transaction_is_seen_whole_at_one_revision),
      TEST(large_revisions_are_replayed_whole),
      TEST(a_closed_watch_says_nothing_more),
      TEST(watches_see_each_their_own),
      TEST(closing_the_store_ends_its_watches),
  };
  return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
