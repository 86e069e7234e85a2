// Steps with leases: a key on a lease is there until the lease's time is over, and not longer than the lease.
#include "store/impatient/step.h"

#include "base/time/clock.h"
#include <string.h>

enum { TTL_S = 1 };

static bool is_due(const struct actor_lease *lease) {
  return lease->revoked || clock_passed(lease->since_ns + lease->ttl_ns);
}

// `kv`: what was read of the lease's key just now.
const char *step_check_leased(struct actor *actor, const struct weft_store_kv *kv) {
  const struct actor_lease *lease = &actor->lease;
  if (!lease->id || lease->generation != actor->generation || !lease->has_key || is_due(lease))
    return NULL;
  if (!kv)
    return "a key that is gone before its lease";
  return kv->lease == lease->id ? NULL : "a key on another lease";
}

// The server says that the lease is gone: then its key is gone, too.
static bool end(struct actor *actor, const char *call) {
  char key[STEP_KEY];
  struct actor_lease was = actor->lease;
  struct weft_store_list *list = NULL;
  memset(&actor->lease, 0, sizeof actor->lease);
  actor->expired++;
  if (was.generation != actor->generation || !step_same_server(actor))
    return true;
  if (!is_due(&was))
    return step_check(actor, call, "a lease that is gone before its time");
  step_lease_key(actor, key);
  int rc = weft_store_range(step_begin(actor), key, false, 0, &list);
  if (!step_is_fine(actor, "range", rc, 0) || rc)
    return !actor->error[0];
  bool outlives = step_same_server(actor) && list->count && list->kvs[0]->lease == was.id;
  weft_store_list_free(list);
  return step_check(actor, call, outlives ? "a key outlives its lease" : NULL);
}

static bool grant(struct actor *actor) {
  int64_t id = 0, granted_s = 0;
  struct actor_lease *lease = &actor->lease;
  int rc = weft_store_lease_grant(step_begin(actor), TTL_S, &id, &granted_s);
  if (!step_is_fine(actor, "lease_grant", rc, 0) || rc)
    return !actor->error[0];
  if (id == 0 || granted_s < TTL_S)
    return step_check(actor, "lease_grant", "no lease, or a shorter one");
  memset(lease, 0, sizeof *lease);
  if (!step_same_server(actor))
    return true;
  lease->id = id;
  lease->generation = actor->generation;
  lease->since_ns = actor->began_ns;
  lease->ttl_ns = (uint64_t)granted_s * 1000000000u;
  return true;
}

// Only if the key is absent: an earlier put on an earlier lease may still be on its way.
static bool put_on(struct actor *actor) {
  char key[STEP_KEY];
  step_lease_key(actor, key);
  struct weft_store_compare absent = {.key = key, .target = WEFT_STORE_CREATE, .relation = WEFT_STORE_EQUAL};
  struct weft_store_op put = {
      .kind = WEFT_STORE_PUT, .key = key, .value = "x", .value_len = 1, .lease = actor->lease.id};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = &absent;
  txn.success = &put;
  txn.num_compares = txn.num_success = 1;
  struct weft_store_txn_result *result = NULL;
  int rc = weft_store_txn_commit(step_begin(actor), &txn, &result);
  if (!step_is_fine(actor, "put on a lease", rc, MAY(NOT_FOUND)))
    return false;
  if (rc == WEFT_ERR_NOT_FOUND)
    return end(actor, "put on a lease");
  if (rc)
    return true;
  actor->lease.has_key = result->succeeded && actor->lease.generation == actor->generation && step_same_server(actor);
  weft_store_txn_result_free(result);
  return true;
}

static bool renew(struct actor *actor) {
  int64_t ttl_s = 0;
  int rc = weft_store_lease_keepalive(step_begin(actor), actor->lease.id, &ttl_s);
  if (!step_is_fine(actor, "lease_keepalive", rc, MAY(NOT_FOUND)))
    return false;
  if (rc == WEFT_ERR_NOT_FOUND)
    return end(actor, "lease_keepalive");
  if (rc)
    return true;
  if (actor->lease.generation == actor->generation && step_same_server(actor))
    actor->lease.since_ns = actor->began_ns;
  return step_check(actor, "lease_keepalive", ttl_s < TTL_S ? "too short" : NULL);
}

static bool look(struct actor *actor) {
  int64_t left_s = -1;
  int rc = weft_store_lease_ttl(step_begin(actor), actor->lease.id, &left_s);
  if (!step_is_fine(actor, "lease_ttl", rc, MAY(NOT_FOUND)))
    return false;
  if (rc == WEFT_ERR_NOT_FOUND)
    return end(actor, "lease_ttl");
  return rc || step_check(actor, "lease_ttl", left_s < 0 ? "negative" : NULL);
}

static bool revoke(struct actor *actor) {
  weft_store_t *store = step_begin(actor);
  actor->lease.revoked = true;
  int rc = weft_store_lease_revoke(store, actor->lease.id);
  if (!step_is_fine(actor, "lease_revoke", rc, MAY(NOT_FOUND)))
    return false;
  return rc == 0 || rc == WEFT_ERR_NOT_FOUND ? end(actor, "lease_revoke") : true;
}

bool step_lease(struct actor *actor) {
  uint32_t drawn = step_draw(actor, 100);
  if (!actor->lease.id)
    return grant(actor);
  if (!actor->lease.has_key && drawn < 60)
    return put_on(actor);
  // Without renewals it expires; around its time every call is interesting.
  bool near = clock_passed(actor->lease.since_ns + actor->lease.ttl_ns - 20000000);
  if (drawn < (near ? 50 : 10))
    return renew(actor);
  return drawn < 97 ? look(actor) : revoke(actor);
}

bool step_whole_lease(struct actor *actor) {
  memset(&actor->lease, 0, sizeof actor->lease);
  if (!grant(actor) || !put_on(actor))
    return false;
  if (!actor->lease.has_key)
    return step_check(actor, "a lease in the calm", "no key on it");
  uint64_t latest_ns = clock_deadline_ms(ACTOR_LONGEST_MS);
  while (actor->lease.id && !clock_passed(latest_ns))
    if (!(step_draw(actor, 2) ? look(actor) : step_read_one(actor)))
      return false;
  return step_check(actor, "a lease in the calm", actor->lease.id ? "it does not end" : NULL);
}
