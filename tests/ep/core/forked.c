// A rank in a forked child: every call answers CLOSED, and the parent's rank goes on.
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "cmocka_all.h"

enum { DEADLINE_MS = 60000 };

// The number of the first call that does not answer as it should; 0: none.
static int use_in_child(weft_ep_t *ep) {
  struct weft_ep_dispatch_args tokens = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args received = WEFT_EP_RECV_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  int32_t counts[1], self = 0;
  uint64_t op;
  uint32_t count;
  received.counts = counts;
  const int answers[] = {
      weft_ep_barrier(ep),
      weft_ep_dispatch(ep, &tokens, &received, NULL, &op),
      weft_ep_combine(ep, 0, &combine, NULL),
      weft_ep_disconnect(ep, &self, 1, 0),
      weft_ep_activate(ep, 0),
      weft_ep_next_event(ep, &event),
      weft_ep_view(ep, NULL, NULL, 0, &count),
      weft_ep_get_stats(ep, &stats),
  };
  for (int i = 0; i < (int)(sizeof answers / sizeof *answers); i++)
    if (answers[i] != WEFT_ERR_CLOSED)
      return i + 1;
  weft_ep_close(ep);
  return 0;
}

static void a_child_has_no_rank_and_its_parents_goes_on(void **state) {
  (void)state;
  weft_store_t *store;
  weft_ep_t *ep;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.hidden = 128;
  options.max_tokens = 4;
  assert_int_equal(weft_ep_open(&ep, &options, DEADLINE_MS), 0);
  assert_int_equal(weft_ep_activate(ep, DEADLINE_MS), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    _exit(use_in_child(ep));
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(weft_ep_barrier(ep), 0);
  assert_true(weft_ep_is_active(ep));
  weft_ep_close(ep);
  weft_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_child_has_no_rank_and_its_parents_goes_on)};
  return cmocka_run_group_tests_name("ep_forked", tests, NULL, NULL);
}
