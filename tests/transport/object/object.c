// The transport `object` against a real server: s3_swift.py runs this with one in the environment.
#include "cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/file.h"
#include "support/sanitized.h"
#include "transport/support/storage.h"

enum { MIB = 1 << 20 };

static const char *const small_parts[] = {"part_mib=5", "parallel=4", NULL};

// Writes bytes [0, length) of the host memory as an object.
static void put(struct storage *storage, uint32_t object, uint64_t length) {
  char why[120];
  int rc = storage_move(storage, WEFT_TRANSFER_WRITE, object, 0, 0, length, why);
  if (rc != 0)
    fail_msg("put: %s: %s", weft_err_name(rc), why);
}

static void test_round_trip(void **state) {
  (void)state;
  static const uint64_t lengths[] = {1, 1000, 65536 + 7, 5 * MIB, 5 * MIB + 1, 17 * MIB + 12345};
  struct storage storage;
  assert_int_equal(storage_open(&storage, "object", small_parts, 40 * MIB), 0);
  uint32_t object = storage_object(&storage, "bucket/round/trip", 0);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    support_fill(storage.bytes, lengths[i], i);
    put(&storage, object, lengths[i]);
    memset(storage.bytes + 20 * MIB, 0, lengths[i] + 1);
    assert_int_equal(storage_move(&storage, WEFT_TRANSFER_READ, object, 20 * MIB, 0, lengths[i], NULL), 0);
    assert_memory_equal(storage.bytes, storage.bytes + 20 * MIB, lengths[i]);
    assert_int_equal(storage.bytes[20 * MIB + lengths[i]], 0);
  }
  storage_close(&storage);
}

// Pieces in any order, some of which adjoin, some overlap, over several parts; scattered in memory.
static void test_pieces(void **state) {
  (void)state;
  enum { LENGTH = 11 * MIB + 77, COUNT = SUPPORT_SANITIZED ? 30 : 60 };
  uint64_t seed = random_id();
  print_message("seed %llu\n", (unsigned long long)seed);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "object", small_parts, 64 * MIB), 0);
  uint32_t object = storage_object(&storage, "bucket/pieces", LENGTH);
  support_fill(storage.bytes, LENGTH, seed);
  struct storage_request request;
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 3); // a write of several pieces, the last one first
  storage_piece(&storage, &request, object, 6 * MIB, 6 * MIB, LENGTH - 6 * MIB);
  storage_piece(&storage, &request, object, 0, 0, 100);
  storage_piece(&storage, &request, object, 100, 100, 6 * MIB - 100);
  storage_prepare(&request);
  assert_int_equal(storage_run(&storage, &request), 0);
  assert_int_equal(request.request.moved, LENGTH);
  storage_free(&request);
  storage_request(&storage, &request, WEFT_TRANSFER_READ, COUNT + 1);
  uint64_t at = 12 * MIB, offset = 0;
  for (uint32_t i = 0; i < COUNT; i++) {
    offset = i % 3 ? offset : random_next(&seed) % (LENGTH - 70000);
    uint64_t length = 1 + random_next(&seed) % 70000;
    if (offset + length > LENGTH)
      break;
    storage_piece(&storage, &request, object, at, offset, length);
    at += length + random_next(&seed) % 100;
    offset += length; // the next two adjoin
  }
  storage_piece(&storage, &request, object, at, 0, LENGTH);
  storage_prepare(&request);
  for (int round = 0; round < 2; round++) {
    memset(storage.bytes + 12 * MIB, 0, 52 * MIB);
    assert_int_equal(storage_run(&storage, &request), 0);
    for (uint32_t i = 0; i < request.request.num_pieces; i++)
      assert_memory_equal((uint8_t *)(uintptr_t)request.pieces[i].local_address,
                          storage.bytes + request.pieces[i].remote_address, request.pieces[i].length);
  }
  storage_free(&request);
  storage_close(&storage);
}

static void test_several_objects_and_odd_names(void **state) {
  (void)state;
  static const char *const names[] = {"bucket/a b+c/%41~ü#?&=.bin", "bucket/plain", "bucket/deep/er/and..dots"};
  struct storage storage;
  assert_int_equal(storage_open(&storage, "object", NULL, 8 * MIB), 0);
  struct storage_request out, in;
  storage_request(&storage, &out, WEFT_TRANSFER_WRITE, 3);
  storage_request(&storage, &in, WEFT_TRANSFER_READ, 3);
  support_fill(storage.bytes, 3000, 9);
  for (uint32_t i = 0; i < 3; i++) {
    storage_object(&storage, names[i], 0);
    storage_piece(&storage, &out, i, 1000 * i, 0, 1000 - i);
    storage_piece(&storage, &in, i, 1 * MIB + 1000 * i, i, 1000 - 2 * i);
  }
  in.request.message = "there";
  in.request.message_size = 5;
  storage_prepare(&out);
  storage_prepare(&in);
  assert_int_equal(storage_run(&storage, &out), 0);
  assert_int_equal(storage_run(&storage, &in), 0);
  for (uint32_t i = 0; i < 3; i++)
    assert_memory_equal(storage.bytes + 1 * MIB + 1000 * i, storage.bytes + 1000 * i + i, 1000 - 2 * i);
  assert_string_equal(storage.message, "there");
  storage_free(&out);
  storage_free(&in);
  storage_close(&storage);
}

static void expect_failure(struct storage *storage, uint32_t object, uint64_t offset, uint64_t length, int err,
                           const char *words) {
  char why[120];
  int rc = storage_move(storage, WEFT_TRANSFER_READ, object, 0, offset, length, why);
  if (rc != err || !strstr(why, words))
    fail_msg("%s with \"%s\" is wanted, not %s: %s", weft_err_name(err), words, weft_err_name(rc), why);
}

static void test_what_the_server_refuses(void **state) {
  (void)state;
  struct storage storage;
  assert_int_equal(storage_open(&storage, "object", NULL, 8 * MIB), 0);
  uint32_t object = storage_object(&storage, "bucket/hundred", 0);
  uint32_t none = storage_object(&storage, "bucket/none", 0);
  uint32_t nowhere = storage_object(&storage, "no-such-bucket/none", 0);
  put(&storage, object, 100);
  expect_failure(&storage, none, 0, 10, WEFT_ERR_NOT_FOUND, "bucket/none: HTTP 404 NoSuchKey");
  expect_failure(&storage, nowhere, 0, 10, WEFT_ERR_NOT_FOUND, "NoSuchBucket");
  expect_failure(&storage, object, 100, 1, WEFT_ERR_LIMIT, "HTTP 416 InvalidRange");
  expect_failure(&storage, object, 50, 51, WEFT_ERR_LIMIT, "it ends at byte 100, but bytes up to 101");
  struct storage_request request; // each failure is its piece's
  storage_request(&storage, &request, WEFT_TRANSFER_READ, 4);
  storage_piece(&storage, &request, object, 0, 0, 10);
  storage_piece(&storage, &request, none, 100, 0, 10);
  storage_piece(&storage, &request, object, 200, 90, 11);
  storage_piece(&storage, &request, object, 300, 89, 11);
  storage_prepare(&request);
  assert_true(storage_run(&storage, &request) < 0);
  const int32_t want[] = {0, WEFT_ERR_NOT_FOUND, WEFT_ERR_LIMIT, 0};
  assert_memory_equal(request.status, want, sizeof want);
  assert_int_equal(request.request.moved, 21);
  storage_free(&request);
  storage_close(&storage);
  static const char *const stranger[] = {"secret_access_key=guess", NULL};
  assert_int_equal(storage_open(&storage, "object", stranger, MIB), 0);
  object = storage_object(&storage, "bucket/hundred", 0);
  expect_failure(&storage, object, 0, 10, WEFT_ERR_AUTH, "HTTP 403 SignatureDoesNotMatch");
  storage_close(&storage);
}

static int refused(struct storage *storage, struct storage_request *request) {
  int rc = storage->transport->prepare(&request->request);
  storage_free(request);
  return rc;
}

static void test_an_object_is_written_as_a_whole(void **state) {
  (void)state;
  struct storage storage;
  struct storage_request request;
  assert_int_equal(storage_open(&storage, "object", NULL, MIB), 0);
  uint32_t object = storage_object(&storage, "bucket/whole", 0);
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 1);
  storage_piece(&storage, &request, object, 0, 1, 10);
  assert_int_equal(refused(&storage, &request), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "bucket/whole: an object is written as a whole, by one request: nothing is "
                                            "given for byte 0"));
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 2);
  storage_piece(&storage, &request, object, 0, 0, 10);
  storage_piece(&storage, &request, object, 0, 5, 10);
  assert_int_equal(refused(&storage, &request), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "more than once is given byte 5"));
  struct transport_region *region;
  static const char *const names[] = {"bucket", "/key", "bucket/", "", NULL};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct transport_memory memory = {.kind = WEFT_MEMORY_OBJECT, .fd = -1, .path = names[i]};
    assert_int_equal(storage.transport->reg(storage.worker, &memory, &region), WEFT_ERR_INVALID);
  }
  storage_close(&storage);
}

static void test_cancel(void **state) {
  (void)state;
  struct storage storage;
  assert_int_equal(storage_open(&storage, "object", small_parts, 12 * MIB), 0);
  uint32_t object = storage_object(&storage, "bucket/cancelled", 0);
  for (uint32_t round = 0; round < 8; round++) {
    struct storage_request request;
    storage_request(&storage, &request, round % 2 ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE, 1);
    storage_piece(&storage, &request, object, 0, 0, 12 * MIB);
    if (round == 1)
      put(&storage, object, 12 * MIB);
    storage_prepare(&request);
    assert_int_equal(storage.transport->post(&request.request), 0);
    for (uint32_t i = 0; i < round * round * 20; i++)
      storage.transport->progress(storage.worker);
    storage.transport->cancel(&request.request);
    int rc = storage_wait(&storage, &request);
    assert_true(rc == 0 || rc == WEFT_ERR_CANCELED);
    assert_int_equal(request.status[0], rc);
    assert_int_equal(request.num_done, 1);
    storage_free(&request);
  }
  storage_close(&storage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_several_objects_and_odd_names),
      cmocka_unit_test(test_what_the_server_refuses),
      cmocka_unit_test(test_an_object_is_written_as_a_whole),
      cmocka_unit_test(test_cancel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
