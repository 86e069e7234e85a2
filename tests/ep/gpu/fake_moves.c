// Rows of throughput groups to another host, on a plug-in without a GPU: the transport moves them from window to window
// where it can, and they are sent in batches where it cannot. The test also checks windows whose link ends during a
// move, and ring positions that a peer may not announce.
#include "ep/gpu/support/fake_ranks.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "ep/gpu/remote/proxy.h"
#include "ep/gpu/remote/rings.h"
#include "support/sanitized.h"

enum { HIDDEN = 8192, OPS = 40, RINGS = 2097153 };

// The environment may name another transport.
static const char *transport_of_test(void) {
  const char *name = getenv("WEFT_TEST_RELAY");
  return name ? name : "shm";
}

static struct weft_ep_options far(int32_t rank, const char *transport) {
  static const int32_t founders[] = {0, 1};
  struct weft_ep_options options = fake_options(rank, founders, 2);
  options.mode = WEFT_EP_THROUGHPUT;
  options.hidden = HIDDEN;
  options.host_id = rank ? "odd" : "even";
  options.transport = transport;
  options.listen = "127.0.0.1";
  return options;
}

static void found(weft_ep_t *eps[2], const char *transport, uint32_t op_timeout_ms) {
  struct fake_activation activations[2];
  for (int i = 0; i < 2; i++) {
    struct weft_ep_options options = far(i, transport);
    options.op_timeout_ms = op_timeout_ms ? op_timeout_ms : options.op_timeout_ms;
    eps[i] = fake_open(options);
    fake_begin(&activations[i], eps[i]);
  }
  for (int i = 0; i < 2; i++)
    fake_end(&activations[i]);
}

static void close_both(weft_ep_t *eps[2]) {
  for (int i = 0; i < 2; i++)
    weft_ep_close(eps[i]);
}

static struct ep_remote *remote_of(weft_ep_t *ep, int32_t rank) {
  struct ep_link *link = ep_link_find(ep, rank, 0);
  assert_non_null(link);
  assert_non_null(link->remote);
  return link->remote;
}

static uint64_t moved_to(weft_ep_t *ep, int32_t rank) {
  struct ep_remote *remote = remote_of(ep, rank);
  ep_net_lock(remote->net);
  uint64_t moved = ep_proxy_moved(remote);
  ep_net_unlock(remote->net);
  return moved;
}

// The plug-in of the tests ends the process when a row is wrong.
static void operate(weft_ep_t *eps[2]) {
  for (int n = 0; n < OPS; n++) {
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    fake_operate(eps, 2, &info);
    assert_true(info.num_ranks == 2 && info.num_lost == 0);
  }
}

static void rows_go_from_window_to_window(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  found(eps, transport_of_test(), 0);
  operate(eps);
  for (int i = 0; i < 2; i++) {
    uint64_t moved = moved_to(eps[i], !i);
    if (moved < (uint64_t)OPS * 2 * HIDDEN)
      fail_msg("%llu bytes went from window to window", (unsigned long long)moved);
  }
  close_both(eps);
}

static void requests_may_come_late(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  char name[64];
  snprintf(name, sizeof name, "fault:3:delay=50/20:%s", transport_of_test());
  found(eps, name, 0);
  operate(eps);
  assert_true(moved_to(eps[0], 1) >= (uint64_t)OPS * 2 * HIDDEN);
  close_both(eps);
}

static void where_rings_are_not_registered_rows_go_in_batches(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  char name[64];
  snprintf(name, sizeof name, "fault:1:reg@%d:%s", RINGS, transport_of_test());
  found(eps, name, 0);
  operate(eps);
  for (int i = 0; i < 2; i++)
    assert_int_equal(moved_to(eps[i], !i), 0);
  close_both(eps);
}

// A move sticks: operations lose the peer, and the ranks close. What does not even end then has its memory kept, which
// a sanitizer takes for lost.
static void a_link_may_end_in_mid_move(void **state) {
  (void)state;
  const char *scripts[] = {"big@8192", "big@8192+cling@1"};
  if (!SUPPORT_SANITIZED && !getenv("WEFT_TEST_RELAY"))
    scripts[1] = "big@8192+cling@2";
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    weft_ep_t *eps[2];
    char name[64];
    snprintf(name, sizeof name, "fault:1:%s:%s", scripts[i], transport_of_test());
    found(eps, name, 1000);
    for (int r = 0; r < 2; r++)
      fake_launch(eps[r]);
    uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
    while (moved_to(eps[0], 1) == 0 && !clock_passed(deadline_ns))
      sched_yield();
    assert_true(moved_to(eps[0], 1) > 0);
    deadline_ns = clock_deadline_ms(DEADLINE_MS);
    close_both(eps);
    assert_false(clock_passed(deadline_ns));
  }
}

// --- what a peer shows ---

static int show(struct ep_remote *from, struct ep_remote *to, struct ep_rings *rings, struct ep_tcp_message *message,
                struct transport_region *region) {
  size_t size = sizeof message->rings_key;
  if (region) {
    ep_net_lock(to->net);
    assert_int_equal(to->net->transport->pack(region, message->rings_key, &size), 0);
    ep_net_unlock(to->net);
    message->rings_key_size = (uint32_t)size;
  }
  ep_net_lock(from->net);
  int rc = ep_rings_import(rings, from, message);
  ep_net_unlock(from->net);
  return rc;
}

static void rings_that_no_peer_shows_are_refused(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  static struct ep_tcp_message message;
  found(eps, "shm", 0);
  struct ep_remote *from = remote_of(eps[0], 1), *to = remote_of(eps[1], 0);
  struct ep_rings rings = {.bytes = 4096}, none = {.bytes = 0};
  message.rings_key_size = 0;
  assert_int_equal(show(from, to, &rings, &message, NULL), 0);
  assert_null(rings.there);
  message.rings_key_size = 70;
  assert_int_not_equal(show(from, to, &rings, &message, NULL), 0);
  assert_says("the rings of rank 1");
  assert_int_equal(show(from, to, &rings, &message, to->in), WEFT_ERR_PROTOCOL);
  assert_says("the rings of rank 1 have 2097152 bytes, not 4096");
  assert_null(rings.there);
  assert_int_equal(show(from, to, &none, &message, NULL), WEFT_ERR_PROTOCOL);
  assert_says("this group has none");
  close_both(eps);
}

// --- windows that may be written late ---

static bool is_quarantined(weft_ep_t *ep, const void *host) {
  bool found = false;
  pthread_mutex_lock(&ep->gpu->lock);
  for (int i = 0; i < GPU_QUARANTINE; i++)
    found |= ep->gpu->quarantine[i].host == host;
  pthread_mutex_unlock(&ep->gpu->lock);
  return found;
}

static bool is_let_go_of(struct ep_net *net, const struct ep_remote *twin) {
  bool gone = true;
  ep_net_lock(net);
  for (uint32_t i = 0; i < net->num_remotes; i++)
    gone &= net->remotes[i] == NULL || net->remotes[i] == twin;
  ep_net_unlock(net);
  return gone;
}

// Whether rank 0's window for rank 1 stays when the link has gone. `twin`: a newer link to that peer, which is not
// fenced then.
static bool stays(weft_ep_t *eps[2], struct ep_remote *twin) {
  struct ep_net *net = remote_of(eps[0], 1)->net;
  const struct ep_link *link = remote_of(eps[0], 1)->link;
  const void *window = link->device.host_in;
  struct ep_link other = {.rank = link->rank, .incarnation = link->incarnation};
  uint32_t last = net->num_remotes - 1;
  if (twin) {
    twin->link = &other;
    ep_net_lock(net);
    assert_null(net->remotes[last]);
    net->remotes[last] = twin;
    ep_net_unlock(net);
  }
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  weft_ep_close(eps[1]);
  while (!is_let_go_of(net, twin) && !clock_passed(deadline_ns))
    fake_operate(eps, 1, NULL);
  while (atomic_load(&eps[0]->links.window_bytes) > 0 && !clock_passed(deadline_ns))
    sched_yield();
  if (clock_passed(deadline_ns))
    fail_msg("the link to rank 1 is not let go of");
  ep_net_lock(net);
  net->remotes[last] = NULL;
  ep_net_unlock(net);
  return is_quarantined(eps[0], window);
}

static void a_window_stays_where_its_peer_was_not_fenced(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  static struct ep_remote twin;
  found(eps, "shm", 2000);
  assert_true(stays(eps, &twin));
  weft_ep_close(eps[0]);
}

static void a_window_is_given_back_where_it_was(void **state) {
  (void)state;
  weft_ep_t *eps[2];
  found(eps, "shm", 2000);
  assert_false(stays(eps, NULL));
  weft_ep_close(eps[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_open_store, fake_close_store)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(rows_go_from_window_to_window),
      TEST(requests_may_come_late),
      TEST(where_rings_are_not_registered_rows_go_in_batches),
      TEST(a_link_may_end_in_mid_move),
      TEST(rings_that_no_peer_shows_are_refused),
      TEST(a_window_stays_where_its_peer_was_not_fenced),
      TEST(a_window_is_given_back_where_it_was),
  };
  return cmocka_run_group_tests_name("ep_fake_moves", tests, NULL, NULL);
}
