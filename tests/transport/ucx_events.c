// What src/transport/ucx/events.c makes of the rounds of UCX's event sets.
#include <sys/socket.h>
#include <ucs/sys/event_set.h>
#include <unistd.h>

#include "cmocka_all.h"

enum { CONNECTIONS = 3 };

struct connections {
  ucs_sys_event_set_t *set;
  int near[CONNECTIONS], far[CONNECTIONS];
  ucs_event_set_types_t seen[CONNECTIONS]; // in this round
  bool closes;                             // the first read closes all, as for a peer that has gone
};

static struct connections all;

static void handle(void *data, ucs_event_set_types_t events, void *arg) {
  size_t i = (size_t)data;
  assert_ptr_equal(arg, &all);
  assert_true(all.near[i] >= 0); // or it is closed
  all.seen[i] |= events;
  if (!all.closes || !(events & UCS_EVENT_SET_EVREAD))
    return;
  for (size_t k = 0; k < CONNECTIONS; k++) {
    assert_int_equal(ucs_event_set_del(all.set, all.near[k]), UCS_OK);
    close(all.near[k]);
    all.near[k] = -1;
  }
}

// Each can be read and written.
static void open_all(bool closes) {
  all.closes = closes;
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

static void a_round_ends_where_a_connection_is_closed(void **state) {
  (void)state;
  open_all(true);
  go_round();
  unsigned read = 0;
  for (size_t i = 0; i < CONNECTIONS; i++) {
    assert_false(all.seen[i] & UCS_EVENT_SET_EVWRITE);
    read += all.seen[i] != 0;
  }
  assert_int_equal(read, 1);
  close_all();
}

// What the round before did not come to.
static void the_others_are_handled_in_the_next_round(void **state) {
  (void)state;
  open_all(false);
  assert_int_equal(ucs_event_set_del(all.set, all.near[0]), UCS_OK); // between two rounds, which says nothing of them
  go_round();
  assert_int_equal(all.seen[0], 0);
  for (size_t i = 1; i < CONNECTIONS; i++)
    assert_int_equal(all.seen[i], UCS_EVENT_SET_EVREAD | UCS_EVENT_SET_EVWRITE);
  close_all();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_events_of_a_round_are_handled),
      cmocka_unit_test(a_round_ends_where_a_connection_is_closed),
      cmocka_unit_test(the_others_are_handled_in_the_next_round),
  };
  return cmocka_run_group_tests_name("transport_ucx_events", tests, NULL, NULL);
}
