// The transport `object` against a server that misbehaves: s3_wrong.py runs this with one in the environment, and says
// what the names of objects mean.
#include "cmocka_all.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/file.h"
#include "support/wait.h"
#include "transport/support/storage.h"

enum { MIB = 1 << 20, FULL = 12 * MIB };

static const char *const quick[] = {"backoff_ms=1", "retries=3", "part_mib=5", "stall_s=1", NULL};

// What the server has: the n-th byte of every object that nobody wrote.
static uint8_t served(uint64_t n) {
  return (uint8_t)((n * 7 + n / 251) % 256);
}

static struct storage open_storage(void) {
  struct storage storage;
  assert_int_equal(storage_open(&storage, "object", quick, 2 * FULL), 0);
  return storage;
}

// A number of the server's report.
static long reported(struct storage *storage, const char *name) {
  uint32_t object = storage_object(storage, "bucket/report", 0);
  char text[201] = "", wanted[32];
  uint64_t at = storage->length - 200;
  assert_int_equal(storage_move(storage, WEFT_TRANSFER_READ, object, at, 0, 200, NULL), 0);
  memcpy(text, storage->bytes + at, 200);
  snprintf(wanted, sizeof wanted, "%s=", name);
  const char *found = strstr(text, wanted);
  assert_non_null(found);
  return atol(found + strlen(wanted));
}

// --- libcurl, when it has no memory to go on with ---

static int wrap_lost; // calls that end so, and leave what they were to do

CURLMcode __real_curl_multi_socket_action(CURLM *multi, curl_socket_t socket, int bits, int *running);
CURLMcode __wrap_curl_multi_socket_action(CURLM *multi, curl_socket_t socket, int bits, int *running);

CURLMcode __wrap_curl_multi_socket_action(CURLM *multi, curl_socket_t socket, int bits, int *running) {
  if (wrap_lost > 0 && wrap_lost--)
    return CURLM_OUT_OF_MEMORY;
  return __real_curl_multi_socket_action(multi, socket, bits, running);
}

// It never comes back to what it was at.
static void test_curl_without_memory(void **state) {
  (void)state;
  struct storage storage = open_storage();
  uint32_t object = storage_object(&storage, "bucket/good/lost", 0);
  char why[120] = "";
  memset(storage.bytes, 0, 1000);
  wrap_lost = 3; // as often as is tried again
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_READ, object, 0, 0, 1000, why), 0);
  assert_int_equal(wrap_lost, 0);
  for (uint32_t i = 0; i < 1000; i++)
    assert_int_equal(storage.bytes[i], served(i));
  wrap_lost = 4;
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_READ, object, 0, 0, 1000, why), WEFT_ERR_NOMEM);
  assert_non_null(strstr(why, "bucket/good/lost: "));
  assert_int_equal(wrap_lost, 0);
  support_fill(storage.bytes, FULL, 3);
  wrap_lost = 2; // before anything is sent: no upload is begun twice
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_WRITE, object, 0, 0, FULL, why), 0);
  assert_int_equal(reported(&storage, "open"), 0);
  storage_close(&storage);
}

static const struct {
  const char *path;
  int err;
  const char *words;
} reads[] = {
    {"bucket/good/x", 0, ""},
    // Passing faults are waited out,
    {"bucket/fail,3/x", 0, ""},
    {"bucket/slowdown,2/x", 0, ""},
    {"bucket/cut,3/x", 0, ""},
    {"bucket/broken,2/x", 0, ""},
    {"bucket/short,1/x", 0, ""},
    {"bucket/html,1/x", 0, ""},
    {"bucket/stall,1/x", 0, ""},
    // a bounded number of times,
    {"bucket/fail,4/x", WEFT_ERR_UNREACHABLE, "bucket/fail,4/x: HTTP 500 InternalError: It is told to."},
    {"bucket/slowdown,9/x", WEFT_ERR_UNREACHABLE, "HTTP 503 SlowDown"},
    {"bucket/html,9/x", WEFT_ERR_UNREACHABLE, "HTTP 502"},
    {"bucket/cut,9/x", WEFT_ERR_UNREACHABLE, "bucket/cut,9/x: "},
    {"bucket/broken,9/x", WEFT_ERR_UNREACHABLE, "bucket/broken,9/x: "},
    {"bucket/short,9/x", WEFT_ERR_PROTOCOL, "the server sent 500 bytes, but 1000 were requested"},
    {"bucket/empty,9/x", WEFT_ERR_PROTOCOL, "the server sent 0 bytes, but 1000 were requested"},
    // and lasting ones are told at once.
    {"bucket/forbid,1/x", WEFT_ERR_AUTH, "HTTP 403 AccessDenied"},
    {"bucket/expired,1/x", WEFT_ERR_AUTH, "HTTP 400 ExpiredToken"},
    {"bucket/missing,1/x", WEFT_ERR_NOT_FOUND, "HTTP 404 NoSuchKey"},
    {"bucket/moved,1/x", WEFT_ERR_UNREACHABLE, "HTTP 301 PermanentRedirect"},
    {"bucket/full,1/x", WEFT_ERR_LIMIT, "HTTP 507 InsufficientStorage"},
    {"bucket/other-range,1/x", WEFT_ERR_PROTOCOL, "the server sent bytes 101-1100, but 100-1099 were requested"},
    {"bucket/no-range,1/x", WEFT_ERR_PROTOCOL, "the server ignores the requested range (HTTP 200)"},
    {"bucket/no-header,1/x", WEFT_ERR_PROTOCOL, "the server ignores the requested range (HTTP 206)"},
    {"bucket/unnamed,1/x", 0, ""}, // in one part
    {"bucket/weak,1/x", 0, ""},
    {"bucket/long,1/x", WEFT_ERR_PROTOCOL, "the server sent more bytes than were requested"},
};

static void test_reads(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
    struct storage storage = open_storage();
    uint32_t object = storage_object(&storage, reads[i].path, 0);
    char why[120];
    memset(storage.bytes, 0xEE, 3000);
    int rc = storage_move(&storage, WEFT_TRANSFER_READ, object, 1000, 100, 1000, why);
    if (rc != reads[i].err || !strstr(why, reads[i].words))
      fail_msg("%s: %s with \"%s\" is wanted, not %s: %s", reads[i].path, weft_err_name(reads[i].err), reads[i].words,
               weft_err_name(rc), why);
    for (uint32_t k = 0; k < 1000; k++) { // whatever happened: no byte outside the piece
      assert_int_equal(storage.bytes[k], 0xEE);
      assert_int_equal(storage.bytes[2000 + k], 0xEE);
      if (rc == 0)
        assert_int_equal(storage.bytes[1000 + k], served(100 + k));
    }
    storage_close(&storage);
  }
}

static const struct {
  const char *path;
  int first, second;
  const char *words;
} versions[] = {
    {"bucket/changed,9/x", 0, WEFT_ERR_CONFLICT, "it was changed while it was read"},
    {"bucket/ignores-match,9/x", 0, WEFT_ERR_CONFLICT, "it was changed while it was read"},
    {"bucket/long-names,9/x", 0, WEFT_ERR_CONFLICT, "it was changed while it was read"},
    {"bucket/unnamed,9/x", WEFT_ERR_UNSUPPORTED, WEFT_ERR_UNSUPPORTED, "the server gives no ETag"},
    {"bucket/endless-names,9/x", WEFT_ERR_UNSUPPORTED, WEFT_ERR_UNSUPPORTED, "the server gives no ETag"},
    {"bucket/weak,9/x", WEFT_ERR_UNSUPPORTED, WEFT_ERR_UNSUPPORTED, "the server gives no strong ETag"},
};

static void test_all_parts_are_of_one_version(void **state) {
  (void)state;
  struct storage storage = open_storage();
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    uint32_t object = storage_object(&storage, versions[i].path, 0);
    struct storage_request request;
    storage_request(&storage, &request, WEFT_TRANSFER_READ, 2);
    storage_piece(&storage, &request, object, 0, 0, 10);
    storage_piece(&storage, &request, object, 10, 1000, 10);
    storage_prepare(&request);
    assert_int_equal(storage_run(&storage, &request), versions[i].second);
    assert_non_null(strstr(request.request.why, versions[i].words));
    assert_int_equal(request.status[0], versions[i].first);
    assert_int_equal(request.status[1], versions[i].second);
    storage_free(&request);
  }
  assert_int_equal(reported(&storage, "matched"), 2); // sent to three; the first answers before it counts
  assert_int_equal(reported(&storage, "unsigned"), 0);
  storage_close(&storage);
}

static const struct {
  const char *path;
  uint64_t length;
  int err;
  const char *words;
  long aborts;
} writes[] = {
    {"bucket/good/small", 1000, 0, "", 0},
    {"bucket/good/parts", FULL + 5, 0, "", 0},
    {"bucket/slowdown,3/small", 1000, 0, "", 0},
    {"bucket/cut,3/small", 1000, 0, "", 0},
    {"bucket/cut,3/parts", FULL, 0, "", 0},
    {"bucket/fail,2/parts", FULL, 0, "", 0},
    {"bucket/forbid,1/small", 1000, WEFT_ERR_AUTH, "HTTP 403 AccessDenied", 0},
    {"bucket/forbid,1/parts", FULL, WEFT_ERR_AUTH, "HTTP 403 AccessDenied", 0},
    {"bucket/no-etag,9/parts", FULL, WEFT_ERR_PROTOCOL, "the server gave no ETag for a part", 1},
    {"bucket/complete-fails/parts", FULL, WEFT_ERR_UNREACHABLE, "HTTP 200 InternalError: We tried.", 1},
};

static bool has_aborted(void *arg) {
  struct storage *storage = arg;
  storage->transport->progress(storage->worker);
  return reported(storage, "open") == 0;
}

static void test_writes(void **state) {
  (void)state;
  long before = 0;
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
    struct storage storage = open_storage();
    uint32_t object = storage_object(&storage, writes[i].path, 0);
    char why[120];
    support_fill(storage.bytes, writes[i].length, i);
    int rc = storage_move(&storage, WEFT_TRANSFER_WRITE, object, 0, 0, writes[i].length, why);
    if (rc != writes[i].err || !strstr(why, writes[i].words))
      fail_msg("%s: %s with \"%s\" is wanted, not %s: %s", writes[i].path, weft_err_name(writes[i].err),
               writes[i].words, weft_err_name(rc), why);
    if (rc == 0) {
      uint64_t piece = 500;
      assert_int_equal(
          storage_move(&storage, WEFT_TRANSFER_READ, object, FULL + 100, writes[i].length - piece, piece, NULL), 0);
      assert_memory_equal(storage.bytes + FULL + 100, storage.bytes + writes[i].length - piece, piece);
    }
    for (int asked = 0; asked < 10 && !has_aborted(&storage); asked++)
      ; // a report takes one of few places among the regions
    assert_int_equal(reported(&storage, "open"), 0);
    long aborts = reported(&storage, "aborts");
    assert_int_equal(aborts - before, writes[i].aborts);
    before = aborts;
    storage_close(&storage);
  }
}

// What is under way when the worker closes leaves no unfinished upload behind.
static void test_cancelled_uploads_are_aborted(void **state) {
  (void)state;
  for (uint32_t steps = 0; steps < 400; steps += 80) {
    struct storage storage = open_storage();
    uint32_t object = storage_object(&storage, "bucket/good/cancelled", 0);
    struct storage_request request;
    storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 1);
    storage_piece(&storage, &request, object, 0, 0, FULL);
    storage_prepare(&request);
    assert_int_equal(storage.transport->post(&request.request), 0);
    for (uint32_t i = 0; i < steps; i++)
      storage.transport->progress(storage.worker);
    storage.transport->cancel(&request.request);
    int rc = storage_wait(&storage, &request);
    assert_true(rc == 0 || rc == WEFT_ERR_CANCELED);
    storage_free(&request);
    storage_close(&storage);
    storage = open_storage();
    assert_int_equal(reported(&storage, "open"), 0);
    storage_close(&storage);
  }
}

// A server that never answers does not hold up the end of a request, nor of a worker.
static void test_a_server_that_hangs(void **state) {
  (void)state;
  struct storage storage = open_storage();
  uint32_t object = storage_object(&storage, "bucket/hang,99/x", 0);
  struct storage_request request;
  storage_request(&storage, &request, WEFT_TRANSFER_READ, 1);
  storage_piece(&storage, &request, object, 0, 0, 10);
  storage_prepare(&request);
  assert_int_equal(storage.transport->post(&request.request), 0);
  for (uint32_t i = 0; i < 100; i++)
    storage.transport->progress(storage.worker);
  assert_int_equal(request.request.state, TRANSPORT_IN_FLIGHT);
  storage.transport->cancel(&request.request);
  assert_int_equal(storage_wait(&storage, &request), WEFT_ERR_CANCELED);
  assert_int_equal(storage.transport->post(&request.request), 0); // and again, until the stall is noticed
  storage.transport->progress(storage.worker);
  storage_close(&storage);
  assert_int_equal(request.request.state, WEFT_ERR_CANCELED);
  storage.transport->unprepare(&request.request);
  request.request.own = NULL;
  storage_free(&request);
}

// The end of an upload that nobody waits for any more, at a server that is never done with its answer.
static void test_an_abort_that_drips(void **state) {
  (void)state;
  const char *const settings[] = {"backoff_ms=1", "part_mib=5", "stall_s=60", "parallel=1", "timeout_s=1", NULL};
  struct storage storage;
  char why[120];
  assert_int_equal(storage_open(&storage, "object", settings, 2 * FULL), 0);
  uint32_t object = storage_object(&storage, "bucket/complete-fails/drips", 0);
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_WRITE, object, 0, 0, FULL, why), WEFT_ERR_UNREACHABLE);
  object = storage_object(&storage, "bucket/good/behind", 0);
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_READ, object, 0, 0, 10, why), 0); // by the only lane
  storage_close(&storage);
}

// The object goes between the post and the first progress(): nothing of the request has begun, and nothing will.
static void test_an_object_that_goes_before_its_request_begins(void **state) {
  (void)state;
  enum { WAIT, CANCEL, CLOSE, ENDS };
  for (int end = WAIT; end < ENDS; end++) {
    struct storage storage = open_storage();
    uint32_t object = storage_object(&storage, "bucket/good/goes", 0);
    struct storage_request request;
    storage_request(&storage, &request, WEFT_TRANSFER_READ, 1);
    storage_piece(&storage, &request, object, 0, 0, 10);
    storage_prepare(&request);
    assert_int_equal(storage.transport->post(&request.request), 0);
    storage.transport->unreg(storage.regions[object]);
    assert_int_equal(storage.transport->arm(storage.worker), WEFT_ERR_BUSY); // no descriptor would wake a sleeper
    if (end == CANCEL)
      storage.transport->cancel(&request.request);
    if (end == CLOSE)
      storage_close(&storage);
    else
      storage_wait(&storage, &request);
    assert_int_equal(request.request.state, end == WAIT ? WEFT_ERR_NOT_FOUND : WEFT_ERR_CANCELED);
    assert_int_equal(request.num_done, 1);
    if (end != CLOSE) {
      storage_free(&request);
      storage_close(&storage);
      continue;
    }
    storage.transport->unprepare(&request.request);
    request.request.own = NULL;
    storage_free(&request);
  }
}

static void test_pieces_that_adjoin_are_one_request(void **state) {
  (void)state;
  enum { COUNT = 100 };
  struct storage storage = open_storage();
  uint32_t object = storage_object(&storage, "bucket/good/adjoin", 0);
  struct storage_request request;
  storage_request(&storage, &request, WEFT_TRANSFER_READ, COUNT);
  for (uint64_t i = 0; i < COUNT; i++) // the last first, and apart in memory
    storage_piece(&storage, &request, object, i * 50, (COUNT - 1 - i) * 30, 30);
  storage_prepare(&request);
  long before = reported(&storage, "gets");
  assert_int_equal(storage_run(&storage, &request), 0);
  assert_int_equal(reported(&storage, "gets") - before, 1);
  for (uint64_t i = 0; i < COUNT * 30; i++)
    assert_int_equal(storage.bytes[(COUNT - 1 - i / 30) * 50 + i % 30], served(i));
  storage_free(&request);
  storage_close(&storage);
}

// The answer of a HEAD that fails has a length, too: that of the error's text.
static void test_queries(void **state) {
  (void)state;
  enum { UNTOUCHED = 77 };
  static const struct {
    const char *path;
    int err;
  } cases[] = {
      {"bucket/good/asked", 0},
      {"bucket/slowdown,2/asked", 0}, // the third attempt succeeds
      {"bucket/missing,99/asked", WEFT_ERR_NOT_FOUND},
      {"bucket/forbid,99/asked", WEFT_ERR_AUTH},
      {"bucket/fail,99/asked", WEFT_ERR_UNREACHABLE},
      {"bucket/no-length,99/asked", WEFT_ERR_PROTOCOL},
      {"no key", WEFT_ERR_INVALID},
  };
  struct storage storage = open_storage();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint64_t length = UNTOUCHED;
    int rc = storage.transport->query(storage.worker, cases[i].path, SUPPORT_DEADLINE_MS, &length);
    if (rc != cases[i].err || length != (rc == 0 ? MIB : UNTOUCHED))
      fail_msg("%s: %s and %llu bytes: %s", cases[i].path, weft_err_name(rc), (unsigned long long)length,
               weft_last_error());
  }
  storage_close(&storage);
}

// One read with these settings, "endpoint" with this URL.
static int read_from(const char *url, const char *more, char *why) {
  char endpoint[128], setting[256];
  snprintf(endpoint, sizeof endpoint, "endpoint=%s", url);
  snprintf(setting, sizeof setting, "%s", more);
  const char *const settings[] = {endpoint, setting, "retries=1", "backoff_ms=1", NULL};
  struct storage storage;
  assert_int_equal(storage_open(&storage, "object", settings, 4096), 0);
  uint32_t object = storage_object(&storage, "bucket/good/any", 0);
  int rc = storage_move(&storage, WEFT_TRANSFER_READ, object, 0, 3, 1000, why);
  for (uint32_t i = 0; rc == 0 && i < 1000; i++)
    assert_int_equal(storage.bytes[i], served(3 + i));
  storage_close(&storage);
  return rc;
}

static void test_tls_and_virtual_hosts(void **state) {
  (void)state;
  char why[120], ca[256], url[128];
  const char *tls = getenv("WRONG_TLS_URL"), *plain = getenv("AWS_ENDPOINT_URL");
  snprintf(ca, sizeof ca, "ca_file=%s", getenv("WRONG_CA"));
  assert_int_equal(read_from(tls, ca, why), 0);
  assert_int_equal(read_from(tls, "style=path", why), WEFT_ERR_AUTH); // signed by nobody that is known
  assert_non_null(strstr(why, "certificate"));
  assert_int_equal(read_from(tls, "ca_file=/no such bundle,style=path", why), WEFT_ERR_AUTH);
  assert_non_null(strstr(why, "certificate"));
  snprintf(url, sizeof url, "http://localhost%s", strrchr(plain, ':'));
  assert_int_equal(read_from(url, "style=virtual", why), 0);
}

static void expect_open(const char *const *settings, int err, const char *words) {
  struct storage storage;
  assert_int_equal(storage_open(&storage, "object", settings, 4096), err);
  if (err < 0 && !strstr(weft_last_error(), words))
    fail_msg("\"%s\" is wanted, not: %s", words, weft_last_error());
  if (err == 0)
    storage_close(&storage);
}

// A setting that ends with so many letters is refused, and one with a letter less is not.
static void expect_long(const char *name, const char *more, size_t letters, const char *words) {
  char setting[512];
  snprintf(setting, sizeof setting, "%s", name);
  memset(setting + strlen(name), 'x', letters);
  setting[strlen(name) + letters] = '\0';
  const char *const settings[] = {setting, *more ? more : NULL, NULL};
  expect_open(settings, WEFT_ERR_INVALID, words);
  assert_null(strstr(weft_last_error(), "xxx"));
  setting[strlen(setting) - 1] = '\0';
  expect_open(settings, 0, "");
}

static void test_settings(void **state) {
  (void)state;
  expect_open((const char *const[]){"endpoint=ftp://x", NULL}, WEFT_ERR_INVALID, "http://HOST[:PORT]");
  expect_open((const char *const[]){"endpoint=http://x/path", NULL}, WEFT_ERR_INVALID, "http://HOST[:PORT]");
  expect_open((const char *const[]){"region=a:b", NULL}, WEFT_ERR_INVALID, "the region a:b");
  expect_open((const char *const[]){"secret_key=hidden", NULL}, WEFT_ERR_INVALID, "no setting \"secret_key\"");
  assert_null(strstr(weft_last_error(), "hidden"));
  expect_open((const char *const[]){"part_mib=4", NULL}, WEFT_ERR_INVALID, "from 5 to 5120");
  expect_open((const char *const[]){"style=both", NULL}, WEFT_ERR_INVALID, "path or virtual");
  expect_long("endpoint=http://", "", 274, "the endpoint has 281 bytes: want at most 280");
  expect_long("region=", "", 64, "the region has 64 bytes: want at most 63");
  expect_long("secret_access_key=", "access_key_id=x", 252, "the secret access key has 252 bytes: want at most 251");
  char nobody[64];
  snprintf(nobody, sizeof nobody, "endpoint=http://127.0.0.1:%u", support_free_port());
  const char *const settings[] = {nobody, "retries=1", "backoff_ms=1", NULL};
  struct storage storage;
  char why[120];
  assert_int_equal(storage_open(&storage, "object", settings, 4096), 0);
  uint32_t object = storage_object(&storage, "bucket/x", 0);
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_READ, object, 0, 0, 10, why), WEFT_ERR_UNREACHABLE);
  assert_non_null(strstr(why, nobody + strlen("endpoint="))); // which server it is that does not answer
  assert_non_null(strstr(why, ": Connection refused"));
  storage_close(&storage);
}

// A request that is cancelled in the pause before another attempt names the failure of the last one.
static void test_cancelled_between_attempts(void **state) {
  (void)state;
  const char *const settings[] = {"endpoint=http://127.0.0.1:9", "backoff_ms=60000", NULL};
  struct storage storage;
  struct storage_request request;
  assert_int_equal(storage_open(&storage, "object", settings, 4096), 0);
  uint32_t object = storage_object(&storage, "bucket/x", 0);
  storage_request(&storage, &request, WEFT_TRANSFER_READ, 1);
  storage_piece(&storage, &request, object, 0, 0, 10);
  storage_prepare(&request);
  for (int post = 0; post < 2; post++) {
    assert_int_equal(storage.transport->post(&request.request), 0);
    while (post == 0 && storage.transport->progress(storage.worker) == 0) // until the first attempt has ended
      ;
    storage.transport->cancel(&request.request);
    assert_int_equal(storage_wait(&storage, &request), WEFT_ERR_CANCELED);
    assert_int_equal(request.status[0], WEFT_ERR_CANCELED);
    if (post == 0)
      assert_non_null(strstr(request.request.why, TRANSPORT_CANCELED_AFTER "bucket/x: http://127.0.0.1:9: "));
    else // nothing of this post has failed
      assert_string_equal(request.request.why, "cancelled");
  }
  storage_free(&request);
  storage_close(&storage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reads),
      cmocka_unit_test(test_all_parts_are_of_one_version),
      cmocka_unit_test(test_writes),
      cmocka_unit_test(test_cancelled_uploads_are_aborted),
      cmocka_unit_test(test_cancelled_between_attempts),
      cmocka_unit_test(test_a_server_that_hangs),
      cmocka_unit_test(test_an_abort_that_drips),
      cmocka_unit_test(test_curl_without_memory),
      cmocka_unit_test(test_an_object_that_goes_before_its_request_begins),
      cmocka_unit_test(test_pieces_that_adjoin_are_one_request),
      cmocka_unit_test(test_queries),
      cmocka_unit_test(test_tls_and_virtual_hosts),
      cmocka_unit_test(test_settings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
