// Links without operations: they are connected again and again, by many callers at once.
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/doorbell.h"
#include "ep/core/engine.h"
#include "ep/handshake/handshake.h"
#include "ep/link/handshake_wire.h"
#include "ep/support/rank.h"
#include "ep/support/touched_pages.h"
#include "ep/view/views.h"
#include "group/view.h"

enum { DEADLINE_MS = 20000, ROUNDS = 200, CALLS = 20 };

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

// When the next call comes, the peer may not have noticed yet that the last link was released.
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

static int pages_kept(const struct ep_window *window) {
  return pages_present((const char *)window->memory + EP_PAGE, window->size - EP_PAGE);
}

// Their memory goes though its owner makes no call that would let go of them.
static void what_callers_left_is_given_back_by_a_rank_that_is_idle(void **state) {
  (void)state;
  static const int32_t one = 1;
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options[] = {small(store, 0, 2), small(store, 1, 2)};
  weft_ep_t *ep, *idle;
  assert_int_equal(weft_ep_open(&ep, &options[0], DEADLINE_MS), 0);
  assert_int_equal(weft_ep_open(&idle, &options[1], DEADLINE_MS), 0);
  for (int i = 0; i < CALLS; i++) {
    assert_int_equal(weft_ep_connect(ep, &one, 1, DEADLINE_MS), 0);
    assert_int_equal(weft_ep_disconnect(ep, &one, 1, DEADLINE_MS), 0);
  }
  pthread_mutex_lock(&idle->links.lock);
  int count = 0, kept = 0;
  for (struct ep_link *link = idle->links.superseded; link; link = link->next, count++)
    if (link->holds == 0) { // else its end is under way
      int in = pages_kept(&link->in), out = pages_kept(&link->out);
      bool notice = link->remote && in == 1; // the network has written the end's notice there
      if (in + out > 0 && !notice)
        print_error("link %d keeps %d pages of the window to this rank, and %d of the other\n", count, in, out);
      kept += notice ? out : in + out;
    }
  pthread_mutex_unlock(&idle->links.lock);
  assert_int_equal(kept, 0);
  assert_uint_in_range(count, 1, CALLS);
  weft_ep_close(idle);
  weft_ep_close(ep);
  weft_store_close(store);
}

static void publish_view(weft_ep_t *ep, uint64_t epoch, int32_t other, uint64_t incarnation, bool with_us) {
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
  publish_view(ep, 2, 1, 77, true);
  publish_view(ep, 3, 1, 77, false);
  assert_int_equal(atomic_load(&ep->ready), 0);
  ep_answer_end(ep, 1); // the caller has gone: a view with a rank that is not there is passed over
  assert_int_equal(atomic_load(&ep->ready), 3);
  weft_ep_close(ep);
  weft_store_close(store);
}

// Calls in the name of a rank, which gives the call up: before it is answered, where the called one's service thread
// stands still meanwhile, as when its process is stopped; or with `answered` behind the answer, which it does not read.
static void call_and_give_up(weft_ep_t *caller, weft_ep_t *called, bool answered) {
  struct ep_handshake_message hello = ep_handshake_message_make(caller, EP_HELLO, called->incarnation);
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control = {0};
  struct iovec data = {.iov_base = &hello, .iov_len = sizeof hello};
  struct msghdr packet = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  struct ep_window area;
  int fds[] = {caller->bell_fd, -1}, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  assert_int_equal(sscanf(called->links.address, "%*s %63s", to.sun_path + 1), 1); // abstract: a NUL first
  assert_int_equal(ep_window_create(&area, caller->layout.area, &fds[1]), 0);
  *CMSG_FIRSTHDR(&packet) =
      (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds)};
  memcpy(CMSG_DATA(CMSG_FIRSTHDR(&packet)), fds, sizeof fds);
  if (!answered)
    pthread_mutex_lock(&called->links.lock);
  assert_int_equal(connect(fd, (struct sockaddr *)&to,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(to.sun_path + 1))),
                   0);
  assert_int_equal(sendmsg(fd, &packet, MSG_NOSIGNAL), sizeof hello);
  struct pollfd answer = {.fd = fd, .events = POLLIN};
  assert_true(!answered || poll(&answer, 1, DEADLINE_MS) == 1);
  close(fd);
  if (!answered)
    pthread_mutex_unlock(&called->links.lock);
  close(fds[1]);
  ep_window_release(&area);
}

static void *meet_at_barrier(void *ep) {
  return weft_ep_barrier(ep) == 0 ? ep : NULL;
}

enum { FOUNDERS = 3 };

// The last of them is lost in the operations before the view without it.
static void *meet_without_last(void *arg) {
  weft_ep_t *ep = arg;
  int rc = 0;
  while (ep->view->count == FOUNDERS && (rc == 0 || rc == WEFT_ERR_PEER_LOST))
    rc = weft_ep_barrier(ep);
  return meet_at_barrier(ep);
}

struct founders {
  weft_store_t *store;
  weft_ep_t *ep[FOUNDERS];
};

static void open_founders(struct founders *all) {
  static const int32_t founders[FOUNDERS] = {0, 1, 2};
  assert_int_equal(weft_store_open_local(&all->store), 0);
  for (int32_t rank = 0; rank < FOUNDERS; rank++) {
    struct weft_ep_options options = small(all->store, rank, FOUNDERS);
    options.founders = founders;
    options.num_founders = FOUNDERS;
    assert_int_equal(weft_ep_open(&all->ep[rank], &options, DEADLINE_MS), 0);
  }
}

// All of them; or all but the last, which has gone.
static void meet(struct founders *all, bool absent) {
  void *(*body)(void *ep) = absent ? meet_without_last : meet_at_barrier;
  pthread_t threads[FOUNDERS];
  for (int i = 0; i < FOUNDERS - absent; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, body, all->ep[i]), 0);
  for (int i = 0; i < FOUNDERS - absent; i++) {
    void *met;
    pthread_join(threads[i], &met);
    assert_non_null(met);
  }
}

static void close_founders(struct founders *all) {
  for (int i = 0; i < FOUNDERS; i++)
    weft_ep_close(all->ep[i]);
  weft_store_close(all->store);
}

// A founder is in the first view before it has links to all: one whose activation has timed out may try again.
static void expect_no_death(bool answered) {
  struct founders all;
  open_founders(&all);
  weft_ep_t **ep = all.ep;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  assert_int_equal(weft_ep_activate(ep[0], DEADLINE_MS), 0);
  while (!ep_views_has(ep[2], 1, ep[1]->incarnation) && !clock_passed(deadline))
    poll(NULL, 0, 1);
  call_and_give_up(ep[1], ep[2], answered);
  while ((!atomic_load(&ep[2]->links.by_rank[1]) || ep_link_find(ep[2], 1, 0)) && !clock_passed(deadline))
    poll(NULL, 0, 1);
  assert_int_equal(weft_ep_activate(ep[1], DEADLINE_MS), 0);
  assert_int_equal(weft_ep_activate(ep[2], DEADLINE_MS), 0);
  meet(&all, false);
  struct weft_ep_event event = {.size = sizeof event};
  while (weft_ep_next_event(ep[2], &event) == 1)
    if (event.kind == WEFT_EP_EVENT_PEER_LOST)
      fail_msg("rank 2 has lost rank %d: %s", event.rank, event.detail);
  close_founders(&all);
}

static void a_call_that_was_given_up_is_no_death(void **state) {
  (void)state;
  expect_no_death(false);
}

static void a_call_that_was_given_up_behind_its_answer_is_no_death(void **state) {
  (void)state;
  expect_no_death(true);
}

// The first view is agreed on as soon as the lowest founder has its links. One that goes before it has called the
// others is put out, and these go on.
static void a_founder_that_was_put_out_is_not_waited_for(void **state) {
  (void)state;
  struct founders all;
  open_founders(&all);
  assert_int_equal(weft_ep_activate(all.ep[0], DEADLINE_MS), 0);
  weft_ep_close(all.ep[2]);
  all.ep[2] = NULL;
  if (weft_ep_activate(all.ep[1], DEADLINE_MS) != 0)
    fail_msg("%s", weft_last_error());
  meet(&all, true);
  close_founders(&all);
}

static bool calls(weft_ep_t *ep, int32_t rank) {
  pthread_mutex_lock(&ep->links.lock);
  bool calls = ep->links.dialling[rank] != 0;
  pthread_mutex_unlock(&ep->links.lock);
  return calls;
}

static void await_call(weft_ep_t *ep, int32_t rank, bool begun) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (calls(ep, rank) != begun && !clock_passed(deadline))
    poll(NULL, 0, 1);
  assert_int_equal(calls(ep, rank), begun);
}

static void *connect_to_0(void *arg) {
  static const int32_t zero = 0;
  return weft_ep_connect(arg, &zero, 1, DEADLINE_MS) == 0 ? arg : NULL;
}

// If two ranks call each other, the call of the lower one stands. It may be interrupted, or reach its deadline, before
// the other rank has seen anything of it.
static void a_rank_that_yielded_to_a_call_that_was_given_up_calls_again(void **state) {
  (void)state;
  weft_store_t *store;
  pthread_t thread;
  void *connected;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options[] = {small(store, 0, 2), small(store, 1, 2)};
  weft_ep_t *ep, *peer;
  assert_int_equal(weft_ep_open(&ep, &options[0], DEADLINE_MS), 0);
  assert_int_equal(weft_ep_open(&peer, &options[1], DEADLINE_MS), 0);
  pthread_mutex_lock(&ep->links.lock); // its service thread answers nothing meanwhile
  assert_int_equal(pthread_create(&thread, NULL, connect_to_0, peer), 0);
  await_call(peer, 0, true);
  ep->links.dialling[1] = peer->incarnation;
  pthread_mutex_unlock(&ep->links.lock);
  await_call(peer, 0, false);
  assert_null(ep_link_find(peer, 0, 0));
  pthread_mutex_lock(&ep->links.lock);
  ep->links.dialling[1] = 0;
  pthread_mutex_unlock(&ep->links.lock);
  pthread_join(thread, &connected);
  assert_non_null(connected);
  weft_ep_close(peer);
  weft_ep_close(ep);
  weft_store_close(store);
}

// Claims rank 0 for a process that takes calls and never answers them, as one that is stopped. Returns its listener.
static int claim_for_stopped(weft_store_t *store, const char *prefix, const weft_ep_t *caller) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  char name[32], host[EP_HOST_SIZE], key[64], claim[EP_HOST_SIZE + 128];
  int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  int length = snprintf(name, sizeof name, "weft-%016x", (unsigned)getpid()); // the test runs several times at once
  memcpy(at.sun_path + 1, name, (size_t)length);                              // abstract: a NUL first
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  assert_int_equal(bind(listener, (struct sockaddr *)&at, size), 0);
  assert_int_equal(listen(listener, 1), 0);
  assert_int_equal(sscanf(caller->links.address, "%159s", host), 1);
  snprintf(key, sizeof key, "%srank/0", prefix);
  snprintf(claim, sizeof claim, "{\"incarnation\":\"00000000000000aa\",\"address\":\"%s %s\"}", host, name);
  assert_int_equal(weft_store_put(store, key, claim, strlen(claim), 0, NULL), 0);
  return listener;
}

// A stopped process neither answers nor hangs up. When the group has taken its claim, whoever calls it goes on with the
// rank's next life.
static void a_call_ends_when_the_called_rank_has_lost_its_claim(void **state) {
  (void)state;
  static const char prefix[] = "/stopped/";
  weft_store_t *store;
  weft_ep_t *peer, *next;
  pthread_t thread;
  void *connected;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options[] = {small(store, 0, 2), small(store, 1, 2)};
  options[0].prefix = options[1].prefix = prefix;
  assert_int_equal(weft_ep_open(&peer, &options[1], DEADLINE_MS), 0);
  int listener = claim_for_stopped(store, prefix, peer);
  struct pollfd call = {.fd = listener, .events = POLLIN};
  assert_int_equal(pthread_create(&thread, NULL, connect_to_0, peer), 0);
  assert_int_equal(poll(&call, 1, DEADLINE_MS), 1);
  assert_int_equal(weft_store_delete(store, "/stopped/rank/0", false, NULL), 0);
  assert_int_equal(weft_ep_open(&next, &options[0], DEADLINE_MS), 0);
  pthread_join(thread, &connected);
  assert_non_null(connected);
  assert_non_null(ep_link_find(peer, 0, next->incarnation));
  close(listener);
  weft_ep_close(next);
  weft_ep_close(peer);
  weft_store_close(store);
}

static atomic_uint watched, uncounted; // links whose end may be noticed, and those that were not counted by then

int __real_ep_service_watch(weft_ep_t *ep, struct ep_link *link);
int __wrap_ep_service_watch(weft_ep_t *ep, struct ep_link *link);
int __wrap_ep_service_watch(weft_ep_t *ep, struct ep_link *link) {
  int rc = __real_ep_service_watch(ep, link);
  atomic_fetch_add(&watched, 1);
  atomic_fetch_add(&uncounted, atomic_load(&ep->links.connected) == 0);
  return rc;
}

// Otherwise a link that ends at once makes the number of connected peers wrap around.
static void a_link_is_counted_before_its_end_may_be_noticed(void **state) {
  (void)state;
  static const int32_t one = 1;
  weft_store_t *store;
  weft_ep_t *ep, *peer;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options[] = {small(store, 0, 2), small(store, 1, 2)};
  assert_int_equal(weft_ep_open(&ep, &options[0], DEADLINE_MS), 0);
  assert_int_equal(weft_ep_open(&peer, &options[1], DEADLINE_MS), 0);
  watched = uncounted = 0;
  assert_int_equal(weft_ep_connect(ep, &one, 1, DEADLINE_MS), 0);
  assert_int_equal(watched, 2);
  assert_int_equal(uncounted, 0);
  weft_ep_close(peer);
  weft_ep_close(ep);
  weft_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_link_is_counted_before_its_end_may_be_noticed),
      cmocka_unit_test(a_rank_connects_again_at_once),
      cmocka_unit_test(what_callers_left_is_given_back_by_a_rank_that_is_idle),
      cmocka_unit_test(a_rank_is_ready_for_no_view_before_its_handshakes_end),
      cmocka_unit_test(a_call_that_was_given_up_is_no_death),
      cmocka_unit_test(a_call_that_was_given_up_behind_its_answer_is_no_death),
      cmocka_unit_test(a_founder_that_was_put_out_is_not_waited_for),
      cmocka_unit_test(a_rank_that_yielded_to_a_call_that_was_given_up_calls_again),
      cmocka_unit_test(a_call_ends_when_the_called_rank_has_lost_its_claim),
  };
  return cmocka_run_group_tests_name("ep_reconnect", tests, NULL, NULL);
}
