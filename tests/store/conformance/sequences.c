// The same random operations on a local store, an embedded server and a real etcd give the same answers. Revisions are
// counted from the one at which each began; leases by the order in which they were granted.
#include "base/random.h"
#include "base/text.h"
#include "conformance/suite.h"
#include "support/etcd.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STORES = 3, LEASES = 4, OPERATIONS = 600, MAX_OPS = 4 };

struct subject {
  const char *name;
  weft_store_t *store;
  int64_t base; // its revision at the beginning
  int64_t leases[LEASES];
  struct text said;
};

static struct support_etcd etcd;
static weft_store_server_t *server;
static struct subject subjects[STORES];

static weft_store_t *open_url(const char *url) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  options.endpoints = url;
  options.request_timeout_ms = 30000;
  assert_ok(weft_store_open(&store, &options));
  return store;
}

static int start(void **state) {
  (void)state;
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  if (!support_etcd_start(&etcd))
    return -1;
  assert_ok(weft_store_server_start(&server, &options));
  subjects[0].name = "local";
  assert_ok(weft_store_open_local(&subjects[0].store));
  subjects[1].name = "embedded";
  subjects[1].store = open_url(weft_store_server_url(server));
  subjects[2].name = "etcd";
  subjects[2].store = open_url(etcd.url);
  return 0;
}

static int stop(void **state) {
  (void)state;
  for (size_t i = 0; i < STORES; i++) {
    weft_store_close(subjects[i].store);
    text_free(&subjects[i].said);
  }
  weft_store_server_stop(server);
  support_etcd_stop(&etcd);
  return 0;
}

static const char *const keys[] = {"/q/a", "/q/a/1", "/q/a/2", "/q/b", "/q/b\xff", "/q/c"};
static const char *const prefixes[] = {"/q/", "/q/a", "/q/a/", "/q/b", "/q/b\xff", "/q/none"};
static const char *const values[] = {"", "x", "xy", "value", "\xff"};

#define PICK(array, random) (array)[random_next(random) % (sizeof(array) / sizeof *(array))]

static int64_t number_of_lease(const struct subject *subject, int64_t lease) {
  for (int i = 0; i < LEASES; i++)
    if (lease && subject->leases[i] == lease)
      return i + 1;
  return lease ? -1 : 0;
}

// A revision, 0 staying 0.
static int64_t from_base(const struct subject *subject, int64_t revision) {
  return revision ? revision - subject->base : 0;
}

static void say_list(struct subject *subject, const struct weft_store_list *list) {
  text_add(&subject->said, "[%zu of %zu%s at %" PRId64, list->count, list->total, list->more ? ", more" : "",
           from_base(subject, list->revision));
  for (size_t i = 0; i < list->count; i++) {
    const struct weft_store_kv *kv = &list->kvs[i];
    text_add(&subject->said, " %s=%s c%" PRId64 " m%" PRId64 " v%" PRId64 " l%" PRId64, kv->key,
             (const char *)kv->value, from_base(subject, kv->create_revision), from_base(subject, kv->mod_revision),
             kv->version, number_of_lease(subject, kv->lease));
  }
  text_add(&subject->said, "]");
}

// Says a call's outcome; true: there is an answer to say.
static bool say_result(struct subject *subject, const char *what, int err) {
  text_add(&subject->said, "%s: %s ", what, weft_err_name(err));
  return err == 0;
}

static int64_t pick_lease(const struct subject *subject, uint64_t *random) {
  uint64_t pick = random_next(random) % (2 * LEASES);
  return pick < LEASES ? subject->leases[pick] : 0;
}

static struct weft_store_op make_op(const struct subject *subject, uint64_t *random) {
  struct weft_store_op op = {.kind = (enum weft_store_op_kind)(random_next(random) % 3)};
  op.prefix = op.kind != WEFT_STORE_PUT && random_next(random) % 2;
  op.key = op.prefix ? PICK(prefixes, random) : PICK(keys, random);
  op.limit = op.kind == WEFT_STORE_RANGE ? (uint32_t)(random_next(random) % 3) : 0;
  const char *value = PICK(values, random);
  int64_t lease = pick_lease(subject, random);
  if (op.kind == WEFT_STORE_PUT) {
    op.value = value;
    op.value_len = strlen(value);
    op.lease = lease;
  }
  return op;
}

static struct weft_store_compare make_compare(const struct subject *subject, uint64_t *random) {
  struct weft_store_compare compare = {.key = PICK(keys, random)};
  compare.target = (enum weft_store_target)(random_next(random) % 4);
  compare.relation = (enum weft_store_relation)(random_next(random) % 4);
  const char *value = PICK(values, random);
  int64_t number = (int64_t)(random_next(random) % 4);
  if (compare.target == WEFT_STORE_VALUE) {
    compare.value = value;
    compare.value_len = strlen(value);
  } else if (compare.target == WEFT_STORE_VERSION || number == 0) {
    compare.number = number;
  } else {
    compare.number = subject->base + (int64_t)(random_next(random) % OPERATIONS);
  }
  return compare;
}

static void run_txn(struct subject *subject, uint64_t *random) {
  struct weft_store_compare compares[2];
  struct weft_store_op branches[2][MAX_OPS];
  struct weft_store_txn txn = {.compares = compares, .success = branches[0], .failure = branches[1]};
  txn.num_compares = random_next(random) % 3;
  txn.num_success = random_next(random) % (MAX_OPS + 1);
  txn.num_failure = random_next(random) % (MAX_OPS + 1);
  for (size_t i = 0; i < 2; i++)
    compares[i] = make_compare(subject, random);
  for (size_t b = 0; b < 2; b++)
    for (size_t i = 0; i < MAX_OPS; i++)
      branches[b][i] = make_op(subject, random);
  struct weft_store_txn_result result;
  if (!say_result(subject, "txn", weft_store_txn(subject->store, &txn, &result)))
    return;
  text_add(&subject->said, "%s at %" PRId64, result.succeeded ? "yes" : "no", from_base(subject, result.revision));
  for (size_t i = 0; i < result.num_responses; i++) {
    text_add(&subject->said, " deleted %zu ", result.deleted[i]);
    say_list(subject, &result.ranges[i]);
  }
  weft_store_txn_result_free(&result);
}

static void run_put(struct subject *subject, uint64_t *random) {
  const char *key = PICK(keys, random);
  const char *value = PICK(values, random);
  int64_t lease = pick_lease(subject, random);
  int64_t revision;
  if (say_result(subject, "put", weft_store_put(subject->store, key, value, strlen(value), lease, &revision)))
    text_add(&subject->said, "at %" PRId64, from_base(subject, revision));
}

static void run_range(struct subject *subject, uint64_t *random) {
  struct weft_store_list list;
  bool prefix = random_next(random) % 2;
  const char *key = prefix ? PICK(prefixes, random) : PICK(keys, random);
  uint32_t limit = (uint32_t)(random_next(random) % 3);
  if (say_result(subject, "range", weft_store_range(subject->store, key, prefix, limit, &list))) {
    say_list(subject, &list);
    weft_store_list_free(&list);
  }
}

static void run_delete(struct subject *subject, uint64_t *random) {
  bool prefix = random_next(random) % 4 == 0;
  const char *key = prefix ? PICK(prefixes, random) : PICK(keys, random);
  size_t deleted;
  if (say_result(subject, "delete", weft_store_delete(subject->store, key, prefix, &deleted)))
    text_add(&subject->said, "%zu", deleted);
}

// Grants the lease of a place, or revokes the one that is there. A revoked lease's number stays, to be used in vain.
static void run_lease(struct subject *subject, uint64_t *random) {
  int64_t *lease = &subject->leases[random_next(random) % LEASES];
  int64_t ttl = 0;
  switch (random_next(random) % 4) {
  case 0:
  case 1:
    say_result(subject, "grant", weft_store_lease_grant(subject->store, 3600, lease, &ttl));
    text_add(&subject->said, "%" PRId64, ttl);
    break;
  case 2:
    if (say_result(subject, "keepalive", *lease ? weft_store_lease_keepalive(subject->store, *lease, &ttl) : 0))
      text_add(&subject->said, "%" PRId64, ttl);
    break;
  default:
    say_result(subject, "revoke", *lease ? weft_store_lease_revoke(subject->store, *lease) : 0);
    break;
  }
}

static void run_operation(struct subject *subject, uint64_t random) {
  static void (*const operations[])(struct subject *, uint64_t *) = {run_txn,   run_txn,    run_put,  run_put,
                                                                     run_range, run_delete, run_lease};
  subject->said.size = 0;
  PICK(operations, &random)(subject, &random);
}

static int64_t begin(struct subject *subject) {
  memset(subject->leases, 0, sizeof subject->leases);
  suite_put(subject->store, "/q/a", "x", 0);
  assert_ok(weft_store_delete(subject->store, "/q/", true, NULL));
  return suite_put(subject->store, "/q/begin", "x", 0);
}

static void random_operations_give_the_same_answers(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    for (size_t i = 0; i < STORES; i++)
      subjects[i].base = begin(&subjects[i]);
    for (uint64_t step = 0; step < OPERATIONS; step++) {
      for (size_t i = 0; i < STORES; i++)
        run_operation(&subjects[i], random_mix(seed << 32 | step));
      for (size_t i = 0; i + 1 < STORES; i++)
        if (strcmp(subjects[i].said.data, subjects[STORES - 1].said.data) != 0)
          fail_msg("seed %" PRIu64 ", step %" PRIu64 ":\n%s: %s\n%s: %s", seed, step, subjects[i].name,
                   subjects[i].said.data, subjects[STORES - 1].name, subjects[STORES - 1].said.data);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations_give_the_same_answers)};
  support_etcd_require();
  return cmocka_run_group_tests(tests, start, stop);
}
