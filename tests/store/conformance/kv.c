// Keys, values and ranges, on every kind of store.
#include "conformance/suite.h"
#include <string.h>

static void put_then_range_gives_the_bytes_back(void **state) {
  static const char value[] = {0, 1, 'x', (char)0xff, 0, '"', '\n'};
  struct weft_store_list *list;
  int64_t revision;
  for (size_t size = 0; size <= sizeof value; size++) { // each length of base64's last group
    assert_ok(weft_store_put(*state, "/kv/bytes", value, size, 0, &revision));
    assert_ok(weft_store_range(*state, "/kv/bytes", false, 0, &list));
    assert_int_equal(list->count, 1);
    assert_int_equal(list->kvs[0]->value_len, size);
    assert_memory_equal(list->kvs[0]->value, value, size);
    assert_int_equal(((const char *)list->kvs[0]->value)[size], 0);
    assert_string_equal(list->kvs[0]->key, "/kv/bytes");
    assert_int_equal(list->kvs[0]->mod_revision, revision);
    assert_int_equal(list->kvs[0]->version, size + 1);
    assert_int_equal(list->revision, revision);
    assert_int_equal(list->kvs[0]->create_revision, revision - (int64_t)size);
    weft_store_list_free(list);
  }
}

static void each_modification_is_one_revision(void **state) {
  int64_t first = suite_put(*state, "/rev/a", "1", 0);
  assert_int_equal(suite_put(*state, "/rev/b", "1", 0), first + 1);
  size_t deleted = 99;
  assert_ok(weft_store_delete(*state, "/rev/absent", false, &deleted));
  assert_int_equal(deleted, 0);
  assert_int_equal(suite_put(*state, "/rev/c", "1", 0), first + 2); // deleting nothing modified nothing
  assert_ok(weft_store_delete(*state, "/rev/", true, &deleted));
  assert_int_equal(deleted, 3);
  assert_int_equal(suite_put(*state, "/rev/d", "1", 0), first + 4); // three keys, one request, one revision
}

static void an_absent_key_is_an_empty_list(void **state) {
  struct weft_store_list *list;
  int64_t revision = suite_put(*state, "/absent/other", "1", 0);
  assert_ok(weft_store_range(*state, "/absent/key", false, 0, &list));
  assert_int_equal(list->count, 0);
  assert_int_equal(list->total, 0);
  assert_false(list->more);
  assert_int_equal(list->revision, revision);
  weft_store_list_free(list);
}

static void a_prefix_takes_what_begins_with_it_sorted(void **state) {
  static const char *const keys[] = {"/p/b", "/p/a", "/p/a/x", "/p\xff", "/p", "/pa", "/p/\xff\xff"};
  static const char *const wanted[] = {"/p/a", "/p/a/x", "/p/b", "/p/\xff\xff"};
  struct weft_store_list *list;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    suite_put(*state, keys[i], "v", 0);
  assert_ok(weft_store_range(*state, "/p/", true, 0, &list));
  assert_int_equal(list->count, 4);
  for (size_t i = 0; i < 4; i++)
    assert_string_equal(list->kvs[i]->key, wanted[i]);
  weft_store_list_free(list);
  assert_ok(
      weft_store_range(*state, "/p/\xff", true, 0, &list)); // the end of this prefix's range is not at its last byte
  assert_int_equal(list->count, 1);
  weft_store_list_free(list);
}

static void a_limit_says_what_it_left_out(void **state) {
  struct weft_store_list *list;
  for (int i = 0; i < 5; i++)
    suite_put(*state, (char[]){'/', 'l', '/', (char)('0' + i), 0}, "v", 0);
  assert_ok(weft_store_range(*state, "/l/", true, 2, &list));
  assert_int_equal(list->count, 2);
  assert_int_equal(list->total, 5);
  assert_true(list->more);
  assert_string_equal(list->kvs[1]->key, "/l/1");
  weft_store_list_free(list);
  assert_ok(weft_store_range(*state, "/l/", true, 5, &list));
  assert_int_equal(list->count, 5);
  assert_false(list->more);
  weft_store_list_free(list);
}

static void the_empty_prefix_is_every_key(void **state) {
  struct weft_store_list *list;
  size_t deleted;
  suite_put(*state, "\x01low", "v", 0);
  suite_put(*state, "\xff\xff", "v", 0);
  assert_ok(weft_store_range(*state, "", true, 0, &list));
  assert_true(list->count >= 2);
  size_t count = list->count;
  assert_string_equal(list->kvs[0]->key, "\x01low");
  assert_string_equal(list->kvs[count - 1]->key, "\xff\xff");
  weft_store_list_free(list);
  assert_ok(weft_store_delete(*state, "", true, &deleted));
  assert_int_equal(deleted, count);
}

static void a_key_that_was_deleted_begins_anew(void **state) {
  struct weft_store_list *list;
  suite_put(*state, "/anew", "1", 0);
  suite_put(*state, "/anew", "2", 0);
  assert_ok(weft_store_delete(*state, "/anew", false, NULL));
  int64_t revision = suite_put(*state, "/anew", "3", 0);
  assert_ok(weft_store_range(*state, "/anew", false, 0, &list));
  assert_int_equal(list->kvs[0]->version, 1);
  assert_int_equal(list->kvs[0]->create_revision, revision);
  weft_store_list_free(list);
}

static void a_value_of_a_megabyte_passes(void **state) {
  enum { SIZE = 1 << 20 };
  struct weft_store_list *list;
  char *value = test_malloc(SIZE);
  for (size_t i = 0; i < SIZE; i++)
    value[i] = (char)(i * 2654435761u >> 13);
  assert_ok(weft_store_put(*state, "/big", value, SIZE, 0, NULL));
  assert_ok(weft_store_range(*state, "/big", false, 0, &list));
  assert_int_equal(list->kvs[0]->value_len, SIZE);
  assert_memory_equal(list->kvs[0]->value, value, SIZE);
  weft_store_list_free(list);
  test_free(value);
}

static void the_server_says_its_version(void **state) {
  char version[64] = "", little[2] = "x";
  size_t size = 0, asked = 0;
  assert_ok(weft_store_version(*state, version, sizeof version, &size));
  assert_true(strchr(version, '.') != NULL);
  assert_int_equal(size, strlen(version) + 1);
  assert_ok(weft_store_version(*state, version, size, NULL));
  assert_ok(weft_store_version(*state, NULL, 0, &asked));
  assert_int_equal(asked, size);
  asked = 0;
  assert_fails(WEFT_ERR_ROOM, weft_store_version(*state, little, sizeof little, &asked));
  assert_int_equal(asked, size);
  assert_string_equal(little, "x");
  assert_fails(WEFT_ERR_INVALID, weft_store_version(*state, NULL, 2, &asked));
}

static void bad_arguments_are_refused(void **state) {
  struct weft_store_list *list;
  assert_fails(WEFT_ERR_INVALID, weft_store_put(*state, "", "v", 1, 0, NULL));
  assert_fails(WEFT_ERR_INVALID, weft_store_put(*state, NULL, "v", 1, 0, NULL));
  assert_fails(WEFT_ERR_INVALID, weft_store_range(*state, "", false, 0, &list));
  assert_fails(WEFT_ERR_INVALID, weft_store_delete(*state, "", false, NULL));
  assert_true(*weft_last_error());
}

// No byte of it is read: there are not so many.
static void a_length_that_is_none_is_refused(void **state) {
  static const size_t lengths[] = {(16 << 20) + 1, SIZE_MAX / 2, SIZE_MAX / 4 * 3, SIZE_MAX - 1, SIZE_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    struct weft_store_compare compare = {.key = "/n", .target = WEFT_STORE_VALUE, .value = "v"};
    struct weft_store_op op = {.kind = WEFT_STORE_PUT, .key = "/n", .value = "v", .value_len = lengths[i]};
    struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
    struct weft_store_txn_result *result;
    assert_fails(WEFT_ERR_LIMIT, weft_store_put(*state, "/n", "v", lengths[i], 0, NULL));
    txn.success = &op;
    txn.num_success = 1;
    assert_fails(WEFT_ERR_LIMIT, weft_store_txn_commit(*state, &txn, &result));
    compare.value_len = lengths[i];
    op.value_len = 1;
    txn.compares = &compare;
    txn.num_compares = 1;
    assert_fails(WEFT_ERR_LIMIT, weft_store_txn_commit(*state, &txn, &result));
  }
}

int suite_run_kv(void) {
  const struct CMUnitTest tests[] = {
      TEST(put_then_range_gives_the_bytes_back), TEST(each_modification_is_one_revision),
      TEST(an_absent_key_is_an_empty_list),      TEST(a_prefix_takes_what_begins_with_it_sorted),
      TEST(a_limit_says_what_it_left_out),       TEST(the_empty_prefix_is_every_key),
      TEST(a_key_that_was_deleted_begins_anew),  TEST(a_value_of_a_megabyte_passes),
      TEST(the_server_says_its_version),         TEST(bad_arguments_are_refused),
      TEST(a_length_that_is_none_is_refused),
  };
  return cmocka_run_group_tests_name("kv", tests, NULL, NULL);
}
