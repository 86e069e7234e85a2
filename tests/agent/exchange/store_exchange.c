// Metadata through the store: one suite for the store inside the process, the embedded server and etcd.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/exchange/support/store_kind.h"
#include "agent/metadata/description.h"
#include "agent/support/crowd.h"
#include "base/time/clock.h"
#include "cmocka_all.h"
#include "support/relay.h"
#include "support/wait.h"

enum { TTL_S = 5 }; // a machine that is busy may not renew one of two seconds

static uint32_t lease_ttl_s = TTL_S;

static const char prefix[] = "/weft/test/";

static void open_member(struct crowd_member *member, const char *name, weft_store_t *store) {
  struct weft_agent_options options = crowd_options(name);
  options.store = store;
  options.prefix = prefix;
  options.lease_ttl_s = lease_ttl_s;
  crowd_open(member, &options);
}

static void publish(struct crowd_member *member) {
  int err = weft_agent_publish(member->agent, SUPPORT_DEADLINE_MS);
  if (err)
    fail_msg("publish: %s: %s", weft_err_name(err), weft_last_error());
}

static weft_peer_t fetch(struct crowd_member *member, const char *name) {
  weft_peer_t peer = 0;
  int err = weft_agent_fetch(member->agent, name, SUPPORT_DEADLINE_MS, &peer);
  if (err)
    fail_msg("fetch: %s: %s", weft_err_name(err), weft_last_error());
  return peer;
}

static weft_region_t allocate(struct crowd_member *member) {
  weft_region_t region;
  void *address;
  assert_int_equal(weft_agent_allocate(member->agent, WEFT_MEMORY_HOST, 4096, 0, &region, &address), 0);
  return region;
}

static uint32_t count_regions(struct crowd_member *member, weft_peer_t peer) {
  struct weft_region_info info[8] = {{.size = sizeof *info}};
  uint32_t count = 8;
  assert_int_equal(weft_agent_regions(member->agent, peer, info, &count), 0);
  return count;
}

static void test_there_and_updates(void **state) {
  (void)state;
  static struct crowd_member a, b;
  weft_store_t *of_a = store_kind_open(), *of_b = store_kind_open();
  open_member(&a, "a", of_a);
  open_member(&b, "b", of_b);
  allocate(&a);
  publish(&a);
  publish(&b);
  publish(&b); // again: nothing new
  weft_peer_t peer = fetch(&b, "a"), back = fetch(&a, "b"), self = 0;
  assert_int_equal(count_regions(&b, peer), 1);
  assert_int_equal(weft_agent_check(a.agent, back), 0);
  assert_true(fetch(&b, "a") == peer);
  assert_int_equal(weft_agent_fetch(a.agent, "a", 1000, &self), 0);
  assert_true(self == WEFT_PEER_SELF);
  weft_region_t region = allocate(&a);
  crowd_await(&b, UPDATED, "a", 1);
  assert_int_equal(count_regions(&b, peer), 2);
  assert_int_equal(weft_agent_deregister(a.agent, region), 0);
  crowd_await(&b, UPDATED, "a", 2);
  assert_int_equal(count_regions(&b, peer), 1);
  crowd_close(&a);
  crowd_await(&b, LEFT, "a", 1);
  assert_int_equal(crowd_count(&b, LOST, NULL), 0);
  struct weft_store_list list;
  assert_int_equal(weft_store_range(of_b, prefix, true, 0, &list), 0);
  assert_int_equal(list.count, 1); // its own key alone is left
  weft_store_list_free(&list);
  crowd_close(&b);
  store_kind_close(of_a);
  store_kind_close(of_b);
}

static void open_holder(struct crowd_member *member, const char *name, weft_store_t *store) {
  struct weft_agent_options options = crowd_options(name);
  options.store = store;
  options.prefix = prefix;
  options.lease_ttl_s = lease_ttl_s;
  options.token = "a token of the holders, not of who writes";
  crowd_open(member, &options);
}

static void put(weft_store_t *store, const char *name, weft_agent_t *whose) {
  char key[128];
  size_t size;
  void *blob = crowd_blob(whose, &size);
  snprintf(key, sizeof key, "%sagents/%s", prefix, name);
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
  open_member(&impostor, "friend", store);
  publish(&friend);
  peer = fetch(&holder, "friend");
  put(store, "other", friend.agent);
  assert_int_equal(weft_agent_fetch(holder.agent, "other", SUPPORT_DEADLINE_MS, &nobody), WEFT_ERR_PROTOCOL);
  put(store, "friend", impostor.agent);
  assert_int_equal(weft_agent_fetch(holder.agent, "friend", SUPPORT_DEADLINE_MS, &nobody), WEFT_ERR_AUTH);
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
  publish(member);
  return NULL;
}

static void test_fetch_waits(void **state) {
  (void)state;
  static struct crowd_member early, late;
  weft_store_t *store = store_kind_open();
  open_member(&early, "early", store);
  open_member(&late, "late", store);
  weft_peer_t peer = 5;
  assert_int_equal(weft_agent_fetch(early.agent, "late", 100, &peer), WEFT_ERR_TIMEOUT);
  assert_non_null(strstr(weft_last_error(), "late"));
  assert_true(peer == 5);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, publish_later, &late), 0);
  peer = fetch(&early, "late");
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
  fetching->err = weft_agent_fetch(fetching->agent, "nobody", fetching->timeout_ms, &fetching->peer);
  return NULL;
}

// Two threads want the same agent: each gets its own answer, though the other gives up first.
static void test_two_fetch_one(void **state) {
  (void)state;
  static struct crowd_member early;
  weft_store_t *store = store_kind_open();
  open_member(&early, "early", store);
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
  // What is wrong with its metadata is told to all who ask, and not only to the first.
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
  assert_int_equal(weft_agent_publish(bare.agent, 100), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_fetch(bare.agent, "other", 100, &peer), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_fetch(bare.agent, "", 100, &peer), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_fetch(bare.agent, name, 100, &peer), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_fetch(bare.agent, NULL, 100, &peer), WEFT_ERR_INVALID);
  crowd_close(&bare);
}

static void test_name_taken(void **state) {
  (void)state;
  static struct crowd_member first, second;
  weft_store_t *store = store_kind_open();
  open_member(&first, "twin", store);
  open_member(&second, "twin", store);
  publish(&first);
  assert_int_equal(weft_agent_publish(second.agent, SUPPORT_DEADLINE_MS), WEFT_ERR_EXISTS); // it is renewed
  assert_non_null(strstr(weft_last_error(), "twin"));
  crowd_close(&first);
  publish(&second);
  crowd_close(&second);
  store_kind_close(store);
}

// --- ghosts: keys of agents that are none ---

enum { BODIES = 4 };

struct ghost {
  struct crowd_member bodies[BODIES]; // whose transports answer for its last incarnations
  uint32_t count;
  const char *name;
  weft_store_t *store;
};

static void ghost_open(struct ghost *ghost, weft_store_t *store) {
  ghost->count = 0;
  ghost->name = "ghost";
  ghost->store = store;
}

static void ghost_close(struct ghost *ghost) {
  for (uint32_t i = 0; i < BODIES && i < ghost->count; i++)
    crowd_close(&ghost->bodies[i]);
}

// What the newest body tells of itself, as of another host.
static struct agent_description *describe_ghost(weft_agent_t *body) {
  struct agent_description *description;
  size_t size;
  void *blob = crowd_blob(body, &size);
  assert_int_equal(agent_blob_read(blob, size, NULL, &description), 0);
  free(blob);
  snprintf(description->host, sizeof description->host, "elsewhere");
  description->heartbeat_ms = 0;
  return description;
}

// Puts the ghost's key, as a new incarnation.
static void ghost_appear(struct ghost *ghost, int64_t lease) {
  struct crowd_member *body = &ghost->bodies[ghost->count % BODIES];
  struct weft_agent_options options = crowd_options(ghost->name);
  char blob[8192];
  size_t size = sizeof blob;
  if (ghost->count >= BODIES)
    crowd_close(body);
  crowd_open(body, &options);
  ghost->count++;
  struct agent_description *description = describe_ghost(body->agent);
  assert_int_equal(agent_blob_write(description, NULL, blob, &size), 0);
  free(description);
  assert_int_equal(weft_store_put(ghost->store, "/weft/test/agents/ghost", blob, size, lease, NULL), 0);
}

static void ghost_vanish(struct ghost *ghost) {
  assert_int_equal(weft_store_delete(ghost->store, "/weft/test/agents/ghost", false, NULL), 0);
}

static void test_lease_runs_out(void **state) {
  (void)state;
  static struct crowd_member member;
  static struct ghost ghost;
  weft_store_t *store = store_kind_open();
  open_member(&member, "watcher", store);
  ghost_open(&ghost, store);
  int64_t lease;
  assert_int_equal(weft_store_lease_grant(store, TTL_S, &lease, NULL), 0);
  ghost_appear(&ghost, lease); // and nobody renews it
  weft_peer_t peer = fetch(&member, "ghost");
  struct crowd_event event = crowd_await(&member, LEFT, "ghost", 1);
  assert_non_null(strstr(event.detail, "key has gone"));
  assert_int_equal(weft_agent_check(member.agent, peer), WEFT_ERR_PEER_LOST);
  ghost_appear(&ghost, 0); // the name is still watched: the next incarnation is loaded
  crowd_await(&member, LOADED, "ghost", 2);
  ghost_appear(&ghost, 0); // and takes the place of the one before
  crowd_await(&member, LOADED, "ghost", 3);
  assert_int_equal(crowd_count(&member, LEFT, "ghost"), 2);
  ghost_vanish(&ghost);
  crowd_await(&member, LEFT, "ghost", 3);
  ghost_close(&ghost);
  crowd_close(&member);
  store_kind_close(store);
}

struct flicker {
  struct ghost *ghost;
  _Atomic bool go, gone;
};

static void *vanish_soon(void *arg) {
  struct flicker *flicker = arg;
  while (!flicker->go)
    continue;
  ghost_vanish(flicker->ghost);
  return NULL;
}

// A key that goes while it is being fetched, in every phase of that: the deletion is never missed.
static void test_deletions(void **state) {
  (void)state;
  static struct ghost ghost;
  weft_store_t *store = store_kind_open(), *other = store_kind_open();
  ghost_open(&ghost, other);
  for (int i = 0; i < 20; i++) {
    static struct crowd_member member; // a new one each time, whose watch is opened anew
    char name[32];
    snprintf(name, sizeof name, "fetcher-%d", i);
    open_member(&member, name, store);
    struct flicker flicker = {.ghost = &ghost};
    pthread_t thread;
    ghost_appear(&ghost, 0);
    assert_int_equal(pthread_create(&thread, NULL, vanish_soon, &flicker), 0);
    flicker.go = true;
    for (volatile int spin = 0; spin < i * 20000; spin++)
      continue;
    weft_peer_t peer = 0;
    int err = weft_agent_fetch(member.agent, "ghost", 100, &peer);
    pthread_join(thread, NULL);
    if (err == 0)
      crowd_await(&member, LEFT, "ghost", 1);
    else
      assert_int_equal(err, WEFT_ERR_TIMEOUT);
    crowd_close(&member);
  }
  ghost_close(&ghost);
  store_kind_close(store);
  store_kind_close(other);
}

static void test_foreign_values(void **state) {
  (void)state;
  static struct crowd_member member, ghostly;
  static struct ghost ghost;
  weft_store_t *store = store_kind_open();
  open_member(&member, "watcher", store);
  open_member(&ghostly, "ghost", store);
  ghost_open(&ghost, store);
  weft_peer_t peer;
  assert_int_equal(weft_store_put(store, "/weft/test/agents/ghost", "what?", 5, 0, NULL), 0);
  assert_int_equal(weft_agent_fetch(member.agent, "ghost", SUPPORT_DEADLINE_MS, &peer), WEFT_ERR_PROTOCOL);
  assert_int_equal(weft_agent_publish(ghostly.agent, SUPPORT_DEADLINE_MS), WEFT_ERR_EXISTS);
  ghost.name = "impostor";
  ghost_appear(&ghost, 0);
  assert_int_equal(weft_agent_fetch(member.agent, "ghost", SUPPORT_DEADLINE_MS, &peer), WEFT_ERR_PROTOCOL);
  assert_non_null(strstr(weft_last_error(), "impostor"));
  assert_int_equal(crowd_count(&member, LOADED, NULL), 0);
  ghost.name = "ghost";
  ghost_appear(&ghost, 0);
  fetch(&member, "ghost"); // it came right
  ghost_vanish(&ghost);
  crowd_await(&member, LEFT, "ghost", 1);
  ghost_close(&ghost);
  crowd_close(&ghostly);
  crowd_close(&member);
  store_kind_close(store);
}

// Two agents on one store, of which the second has fetched the first.
static struct couple {
  weft_store_t *store;
  struct crowd_member a, b;
  weft_peer_t peer;
} couple;

static void couple_open(void) {
  couple.store = store_kind_open();
  open_member(&couple.a, "a", couple.store);
  open_member(&couple.b, "b", couple.store);
  publish(&couple.a);
  couple.peer = fetch(&couple.b, "a");
}

static void couple_close(void) {
  crowd_close(&couple.a);
  crowd_close(&couple.b);
  store_kind_close(couple.store);
}

static void test_invalidated(void **state) {
  (void)state;
  couple_open();
  assert_int_equal(weft_agent_invalidate(couple.b.agent, couple.peer), 0);
  crowd_await(&couple.b, LEFT, "a", 1);
  allocate(&couple.a); // its key changes: that does not bring it back
  static struct crowd_member witness;
  open_member(&witness, "witness", couple.store);
  weft_peer_t seen = fetch(&witness, "a");
  while (count_regions(&witness, seen) == 0)
    crowd_await(&witness, UPDATED, "a", 1);
  assert_int_equal(weft_agent_check(couple.b.agent, couple.peer), WEFT_ERR_PEER_LOST);
  assert_int_equal(crowd_count(&couple.b, LOADED, "a"), 1);
  weft_peer_t again = fetch(&couple.b, "a"); // asked for, it comes
  assert_true(again != couple.peer);
  assert_int_equal(count_regions(&couple.b, again), 1);
  crowd_close(&witness);
  couple_close();
}

// What is asked for while the keeper is at a value that nobody had asked for is not answered by that one.
static void test_invalidated_and_fetched(void **state) {
  (void)state;
  enum { ROUNDS = 30 };
  couple_open();
  for (int i = 0; i < ROUNDS; i++) {
    assert_int_equal(weft_agent_invalidate(couple.b.agent, couple.peer), 0);
    allocate(&couple.a); // its key changes: b hears of it now, or soon
    weft_peer_t again = fetch(&couple.b, "a");
    assert_true(again != couple.peer);
    assert_int_equal(weft_agent_check(couple.b.agent, again), 0);
    couple.peer = again;
  }
  couple_close();
}

// --- deaths and outages ---

static int be_published(void *arg, int in, int out) {
  static struct crowd_member member;
  char byte;
  weft_store_t *store = NULL;
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = arg;
  if (weft_store_open(&store, &options) != 0)
    return 1;
  open_member(&member, "phoenix", store);
  publish(&member);
  crowd_write(out, "", 1);
  while (read(in, &byte, 1) > 0)
    continue;
  crowd_close(&member);
  weft_store_close(store);
  return 0;
}

// Who was killed leaves its key behind; its successor on the same host need not wait for the lease.
static void test_restarted(void **state) {
  (void)state;
  const char *url = store_kind_url();
  if (!url)
    return;
  struct crowd_process process;
  char byte;
  lease_ttl_s = 300; // longer than anybody waits here
  crowd_start(&process, be_published, (void *)(uintptr_t)url);
  crowd_read(process.from, &byte, 1);
  static struct crowd_member watcher, successor;
  weft_store_t *store = store_kind_open();
  open_member(&watcher, "watcher", store);
  weft_peer_t old = fetch(&watcher, "phoenix");
  crowd_kill(&process);
  open_member(&successor, "phoenix", store);
  publish(&successor);
  crowd_await(&watcher, LOADED, "phoenix", 2);
  assert_int_equal(weft_agent_check(watcher.agent, old), WEFT_ERR_PEER_LOST);
  weft_peer_t young = fetch(&watcher, "phoenix");
  assert_true(young != old);
  assert_int_equal(weft_agent_check(watcher.agent, young), 0);
  crowd_close(&successor);
  crowd_close(&watcher);
  lease_ttl_s = TTL_S;
  store_kind_close(store);
}

static bool has_key(void *arg) {
  struct weft_store_list list;
  bool has = weft_store_range(arg, "/weft/test/agents/a", false, 0, &list) == 0 && list.count == 1;
  if (has)
    weft_store_list_free(&list);
  return has;
}

static void outage(bool keep) {
  static struct crowd_member a, b;
  weft_store_t *of_a = store_kind_open(), *of_b = store_kind_open(), *probe = store_kind_open();
  open_member(&a, "a", of_a);
  open_member(&b, "b", of_b);
  publish(&a);
  publish(&b);
  weft_peer_t peer = fetch(&b, "a"), back = fetch(&a, "b");
  store_kind_stop();
  allocate(&a); // waits
  static struct crowd_member c;
  weft_store_t *of_c = store_kind_open();
  open_member(&c, "c", of_c);
  int err = weft_agent_publish(c.agent, 300);
  assert_true(err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_TIMEOUT);
  uint64_t until = clock_deadline_ms((TTL_S + 1) * 1000); // leases would have run out by then
  while (!clock_passed(until)) {
    assert_int_equal(weft_agent_check(b.agent, peer), 0);
    assert_int_equal(weft_agent_check(a.agent, back), 0);
    poll(NULL, 0, 20);
  }
  store_kind_start(keep);
  assert_true(support_wait(has_key, probe, SUPPORT_DEADLINE_MS));
  crowd_await(&b, UPDATED, "a", 1);
  assert_int_equal(count_regions(&b, peer), 1);
  assert_true(fetch(&b, "a") == peer);
  publish(&c);
  fetch(&a, "c");
  weft_region_t region = allocate(&a); // and changes come through as before
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
static void test_late_return(void **state) {
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
  options.prefix = prefix;
  options.lease_ttl_s = 30; // no matter how slow this machine is
  crowd_open(&late, &options);
  options.name = "watcher";
  options.store = direct;
  crowd_open(&watcher, &options);
  publish(&late);
  weft_peer_t peer = fetch(&watcher, "a");
  support_relay_refuse(relay, true);
  support_relay_cut(relay);
  store_kind_stop();
  store_kind_start(false);
  publish(&watcher); // it has found the store
  uint64_t until = clock_deadline_ms(2000);
  while (!clock_passed(until)) {
    assert_int_equal(weft_agent_check(watcher.agent, peer), 0);
    poll(NULL, 0, 20);
  }
  assert_false(has_key(direct));
  support_relay_refuse(relay, false);
  assert_true(support_wait(has_key, direct, SUPPORT_DEADLINE_MS));
  allocate(&late);
  crowd_await(&watcher, UPDATED, "a", 1);
  assert_int_equal(crowd_count(&watcher, LEFT, NULL) + crowd_count(&watcher, LOST, NULL), 0);
  crowd_close(&watcher);
  crowd_close(&late);
  weft_store_close(through);
  support_relay_stop(relay);
  store_kind_close(direct);
}

static void test_outage_empty(void **state) {
  (void)state;
  if (store_kind_url())
    outage(false);
}

static void test_outage_kept(void **state) {
  (void)state;
  if (store_kind_url() && store_kind_keeps())
    outage(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_restarted), // forks: before anything has threads
      cmocka_unit_test(test_there_and_updates), cmocka_unit_test(test_fetch_waits),
      cmocka_unit_test(test_two_fetch_one),     cmocka_unit_test(test_arguments),
      cmocka_unit_test(test_name_taken),        cmocka_unit_test(test_lease_runs_out),
      cmocka_unit_test(test_deletions),         cmocka_unit_test(test_foreign_values),
      cmocka_unit_test(test_invalidated),       cmocka_unit_test(test_invalidated_and_fetched),
      cmocka_unit_test(test_outage_empty),      cmocka_unit_test(test_outage_kept),
      cmocka_unit_test(test_late_return),       cmocka_unit_test(test_writer_without_token),
  };
  if (!store_kind_begin())
    return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  store_kind_end();
  return failed;
}
