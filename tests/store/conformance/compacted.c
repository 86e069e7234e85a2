// A watch at revisions that etcd has compacted.
#include "conformance/suite.h"
#include "support/etcd.h"
#include "support/events.h"
#include "support/relay.h"
#include <inttypes.h>
#include <stdio.h>

static struct support_etcd etcd;

static weft_store_t *open_port(uint16_t port) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  char url[64];
  snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
  options.endpoints = url;
  options.request_timeout_ms = 30000;
  assert_ok(weft_store_open(&store, &options));
  return store;
}

static void compact(int64_t revision) {
  char body[64];
  snprintf(body, sizeof body, "{\"revision\":\"%" PRId64 "\"}", revision);
  assert_true(support_etcd_post(etcd.url, "/v3/kv/compaction", body));
}

static void a_watch_from_a_compacted_revision_is_reset(void **state) {
  (void)state;
  struct support_events events;
  weft_store_watch_t *watch;
  weft_store_t *store = open_port(etcd.port);
  support_events_init(&events);
  int64_t first = suite_put(store, "/c/a", "1", 0);
  suite_put(store, "/c/a", "2", 0);
  compact(suite_put(store, "/c/a", "3", 0));
  assert_ok(weft_store_watch_open(store, "/c/", first, support_events_take, &events, &watch));
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_RESET, 1));
  suite_put(store, "/c/a", "4", 0);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, 1));
  assert_string_equal(support_events_get(&events, WEFT_STORE_EVENT_PUT, 0).value, "4");
  weft_store_watch_close(watch);
  weft_store_close(store);
  support_events_free(&events);
}

static void a_compaction_during_a_cut_is_said(void **state) {
  (void)state;
  struct support_events events;
  weft_store_watch_t *watch;
  struct support_relay *relay = support_relay_start(etcd.port);
  assert_non_null(relay);
  weft_store_t *direct = open_port(etcd.port);
  weft_store_t *relayed = open_port(support_relay_port(relay));
  support_events_init(&events);
  assert_ok(weft_store_watch_open(relayed, "/d/", 0, support_events_take, &events, &watch));
  support_relay_refuse(relay, true);
  support_relay_cut(relay);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_LOST, 1));
  suite_put(direct, "/d/a", "missed", 0);
  compact(suite_put(direct, "/d/a", "missed too", 0));
  support_relay_refuse(relay, false);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_RESET, 1));
  suite_put(direct, "/d/a", "seen", 0);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, 1));
  assert_string_equal(support_events_get(&events, WEFT_STORE_EVENT_PUT, 0).value, "seen");
  weft_store_watch_close(watch);
  weft_store_close(relayed);
  weft_store_close(direct);
  support_relay_stop(relay);
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_LOST), 1);
  support_events_free(&events);
}

static int start(void **state) {
  (void)state;
  return support_etcd_start(&etcd) ? 0 : -1;
}

static int stop(void **state) {
  (void)state;
  support_etcd_stop(&etcd);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_watch_from_a_compacted_revision_is_reset),
      cmocka_unit_test(a_compaction_during_a_cut_is_said),
  };
  support_etcd_require();
  return cmocka_run_group_tests(tests, start, stop);
}
