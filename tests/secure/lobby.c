// Which callers wait in a lobby, which leave it, and which are dropped. Listener and callers are in one thread.
#include "secure/lobby.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "cmocka_all.h"

enum { DEADLINE_MS = 60000, RECORD = 5 + 200, SILENT = 15, FEW = 5, MANY = 100 };

#define HEAD "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"

struct place {
  struct lobby *lobby;
  int listener;
  uint16_t port;
};

static uint8_t record[RECORD] = {0x16, 3, 1, 0, RECORD - 5}; // as a first message of TLS

static void open_place(struct place *place, enum lobby_protocol speech, uint32_t places) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  place->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  assert_int_equal(bind(place->listener, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(place->listener, SOMAXCONN), 0);
  assert_int_equal(getsockname(place->listener, (struct sockaddr *)&at, &size), 0);
  place->port = ntohs(at.sin_port);
  assert_int_equal(lobby_open(&place->lobby, place->listener, speech, places), 0);
}

static void close_place(struct place *place) {
  lobby_close(place->lobby);
  close(place->listener);
}

// From 127.0.0.`host`.
static int call_from(const struct place *place, uint32_t host) {
  struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7F000000 | host)};
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(place->port)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

static int call(const struct place *place) {
  return call_from(place, 1);
}

static void call_often(const struct place *place, int *fds, int count) {
  for (int i = 0; i < count; i++)
    fds[i] = call(place);
}

static void close_all(const int *fds, int count) {
  for (int i = 0; i < count; i++)
    close(fds[i]);
}

static void say(int fd, const void *bytes, size_t size) {
  assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
}

// The next that has spoken; -1: nothing happens any more at this moment.
static int next(struct place *place) {
  struct lobby_caller caller;
  struct pollfd ready = {.fd = lobby_fd(place->lobby), .events = POLLIN};
  while (poll(&ready, 1, 0) > 0)
    if (lobby_next(place->lobby, &caller))
      return caller.fd;
  return -1;
}

// The same, who has to come.
static int await_next(struct place *place) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  struct lobby_caller caller;
  struct pollfd ready = {.fd = lobby_fd(place->lobby), .events = POLLIN};
  while (!clock_passed(deadline))
    if (poll(&ready, 1, clock_left_ms(deadline)) > 0 && lobby_next(place->lobby, &caller))
      return caller.fd;
  fail_msg("nobody comes");
  return -1;
}

static bool is_over(int fd) {
  char byte;
  ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

static void await_over(struct place *place, int fd) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (!is_over(fd)) {
    assert_int_equal(next(place), -1);
    if (clock_passed(deadline))
      fail_msg("it is not hung up on");
    poll(&(struct pollfd){.fd = lobby_fd(place->lobby), .events = POLLIN}, 1, 10);
  }
}

// What it said is still there for who takes it, who may read byte by byte.
static void expect_said(int fd, const void *bytes, size_t size) {
  char got[RECORD + 1];
  for (size_t i = 0; i < size; i++) {
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 1);
    assert_int_equal(recv(fd, got + i, 1, 0), 1);
  }
  assert_memory_equal(got, bytes, size);
  assert_int_equal(recv(fd, got, 1, 0), -1); // and it does not block
  assert_int_equal(errno, EAGAIN);
}

static void a_caller_that_has_sent_something_gets_out_beside_silent_ones(void **state) {
  (void)state;
  struct place place;
  int silent[SILENT];
  open_place(&place, LOBBY_TLS, LOBBY_PLACES);
  call_often(&place, silent, SILENT);
  int fd = call(&place);
  say(fd, record, RECORD);
  int taken = await_next(&place);
  expect_said(taken, record, RECORD);
  assert_int_equal(next(&place), -1);
  close(taken);
  close(fd);
  close_all(silent, SILENT);
  close_place(&place);
}

static void the_first_message_has_to_be_whole(void **state) {
  (void)state;
  struct place place;
  static const size_t cuts[] = {1, 4, 5, 6, RECORD - 1};
  open_place(&place, LOBBY_TLS, LOBBY_PLACES);
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    int fd = call(&place);
    say(fd, record, cuts[i]);
    assert_int_equal(next(&place), -1);
    say(fd, record + cuts[i], RECORD - cuts[i]);
    int taken = await_next(&place);
    expect_said(taken, record, RECORD);
    close(taken);
    close(fd);
  }
  close_place(&place);
}

static void a_head_of_http_has_to_be_whole(void **state) {
  (void)state;
  struct place place;
  static const size_t cuts[] = {1, 15, 16, 17, sizeof HEAD - 2};
  open_place(&place, LOBBY_HTTP, LOBBY_PLACES);
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    int fd = call(&place);
    say(fd, HEAD, cuts[i]);
    assert_int_equal(next(&place), -1);
    say(fd, &HEAD[cuts[i]], sizeof HEAD - 1 - cuts[i]);
    int taken = await_next(&place);
    expect_said(taken, HEAD, sizeof HEAD - 1);
    close(taken);
    close(fd);
  }
  close_place(&place);
}

static void a_caller_that_sends_something_else_is_disconnected(void **state) {
  (void)state;
  struct place place;
  static const char *const words[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x02\x01\x01\x01", "\x16\x03\x01\x00\x00",
                                      "\x16\x03\x01\x40\x01", "\xff\xff\xff\xff\xff"};
  open_place(&place, LOBBY_TLS, LOBBY_PLACES);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    int fd = call(&place);
    say(fd, words[i], i == 0 ? strlen(words[i]) : 5);
    await_over(&place, fd);
    close(fd);
  }
  close_place(&place);
  open_place(&place, LOBBY_HTTP, LOBBY_PLACES);
  int fd = call(&place);
  say(fd, record, RECORD);
  await_over(&place, fd);
  close(fd);
  close_place(&place);
}

static void a_caller_that_hangs_up_leaves_nothing(void **state) {
  (void)state;
  struct place place;
  open_place(&place, LOBBY_TLS, LOBBY_PLACES);
  for (size_t said = 0; said < 10; said += 3) {
    int fd = call(&place);
    say(fd, record, said);
    assert_int_equal(next(&place), -1);
    shutdown(fd, SHUT_WR);
    await_over(&place, fd);
    close(fd);
  }
  close_place(&place);
}

// However it says it, and though nobody needs its place.
static void a_caller_that_sends_nothing_in_time_is_disconnected(void **state) {
  (void)state;
  struct place place;
  open_place(&place, LOBBY_TLS, LOBBY_PLACES);
  int silent = call(&place), slow = call(&place);
  uint64_t begun = clock_ns(), deadline = clock_deadline_ms(DEADLINE_MS);
  for (size_t i = 0; i < RECORD - 1 && !is_over(slow); i++) { // a byte at a time, which takes longer than it has
    send(slow, record + i, 1, MSG_NOSIGNAL);
    uint64_t then = begun + (i + 1) * 2 * LOBBY_TIME_MS * UINT64_C(1000000) / RECORD;
    while (!is_over(slow) && !clock_passed(then)) {
      assert_int_equal(next(&place), -1);
      poll(&(struct pollfd){.fd = lobby_fd(place.lobby), .events = POLLIN}, 1, clock_left_ms(then));
    }
  }
  assert_true(is_over(slow));
  assert_false(clock_passed(deadline));
  await_over(&place, silent);
  close(silent);
  close(slow);
  close_place(&place);
}

// All places are taken by silent ones: who comes then takes that of the first, and is heard long before their time is
// over.
static void the_oldest_gives_way(void **state) {
  (void)state;
  struct place place;
  int silent[SILENT];
  open_place(&place, LOBBY_TLS, FEW);
  uint64_t due = clock_deadline_ms(LOBBY_TIME_MS);
  call_often(&place, silent, SILENT);
  int fd = call(&place);
  say(fd, record, RECORD);
  int taken = await_next(&place);
  expect_said(taken, record, RECORD);
  int left = 0; // each came before the next, so those that came last
  for (int i = 0; i < SILENT; i++)
    left += !is_over(silent[i]);
  assert_true(left == FEW - 1 || clock_passed(due));
  assert_true(is_over(silent[SILENT - FEW]));
  close(taken);
  close(fd);
  close_all(silent, SILENT);
  close_place(&place);
}

static void those_of_one_address_push_out_each_other(void **state) {
  (void)state;
  struct place place;
  int silent[SILENT];
  open_place(&place, LOBBY_TLS, FEW);
  uint64_t due = clock_deadline_ms(LOBBY_TIME_MS);
  int other = call_from(&place, 2);
  assert_int_equal(next(&place), -1);
  call_often(&place, silent, SILENT);
  await_over(&place, silent[SILENT - FEW]); // all have come in
  bool was_over = is_over(other);
  assert_true(!was_over || clock_passed(due));
  if (!was_over) {
    say(other, record, RECORD);
    close(await_next(&place));
  }
  close(other);
  close_all(silent, SILENT);
  close_place(&place);
}

// More than a few of them are not hung up on at once. They end in time, hold up nobody, and push out nobody who is
// silent so far.
static void many_who_say_something_else_give_way_first(void **state) {
  (void)state;
  struct place place;
  int silent[FEW], wrong[MANY];
  open_place(&place, LOBBY_TLS, 2 * FEW);
  uint64_t due = clock_deadline_ms(LOBBY_TIME_MS);
  call_often(&place, silent, FEW);
  assert_int_equal(next(&place), -1);
  for (int i = 0; i < MANY; i++)
    say(wrong[i] = call(&place), HEAD, sizeof HEAD - 1);
  int fd = call(&place);
  say(fd, record, RECORD);
  int taken = await_next(&place);
  expect_said(taken, record, RECORD);
  for (int i = 0; i < FEW; i++)
    assert_true(!is_over(silent[i]) || clock_passed(due));
  for (int i = 0; i < MANY; i++) {
    await_over(&place, wrong[i]);
    close(wrong[i]);
  }
  close_all(silent, FEW);
  close(taken);
  close(fd);
  close_place(&place);
}

// A caller that finds no descriptor waits, and those who say nothing give theirs up for it.
static void descriptors_that_run_out_are_taken_from_the_silent(void **state) {
  (void)state;
  struct place place;
  struct rlimit limit;
  int silent[FEW];
  open_place(&place, LOBBY_TLS, LOBBY_PLACES);
  call_often(&place, silent, FEW);
  assert_int_equal(next(&place), -1);
  int fd = call(&place);
  say(fd, record, RECORD);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  struct rlimit none = {.rlim_cur = (rlim_t)fd + 1, .rlim_max = limit.rlim_max}; // the accepted ones came behind it
  int holes[64], num_holes = 0;
  while (num_holes < 64 && (holes[num_holes] = fcntl(fd, F_DUPFD_CLOEXEC, 0)) <= fd && holes[num_holes] >= 0)
    num_holes++;
  if (num_holes < 64 && holes[num_holes] >= 0)
    close(holes[num_holes]);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  int taken = await_next(&place);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  expect_said(taken, record, RECORD);
  assert_true(is_over(silent[0]));
  close(taken);
  close(fd);
  close_all(holes, num_holes);
  close_all(silent, FEW);
  close_place(&place);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_caller_that_has_sent_something_gets_out_beside_silent_ones),
      cmocka_unit_test(the_first_message_has_to_be_whole),
      cmocka_unit_test(a_head_of_http_has_to_be_whole),
      cmocka_unit_test(a_caller_that_sends_something_else_is_disconnected),
      cmocka_unit_test(a_caller_that_hangs_up_leaves_nothing),
      cmocka_unit_test(a_caller_that_sends_nothing_in_time_is_disconnected),
      cmocka_unit_test(the_oldest_gives_way),
      cmocka_unit_test(those_of_one_address_push_out_each_other),
      cmocka_unit_test(many_who_say_something_else_give_way_first),
      cmocka_unit_test(descriptors_that_run_out_are_taken_from_the_silent),
  };
  return cmocka_run_group_tests_name("lobby", tests, NULL, NULL);
}
