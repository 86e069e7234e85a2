// The path to a peer that is a doctor, something else, or does not exist.
#include "cmocka_all.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "doctor/peer/listener.h"
#include "doctor/peer/message.h"
#include "doctor/peer/peer.h"
#include "secure/lobby.h"

enum { LONG_MS = 30000, SHORT_MS = 2000 };

static const char token[] = "0123456789abcdef0123456789abcdef";

struct other {
  struct doctor_listener listener;
  int stop;
  pthread_t thread;
};

static void *serve(void *argument) {
  struct other *other = argument;
  doctor_listener_serve(&other->listener, other->stop, LONG_MS);
  return NULL;
}

static void start(struct other *other) {
  assert_int_equal(doctor_listener_open(&other->listener, 0, token), 0);
  other->stop = eventfd(0, EFD_CLOEXEC);
  assert_int_equal(pthread_create(&other->thread, NULL, serve, other), 0);
}

static void stop(struct other *other) {
  uint64_t one = 1;
  assert_int_equal(write(other->stop, &one, sizeof one), sizeof one);
  pthread_join(other->thread, NULL);
  close(other->stop);
  doctor_listener_close(&other->listener);
}

static void look(struct doctor_peer_facts *facts, const char *host, uint16_t port, uint32_t timeout_ms) {
  char peer[64];
  *facts = (struct doctor_peer_facts){0};
  snprintf(peer, sizeof peer, "%s:%u", host, port);
  doctor_gather_peer(facts, peer, token, timeout_ms);
}

static void both_ways_and_large_messages_are_tried(void **state) {
  (void)state;
  struct other other;
  struct doctor_peer_facts facts;
  start(&other);
  static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]"};
  for (int i = 0; i < 3; i++) {
    look(&facts, hosts[i], other.listener.port, LONG_MS);
    if (i == 2 && facts.reach != DOCTOR_REACHED)
      break; // a host without IPv6
    assert_true(facts.answered);
    assert_int_equal(facts.back, DOCTOR_REACHED);
    assert_true(facts.bulk_sent && facts.bulk_came);
    assert_string_equal(facts.interface, "lo");
    assert_int_equal(facts.peer_mtu, facts.interface_mtu);
  }
  stop(&other);
}

static void nobody_at_the_port_refuses(void **state) {
  (void)state;
  struct doctor_listener listener;
  struct doctor_peer_facts facts;
  assert_int_equal(doctor_listener_open(&listener, 0, token), 0);
  doctor_listener_close(&listener);
  look(&facts, "127.0.0.1", listener.port, LONG_MS);
  assert_int_equal(facts.reach, DOCTOR_REFUSED);
  assert_false(facts.answered);
}

static void one_that_listens_and_says_nothing_costs_a_deadline(void **state) {
  (void)state;
  struct doctor_listener listener;
  struct doctor_peer_facts facts;
  assert_int_equal(doctor_listener_open(&listener, 0, token), 0);
  look(&facts, "127.0.0.1", listener.port, SHORT_MS);
  assert_int_equal(facts.reach, DOCTOR_REACHED);
  assert_false(facts.answered || facts.wrong_answer);
  doctor_listener_close(&listener);
}

// Plays the listener up to a point: answers with `reply`, twice, and goes.
struct actor {
  struct doctor_listener listener;
  enum { WRONG_BYTES, OTHER_NONCE, NO_BULK, CALLED_BACK_IN_WORDS_ONLY } part;
};

static void *act(void *argument) {
  struct actor *actor = argument;
  uint8_t bytes[DOCTOR_MESSAGE];
  uint64_t deadline = clock_deadline_ms(LONG_MS);
  struct doctor_connection connection = {.fd = -1};
  struct doctor_message message;
  int fd = doctor_accept(actor->listener.fd, deadline);
  if (fd >= 0 && doctor_connection_open(&connection, fd, false, actor->listener.key, deadline) == 0 &&
      doctor_message_receive(&connection, &message, deadline)) {
    message.nonce[0] ^= actor->part == OTHER_NONCE;
    message.back = actor->part == CALLED_BACK_IN_WORDS_ONLY ? DOCTOR_REACHED : DOCTOR_REFUSED;
    doctor_message_pack(&message, bytes);
    bytes[0] ^= actor->part == WRONG_BYTES;
    doctor_connection_send(&connection, bytes, sizeof bytes, deadline);
    doctor_connection_send(&connection, bytes, sizeof bytes, deadline);
  }
  doctor_connection_close(&connection);
  return NULL;
}

static struct doctor_peer_facts look_at_actor(int part, uint32_t timeout_ms) {
  struct actor actor = {.part = part};
  struct doctor_peer_facts facts;
  pthread_t thread;
  assert_int_equal(doctor_listener_open(&actor.listener, 0, token), 0);
  assert_int_equal(pthread_create(&thread, NULL, act, &actor), 0);
  look(&facts, "127.0.0.1", actor.listener.port, timeout_ms);
  pthread_join(thread, NULL);
  doctor_listener_close(&actor.listener);
  return facts;
}

static void something_else_at_the_port_is_not_believed(void **state) {
  (void)state;
  assert_true(look_at_actor(WRONG_BYTES, LONG_MS).wrong_answer);
  struct doctor_peer_facts facts = look_at_actor(OTHER_NONCE, LONG_MS);
  assert_true(facts.wrong_answer && !facts.answered);
}

static void large_messages_that_do_not_come_are_reported(void **state) {
  (void)state;
  struct doctor_peer_facts facts = look_at_actor(NO_BULK, LONG_MS);
  assert_true(facts.answered && facts.bulk_sent && !facts.bulk_came);
  assert_int_equal(facts.back, DOCTOR_REFUSED);
}

static void a_peer_that_claims_to_have_called_must_have_connected(void **state) {
  (void)state;
  assert_int_equal(look_at_actor(CALLED_BACK_IN_WORDS_ONLY, SHORT_MS).back, DOCTOR_SILENT);
}

static void malformed_names_and_ports_are_reported(void **state) {
  (void)state;
  struct doctor_peer_facts facts = {0};
  doctor_gather_peer(&facts, "127.0.0.1:five", token, LONG_MS);
  assert_string_equal(facts.error, "\"five\" is not a port");
  facts = (struct doctor_peer_facts){0};
  doctor_gather_peer(&facts, "[::1]:65536", token, LONG_MS);
  assert_string_equal(facts.error, "\"65536\" is not a port");
  facts = (struct doctor_peer_facts){0};
  doctor_gather_peer(&facts, NULL, token, LONG_MS);
  assert_false(facts.asked);
}

static int dial(uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

static void listeners_survive_rubbish(void **state) {
  (void)state;
  struct other other;
  struct doctor_peer_facts facts;
  start(&other);
  static const char *const rubbish[] = {"GET / HTTP/1.1\r\n", "\x16\x03\x01\x00\x05hello", "weftdoc1"};
  static const size_t sizes[] = {16, 10, 8}, answers[] = {0, 64, 0};
  for (int i = 0; i < 3; i++) {
    int fd = dial(other.listener.port);
    char bytes[128];
    size_t got = 0;
    assert_int_equal(send(fd, rubbish[i], sizes[i], MSG_NOSIGNAL), sizes[i]);
    for (ssize_t some; (some = recv(fd, bytes + got, sizeof bytes - got, 0)) > 0;) // it hangs up
      got += (size_t)some;
    assert_true(got <= answers[i]); // no more than an alert of TLS
    close(fd);
  }
  look(&facts, "127.0.0.1", other.listener.port, LONG_MS);
  assert_true(facts.answered);
  stop(&other);
}

static void a_caller_with_another_token_learns_nothing(void **state) {
  (void)state;
  struct other other;
  struct doctor_peer_facts facts = {0};
  char peer[64];
  start(&other);
  snprintf(peer, sizeof peer, "127.0.0.1:%u", other.listener.port);
  doctor_gather_peer(&facts, peer, "fedcba9876543210fedcba9876543210", LONG_MS);
  assert_true(facts.reach == DOCTOR_REACHED && facts.wrong_answer && !facts.answered);
  assert_int_equal(facts.peer_mtu, 0);
  assert_int_equal(facts.back, DOCTOR_NOT_TRIED);
  facts = (struct doctor_peer_facts){0};
  doctor_gather_peer(&facts, peer, NULL, LONG_MS);
  assert_non_null(strstr(facts.error, "no token"));
  stop(&other);
}

// More of them than there are places, silent ones and such that begin as they should and go no further. Each keeps its
// place as long as it can; others are heard nevertheless.
static void strangers_keep_nobody_waiting(void **state) {
  (void)state;
  enum { STRANGERS = 300 };
  struct other other;
  struct doctor_peer_facts facts;
  int fds[STRANGERS];
  start(&other);
  for (int i = 0; i < STRANGERS; i++) {
    fds[i] = dial(other.listener.port);
    if (i % 2)
      assert_int_equal(send(fds[i], "\x16\x03\x01\x01", 4, MSG_NOSIGNAL), 4);
  }
  look(&facts, "127.0.0.1", other.listener.port, LONG_MS / 2);
  assert_true(facts.answered);
  assert_int_equal(facts.back, DOCTOR_REACHED);
  assert_true(facts.bulk_came);
  stop(&other); // hangs up on them
  for (int i = 0; i < STRANGERS; i++)
    close(fds[i]);
}

// Whether one that calls, and speaks after more have come than there are places for handshakes, gets through the
// handshake all the same. `*in_time`: it has spoken before its time to do so was over.
static bool speaks_late(const struct other *other, bool *in_time) {
  enum { STRANGERS = 100 };
  struct doctor_peer_facts facts;
  struct doctor_connection connection;
  int fds[STRANGERS];
  uint64_t begin = clock_ns();
  int late = dial(other->listener.port);
  for (int i = 0; i < STRANGERS; i++)
    fds[i] = dial(other->listener.port);
  look(&facts, "127.0.0.1", other->listener.port, LONG_MS); // behind all of them
  assert_true(facts.answered);
  int rc = doctor_connection_open(&connection, late, true, other->listener.key, clock_deadline_ms(LONG_MS));
  *in_time = clock_ns() - begin < LOBBY_TIME_MS * UINT64_C(1000000);
  doctor_connection_close(&connection);
  for (int i = 0; i < STRANGERS; i++)
    close(fds[i]);
  return rc == 0;
}

static void a_caller_that_sends_late_keeps_its_place(void **state) {
  (void)state;
  struct other other;
  bool served = false, in_time = false;
  start(&other);
  for (int i = 0; i < 20 && !served && !in_time; i++) // a busy machine may take longer
    served = speaks_late(&other, &in_time);
  assert_true(served);
  stop(&other);
}

// Callers that have the token and then say nothing have a place each, and the others those that are left.
static void silent_holders_of_the_token_have_their_places_only(void **state) {
  (void)state;
  enum { SILENT = 15 };
  struct other other;
  struct doctor_peer_facts facts;
  struct doctor_connection connections[SILENT];
  start(&other);
  for (int i = 0; i < SILENT; i++) {
    int fd = dial(other.listener.port);
    assert_int_equal(doctor_connection_open(&connections[i], fd, true, other.listener.key, clock_deadline_ms(LONG_MS)),
                     0);
  }
  look(&facts, "127.0.0.1", other.listener.port, LONG_MS);
  assert_true(facts.answered && facts.bulk_came);
  stop(&other);
  for (int i = 0; i < SILENT; i++)
    doctor_connection_close(&connections[i]);
}

struct caller {
  const struct other *other;
  struct doctor_peer_facts facts;
  pthread_t thread;
};

static void *call(void *argument) {
  struct caller *caller = argument;
  look(&caller->facts, "127.0.0.1", caller->other->listener.port, LONG_MS);
  return NULL;
}

// As when all nodes of a cluster check the way to one: more than there are places, and than are called in a second.
static void callers_that_come_together_are_all_answered(void **state) {
  (void)state;
  enum { CALLERS = 40 };
  static struct caller callers[CALLERS];
  struct other other;
  start(&other);
  for (int i = 0; i < CALLERS; i++) {
    callers[i].other = &other;
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(callers[i].thread, NULL);
    assert_true(callers[i].facts.answered && callers[i].facts.bulk_came);
    assert_int_equal(callers[i].facts.back, DOCTOR_REACHED);
  }
  stop(&other);
}

static void messages_survive_the_wire(void **state) {
  (void)state;
  struct doctor_message in = {.mtu = 9000, .back_port = 40000, .back = DOCTOR_SILENT}, out;
  uint8_t bytes[DOCTOR_MESSAGE];
  memset(in.nonce, 7, sizeof in.nonce);
  doctor_message_pack(&in, bytes);
  assert_true(doctor_message_unpack(&out, bytes));
  assert_memory_equal(out.nonce, in.nonce, sizeof in.nonce);
  assert_true(out.mtu == in.mtu && out.back_port == in.back_port && out.back == in.back);
  bytes[31] = 99; // no way to have been reached
  assert_false(doctor_message_unpack(&out, bytes));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_ways_and_large_messages_are_tried),
      cmocka_unit_test(nobody_at_the_port_refuses),
      cmocka_unit_test(one_that_listens_and_says_nothing_costs_a_deadline),
      cmocka_unit_test(something_else_at_the_port_is_not_believed),
      cmocka_unit_test(large_messages_that_do_not_come_are_reported),
      cmocka_unit_test(a_peer_that_claims_to_have_called_must_have_connected),
      cmocka_unit_test(malformed_names_and_ports_are_reported),
      cmocka_unit_test(listeners_survive_rubbish),
      cmocka_unit_test(a_caller_with_another_token_learns_nothing),
      cmocka_unit_test(strangers_keep_nobody_waiting),
      cmocka_unit_test(a_caller_that_sends_late_keeps_its_place),
      cmocka_unit_test(silent_holders_of_the_token_have_their_places_only),
      cmocka_unit_test(callers_that_come_together_are_all_answered),
      cmocka_unit_test(messages_survive_the_wire),
  };
  return cmocka_run_group_tests_name("the way to a peer", tests, NULL, NULL);
}
