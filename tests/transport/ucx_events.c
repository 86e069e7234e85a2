// What src/transport/ucx/events.c makes of the rounds of UCX's event sets.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <ucs/sys/event_set.h>
#include <ucs/sys/sock.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/avoided.h"

enum { CONNECTIONS = 4, SKIPPED = 77 };

struct connections {
  ucs_sys_event_set_t *set;
  int near[CONNECTIONS], far[CONNECTIONS];
  ucs_event_set_types_t seen[CONNECTIONS]; // in this round
  bool closes; // each read closes this connection and its neighbour, as for a peer that has two and has gone
};

static struct connections all;

static void end(size_t i) {
  if (all.near[i] < 0)
    return;
  assert_int_equal(ucs_event_set_del(all.set, all.near[i]), UCS_OK);
  ucs_close_fd(&all.near[i]);
  assert_int_equal(all.near[i], -1);
}

static void handle(void *data, ucs_event_set_types_t events, void *arg) {
  size_t i = (size_t)data;
  assert_ptr_equal(arg, &all);
  assert_true(all.near[i] >= 0); // or it is closed
  all.seen[i] |= events;
  if (!all.closes || !(events & UCS_EVENT_SET_EVREAD))
    return;
  end(i);
  end(i ^ 1);
}

// Each can be read and written.
static void open_all(bool closes) {
  all.closes = closes;
  memset(all.seen, 0, sizeof all.seen);
  assert_int_equal(ucs_event_set_create(&all.set), UCS_OK);
  for (size_t i = 0; i < CONNECTIONS; i++) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    all.near[i] = ends[0];
    all.far[i] = ends[1];
    assert_int_equal(write(all.far[i], "x", 1), 1);
    assert_int_equal(ucs_event_set_add(all.set, all.near[i], UCS_EVENT_SET_EVREAD | UCS_EVENT_SET_EVWRITE, (void *)i),
                     UCS_OK);
  }
}

static void go_round(void) {
  unsigned count = CONNECTIONS;
  for (size_t i = 0; i < CONNECTIONS; i++)
    all.seen[i] = 0;
  assert_int_equal(ucs_event_set_wait(all.set, &count, 0, handle, &all), UCS_OK);
}

static void close_all(void) {
  for (size_t i = 0; i < CONNECTIONS; i++) {
    if (all.near[i] >= 0)
      close(all.near[i]);
    close(all.far[i]);
  }
  ucs_event_set_cleanup(all.set);
}

static void all_events_of_a_round_are_handled(void **state) {
  (void)state;
  open_all(false);
  for (int round = 0; round < 2; round++) {
    go_round();
    for (size_t i = 0; i < CONNECTIONS; i++)
      assert_int_equal(all.seen[i], UCS_EVENT_SET_EVREAD | UCS_EVENT_SET_EVWRITE);
  }
  close_all();
}

static void a_round_passes_over_the_connections_that_it_closes(void **state) {
  (void)state;
  open_all(true);
  go_round();
  for (size_t i = 0; i < CONNECTIONS; i += 2) { // of two, one was read and none written; which, epoll says
    assert_int_equal(all.seen[i] + all.seen[i + 1], UCS_EVENT_SET_EVREAD);
    assert_true(all.near[i] < 0 && all.near[i + 1] < 0);
  }
  close_all();
}

static void leave(void *data, ucs_event_set_types_t events, void *arg) {
  size_t i = (size_t)data;
  assert_ptr_equal(arg, &all);
  all.seen[i] |= events;
  if (events & UCS_EVENT_SET_EVREAD)
    assert_int_equal(ucs_event_set_del(all.set, all.near[i]), UCS_OK);
}

// As one does that waits for nothing any more: it may have something to write all the same.
static void one_that_only_leaves_the_set_is_handled(void **state) {
  (void)state;
  unsigned count = CONNECTIONS;
  open_all(false);
  assert_int_equal(ucs_event_set_wait(all.set, &count, 0, leave, &all), UCS_OK);
  for (size_t i = 0; i < CONNECTIONS; i++)
    assert_int_equal(all.seen[i], UCS_EVENT_SET_EVREAD | UCS_EVENT_SET_EVWRITE);
  close_all();
}

static void what_was_closed_before_counts_for_nothing(void **state) {
  (void)state;
  open_all(false);
  int fd = all.near[0];
  assert_int_equal(ucs_event_set_del(all.set, fd), UCS_OK);
  assert_int_equal(ucs_event_set_add(all.set, fd, UCS_EVENT_SET_EVREAD, (void *)1), UCS_OK);
  assert_int_equal(ucs_event_set_mod(all.set, fd, UCS_EVENT_SET_EVREAD, (void *)0), UCS_OK);
  go_round();
  assert_int_equal(all.seen[0], UCS_EVENT_SET_EVREAD);
  for (size_t i = 1; i < CONNECTIONS; i++)
    assert_int_equal(all.seen[i], UCS_EVENT_SET_EVREAD | UCS_EVENT_SET_EVWRITE);
  close_all();
}

int main(void) {
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  if (!avoided_in(AVOIDED_UCX_EVENTS, major, minor)) {
    printf("skipped: UCX %u.%u handles its events by itself\n", major, minor);
    return SKIPPED;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_events_of_a_round_are_handled),
      cmocka_unit_test(a_round_passes_over_the_connections_that_it_closes),
      cmocka_unit_test(one_that_only_leaves_the_set_is_handled),
      cmocka_unit_test(what_was_closed_before_counts_for_nothing),
  };
  return cmocka_run_group_tests_name("transport_ucx_events", tests, NULL, NULL);
}
