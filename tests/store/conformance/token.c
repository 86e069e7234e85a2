// The client and an embedded server that requires a token.
#include "conformance/suite.h"
#include "support/events.h"
#include <string.h>

static weft_store_server_t *server;

static int start(void **state) {
  (void)state;
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.token = "open-sesame";
  return weft_store_server_start(&server, &options);
}

static int stop(void **state) {
  (void)state;
  weft_store_server_stop(server);
  return 0;
}

static weft_store_t *open_with(const char *token) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  options.endpoints = weft_store_server_url(server);
  options.token = token;
  options.request_timeout_ms = 30000;
  options.connect_timeout_ms = 30000; // to read the host's CAs takes a while under valgrind
  assert_ok(weft_store_open(&store, &options));
  return store;
}

static void the_right_token_opens(void **state) {
  (void)state;
  struct support_events events;
  weft_store_watch_t *watch;
  weft_store_t *store = open_with("open-sesame");
  support_events_init(&events);
  assert_ok(weft_store_watch_open(store, "/t/", 0, support_events_take, &events, &watch));
  suite_put(store, "/t/a", "1", 0);
  assert_true(support_events_wait(&events, WEFT_STORE_EVENT_PUT, 1));
  weft_store_watch_close(watch);
  weft_store_close(store);
  support_events_free(&events);
}

// As on a host without a bundle of CAs, which a container may be: there is no certificate in this one.
static void a_client_without_a_ca_is_pointed_to_the_token_too(void **state) {
  (void)state;
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  struct weft_store_list *list;
  weft_store_t *store;
  options.endpoints = weft_store_server_url(server);
  options.ca_file = "/dev/null";
  assert_ok(weft_store_open(&store, &options));
  assert_fails(WEFT_ERR_AUTH, weft_store_range(store, "/t/", true, 0, &list));
  assert_non_null(strstr(weft_last_error(), "give the CA"));
  assert_non_null(strstr(weft_last_error(), "give the token"));
  weft_store_close(store);
}

static void a_wrong_token_or_none_is_refused_with_advice(void **state) {
  (void)state;
  static const char *const tokens[] = {"open-barley", "open-sesam", "open-sesame-", NULL};
  for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
    struct weft_store_list *list;
    weft_store_watch_t *watch;
    weft_store_t *store = open_with(tokens[i]);
    assert_fails(WEFT_ERR_AUTH, weft_store_range(store, "/t/", true, 0, &list));
    assert_non_null(strstr(weft_last_error(), "give the token"));
    assert_non_null(strstr(weft_last_error(), weft_store_server_url(server)));
    assert_fails(WEFT_ERR_AUTH, weft_store_put(store, "/t/b", "1", 1, 0, NULL));
    assert_fails(WEFT_ERR_AUTH, weft_store_watch_open(store, "/t/", 0, support_events_take, NULL, &watch));
    weft_store_close(store);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_right_token_opens),
      cmocka_unit_test(a_wrong_token_or_none_is_refused_with_advice),
      cmocka_unit_test(a_client_without_a_ca_is_pointed_to_the_token_too),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
