// Peers that were invalidated or killed, and are fetched again.
#include <unistd.h>

#include "agent/exchange/support/adopting.h"
#include "agent/exchange/support/store_agent.h"
#include "agent/exchange/support/store_kind.h"
#include "agent/exchange/support/store_suite.h"
#include "cmocka_all.h"

// Two agents on one store, of which the second has fetched the first.
static struct couple {
  weft_store_t *store;
  struct crowd_member a, b;
  weft_peer_t peer;
} couple;

static void couple_open(void) {
  couple.store = store_kind_open();
  store_agent_open(&couple.a, "a", couple.store);
  store_agent_open(&couple.b, "b", couple.store);
  store_agent_publish(&couple.a);
  couple.peer = store_agent_fetch(&couple.b, "a");
}

static void couple_close(void) {
  crowd_close(&couple.a);
  crowd_close(&couple.b);
  store_kind_close(couple.store);
}

void store_replacement_invalidated(void **state) {
  (void)state;
  couple_open();
  assert_int_equal(weft_agent_invalidate(couple.b.agent, couple.peer), 0);
  crowd_await(&couple.b, LEFT, "a", 1);
  store_agent_allocate(&couple.a); // its key changes: that does not bring it back
  static struct crowd_member witness;
  store_agent_open(&witness, "witness", couple.store);
  weft_peer_t seen = store_agent_fetch(&witness, "a");
  while (store_agent_count_regions(&witness, seen) == 0)
    crowd_await(&witness, UPDATED, "a", 1);
  assert_int_equal(weft_agent_check(couple.b.agent, couple.peer), WEFT_ERR_PEER_LOST);
  assert_int_equal(crowd_count(&couple.b, LOADED, "a"), 1);
  weft_peer_t again = store_agent_fetch(&couple.b, "a"); // asked for, it comes
  assert_true(again != couple.peer);
  assert_int_equal(store_agent_count_regions(&couple.b, again), 1);
  crowd_close(&witness);
  couple_close();
}

// The peer is invalidated while a change of its key is being read: that does not bring it back either.
void store_replacement_invalidated_meanwhile(void **state) {
  (void)state;
  couple_open();
  static struct crowd_member witness;
  store_agent_open(&witness, "witness", couple.store);
  store_agent_publish(&witness);
  adopting_invalidates(couple.b.agent, couple.peer);
  store_agent_allocate(&couple.a);
  crowd_await(&couple.b, LEFT, "a", 1);
  store_agent_fetch(&couple.b, "witness"); // after this, the change has been read
  assert_int_equal(crowd_count(&couple.b, LOADED, "a"), 1);
  weft_peer_t again = store_agent_fetch(&couple.b, "a");
  assert_int_equal(store_agent_count_regions(&couple.b, again), 1);
  crowd_close(&witness);
  couple_close();
}

// What is asked for while the keeper is at a value that nobody had asked for is not answered by that one.
void store_replacement_invalidated_and_fetched(void **state) {
  (void)state;
  enum { ROUNDS = 30 };
  couple_open();
  for (int i = 0; i < ROUNDS; i++) {
    assert_int_equal(weft_agent_invalidate(couple.b.agent, couple.peer), 0);
    store_agent_allocate(&couple.a); // its key changes: b hears of it now, or soon
    weft_peer_t again = store_agent_fetch(&couple.b, "a");
    assert_true(again != couple.peer);
    assert_int_equal(weft_agent_check(couple.b.agent, again), 0);
    couple.peer = again;
  }
  couple_close();
}

static int be_published(void *arg, int in, int out) {
  static struct crowd_member member;
  char byte;
  weft_store_t *store = NULL;
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = arg;
  if (weft_store_open(&store, &options) != 0)
    return 1;
  store_agent_open(&member, "phoenix", store);
  store_agent_publish(&member);
  crowd_write(out, "", 1);
  while (read(in, &byte, 1) > 0)
    continue;
  crowd_close(&member);
  weft_store_close(store);
  return 0;
}

// A killed agent leaves its key behind; its successor on the same host need not wait for the lease.
void store_replacement_restarted(void **state) {
  (void)state;
  const char *url = store_kind_url();
  if (!url)
    return;
  struct crowd_process process;
  char byte;
  store_agent_lease_ttl_s = 300; // longer than anybody waits here
  crowd_start(&process, be_published, (void *)(uintptr_t)url);
  crowd_read(process.from, &byte, 1);
  static struct crowd_member watcher, successor;
  weft_store_t *store = store_kind_open();
  store_agent_open(&watcher, "watcher", store);
  weft_peer_t old = store_agent_fetch(&watcher, "phoenix");
  crowd_kill(&process);
  store_agent_open(&successor, "phoenix", store);
  store_agent_publish(&successor);
  crowd_await(&watcher, LOADED, "phoenix", 2);
  assert_int_equal(weft_agent_check(watcher.agent, old), WEFT_ERR_PEER_LOST);
  weft_peer_t young = store_agent_fetch(&watcher, "phoenix");
  assert_true(young != old);
  assert_int_equal(weft_agent_check(watcher.agent, young), 0);
  crowd_close(&successor);
  crowd_close(&watcher);
  store_agent_lease_ttl_s = STORE_AGENT_TTL_S;
  store_kind_close(store);
}
