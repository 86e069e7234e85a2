// Groups on a real etcd that is unreachable for a while, or that restarts empty.
#include "base/time/clock.h"
#include "cmocka_all.h"
#include "group/support/members.h"
#include "support/etcd.h"
#include "support/relay.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 4, TTL_S = 4 };

static struct support_etcd etcd;
static struct support_relay *relay;
static weft_store_t *stores[MEMBERS];
static struct test_member members[MEMBERS];

static void open_store(weft_store_t **store, uint16_t port) {
  char url[64];
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
  options.endpoints = url;
  options.request_timeout_ms = 2000;
  options.connect_timeout_ms = 1000;
  assert_int_equal(weft_store_open(store, &options), 0);
}

// Every member reaches etcd through the relay.
static int set_up(void **state) {
  (void)state;
  etcd = (struct support_etcd){0};
  support_etcd_require();
  if (!support_etcd_start(&etcd))
    return -1;
  relay = support_relay_start(etcd.port);
  if (!relay)
    return -1;
  for (int i = 0; i < MEMBERS; i++)
    open_store(&stores[i], support_relay_port(relay));
  members_found(members, stores, MEMBERS, TTL_S);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < MEMBERS; i++) {
    member_close(&members[i]);
    weft_store_close(stores[i]);
  }
  support_relay_stop(relay);
  support_etcd_stop(&etcd);
  return 0;
}

static void expect_all_in(uint64_t epoch, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    assert_int_equal(group_wait_view(members[i].group, epoch, member_deadline()), 0);
    assert_int_equal(group_wait_view(members[i].group, 0, member_deadline()), 0);
    assert_int_equal(members[i].counts[GROUP_EVENT_FENCED], 0);
  }
  members_check_views(members, MEMBERS, false);
}

static void reach(bool reachable) {
  support_relay_refuse(relay, !reachable);
  if (!reachable)
    support_relay_cut(relay);
}

static void wait_notified(enum group_event_kind kind) {
  for (int i = 0; i < MEMBERS; i++)
    member_await_events(&members[i], kind, 1);
}

static void short_outage_delays_a_change(void **state) {
  (void)state;
  int32_t last = MEMBERS - 1;
  reach(false);
  wait_notified(GROUP_EVENT_STORE_LOST);
  assert_int_equal(group_remove(members[0].group, &last, 1, clock_deadline_ms(20)), WEFT_ERR_UNREACHABLE);
  assert_non_null(strstr(weft_last_error(), "without ranks 3"));
  assert_non_null(strstr(weft_last_error(), "store unreachable: "));
  reach(true);
  wait_notified(GROUP_EVENT_STORE_BACK);
  assert_int_equal(group_remove(members[0].group, &last, 1, member_deadline()), 0);
  expect_all_in(2, MEMBERS - 1);
}

// Seen from beside the relay: the store has forgotten everybody.
static void wait_until_forgotten(void) {
  weft_store_t *direct;
  open_store(&direct, etcd.port);
  uint64_t deadline = member_deadline();
  size_t left = 1;
  while (left > 0 && !clock_passed(deadline)) {
    struct weft_store_list *list;
    int err = weft_store_range(direct, "/weft/test/", true, 0, &list);
    if (err == WEFT_ERR_TIMEOUT)
      continue; // etcd reads when it has written, which on a busy machine is not always within a request's limit
    if (err)
      fail_msg("reading beside the relay: %s", weft_last_error());
    left = list->count;
    weft_store_list_free(list);
  }
  weft_store_close(direct);
  if (left > 0)
    fail_msg("the store still has %zu keys; leases last %d s", left, TTL_S);
}

static void outage_longer_than_every_lease_puts_nobody_out(void **state) {
  (void)state;
  int32_t last = MEMBERS - 1;
  reach(false);
  wait_notified(GROUP_EVENT_STORE_LOST);
  wait_until_forgotten();
  reach(true);
  wait_notified(GROUP_EVENT_STORE_BACK);
  const int32_t all[] = {0, 1, 2, 3};
  for (int i = 0; i < MEMBERS; i++)
    assert_int_equal(group_wait_ranks(members[i].group, all, MEMBERS, member_deadline()), 0);
  expect_all_in(1, MEMBERS);
  assert_int_equal(group_remove(members[last].group, &last, 1, member_deadline()), 0);
  expect_all_in(2, MEMBERS - 1);
}

static void group_goes_on_after_etcd_restarted_empty(void **state) {
  (void)state;
  int32_t last = MEMBERS - 1;
  assert_int_equal(group_remove(members[last].group, &last, 1, member_deadline()), 0);
  expect_all_in(2, MEMBERS - 1);
  assert_true(support_etcd_restart(&etcd, false));
  int32_t leaver = MEMBERS - 2;
  assert_int_equal(group_remove(members[0].group, &leaver, 1, member_deadline()), 0);
  expect_all_in(3, MEMBERS - 2);
}

// The network swallows everything, and the store's own limit of a request is a minute.
static void closing_on_a_silent_store_does_not_wait_for_its_limit(void **state) {
  (void)state;
  struct test_member member;
  weft_store_t *patient;
  char url[64];
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  snprintf(url, sizeof url, "http://127.0.0.1:%u", support_relay_port(relay));
  options.endpoints = url;
  options.request_timeout_ms = MEMBER_DEADLINE_MS;
  assert_int_equal(weft_store_open(&patient, &options), 0);
  member_open(&member, patient, MEMBERS, 0, TTL_S);
  support_relay_hold(relay, true);
  uint64_t begin = clock_ns();
  member_close(&member);
  assert_true(clock_ns() - begin < MEMBER_DEADLINE_MS / 2 * UINT64_C(1000000));
  support_relay_hold(relay, false);
  weft_store_close(patient);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(short_outage_delays_a_change, set_up, tear_down),
      cmocka_unit_test_setup_teardown(outage_longer_than_every_lease_puts_nobody_out, set_up, tear_down),
      cmocka_unit_test_setup_teardown(closing_on_a_silent_store_does_not_wait_for_its_limit, set_up, tear_down),
      cmocka_unit_test_setup_teardown(group_goes_on_after_etcd_restarted_empty, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
