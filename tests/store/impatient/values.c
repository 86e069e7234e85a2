// Steps that read and write keys.
#include "store/impatient/step.h"

#include "base/random.h"
#include "cmocka_all.h"
#include <string.h>

static void counter_key(uint32_t counter, char key[STEP_KEY]) {
  snprintf(key, STEP_KEY, ACTOR_PREFIX "count/%u", counter);
}

static const struct weft_store_kv *find(const struct weft_store_list *list, const char *key) {
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->kvs[i]->key, key) == 0)
      return list->kvs[i];
  return NULL;
}

static const char *check_own(struct actor *actor, const struct weft_store_kv *kv) {
  struct own *own = &actor->own;
  if (own->generation != actor->generation)
    own_begin(own, actor->generation);
  const char *wrong = own_read(own, kv);
  if (wrong)
    print_error("actor %u: read number %lld at %lld; last put: %lld at %lld, %s\n", actor->index,
                kv ? (long long)*(const uint64_t *)kv->value : -1, kv ? (long long)kv->mod_revision : -1,
                (long long)own->number, (long long)own->revision, own->present ? "present" : "deleted");
  return wrong;
}

// A list's own rules.
static const char *check_list(const struct weft_store_list *list, uint32_t limit) {
  for (size_t i = 0; i < list->count; i++) {
    const struct weft_store_kv *kv = list->kvs[i];
    if (strncmp(kv->key, ACTOR_PREFIX, strlen(ACTOR_PREFIX)) != 0 || strlen(kv->key) != kv->key_len)
      return "a key that nobody asked for";
    if (i > 0 && strcmp(list->kvs[i - 1]->key, kv->key) >= 0)
      return "keys out of order";
    if (kv->mod_revision > list->revision || kv->create_revision > kv->mod_revision || kv->version < 1)
      return "impossible revisions of a key";
  }
  if (list->total < list->count || (limit && list->count > limit) || list->more != (list->total > list->count))
    return "a list of the wrong length";
  return NULL;
}

static const char *check_key(struct actor *actor, const char *key, const struct truth_mark marks[TRUTH_COUNTERS],
                             const struct weft_store_kv *kv) {
  char other[STEP_KEY];
  for (uint32_t i = 0; i < TRUTH_COUNTERS; i++) {
    counter_key(i, other);
    if (strcmp(key, other) == 0)
      return truth_read(&actor->world->counters[i], &marks[i], kv);
  }
  step_own_key(actor, other);
  if (strcmp(key, other) == 0)
    return check_own(actor, kv);
  step_lease_key(actor, other);
  return strcmp(key, other) == 0 ? step_check_leased(actor, kv) : NULL;
}

static void mark_all(struct actor *actor, struct truth_mark marks[TRUTH_COUNTERS]) {
  for (uint32_t i = 0; i < TRUTH_COUNTERS; i++)
    marks[i] = truth_mark(&actor->world->counters[i], actor->generation);
}

static void some_key(struct actor *actor, char key[STEP_KEY]) {
  uint32_t drawn = step_draw(actor, TRUTH_COUNTERS + 2);
  if (drawn < TRUTH_COUNTERS)
    counter_key(drawn, key);
  else if (drawn == TRUTH_COUNTERS)
    step_own_key(actor, key);
  else
    step_lease_key(actor, key);
}

bool step_read_one(struct actor *actor) {
  char key[STEP_KEY];
  struct truth_mark marks[TRUTH_COUNTERS];
  struct weft_store_list *list = NULL;
  some_key(actor, key);
  weft_store_t *store = step_begin(actor);
  mark_all(actor, marks);
  int rc = weft_store_range(store, key, false, 0, &list);
  if (!step_is_fine(actor, "range", rc, 0) || rc)
    return !actor->error[0];
  const char *wrong = check_list(list, 0);
  if (!wrong && list->count > 1)
    wrong = "more than one key";
  if (!wrong && step_same_server(actor))
    wrong = check_key(actor, key, marks, list->count ? list->kvs[0] : NULL);
  weft_store_list_free(list);
  return step_check(actor, key, wrong);
}

bool step_read_all(struct actor *actor) {
  char key[STEP_KEY];
  struct truth_mark marks[TRUTH_COUNTERS];
  struct weft_store_list *list = NULL;
  uint32_t limit = step_draw(actor, 3) ? 0 : 1 + step_draw(actor, 4);
  weft_store_t *store = step_begin(actor);
  mark_all(actor, marks);
  int rc = weft_store_range(store, ACTOR_PREFIX, true, limit, &list);
  if (!step_is_fine(actor, "range", rc, 0) || rc)
    return !actor->error[0];
  const char *wrong = check_list(list, limit);
  if (step_same_server(actor) && list->count == list->total) {
    for (uint32_t i = 0; i < TRUTH_COUNTERS && !wrong; i++) {
      counter_key(i, key);
      wrong = truth_read(&actor->world->counters[i], &marks[i], find(list, key));
    }
    step_own_key(actor, key);
    wrong = wrong ? wrong : check_own(actor, find(list, key));
    step_lease_key(actor, key);
    wrong = wrong ? wrong : step_check_leased(actor, find(list, key));
  }
  weft_store_list_free(list);
  return step_check(actor, "range of all", wrong);
}

// The own key's state has to be that of the generation in which the call begins.
static void follow_own(struct actor *actor) {
  if (actor->own.generation != actor->generation)
    own_begin(&actor->own, actor->generation);
}

bool step_put_own(struct actor *actor) {
  char key[STEP_KEY];
  int64_t revision = 0;
  uint64_t number = ++actor->serial;
  step_own_key(actor, key);
  weft_store_t *store = step_begin(actor);
  follow_own(actor);
  int rc = weft_store_put(store, key, &number, sizeof number, 0, &revision);
  if (!step_is_fine(actor, "put", rc, 0))
    return false;
  if (rc)
    own_perhaps_put(&actor->own, number);
  else if (step_same_server(actor))
    own_put(&actor->own, number, revision);
  else
    own_begin(&actor->own, 1); // of no server that answers
  return rc || step_check(actor, "put", revision > 0 ? NULL : "no revision");
}

// Only if the key is as it was put last. So the request does no harm if it is carried out late.
bool step_delete_own(struct actor *actor) {
  char key[STEP_KEY];
  step_own_key(actor, key);
  weft_store_t *store = step_begin(actor);
  follow_own(actor);
  if (!actor->own.present)
    return true;
  struct weft_store_compare same = {
      .key = key, .target = WEFT_STORE_MOD, .relation = WEFT_STORE_EQUAL, .number = actor->own.revision};
  struct weft_store_op remove = {.kind = WEFT_STORE_DELETE, .key = key};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = &same;
  txn.success = &remove;
  txn.num_compares = txn.num_success = 1;
  struct weft_store_txn_result *result = NULL;
  int rc = weft_store_txn_commit(store, &txn, &result);
  if (!step_is_fine(actor, "delete", rc, 0))
    return false;
  if (rc) {
    actor->own.unsure_delete = true;
    return true;
  }
  const char *wrong = result->succeeded && result->deleted[0] != 1 ? "a key that was compared was not deleted" : NULL;
  if (step_same_server(actor) && result->succeeded)
    own_deleted(&actor->own);
  else if (!step_same_server(actor))
    own_begin(&actor->own, 1);
  weft_store_txn_result_free(result);
  return step_check(actor, "delete", wrong);
}

// Keys that anybody puts and deletes, also all of them at once. Only the watches check these.
bool step_scratch(struct actor *actor) {
  char key[STEP_KEY];
  size_t deleted = 0;
  uint32_t drawn = step_draw(actor, 4);
  snprintf(key, sizeof key, ACTOR_PREFIX "scratch/%u", step_draw(actor, 3));
  weft_store_t *store = step_begin(actor);
  if (drawn < 2)
    return step_is_fine(actor, "put", weft_store_put(store, key, "x", 1, 0, NULL), 0);
  int rc = weft_store_delete(store, drawn == 2 ? key : ACTOR_PREFIX "scratch/", drawn == 3, &deleted);
  return step_is_fine(actor, "delete", rc, 0) &&
         step_check(actor, "delete", deleted > (drawn == 3 ? 3 : 1) ? "too many keys were deleted" : NULL);
}

// Reads the counter; false: it could not, or `*wrong` says what is wrong.
static bool read_counter(struct actor *actor, uint32_t counter, struct counted *value, int64_t *revision,
                         const char **wrong) {
  char key[STEP_KEY];
  struct weft_store_list *list = NULL;
  counter_key(counter, key);
  weft_store_t *store = step_begin(actor);
  struct truth_mark mark = truth_mark(&actor->world->counters[counter], actor->generation);
  int rc = weft_store_range(store, key, false, 0, &list);
  if (!step_is_fine(actor, "range", rc, 0) || rc)
    return false;
  const struct weft_store_kv *kv = list->count ? list->kvs[0] : NULL;
  *wrong = step_same_server(actor) ? truth_read(&actor->world->counters[counter], &mark, kv) : NULL;
  memset(value, 0, sizeof *value);
  *revision = kv ? kv->mod_revision : 0;
  if (kv && kv->value_len == sizeof *value)
    memcpy(value, kv->value, sizeof *value);
  weft_store_list_free(list);
  return !*wrong;
}

static int commit_count(weft_store_t *store, const char *key, const struct counted *from, int64_t revision,
                        const struct counted *to, struct weft_store_txn_result **result) {
  struct weft_store_compare compares[2] = {
      {.key = key, .target = WEFT_STORE_MOD, .relation = WEFT_STORE_EQUAL, .number = revision},
      {.key = key, .target = WEFT_STORE_VALUE, .relation = WEFT_STORE_EQUAL, .value = from, .value_len = sizeof *from}};
  struct weft_store_op put = {.kind = WEFT_STORE_PUT, .key = key, .value = to, .value_len = sizeof *to};
  struct weft_store_op read = {.kind = WEFT_STORE_RANGE, .key = key};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = compares;
  txn.num_compares = revision ? 2 : 1; // an absent key has revision 0, and no value
  txn.success = &put;
  txn.failure = &read;
  txn.num_success = txn.num_failure = 1;
  return weft_store_txn_commit(store, &txn, result);
}

bool step_count(struct actor *actor) {
  char key[STEP_KEY];
  uint32_t counter = step_draw(actor, TRUTH_COUNTERS);
  struct truth *truth = &actor->world->counters[counter];
  struct counted from, to;
  int64_t revision = 0;
  const char *wrong = NULL;
  counter_key(counter, key);
  if (!read_counter(actor, counter, &from, &revision, &wrong))
    return step_check(actor, key, wrong) && !actor->error[0];
  to = (struct counted){.epoch = from.count ? from.epoch : random_mix(actor->random),
                        .count = from.count + 1,
                        .actor = actor->index,
                        .serial = ++actor->serial};
  weft_store_t *store = step_begin(actor);
  struct truth_mark mark = truth_mark(truth, actor->generation);
  struct weft_store_txn_result *result = NULL;
  int rc = commit_count(store, key, &from, revision, &to, &result);
  if (!step_is_fine(actor, "txn", rc, 0) || rc)
    return !actor->error[0];
  actor->counted += result->succeeded;
  if (step_same_server(actor) && result->succeeded) {
    wrong = truth_wrote(truth, &mark, &to, result->revision);
  } else if (step_same_server(actor)) {
    const struct weft_store_list *now = result->ranges[0];
    wrong = truth_read(truth, &mark, now->count ? now->kvs[0] : NULL);
    if (!wrong && now->count && now->kvs[0]->mod_revision == revision &&
        !memcmp(now->kvs[0]->value, &from, sizeof from))
      wrong = "a comparison that holds, but did not";
  }
  weft_store_txn_result_free(result);
  return step_check(actor, key, wrong);
}
