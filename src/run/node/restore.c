// The store has forgotten the run, because it was restarted empty or because leases ran out while it was away. The
// processes of the run know its state. So they write it back into the store; operations go on meanwhile and are not
// affected.
//
//   1. The lead makes a new lease and the key of the live run, unless another run of the job has come first. The others
//      wait for that key, and take the new lease from it. So does each rank (common/store_writer.h).
//   2. Every process writes again what it has written: launches, starts, records, exits, the current phase.
//   3. A node that has written everything registers again. The lead waits for all nodes and then writes `restored`.
//      Until then nothing is launched, since a node that does not see the launch of another node yet would launch the
//      rank a second time.
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "run/node/node.h"

// Time from the return of the store. Every process that still runs notices the return within half the life of a lease,
// or when it renews its own lease.
enum { RESTORE_S = 2 * RUN_LEASE_TTL_S };

void node_restore_begin(struct node *node) {
  if (!node_restore_is_on(node))
    node->restore.deadline_ns = clock_deadline_ms(RESTORE_S * 1000);
  node->restore.look = true;
}

bool node_restore_is_on(const struct node *node) {
  return node->restore.look || node->restore.stage != RESTORE_NONE;
}

// Whether the store still has this node's lease.
static int check_lease(struct node *node, bool *alive) {
  int err = node->store.own_lease ? weft_store_lease_keepalive(node->store.client, node->store.own_lease, NULL)
                                  : WEFT_ERR_NOT_FOUND;
  *alive = !err;
  if (err == WEFT_ERR_NOT_FOUND)
    node->store.own_lease = 0;
  return err == WEFT_ERR_NOT_FOUND ? 0 : err;
}

static void begin_to_write(struct node *node, bool forgot) {
  if (node->restore.stage == RESTORE_NONE)
    run_directory_event(&node->directory, "store_forgot", json_pack("{s:s}", "store", node->store.endpoints));
  node->restore.stage = RESTORE_WRITE;
  node->restore.forgot |= forgot;
  run_reporter_renew(node->reporter);
}

// The lead found no live run.
static int put_run_back(struct node *node) {
  bool created = false;
  int err = node->store.own_lease ? 0 : node_grant_lease(node);
  if (err)
    return err;
  node->store.run_lease = node->store.own_lease;
  begin_to_write(node, true); // from here on, since the key may be created even if the answer is lost
  err = node_create_run(node, &created);
  if (!err && !created)
    return fail(WEFT_ERR_TIMEOUT, "another run of the job has started meanwhile"); // the next look finds it
  return err ? err : node_register(node, &created);
}

// A follower found the run on a new lease.
static int take_lease(struct node *node, int64_t lease) {
  bool forgot = lease != node->store.run_lease; // otherwise only this node's own lease ran out
  node->store.run_lease = lease;
  begin_to_write(node, forgot);
  return 0;
}

static int look_at(struct node *node, const json_t *live) {
  const char *run = json_string_value(json_object_get(live, "run"));
  int64_t lease = (int64_t)json_integer_value(json_object_get(live, "lease"));
  bool alive = false;
  int err = check_lease(node, &alive);
  if (err)
    return err;
  if (run && strcmp(run, node->run) != 0)
    return node_refuse(node, live, ", which began when the store had lost this run");
  if (node->leads && run && !alive)
    return fail(WEFT_ERR_TIMEOUT, "the run's lease is about to expire");
  if (node->leads && !run)
    err = put_run_back(node);
  else if (!node->leads && !run)
    return fail(WEFT_ERR_TIMEOUT, "the lead has not restored the run yet");
  else if (!node->leads && (lease != node->store.run_lease || !alive))
    err = take_lease(node, lease);
  if (!err)
    node->role->forget_nodes(node); // the inbox will report which nodes are here
  if (!err && node->leads && node->restore.stage == RESTORE_NONE)
    node->restore.stage = RESTORE_GATHER;
  return err ? err : run_inbox_read(node->inbox);
}

static int look(struct node *node) {
  json_t *live = NULL;
  int err = run_storage_get(node->store.client, node->keys.live, &live);
  if (!err)
    err = look_at(node, live);
  if (!err)
    node->restore.look = false;
  json_decref(live);
  return err;
}

static int gather(struct node *node) {
  char key[RUN_KEY_SIZE];
  if (!node->leads) {
    if (!node->restore.forgot || node->restore.done_lease == node->store.run_lease) {
      node->restore.stage = RESTORE_NONE;
      node->restore.forgot = false;
    }
    return 0;
  }
  struct text missing = {0};
  bool all_here = node->role->missing(node, &missing) == 0;
  if (all_here)
    node->restore.stage = RESTORE_NONE;
  if (all_here && node->restore.forgot) {
    node->restore.forgot = false;
    run_key(key, &node->keys, "restored");
    run_reporter_put(node->reporter, key, json_integer((json_int_t)node->store.run_lease));
    run_directory_event(&node->directory, "store_restored", NULL);
  }
  text_free(&missing);
  return 0;
}

static int write_all(struct node *node) {
  bool created = false;
  if (!run_reporter_is_idle(node->reporter))
    return 0;
  int err = node->store.own_lease ? 0 : node_grant_lease(node);
  if (!err)
    err = node_register(node, &created);
  if (!err && !created)
    return fail(WEFT_ERR_TIMEOUT, "the lease of agent %u's earlier key has not expired yet", node->id);
  if (!err)
    node->restore.stage = RESTORE_GATHER;
  return err;
}

static int too_late(const struct node *node) {
  struct text missing = {0};
  node->role->missing(node, &missing);
  int err = 0;
  if (!node->leads)
    err = fail(WEFT_ERR_PEER_LOST, "the store %s lost the run, and the lead of job '%s' did not restore it within %d s",
               node->store.endpoints, node->job, RESTORE_S);
  else if (missing.size)
    err = fail(WEFT_ERR_PEER_LOST, "the store %s lost the run, and %s did not return within %d s",
               node->store.endpoints, missing.data, RESTORE_S);
  else
    err = fail(WEFT_ERR_UNREACHABLE, "the store %s lost the run, and it could not be restored within %d s",
               node->store.endpoints, RESTORE_S);
  text_free(&missing);
  return err;
}

// With --agents elastic, agents that have not come back are lost like others. Anything else that is late ends the run.
static int go_on_without(struct node *node) {
  if (node->restore.look || node->restore.stage != RESTORE_GATHER)
    return too_late(node);
  return node->role->lose_missing(node);
}

int node_restore_step(struct node *node) {
  if (!node_restore_is_on(node))
    return 0;
  if (node->store.silent_ns) // it does not answer again
    node->restore.deadline_ns = clock_deadline_ms(RESTORE_S * 1000);
  if (clock_passed(node->restore.deadline_ns) && (!node->leads || node->config.agents == RUN_AGENTS_FIXED))
    return too_late(node);
  int err = clock_passed(node->restore.deadline_ns) ? go_on_without(node) : 0;
  if (!err && node->restore.look)
    err = look(node);
  if (!err && node->restore.stage == RESTORE_WRITE)
    err = write_all(node);
  if (!err && node->restore.stage == RESTORE_GATHER)
    err = gather(node);
  if (err == WEFT_ERR_NOT_FOUND) // the store has forgotten the new lease, too
    node_restore_begin(node);
  if (node_restore_is_on(node))
    node_retry(node);
  return err == WEFT_ERR_NOT_FOUND || run_storage_may_pass(err) ? 0 : err;
}
