// How the client behaves when the server, or the network to it, fails. A relay is between the two.
#include "conformance/kind.h"
#include "conformance/suite.h"
#include "support/events.h"
#include "support/relay.h"
#include "support/wait.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

// The time of a request: one that gets no answer; one on whose watches nothing comes; all others.
enum { SHORT_MS = 2500, QUIET_MS = 2000, LONG_MS = 30000 };

struct fixture {
  struct support_relay *relay;
  weft_store_t *direct;  // past the relay
  weft_store_t *relayed; // through it
  struct support_events events;
  uint64_t answered;
};

static weft_store_t *open_endpoints(const char *endpoints, uint32_t request_timeout_ms) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store = NULL;
  options.endpoints = endpoints;
  options.token = kind.token;
  options.request_timeout_ms = request_timeout_ms;
  if (request_timeout_ms == LONG_MS)
    options.connect_timeout_ms = LONG_MS / 3; // valgrind takes seconds for a handshake
  assert_ok(weft_store_open(&store, &options));
  return store;
}

static weft_store_t *open_relayed(const struct fixture *fixture, uint32_t request_timeout_ms) {
  char url[64];
  snprintf(url, sizeof url, "%s://127.0.0.1:%u", kind.scheme, support_relay_port(fixture->relay));
  return open_endpoints(url, request_timeout_ms);
}

static int set_up(void **state) {
  struct fixture *fixture = test_calloc(1, sizeof *fixture);
  fixture->relay = support_relay_start(kind.port());
  assert_non_null(fixture->relay);
  assert_ok(kind.open(&fixture->direct));
  fixture->relayed = open_relayed(fixture, LONG_MS);
  support_events_init(&fixture->events);
  *state = fixture;
  return 0;
}

static int tear_down(void **state) {
  struct fixture *fixture = *state;
  weft_store_close(fixture->relayed);
  weft_store_close(fixture->direct);
  support_relay_stop(fixture->relay);
  support_events_free(&fixture->events);
  test_free(fixture);
  return 0;
}

static void watch(struct fixture *fixture, weft_store_t *store, const char *prefix, weft_store_watch_t **out) {
  assert_ok(weft_store_watch_open(store, prefix, 0, support_events_take, &fixture->events, out));
}

static void a_dead_endpoint_is_passed_over(void **state) {
  struct fixture *fixture = *state;
  char endpoints[128];
  struct weft_store_list *list;
  weft_store_watch_t *watched;
  snprintf(endpoints, sizeof endpoints, " %s://127.0.0.1:%u , %s://127.0.0.1:%u/", kind.scheme, support_free_port(),
           kind.scheme, kind.port());
  weft_store_t *store = open_endpoints(endpoints, LONG_MS);
  watch(fixture, store, "/f/dead/", &watched);
  suite_put(store, "/f/dead/a", "1", 0); // a put too: the dead one never saw it
  assert_ok(weft_store_range(store, "/f/dead/a", false, 0, &list));
  assert_int_equal(list->count, 1);
  char good[64];
  snprintf(good, sizeof good, "%s://127.0.0.1:%u", kind.scheme, kind.port());
  assert_string_equal(weft_store_name(store), good);
  assert_true(support_events_wait(&fixture->events, WEFT_STORE_EVENT_PUT, 1));
  weft_store_list_free(list);
  weft_store_watch_close(watched);
  weft_store_close(store);
}

static void a_refusing_endpoint_is_passed_over(void **state) {
  struct fixture *fixture = *state;
  char endpoints[128];
  struct weft_store_list *list;
  support_relay_refuse(fixture->relay, true);
  snprintf(endpoints, sizeof endpoints, "%s://127.0.0.1:%u,%s://127.0.0.1:%u", kind.scheme,
           support_relay_port(fixture->relay), kind.scheme, kind.port());
  weft_store_t *store = open_endpoints(endpoints, LONG_MS);
  assert_ok(weft_store_range(store, "/f/refuse", false, 0, &list));
  weft_store_list_free(list);
  weft_store_close(store);
}

static void nobody_there_names_every_endpoint_and_reason(void **state) {
  (void)state;
  char endpoints[128], first[64], second[64];
  struct weft_store_list *list;
  weft_store_watch_t *watched;
  snprintf(first, sizeof first, "%s://127.0.0.1:%u", kind.scheme, support_free_port());
  snprintf(second, sizeof second, "%s://127.0.0.1:%u", kind.scheme, support_free_port());
  snprintf(endpoints, sizeof endpoints, "%s,%s", first, second);
  weft_store_t *store = open_endpoints(endpoints, LONG_MS);
  assert_fails(WEFT_ERR_UNREACHABLE, weft_store_range(store, "/x", false, 0, &list));
  assert_non_null(strstr(weft_last_error(), first));
  assert_non_null(strstr(weft_last_error(), second));
  assert_non_null(strstr(weft_last_error(), "connect"));
  assert_fails(WEFT_ERR_UNREACHABLE, weft_store_watch_open(store, "/x", 0, support_events_take, NULL, &watched));
  weft_store_close(store);
}

static void silence_is_a_timeout_that_names_the_endpoint(void **state) {
  struct fixture *fixture = *state;
  struct weft_store_list *list;
  weft_store_watch_t *watched;
  weft_store_t *store = open_relayed(fixture, SHORT_MS);
  if (!kind.token) { // a connection that stands, so that the request leaves at once on a busy machine too
    assert_ok(weft_store_range(store, "/x", false, 0, &list));
    weft_store_list_free(list);
  }
  support_relay_hold(fixture->relay, true);
  // Behind TLS nothing was sent: the handshake got no answer.
  assert_fails(kind.token ? WEFT_ERR_UNREACHABLE : WEFT_ERR_TIMEOUT, weft_store_range(store, "/x", false, 0, &list));
  assert_non_null(strstr(weft_last_error(), weft_store_name(store)));
  assert_fails(WEFT_ERR_TIMEOUT, weft_store_watch_open(store, "/x", 0, support_events_take, NULL, &watched));
  weft_store_close(store);
}

static void a_silent_endpoint_does_not_take_a_reads_whole_time(void **state) {
  struct fixture *fixture = *state;
  char endpoints[128];
  struct weft_store_list *list;
  snprintf(endpoints, sizeof endpoints, "%s://127.0.0.1:%u,%s://127.0.0.1:%u", kind.scheme,
           support_relay_port(fixture->relay), kind.scheme, kind.port());
  weft_store_t *store = open_endpoints(endpoints, 4000);
  support_relay_hold(fixture->relay, true);
  assert_ok(weft_store_range(store, "/x", false, 0, &list));
  weft_store_list_free(list);
  weft_store_close(store);
}

static int64_t version_of(weft_store_t *store, const char *key) {
  struct weft_store_list *list;
  assert_ok(weft_store_range(store, key, false, 0, &list));
  int64_t version = list->count ? list->kvs[0]->version : 0;
  weft_store_list_free(list);
  return version;
}

static bool is_put(void *arg) {
  return version_of(arg, "/f/once") == 2;
}

static void *cut_when_put(void *arg) {
  struct fixture *fixture = arg;
  bool put = support_wait(is_put, fixture->direct, SUPPORT_DEADLINE_MS);
  support_relay_cut(fixture->relay);
  support_relay_hold_answers(fixture->relay, false);
  return put ? fixture : NULL;
}

static void a_put_whose_answer_is_lost_is_not_sent_again(void **state) {
  struct fixture *fixture = *state;
  char endpoints[128];
  pthread_t thread;
  void *put = NULL;
  snprintf(endpoints, sizeof endpoints, "%s://127.0.0.1:%u,%s://127.0.0.1:%u", kind.scheme,
           support_relay_port(fixture->relay), kind.scheme, kind.port());
  weft_store_t *store = open_endpoints(endpoints, LONG_MS);
  suite_put(store, "/f/once", "1", 0); // on a connection that is kept: the case in which curl would send it again
  support_relay_hold_answers(fixture->relay, true);
  assert_int_equal(pthread_create(&thread, NULL, cut_when_put, fixture), 0);
  assert_fails(WEFT_ERR_UNREACHABLE, weft_store_put(store, "/f/once", "2", 1, 0, NULL));
  assert_non_null(strstr(weft_last_error(), "may or may not"));
  pthread_join(thread, &put);
  assert_non_null(put);
  assert_int_equal(version_of(fixture->direct, "/f/once"), 2);
  suite_put(store, "/f/once", "3", 0); // the next call is well again
  assert_int_equal(version_of(fixture->direct, "/f/once"), 3);
  weft_store_close(store);
}

static void a_watch_counts_ten_thousand_events_across_three_cuts(void **state) {
  enum { EVENTS = 10000, CUTS = 3, BATCH = 50 };
  struct fixture *fixture = *state;
  weft_store_watch_t *watched;
  size_t cuts = 0;
  watch(fixture, fixture->relayed, "/f/count/", &watched);
  for (int i = 0; i < EVENTS;) {
    struct weft_store_op ops[BATCH];
    char keys[BATCH][32];
    for (int k = 0; k < BATCH; k++, i++) {
      snprintf(keys[k], sizeof keys[k], "/f/count/%05d", i);
      ops[k] = (struct weft_store_op){.kind = WEFT_STORE_PUT, .key = keys[k], .value = "x", .value_len = 1};
    }
    struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
    txn.success = ops;
    txn.num_success = BATCH;
    struct weft_store_txn_result *result;
    assert_ok(weft_store_txn_commit(fixture->direct, &txn, &result));
    weft_store_txn_result_free(result);
    if (i % (EVENTS / (CUTS + 1)) == 0 && cuts < CUTS) {
      // each cut hits a stream that stands, wherever in the events it is
      assert_true(support_events_wait(&fixture->events, WEFT_STORE_EVENT_RESUMED, cuts + 1));
      assert_true(support_relay_cut(fixture->relay) > 0);
      cuts++;
      assert_true(support_events_wait(&fixture->events, WEFT_STORE_EVENT_LOST, cuts));
    }
  }
  assert_true(support_events_wait(&fixture->events, WEFT_STORE_EVENT_PUT, EVENTS));
  weft_store_watch_close(watched);
  assert_int_equal(support_events_count(&fixture->events, WEFT_STORE_EVENT_PUT), EVENTS);
  assert_int_equal(support_events_count(&fixture->events, WEFT_STORE_EVENT_LOST), CUTS);
  assert_int_equal(support_events_count(&fixture->events, WEFT_STORE_EVENT_RESUMED), CUTS + 1);
  assert_int_equal(support_events_count(&fixture->events, WEFT_STORE_EVENT_RESET), 0);
  char wanted[32];
  int next = 0;
  for (size_t i = 0; i < fixture->events.count; i++) { // in order, each once; nobody feeds it any longer
    if (fixture->events.all[i].kind != WEFT_STORE_EVENT_PUT)
      continue;
    snprintf(wanted, sizeof wanted, "/f/count/%05d", next++);
    assert_string_equal(fixture->events.all[i].key, wanted);
  }
}

static void a_watch_finds_out_a_connection_that_died_without_a_word(void **state) {
  struct fixture *fixture = *state;
  weft_store_watch_t *watched;
  weft_store_t *store = open_relayed(fixture, QUIET_MS);
  watch(fixture, store, "/f/dumb/", &watched);
  support_relay_hold(fixture->relay, true);
  suite_put(fixture->direct, "/f/dumb/a", "1", 0);
  assert_true(support_events_wait(&fixture->events, WEFT_STORE_EVENT_LOST, 1));
  support_relay_cut(fixture->relay); // what was swallowed never comes
  support_relay_hold(fixture->relay, false);
  assert_true(support_events_wait(&fixture->events, WEFT_STORE_EVENT_PUT, 1));
  weft_store_close(store);
  assert_int_equal(support_events_count(&fixture->events, WEFT_STORE_EVENT_PUT), 1);
  assert_int_equal(support_events_count(&fixture->events, WEFT_STORE_EVENT_LOST), 1);
  weft_store_watch_close(watched);
}

static bool has_answered(void *arg) {
  struct fixture *fixture = arg;
  return support_relay_answered(fixture->relay) > fixture->answered;
}

static void a_quiet_watch_is_renewed_without_a_word(void **state) {
  struct fixture *fixture = *state;
  weft_store_watch_t *watched;
  weft_store_t *store = open_relayed(fixture, QUIET_MS);
  watch(fixture, store, "/f/quiet/", &watched);
  for (size_t i = 1; i <= 3; i++) {
    fixture->answered = support_relay_answered(fixture->relay);
    assert_true(support_wait(has_answered, fixture, SUPPORT_DEADLINE_MS));
    suite_put(fixture->direct, "/f/quiet/a", "1", 0);
    assert_true(support_events_wait(&fixture->events, WEFT_STORE_EVENT_PUT, i));
  }
  weft_store_close(store);
  assert_int_equal(support_events_count(&fixture->events, WEFT_STORE_EVENT_PUT), 3);
  weft_store_watch_close(watched);
}

static void slow_answers_are_answers(void **state) {
  struct fixture *fixture = *state;
  weft_store_watch_t *watched;
  support_relay_delay(fixture->relay, 50);
  watch(fixture, fixture->relayed, "/f/slow/", &watched);
  suite_put(fixture->relayed, "/f/slow/a", "1", 0);
  assert_true(support_events_wait(&fixture->events, WEFT_STORE_EVENT_PUT, 1));
  weft_store_watch_close(watched);
}

static void a_watch_is_closed_while_the_network_swallows_everything(void **state) {
  struct fixture *fixture = *state;
  weft_store_watch_t *watched;
  watch(fixture, fixture->relayed, "/f/stuck/", &watched);
  support_relay_hold(fixture->relay, true);
  weft_store_watch_close(watched);
  size_t before = fixture->events.count;
  suite_put(fixture->direct, "/f/stuck/a", "1", 0);
  assert_int_equal(fixture->events.count, before);
}

static void a_store_restarted_empty_is_said_and_watched_on(void **state) {
  struct fixture *fixture = *state;
  weft_store_watch_t *watched;
  for (int i = 0; i < 20; i++) // so that the new store's revision is lower for a while
    suite_put(fixture->direct, "/f/reset/old", "x", 0);
  watch(fixture, fixture->relayed, "/f/reset/", &watched);
  assert_true(kind.restart_empty());
  assert_true(support_events_wait(&fixture->events, WEFT_STORE_EVENT_RESET, 1));
  suite_put(fixture->direct, "/f/reset/new", "y", 0);
  assert_true(support_events_wait(&fixture->events, WEFT_STORE_EVENT_PUT, 1));
  assert_string_equal(support_events_get(&fixture->events, WEFT_STORE_EVENT_PUT, 0).key, "/f/reset/new");
  weft_store_watch_close(watched);
  assert_int_equal(support_events_count(&fixture->events, WEFT_STORE_EVENT_LOST), 1);
  assert_int_equal(support_events_count(&fixture->events, WEFT_STORE_EVENT_RESET), 1);
  assert_int_equal(support_events_count(&fixture->events, WEFT_STORE_EVENT_RESUMED), 1); // the first
}

int main(void) {
#define FAULT(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      FAULT(a_dead_endpoint_is_passed_over),
      FAULT(a_refusing_endpoint_is_passed_over),
      FAULT(nobody_there_names_every_endpoint_and_reason),
      FAULT(silence_is_a_timeout_that_names_the_endpoint),
      FAULT(a_silent_endpoint_does_not_take_a_reads_whole_time),
      FAULT(a_put_whose_answer_is_lost_is_not_sent_again),
      FAULT(a_watch_counts_ten_thousand_events_across_three_cuts),
      FAULT(a_watch_finds_out_a_connection_that_died_without_a_word),
      FAULT(a_quiet_watch_is_renewed_without_a_word),
      FAULT(slow_answers_are_answers),
      FAULT(a_watch_is_closed_while_the_network_swallows_everything),
      FAULT(a_store_restarted_empty_is_said_and_watched_on),
  };
  if (!kind.start())
    return 1;
  int failed = cmocka_run_group_tests_name(kind.name, tests, NULL, NULL);
  kind.stop();
  return failed ? 1 : 0;
}
