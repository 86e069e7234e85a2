// Transactions, on every kind of store.
#include "conformance/suite.h"
#include <string.h>

static struct weft_store_op put(const char *key, const char *value) {
  return (struct weft_store_op){.kind = WEFT_STORE_PUT, .key = key, .value = value, .value_len = strlen(value)};
}

static void a_claim_succeeds_once(void **state) {
  struct weft_store_compare absent = {.key = "/claim", .target = WEFT_STORE_CREATE, .relation = WEFT_STORE_EQUAL};
  struct weft_store_op write = put("/claim", "me");
  struct weft_store_op read = {.kind = WEFT_STORE_RANGE, .key = "/claim"};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = &absent;
  txn.num_compares = 1;
  txn.success = &write;
  txn.num_success = 1;
  txn.failure = &read;
  txn.num_failure = 1;
  struct weft_store_txn_result *result;
  assert_ok(weft_store_txn_commit(*state, &txn, &result));
  assert_true(result->succeeded);
  assert_int_equal(result->num_responses, 1);
  int64_t revision = result->revision;
  weft_store_txn_result_free(result);
  assert_ok(weft_store_txn_commit(*state, &txn, &result));
  assert_false(result->succeeded);
  assert_int_equal(result->revision, revision); // the failure branch only read
  assert_int_equal(result->num_responses, 1);
  assert_int_equal(result->ranges[0]->count, 1);
  assert_string_equal(result->ranges[0]->kvs[0]->value, "me");
  assert_int_equal(result->ranges[0]->kvs[0]->create_revision, revision);
  weft_store_txn_result_free(result);
}

static bool holds(weft_store_t *store, struct weft_store_compare compare) {
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = &compare;
  txn.num_compares = 1;
  struct weft_store_txn_result *result;
  assert_ok(weft_store_txn_commit(store, &txn, &result));
  bool succeeded = result->succeeded;
  weft_store_txn_result_free(result);
  return succeeded;
}

static void numbers_compare_in_every_way(void **state) {
  int64_t created = suite_put(*state, "/cmp", "1", 0);
  int64_t modified = suite_put(*state, "/cmp", "2", 0);
  const struct {
    const char *key;
    enum weft_store_target target;
    int64_t number;
  } cases[] = {{"/cmp", WEFT_STORE_CREATE, created}, {"/cmp", WEFT_STORE_MOD, modified},
               {"/cmp", WEFT_STORE_VERSION, 2},      {"/none", WEFT_STORE_CREATE, 0},
               {"/none", WEFT_STORE_MOD, 0},         {"/none", WEFT_STORE_VERSION, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int64_t by = -1; by <= 1; by++) { // the number compared with is below, equal to, above the key's
      struct weft_store_compare compare = {
          .key = cases[i].key, .target = cases[i].target, .number = cases[i].number + by};
      compare.relation = WEFT_STORE_EQUAL;
      assert_int_equal(holds(*state, compare), by == 0);
      compare.relation = WEFT_STORE_NOT_EQUAL;
      assert_int_equal(holds(*state, compare), by != 0);
      compare.relation = WEFT_STORE_GREATER;
      assert_int_equal(holds(*state, compare), by < 0);
      compare.relation = WEFT_STORE_LESS;
      assert_int_equal(holds(*state, compare), by > 0);
    }
  }
}

static void values_compare_as_bytes(void **state) {
  static const enum weft_store_relation relations[] = {WEFT_STORE_EQUAL, WEFT_STORE_NOT_EQUAL, WEFT_STORE_GREATER,
                                                       WEFT_STORE_LESS};
  assert_ok(weft_store_put(*state, "/val", "b\0\xff", 3, 0, NULL));
  const struct {
    const char *value;
    size_t size;
    bool wanted[4];
  } cases[] = {{"b\0\xff", 3, {true, false, false, false}},
               {"b\0", 2, {false, true, true, false}},
               {"b\1", 2, {false, true, false, true}},
               {"", 0, {false, true, true, false}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t r = 0; r < 4; r++)
      assert_int_equal(holds(*state, (struct weft_store_compare){.key = "/val",
                                                                 .target = WEFT_STORE_VALUE,
                                                                 .relation = relations[r],
                                                                 .value = cases[i].value,
                                                                 .value_len = cases[i].size}),
                       cases[i].wanted[r]);
  for (size_t r = 0; r < 4; r++)
    assert_false(
        holds(*state, (struct weft_store_compare){
                          .key = "/no-val", .target = WEFT_STORE_VALUE, .relation = relations[r], .value = ""}));
}

static void every_comparison_must_hold(void **state) {
  suite_put(*state, "/all/a", "1", 0);
  struct weft_store_compare compares[] = {
      {.key = "/all/a", .target = WEFT_STORE_VERSION, .relation = WEFT_STORE_EQUAL, .number = 1},
      {.key = "/all/b", .target = WEFT_STORE_VERSION, .relation = WEFT_STORE_EQUAL, .number = 1}};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = compares;
  txn.num_compares = 2;
  struct weft_store_txn_result *result;
  assert_ok(weft_store_txn_commit(*state, &txn, &result));
  assert_false(result->succeeded);
  weft_store_txn_result_free(result);
  txn.num_compares = 0;
  assert_ok(weft_store_txn_commit(*state, &txn, &result));
  assert_true(result->succeeded);
  weft_store_txn_result_free(result);
}

static void a_branch_runs_in_order_at_one_revision(void **state) {
  suite_put(*state, "/br/old1", "1", 0);
  int64_t before = suite_put(*state, "/br/old2", "1", 0);
  struct weft_store_op ops[] = {{.kind = WEFT_STORE_RANGE, .key = "/br/", .flags = WEFT_STORE_OP_PREFIX},
                                {.kind = WEFT_STORE_DELETE, .key = "/br/old", .flags = WEFT_STORE_OP_PREFIX},
                                put("/br/new1", "x"),
                                put("/br/new2", "y"),
                                {.kind = WEFT_STORE_RANGE, .key = "/br/", .flags = WEFT_STORE_OP_PREFIX, .limit = 1}};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.success = ops;
  txn.num_success = 5;
  struct weft_store_txn_result *result;
  assert_ok(weft_store_txn_commit(*state, &txn, &result));
  assert_int_equal(result->revision, before + 1);
  assert_int_equal(result->num_responses, 5);
  assert_int_equal(result->ranges[0]->count, 2);
  assert_int_equal(result->deleted[1], 2);
  assert_int_equal(result->deleted[2], 0);
  assert_null(result->ranges[2]);
  assert_int_equal(result->ranges[4]->count, 1);
  assert_int_equal(result->ranges[4]->total, 2);
  assert_true(result->ranges[4]->more);
  assert_string_equal(result->ranges[4]->kvs[0]->key, "/br/new1");
  assert_int_equal(result->ranges[4]->kvs[0]->mod_revision, before + 1);
  weft_store_txn_result_free(result);
}

static void a_branch_puts_a_key_at_most_once(void **state) {
  struct weft_store_op ops[] = {put("/twice", "1"), put("/twice", "2")};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.success = ops;
  txn.num_success = 2;
  struct weft_store_txn_result *result;
  struct weft_store_list *list;
  assert_fails(WEFT_ERR_INVALID, weft_store_txn_commit(*state, &txn, &result));
  assert_ok(weft_store_range(*state, "/twice", false, 0, &list));
  assert_int_equal(list->count, 0);
  weft_store_list_free(list);
}

static void a_transaction_that_fails_changes_nothing(void **state) {
  struct weft_store_op ops[] = {put("/half", "1"), put("/half2", "2")};
  ops[1].lease = 424242; // there is none
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.success = ops;
  txn.num_success = 2;
  struct weft_store_txn_result *result;
  struct weft_store_list *list;
  assert_fails(WEFT_ERR_NOT_FOUND, weft_store_txn_commit(*state, &txn, &result));
  assert_ok(weft_store_range(*state, "/half", true, 0, &list));
  assert_int_equal(list->count, 0);
  weft_store_list_free(list);
}

int suite_run_txn(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_claim_succeeds_once),
      TEST(numbers_compare_in_every_way),
      TEST(values_compare_as_bytes),
      TEST(every_comparison_must_hold),
      TEST(a_branch_runs_in_order_at_one_revision),
      TEST(a_branch_puts_a_key_at_most_once),
      TEST(a_transaction_that_fails_changes_nothing),
  };
  return cmocka_run_group_tests_name("txn", tests, NULL, NULL);
}
