// Handles after their store was closed, and in a forked child.
#include "conformance/kind.h"
#include "conformance/suite.h"
#include "support/events.h"
#include "support/sanitized.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_watch_outlives_its_store_as_a_handle(void **state) {
  struct support_events events;
  weft_store_watch_t *watch;
  support_events_init(&events);
  assert_ok(weft_store_watch_open(*state, "/e/", 0, support_events_take, &events, &watch));
  suite_put(*state, "/e/a", "x", 0);
  weft_store_close(*state);
  *state = NULL;
  size_t seen = support_events_count(&events, WEFT_STORE_EVENT_PUT);
  weft_store_watch_close(watch); // valgrind and the sanitizers see a handle that is freed twice, or never
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_PUT), seen);
  support_events_free(&events);
}

static void lists_outlive_their_store(void **state) {
  struct weft_store_list *list;
  suite_put(*state, "/e/list", "kept", 0);
  assert_ok(weft_store_range(*state, "/e/list", false, 0, &list));
  weft_store_close(*state);
  *state = NULL;
  assert_string_equal(list->kvs[0]->value, "kept");
  weft_store_list_free(list);
}

// What a call does not answer as it has to in a child; NULL: all do.
static const char *calls_of_child(weft_store_t *store) {
  struct weft_store_list *list = NULL;
  struct weft_store_txn_result *result = NULL;
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  weft_store_watch_t *watch = NULL;
  char version[64];
  int64_t lease = 0;
  if (weft_store_range(store, "/e/", true, 0, &list) != WEFT_ERR_CLOSED || list)
    return "range";
  if (!strstr(weft_last_error(), "forked"))
    return "the sentence";
  if (weft_store_put(store, "/e/child", "x", 1, 0, NULL) != WEFT_ERR_CLOSED)
    return "put";
  if (weft_store_delete(store, "/e/a", false, NULL) != WEFT_ERR_CLOSED)
    return "delete";
  if (weft_store_txn_commit(store, &txn, &result) != WEFT_ERR_CLOSED)
    return "txn_commit";
  if (weft_store_version(store, version, sizeof version, NULL) != WEFT_ERR_CLOSED)
    return "version";
  if (weft_store_lease_grant(store, 10, &lease, NULL) != WEFT_ERR_CLOSED ||
      weft_store_lease_keepalive(store, 1, NULL) != WEFT_ERR_CLOSED ||
      weft_store_lease_ttl(store, 1, &lease) != WEFT_ERR_CLOSED || weft_store_lease_revoke(store, 1) != WEFT_ERR_CLOSED)
    return "a call of leases";
  if (weft_store_watch_open(store, "/e/", 0, support_events_take, NULL, &watch) != WEFT_ERR_CLOSED)
    return "watch_open";
  return NULL;
}

// A store that the child opens itself serves it. ThreadSanitizer ends a forked child that starts a thread.
static const char *own_store(void) {
  if (SUPPORT_SANITIZED)
    return NULL;
  weft_store_t *own;
  struct weft_store_list *list;
  if (weft_store_open_local(&own) != 0 || weft_store_put(own, "k", "v", 1, 0, NULL) != 0 ||
      weft_store_range(own, "k", false, 0, &list) != 0)
    return "the child's own store";
  weft_store_list_free(list);
  weft_store_close(own);
  return NULL;
}

static void a_forked_child_leaves_the_parents_store_alone(void **state) {
  struct support_events events;
  weft_store_watch_t *watch;
  support_events_init(&events);
  assert_ok(weft_store_watch_open(*state, "/e/", 0, support_events_take, &events, &watch));
  suite_put(*state, "/e/a", "before", 0);
  assert_true(support_events_wait_key(&events, "/e/a", 0, 60000));
  pid_t child = fork();
  if (child == 0) {
    const char *wrong = calls_of_child(*state);
    wrong = wrong ? wrong : own_store();
    weft_store_watch_close(watch);
    weft_store_close(*state);
    if (wrong)
      fprintf(stderr, "%s, in a forked child: %s\n", wrong, weft_last_error());
    const char *end = wrong ? "false" : "true"; // by exec(): memcheck would count what the missing threads had
    execlp(end, end, (char *)NULL);
    _exit(2);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  int64_t after = suite_put(*state, "/e/a", "after", 0); // on the connection that the child has closed
  assert_true(support_events_wait_key(&events, "/e/a", after, 60000));
  assert_int_equal(support_events_count(&events, WEFT_STORE_EVENT_LOST), 0);
  weft_store_watch_close(watch);
  support_events_free(&events);
}

int suite_run_endings(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_watch_outlives_its_store_as_a_handle),
      TEST(lists_outlive_their_store),
      TEST(a_forked_child_leaves_the_parents_store_alone),
  };
  return cmocka_run_group_tests_name("endings", tests, NULL, NULL);
}
