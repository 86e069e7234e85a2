// How the client's watches handle parts of revisions. The server is a socket that sends what the test wants.
#include "conformance/suite.h"
#include "store/support/scripted.h"
#include "support/events.h"
#include "support/wait.h"
#include <string.h>

#define HTTP           "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define STREAM         "HTTP/1.1 200 OK\r\n\r\n"
#define MESSAGE(inner) "{\"result\":{\"header\":{\"cluster_id\":\"7\",\"revision\":\"9\"}," inner "}}\n"
#define CREATED        MESSAGE("\"created\":true")
#define PUT(key, at)   "{\"kv\":{\"key\":\"" key "\",\"create_revision\":\"" at "\",\"mod_revision\":\"" at "\"}}"
#define COUNT(array)   (sizeof(array) / sizeof *(array))

static weft_store_t *open_on(const char *url) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  options.endpoints = url;
  options.request_timeout_ms = 30000;
  assert_ok(weft_store_open(&store, &options));
  return store;
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
  weft_store_t *store = open_on(server.url);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_part_of_a_revision_is_neither_lost_nor_repeated),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
