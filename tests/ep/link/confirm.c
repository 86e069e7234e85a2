// A called rank counts a link only when its caller has confirmed that it has the answer. Callers give their calls up at
// any time, and then know of no link.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/link/handshake_wire.h"
#include "ep/support/raw_peer.h"
#include "ep/view/views.h"
#include "group/view.h"

enum { NOTICE_BITS = 56 }; // a word of the control socket has its notice above these

// A call that was made in the name of the caller, up to the answer.
struct call {
  struct hosts hosts;
  int socket;
  struct tls *tls;      // to another host
  struct ep_link *link; // with what the called rank reaches of the caller
  int own[EP_FDS];
};

// --- calls ---

// Receives that many bytes; the other side may send more.
static void receive(struct call *call, void *bytes, size_t size) {
  size_t got = 0;
  for (size_t at = 0; at < size; at += got) {
    int rc = tls_read(call->tls, (char *)bytes + at, size - at, &got);
    struct pollfd ready = {.fd = call->socket, .events = rc == TLS_WANTS_WRITE ? POLLOUT : POLLIN};
    if (rc < 0 || (rc > 0 && poll(&ready, 1, RAW_PEER_DEADLINE_MS) != 1))
      fail_msg("of %zu bytes %zu arrived", size, at);
    got = rc > 0 ? 0 : got;
  }
}

static struct ep_tcp_message make_hello(struct call *call) {
  weft_ep_t *caller = call->hosts.caller;
  uint64_t called = call->hosts.called->incarnation;
  struct ep_net *net;
  assert_int_equal(ep_net_open(caller, "shm", &ep_remote_events, &net), 0);
  assert_int_equal(ep_link_new(caller, 0, called, EP_ROUTE_TRANSPORT, &call->link, call->own), 0);
  assert_int_equal(ep_remote_new(caller, net, call->link, call->own[EP_FD_AREA]), 0);
  struct ep_tcp_message hello = ep_tcp_message_make(caller, EP_HELLO, called);
  assert_int_equal(ep_remote_describe(call->link->remote, &hello), 0);
  return hello;
}

static void call_from_another_host(struct call *call) {
  struct ep_tcp_message hello = make_hello(call), answer;
  call->socket = raw_peer_call(call->hosts.called);
  call->tls = raw_peer_prove(call->socket, true, call->hosts.called->links.tcp_key);
  assert_non_null(call->tls);
  raw_peer_tls_send(call->tls, call->socket, &hello, sizeof hello);
  receive(call, &answer, sizeof answer);
  assert_int_equal(answer.message.kind, EP_WELCOME);
}

static void call_on_one_host(struct call *call) {
  weft_ep_t *caller = call->hosts.caller;
  struct ep_handshake_message hello = ep_handshake_message_make(caller, EP_HELLO, call->hosts.called->incarnation);
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control = {0};
  struct iovec data = {.iov_base = &hello, .iov_len = sizeof hello};
  struct msghdr packet = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  assert_int_equal(ep_link_new(caller, 0, call->hosts.called->incarnation, EP_ROUTE_MAPPED, &call->link, call->own), 0);
  int fds[] = {caller->bell_fd, call->own[EP_FD_AREA]};
  *CMSG_FIRSTHDR(&packet) =
      (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds)};
  memcpy(CMSG_DATA(CMSG_FIRSTHDR(&packet)), fds, sizeof fds);
  call->socket = raw_peer_call_near(call->hosts.called);
  assert_int_equal(sendmsg(call->socket, &packet, MSG_NOSIGNAL), sizeof hello);
  assert_int_equal(recv(call->socket, &hello, sizeof hello, 0), sizeof hello);
  assert_int_equal(hello.kind, EP_WELCOME);
}

// Calls, from another host or on the same one, and receives the answer.
static void begin(struct call *call, bool far) {
  *call = (struct call){.own = EP_NO_FDS};
  hosts_open(&call->hosts);
  if (!far) {
    weft_ep_close(call->hosts.caller);
    call->hosts.caller = hosts_rank(&call->hosts, 1, "one");
  }
  (far ? call_from_another_host : call_on_one_host)(call);
}

static void hang_up(struct call *call) {
  tls_close(call->tls);
  if (call->socket >= 0)
    close(call->socket);
  call->tls = NULL;
  call->socket = -1;
}

static void end(struct call *call, bool far) {
  hang_up(call);
  if (!far)
    close(call->own[EP_FD_AREA]); // a link to another host owns it
  ep_link_free(call->hosts.caller, call->link);
  hosts_close(&call->hosts);
}

static void confirm(struct call *call) {
  static const uint64_t near = EP_CONFIRMATION, far = (uint64_t)EP_NOTICE_CONFIRMED << NOTICE_BITS;
  if (call->tls)
    raw_peer_tls_send(call->tls, call->socket, &far, sizeof far);
  else
    assert_int_equal(send(call->socket, &near, sizeof near, MSG_NOSIGNAL), sizeof near);
}

// --- what the called rank knows ---

static void publish_view(weft_ep_t *ep, uint64_t epoch, int32_t other, uint64_t incarnation) {
  struct group_view *view = group_view_new(epoch, other >= 0 ? 2 : 1);
  assert_non_null(view);
  view->members[0] = (struct group_member){.rank = ep->rank, .incarnation = ep->incarnation};
  if (other >= 0)
    view->members[1] = (struct group_member){.rank = other, .incarnation = incarnation};
  struct group_event event = {.kind = GROUP_EVENT_VIEW, .view = view};
  ep_views_event(ep, &event);
  group_view_unref(view);
}

static bool is_connected(weft_ep_t *ep, int32_t rank) {
  return weft_ep_connect(ep, &rank, 1, 0) == 0;
}

static void await_ready(weft_ep_t *ep, uint64_t epoch) {
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS);
  while (atomic_load(&ep->ready) != epoch && !clock_passed(deadline_ns))
    poll(NULL, 0, 1);
  assert_int_equal(atomic_load(&ep->ready), epoch);
}

static void expect_nobody_lost(weft_ep_t *ep) {
  struct weft_ep_event event = {.size = sizeof event};
  while (weft_ep_next_event(ep, &event) == 1)
    if (event.kind == WEFT_EP_EVENT_PEER_LOST)
      fail_msg("rank %d is lost: %s", event.rank, event.detail);
}

// Both in a view, which the caller may be in as soon as it has the answer.
static void begin_in_view(struct call *call, bool far) {
  begin(call, far);
  publish_view(call->hosts.called, 2, 1, call->hosts.caller->incarnation);
  assert_non_null(ep_link_find(call->hosts.called, 1, 0));
  assert_false(is_connected(call->hosts.called, 1));
  assert_int_equal(atomic_load(&call->hosts.called->ready), 0);
}

static void expect_a_link_that_counts_once_confirmed(bool far) {
  struct call call;
  begin_in_view(&call, far);
  confirm(&call);
  await_ready(call.hosts.called, 2);
  assert_true(is_connected(call.hosts.called, 1));
  end(&call, far);
}

// The view with the caller is one for which this rank has no link: it is passed over.
static void expect_no_link(struct call *call) {
  publish_view(call->hosts.called, 3, -1, 0);
  await_ready(call->hosts.called, 3);
  assert_false(is_connected(call->hosts.called, 1));
  expect_nobody_lost(call->hosts.called);
}

static void expect_none_of_a_call_given_up(bool far) {
  struct call call;
  begin_in_view(&call, far);
  hang_up(&call);
  expect_no_link(&call);
  assert_int_equal(atomic_load(&call.hosts.called->lost), 0);
  hosts_connect(&call.hosts); // it calls again
  await_ready(call.hosts.called, 3);
  end(&call, far);
}

// --- the tests ---

static void a_link_counts_when_the_caller_confirms_it(void **state) {
  (void)state;
  expect_a_link_that_counts_once_confirmed(false);
}

static void a_link_to_another_host_counts_when_the_caller_confirms_it(void **state) {
  (void)state;
  expect_a_link_that_counts_once_confirmed(true);
}

static void a_call_that_is_given_up_behind_its_answer_makes_no_link(void **state) {
  (void)state;
  expect_none_of_a_call_given_up(false);
}

static void a_call_from_another_host_that_is_given_up_behind_its_answer_makes_no_link(void **state) {
  (void)state;
  expect_none_of_a_call_given_up(true);
}

// As when its process is stopped. Later it finds that the called rank has left, and takes that for no death.
static void a_caller_that_does_not_confirm_holds_the_called_rank_up_for_a_moment_only(void **state) {
  (void)state;
  struct call call;
  uint64_t word = 0;
  begin_in_view(&call, true);
  expect_no_link(&call);
  receive(&call, &word, sizeof word);
  assert_int_equal(word >> NOTICE_BITS, EP_NOTICE_LEFT);
  end(&call, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_link_counts_when_the_caller_confirms_it),
      cmocka_unit_test(a_link_to_another_host_counts_when_the_caller_confirms_it),
      cmocka_unit_test(a_call_that_is_given_up_behind_its_answer_makes_no_link),
      cmocka_unit_test(a_call_from_another_host_that_is_given_up_behind_its_answer_makes_no_link),
      cmocka_unit_test(a_caller_that_does_not_confirm_holds_the_called_rank_up_for_a_moment_only),
  };
  return cmocka_run_group_tests_name("ep_confirm", tests, NULL, NULL);
}
