// A rank's transport to other hosts that peers cannot reach, for instance because it was opened while a network was
// down: the rank opens a second one in its place. Also a caller that abandons its calls again and again while the
// called rank does nothing, and a called rank that takes calls and is silent.
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/core/engine.h"
#include "ep/remote/remote_link.h"

#define PREFIX "/weft/unreached/"

enum { DEADLINE_MS = 60000, UNREACHED_MS = 3000 };

// Rank 0 does not reach this address of rank 1.
static uint8_t bad[TRANSPORT_MAX_ADDRESS];
static uint32_t bad_size;
static _Atomic uint32_t refused;  // calls
static _Atomic uint64_t until_ns; // rank 1 does not reach rank 2, which makes its end of a link each time

int __real_ep_remote_connect(struct ep_remote *remote, const struct ep_tcp_message *message);
int __wrap_ep_remote_connect(struct ep_remote *remote, const struct ep_tcp_message *message);

int __wrap_ep_remote_connect(struct ep_remote *remote, const struct ep_tcp_message *message) {
  int32_t here = remote->ep->rank, there = remote->link->rank;
  if (bad_size > 0 && here == 0 && message->address_size == bad_size && memcmp(message->address, bad, bad_size) == 0) {
    atomic_fetch_add(&refused, 1);
    return fail(WEFT_ERR_UNREACHABLE, "that address is good for nothing");
  }
  if (here == 1 && there == 2 && !clock_passed(atomic_load(&until_ns)))
    return fail(WEFT_ERR_UNREACHABLE, "rank 1 does not reach rank 2");
  return __real_ep_remote_connect(remote, message);
}

static weft_ep_t *open_rank(weft_store_t *store, int32_t rank) {
  static const char *const hosts[] = {"host0", "host1", "host2"};
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  weft_ep_t *ep = NULL;
  options.store = store;
  options.prefix = PREFIX;
  options.rank = rank;
  options.capacity = 3;
  options.hidden = 128;
  options.max_tokens = 4;
  options.topk = 2;
  options.host_id = hosts[rank];
  if (weft_ep_open(&ep, &options, DEADLINE_MS) != 0)
    fail_msg("open: %s", weft_last_error());
  return ep;
}

static void an_address_that_is_not_reached_is_replaced(void **state) {
  (void)state;
  static const int32_t zero = 0;
  weft_store_t *store;
  struct ep_net *net;
  assert_int_equal(weft_store_open_local(&store), 0);
  weft_ep_t *called = open_rank(store, 0), *caller = open_rank(store, 1);
  assert_int_equal(ep_net_open(caller, NULL, &ep_remote_events, &net), 0);
  memcpy(bad, net->address, net->address_size);
  bad_size = (uint32_t)net->address_size;
  if (weft_ep_connect(caller, &zero, 1, DEADLINE_MS) != 0)
    fail_msg("%s", weft_last_error());
  assert_int_equal(refused, 1);
  memcpy(bad, net->address, net->address_size);
  ep_net_doubt(caller); // in use: it stays
  assert_int_equal(ep_net_open(caller, NULL, &ep_remote_events, &net), 0);
  assert_memory_equal(bad, net->address, bad_size);
  bad_size = 0;
  weft_ep_close(caller);
  weft_ep_close(called);
  weft_store_close(store);
}

static void links_that_were_given_up_do_not_pile_up(void **state) {
  (void)state;
  static const int32_t two = 2;
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  weft_ep_t *caller = open_rank(store, 1), *called = open_rank(store, 2);
  until_ns = clock_deadline_ms(UNREACHED_MS);
  if (weft_ep_connect(caller, &two, 1, DEADLINE_MS) != 0)
    fail_msg("%s", weft_last_error());
  weft_ep_close(called);
  weft_ep_close(caller);
  weft_store_close(store);
}

// Claims rank 0 for a process on another host that takes calls and answers none. Returns its listener.
static int claim_for_silent(weft_store_t *store) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  char claim[256];
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&at, size), 0);
  assert_int_equal(listen(listener, 4), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
  snprintf(claim, sizeof claim,
           "{\"incarnation\":\"00000000000000aa\",\"address\":\"elsewhere name 00112233445566778899aabbccddeeff "
           "127.0.0.1:%u\"}",
           ntohs(at.sin_port));
  assert_int_equal(weft_store_put(store, PREFIX "rank/0", claim, strlen(claim), 0, NULL), 0);
  return listener;
}

static void *connect_to_0(void *ep) {
  static const int32_t zero = 0;
  return weft_ep_connect(ep, &zero, 1, DEADLINE_MS) == WEFT_ERR_CANCELED ? ep : NULL;
}

// It may be the rank itself, whose process is stopped or busy: there is time for more calls before the deadline.
static void a_rank_that_takes_a_call_and_is_silent_is_called_again(void **state) {
  (void)state;
  weft_store_t *store;
  pthread_t thread;
  void *canceled;
  int calls[2];
  assert_int_equal(weft_store_open_local(&store), 0);
  weft_ep_t *caller = open_rank(store, 1);
  int listener = claim_for_silent(store);
  struct pollfd call = {.fd = listener, .events = POLLIN};
  assert_int_equal(pthread_create(&thread, NULL, connect_to_0, caller), 0);
  for (int i = 0; i < 2; i++) {
    if (poll(&call, 1, DEADLINE_MS) != 1)
      fail_msg("there are only %d calls", i);
    calls[i] = accept(listener, NULL, NULL);
    assert_true(calls[i] >= 0);
  }
  weft_ep_interrupt(caller);
  pthread_join(thread, &canceled);
  assert_non_null(canceled);
  for (int i = 0; i < 2; i++)
    close(calls[i]);
  close(listener);
  weft_ep_close(caller);
  weft_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(an_address_that_is_not_reached_is_replaced),
                                     cmocka_unit_test(links_that_were_given_up_do_not_pile_up),
                                     cmocka_unit_test(a_rank_that_takes_a_call_and_is_silent_is_called_again)};
  return cmocka_run_group_tests_name("ep_unreached", tests, NULL, NULL);
}
