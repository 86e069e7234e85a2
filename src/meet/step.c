// Barriers and exchanges: step n is complete when every rank has put its key for it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "meet/state.h"

struct step {
  const char *name;
  uint32_t number;
};

static bool has_come(const struct meet *meet, uint32_t rank, const struct step *step) {
  return meet->workers[rank].step_number[step->number % 2] == step->number;
}

// A worker that is two steps ahead has done this step, too; this cannot happen, since it needs this worker.
static bool complete(struct meet *meet, void *arg) {
  const struct step *step = arg;
  for (uint32_t rank = 0; rank < meet->size; rank++)
    if (!has_come(meet, rank, step))
      return false;
  return true;
}

static bool left_before(struct meet *meet, const struct step *step, uint32_t *rank) {
  for (*rank = 0; *rank < meet->size; ++*rank)
    if (meet->workers[*rank].end == MEET_LEFT && !has_come(meet, *rank, step))
      return true;
  return false;
}

// Checked after deaths: a worker that left because of a death is not the cause.
static int somebody_left(struct meet *meet, void *arg) {
  const struct step *step = arg;
  struct text who = {0};
  uint32_t rank;
  if (!left_before(meet, step, &rank))
    return 0;
  meet_add_name(meet, rank, &who);
  int err = fail(WEFT_ERR_PEER_LOST, "%s left before it reached \"%s\"", who.data ? who.data : "a worker", step->name);
  text_free(&who);
  return err;
}

enum { MAX_NAMED = 8 };

static void add_missing(struct meet *meet, void *arg, struct text *out) {
  const struct step *step = arg;
  uint32_t missing = 0;
  text_add(out, "not all workers reached \"%s\" in time; missing: ", step->name);
  for (uint32_t rank = 0; rank < meet->size; rank++) {
    if (has_come(meet, rank, step))
      continue;
    if (missing < MAX_NAMED) {
      text_add(out, missing ? ", " : "");
      meet_add_name(meet, rank, out);
    }
    missing++;
  }
  if (missing > MAX_NAMED)
    text_add(out, " and %u more", missing - MAX_NAMED);
}

// Puts the key of this step, and deletes the key of the step before the last, since all workers have been at the last
// step and know it.
static int put(struct meet *meet, const struct step *step, const json_t *mine) {
  char key[MEET_KEY_SIZE], old[MEET_KEY_SIZE];
  json_t *json = json_pack("{s:s, s:O?}", "name", step->name, "value", (json_t *)mine);
  char *value = json ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  if (!value)
    return fail(WEFT_ERR_NOMEM, "no memory for what this worker sends at \"%s\"", step->name);
  meet_key(meet, key, "step/%s/%u/%u", meet->meeting, step->number, meet->rank);
  meet_key(meet, old, "step/%s/%u/%u", meet->meeting, step->number - 2, meet->rank);
  struct weft_store_op ops[] = {
      {.kind = WEFT_STORE_PUT, .key = key, .value = value, .value_len = strlen(value), .lease = meet->lease},
      {.kind = WEFT_STORE_DELETE, .key = old}};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  struct weft_store_txn_result *result;
  txn.success = ops;
  txn.num_success = step->number > 2 ? 2 : 1;
  int err = weft_store_txn_commit(meet->store, &txn, &result);
  if (!err)
    weft_store_txn_result_free(result);
  free(value);
  return err;
}

static const char *name_at(const struct meet *meet, uint32_t rank, const struct step *step) {
  return json_string_value(json_object_get(meet->workers[rank].step[step->number % 2], "name"));
}

// All have come, to the same.
static int check(struct meet *meet, const struct step *step) {
  struct text who = {0};
  uint32_t rank;
  int err = 0;
  for (rank = 0; rank < meet->size && !err; rank++) {
    const char *name = name_at(meet, rank, step);
    if (name && strcmp(name, step->name) == 0)
      continue;
    meet_add_name(meet, rank, &who);
    err = fail(WEFT_ERR_PROTOCOL, "%s is at \"%s\", but this worker is at \"%s\": want one version of weft everywhere",
               who.data ? who.data : "a worker", name ? name : "?", step->name);
  }
  text_free(&who);
  return err;
}

// The reason why the store did not accept the key of a step: a known death explains more than the store's error.
static int explain(struct meet *meet, int err) {
  char why[512];
  snprintf(why, sizeof why, "%s", weft_last_error());
  bool gone = err == WEFT_ERR_NOT_FOUND; // its lease: others took it for dead, or it stood still
  bool away = gone || err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_TIMEOUT;
  uint64_t deadline = clock_deadline_ms(MEET_RENEW_MS); // the connection of its holder may break a moment later
  int known;
  while ((known = meet_obstacle(meet)) == 0 && away && !clock_passed(deadline))
    meet_sleep(meet, deadline);
  if (!known && gone) {
    meet->lease_ended = true;
    known = meet_obstacle(meet);
  }
  return known ? known : fail(err, "%s", why);
}

// Returns copies, since the watch's thread frees its own values at the next step.
static int copy_all(struct meet *meet, const struct step *step, json_t **all) {
  for (uint32_t rank = 0; rank < meet->size; rank++) {
    json_t *value = json_object_get(meet->workers[rank].step[step->number % 2], "value");
    all[rank] = value ? json_deep_copy(value) : json_null();
    if (all[rank])
      continue;
    while (rank-- > 0)
      json_decref(all[rank]);
    return fail(WEFT_ERR_NOMEM, "no memory for what the workers brought to \"%s\"", step->name);
  }
  return 0;
}

int meet_all_gather(struct meet *meet, const char *name, const json_t *mine, uint32_t timeout_ms, json_t **all) {
  struct step step = {.name = name, .number = ++meet->steps};
  uint64_t deadline_ns = clock_wait_deadline(timeout_ms);
  pthread_mutex_lock(&meet->lock);
  int err = meet_obstacle(meet);
  pthread_mutex_unlock(&meet->lock);
  if (err)
    return err;
  err = put(meet, &step, mine);
  pthread_mutex_lock(&meet->lock);
  if (err)
    err = explain(meet, err);
  if (!err)
    err = meet_wait(meet, deadline_ns, complete, somebody_left, add_missing, &step);
  if (!err)
    err = check(meet, &step);
  if (!err && all)
    err = copy_all(meet, &step, all);
  pthread_mutex_unlock(&meet->lock);
  return err;
}

int meet_barrier(struct meet *meet, const char *name, uint32_t timeout_ms) {
  return meet_all_gather(meet, name, NULL, timeout_ms, NULL);
}
