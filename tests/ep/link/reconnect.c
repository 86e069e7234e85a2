// Links without operations: connected again and again, called by many at once.
#include <poll.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/doorbell.h"
#include "ep/core/engine.h"
#include "ep/handshake/handshake.h"
#include "ep/support/rank.h"
#include "ep/view/views.h"
#include "group/view.h"

enum { DEADLINE_MS = 20000, ROUNDS = 200 };

static struct weft_ep_options small(weft_store_t *store, int32_t rank, uint32_t capacity) {
  return (struct weft_ep_options){.size = sizeof(struct weft_ep_options),
                                  .store = store,
                                  .rank = rank,
                                  .capacity = capacity,
                                  .hidden = 128,
                                  .max_tokens = 4,
                                  .topk = 2};
}

static uint64_t window_bytes(weft_ep_t *ep) {
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_int_equal(weft_ep_get_stats(ep, &stats), 0);
  return stats.window_bytes;
}

// Waits until the service thread has freed what the owner let go of.
static void assert_holds_nothing(weft_ep_t *ep) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (window_bytes(ep) != EP_DOORBELL_SIZE) {
    if (clock_passed(deadline))
      fail_msg("rank %d still has windows of %llu bytes", weft_ep_rank(ep), (unsigned long long)window_bytes(ep));
    poll(NULL, 0, 1);
  }
}

// The peer may not have heard yet that the last link was let go of when the next call comes.
static void a_rank_connects_again_at_once(void **state) {
  (void)state;
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options[] = {small(store, 0, 2), small(store, 1, 2)};
  weft_ep_t *ep, *peer;
  assert_int_equal(weft_ep_open(&ep, &options[0], DEADLINE_MS), 0);
  assert_int_equal(weft_ep_open(&peer, &options[1], DEADLINE_MS), 0);
  static const int32_t one = 1;
  for (int i = 0; i < ROUNDS; i++) {
    if (weft_ep_connect(ep, &one, 1, DEADLINE_MS) != 0 || weft_ep_disconnect(ep, &one, 1, DEADLINE_MS) != 0)
      fail_msg("round %d: %s", i, weft_last_error());
  }
  assert_holds_nothing(ep);
  assert_int_equal(weft_ep_connect(peer, NULL, 0, 0), 0); // whatever it does next lets go of what its callers left
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  struct weft_ep_stats stats = {.size = sizeof stats, .connected = 1};
  while (stats.connected > 0 && !clock_passed(deadline)) // the last hang-up
    assert_int_equal(weft_ep_get_stats(peer, &stats), 0);
  assert_int_equal(weft_ep_disconnect(peer, NULL, 0, 0), 0);
  assert_holds_nothing(peer);
  weft_ep_close(peer);
  weft_ep_close(ep);
  weft_store_close(store);
}

static void tell_view(weft_ep_t *ep, uint64_t epoch, int32_t other, uint64_t incarnation, bool with_us) {
  struct group_view *view = group_view_new(epoch, with_us ? 2 : 1);
  assert_non_null(view);
  if (with_us)
    view->members[0] = (struct group_member){.rank = ep->rank, .incarnation = ep->incarnation};
  view->members[view->count - 1] = (struct group_member){.rank = other, .incarnation = incarnation};
  struct group_event event = {.kind = GROUP_EVENT_VIEW, .view = view};
  ep_views_event(ep, &event);
  group_view_unref(view);
}

// The joiner has seen the end of the handshake, and is in the next view; this rank has not, and is not in the one after
// that. If this rank called itself ready for that one, the others would run in the view between with a joiner that
// waits for its rows for ever.
static void a_rank_is_ready_for_no_view_before_its_handshakes_end(void **state) {
  (void)state;
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options = small(store, 0, 2);
  weft_ep_t *ep;
  assert_int_equal(weft_ep_open(&ep, &options, DEADLINE_MS), 0);
  assert_true(ep_answer_begin(ep, 1, 77));
  tell_view(ep, 2, 1, 77, true);
  tell_view(ep, 3, 1, 77, false);
  assert_int_equal(atomic_load(&ep->ready), 0);
  ep_answer_end(ep, 1); // the caller has gone: a view with a rank that is not there is passed over
  assert_int_equal(atomic_load(&ep->ready), 3);
  weft_ep_close(ep);
  weft_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rank_connects_again_at_once),
      cmocka_unit_test(a_rank_is_ready_for_no_view_before_its_handshakes_end),
  };
  return cmocka_run_group_tests_name("ep_reconnect", tests, NULL, NULL);
}
