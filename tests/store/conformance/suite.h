// What the parts of the conformance suite share.
#ifndef CONFORMANCE_SUITE_H
#define CONFORMANCE_SUITE_H

#include "cmocka_all.h"
#include <weft/store.h>

// Fails the test with the library's sentence.
#define assert_ok(call)                                                                                                \
  do {                                                                                                                 \
    int result_ = (call);                                                                                              \
    if (result_ != 0)                                                                                                  \
      fail_msg("%s: %s: %s", #call, weft_err_name(result_), weft_last_error());                                        \
  } while (0)

// Fails the test, with the library's sentence, unless the call returns `err`.
#define assert_fails(err, call)                                                                                        \
  do {                                                                                                                 \
    int result_ = (call);                                                                                              \
    if (result_ != (err))                                                                                              \
      fail_msg("%s: %s, not %s: %s", #call, weft_err_name(result_), weft_err_name(err),                                \
               result_ < 0 ? weft_last_error() : "");                                                                  \
  } while (0)

// Setup and teardown: `*state` is a handle of the program's kind.
int suite_open(void **state);
int suite_close(void **state);

#define TEST(name) cmocka_unit_test_setup_teardown(name, suite_open, suite_close)

// Puts a string; returns the revision.
int64_t suite_put(weft_store_t *store, const char *key, const char *value, int64_t lease);

int suite_run_kv(void);
int suite_run_txn(void);
int suite_run_lease(void);
int suite_run_watch(void);
int suite_run_threads(void);
int suite_run_endings(void);

#endif
