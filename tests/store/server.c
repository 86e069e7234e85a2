// The embedded server from outside: raw requests, the gateway's JSON byte for byte, and clients that misbehave.
#include "store/server/server.h"
#include "base/time/clock.h"
#include "cmocka_all.h"
#include "store/support/server_http.h"
#include "support/entries.h"
#include "support/wait.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/store.h>

static int start(weft_store_server_t **server, const char *address, uint16_t port, const char *token) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.address = address;
  options.port = port;
  options.token = token;
  options.flags = !token ? WEFT_STORE_SERVER_INSECURE : 0;
  return weft_store_server_start(server, &options);
}

static int setup(void **state) {
  weft_store_server_t *server;
  assert_int_equal(start(&server, NULL, 0, NULL), 0);
  *state = server;
  return 0;
}

static int teardown(void **state) {
  weft_store_server_stop(*state);
  return 0;
}

static const char *url(void **state) {
  return weft_store_server_url(*state);
}

// The answer without its header's identities must be `expected`, in any order of members.
static void expect(void **state, const char *path, const char *body, long status, const char *expected) {
  json_t *answer = http_json(url(state), path, body, status);
  json_t *header = json_object_get(answer, "header");
  if (header) {
    assert_true(json_is_string(json_object_get(header, "cluster_id")));
    assert_true(json_is_string(json_object_get(header, "member_id")));
    assert_true(json_is_string(json_object_get(header, "raft_term")));
    json_object_del(header, "cluster_id");
    json_object_del(header, "member_id");
    json_object_del(header, "raft_term");
  }
  json_t *wanted = json_loads(expected, 0, NULL);
  assert_non_null(wanted);
  if (!json_equal(answer, wanted))
    fail_msg("%s %s: %s, not %s", path, body, json_dumps(answer, 0), expected);
  json_decref(wanted);
  json_decref(answer);
}

static void keys_and_values_have_etcds_shapes(void **state) {
  expect(state, "/v3/kv/range", "{\"key\":\"YQ==\"}", 200, "{\"header\":{\"revision\":\"1\"}}");
  expect(state, "/v3/kv/put", "{\"key\":\"YQ==\",\"value\":\"MQ==\"}", 200, "{\"header\":{\"revision\":\"2\"}}");
  expect(state, "/v3/kv/put", "{\"key\":\"YQ==\",\"prev_kv\":true}", 200,
         "{\"header\":{\"revision\":\"3\"},\"prev_kv\":{\"key\":\"YQ==\",\"create_revision\":\"2\","
         "\"mod_revision\":\"2\",\"version\":\"1\",\"value\":\"MQ==\"}}");
  expect(state, "/v3/kv/put", "{\"key\":\"Yg==\",\"value\":\"Mg==\"}", 200, "{\"header\":{\"revision\":\"4\"}}");
  expect(state, "/v3/kv/range", "{\"key\":\"AA==\",\"rangeEnd\":\"AA==\",\"limit\":\"1\",\"keys_only\":true}", 200,
         "{\"header\":{\"revision\":\"4\"},\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":\"2\","
         "\"mod_revision\":\"3\",\"version\":\"2\"}],\"more\":true,\"count\":\"2\"}");
  expect(state, "/v3/kv/range", "{\"key\":\"AA==\",\"range_end\":\"AA==\",\"count_only\":true}", 200,
         "{\"header\":{\"revision\":\"4\"},\"count\":\"2\"}");
  expect(state, "/v3/kv/deleterange", "{\"key\":\"Yg==\",\"prev_kv\":true}", 200,
         "{\"header\":{\"revision\":\"5\"},\"deleted\":\"1\",\"prev_kvs\":[{\"key\":\"Yg==\","
         "\"create_revision\":\"4\",\"mod_revision\":\"4\",\"version\":\"1\",\"value\":\"Mg==\"}]}");
  expect(state, "/v3/kv/deleterange", "{\"key\":\"Yg==\"}", 200, "{\"header\":{\"revision\":\"5\"}}");
}

static void transactions_have_etcds_shapes(void **state) {
  const char *claim = "{\"compare\":[{\"key\":\"YQ==\",\"target\":\"CREATE\",\"create_revision\":0}],"
                      "\"success\":[{\"request_put\":{\"key\":\"YQ==\",\"value\":\"MQ==\"}}],"
                      "\"failure\":[{\"requestRange\":{\"key\":\"YQ==\"}}]}";
  expect(state, "/v3/kv/txn", claim, 200,
         "{\"header\":{\"revision\":\"2\"},\"succeeded\":true,"
         "\"responses\":[{\"response_put\":{\"header\":{\"revision\":\"2\"}}}]}");
  expect(state, "/v3/kv/txn", claim, 200,
         "{\"header\":{\"revision\":\"2\"},\"responses\":[{\"response_range\":{\"header\":{\"revision\":\"2\"},"
         "\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":\"2\",\"mod_revision\":\"2\",\"version\":\"1\","
         "\"value\":\"MQ==\"}],\"count\":\"1\"}}]}");
}

static void leases_have_etcds_shapes(void **state) {
  expect(state, "/v3/lease/grant", "{\"TTL\":1,\"ID\":\"5\"}", 200,
         "{\"header\":{\"revision\":\"1\"},\"ID\":\"5\",\"TTL\":\"2\"}");
  expect(state, "/v3/lease/grant", "{\"TTL\":1000,\"ID\":7}", 200,
         "{\"header\":{\"revision\":\"1\"},\"ID\":\"7\",\"TTL\":\"1000\"}");
  expect(state, "/v3/kv/put", "{\"key\":\"YQ==\",\"lease\":\"7\"}", 200, "{\"header\":{\"revision\":\"2\"}}");
  json_t *answer = http_json(url(state), "/v3/kv/lease/timetolive", "{\"ID\":7,\"keys\":true}", 200);
  assert_string_equal(json_string_value(json_array_get(json_object_get(answer, "keys"), 0)), "YQ==");
  assert_string_equal(json_string_value(json_object_get(answer, "grantedTTL")), "1000");
  json_decref(answer);
  answer = http_json(url(state), "/v3/lease/keepalive", "{\"ID\":7}", 200);
  assert_string_equal(json_string_value(json_object_get(json_object_get(answer, "result"), "TTL")), "1000");
  json_decref(answer);
  answer = http_json(url(state), "/v3/lease/keepalive", "{\"ID\":8}", 200);
  assert_null(json_object_get(json_object_get(answer, "result"), "TTL"));
  json_decref(answer);
  expect(state, "/v3/lease/timetolive", "{\"ID\":8}", 200,
         "{\"header\":{\"revision\":\"2\"},\"ID\":\"8\",\"TTL\":\"-1\"}");
  expect(state, "/v3/lease/revoke", "{\"ID\":7}", 200, "{\"header\":{\"revision\":\"3\"}}");
}

static void expect_error(void **state, const char *path, const char *body, long status, int code, const char *text) {
  json_t *answer = http_json(url(state), path, body, status);
  const char *error = json_string_value(json_object_get(answer, "error"));
  assert_non_null(error);
  if (!strstr(error, text))
    fail_msg("%s %s: '%s' does not say '%s'", path, body, error, text);
  assert_string_equal(error, json_string_value(json_object_get(answer, "message")));
  assert_int_equal(json_integer_value(json_object_get(answer, "code")), code);
  json_decref(answer);
}

static void errors_are_etcds(void **state) {
  expect_error(state, "/v3/kv/put", "{}", 400, 3, "etcdserver: key is not provided");
  expect_error(state, "/v3/kv/put", "", 400, 3, "etcdserver: key is not provided");
  expect_error(state, "/v3/kv/put", "{\"key\":\"YQ==\",\"lease\":9}", 404, 5, "requested lease not found");
  expect_error(state, "/v3/kv/range", "{\"key\":\"YQ==\",\"revision\":9}", 400, 11, "future revision");
  expect_error(state, "/v3/lease/revoke", "{\"ID\":9}", 404, 5, "requested lease not found");
  expect_error(state, "/v3/lease/grant", "{\"TTL\":\"9000000001\"}", 400, 11, "too large lease TTL");
  expect_error(state, "/v3/kv/txn",
               "{\"success\":[{\"request_put\":{\"key\":\"YQ==\"}},{\"request_delete_range\":{\"key\":\"YQ==\"}}]}",
               400, 3, "duplicate key");
  expect_error(state, "/v3/kv/txn", "{\"success\":[{\"request_txn\":{}}]}", 400, 3, "transaction within");
  expect_error(state, "/v3/kv/txn", "{\"compare\":[{\"key\":\"YQ==\",\"version\":\"0\",\"value\":\"YQ==\"}]}", 400, 3,
               "one value");
  expect_error(state, "/v3/kv/put", "{\"key\":\"YQ==\",\"key\":\"YQ==\"}", 400, 3, "duplicate");
  json_decref(http_json(url(state), "/v3/lease/grant", "{\"ID\":1,\"TTL\":60}", 200));
  expect_error(state, "/v3/lease/grant", "{\"ID\":1,\"TTL\":60}", 400, 9, "lease already exists");
  expect_error(state, "/v3/none", "{}", 404, 5, "Not Found");
  expect_error(state, "/v3/kv/put", NULL, 501, 12, "Method Not Allowed");
  assert_int_equal(http_request(url(state), "/none", "{}", NULL, NULL), 404);
  assert_int_equal(http_request(url(state), "/version", "{}", NULL, NULL), 405);
}

static void keys_come_in_either_base64_with_padding_or_without(void **state) {
  static const char *const keys[] = {"-_8=", "-_8", "+/8=", "+/8"};
  static const char *const wrong[] = {"-/8=", "+_8", "-_8==", "A", "AAAAA", "="};
  char body[64];
  expect(state, "/v3/kv/put", "{\"key\":\"+/8=\"}", 200, "{\"header\":{\"revision\":\"2\"}}");
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    snprintf(body, sizeof body, "{\"key\":\"%s\",\"count_only\":true}", keys[i]);
    expect(state, "/v3/kv/range", body, 200, "{\"header\":{\"revision\":\"2\"},\"count\":\"1\"}");
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    snprintf(body, sizeof body, "{\"key\":\"%s\"}", wrong[i]);
    expect_error(state, "/v3/kv/range", body, 400, 3, "base64");
  }
}

static void malformed_requests_are_refused_and_harm_nobody(void **state) {
  static const char *const bodies[] = {"{",
                                       "[]",
                                       "5",
                                       "\"key\"",
                                       "{\"key\":}",
                                       "{\"key\":5}",
                                       "{\"key\":\"YQ=\"}",
                                       "{\"key\":\"!!!!\"}",
                                       "{\"key\":\"=\"}",
                                       "{\"key\":\"====\"}",
                                       "{\"key\":\"YQ==\",\"limit\":\"1x\"}",
                                       "{\"key\":\"YQ==\",\"limit\":1.5}",
                                       "{\"key\":\"YQ==\",\"limit\":99999999999999999999}",
                                       "{\"key\":\"YQ==\",\"limit\":\"99999999999999999999\"}",
                                       "{\"key\":\"YQ==\",\"keys_only\":1}",
                                       "\xff\xfe"};
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
    expect_error(state, "/v3/kv/range", bodies[i], 400, 3, "");
  expect_error(state, "/v3/kv/txn", "{\"compare\":5}", 400, 3, "\"compare\"");
  expect_error(state, "/v3/kv/txn", "{\"compare\":[5]}", 400, 3, "must be an object");
  expect_error(state, "/v3/kv/txn", "{\"success\":[{}]}", 400, 3, "request_put");
  expect_error(state, "/v3/kv/txn", "{\"compare\":[{\"key\":\"YQ==\",\"target\":\"X\"}]}", 400, 3, "\"X\"");
  expect_error(state, "/v3/watch", "{\"create_request\":5}", 500, 2, "create_request");
  expect_error(state, "/v3/watch", "{\"create_request\":{\"key\":\"YQ==\",\"filters\":[null]}}", 500, 2, "filters");
  expect_error(state, "/v3/lease/keepalive", "x", 500, 2, "json");
  char *deep = malloc(200001);
  assert_non_null(deep);
  memset(deep, '[', 200000);
  deep[200000] = '\0';
  expect_error(state, "/v3/kv/range", deep, 400, 3, "json");
  free(deep);
  assert_int_equal(http_request(url(state), "/health", NULL, NULL, NULL), 200);
}

static void a_request_past_the_limit_is_refused(void **state) {
  size_t size = 3 << 20;
  char *body = malloc(size + 1);
  assert_non_null(body);
  int used = snprintf(body, size, "{\"key\":\"YQ==\",\"value\":\"");
  memset(body + used, 'A', size - (size_t)used);
  strcpy(body + size - 2, "\"}");
  expect_error(state, "/v3/kv/put", body, 400, 3, "request is too large");
  free(body);
}

static void a_token_guards_all_but_health_and_version(void **state) {
  (void)state;
  weft_store_server_t *server;
  assert_int_equal(start(&server, NULL, 0, "secret"), 0);
  const char *at = weft_store_server_url(server), *body = "{\"key\":\"YQ==\"}";
  assert_int_equal(http_request(at, "/health", NULL, NULL, NULL), 200);
  assert_int_equal(http_request(at, "/version", NULL, NULL, NULL), 200);
  assert_int_equal(http_request(at, "/v3/kv/range", body, "secret", NULL), 200);
  assert_int_equal(http_request(at, "/v3/kv/range", body, "Bearer secret", NULL), 200);
  static const char *const wrong[] = {NULL, "secre", "secrets", "Bearer ", "Bearer Secret", "Basic secret"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(http_request(at, "/v3/kv/range", body, wrong[i], NULL), 401);
    assert_int_equal(http_request(at, "/v3/watch", "{\"create_request\":{}}", wrong[i], NULL), 401);
  }
  weft_store_server_stop(server);
}

static void start_names_what_is_wrong(void **state) {
  weft_store_server_t *server;
  unsigned port = 0;
  assert_int_equal(sscanf(url(state), "http://127.0.0.1:%u", &port), 1);
  char text[16];
  snprintf(text, sizeof text, "%u", port);
  assert_int_equal(start(&server, NULL, (uint16_t)port, NULL), WEFT_ERR_BUSY);
  assert_non_null(strstr(weft_last_error(), text));
  assert_non_null(strstr(weft_last_error(), "127.0.0.1"));
  assert_int_equal(start(&server, "0.0.0.0", 0, NULL), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "insecure"));
  assert_int_equal(start(&server, "::", 0, NULL), WEFT_ERR_INVALID);
  assert_int_equal(start(&server, "localhost", 0, NULL), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "localhost"));
  assert_int_equal(start(&server, "192.0.2.1", 0, "token"), WEFT_ERR_INVALID); // no host has it (RFC 5737)
  assert_int_equal(start(&server, NULL, 0, ""), WEFT_ERR_INVALID);
  struct weft_store_server_options options = {.size = 1};
  assert_int_equal(weft_store_server_start(&server, &options), WEFT_ERR_INVALID);
}

static void put(void **state, const char *key64) {
  char body[128];
  snprintf(body, sizeof body, "{\"key\":\"%s\",\"value\":\"MQ==\"}", key64);
  assert_int_equal(http_request(url(state), "/v3/kv/put", body, NULL, NULL), 200);
}

static void a_forked_child_does_not_stop_its_parents_server(void **state) {
  put(state, "YQ==");
  pid_t child = fork();
  if (child == 0) {
    weft_store_server_stop(*state);
    _exit(0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  put(state, "YQ==");
}

static void a_watch_streams_the_past_and_the_present(void **state) {
  put(state, "YQ==");
  struct http_stream stream;
  http_stream_open(&stream, url(state), "{\"create_request\":{\"key\":\"YQ==\",\"start_revision\":\"2\"}}");
  http_stream_expect(&stream, "\"created\":true}}\n");
  http_stream_expect(&stream, "\"events\":[{\"kv\":{\"key\":\"YQ==\",\"create_revision\":\"2\",");
  put(state, "Yg=="); // not watched
  put(state, "YQ==");
  http_stream_expect(&stream, "\"mod_revision\":\"4\",\"version\":\"2\",\"value\":\"MQ==\"}}]}}\n");
  assert_int_equal(http_request(url(state), "/v3/kv/deleterange", "{\"key\":\"YQ==\"}", NULL, NULL), 200);
  http_stream_expect(&stream, "{\"type\":\"DELETE\",\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"5\"}}");
  http_stream_close(&stream);
}

static void a_stream_carries_several_watches(void **state) {
  struct http_stream stream;
  http_stream_open(&stream, url(state),
                   "{\"create_request\":{\"key\":\"YQ==\",\"watch_id\":7}}{\"create_request\":{\"key\":\"Yg==\"}}"
                   "{\"create_request\":{\"key\":\"Yg==\",\"watch_id\":7}}{\"cancel_request\":{\"watch_id\":7}}"
                   "{\"progress_request\":{}}{\"create_request\":{\"key\":\"Yw==\",\"range_end\":\"Yg==\"}}");
  http_stream_expect(&stream, "\"watch_id\":\"7\",\"created\":true}}\n");
  http_stream_expect(&stream, "\"created\":true}}\n");
  http_stream_expect(&stream, "duplicate watch ID");
  http_stream_expect(&stream, "\"watch_id\":\"7\",\"canceled\":true}}\n");
  http_stream_expect(&stream, "\"watch_id\":\"-1\"}}\n");
  http_stream_expect(&stream, "watcher range is empty");
  put(state, "YQ==");
  put(state, "Yg==");
  http_stream_expect(&stream, "\"events\":[{\"kv\":{\"key\":\"Yg==\"");
  http_stream_close(&stream);
}

// A watch that wants deletions only has more puts before one than are taken at a time.
static void a_filter_hides_what_it_names_and_nothing_behind_it(void **state) {
  enum { TRANSACTIONS = 4, PUTS = 128 };
  struct http_stream stream;
  char body[PUTS * 40 + 32];
  size_t used = (size_t)snprintf(body, sizeof body, "{\"success\":[");
  for (int i = 0; i < PUTS; i++)
    used +=
        (size_t)snprintf(body + used, sizeof body - used, "%s{\"request_put\":{\"key\":\"k%03d\"}}", i ? "," : "", i);
  snprintf(body + used, sizeof body - used, "]}");
  for (int i = 0; i < TRANSACTIONS; i++)
    assert_int_equal(http_request(url(state), "/v3/kv/txn", body, NULL, NULL), 200);
  assert_int_equal(http_request(url(state), "/v3/kv/deleterange", "{\"key\":\"k007\"}", NULL, NULL), 200);
  http_stream_open(&stream, url(state),
                   "{\"create_request\":{\"key\":\"AA==\",\"range_end\":\"AA==\",\"start_revision\":2,"
                   "\"filters\":[\"NOPUT\"]}}");
  http_stream_expect(&stream, "\"created\":true}}\n");
  http_stream_expect(&stream, "\"events\":[{\"type\":\"DELETE\",\"kv\":{\"key\":\"k007\"");
  assert_int_equal(http_request(url(state), "/v3/kv/deleterange", "{\"key\":\"k008\"}", NULL, NULL), 200);
  http_stream_expect(&stream, "\"events\":[{\"type\":\"DELETE\",\"kv\":{\"key\":\"k008\"");
  http_stream_close(&stream);
}

static void an_expired_lease_reaches_a_watch(void **state) {
  struct http_stream stream;
  http_stream_open(&stream, url(state), "{\"create_request\":{\"key\":\"YQ==\"}}");
  http_stream_expect(&stream, "\"created\":true");
  assert_int_equal(http_request(url(state), "/v3/lease/grant", "{\"TTL\":1,\"ID\":3}", NULL, NULL), 200);
  assert_int_equal(http_request(url(state), "/v3/kv/put", "{\"key\":\"YQ==\",\"lease\":3}", NULL, NULL), 200);
  http_stream_expect(&stream, "\"type\":\"DELETE\",\"kv\":{\"key\":\"YQ==\"");
  http_stream_close(&stream);
}

// More history than is kept goes by a client that does not read: it must not hold up the others or cost memory, and is
// told when it reads again that it missed something.
static void a_slow_watcher_receives_what_it_missed(void **state) {
  struct http_stream slow, quick;
  http_stream_open(&slow, url(state), "{\"create_request\":{\"key\":\"YQ==\"}}");
  http_stream_expect(&slow, "\"created\":true");
  http_stream_open(&quick, url(state), "{\"create_request\":{\"key\":\"Yg==\"}}");
  http_stream_expect(&quick, "\"created\":true");
  size_t size = 1 << 20;
  char *body = malloc(size + 64);
  assert_non_null(body);
  int used = snprintf(body, 64, "{\"key\":\"YQ==\",\"value\":\"");
  memset(body + used, 'A', size);
  strcpy(body + (size_t)used + size, "\"}");
  uint64_t deadline = clock_deadline_ms(SERVER_IDLE_S * 1000 / 2); // much later the stream ends, as nothing moves on it
  int puts = 0;
  for (; puts < 110 && !clock_passed(deadline); puts++) // 82 MB of values; 64 MiB are kept, and sockets hold a few
    assert_int_equal(http_request(url(state), "/v3/kv/put", body, NULL, NULL), 200);
  free(body);
  if (puts < 110) {
    print_message("skipped: this machine makes %d of 110 puts in half the time that a stream may rest\n", puts);
    http_stream_close(&slow);
    http_stream_close(&quick);
    skip();
  }
  put(state, "Yg==");
  http_stream_expect(&quick, "\"events\"");
  http_stream_expect(&slow, "\"canceled\":true,\"compact_revision\":\"");
  http_stream_close(&slow);
  http_stream_close(&quick);
}

enum { LARGE_VALUES = 24, LARGE_DIGITS = 1 << 20 };

// Puts large values, and opens a watch that is to get all of them in one message: when they are deleted in one
// revision. Nobody reads that message, and it is more than sockets hold.
static void open_on_large_values(void **state, struct http_stream *stream) {
  char *body = malloc(LARGE_DIGITS + 64);
  assert_non_null(body);
  for (int i = 0; i < LARGE_VALUES; i++) {
    int used = snprintf(body, 64, "{\"key\":\"k%03d\",\"value\":\"", i);
    memset(body + used, 'A', LARGE_DIGITS);
    strcpy(body + used + LARGE_DIGITS, "\"}");
    assert_int_equal(http_request(url(state), "/v3/kv/put", body, NULL, NULL), 200);
  }
  free(body);
  http_stream_open(stream, url(state),
                   "{\"create_request\":{\"key\":\"AA==\",\"range_end\":\"AA==\",\"prev_kv\":true}}");
  http_stream_expect(stream, "\"created\":true");
}

static void delete_all(void **state) {
  assert_int_equal(
      http_request(url(state), "/v3/kv/deleterange", "{\"key\":\"AA==\",\"range_end\":\"AA==\"}", NULL, NULL), 200);
}

static bool holds_much(void *server) {
  return ((struct weft_store_server *)server)->held >= LARGE_VALUES * LARGE_DIGITS;
}

static bool holds_little(void *server) {
  return ((struct weft_store_server *)server)->held < LARGE_DIGITS;
}

static void events_that_nobody_reads_are_counted(void **state) {
  struct http_stream stream;
  open_on_large_values(state, &stream);
  delete_all(state);
  assert_true(support_wait(holds_much, *state, SUPPORT_DEADLINE_MS));
  http_stream_close(&stream);
  assert_true(support_wait(holds_little, *state, SUPPORT_DEADLINE_MS));
}

static void a_stream_ends_if_there_is_no_room_for_its_events(void **state) {
  struct weft_store_server *server = *state;
  struct http_stream stream;
  open_on_large_values(state, &stream);
  server->held += SERVER_MAX_HELD - LARGE_DIGITS;
  delete_all(state);
  http_stream_expect(&stream, "0\r\n\r\n"); // the last chunk (RFC 9112, 7.1)
  http_stream_close(&stream);
  server->held -= SERVER_MAX_HELD - LARGE_DIGITS;
  put(state, "YQ==");
}

enum { WATCHES = 1000, CONNECTIONS = 300 };

static void send_put(struct http_stream *connection) {
  http_stream_post(connection, "/v3/kv/put", "{\"key\":\"YQ==\"}");
}

static void expect_puts(struct http_stream *connections) {
  for (size_t i = 0; i < CONNECTIONS; i++)
    http_stream_expect(&connections[i], "\"raft_term\"");
}

// Each of 300 connections puts twice, while 1,000 watches see all of it.
static void a_thousand_watches_and_three_hundred_connections_are_served(void **state) {
  struct rlimit limit; // raised by the server as far as it may be; both ends of each connection are in this process
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 2 * (WATCHES + CONNECTIONS) + 100)
    skip();
  struct http_stream *watches = calloc(WATCHES, sizeof *watches);
  struct http_stream *connections = calloc(CONNECTIONS, sizeof *connections);
  assert_true(watches && connections);
  for (size_t i = 0; i < WATCHES; i++)
    http_stream_open(&watches[i], url(state), "{\"create_request\":{\"key\":\"YQ==\"}}");
  for (size_t i = 0; i < WATCHES; i++)
    http_stream_expect(&watches[i], "\"created\":true");
  for (size_t i = 0; i < CONNECTIONS; i++) {
    http_stream_connect(&connections[i], url(state));
    send_put(&connections[i]); // at once: a connection that says nothing for LOBBY_TIME_MS is closed
  }
  expect_puts(connections);
  for (size_t i = 0; i < CONNECTIONS; i++)
    send_put(&connections[i]);
  expect_puts(connections);
  char last[32];
  snprintf(last, sizeof last, "\"version\":\"%d\"", 2 * CONNECTIONS);
  for (size_t i = 0; i < WATCHES; i++)
    http_stream_expect(&watches[i], last);
  for (size_t i = 0; i < WATCHES; i++)
    http_stream_close(&watches[i]);
  for (size_t i = 0; i < CONNECTIONS; i++)
    http_stream_close(&connections[i]);
  free(watches);
  free(connections);
}

// A client that goes away from a silent watch is noticed without any event on it.
static void a_client_that_left_leaves_nothing(void **state) {
  enum { LEAVERS = 50 };
  struct http_stream *leaver = calloc(1, sizeof *leaver);
  assert_non_null(leaver);
  assert_int_equal(http_request(url(state), "/health", NULL, NULL, NULL), 200);
  int before = support_descriptors();
  for (int i = 0; i < LEAVERS; i++) {
    http_stream_open(leaver, url(state), "{\"create_request\":{\"key\":\"YQ==\"}}");
    http_stream_expect(leaver, "\"created\":true");
    http_stream_close(leaver);
  }
  free(leaver);
  uint64_t deadline = clock_deadline_ms(HTTP_DEADLINE_MS);
  while (support_descriptors() > before + 5 && !clock_passed(deadline)) // the last answer's connection may be closing
    assert_int_equal(http_request(url(state), "/health", NULL, NULL, NULL), 200);
  assert_true(support_descriptors() <= before + 5);
}

static void stop_ends_open_watches(void **state) {
  (void)state;
  weft_store_server_t *server;
  assert_int_equal(start(&server, NULL, 0, NULL), 0);
  enum { STREAMS = 20 };
  struct http_stream *streams = calloc(STREAMS, sizeof *streams);
  assert_non_null(streams);
  for (size_t i = 0; i < STREAMS; i++) {
    http_stream_open(&streams[i], weft_store_server_url(server), "{\"create_request\":{\"key\":\"YQ==\"}}");
    http_stream_expect(&streams[i], "\"created\":true");
  }
  weft_store_server_stop(server);
  for (size_t i = 0; i < STREAMS; i++) {
    http_stream_expect_end(&streams[i]);
    http_stream_close(&streams[i]);
  }
  free(streams);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(keys_and_values_have_etcds_shapes),
      TEST(transactions_have_etcds_shapes),
      TEST(leases_have_etcds_shapes),
      TEST(errors_are_etcds),
      TEST(keys_come_in_either_base64_with_padding_or_without),
      TEST(malformed_requests_are_refused_and_harm_nobody),
      TEST(a_request_past_the_limit_is_refused),
      cmocka_unit_test(a_token_guards_all_but_health_and_version),
      TEST(start_names_what_is_wrong),
      TEST(a_forked_child_does_not_stop_its_parents_server),
      TEST(a_watch_streams_the_past_and_the_present),
      TEST(a_stream_carries_several_watches),
      TEST(a_filter_hides_what_it_names_and_nothing_behind_it),
      TEST(an_expired_lease_reaches_a_watch),
      TEST(a_slow_watcher_receives_what_it_missed),
      TEST(events_that_nobody_reads_are_counted),
      TEST(a_stream_ends_if_there_is_no_room_for_its_events),
      TEST(a_thousand_watches_and_three_hundred_connections_are_served),
      TEST(a_client_that_left_leaves_nothing),
      cmocka_unit_test(stop_ends_open_watches),
  };
  return cmocka_run_group_tests_name("embedded server", tests, NULL, NULL);
}
