// The transactions with which a worker takes a rank, or gives it back.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"
#include "meet/state.h"

enum { MAX_COMPARES = 120 }; // etcd takes 128 in a transaction

// A transaction in the making.
struct claim {
  char meeting[MEET_ID_SIZE];
  char open_key[MEET_KEY_SIZE], open_value[128], key[MEET_KEY_SIZE];
  char *value, *others; // the claim; the keys of all other ranks, each MEET_KEY_SIZE
  struct weft_store_compare compares[MAX_COMPARES];
  struct weft_store_op ops[2];
  struct weft_store_txn txn;
};

static int describe(const struct meet *meet, struct claim *claim) {
  json_t *json = json_pack("{s:s, s:s, s:s, s:I, s:s, s:s, s:O}", "meeting", claim->meeting, "id", meet->id, "host",
                           meet->host, "pid", (json_int_t)getpid(), "address", meet->address, "place", meet->place,
                           "settings", meet->settings);
  claim->value = json ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  return claim->value ? 0 : fail(WEFT_ERR_NOMEM, "no memory for a claim, or the host's name is not UTF-8");
}

static void put_meeting(struct claim *claim, uint32_t size, bool full, int64_t lease) {
  snprintf(claim->open_value, sizeof claim->open_value, "{\"id\":\"%s\",\"size\":%u,\"full\":%s}", claim->meeting, size,
           full ? "true" : "false");
  claim->ops[claim->txn.num_success++] = (struct weft_store_op){.kind = WEFT_STORE_PUT,
                                                                .key = claim->open_key,
                                                                .value = claim->open_value,
                                                                .value_len = strlen(claim->open_value),
                                                                .lease = lease};
}

static void compare(struct claim *claim, const char *key, enum weft_store_target target,
                    enum weft_store_relation relation, int64_t number) {
  claim->compares[claim->txn.num_compares++] =
      (struct weft_store_compare){.key = key, .target = target, .relation = relation, .number = number};
}

// The last worker to come closes the meeting to others, if all the others are still in it.
static int close_by_last(const struct meet *meet, struct claim *claim, uint32_t rank) {
  for (uint32_t i = 0; i < meet->open_size; i++)
    if (i != rank && !(meet->workers[i].there && strcmp(meet->workers[i].meeting, meet->open_id) == 0))
      return 0; // nobody, or a worker that still has to give back the rank of an earlier meeting
  put_meeting(claim, meet->open_size, true, rank == 0 ? meet->lease : meet->workers[0].lease);
  claim->others = calloc(meet->open_size, MEET_KEY_SIZE);
  if (!claim->others)
    return fail(WEFT_ERR_NOMEM, "no memory for a claim");
  for (uint32_t i = 0; i < meet->open_size && claim->txn.num_compares < MAX_COMPARES; i++) {
    if (i == rank)
      continue;
    char *key = claim->others + (size_t)i * MEET_KEY_SIZE;
    meet_key(meet, key, "worker/%u", i);
    compare(claim, key, WEFT_STORE_CREATE, WEFT_STORE_GREATER, 0);
  }
  return 0;
}

static int prepare(const struct meet *meet, struct claim *claim, uint32_t rank, bool found) {
  if (found)
    snprintf(claim->meeting, sizeof claim->meeting, "%016llx", (unsigned long long)random_id());
  else
    memcpy(claim->meeting, meet->open_id, sizeof claim->meeting);
  int err = describe(meet, claim);
  if (err)
    return err;
  claim->txn = WEFT_STORE_TXN_INIT;
  claim->txn.compares = claim->compares;
  claim->txn.success = claim->ops;
  meet_key(meet, claim->open_key, "meeting");
  meet_key(meet, claim->key, "worker/%u", rank);
  // As it was read: not marked as full meanwhile, which is done together with telling of a death.
  compare(claim, claim->open_key, WEFT_STORE_MOD, WEFT_STORE_EQUAL, found ? 0 : meet->open_change);
  compare(claim, claim->key, WEFT_STORE_CREATE, WEFT_STORE_EQUAL, 0);
  // Puts the meeting first, so that a worker that sees the events one by one sees no claim without a meeting.
  if (found)
    put_meeting(claim, meet->size, meet->size == 1, meet->lease);
  else
    err = close_by_last(meet, claim, rank);
  claim->ops[claim->txn.num_success++] = (struct weft_store_op){.kind = WEFT_STORE_PUT,
                                                                .key = claim->key,
                                                                .value = claim->value,
                                                                .value_len = strlen(claim->value),
                                                                .lease = meet->lease};
  return err;
}

int meet_claim(struct meet *meet, uint32_t rank, bool found, bool *taken) {
  struct claim *claim = calloc(1, sizeof *claim);
  struct weft_store_txn_result *result = NULL;
  int err = claim ? prepare(meet, claim, rank, found) : fail(WEFT_ERR_NOMEM, "no memory for a claim");
  if (!err) {
    meet->claimed = true;
    meet->rank = rank;
    memcpy(meet->meeting, claim->meeting, sizeof meet->meeting);
  }
  pthread_mutex_unlock(&meet->lock);
  if (!err)
    err = weft_store_txn_commit(meet->store, &claim->txn, &result);
  if (!err)
    *taken = result->succeeded;
  weft_store_txn_result_free(result);
  if (claim) {
    free(claim->value);
    free(claim->others);
  }
  free(claim);
  pthread_mutex_lock(&meet->lock);
  if (!err && !*taken)
    meet->claimed = false;
  return err;
}

int meet_give_back(struct meet *meet) {
  char key[MEET_KEY_SIZE], end[MEET_KEY_SIZE], value[96];
  struct weft_store_txn_result *result;
  meet_key(meet, key, "worker/%u", meet->rank);
  meet_key(meet, end, "end/%s/%u", meet->meeting, meet->rank);
  snprintf(value, sizeof value, "{\"id\":\"%s\",\"kind\":\"left\",\"err\":0,\"why\":\"\"}", meet->id);
  const struct weft_store_op ops[] = {
      {.kind = WEFT_STORE_PUT, .key = end, .value = value, .value_len = strlen(value), .lease = meet->lease},
      {.kind = WEFT_STORE_DELETE, .key = key}};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.success = ops;
  txn.num_success = 2;
  meet->joined = meet->claimed = false;
  pthread_mutex_unlock(&meet->lock);
  int err = weft_store_txn_commit(meet->store, &txn, &result);
  if (!err)
    weft_store_txn_result_free(result);
  pthread_mutex_lock(&meet->lock);
  return err;
}

int meet_close_to_others(struct meet *meet) {
  struct claim *claim = calloc(1, sizeof *claim);
  struct weft_store_txn_result *result;
  if (!claim)
    return fail(WEFT_ERR_NOMEM, "no memory for a claim");
  memcpy(claim->meeting, meet->meeting, sizeof claim->meeting);
  claim->txn = WEFT_STORE_TXN_INIT;
  claim->txn.compares = claim->compares;
  claim->txn.success = claim->ops;
  meet_key(meet, claim->open_key, "meeting");
  compare(claim, claim->open_key, WEFT_STORE_CREATE, WEFT_STORE_EQUAL, meet->open_revision);
  put_meeting(claim, meet->size, true, meet->lease);
  pthread_mutex_unlock(&meet->lock);
  int err = weft_store_txn_commit(meet->store, &claim->txn, &result);
  if (!err)
    weft_store_txn_result_free(result);
  free(claim);
  pthread_mutex_lock(&meet->lock);
  return err;
}
