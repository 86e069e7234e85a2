// The thread that renews the lease, reads the store again after a gap, and removes the keys of dead workers.
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "meet/state.h"
#include "store/limit.h"

// No new worker may take part in a meeting in which a worker has died: the key is marked before the dead worker's rank
// is free.
static size_t close_meeting(struct meet *meet, struct weft_store_compare *compare, struct weft_store_op *op, char *key,
                            char *value, size_t cap) {
  meet_key(meet, key, "meeting");
  pthread_mutex_lock(&meet->lock);
  const struct meet_worker *founder = &meet->workers[0];
  bool open = founder->there && strcmp(meet->open_id, meet->meeting) == 0 && !meet->open_full;
  *compare = (struct weft_store_compare){.key = key, .target = WEFT_STORE_CREATE, .number = meet->open_revision};
  snprintf(value, cap, "{\"id\":\"%s\",\"size\":%u,\"full\":true}", meet->open_id, meet->open_size);
  *op = (struct weft_store_op){
      .kind = WEFT_STORE_PUT, .key = key, .value = value, .value_len = strlen(value), .lease = founder->lease};
  pthread_mutex_unlock(&meet->lock);
  return open ? 1 : 0;
}

static int commit(weft_store_t *store, const struct weft_store_txn *txn, bool *succeeded) {
  struct weft_store_txn_result *result;
  int err = weft_store_txn_commit(store, txn, &result);
  if (err)
    return err;
  *succeeded = result->succeeded;
  weft_store_txn_result_free(result);
  return 0;
}

// A worker that leaves because of a death names the dead worker in the same record. So a reader knows the reason
// without another record, which may be gone, or arrive later. NULL: nobody is dead.
static json_t *first_dead(struct meet *meet) {
  json_t *dead = NULL;
  pthread_mutex_lock(&meet->lock);
  const struct meet_worker *worker = &meet->workers[meet->first];
  if (atomic_load(&meet->lost) && worker->end == MEET_LOST)
    dead = json_pack("{s:i, s:s, s:s}", "rank", (int)meet->first, "id", worker->id, "why",
                     worker->why ? worker->why : "?");
  pthread_mutex_unlock(&meet->lock);
  return dead;
}

int meet_put_end(struct meet *meet, uint32_t rank, const char *id, const char *kind, int err, const char *why) {
  char key[MEET_KEY_SIZE], meeting_key[MEET_KEY_SIZE], meeting_value[128];
  struct weft_store_compare compare;
  struct weft_store_op ops[2] = {0};
  json_t *json = json_pack("{s:s, s:s, s:i, s:s}", "id", id, "kind", kind, "err", err, "why", why);
  bool left = strcmp(kind, "left") == 0;
  json_t *dead = left ? first_dead(meet) : NULL;
  bool goes_on = left && !dead;
  if (dead)
    json_object_set_new(json, "dead", dead);
  char *value = json ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  if (!value)
    return fail(WEFT_ERR_NOMEM, "no memory for a message to the workers of a benchmark");
  meet_key(meet, key, "end/%s/%u", meet->meeting, rank);
  ops[0] = (struct weft_store_op){
      .kind = WEFT_STORE_PUT, .key = key, .value = value, .value_len = strlen(value), .lease = meet->lease};
  size_t more = goes_on ? 0 : close_meeting(meet, &compare, &ops[1], meeting_key, meeting_value, sizeof meeting_value);
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = &compare;
  txn.num_compares = more;
  txn.success = ops;
  txn.num_success = 1 + more;
  txn.failure = ops; // the meeting has gone meanwhile
  txn.num_failure = 1;
  bool succeeded;
  int rc = commit(meet->store, &txn, &succeeded);
  free(value);
  return rc;
}

// Checks whether a worker that seems dead has left in good order: then the store has a record of that, or its claim has
// gone already, which the watch reports. If the store does not answer, it perhaps belonged to the dead worker. With the
// lock, which is released meanwhile.
static bool judge_one(struct meet *meet) {
  char key[MEET_KEY_SIZE], claim_key[MEET_KEY_SIZE], id[MEET_ID_SIZE];
  uint32_t rank = 0;
  while (rank < MEET_MAX_WORKERS && !meet->workers[rank].suspect)
    rank++;
  if (rank == MEET_MAX_WORKERS)
    return false;
  struct meet_worker *worker = &meet->workers[rank];
  struct weft_store_list *list = NULL, *claim = NULL;
  memcpy(id, worker->id, sizeof id);
  int64_t lease = worker->lease;
  meet_key(meet, claim_key, "worker/%u", rank);
  meet_key(meet, key, "end/%s/%u", worker->meeting, rank);
  pthread_mutex_unlock(&meet->lock);
  int err = weft_store_range(meet->store, key, false, 0, &list);
  bool recorded = !err && list->count;
  if (!err && !recorded)
    err = weft_store_range(meet->store, claim_key, false, 0, &claim);
  bool left = recorded || (!err && (claim->count == 0 || claim->kvs[0]->lease != lease));
  pthread_mutex_lock(&meet->lock);
  bool same = strcmp(worker->id, id) == 0;
  if (same)
    worker->suspect = false;
  if (same && !left)
    meet_state_lost(meet, rank);
  pthread_cond_broadcast(&meet->changed); // a worker that leaves waits for this
  weft_store_list_free(list);
  weft_store_list_free(claim);
  return true;
}

// One of the dead that the store still knows. With the lock, which it gives away meanwhile.
static bool clear_one(struct meet *meet) {
  char id[MEET_ID_SIZE], why[256];
  for (uint32_t rank = 0; rank < MEET_MAX_WORKERS; rank++) {
    struct meet_worker *worker = &meet->workers[rank];
    if (!worker->clear)
      continue;
    bool recorded = worker->in_store;
    int64_t lease = worker->lease;
    memcpy(id, worker->id, sizeof id);
    snprintf(why, sizeof why, "%s", worker->why ? worker->why : "?");
    worker->clear = false;
    pthread_mutex_unlock(&meet->lock);
    int err = recorded ? 0 : meet_put_end(meet, rank, id, "lost", WEFT_ERR_PEER_LOST, why);
    if (!err)
      err = weft_store_lease_revoke(meet->store, lease);
    pthread_mutex_lock(&meet->lock);
    // A store that does not answer is asked again, with the next renewal.
    if (err && err != WEFT_ERR_NOT_FOUND && worker->there && strcmp(worker->id, id) == 0)
      worker->clear = true;
    return !err || err == WEFT_ERR_NOT_FOUND;
  }
  return false;
}

// Events may come while the list is read. A list that is older than the last of them would undo it, and after another
// gap the list may lack what that gap hides: then the next turn reads again.
static void read_again(struct meet *meet) {
  struct weft_store_list *list = NULL;
  meet->reread = false;
  pthread_mutex_unlock(&meet->lock);
  int err = weft_store_range(meet->store, meet->prefix, true, 0, &list);
  pthread_mutex_lock(&meet->lock);
  if (err || list->revision < meet->revision)
    meet->reread = true;
  else if (!meet->reread)
    meet_state_read(meet, list);
  weft_store_list_free(list);
}

static void renew(struct meet *meet) {
  int64_t lease = meet->lease;
  pthread_mutex_unlock(&meet->lock);
  int err = weft_store_lease_keepalive(meet->store, lease, NULL);
  pthread_mutex_lock(&meet->lock);
  if (err == WEFT_ERR_NOT_FOUND)
    meet->lease_ended = true;
  bool away = err && err != WEFT_ERR_NOT_FOUND;
  if (away != (meet->away_ns != 0))
    meet->away_ns = away ? clock_ns() : 0;
  if (err)
    pthread_cond_broadcast(&meet->changed);
}

static void *run(void *arg) {
  struct meet *meet = arg;
  store_limit_thread(&meet->limit_ns);
  uint64_t renew_ns = clock_deadline_ms(MEET_RENEW_MS);
  pthread_mutex_lock(&meet->lock);
  while (!meet->stop) {
    uint64_t wakes = meet->wakes;
    if (judge_one(meet) || clear_one(meet))
      continue;
    if (meet->reread)
      read_again(meet);
    if (clock_passed(renew_ns)) {
      renew_ns = clock_deadline_ms(MEET_RENEW_MS);
      renew(meet);
    }
    struct timespec wake = clock_timespec(renew_ns);
    if (meet->wakes == wakes) // else there is work since, which came while the lock was given away
      pthread_cond_timedwait(&meet->work, &meet->lock, &wake);
  }
  pthread_mutex_unlock(&meet->lock);
  return NULL;
}

int meet_keeper_start(struct meet *meet) {
  int error = thread_create(&meet->keeper, NULL, run, meet);
  meet->keeps = !error;
  return error ? fail_thread(error, "the thread of a benchmark's lease") : 0;
}

void meet_keeper_stop(struct meet *meet) {
  if (!meet->keeps)
    return;
  pthread_mutex_lock(&meet->lock);
  meet->stop = true;
  meet_wake_keeper(meet);
  pthread_mutex_unlock(&meet->lock);
  pthread_join(meet->keeper, NULL);
  meet->keeps = false;
}
