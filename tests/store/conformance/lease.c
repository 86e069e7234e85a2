// Leases, on every kind of store.
#include "conformance/suite.h"
#include "support/events.h"
#include <string.h>

static void a_lease_is_granted_renewed_and_revoked(void **state) {
  struct weft_store_list *list;
  int64_t lease = 0, granted = 0, ttl = 0;
  assert_ok(weft_store_lease_grant(*state, 60, &lease, &granted));
  assert_true(lease != 0);
  assert_true(granted >= 60);
  suite_put(*state, "/lease/a", "1", lease);
  suite_put(*state, "/lease/b", "1", lease);
  assert_ok(weft_store_range(*state, "/lease/a", false, 0, &list));
  assert_int_equal(list->kvs[0]->lease, lease);
  weft_store_list_free(list);
  assert_ok(weft_store_lease_keepalive(*state, lease, &ttl));
  assert_int_equal(ttl, granted);
  assert_ok(weft_store_lease_ttl(*state, lease, &ttl));
  assert_uint_in_range(ttl, 1, granted);
  assert_ok(weft_store_lease_revoke(*state, lease));
  assert_ok(weft_store_range(*state, "/lease/", true, 0, &list));
  assert_int_equal(list->count, 0);
  weft_store_list_free(list);
}

static void an_unknown_lease_is_not_found(void **state) {
  int64_t ttl;
  assert_fails(WEFT_ERR_NOT_FOUND, weft_store_lease_keepalive(*state, 123456789, &ttl));
  assert_fails(WEFT_ERR_NOT_FOUND, weft_store_lease_ttl(*state, 123456789, &ttl));
  assert_fails(WEFT_ERR_NOT_FOUND, weft_store_lease_revoke(*state, 123456789));
  assert_fails(WEFT_ERR_NOT_FOUND, weft_store_put(*state, "/no/lease", "1", 1, 123456789, NULL));
}

static void a_lease_that_is_not_renewed_takes_its_keys_along(void **state) {
  struct support_events events;
  weft_store_watch_t *watch;
  int64_t lease, ttl;
  support_events_init(&events);
  assert_ok(weft_store_watch_open(*state, "/expire/", 0, support_events_take, &events, &watch));
  assert_ok(weft_store_lease_grant(*state, 1, &lease, NULL));
  suite_put(*state, "/expire/a", "1", lease);
  suite_put(*state, "/expire/b", "1", lease);
  suite_put(*state, "/expire/kept", "1", 0);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_DELETE, 2));
  assert_string_equal(support_events_get(&events, WEFT_STORE_EVENT_DELETE, 0).key, "/expire/a");
  assert_string_equal(support_events_get(&events, WEFT_STORE_EVENT_DELETE, 1).key, "/expire/b");
  assert_int_equal(support_events_get(&events, WEFT_STORE_EVENT_DELETE, 0).revision,
                   support_events_get(&events, WEFT_STORE_EVENT_DELETE, 1).revision);
  assert_fails(WEFT_ERR_NOT_FOUND, weft_store_lease_keepalive(*state, lease, &ttl));
  weft_store_watch_close(watch);
  support_events_free(&events);
}

static void a_put_without_the_lease_frees_the_key_of_it(void **state) {
  struct weft_store_list *list;
  int64_t lease;
  assert_ok(weft_store_lease_grant(*state, 60, &lease, NULL));
  suite_put(*state, "/free", "1", lease);
  suite_put(*state, "/free", "2", 0);
  assert_ok(weft_store_lease_revoke(*state, lease));
  assert_ok(weft_store_range(*state, "/free", false, 0, &list));
  assert_int_equal(list->count, 1);
  assert_int_equal(list->kvs[0]->lease, 0);
  weft_store_list_free(list);
}

int suite_run_lease(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_lease_is_granted_renewed_and_revoked),
      TEST(an_unknown_lease_is_not_found),
      TEST(a_lease_that_is_not_renewed_takes_its_keys_along),
      TEST(a_put_without_the_lease_frees_the_key_of_it),
  };
  return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
