// The helpers on the store, on a store of this process.
#include "cmocka_all.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/time/clock.h"
#include "run/common/store_json.h"
#include "run/common/store_writer.h"
#include "support/local_store.h"

enum { WAIT_MS = 30000 };

static void the_first_creator_of_a_key_has_it(void **state) {
  (void)state;
  bool created = false;
  json_t *json = NULL;
  assert_int_equal(run_storage_get(store, "/t/key", &json), 0);
  assert_null(json);
  assert_int_equal(run_storage_create(store, "/t/key", json_integer(1), 0, &created), 0);
  assert_true(created);
  assert_int_equal(run_storage_create(store, "/t/key", json_integer(2), 0, &created), 0);
  assert_false(created);
  assert_int_equal(run_storage_create(store, "/t/key", json_integer(1), 0, &created), 0); // its own, again
  assert_true(created);
  assert_int_equal(run_storage_get(store, "/t/key", &json), 0);
  assert_int_equal(json_integer_value(json), 1);
  json_decref(json);
  assert_int_equal(weft_store_put(store, "/t/bad", "{", 1, 0, NULL), 0);
  assert_int_equal(run_storage_get(store, "/t/bad", &json), WEFT_ERR_PROTOCOL);
  assert_non_null(strstr(weft_last_error(), "/t/bad"));
}

// Takes the next change of a key.
static struct run_change next(struct run_inbox *inbox) {
  struct run_change change;
  uint64_t deadline = clock_deadline_ms(WAIT_MS);
  for (;;) {
    while (!run_inbox_take(inbox, &change)) {
      struct pollfd fd = {.fd = run_inbox_fd(inbox), .events = POLLIN};
      assert_false(clock_passed(deadline));
      poll(&fd, 1, clock_left_ms(deadline));
    }
    if (change.key)
      return change;
    run_change_free(&change);
  }
}

static void an_inbox_has_what_was_there_and_what_comes_in_order(void **state) {
  (void)state;
  enum { COUNT = 200 };
  struct run_inbox *inbox;
  char key[32];
  assert_int_equal(run_storage_put(store, "/i/000", json_integer(0), 0), 0);
  assert_int_equal(run_inbox_open(&inbox, store, "/i/"), 0);
  for (int i = 1; i < COUNT; i++) {
    snprintf(key, sizeof key, "/i/%03d", i);
    assert_int_equal(run_storage_put(store, key, json_integer(i), 0), 0);
  }
  assert_int_equal(weft_store_delete(store, "/i/000", false, NULL), 0);
  assert_int_equal(weft_store_put(store, "/i/text", "no json", 7, 0, NULL), 0);
  for (int i = 0; i < COUNT; i++) {
    struct run_change change = next(inbox);
    assert_int_equal(change.kind, WEFT_STORE_EVENT_PUT);
    assert_int_equal(json_integer_value(change.json), i);
    run_change_free(&change);
  }
  struct run_change change = next(inbox);
  assert_int_equal(change.kind, WEFT_STORE_EVENT_DELETE);
  assert_string_equal(change.key, "/i/000");
  run_change_free(&change);
  change = next(inbox);
  assert_string_equal(change.key, "/i/text");
  assert_null(change.json);
  run_change_free(&change);
  run_inbox_close(inbox);
}

static void a_reporter_writes_all_in_order_before_it_closes(void **state) {
  (void)state;
  struct run_reporter *reporter;
  struct weft_store_list *list;
  assert_int_equal(run_reporter_open(&reporter, &(struct run_reporter_options){.store = store}), 0);
  for (int i = 0; i <= 100; i++)
    run_reporter_put(reporter, i % 2 ? "/r/odd" : "/r/even", json_integer(i));
  run_reporter_put(reporter, "/r/none", NULL);
  run_reporter_close(reporter, clock_deadline_ms(WAIT_MS));
  assert_int_equal(weft_store_range(store, "/r/", true, 0, &list), 0);
  assert_int_equal(list->count, 2);
  assert_string_equal(list->kvs[0]->value, "100");
  assert_int_equal(list->kvs[0]->version, 51);
  assert_string_equal(list->kvs[1]->value, "99");
  weft_store_list_free(list);
}

static void a_reporter_gives_up_what_the_store_refuses(void **state) {
  (void)state;
  struct run_reporter *reporter;
  struct weft_store_list *list;
  assert_int_equal(run_reporter_open(&reporter, &(struct run_reporter_options){.store = store, .lease = 12345}),
                   0); // no such lease
  run_reporter_put(reporter, "/g/key", json_integer(1));
  run_reporter_close(reporter, clock_deadline_ms(WAIT_MS));
  assert_int_equal(weft_store_range(store, "/g/", true, 0, &list), 0);
  assert_int_equal(list->count, 0);
  weft_store_list_free(list);
}

static json_t *live_run(int64_t lease) {
  return json_pack("{s:s, s:I}", "run", "r1", "lease", (json_int_t)lease);
}

static int count_renewal(void *arg) {
  ++*(int *)arg;
  return 0;
}

static void wait_until_idle(struct run_reporter *reporter) {
  uint64_t deadline = clock_deadline_ms(WAIT_MS);
  while (!run_reporter_is_idle(reporter)) {
    assert_false(clock_passed(deadline));
    poll(NULL, 0, 1); // between two looks
  }
}

// Every key of the run hangs on its lease, so the lease's end is what a store that lost everything looks like.
static void a_reporter_says_everything_again_to_a_store_that_has_lost_it(void **state) {
  (void)state;
  struct run_reporter *reporter;
  struct weft_store_list *list;
  int renewals = 0;
  int64_t lost, found;
  assert_int_equal(weft_store_lease_grant(store, 60, &lost, NULL), 0);
  assert_int_equal(run_storage_put(store, "/l/run", live_run(lost), lost), 0);
  struct run_reporter_options options = {
      .store = store, .lease = lost, .live = "/l/run", .run = "r1", .renewed = count_renewal, .arg = &renewals};
  assert_int_equal(run_reporter_open(&reporter, &options), 0);
  assert_int_equal(run_storage_put(store, "/l/r1/kept", json_integer(1), lost), 0);
  run_reporter_keep(reporter, "/l/r1/kept", json_integer(1));
  run_reporter_put(reporter, "/l/r1/put", json_integer(2));
  run_reporter_put(reporter, "/l/r1/put", json_integer(3));
  wait_until_idle(reporter);
  assert_int_equal(weft_store_lease_revoke(store, lost), 0);
  run_reporter_put(reporter, "/l/r1/late", json_integer(4)); // finds out that the lease is gone
  assert_int_equal(weft_store_lease_grant(store, 60, &found, NULL), 0);
  assert_int_equal(run_storage_put(store, "/l/run", live_run(found), found), 0);
  wait_until_idle(reporter);
  run_reporter_close(reporter, clock_deadline_ms(WAIT_MS));
  assert_int_equal(weft_store_range(store, "/l/r1/", true, 0, &list), 0);
  assert_int_equal(list->count, 3);
  assert_string_equal(list->kvs[0]->key, "/l/r1/kept");
  assert_string_equal(list->kvs[1]->value, "4");
  assert_string_equal(list->kvs[2]->value, "3");
  for (size_t i = 0; i < list->count; i++)
    assert_true(list->kvs[i]->lease == found);
  assert_int_equal(list->kvs[2]->version, 1); // what it replaced is not said again
  assert_true(renewals > 0);
  weft_store_list_free(list);
}

static void an_inbox_that_is_read_again_has_everything_once_more(void **state) {
  (void)state;
  struct run_inbox *inbox;
  assert_int_equal(run_storage_put(store, "/a/1", json_integer(1), 0), 0);
  assert_int_equal(run_inbox_open(&inbox, store, "/a/"), 0);
  assert_int_equal(run_storage_put(store, "/a/2", json_integer(2), 0), 0);
  for (int i = 1; i <= 2; i++) {
    struct run_change change = next(inbox);
    assert_int_equal(json_integer_value(change.json), i);
    run_change_free(&change);
  }
  assert_int_equal(run_inbox_read(inbox), 0);
  for (int i = 1; i <= 2; i++) {
    struct run_change change = next(inbox);
    assert_int_equal(change.kind, WEFT_STORE_EVENT_PUT);
    assert_int_equal(json_integer_value(change.json), i);
    run_change_free(&change);
  }
  run_inbox_close(inbox);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_creator_of_a_key_has_it),
      cmocka_unit_test(an_inbox_has_what_was_there_and_what_comes_in_order),
      cmocka_unit_test(a_reporter_writes_all_in_order_before_it_closes),
      cmocka_unit_test(a_reporter_gives_up_what_the_store_refuses),
      cmocka_unit_test(a_reporter_says_everything_again_to_a_store_that_has_lost_it),
      cmocka_unit_test(an_inbox_that_is_read_again_has_everything_once_more),
  };
  return cmocka_run_group_tests(tests, open_store, close_store);
}
