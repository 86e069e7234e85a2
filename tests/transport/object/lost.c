// The transport `object` when answers of the server are lost, or late: s3_wrong.py runs this, and says what the names
// of objects mean.
#include "cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/file.h"
#include "transport/support/storage.h"

enum { MIB = 1 << 20, PARTS = 6 * MIB };

// A number of the server's report.
static long reported(struct storage *storage, const char *name) {
  uint32_t object = storage_object(storage, "bucket/report", 0);
  char text[201] = "", wanted[32];
  assert_int_equal(storage_move(storage, WEFT_TRANSFER_READ, object, 0, 0, 200, NULL), 0);
  memcpy(text, storage->bytes, 200);
  snprintf(wanted, sizeof wanted, "%s=", name);
  const char *found = strstr(text, wanted);
  assert_non_null(found);
  return atol(found + strlen(wanted));
}

// The server has completed the upload, and resets the connection instead of answering. Either libcurl sends the request
// again by itself, since the connection had been used before, or the transport does. The server then knows no such
// upload, which does not say that the object is not there.
static void test_a_completion_whose_answer_is_lost(void **state) {
  (void)state;
  static const char *const retries[] = {"retries=0", "retries=3"};
  for (size_t i = 0; i < sizeof retries / sizeof *retries; i++) {
    const char *const settings[] = {"part_mib=5", "parallel=1", "backoff_ms=1", retries[i], NULL};
    struct storage storage;
    char why[120];
    assert_int_equal(storage_open(&storage, "object", settings, PARTS + MIB), 0);
    uint32_t object = storage_object(&storage, "bucket/complete-lost/parts", 0);
    support_fill(storage.bytes, PARTS, i);
    int rc = storage_move(&storage, WEFT_TRANSFER_WRITE, object, 0, 0, PARTS, why);
    if (rc != WEFT_ERR_UNREACHABLE || !strstr(why, "it may have been written"))
      fail_msg("%s: %s: %s", retries[i], weft_err_name(rc), why);
    assert_int_equal(storage_move(&storage, WEFT_TRANSFER_READ, object, PARTS, PARTS - 1000, 1000, why), 0);
    assert_memory_equal(storage.bytes + PARTS, storage.bytes + PARTS - 1000, 1000); // and so it was
    storage_close(&storage);
  }
}

// A server that answers with success before it has the bytes does not have them. libcurl then stops, without an error.
static void test_an_answer_before_the_body(void **state) {
  (void)state;
  static const uint64_t lengths[] = {4 * MIB, PARTS}; // in one part, in two
  static const char *const settings[] = {"part_mib=5", "backoff_ms=1", NULL};
  struct storage storage;
  char why[120];
  assert_int_equal(storage_open(&storage, "object", settings, PARTS), 0);
  uint32_t once = storage_object(&storage, "bucket/early,1/once", 0);
  uint32_t often = storage_object(&storage, "bucket/early,99/often", 0);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    assert_int_equal(storage_move(&storage, WEFT_TRANSFER_WRITE, once, 0, 0, lengths[i], why), 0);
    int rc = storage_move(&storage, WEFT_TRANSFER_WRITE, often, 0, 0, lengths[i], why);
    if (rc != WEFT_ERR_PROTOCOL || !strstr(why, "the server answered after "))
      fail_msg("%llu bytes: %s: %s", (unsigned long long)lengths[i], weft_err_name(rc), why);
  }
  storage_close(&storage);
}

// The only lane waits for the id of an upload whose request is cancelled meanwhile. The upload has failed to begin, and
// is not begun once more just to be aborted, while other requests wait for the lane.
static void test_an_upload_that_nobody_wants_any_more(void **state) {
  (void)state;
  static const char *const settings[] = {"part_mib=5", "parallel=1", "backoff_ms=1", NULL};
  struct storage storage;
  struct storage_request request;
  char why[120];
  assert_int_equal(storage_open(&storage, "object", settings, PARTS), 0);
  uint32_t object = storage_object(&storage, "bucket/late-fail,1/parts", 0);
  long before = reported(&storage, "aborts");
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 1);
  storage_piece(&storage, &request, object, 0, 0, PARTS);
  storage_prepare(&request);
  assert_int_equal(storage.transport->post(&request.request), 0);
  storage.transport->progress(storage.worker);
  storage.transport->cancel(&request.request);
  assert_int_equal(storage_wait(&storage, &request), WEFT_ERR_CANCELED);
  object = storage_object(&storage, "bucket/good/behind", 0);
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_READ, object, 0, 0, 10, why), 0);
  assert_int_equal(reported(&storage, "aborts"), before);
  storage_free(&request);
  storage_close(&storage);
}

// The attempt that the deadline ends has no reason to report, but the one before it has.
static void test_a_query_names_the_failure_before_its_deadline(void **state) {
  (void)state;
  static const struct {
    const char *path, *words;
  } cases[] = {
      {"bucket/hang,99/asked", "Timeout was reached"},
      {"bucket/slowdown,1/then-hang", "no answer in time after: bucket/slowdown,1/then-hang: HTTP 503"},
  };
  static const char *const settings[] = {"backoff_ms=1", NULL};
  struct storage storage;
  uint64_t length;
  assert_int_equal(storage_open(&storage, "object", settings, MIB), 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int rc = storage.transport->query(storage.worker, cases[i].path, 2000, &length);
    if (rc != WEFT_ERR_TIMEOUT || !strstr(weft_last_error(), cases[i].words))
      fail_msg("%s: %s: %s", cases[i].path, weft_err_name(rc), weft_last_error());
  }
  storage_close(&storage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_completion_whose_answer_is_lost),
      cmocka_unit_test(test_an_answer_before_the_body),
      cmocka_unit_test(test_an_upload_that_nobody_wants_any_more),
      cmocka_unit_test(test_a_query_names_the_failure_before_its_deadline),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
