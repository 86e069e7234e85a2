// Metadata whose key leaves the store: its lease expires, the key is deleted during a fetch, or its value is no
// metadata of that agent. The test puts the keys itself, under the name of an agent that does not exist.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exchange/support/store_agent.h"
#include "agent/exchange/support/store_kind.h"
#include "agent/exchange/support/store_suite.h"
#include "agent/metadata/description.h"
#include "cmocka_all.h"
#include "store/list.h"
#include "store/vtable.h"
#include "support/wait.h"

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

void store_removal_lease_runs_out(void **state) {
  (void)state;
  static struct crowd_member member;
  static struct ghost ghost;
  weft_store_t *store = store_kind_open();
  store_agent_open(&member, "watcher", store);
  ghost_open(&ghost, store);
  int64_t lease;
  assert_int_equal(weft_store_lease_grant(store, STORE_AGENT_TTL_S, &lease, NULL), 0);
  ghost_appear(&ghost, lease); // and nobody renews it
  weft_peer_t peer = store_agent_fetch(&member, "ghost");
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
void store_removal_deletions(void **state) {
  (void)state;
  static struct ghost ghost;
  weft_store_t *store = store_kind_open(), *other = store_kind_open();
  ghost_open(&ghost, other);
  for (int i = 0; i < 20; i++) {
    static struct crowd_member member; // a new one each time, whose watch is opened anew
    char name[32];
    snprintf(name, sizeof name, "fetcher-%d", i);
    store_agent_open(&member, name, store);
    struct flicker flicker = {.ghost = &ghost};
    pthread_t thread;
    ghost_appear(&ghost, 0);
    assert_int_equal(pthread_create(&thread, NULL, vanish_soon, &flicker), 0);
    flicker.go = true;
    for (volatile int spin = 0; spin < i * 20000; spin++)
      continue;
    weft_peer_t peer = 0;
    int err = weft_agent_fetch(member.agent, "ghost", NULL, 100, &peer);
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

void store_removal_foreign_values(void **state) {
  (void)state;
  static struct crowd_member member, ghostly;
  static struct ghost ghost;
  weft_store_t *store = store_kind_open();
  store_agent_open(&member, "watcher", store);
  store_agent_open(&ghostly, "ghost", store);
  ghost_open(&ghost, store);
  weft_peer_t peer;
  assert_int_equal(weft_store_put(store, "/weft/test/agents/ghost", "what?", 5, 0, NULL), 0);
  assert_int_equal(weft_agent_fetch(member.agent, "ghost", NULL, SUPPORT_DEADLINE_MS, &peer), WEFT_ERR_PROTOCOL);
  assert_int_equal(weft_agent_publish(ghostly.agent, NULL, NULL, SUPPORT_DEADLINE_MS), WEFT_ERR_EXISTS);
  ghost.name = "impostor";
  ghost_appear(&ghost, 0);
  assert_int_equal(weft_agent_fetch(member.agent, "ghost", NULL, SUPPORT_DEADLINE_MS, &peer), WEFT_ERR_PROTOCOL);
  assert_non_null(strstr(weft_last_error(), "impostor"));
  assert_int_equal(crowd_count(&member, LOADED, NULL), 0);
  ghost.name = "ghost";
  ghost_appear(&ghost, 0);
  store_agent_fetch(&member, "ghost"); // it came right
  ghost_vanish(&ghost);
  crowd_await(&member, LEFT, "ghost", 1);
  ghost_close(&ghost);
  crowd_close(&ghostly);
  crowd_close(&member);
  store_kind_close(store);
}

// Whose lease has run out may find another agent under its name, and takes back nothing of that one's.
void store_removal_of_own_only(void **state) {
  (void)state;
  static struct crowd_member member, first, second;
  weft_store_t *store = store_kind_open();
  struct weft_store_list *list;
  store_agent_open(&member, "watcher", store);
  store_agent_open(&first, "ghost", store);
  store_agent_open(&second, "ghost", store);
  store_agent_publish(&first);
  assert_int_equal(weft_store_delete(store, "/weft/test/agents/ghost", false, NULL), 0); // as the end of its lease does
  store_agent_publish(&second);
  weft_peer_t peer = store_agent_fetch(&member, "ghost");
  assert_int_equal(weft_agent_unpublish(first.agent, NULL, SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(weft_agent_unpublish(first.agent, NULL, SUPPORT_DEADLINE_MS), WEFT_ERR_NOT_FOUND);
  assert_int_equal(weft_store_range(store, "/weft/test/agents/ghost", false, 0, &list), 0);
  assert_int_equal(list->count, 1);
  weft_store_list_free(list);
  assert_int_equal(weft_agent_check(member.agent, peer), 0);
  assert_int_equal(weft_agent_unpublish(second.agent, NULL, SUPPORT_DEADLINE_MS), 0);
  crowd_await(&member, LEFT, "ghost", 1);
  crowd_close(&second);
  crowd_close(&first);
  crowd_close(&member);
  store_kind_close(store);
}

// A store that answers a range with a key that is shorter than the range's prefix. The bytes behind this key, where a
// name would begin, are those of the key's value.
static struct {
  const struct store_ops *ops; // the true ones
  weft_store_watch_fn fn;
  void *arg;
} lying;

static int lying_range(weft_store_t *store, const char *key, bool prefix, uint32_t limit,
                       struct weft_store_list **out) {
  if (!prefix || limit != 0)
    return lying.ops->range(store, key, prefix, limit, out);
  char value[64];
  int at = (int)strlen(key) - (int)sizeof "x";
  int size = snprintf(value, sizeof value, "%*sa", at, "");
  const struct weft_store_kv kv = {
      .key = "x", .key_len = 1, .value = value, .value_len = (size_t)size, .mod_revision = INT64_MAX - 1};
  struct weft_store_list *list = store_list_create();
  assert_non_null(list);
  assert_int_equal(store_list_add(list, &kv), 0);
  list->revision = INT64_MAX - 1;
  list->total = 1;
  *out = list;
  return 0;
}

static int lying_watch_open(weft_store_t *store, const char *prefix, int64_t from, weft_store_watch_fn fn, void *arg,
                            weft_store_watch_t **watch) {
  lying.fn = fn;
  lying.arg = arg;
  return lying.ops->watch_open(store, prefix, from, fn, arg, watch);
}

// Keys outside of the range that was asked for are keys of no agent: all that were fetched are missing.
void store_removal_foreign_keys(void **state) {
  (void)state;
  if (store_kind_url()) // one kind suffices: the answer is made here
    return;
  static struct crowd_member a, b;
  weft_store_t *store = store_kind_open();
  lying.ops = store->ops;
  static struct store_ops ops;
  ops = *store->ops;
  ops.range = lying_range;
  ops.watch_open = lying_watch_open;
  store->ops = &ops;
  store_agent_lease_ttl_s = 1; // for so long keys may be missing when the store was away
  store_agent_open(&a, "a", store);
  store_agent_open(&b, "b", store);
  store_agent_lease_ttl_s = STORE_AGENT_TTL_S;
  store_agent_publish(&a);
  store_agent_fetch(&b, "a");
  const struct weft_store_event reset = {.kind = WEFT_STORE_EVENT_RESET};
  lying.fn(lying.arg, &reset);
  crowd_await(&b, LEFT, "a", 1);
  crowd_close(&a);
  crowd_close(&b);
  store->ops = lying.ops;
  store_kind_close(store);
}
