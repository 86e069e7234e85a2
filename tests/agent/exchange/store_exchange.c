// Metadata through the store: one suite for the store inside the process, the embedded server and etcd. This part
// publishes and fetches, and checks who may do so. The other parts are store_removal.c, store_replacement.c and
// store_outage.c.
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exchange/support/store_agent.h"
#include "agent/exchange/support/store_kind.h"
#include "agent/exchange/support/store_suite.h"
#include "cmocka_all.h"
#include "support/wait.h"

static void test_there_and_updates(void **state) {
  (void)state;
  static struct crowd_member a, b;
  weft_store_t *of_a = store_kind_open(), *of_b = store_kind_open();
  store_agent_open(&a, "a", of_a);
  store_agent_open(&b, "b", of_b);
  store_agent_allocate(&a);
  store_agent_publish(&a);
  store_agent_publish(&b);
  store_agent_publish(&b); // again: nothing new
  weft_peer_t peer = store_agent_fetch(&b, "a"), back = store_agent_fetch(&a, "b"), self = 0;
  assert_int_equal(store_agent_count_regions(&b, peer), 1);
  assert_int_equal(weft_agent_check(a.agent, back), 0);
  assert_true(store_agent_fetch(&b, "a") == peer);
  assert_int_equal(weft_agent_fetch(a.agent, "a", NULL, 1000, &self), 0);
  assert_true(self == WEFT_PEER_SELF);
  weft_region_t region = store_agent_allocate(&a);
  crowd_await(&b, UPDATED, "a", 1);
  assert_int_equal(store_agent_count_regions(&b, peer), 2);
  assert_int_equal(weft_agent_deregister(a.agent, region), 0);
  crowd_await(&b, UPDATED, "a", 2);
  assert_int_equal(store_agent_count_regions(&b, peer), 1);
  crowd_close(&a);
  crowd_await(&b, LEFT, "a", 1);
  assert_int_equal(crowd_count(&b, LOST, NULL), 0);
  struct weft_store_list *list;
  assert_int_equal(weft_store_range(of_b, store_agent_prefix, true, 0, &list), 0);
  assert_int_equal(list->count, 1); // its own key alone is left
  weft_store_list_free(list);
  crowd_close(&b);
  store_kind_close(of_a);
  store_kind_close(of_b);
}

static void open_holder(struct crowd_member *member, const char *name, weft_store_t *store) {
  struct weft_agent_options options = crowd_options(name);
  options.store = store;
  options.prefix = store_agent_prefix;
  options.lease_ttl_s = store_agent_lease_ttl_s;
  options.token = "a token of the holders, not of who writes";
  crowd_open(member, &options);
}

static void put(weft_store_t *store, const char *name, weft_agent_t *whose) {
  char key[128];
  size_t size;
  void *blob = crowd_blob(whose, &size);
  snprintf(key, sizeof key, "%sagents/%s", store_agent_prefix, name);
  assert_int_equal(weft_store_put(store, key, blob, size, 0, NULL), 0);
  free(blob);
}

// Who may write the store, and does not have the token, puts an agent of its own under a peer's name, and a peer's
// metadata under another name: the first takes nobody's place, the second is nobody's.
static void test_writer_without_token(void **state) {
  (void)state;
  static struct crowd_member holder, friend, impostor;
  weft_store_t *store = store_kind_open();
  weft_peer_t peer, nobody = 0;
  open_holder(&holder, "holder", store);
  open_holder(&friend, "friend", store);
  store_agent_open(&impostor, "friend", store);
  store_agent_publish(&friend);
  peer = store_agent_fetch(&holder, "friend");
  put(store, "other", friend.agent);
  assert_int_equal(weft_agent_fetch(holder.agent, "other", NULL, SUPPORT_DEADLINE_MS, &nobody), WEFT_ERR_PROTOCOL);
  put(store, "friend", impostor.agent);
  assert_int_equal(weft_agent_fetch(holder.agent, "friend", NULL, SUPPORT_DEADLINE_MS, &nobody), WEFT_ERR_AUTH);
  assert_non_null(strstr(weft_last_error(), "not sealed"));
  assert_true(nobody == 0);
  assert_int_equal(weft_agent_check(holder.agent, peer), 0);
  assert_int_equal(crowd_count(&holder, LOADED, NULL), 1);
  assert_int_equal(crowd_count(&holder, LEFT, NULL), 0);
  assert_int_equal(weft_store_delete(store, "/weft/test/agents/other", false, NULL), 0);
  crowd_close(&impostor);
  crowd_close(&friend);
  crowd_close(&holder);
  store_kind_close(store);
}

static void *publish_later(void *arg) {
  struct crowd_member *member = arg;
  poll(NULL, 0, 50); // most of the time the other waits by then; it need not
  store_agent_publish(member);
  return NULL;
}

static void test_fetch_waits(void **state) {
  (void)state;
  static struct crowd_member early, late;
  weft_store_t *store = store_kind_open();
  store_agent_open(&early, "early", store);
  store_agent_open(&late, "late", store);
  weft_peer_t peer = 5;
  assert_int_equal(weft_agent_fetch(early.agent, "late", NULL, 100, &peer), WEFT_ERR_TIMEOUT);
  assert_non_null(strstr(weft_last_error(), "late"));
  assert_true(peer == 5);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, publish_later, &late), 0);
  peer = store_agent_fetch(&early, "late");
  pthread_join(thread, NULL);
  assert_int_equal(weft_agent_check(early.agent, peer), 0);
  crowd_close(&early);
  crowd_close(&late);
  store_kind_close(store);
}

struct fetching {
  weft_agent_t *agent;
  uint32_t timeout_ms;
  weft_peer_t peer;
  int err;
};

static void *fetch_nobody(void *arg) {
  struct fetching *fetching = arg;
  fetching->err = weft_agent_fetch(fetching->agent, "nobody", NULL, fetching->timeout_ms, &fetching->peer);
  return NULL;
}

// Two threads want the same agent: each gets its own answer, though the other gives up first.
static void test_two_fetch_one(void **state) {
  (void)state;
  static struct crowd_member early;
  weft_store_t *store = store_kind_open();
  store_agent_open(&early, "early", store);
  struct fetching both[2] = {{early.agent, 100, 5, 0}, {early.agent, 1000, 5, 0}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, fetch_nobody, &both[i]), 0);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(both[i].err, WEFT_ERR_TIMEOUT);
    assert_true(both[i].peer == 5);
  }
  // Every agent that asks learns what is wrong with its metadata, not only the first.
  for (int i = 0; i < 2; i++) {
    both[i].timeout_ms = SUPPORT_DEADLINE_MS;
    assert_int_equal(pthread_create(&threads[i], NULL, fetch_nobody, &both[i]), 0);
  }
  assert_int_equal(weft_store_put(store, "/weft/test/agents/nobody", "what?", 5, 0, NULL), 0);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(both[i].err, WEFT_ERR_PROTOCOL);
    assert_true(both[i].peer == 5);
  }
  assert_int_equal(weft_store_delete(store, "/weft/test/agents/nobody", false, NULL), 0);
  crowd_close(&early);
  store_kind_close(store);
}

static void test_arguments(void **state) {
  (void)state;
  static struct crowd_member bare;
  struct weft_agent_options options = crowd_options("bare");
  crowd_open(&bare, &options);
  weft_peer_t peer;
  char name[200];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  assert_int_equal(weft_agent_publish(bare.agent, NULL, NULL, 100), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_fetch(bare.agent, "other", NULL, 100, &peer), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_fetch(bare.agent, "", NULL, 100, &peer), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_fetch(bare.agent, name, NULL, 100, &peer), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_fetch(bare.agent, NULL, NULL, 100, &peer), WEFT_ERR_INVALID);
  crowd_close(&bare);
}

static void test_name_taken(void **state) {
  (void)state;
  static struct crowd_member first, second;
  weft_store_t *store = store_kind_open();
  store_agent_open(&first, "twin", store);
  store_agent_open(&second, "twin", store);
  store_agent_publish(&first);
  assert_int_equal(weft_agent_publish(second.agent, NULL, NULL, SUPPORT_DEADLINE_MS), WEFT_ERR_EXISTS); // it is renewed
  assert_non_null(strstr(weft_last_error(), "twin"));
  crowd_close(&first);
  store_agent_publish(&second);
  crowd_close(&second);
  store_kind_close(store);
}

static size_t count_keys(weft_store_t *store) {
  struct weft_store_list *list;
  assert_int_equal(weft_store_range(store, store_agent_prefix, true, 0, &list), 0);
  size_t count = list->count;
  weft_store_list_free(list);
  return count;
}

// Selections of regions under labels, beside the agent's own metadata, which has none.
static void test_labels(void **state) {
  (void)state;
  static struct crowd_member a, b;
  weft_store_t *store = store_kind_open();
  store_agent_open(&a, "a", store);
  store_agent_open(&b, "b", store);
  weft_region_t weights = store_agent_allocate(&a), cache = store_agent_allocate(&a);
  store_agent_publish(&b);
  store_agent_fetch(&a, "b"); // it is notified of regions that are removed
  struct weft_metadata_options none = WEFT_METADATA_OPTIONS_INIT, some = WEFT_METADATA_OPTIONS_INIT;
  weft_peer_t peer = 0, same = 0;
  none.flags = WEFT_METADATA_ADDRESSES;
  some.flags = 0; // partial: for who knows the agent
  some.regions = &weights;
  some.num_regions = 1;
  assert_int_equal(weft_agent_publish(a.agent, NULL, &none, SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(weft_agent_publish(a.agent, "weights", &some, SUPPORT_DEADLINE_MS), 0);
  some.regions = &cache;
  assert_int_equal(weft_agent_publish(a.agent, "cache", &some, SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(count_keys(store), 4);
  assert_int_equal(weft_agent_fetch(b.agent, "a", "weights", SUPPORT_DEADLINE_MS, &peer), WEFT_ERR_NOT_FOUND);
  peer = store_agent_fetch(&b, "a");
  assert_int_equal(store_agent_count_regions(&b, peer), 0); // an empty selection is none
  assert_int_equal(weft_agent_fetch(b.agent, "a", "weights", SUPPORT_DEADLINE_MS, &same), 0);
  assert_true(same == peer);
  assert_int_equal(store_agent_count_regions(&b, peer), 1);
  assert_int_equal(weft_agent_fetch(b.agent, "a", "cache", SUPPORT_DEADLINE_MS, &same), 0);
  assert_int_equal(store_agent_count_regions(&b, peer), 2);
  assert_int_equal(weft_agent_fetch(b.agent, "a", "nothing", 50, &same), WEFT_ERR_TIMEOUT);
  assert_non_null(strstr(weft_last_error(), "agents/a of the store "));
  assert_non_null(strstr(weft_last_error(), " under the label nothing"));
  // What went comes no more, and nobody leaves for it.
  assert_int_equal(weft_agent_unpublish(a.agent, "cache", SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(weft_agent_unpublish(a.agent, "cache", SUPPORT_DEADLINE_MS), WEFT_ERR_NOT_FOUND);
  assert_int_equal(count_keys(store), 3);
  assert_int_equal(weft_agent_deregister(a.agent, weights), 0);
  crowd_await(&b, UPDATED, "a", 3);
  assert_int_equal(store_agent_count_regions(&b, peer), 1);
  assert_int_equal(crowd_count(&b, LEFT, "a"), 0);
  // Bad ones.
  assert_int_equal(weft_agent_publish(a.agent, "weights", &some, SUPPORT_DEADLINE_MS),
                   0); // in the place of what was there
  some.regions = &weights;
  assert_int_equal(weft_agent_publish(a.agent, "gone", &some, SUPPORT_DEADLINE_MS), WEFT_ERR_NOT_FOUND);
  assert_int_equal(weft_agent_publish(a.agent, "", &none, SUPPORT_DEADLINE_MS), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_publish(a.agent, "a\x1f", &none, SUPPORT_DEADLINE_MS), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_unpublish(a.agent, NULL, SUPPORT_DEADLINE_MS), 0);
  crowd_await(&b, LEFT, "a", 1);
  crowd_close(&a);
  assert_int_equal(count_keys(store), 1); // the lease was theirs all, but for b's
  crowd_close(&b);
  store_kind_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(store_replacement_restarted), // forks: before anything has threads
      cmocka_unit_test(test_there_and_updates),
      cmocka_unit_test(test_fetch_waits),
      cmocka_unit_test(test_two_fetch_one),
      cmocka_unit_test(test_arguments),
      cmocka_unit_test(test_name_taken),
      cmocka_unit_test(test_labels),
      cmocka_unit_test(store_removal_lease_runs_out),
      cmocka_unit_test(store_removal_deletions),
      cmocka_unit_test(store_removal_foreign_values),
      cmocka_unit_test(store_removal_of_own_only),
      cmocka_unit_test(store_removal_foreign_keys),
      cmocka_unit_test(store_replacement_invalidated),
      cmocka_unit_test(store_replacement_invalidated_meanwhile),
      cmocka_unit_test(store_replacement_invalidated_and_fetched),
      cmocka_unit_test(store_outage_empty),
      cmocka_unit_test(store_outage_kept),
      cmocka_unit_test(store_outage_late_return),
      cmocka_unit_test(store_outage_silent),
      cmocka_unit_test(test_writer_without_token),
  };
  if (!store_kind_begin())
    return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  store_kind_end();
  return failed;
}
