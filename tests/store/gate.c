// The places of connections without the token, with time as an argument: which one gives way to a newcomer, and when.
#include "store/server/gate.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmocka_all.h"

enum { PLACES = 16, SHARE = PLACES / 4, MOST = PLACES + 1 };

#define SECOND UINT64_C(1000000000)

static struct server_gate gate;
static struct gate_entry *entries[MOST];
static int ends[MOST][2]; // of each connection: the server's end, and the client's
static int count;

static int open_gate(void **state) {
  (void)state;
  server_gate_init(&gate);
  gate.places = PLACES;
  count = 0;
  return 0;
}

static int close_gate(void **state) {
  (void)state;
  for (int i = 0; i < count; i++) {
    server_gate_leave(&gate, entries[i]);
    close(ends[i][0]);
    close(ends[i][1]);
  }
  return gate.num_waiting == 0 && gate.num_known == 0 ? 0 : -1;
}

static void enter_by(const struct sockaddr *address, uint64_t now_ns) {
  bool first = false;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[count]), 0);
  entries[count] = server_gate_enter(&gate, ends[count][0], address, now_ns, &first);
  assert_non_null(entries[count++]);
}

static void enter(const char *from, uint64_t now_ns) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  assert_int_equal(inet_pton(AF_INET, from, &address.sin_addr), 1);
  enter_by((struct sockaddr *)&address, now_ns);
}

static void enter_v6(const char *from, uint64_t now_ns) {
  struct sockaddr_in6 address = {.sin6_family = AF_INET6};
  assert_int_equal(inet_pton(AF_INET6, from, &address.sin6_addr), 1);
  enter_by((struct sockaddr *)&address, now_ns);
}

static bool is_cut(int index) {
  struct pollfd end = {.fd = ends[index][1], .events = POLLIN};
  return poll(&end, 1, 0) == 1;
}

// Checks that only the connection with this number was cut; -1: none was.
static void expect_cut(int index) {
  for (int i = 0; i < count; i++)
    assert_int_equal(is_cut(i), i == index);
}

static void an_address_with_more_than_its_share_gives_way_to_itself(void **state) {
  (void)state;
  enter("10.0.0.1", 0); // the oldest of all
  while (count < PLACES)
    enter("10.0.0.2", 0);
  expect_cut(-1);
  enter("10.0.0.2", 0);
  expect_cut(1);
}

static void the_oldest_of_all_gives_way_to_an_address_within_its_share(void **state) {
  (void)state;
  for (int i = 0; i < SHARE; i++)
    enter("10.0.0.1", 0);
  while (count < PLACES)
    enter("10.0.0.2", 0);
  enter("10.0.0.1", 0);
  expect_cut(0);
}

static void an_address_is_the_same_in_both_families(void **state) {
  (void)state;
  enter("10.0.0.1", 0);
  while (count < PLACES)
    enter("10.0.0.2", 0);
  enter_v6("::ffff:10.0.0.2", 0);
  expect_cut(1);
}

// A host has all addresses of a /64 network.
static void addresses_of_one_network_are_one(void **state) {
  char from[64];
  (void)state;
  enter_v6("2001:db8:0:1::1", 0); // the oldest of all
  while (count < PLACES) {
    snprintf(from, sizeof from, "2001:db8:0:2::%x", count);
    enter_v6(from, 0);
  }
  enter_v6("2001:db8:0:2:ffff::", 0);
  expect_cut(1);
}

static void a_connection_without_the_token_has_ten_seconds(void **state) {
  (void)state;
  enter("10.0.0.1", 1 * SECOND);
  enter("10.0.0.1", 2 * SECOND);
  assert_int_equal(server_gate_expire(&gate, 11 * SECOND - 1), 11 * SECOND);
  expect_cut(-1);
  assert_int_equal(server_gate_expire(&gate, 11 * SECOND), 12 * SECOND);
  expect_cut(0);
  assert_true(server_gate_admit(&gate, entries[1], 1));
  assert_int_equal(server_gate_expire(&gate, 100 * SECOND), UINT64_MAX);
  expect_cut(0);
}

static void as_many_clients_as_allowed_are_admitted(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++)
    enter("10.0.0.1", 0);
  assert_true(server_gate_admit(&gate, entries[0], 2));
  assert_true(server_gate_admit(&gate, entries[1], 2));
  assert_false(server_gate_admit(&gate, entries[2], 2));
  assert_true(server_gate_admit(&gate, entries[1], 2)); // it is admitted already
  server_gate_leave(&gate, entries[0]);
  close(ends[0][0]);
  close(ends[0][1]);
  assert_true(server_gate_admit(&gate, entries[2], 2));
  entries[0] = entries[2];
  ends[0][0] = ends[2][0];
  ends[0][1] = ends[2][1];
  count = 2;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_gate, close_gate)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(an_address_with_more_than_its_share_gives_way_to_itself),
      TEST(the_oldest_of_all_gives_way_to_an_address_within_its_share),
      TEST(an_address_is_the_same_in_both_families),
      TEST(addresses_of_one_network_are_one),
      TEST(a_connection_without_the_token_has_ten_seconds),
      TEST(as_many_clients_as_allowed_are_admitted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
