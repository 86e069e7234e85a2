// The error table and the last error's sentence.
#include "base/fail.h"
#include "cmocka_all.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  int value;
  const char *name;
  const char *text;
} table[] = {
#define ROW(name, value, scope, exit_status, text) {value, #name, text},
    WEFT_ERR_MAP(ROW)
#undef ROW
};
enum { ROWS = sizeof table / sizeof *table };

static void every_code_has_a_name_a_text_a_scope_and_an_exit_status(void **state) {
  (void)state;
  static const int statuses[] = {1, 2, 3, 4, 5, 124};
  for (int i = 0; i < ROWS; i++) {
    int code = table[i].value;
    assert_true(code < 0);
    assert_string_equal(weft_err_name(code), table[i].name);
    assert_string_equal(weft_strerror(code), table[i].text);
    assert_string_not_equal(weft_strerror(code), "");
    assert_uint_in_range(weft_err_scope(code), WEFT_SCOPE_REQUEST, WEFT_SCOPE_SELF);
    bool known = false;
    for (size_t k = 0; k < sizeof statuses / sizeof *statuses; k++)
      known = known || weft_err_exit_status(code) == statuses[k];
    assert_true(known);
  }
}

static void codes_names_and_texts_are_unique_and_without_gaps(void **state) {
  (void)state;
  for (int i = 0; i < ROWS; i++) {
    assert_int_equal(table[i].value, -(i + 1)); // part of the ABI: appended in order
    for (int k = 0; k < i; k++) {
      assert_string_not_equal(table[i].name, table[k].name);
      assert_string_not_equal(table[i].text, table[k].text);
    }
  }
}

static void success_and_unknown_codes_have_answers_too(void **state) {
  (void)state;
  assert_string_equal(weft_err_name(WEFT_OK), "OK");
  assert_string_equal(weft_strerror(WEFT_OK), "success");
  assert_int_equal(weft_err_exit_status(WEFT_OK), 0);
  assert_int_equal(weft_err_scope(WEFT_OK), WEFT_SCOPE_NONE);
  const int unknown[] = {1, -(ROWS + 1), -9999};
  for (int i = 0; i < 3; i++) {
    assert_string_equal(weft_err_name(unknown[i]), "UNKNOWN");
    assert_string_equal(weft_strerror(unknown[i]), "unknown error");
    assert_int_equal(weft_err_exit_status(unknown[i]), 1);
    assert_int_equal(weft_err_scope(unknown[i]), WEFT_SCOPE_NONE);
  }
}

static void fail_keeps_the_sentence_and_returns_the_code(void **state) {
  (void)state;
  assert_int_equal(fail(WEFT_ERR_TIMEOUT, "rank %d did not come", 6), WEFT_ERR_TIMEOUT);
  assert_string_equal(weft_last_error(), "rank 6 did not come");
}

static void fail_context_goes_before_the_sentence(void **state) {
  (void)state;
  int err = fail(WEFT_ERR_UNREACHABLE, "connection refused");
  assert_int_equal(fail_context(err, "claiming rank %d", 3), WEFT_ERR_UNREACHABLE);
  assert_string_equal(weft_last_error(), "claiming rank 3: connection refused");
}

static void fail_errno_names_the_cause_and_chooses_the_code(void **state) {
  (void)state;
  assert_int_equal(fail_errno(ENOENT, "opening %s", "plan.json"), WEFT_ERR_SYSTEM);
  assert_string_equal(weft_last_error(), "opening plan.json: No such file or directory");
  assert_int_equal(fail_errno(ENOMEM, "window"), WEFT_ERR_NOMEM);
  const int limits[] = {EMFILE, ENFILE, ENOSPC, EDQUOT};
  for (int i = 0; i < 4; i++)
    assert_int_equal(fail_errno(limits[i], "window"), WEFT_ERR_LIMIT);
}

static void a_sentence_too_long_is_cut_not_overrun(void **state) {
  (void)state;
  char *longest = malloc(5000);
  assert_non_null(longest);
  memset(longest, 'x', 4999);
  longest[4999] = '\0';
  fail(WEFT_ERR_INVALID, "%s", longest);
  size_t kept = strlen(weft_last_error());
  assert_uint_in_range(kept, 500, 4998);
  fail_context(WEFT_ERR_INVALID, "context");
  assert_int_equal(strncmp(weft_last_error(), "context: xxx", 12), 0);
  assert_int_equal(strlen(weft_last_error()), kept);
  fail_errno(ENOENT, "%s", longest);
  assert_int_equal(strlen(weft_last_error()), kept);
  fail_context(WEFT_ERR_INVALID, "%s", longest);
  assert_int_equal(strlen(weft_last_error()), kept);
  free(longest);
}

static void *other_thread(void *arg) {
  bool *empty = arg;
  *empty = weft_last_error()[0] == '\0';
  fail(WEFT_ERR_DATA, "of the other thread");
  return NULL;
}

static void each_thread_has_its_own_sentence(void **state) {
  (void)state;
  fail(WEFT_ERR_BUSY, "of this thread");
  bool empty = false;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, other_thread, &empty), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(empty);
  assert_string_equal(weft_last_error(), "of this thread");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_has_a_name_a_text_a_scope_and_an_exit_status),
      cmocka_unit_test(codes_names_and_texts_are_unique_and_without_gaps),
      cmocka_unit_test(success_and_unknown_codes_have_answers_too),
      cmocka_unit_test(fail_keeps_the_sentence_and_returns_the_code),
      cmocka_unit_test(fail_context_goes_before_the_sentence),
      cmocka_unit_test(fail_errno_names_the_cause_and_chooses_the_code),
      cmocka_unit_test(a_sentence_too_long_is_cut_not_overrun),
      cmocka_unit_test(each_thread_has_its_own_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
