// Callers at a listener that do not share its token. socket_protocol.c has callers that share the token and lie.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/exchange/support/meeting.h"
#include "agent/exchange/support/raw_peer.h"
#include "base/time/clock.h"
#include "cmocka_all.h"
#include "secure/lobby.h"
#include "support/relay.h"
#include "support/wait.h"

// --- what else calls ---

// The first message of a caller with that token, as TLS writes it.
static size_t first_message(const char *token, uint8_t *out, size_t room) {
  struct raw raw;
  raw_begin(&raw, -1, token);
  assert_int_equal(tls_handshake(raw.tls), TLS_WANTS_READ);
  ssize_t got = read(raw.outer, out, room);
  assert_true(got > 100);
  raw_close(&raw);
  return (size_t)got;
}

static void test_learns_nothing(void **state) {
  (void)state;
  static struct crowd_member listener;
  meet_listener(&listener, "secret-name", "127.0.0.1:0");
  uint8_t out[4096], in[4096];
  int fd = raw_dial(meet_port(&listener));
  crowd_write(fd, out, first_message("Correct horse battery staple", out, sizeof out));
  size_t size = raw_read_out(fd, in, sizeof in);
  close(fd);
  assert_int_equal(size, 7); // an alert of TLS: no more than that it was refused
  assert_int_equal(in[0], 0x15);
  crowd_close(&listener);
}

// Somebody has recorded what a lawful caller said first.
static void test_replayed(void **state) {
  (void)state;
  static struct crowd_member listener;
  meet_listener(&listener, "secret-name", "127.0.0.1:0");
  uint8_t out[4096], in[4096];
  size_t length = first_message(meet_token, out, sizeof out);
  for (int i = 0; i < 3; i++) {
    int fd = raw_dial(meet_port(&listener));
    crowd_write(fd, out, length);
    crowd_read(fd, in, 1);
    assert_int_equal(in[0], 0x16); // it goes on, by a key that the caller of then had
    crowd_write(fd, out, length);
    size_t size = raw_read_out(fd, in, sizeof in);
    assert_null(memmem(in, size, "secret-name", 11));
    close(fd);
  }
  assert_int_equal(crowd_count(&listener, LOADED, NULL), 0);
  crowd_close(&listener);
}

static void test_garbage(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  uint16_t port = meet_port(&listener);
  uint8_t in[4096], out[4096];
  static const char *const garbage[] = {"GET / HTTP/1.1\r\n\r\n", "\xFF\xFF\xFF\xFF\1", "\1\0\0\0\4"};
  static const size_t sizes[] = {18, 5, 5};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int fd = raw_dial(port);
    crowd_write(fd, garbage[i], sizes[i]);
    assert_int_equal(raw_read_out(fd, in, sizeof in), 0); // closed, without an answer
    close(fd);
  }
  for (size_t at = 0; at < 200; at += 7) { // and what begins as it should
    size_t size = first_message(meet_token, out, sizeof out);
    out[at] ^= 0x55;
    int fd = raw_dial(port);
    crowd_write(fd, out, size);
    shutdown(fd, SHUT_WR);
    raw_read_out(fd, in, sizeof in);
    close(fd);
  }
  assert_int_equal(crowd_count(&listener, LOADED, NULL), 0);
  meet(&caller, &listener);
  crowd_close(&caller);
  crowd_close(&listener);
}

// Callers that say nothing, or a part of the first message, hold nobody up, and are cut off in time.
static void test_half_open(void **state) {
  (void)state;
  enum { MANY = 600 };
  static struct crowd_member listener, caller;
  static int fds[MANY];
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  uint16_t port = meet_port(&listener);
  uint8_t hello[4096], in[4096];
  size_t size = first_message(meet_token, hello, sizeof hello);
  for (int i = 0; i < MANY; i++) {
    fds[i] = raw_dial(port);
    crowd_write(fds[i], hello, (size_t)i % size); // none whole
  }
  uint64_t begin = clock_ns();
  meet(&caller, &listener);
  printf("  met among %d half-open ones in %d ms\n", MANY, (int)((clock_ns() - begin) / 1000000));
  pthread_mutex_lock(&listener.agent->housekeeping);
  uint32_t half_open = listener.agent->services->sockets->num_half_open;
  pthread_mutex_unlock(&listener.agent->housekeeping);
  assert_true(half_open <= 256);
  raw_read_out(fds[0], in, sizeof in);
  raw_read_out(fds[MANY - 1], in, sizeof in);
  for (int i = 0; i < MANY; i++)
    close(fds[i]);
  assert_int_equal(crowd_count(&listener, LOADED, NULL), 1);
  assert_int_equal(crowd_count(&listener, LOST, NULL), 0);
  crowd_close(&caller);
  crowd_close(&listener);
}

// Whether one that calls, and speaks after more have come than there are places for handshakes, gets through the
// handshake all the same. `*in_time`: it has spoken before its time to do so was over.
static bool speaks_late(struct crowd_member *listener, struct crowd_member *caller, bool *in_time) {
  enum { MANY = 300 };
  static int fds[MANY];
  uint8_t key[SECRET_KEY_SIZE];
  struct tls *tls;
  uint16_t port = meet_port(listener);
  uint64_t begin = clock_ns();
  int rc, late = raw_dial(port);
  for (int i = 0; i < MANY; i++)
    fds[i] = raw_dial(port);
  meet(caller, listener); // behind all of them
  assert_int_equal(fcntl(late, F_SETFL, O_NONBLOCK), 0);
  assert_int_equal(secret_derive(meet_token, CONNECTION_PROTOCOL, key), 0);
  assert_int_equal(tls_open(&tls, late, true, CONNECTION_PROTOCOL, key), 0);
  while ((rc = tls_handshake(tls)) > 0)
    assert_int_equal(poll(&(struct pollfd){.fd = late, .events = POLLIN}, 1, SUPPORT_DEADLINE_MS), 1);
  *in_time = clock_ns() - begin < LOBBY_TIME_MS * UINT64_C(1000000);
  tls_close(tls);
  close(late);
  for (int i = 0; i < MANY; i++)
    close(fds[i]);
  return rc == 0;
}

static void test_late(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  bool served = false, in_time = false;
  lobby_raise_limit(0);
  meet_listener(&listener, "listener", "127.0.0.1:0");
  for (int i = 0; i < 20 && !served && !in_time; i++) { // a busy machine may take longer
    char name[32];
    snprintf(name, sizeof name, "caller-%d", i);
    meet_caller(&caller, name, meet_token);
    served = speaks_late(&listener, &caller, &in_time);
    crowd_close(&caller);
  }
  assert_true(served);
  crowd_close(&listener);
}

// A caller that sends a byte at a time gets no more time for it, once its first message is there (before:
// tests/secure/lobby.c).
static void test_slow(void **state) {
  (void)state;
  static struct crowd_member listener;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  uint8_t hello[4096];
  static const uint8_t record[40] = {0x17, 3, 3, 1}; // and no end
  size_t size = first_message(meet_token, hello, sizeof hello);
  int fd = raw_dial(meet_port(&listener));
  uint64_t due = 0;
  crowd_write(fd, hello, size);
  for (size_t i = 0; i < sizeof record; i++) {
    crowd_write(fd, record + i, 1);
    uint64_t is = raw_due(&listener);
    assert_true(due == 0 || is == due);
    due = is;
  }
  close(fd);
  crowd_close(&listener);
}

// A listener that accepts and never answers: the time limit holds, and the text names the step.
static void test_mute_listener(void **state) {
  (void)state;
  static struct crowd_member caller;
  meet_caller(&caller, "caller", meet_token);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(fd, 8), 0);
  getsockname(fd, (struct sockaddr *)&at, &size);
  weft_peer_t peer;
  assert_int_equal(meet_at(&caller, ntohs(at.sin_port), 200, &peer), WEFT_ERR_TIMEOUT);
  assert_non_null(strstr(weft_last_error(), "the handshake"));
  close(fd);
  crowd_close(&caller);
}

// Somebody between the two who does not have the token: what it cuts, holds or replays.
static void test_between(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  struct support_relay *relay = support_relay_start(meet_port(&listener));
  assert_non_null(relay);
  weft_peer_t peer = 0;
  support_relay_hold_answers(relay, true);
  assert_int_equal(meet_at(&caller, support_relay_port(relay), 200, &peer), WEFT_ERR_TIMEOUT);
  support_relay_hold_answers(relay, false);
  assert_int_equal(meet_at(&caller, support_relay_port(relay), SUPPORT_DEADLINE_MS, &peer), 0);
  crowd_await(&listener, LOADED, "caller", 1);
  support_relay_cut(relay);
  crowd_await(&caller, LOST, "listener", 1);
  crowd_await(&listener, LOST, "caller", 1);
  assert_int_equal(meet_at(&caller, support_relay_port(relay), SUPPORT_DEADLINE_MS, &peer), 0); // again
  support_relay_stop(relay);
  crowd_close(&caller);
  crowd_close(&listener);
}

static int run(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_learns_nothing), cmocka_unit_test(test_replayed), cmocka_unit_test(test_garbage),
      cmocka_unit_test(test_half_open),      cmocka_unit_test(test_late),     cmocka_unit_test(test_slow),
      cmocka_unit_test(test_mute_listener),  cmocka_unit_test(test_between),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
  return meet_run(run);
}
