// The store is stopped and comes back, with its keys or empty, while agents run.
#include <poll.h>
#include <stdio.h>

#include "agent/exchange/support/store_agent.h"
#include "agent/exchange/support/store_kind.h"
#include "agent/exchange/support/store_suite.h"
#include "base/time/clock.h"
#include "cmocka_all.h"
#include "support/relay.h"
#include "support/wait.h"

static bool has_key(void *arg) {
  struct weft_store_list *list;
  if (weft_store_range(arg, "/weft/test/agents/a", false, 0, &list) != 0)
    return false;
  bool has = list->count == 1;
  weft_store_list_free(list);
  return has;
}

static void outage(bool keep) {
  static struct crowd_member a, b;
  weft_store_t *of_a = store_kind_open(), *of_b = store_kind_open(), *probe = store_kind_open();
  store_agent_open(&a, "a", of_a);
  store_agent_open(&b, "b", of_b);
  store_agent_publish(&a);
  store_agent_publish(&b);
  weft_peer_t peer = store_agent_fetch(&b, "a"), back = store_agent_fetch(&a, "b");
  store_kind_stop();
  store_agent_allocate(&a); // waits
  static struct crowd_member c;
  weft_store_t *of_c = store_kind_open();
  store_agent_open(&c, "c", of_c);
  int err = weft_agent_publish(c.agent, NULL, NULL, 300);
  assert_true(err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_TIMEOUT);
  uint64_t until = clock_deadline_ms((STORE_AGENT_TTL_S + 1) * 1000); // leases would have run out by then
  while (!clock_passed(until)) {
    assert_int_equal(weft_agent_check(b.agent, peer), 0);
    assert_int_equal(weft_agent_check(a.agent, back), 0);
    poll(NULL, 0, 20);
  }
  store_kind_start(keep);
  assert_true(support_wait(has_key, probe, SUPPORT_DEADLINE_MS));
  crowd_await(&b, UPDATED, "a", 1);
  assert_int_equal(store_agent_count_regions(&b, peer), 1);
  assert_true(store_agent_fetch(&b, "a") == peer);
  store_agent_publish(&c);
  store_agent_fetch(&a, "c");
  weft_region_t region = store_agent_allocate(&a); // and changes come through as before
  crowd_await(&b, UPDATED, "a", 2);
  assert_int_equal(weft_agent_deregister(a.agent, region), 0);
  crowd_await(&b, UPDATED, "a", 3);
  assert_int_equal(crowd_count(&b, LEFT, NULL) + crowd_count(&b, LOST, NULL), 0);
  assert_int_equal(crowd_count(&a, LEFT, NULL) + crowd_count(&a, LOST, NULL), 0);
  crowd_close(&a);
  crowd_await(&b, LEFT, "a", 1);
  crowd_close(&b);
  crowd_close(&c);
  store_kind_close(of_a);
  store_kind_close(of_b);
  store_kind_close(of_c);
  store_kind_close(probe);
}

// The store is back, empty, and one agent does not find it for a while: the other waits for its key.
void store_outage_late_return(void **state) {
  (void)state;
  if (!store_kind_url() || store_kind_keeps()) // one kind that comes back empty suffices
    return;
  static struct crowd_member late, watcher;
  struct support_relay *relay = support_relay_start(store_kind_port());
  assert_non_null(relay);
  char url[64];
  snprintf(url, sizeof url, "http://127.0.0.1:%u", support_relay_port(relay));
  struct weft_store_options store = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *through = NULL, *direct = store_kind_open();
  store.endpoints = url;
  store.connect_timeout_ms = 500;
  assert_int_equal(weft_store_open(&through, &store), 0);
  struct weft_agent_options options = crowd_options("a");
  options.store = through;
  options.prefix = store_agent_prefix;
  options.lease_ttl_s = 30; // no matter how slow this machine is
  crowd_open(&late, &options);
  options.name = "watcher";
  options.store = direct;
  crowd_open(&watcher, &options);
  store_agent_publish(&late);
  weft_peer_t peer = store_agent_fetch(&watcher, "a");
  support_relay_refuse(relay, true);
  support_relay_cut(relay);
  store_kind_stop();
  store_kind_start(false);
  store_agent_publish(&watcher); // it has found the store
  uint64_t until = clock_deadline_ms(2000);
  while (!clock_passed(until)) {
    assert_int_equal(weft_agent_check(watcher.agent, peer), 0);
    poll(NULL, 0, 20);
  }
  assert_false(has_key(direct));
  support_relay_refuse(relay, false);
  assert_true(support_wait(has_key, direct, SUPPORT_DEADLINE_MS));
  store_agent_allocate(&late);
  crowd_await(&watcher, UPDATED, "a", 1);
  assert_int_equal(crowd_count(&watcher, LEFT, NULL) + crowd_count(&watcher, LOST, NULL), 0);
  crowd_close(&watcher);
  crowd_close(&late);
  weft_store_close(through);
  support_relay_stop(relay);
  store_kind_close(direct);
}

void store_outage_empty(void **state) {
  (void)state;
  if (store_kind_url())
    outage(false);
}

void store_outage_kept(void **state) {
  (void)state;
  if (store_kind_url() && store_kind_keeps())
    outage(true);
}
