// One random operation. A number alone decides its kind and its arguments, so that a sequence can be repeated with
// operations left out.
#include "base/random.h"
#include "conformance/subject.h"
#include "conformance/suite.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPS = 4, MAX_COMPARES = 4, TOO_MANY = 129, TOO_LARGE = (3 << 19) + 4096, REVISIONS = 1000 };

static const char *const keys[] = {"/q/a", "/q/a/1", "/q/a/2", "/q/b", "/q/b\xff", "/q/c"};

static const char *const values[] = {"", "x", "xy", "value", "\xff"};

#define COUNT(array)        (sizeof(array) / sizeof *(array))
#define PICK(array, random) (array)[random_next(random) % COUNT(array)]

// Says a call's outcome; true: there is an answer to say.
static bool say_result(struct subject *subject, const char *what, int err) {
  text_add(&subject->said, "%s: %s ", what, weft_err_name(err));
  return err == 0;
}

static int64_t pick_lease(const struct subject *subject, uint64_t *random) {
  uint64_t pick = random_next(random) % (2 * SUBJECT_LEASES);
  return pick < SUBJECT_LEASES ? subject->leases[pick] : 0;
}

static struct weft_store_op make_op(const struct subject *subject, uint64_t *random) {
  struct weft_store_op op = {.kind = (enum weft_store_op_kind)(random_next(random) % 3)};
  bool prefix = op.kind != WEFT_STORE_PUT && random_next(random) % 2;
  op.flags = prefix ? WEFT_STORE_OP_PREFIX : 0;
  op.key = prefix ? subject_prefixes[random_next(random) % SUBJECT_PREFIXES] : PICK(keys, random);
  if (op.kind == WEFT_STORE_DELETE && prefix && !*op.key)
    op.key = "/q/"; // etcd does not see that all keys are also the key that is put; weft's stores do, and refuse
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
    compare.number = subject->base + (int64_t)(random_next(random) % REVISIONS);
  }
  return compare;
}

static void run_txn(struct subject *subject, uint64_t *random) {
  struct weft_store_compare compares[MAX_COMPARES];
  struct weft_store_op branches[2][MAX_OPS];
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = compares;
  txn.success = branches[0];
  txn.failure = branches[1];
  txn.num_compares = random_next(random) % 3 ? random_next(random) % 3 : random_next(random) % (MAX_COMPARES + 1);
  txn.num_success = random_next(random) % (MAX_OPS + 1);
  txn.num_failure = random_next(random) % (MAX_OPS + 1);
  for (size_t i = 0; i < MAX_COMPARES; i++)
    compares[i] = make_compare(subject, random);
  for (size_t b = 0; b < 2; b++)
    for (size_t i = 0; i < MAX_OPS; i++)
      branches[b][i] = make_op(subject, random);
  struct weft_store_txn_result *result;
  if (!say_result(subject, "txn", weft_store_txn_commit(subject->store, &txn, &result)))
    return;
  text_add(&subject->said, "%s at %" PRId64, result->succeeded ? "yes" : "no",
           subject_from_base(subject, result->revision));
  for (size_t i = 0; i < result->num_responses; i++) {
    text_add(&subject->said, " deleted %zu ", result->deleted[i]);
    if (result->ranges[i])
      subject_say_list(subject, result->ranges[i]);
  }
  weft_store_txn_result_free(result);
}

static void run_put(struct subject *subject, uint64_t *random) {
  const char *key = PICK(keys, random);
  const char *value = PICK(values, random);
  int64_t lease = pick_lease(subject, random);
  int64_t revision;
  if (say_result(subject, "put", weft_store_put(subject->store, key, value, strlen(value), lease, &revision)))
    text_add(&subject->said, "%s=%s at %" PRId64, key, value, subject_from_base(subject, revision));
}

static void run_range(struct subject *subject, uint64_t *random) {
  struct weft_store_list *list;
  bool prefix = random_next(random) % 2;
  const char *key = prefix ? subject_prefixes[random_next(random) % SUBJECT_PREFIXES] : PICK(keys, random);
  uint32_t limit = (uint32_t)(random_next(random) % 3);
  if (say_result(subject, "range", weft_store_range(subject->store, key, prefix, limit, &list))) {
    subject_say_list(subject, list);
    weft_store_list_free(list);
  }
}

static void run_delete(struct subject *subject, uint64_t *random) {
  bool prefix = random_next(random) % 4 == 0;
  const char *key = prefix ? subject_prefixes[random_next(random) % SUBJECT_PREFIXES] : PICK(keys, random);
  size_t deleted;
  if (say_result(subject, "delete", weft_store_delete(subject->store, key, prefix, &deleted)))
    text_add(&subject->said, "%s%s: %zu", key, prefix ? "*" : "", deleted);
}

// Grants the lease of a place, keeps it, asks for it or revokes it. A revoked lease's number stays, to be used in vain.
static void run_lease(struct subject *subject, uint64_t *random) {
  int64_t *lease = &subject->leases[random_next(random) % SUBJECT_LEASES];
  int64_t ttl = 0;
  switch (random_next(random) % 5) {
  case 0:
  case 1:
    say_result(subject, "grant", weft_store_lease_grant(subject->store, 3600, lease, &ttl));
    text_add(&subject->said, "%" PRId64, ttl);
    break;
  case 2:
    if (say_result(subject, "keepalive", weft_store_lease_keepalive(subject->store, *lease + !*lease, &ttl)))
      text_add(&subject->said, "%" PRId64, ttl);
    break;
  case 3:
    if (say_result(subject, "ttl", weft_store_lease_ttl(subject->store, *lease + !*lease, &ttl)))
      text_add(&subject->said, "%s", ttl > 0 && ttl <= 3600 ? "of what was granted" : "never granted");
    break;
  default:
    say_result(subject, "revoke", weft_store_lease_revoke(subject->store, *lease + !*lease));
    break;
  }
}

static int put_too_much(struct subject *subject) {
  char *value = calloc(1, TOO_LARGE);
  assert_non_null(value);
  int err = weft_store_put(subject->store, "/q/a", value, TOO_LARGE, 0, NULL);
  free(value);
  return err;
}

static int do_too_much(struct subject *subject) {
  struct weft_store_op ops[TOO_MANY];
  char names[TOO_MANY][16];
  struct weft_store_txn_result *result;
  for (int i = 0; i < TOO_MANY; i++) {
    snprintf(names[i], sizeof names[i], "/q/%d", i);
    ops[i] = (struct weft_store_op){.kind = WEFT_STORE_PUT, .key = names[i], .value = "", .value_len = 0};
  }
  int err = weft_store_txn_commit(
      subject->store,
      &(struct weft_store_txn){
          .size = sizeof(struct weft_store_txn), .each_op = sizeof *ops, .success = ops, .num_success = TOO_MANY},
      &result);
  if (!err)
    weft_store_txn_result_free(result);
  return err;
}

// What no store should do.
static void run_wrong(struct subject *subject, uint64_t *random) {
  static const int64_t times[] = {0, -5, 9000000001, INT64_MAX};
  struct weft_store_list *list;
  int64_t lease, ttl;
  switch (random_next(random) % 6) {
  case 0:
    say_result(subject, "put without a key", weft_store_put(subject->store, "", "x", 1, 0, NULL));
    break;
  case 1:
    say_result(subject, "range without a key", weft_store_range(subject->store, "", false, 0, &list));
    break;
  case 2:
    say_result(subject, "delete without a key", weft_store_delete(subject->store, "", false, NULL));
    break;
  case 3:
    say_result(subject, "put on a lease that never was", weft_store_put(subject->store, "/q/a", "x", 1, 4711, NULL));
    break;
  case 4:
    ttl = PICK(times, random);
    text_add(&subject->said, "%" PRId64 " s ", ttl);
    say_result(subject, "grant", weft_store_lease_grant(subject->store, ttl, &lease, NULL));
    break;
  default:
    say_result(subject, "too many operations", do_too_much(subject));
    if (random_next(random) % 8 == 0)
      say_result(subject, "too large a value", put_too_much(subject));
  }
}

void subject_operate(struct subject *subject, uint64_t random, bool sync) {
  static void (*const operations[])(struct subject *, uint64_t *) = {
      run_txn,   run_txn,   run_txn,    run_txn,   run_put,   run_put,           run_put,
      run_range, run_range, run_delete, run_lease, run_lease, subject_run_watch, run_wrong};
  subject->said.size = 0;
  if (sync)
    subject_sync(subject);
  else
    PICK(operations, &random)(subject, &random);
}
