// Structs of programs with older and newer headers, flags and reserved fields of the store's calls.
#include <string.h>

#include <weft/store.h>

#include "cmocka_all.h"

#define assert_says(call, code, word)                                                                                  \
  do {                                                                                                                 \
    assert_int_equal(call, code);                                                                                      \
    if (!strstr(weft_last_error(), word))                                                                              \
      fail_msg("%s", weft_last_error());                                                                               \
  } while (0)

static int open_store(void **state) {
  weft_store_t *store = NULL;
  int err = weft_store_open_local(&store);
  *state = store;
  return err;
}

static int close_store(void **state) {
  weft_store_close(*state);
  return 0;
}

// Entries and a transaction of the next version.
struct later_op {
  struct weft_store_op known;
  uint64_t later;
};
struct later_compare {
  struct weft_store_compare known;
  uint64_t later;
};
struct later_txn {
  struct weft_store_txn known;
  uint64_t later;
};

struct later {
  struct later_txn txn;
  struct later_compare compares[2];
  struct later_op ops[2];
};

// Puts "/a" and "/b" if neither is there.
static void fill(struct later *later) {
  *later = (struct later){
      .compares = {{{.key = "/a"}, 0}, {{.key = "/b"}, 0}},
      .ops = {{{.kind = WEFT_STORE_PUT, .key = "/a", .value = "1", .value_len = 1}, 0},
              {{.kind = WEFT_STORE_PUT, .key = "/b", .value = "2", .value_len = 1}, 0}},
  };
  later->txn.known = (struct weft_store_txn){.size = sizeof later->txn,
                                             .each_compare = sizeof *later->compares,
                                             .each_op = sizeof *later->ops,
                                             .compares = &later->compares[0].known,
                                             .num_compares = 2,
                                             .success = &later->ops[0].known,
                                             .num_success = 2};
}

static void a_newer_programs_transaction_runs(void **state) {
  struct weft_store_txn_result *result;
  struct weft_store_list *list;
  struct later later;
  fill(&later);
  assert_int_equal(weft_store_txn_commit(*state, &later.txn.known, &result), 0);
  assert_int_equal(result->succeeded, 1);
  assert_int_equal(result->num_responses, 2);
  weft_store_txn_result_free(result);
  assert_int_equal(weft_store_range(*state, "/", true, 0, &list), 0);
  assert_int_equal(list->count, 2);
  assert_string_equal(list->kvs[1]->key, "/b");
  assert_string_equal(list->kvs[1]->value, "2");
  weft_store_list_free(list);
  later.txn.known.failure = &later.ops[0].known; // both keys are there now
  later.txn.known.num_failure = 1;
  assert_int_equal(weft_store_txn_commit(*state, &later.txn.known, &result), 0);
  assert_int_equal(result->succeeded, 0);
  weft_store_txn_result_free(result);
}

static void a_field_that_is_not_known_is_named(void **state) {
  struct weft_store_txn_result *result = NULL;
  struct later later;
  fill(&later);
  later.txn.later = 1;
  assert_says(weft_store_txn_commit(*state, &later.txn.known, &result), WEFT_ERR_VERSION, "byte 72 of 80");
  fill(&later);
  later.ops[1].later = 1;
  assert_says(weft_store_txn_commit(*state, &later.txn.known, &result), WEFT_ERR_VERSION,
              "operation 1 of the transaction: byte 48 of 56");
  fill(&later);
  later.compares[1].later = 1;
  assert_says(weft_store_txn_commit(*state, &later.txn.known, &result), WEFT_ERR_VERSION,
              "comparison 1 of the transaction: byte 40 of 48");
  assert_null(result);
}

static void a_size_that_was_never_set_is_refused(void **state) {
  struct weft_store_txn_result *result = NULL;
  struct weft_store_op op = {.kind = WEFT_STORE_PUT, .key = "/k"};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.success = &op;
  txn.num_success = 1;
  txn.each_op = 0;
  assert_says(weft_store_txn_commit(*state, &txn, &result), WEFT_ERR_INVALID, "each_op is 0");
  txn.each_op = sizeof op;
  txn.size = 0;
  assert_says(weft_store_txn_commit(*state, &txn, &result), WEFT_ERR_INVALID, "*_INIT");
  txn.size = sizeof txn;
  txn.num_success = 129;
  assert_says(weft_store_txn_commit(*state, &txn, &result), WEFT_ERR_LIMIT, "129 operations");
}

static void unknown_bits_and_reserved_fields_are_refused(void **state) {
  struct weft_store_txn_result *result = NULL;
  struct weft_store_op op = {.kind = WEFT_STORE_RANGE, .key = "/k", .flags = 6};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.success = &op;
  txn.num_success = 1;
  assert_says(weft_store_txn_commit(*state, &txn, &result), WEFT_ERR_INVALID, "bit 0x6");
  op = (struct weft_store_op){.kind = WEFT_STORE_PUT, .key = "/k", .flags = WEFT_STORE_OP_PREFIX};
  assert_says(weft_store_txn_commit(*state, &txn, &result), WEFT_ERR_INVALID, "a PUT");
  op = (struct weft_store_op){.kind = WEFT_STORE_PUT, .key = "/k", .reserved = 1};
  assert_says(weft_store_txn_commit(*state, &txn, &result), WEFT_ERR_INVALID, "reserved");
  weft_store_server_t *server = NULL;
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.flags = 4 | WEFT_STORE_SERVER_INSECURE;
  int err = weft_store_server_start(&server, &options);
  if (err == WEFT_ERR_UNSUPPORTED)
    return; // a build without libmicrohttpd
  assert_says(err, WEFT_ERR_INVALID, "bit 0x4");
  options.flags = 0;
  options.reserved = 1;
  assert_says(weft_store_server_start(&server, &options), WEFT_ERR_INVALID, "reserved");
}

static void exported_functions_write_the_initial_values(void **state) {
  (void)state;
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT, client;
  memset(&client, 0xff, sizeof client);
  weft_store_options_init(&client, sizeof client);
  assert_memory_equal(&client, &options, sizeof client);
  struct weft_store_server_options served = WEFT_STORE_SERVER_OPTIONS_INIT, server;
  memset(&server, 0xff, sizeof server);
  weft_store_server_options_init(&server, sizeof server);
  assert_memory_equal(&server, &served, sizeof server);
  struct weft_store_txn macro = WEFT_STORE_TXN_INIT, txn;
  memset(&txn, 0xff, sizeof txn);
  weft_store_txn_init(&txn, sizeof txn);
  txn.each_compare = sizeof(struct weft_store_compare);
  txn.each_op = sizeof(struct weft_store_op);
  assert_memory_equal(&txn, &macro, sizeof txn);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_newer_programs_transaction_runs, open_store, close_store),
      cmocka_unit_test_setup_teardown(a_field_that_is_not_known_is_named, open_store, close_store),
      cmocka_unit_test_setup_teardown(a_size_that_was_never_set_is_refused, open_store, close_store),
      cmocka_unit_test_setup_teardown(unknown_bits_and_reserved_fields_are_refused, open_store, close_store),
      cmocka_unit_test(exported_functions_write_the_initial_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
