// The queue of a rank's events: their order, its descriptor, and which events are dropped when it is full.
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "ep/core/engine.h"

enum { DEADLINE_MS = 30000, CAPACITY = 4 };

struct alone {
  weft_store_t *store;
  weft_ep_t *ep;
};

static int open_alone(void **state) {
  static struct alone alone;
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  if (weft_store_open_local(&alone.store) != 0)
    return -1;
  options.store = alone.store;
  options.rank = 0;
  options.capacity = CAPACITY;
  options.hidden = 128;
  options.max_tokens = 4;
  *state = &alone;
  return weft_ep_open(&alone.ep, &options, DEADLINE_MS);
}

static int close_alone(void **state) {
  struct alone *alone = *state;
  weft_ep_close(alone->ep);
  weft_store_close(alone->store);
  return 0;
}

static weft_ep_t *rank_of(void **state) {
  return ((struct alone *)*state)->ep;
}

static void take_all(weft_ep_t *ep) {
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  while (weft_ep_next_event(ep, &event) == 1)
    ;
}

static bool is_readable(int fd) {
  struct pollfd news = {.fd = fd, .events = POLLIN};
  return poll(&news, 1, 0) == 1 && news.revents == POLLIN;
}

static void emit(weft_ep_t *ep, enum weft_ep_event_kind kind, int32_t rank, uint64_t epoch) {
  ep_emit(ep, kind, rank, 7, epoch, 0, "how");
}

static void expect(weft_ep_t *ep, enum weft_ep_event_kind kind, int32_t rank, uint64_t epoch, uint64_t dropped) {
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  assert_int_equal(weft_ep_next_event(ep, &event), 1);
  assert_int_equal(event.kind, kind);
  assert_int_equal(event.rank, rank);
  assert_int_equal(event.epoch, epoch);
  assert_int_equal(event.dropped, dropped);
}

static void a_descriptor_that_is_made_late_is_readable(void **state) {
  weft_ep_t *ep = rank_of(state);
  int fd = -1;
  take_all(ep);
  emit(ep, WEFT_EP_EVENT_COMMITTED, -1, 1);
  assert_int_equal(weft_ep_fd(ep, &fd), 0);
  assert_true(is_readable(fd));
  take_all(ep);
  assert_false(is_readable(fd));
}

static void events_come_in_order_and_their_fields_are_right(void **state) {
  weft_ep_t *ep = rank_of(state);
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  uint64_t last_ns = 0;
  bool committed = false, activated = false;
  struct pollfd news = {.events = POLLIN};
  assert_int_equal(weft_ep_fd(ep, &news.fd), 0);
  assert_int_equal(weft_ep_activate(ep, DEADLINE_MS), 0);
  while (!committed || !activated) { // the group's thread reports the first
    assert_int_equal(poll(&news, 1, DEADLINE_MS), 1);
    assert_int_equal(weft_ep_next_event(ep, &event), 1);
    assert_true(event.time_ns >= last_ns);
    last_ns = event.time_ns;
    committed |= event.kind == WEFT_EP_EVENT_COMMITTED && event.epoch == 1 && event.rank == -1;
    activated |= event.kind == WEFT_EP_EVENT_ACTIVATED && event.epoch == 1 && event.op == 0;
    assert_string_equal(event.detail, "");
    assert_int_equal(event.dropped, 0);
    assert_int_equal(event.size, sizeof event);
  }
  assert_true(committed && activated);
  assert_int_equal(weft_ep_next_event(ep, &event), 0);
}

static void a_detail_is_cut_where_it_is_too_long(void **state) {
  weft_ep_t *ep = rank_of(state);
  char much[2 * WEFT_EP_DETAIL_SIZE];
  memset(much, 'x', sizeof much - 1);
  much[sizeof much - 1] = '\0';
  take_all(ep);
  ep_emit(ep, WEFT_EP_EVENT_PEER_LOST, 2, 5, 0, 0, much);
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  assert_int_equal(weft_ep_next_event(ep, &event), 1);
  assert_int_equal(strlen(event.detail), WEFT_EP_DETAIL_SIZE - 1);
  assert_int_equal(event.incarnation, 5);
}

static void the_descriptor_is_readable_while_there_is_one(void **state) {
  weft_ep_t *ep = rank_of(state);
  int fd = -1, again = -1;
  take_all(ep);
  emit(ep, WEFT_EP_EVENT_COMMITTED, -1, 2);
  assert_int_equal(weft_ep_fd(ep, &fd), 0);
  assert_true(is_readable(fd));
  assert_int_equal(weft_ep_fd(ep, &again), 0);
  assert_int_equal(again, fd);
  emit(ep, WEFT_EP_EVENT_COMMITTED, -1, 3);
  expect(ep, WEFT_EP_EVENT_COMMITTED, -1, 2, 0);
  assert_true(is_readable(fd)); // one more
  expect(ep, WEFT_EP_EVENT_COMMITTED, -1, 3, 0);
  assert_false(is_readable(fd));

  int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event edge = {.events = EPOLLIN | EPOLLET}, ready;
  assert_true(epoll >= 0);
  assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &edge), 0);
  assert_int_equal(epoll_wait(epoll, &ready, 1, 0), 0);
  for (uint64_t epoch = 4; epoch < 7; epoch++) { // each time that the queue was empty before is an edge
    emit(ep, WEFT_EP_EVENT_COMMITTED, -1, epoch);
    assert_int_equal(epoll_wait(epoll, &ready, 1, 0), 1);
    expect(ep, WEFT_EP_EVENT_COMMITTED, -1, epoch, 0);
    assert_int_equal(epoll_wait(epoll, &ready, 1, 0), 0);
  }
  close(epoll);
}

static void a_full_queue_keeps_the_newest_and_counts_what_went(void **state) {
  weft_ep_t *ep = rank_of(state);
  enum { ROOM = EP_EVENTS + CAPACITY + 1, MORE = 100 };
  take_all(ep);
  for (uint64_t epoch = 1; epoch <= ROOM + MORE; epoch++)
    emit(ep, WEFT_EP_EVENT_COMMITTED, -1, epoch);
  for (uint64_t epoch = MORE + 1; epoch <= ROOM + MORE; epoch++)
    expect(ep, WEFT_EP_EVENT_COMMITTED, -1, epoch, epoch == MORE + 1 ? MORE : 0);
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  assert_int_equal(weft_ep_next_event(ep, &event), 0);
}

static void losses_and_fencing_stay_in_a_full_queue(void **state) {
  weft_ep_t *ep = rank_of(state);
  enum { ROOM = EP_EVENTS + CAPACITY + 1, MANY = 10 * ROOM };
  take_all(ep);
  for (int32_t rank = 0; rank < CAPACITY; rank++)
    emit(ep, WEFT_EP_EVENT_PEER_LOST, rank, 0);
  emit(ep, WEFT_EP_EVENT_FENCED, 0, 9);
  for (uint64_t epoch = 1; epoch <= MANY; epoch++)
    emit(ep, WEFT_EP_EVENT_COMMITTED, -1, epoch);
  expect(ep, WEFT_EP_EVENT_PEER_LOST, 0, 0, MANY - EP_EVENTS);
  for (int32_t rank = 1; rank < CAPACITY; rank++)
    expect(ep, WEFT_EP_EVENT_PEER_LOST, rank, 0, 0);
  expect(ep, WEFT_EP_EVENT_FENCED, 0, 9, 0);
  expect(ep, WEFT_EP_EVENT_COMMITTED, -1, MANY - EP_EVENTS + 1, 0);
  take_all(ep);

  // Of losses of one rank the last stays, however often it comes and dies.
  for (uint64_t life = 1; life <= MANY; life++)
    emit(ep, WEFT_EP_EVENT_PEER_LOST, 1, life);
  emit(ep, WEFT_EP_EVENT_PEER_LOST, 2, 0);
  for (uint64_t epoch = 1; epoch <= MANY; epoch++)
    emit(ep, WEFT_EP_EVENT_COMMITTED, -1, epoch);
  expect(ep, WEFT_EP_EVENT_PEER_LOST, 1, MANY, 2 * MANY + 1 - ROOM);
  expect(ep, WEFT_EP_EVENT_PEER_LOST, 2, 0, 0);
  expect(ep, WEFT_EP_EVENT_COMMITTED, -1, MANY - (ROOM - 2) + 1, 0);
}

_Static_assert(sizeof(struct weft_ep_event) == 256, "its layout is the interface's");
_Static_assert(offsetof(struct weft_ep_event, kind) == 8 && offsetof(struct weft_ep_event, rank) == 12 &&
                   offsetof(struct weft_ep_event, incarnation) == 16 && offsetof(struct weft_ep_event, dropped) == 48 &&
                   offsetof(struct weft_ep_event, detail) == 56,
               "its layout is the interface's");
_Static_assert(sizeof(struct weft_ep_change_args) == 40, "its layout is the interface's");
_Static_assert(offsetof(struct weft_ep_change_args, add) == 8 && offsetof(struct weft_ep_change_args, remove) == 16 &&
                   offsetof(struct weft_ep_change_args, num_add) == 24 &&
                   offsetof(struct weft_ep_change_args, flags) == 32,
               "its layout is the interface's");

static void wrong_arguments_are_named(void **state) {
  weft_ep_t *ep = rank_of(state);
  struct weft_ep_event event = {0};
  int fd;
  assert_int_equal(weft_ep_next_event(NULL, &event), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_next_event(ep, NULL), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_next_event(ep, &event), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "size is 0"));
  assert_int_equal(weft_ep_fd(NULL, &fd), WEFT_ERR_INVALID);
  assert_int_equal(weft_ep_fd(ep, NULL), WEFT_ERR_INVALID);
  weft_ep_event_init(&event, sizeof event);
  assert_int_equal(event.size, sizeof event);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_descriptor_that_is_made_late_is_readable),
      cmocka_unit_test(events_come_in_order_and_their_fields_are_right),
      cmocka_unit_test(a_detail_is_cut_where_it_is_too_long),
      cmocka_unit_test(the_descriptor_is_readable_while_there_is_one),
      cmocka_unit_test(a_full_queue_keeps_the_newest_and_counts_what_went),
      cmocka_unit_test(losses_and_fencing_stay_in_a_full_queue),
      cmocka_unit_test(wrong_arguments_are_named),
  };
  return cmocka_run_group_tests_name("ep_events", tests, open_alone, close_alone);
}
