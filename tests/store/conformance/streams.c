// How the client's watches handle what members of a cluster say: refused tokens, parts of revisions, slow messages. The
// server is a socket that sends what the test wants.
#include "conformance/suite.h"
#include "store/support/scripted.h"
#include "support/events.h"
#include "support/wait.h"
#include <string.h>

#define HTTP           "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define STREAM         "HTTP/1.1 200 OK\r\n\r\n"
#define MESSAGE(inner) "{\"result\":{\"header\":{\"cluster_id\":\"7\",\"revision\":\"9\"}," inner "}}\n"
#define CREATED        MESSAGE("\"created\":true")
#define REFUSED(why)                                                                                                   \
  { .text = HTTP MESSAGE("\"created\":true,\"canceled\":true,\"cancel_reason\":\"" why "\"") }
#define TOKEN(name)                                                                                                    \
  { .text = HTTP "{\"token\":\"" name "\"}" }
#define PUT(key, at) "{\"kv\":{\"key\":\"" key "\",\"create_revision\":\"" at "\",\"mod_revision\":\"" at "\"}}"
#define TEN          "0123456789"
#define HUNDRED      TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define THOUSAND     HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED
#define COUNT(array) (sizeof(array) / sizeof *(array))

static weft_store_t *open_on(const char *url, const char *user, uint32_t request_timeout_ms) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  options.endpoints = url;
  options.user = user;
  options.password = user;
  options.request_timeout_ms = request_timeout_ms;
  assert_ok(weft_store_open(&store, &options));
  return store;
}

// A token expires, and a token that carries a revision is old when a user or a role has changed.
static void a_watch_gets_a_new_token_for_one_that_is_refused(void **state) {
  (void)state;
  static const struct scripted_answer expired[] = {TOKEN("one"),
                                                   REFUSED("etcdserver: invalid auth token"),
                                                   TOKEN("two"),
                                                   {STREAM CREATED, 0, true, 0}},
                                      old[] = {TOKEN("one"),
                                               REFUSED("etcdserver: revision of auth store is old"),
                                               TOKEN("two"),
                                               {STREAM CREATED, 0, true, 0}},
                                      *const scripts[] = {expired, old};
  for (size_t i = 0; i < COUNT(scripts); i++) {
    struct scripted server;
    struct support_events events;
    weft_store_watch_t *watch;
    scripted_start(&server, scripts[i], COUNT(expired));
    support_events_init(&events);
    weft_store_t *store = open_on(server.url, "u", 30000);
    assert_ok(weft_store_watch_open(store, "", 0, support_events_take, &events, &watch));
    assert_true(scripted_was_asked(&server, 1, "Authorization: one"));
    assert_true(scripted_was_asked(&server, 3, "Authorization: two"));
    weft_store_watch_close(watch);
    weft_store_close(store);
    scripted_stop(&server);
    support_events_free(&events);
  }
}

static void a_watch_that_may_not_be_is_refused(void **state) {
  (void)state;
  static const struct scripted_answer denied[] =
      {TOKEN("one"), REFUSED("rpc error: code = PermissionDenied desc = etcdserver: permission denied"), TOKEN("two"),
       REFUSED("etcdserver: permission denied")},
                                      nobody[] = {REFUSED("etcdserver: user name is empty")};
  static const struct {
    const struct scripted_answer *answers;
    size_t count;
    const char *user, *word;
  } cases[] = {{denied, COUNT(denied), "u", "permission denied"}, {nobody, COUNT(nobody), NULL, "user name is empty"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct scripted server;
    weft_store_watch_t *watch;
    scripted_start(&server, cases[i].answers, cases[i].count);
    weft_store_t *store = open_on(server.url, cases[i].user, 30000);
    assert_fails(WEFT_ERR_AUTH, weft_store_watch_open(store, "", 0, support_events_take, NULL, &watch));
    assert_non_null(strstr(weft_last_error(), cases[i].word));
    weft_store_close(store);
    scripted_stop(&server);
  }
}

// etcd cuts a large message, also in the middle of a revision; then the stream breaks.
static void a_part_of_a_revision_is_neither_lost_nor_repeated(void **state) {
  (void)state;
  static const struct scripted_answer answers[] = {
      {.text = HTTP CREATED MESSAGE("\"fragment\":true,\"events\":[" PUT("YQ==", "5") "," PUT("Yg==", "5") "]")},
      {.text = STREAM CREATED MESSAGE("\"fragment\":true,\"events\":[" PUT("YQ==", "5") "]")
           MESSAGE("\"events\":[" PUT("Yg==", "5") "," PUT("Yw==", "5") "," PUT("YQ==", "6") "]"),
       .stays = true}};
  static const struct {
    const char *key;
    int64_t revision;
  } expected[] = {{"a", 5}, {"b", 5}, {"c", 5}, {"a", 6}};
  struct scripted server;
  struct support_events events;
  weft_store_watch_t *watch;
  scripted_start(&server, answers, COUNT(answers));
  support_events_init(&events);
  weft_store_t *store = open_on(server.url, NULL, 30000);
  assert_ok(weft_store_watch_open(store, "", 5, support_events_take, &events, &watch));
  assert_true(support_events_wait_key(&events, "a", 6, SUPPORT_DEADLINE_MS));
  weft_store_watch_close(watch);
  weft_store_close(store);
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_PUT), COUNT(expected));
  for (size_t i = 0; i < COUNT(expected); i++) {
    struct support_event event = support_events_get(&events, WEFT_STORE_EVENT_PUT, i);
    assert_string_equal(event.key, expected[i].key);
    assert_int_equal(event.revision, expected[i].revision);
  }
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_RESET), 0);
  for (size_t i = 0; i < COUNT(answers); i++) {
    assert_true(scripted_was_asked(&server, i, "\"start_revision\":\"5\""));
    assert_true(scripted_was_asked(&server, i, "\"fragment\":true"));
  }
  scripted_stop(&server);
  support_events_free(&events);
}

// A member that has lost its cluster would be silent for as long as that lasts. It refuses a watch that wants a leader.
static void a_watch_wants_a_member_with_a_leader(void **state) {
  (void)state;
  static const char word[] = "Grpc-Metadata-hasleader: true";
  static const struct scripted_answer answers[] = {{.text = HTTP CREATED}, {.text = STREAM CREATED, .stays = true}};
  struct scripted server;
  struct support_events events;
  weft_store_watch_t *watch;
  scripted_start(&server, answers, COUNT(answers));
  support_events_init(&events);
  weft_store_t *store = open_on(server.url, NULL, 30000);
  assert_ok(weft_store_watch_open(store, "", 0, support_events_take, &events, &watch));
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_RESUMED, 2));
  assert_false(scripted_was_asked(&server, 0, word)); // its caller waits: an election must not fail the call
  assert_true(scripted_was_asked(&server, 1, word));
  weft_store_watch_close(watch);
  weft_store_close(store);
  scripted_stop(&server);
  support_events_free(&events);
}

// The message takes longer than a stream may be silent.
static void a_slow_message_is_no_silence(void **state) {
  enum { REQUEST_MS = 1000, PAUSE_MS = 400 };
  (void)state;
  static const struct scripted_answer answers[] = {
      {.text = STREAM CREATED MESSAGE("\"unknown\":\"" THOUSAND "\",\"events\":[" PUT("YQ==", "9") "]"),
       .stays = true,
       .pause_ms = PAUSE_MS}}; // the first part has the message that the watch is created
  struct scripted server;
  struct support_events events;
  weft_store_watch_t *watch;
  scripted_start(&server, answers, COUNT(answers));
  support_events_init(&events);
  weft_store_t *store = open_on(server.url, NULL, REQUEST_MS);
  assert_ok(weft_store_watch_open(store, "", 9, support_events_take, &events, &watch));
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, 1));
  bool asked_again = scripted_was_asked(&server, 1, "");
  weft_store_watch_close(watch);
  weft_store_close(store);
  scripted_stop(&server);
  support_events_free(&events);
  if (asked_again && server.longest_ns > REQUEST_MS * UINT64_C(1000000)) {
    print_message("skipped: this machine is too slow to send a part every %d ms\n", PAUSE_MS);
    skip();
  }
  assert_false(asked_again);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_watch_gets_a_new_token_for_one_that_is_refused),
      cmocka_unit_test(a_watch_that_may_not_be_is_refused),
      cmocka_unit_test(a_part_of_a_revision_is_neither_lost_nor_repeated),
      cmocka_unit_test(a_watch_wants_a_member_with_a_leader),
      cmocka_unit_test(a_slow_message_is_no_silence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
