// The store's data model alone, with time as an argument: etcd's semantics, one by one.
#include "store/core/core.h"
#include "base/random.h"
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static int setup(void **state) {
  *state = core_create(CORE_LIMITS_DEFAULT);
  assert_non_null(*state);
  return 0;
}

static int teardown(void **state) {
  core_free(*state);
  return 0;
}

static struct core_bytes bytes(const char *text) {
  return (struct core_bytes){text, strlen(text)};
}

static struct core_op put_op(const char *key, const char *value, int64_t lease) {
  return (struct core_op){.kind = CORE_PUT, .range.key = bytes(key), .value = bytes(value), .lease = lease};
}

static struct core_op range_op(const char *key, const char *end) {
  return (struct core_op){.kind = CORE_RANGE, .range = {bytes(key), bytes(end)}};
}

static struct core_op delete_op(const char *key, const char *end) {
  return (struct core_op){.kind = CORE_DELETE, .range = {bytes(key), bytes(end)}};
}

// The answer's revision.
static int64_t run(struct core *core, struct core_op op) {
  struct core_result result;
  assert_int_equal(core_run(core, &op, &result), CORE_OK);
  int64_t revision = result.revision;
  core_result_free(&result);
  return revision;
}

static int64_t put(struct core *core, const char *key, const char *value) {
  return run(core, put_op(key, value, 0));
}

static size_t count(struct core *core, struct core_op op) {
  struct core_result result;
  assert_int_equal(core_run(core, &op, &result), CORE_OK);
  size_t found = result.responses[0].count;
  core_result_free(&result);
  return found;
}

static void revisions_count_changes_only(void **state) {
  struct core *core = *state;
  assert_int_equal(core_revision(core), 1);
  assert_int_equal(put(core, "a", "1"), 2);
  assert_int_equal(put(core, "a", "2"), 3);
  assert_int_equal(run(core, range_op("a", "")), 3);
  assert_int_equal(run(core, delete_op("none", "")), 3);
  assert_int_equal(run(core, delete_op("a", "")), 4);
  assert_int_equal(put(core, "a", "3"), 5);
  struct core_op op = range_op("a", "");
  struct core_result result;
  assert_int_equal(core_run(core, &op, &result), CORE_OK);
  const struct core_record *record = result.responses[0].records[0];
  assert_int_equal(record->create_revision, 5);
  assert_int_equal(record->version, 1);
  core_result_free(&result);
}

static enum core_status txn(struct core *core, const struct core_compare *compares, size_t num_compares,
                            const struct core_op *success, size_t num_success, struct core_result *out) {
  struct core_txn one = {
      .compares = compares, .num_compares = num_compares, .success = success, .num_success = num_success};
  return core_txn(core, &one, out);
}

static bool compares(struct core *core, const char *key, enum core_target target, enum core_relation relation,
                     int64_t number) {
  struct core_compare compare = {{bytes(key), {"", 0}}, target, relation, number, {"", 0}};
  struct core_result result;
  assert_int_equal(txn(core, &compare, 1, NULL, 0, &result), CORE_OK);
  bool succeeded = result.succeeded;
  core_result_free(&result);
  return succeeded;
}

static bool compares_value(struct core *core, const char *key, enum core_relation relation, const char *value) {
  struct core_compare compare = {{bytes(key), {"", 0}}, CORE_VALUE, relation, 0, bytes(value)};
  struct core_result result;
  assert_int_equal(txn(core, &compare, 1, NULL, 0, &result), CORE_OK);
  bool succeeded = result.succeeded;
  core_result_free(&result);
  return succeeded;
}

static void each_comparison_does_what_it_says(void **state) {
  struct core *core = *state;
  put(core, "a", "m"); // create 2
  put(core, "a", "m"); // mod 3, version 2
  const struct {
    enum core_target target;
    int64_t is;
  } numbers[] = {{CORE_CREATE, 2}, {CORE_MOD, 3}, {CORE_VERSION, 2}, {CORE_LEASE, 0}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    for (int64_t by = -1; by <= 1; by++) {
      assert_int_equal(compares(core, "a", numbers[i].target, CORE_EQUAL, numbers[i].is + by), by == 0);
      assert_int_equal(compares(core, "a", numbers[i].target, CORE_NOT_EQUAL, numbers[i].is + by), by != 0);
      assert_int_equal(compares(core, "a", numbers[i].target, CORE_GREATER, numbers[i].is + by), by < 0);
      assert_int_equal(compares(core, "a", numbers[i].target, CORE_LESS, numbers[i].is + by), by > 0);
    }
  assert_true(compares_value(core, "a", CORE_EQUAL, "m"));
  assert_true(compares_value(core, "a", CORE_GREATER, "l"));
  assert_true(compares_value(core, "a", CORE_LESS, "ma"));
  assert_true(compares_value(core, "a", CORE_NOT_EQUAL, ""));
  assert_true(compares(core, "none", CORE_CREATE, CORE_EQUAL, 0));
  assert_false(compares_value(core, "none", CORE_NOT_EQUAL, "x")); // an absent key's value compares as never
}

static void a_transaction_shares_one_revision_and_sees_its_own_writes(void **state) {
  struct core *core = *state;
  struct core_op ops[] = {range_op("a", "c"), put_op("a", "1", 0), put_op("b", "2", 0), range_op("a", "c"),
                          delete_op("x", "")};
  struct core_result result;
  assert_int_equal(txn(core, NULL, 0, ops, 5, &result), CORE_OK);
  assert_true(result.succeeded);
  assert_int_equal(result.revision, 2);
  assert_int_equal(result.responses[0].count, 0);
  assert_int_equal(result.responses[0].revision, 1);
  assert_int_equal(result.responses[3].count, 2);
  assert_int_equal(result.responses[3].revision, 2);
  assert_int_equal(result.responses[3].records[0]->mod_revision, 2);
  assert_int_equal(result.responses[3].records[1]->mod_revision, 2);
  core_result_free(&result);
}

static void a_refused_transaction_changes_nothing(void **state) {
  struct core *core = *state;
  put(core, "c", "1");
  struct core_result result;
  struct core_op twice[] = {put_op("a", "", 0), put_op("a", "", 0)};
  assert_int_equal(txn(core, NULL, 0, twice, 2, &result), CORE_DUPLICATE_KEY);
  struct core_op in_range[] = {put_op("b", "", 0), delete_op("a", "c")};
  assert_int_equal(txn(core, NULL, 0, in_range, 2, &result), CORE_DUPLICATE_KEY);
  struct core_op no_lease[] = {put_op("a", "", 0), delete_op("c", ""), put_op("b", "", 7)};
  assert_int_equal(txn(core, NULL, 0, no_lease, 3, &result), CORE_LEASE_NOT_FOUND);
  struct core_op no_key[] = {put_op("a", "", 0), put_op("", "", 0)};
  assert_int_equal(txn(core, NULL, 0, no_key, 2, &result), CORE_EMPTY_KEY);
  struct core_op keep = put_op("none", "", 0);
  keep.ignore_value = true;
  assert_int_equal(core_run(core, &keep, &result), CORE_KEY_NOT_FOUND);
  struct core_op future = range_op("a", "");
  future.revision = 99;
  assert_int_equal(core_run(core, &future, &result), CORE_FUTURE_REVISION);
  assert_int_equal(txn(core, NULL, 0, (struct core_op[]){put_op("a", "", 0), future}, 2, &result),
                   CORE_FUTURE_REVISION);
  struct core_compare never = {.range.key = bytes("c"), .target = CORE_VERSION, .relation = CORE_EQUAL, .number = 9};
  assert_int_equal(txn(core, &never, 1, &future, 1, &result), CORE_OK); // of the branch that does not run
  core_result_free(&result);
  struct core_op many[CORE_MAX_TXN_OPS + 1];
  for (size_t i = 0; i <= CORE_MAX_TXN_OPS; i++)
    many[i] = range_op("a", "");
  assert_int_equal(txn(core, NULL, 0, many, CORE_MAX_TXN_OPS + 1, &result), CORE_TOO_MANY_OPS);
  static char long_value[CORE_MAX_TXN_BYTES];
  struct core_op large = put_op("a", "", 0);
  large.value = (struct core_bytes){long_value, sizeof long_value};
  assert_int_equal(core_run(core, &large, &result), CORE_TOO_LARGE); // with its key
  assert_int_equal(core_revision(core), 2);
  assert_int_equal(core_count(core), 1);
}

static void ranges_end_where_they_say(void **state) {
  struct core *core = *state;
  const char *keys[] = {"a", "a\xff", "a\xff\xff", "b", "\xff", "\xff\xff"};
  for (size_t i = 0; i < 6; i++)
    put(core, keys[i], "");
  struct core_op from = range_op("b", "");
  from.range.end = (struct core_bytes){"", 1}; // one NUL byte
  assert_int_equal(count(core, from), 3);
  from.range.key = (struct core_bytes){"", 1};
  assert_int_equal(count(core, from), 6);
  assert_int_equal(count(core, range_op("a", "b")), 3);
  assert_int_equal(count(core, range_op("a\xff", "b")), 2);
  assert_int_equal(count(core, range_op("a", "a\xff")), 1);
  assert_int_equal(count(core, range_op("b", "a")), 0);
  struct core_op limited = range_op("a", "c");
  limited.limit = 2;
  struct core_result result;
  assert_int_equal(core_run(core, &limited, &result), CORE_OK);
  assert_int_equal(result.responses[0].num_records, 2);
  assert_int_equal(result.responses[0].count, 4);
  assert_true(result.responses[0].more);
  core_result_free(&result);
}

// The owner calls core_lease_expire() a little late, as every thread that waits for a time.
static void a_lease_that_is_not_found_has_no_key_any_more(void **state) {
  struct core *core = *state;
  int64_t renewed = 0, seen = 0, ttl = 10;
  struct core_lease_state lease;
  assert_int_equal(core_lease_grant(core, 0, &renewed, &ttl), CORE_OK);
  assert_int_equal(core_lease_grant(core, 0, &seen, &ttl), CORE_OK);
  run(core, put_op("a", "", renewed));
  run(core, put_op("b", "", seen));
  assert_int_equal(core_lease_keepalive(core, 10 * SECOND, renewed, &ttl), CORE_LEASE_NOT_FOUND);
  assert_int_equal(core_count(core), 1);
  assert_int_equal(core_lease_state(core, 10 * SECOND, seen, false, &lease), CORE_LEASE_NOT_FOUND);
  assert_int_equal(core_count(core), 0);
  assert_int_equal(core_lease_count(core), 0);
}

static void a_lease_ends_at_its_time_with_all_its_keys_in_one_revision(void **state) {
  struct core *core = *state;
  int64_t id = 0, ttl = 10;
  assert_int_equal(core_lease_grant(core, 0, &id, &ttl), CORE_OK);
  assert_true(id > 0);
  run(core, put_op("b", "", id));
  run(core, put_op("a", "", id));
  run(core, put_op("c", "", id));
  run(core, put_op("c", "", 0)); // no longer on it
  assert_int_equal(core_revision(core), 5);
  assert_int_equal(core_lease_next_expiry(core), 10 * SECOND);
  assert_int_equal(core_lease_keepalive(core, 4 * SECOND, id, &ttl), CORE_OK);
  assert_int_equal(core_lease_expire(core, 14 * SECOND - 1), CORE_OK);
  assert_int_equal(core_count(core), 3);
  struct core_lease_state lease;
  assert_int_equal(core_lease_state(core, 5 * SECOND, id, true, &lease), CORE_OK);
  assert_int_equal(lease.left_s, 9);
  assert_int_equal(lease.num_keys, 2);
  struct core_lease_state later;
  assert_int_equal(core_lease_state(core, 6 * SECOND - 1, id, false, &later), CORE_OK);
  assert_int_equal(later.left_s, 8); // whole seconds
  assert_string_equal(lease.keys[0]->data, "a");
  core_records_free(lease.keys, lease.num_keys);
  assert_int_equal(core_lease_expire(core, 14 * SECOND), CORE_OK);
  assert_int_equal(core_count(core), 1);
  assert_int_equal(core_revision(core), 6);
  assert_int_equal(core_lease_next_expiry(core), UINT64_MAX);
  assert_int_equal(core_lease_revoke(core, id), CORE_LEASE_NOT_FOUND);
}

static void time_in_which_the_store_was_stopped_does_not_count(void **state) {
  struct core *core = *state;
  int64_t id = 0, ttl = 10;
  assert_int_equal(core_lease_next_check(core, 0), UINT64_MAX);
  assert_int_equal(core_lease_note_pause(core, 100 * SECOND), 0); // there was nothing to check
  assert_int_equal(core_lease_grant(core, 100 * SECOND, &id, &ttl), CORE_OK);
  assert_int_equal(core_lease_note_pause(core, 104 * SECOND), 3 * SECOND); // stopped before the first check
  assert_int_equal(core_lease_next_check(core, 104 * SECOND), 105 * SECOND);
  assert_int_equal(core_lease_note_pause(core, 106 * SECOND), 0); // late, as on a busy machine
  assert_int_equal(core_lease_next_check(core, 106 * SECOND), 107 * SECOND);
  assert_int_equal(core_lease_note_pause(core, 157 * SECOND), 50 * SECOND);
  assert_int_equal(core_lease_note_pause(core, 157 * SECOND), 0); // counted once
  assert_int_equal(core_lease_next_expiry(core), 163 * SECOND);
  assert_int_equal(core_lease_next_check(core, 162 * SECOND + SECOND / 2), 163 * SECOND);
}

static void leases_are_granted_as_by_etcd(void **state) {
  struct core *core = *state;
  int64_t id = 7, ttl = 1;
  assert_int_equal(core_lease_grant(core, 0, &id, &ttl), CORE_OK);
  assert_int_equal(ttl, CORE_MIN_TTL_S);
  assert_int_equal(core_lease_grant(core, 0, &id, &ttl), CORE_LEASE_EXISTS);
  ttl = CORE_MAX_TTL_S + 1;
  assert_int_equal(core_lease_grant(core, 0, &id, &ttl), CORE_LEASE_TTL_TOO_LARGE);
  assert_int_equal(core_lease_revoke(core, 7), CORE_OK);
  assert_int_equal(core_revision(core), 1); // no key, no revision
}

static void never_wake(struct core_watch *watch) {
  fail_msg("woken for nothing, at event %ju", (uintmax_t)watch->next);
}

static unsigned wakes;
static void count_wake(struct core_watch *watch) {
  (void)watch;
  wakes++;
}

static void a_watch_reads_the_past_and_then_the_present(void **state) {
  struct core *core = *state;
  put(core, "w1", "1"); // 2
  put(core, "x", "1");  // 3
  put(core, "w2", "1"); // 4
  struct core_watch watch = {.range = {bytes("w"), bytes("x")}, .wake = count_wake};
  struct core_watch other = {.range = {bytes("none"), bytes("")}, .wake = never_wake};
  wakes = 0;
  core_watch_add(core, &watch, 3);
  core_watch_add(core, &other, 0);
  struct core_events events = {0};
  assert_int_equal(core_watch_take(core, &watch, 100, &events), CORE_OK);
  assert_int_equal(events.count, 1);
  assert_int_equal(events.items[0].revision, 4);
  assert_false(watch.pending);
  run(core, delete_op("w1", "")); // 5
  put(core, "w1", "2");           // 6: no second wake while the first was not taken
  assert_int_equal(wakes, 1);
  assert_int_equal(core_watch_take(core, &watch, 1, &events), CORE_OK);
  assert_int_equal(events.count, 2);
  assert_null(events.items[1].now);
  assert_string_equal(events.items[1].prev->data, "w1");
  assert_true(watch.pending);
  assert_int_equal(core_watch_take(core, &watch, 1, &events), CORE_OK);
  assert_int_equal(events.items[2].now->version, 1);
  core_events_clear(&events);
  core_watch_remove(core, &watch);
  core_watch_remove(core, &other);
}

static void a_revision_is_never_split(void **state) {
  struct core *core = *state;
  struct core_op ops[] = {put_op("a", "", 0), put_op("b", "", 0), put_op("c", "", 0)};
  struct core_result result;
  assert_int_equal(txn(core, NULL, 0, ops, 3, &result), CORE_OK);
  core_result_free(&result);
  put(core, "a", "");
  struct core_watch watch = {.range = {bytes("a"), {"", 1}}, .wake = count_wake};
  core_watch_add(core, &watch, 2);
  struct core_events events = {0};
  assert_int_equal(core_watch_take(core, &watch, 1, &events), CORE_OK);
  assert_int_equal(events.count, 3);
  core_events_clear(&events);
  core_watch_remove(core, &watch);
}

// A client may name a revision that is not there yet.
// A reader of large values gets few at a time, so that it costs little memory.
static void a_batch_ends_at_its_bytes(void **state) {
  enum { VALUES = 4 };
  struct core *core = *state;
  struct core_watch watch = {.range = {bytes("a"), {"", 0}}, .wake = never_wake};
  struct core_events events = {0};
  char *value = malloc(CORE_BATCH_BYTES + 1);
  assert_non_null(value);
  memset(value, 'v', CORE_BATCH_BYTES);
  value[CORE_BATCH_BYTES] = '\0';
  for (int i = 0; i < VALUES; i++)
    put(core, "a", value);
  core_watch_add(core, &watch, 2);
  for (size_t i = 1; i <= VALUES; i++) {
    assert_true(watch.pending);
    assert_int_equal(core_watch_take(core, &watch, 100, &events), CORE_OK);
    assert_int_equal(events.count, i);
    assert_int_equal(events.items[i - 1].revision, i + 1);
  }
  assert_false(watch.pending);
  core_events_clear(&events);
  core_watch_remove(core, &watch);
  free(value);
}

static void a_watch_from_a_later_revision_waits_for_it(void **state) {
  struct core *core = *state;
  struct core_watch watch = {.range = {bytes("k"), {"", 1}}, .wake = count_wake};
  struct core_events events = {0};
  core_watch_add(core, &watch, 4);
  wakes = 0;
  put(core, "k", "2");
  put(core, "k", "3");
  assert_int_equal(wakes, 0);
  put(core, "k", "4");
  assert_int_equal(wakes, 1);
  assert_int_equal(core_watch_take(core, &watch, 100, &events), CORE_OK);
  assert_int_equal(events.count, 1);
  assert_int_equal(events.items[0].revision, 4);
  core_events_clear(&events);
  core_watch_remove(core, &watch);
}

static void history_is_bounded_and_says_what_is_gone(void **state) {
  (void)state;
  struct core *core = core_create((struct core_limits){.events = 8, .bytes = 1 << 20});
  struct core_watch slow = {.range = {bytes("k"), {"", 1}}, .wake = count_wake};
  core_watch_add(core, &slow, 0);
  for (int i = 0; i < 20; i++)
    put(core, "k", "v");
  assert_int_equal(core_revision(core), 21);
  assert_int_equal(core_oldest_revision(core), 14); // eight are left: 14 to 21
  struct core_events events = {0};
  assert_int_equal(core_watch_take(core, &slow, 100, &events), CORE_COMPACTED);
  core_watch_remove(core, &slow);
  core_watch_add(core, &slow, 13);
  assert_int_equal(core_watch_take(core, &slow, 100, &events), CORE_COMPACTED);
  core_watch_remove(core, &slow);
  core_watch_add(core, &slow, 14);
  assert_int_equal(core_watch_take(core, &slow, 100, &events), CORE_OK);
  assert_int_equal(events.count, 8);
  core_events_clear(&events);
  core_watch_remove(core, &slow);
  core_free(core);
}

static void history_is_bounded_in_bytes_too(void **state) {
  (void)state;
  struct core *core = core_create((struct core_limits){.events = 1000, .bytes = 64});
  for (int i = 0; i < 10; i++)
    put(core, "k", "0123456789012345678901234567890"); // 32 bytes with the key
  assert_int_equal(core_oldest_revision(core), core_revision(core) - 1);
  // A revision that alone exceeds the limit stays, so that a watch that has seen all before it gets it.
  struct core_watch watch = {.range = {bytes("k"), {"", 1}}, .wake = count_wake};
  struct core_events events = {0};
  core_watch_add(core, &watch, 0);
  put(core, "k", "0123456789012345678901234567890123456789012345678901234567890123456789");
  assert_int_equal(core_watch_take(core, &watch, 100, &events), CORE_OK);
  assert_int_equal(events.count, 1);
  core_events_clear(&events);
  core_watch_remove(core, &watch);
  core_free(core);
}

enum { MANY = 100000 };

static void a_hundred_thousand_keys_stay_in_order(void **state) {
  struct core *core = *state;
  uint64_t random = 1;
  for (int i = 0; i < MANY; i++) { // each number once, in no order: 7919 and 100,000 have no common divisor
    char key[16];
    snprintf(key, sizeof key, "k%06d", (int)((int64_t)i * 7919 % MANY));
    put(core, key, "");
  }
  assert_int_equal(core_count(core), MANY);
  for (int i = 0; i < 1000; i++) {
    unsigned low = (unsigned)(random_next(&random) % MANY), size = (unsigned)(random_next(&random) % 100);
    char key[16], end[16];
    snprintf(key, sizeof key, "k%06u", low);
    snprintf(end, sizeof end, "k%06u", low + size);
    size_t expected = low + size > MANY ? MANY - low : size;
    assert_int_equal(count(core, range_op(key, end)), expected);
  }
  struct core_op all = range_op("k", "l");
  struct core_result result;
  assert_int_equal(core_run(core, &all, &result), CORE_OK);
  for (size_t i = 1; i < result.responses[0].num_records; i++)
    assert_true(strcmp(result.responses[0].records[i - 1]->data, result.responses[0].records[i]->data) < 0);
  core_result_free(&result);
  assert_int_equal(count(core, delete_op("k09", "k1")), 10000);
  assert_int_equal(core_revision(core), 1 + MANY + 1);
  assert_int_equal(core_count(core), 90000);
}

static void what_is_there_is_bounded(void **state) {
  (void)state;
  struct core *core = core_create((struct core_limits){.events = 4, .bytes = 64, .live = 1000, .leases = 2});
  struct core_response response;
  char key[8] = "a", value[256];
  memset(value, 'x', sizeof value - 1);
  value[sizeof value - 1] = '\0';
  enum core_status status = CORE_OK;
  size_t puts = 0;
  for (; status == CORE_OK && puts < 100; puts++) {
    snprintf(key, sizeof key, "k%zu", puts);
    struct core_op op = put_op(key, value, 0);
    status = core_apply(core, &op, &response);
  }
  assert_int_equal(status, CORE_NO_SPACE);
  assert_int_equal(core_count(core), 2); // two of 255 + 2 + CORE_KEY_COST bytes are below 1,000
  struct core_op smaller = put_op("k0", "x", 0), last = put_op(key, value, 0), gone = delete_op("k1", "");
  assert_int_equal(core_apply(core, &smaller, &response), CORE_OK);
  assert_int_equal(core_apply(core, &gone, &response), CORE_OK);
  assert_int_equal(core_apply(core, &last, &response), CORE_OK);
  for (int i = 0; i < 10; i++) { // what is deleted makes room
    gone = delete_op(key, "");
    assert_int_equal(core_apply(core, &gone, &response), CORE_OK);
    assert_int_equal(core_apply(core, &last, &response), CORE_OK);
  }
  for (int i = 0; i < 3; i++) {
    int64_t id = 0, ttl = 10;
    assert_int_equal(core_lease_grant(core, 0, &id, &ttl), i < 2 ? CORE_OK : CORE_TOO_MANY_LEASES);
  }
  core_free(core);
}

// One request may name the same keys many times; its answer may not be a multiple of the store.
static void an_answer_is_bounded_before_anything_is_changed(void **state) {
  enum { RANGES = 100, SIZE = 1 << 20 };
  char *value = malloc(SIZE + 1);
  assert_non_null(value);
  memset(value, 'x', SIZE);
  value[SIZE] = '\0';
  struct core_op first = put_op("a", value, 0), ops[RANGES + 1];
  struct core_response response;
  assert_int_equal(core_apply(*state, &first, &response), CORE_OK);
  for (int i = 0; i < RANGES; i++)
    ops[i] = range_op("a", "");
  ops[RANGES] = put_op("b", "x", 0);
  struct core_txn txn = {.success = ops, .num_success = RANGES + 1};
  struct core_result result;
  int64_t before = core_revision(*state);
  assert_int_equal(core_txn(*state, &txn, &result), CORE_LARGE_ANSWER);
  assert_int_equal(core_revision(*state), before);
  txn.success = ops + RANGES / 2;
  txn.num_success = RANGES / 2 + 1;
  assert_int_equal(core_txn(*state, &txn, &result), CORE_OK);
  core_result_free(&result);
  free(value);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(revisions_count_changes_only),
      TEST(each_comparison_does_what_it_says),
      TEST(a_transaction_shares_one_revision_and_sees_its_own_writes),
      TEST(a_refused_transaction_changes_nothing),
      TEST(ranges_end_where_they_say),
      TEST(a_lease_that_is_not_found_has_no_key_any_more),
      TEST(a_lease_ends_at_its_time_with_all_its_keys_in_one_revision),
      TEST(time_in_which_the_store_was_stopped_does_not_count),
      TEST(leases_are_granted_as_by_etcd),
      TEST(a_watch_reads_the_past_and_then_the_present),
      TEST(a_revision_is_never_split),
      TEST(a_batch_ends_at_its_bytes),
      TEST(a_watch_from_a_later_revision_waits_for_it),
      cmocka_unit_test(history_is_bounded_and_says_what_is_gone),
      cmocka_unit_test(history_is_bounded_in_bytes_too),
      cmocka_unit_test(what_is_there_is_bounded),
      TEST(an_answer_is_bounded_before_anything_is_changed),
      TEST(a_hundred_thousand_keys_stay_in_order),
  };
  return cmocka_run_group_tests_name("store core", tests, NULL, NULL);
}
