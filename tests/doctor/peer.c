// The way to a peer: with a doctor at its end, with something else, and with nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "doctor/families.h"
#include "doctor/listen.h"
#include "doctor/wire.h"

enum { LONG_MS = 30000, SHORT_MS = 2000 };

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
  assert_int_equal(doctor_listener_open(&other->listener, 0), 0);
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
  doctor_gather_peer(facts, peer, timeout_ms);
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
  assert_int_equal(doctor_listener_open(&listener, 0), 0);
  doctor_listener_close(&listener);
  look(&facts, "127.0.0.1", listener.port, LONG_MS);
  assert_int_equal(facts.reach, DOCTOR_REFUSED);
  assert_false(facts.answered);
}

static void one_that_listens_and_says_nothing_costs_a_deadline(void **state) {
  (void)state;
  struct doctor_listener listener;
  struct doctor_peer_facts facts;
  assert_int_equal(doctor_listener_open(&listener, 0), 0);
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
  int fd = doctor_accept(actor->listener.fd, clock_deadline_ms(LONG_MS));
  uint64_t deadline = clock_deadline_ms(LONG_MS);
  struct doctor_message message;
  if (fd >= 0 && doctor_receive_message(fd, &message, deadline)) {
    message.nonce[0] ^= actor->part == OTHER_NONCE;
    message.back = actor->part == CALLED_BACK_IN_WORDS_ONLY ? DOCTOR_REACHED : DOCTOR_REFUSED;
    doctor_message_pack(&message, bytes);
    bytes[0] ^= actor->part == WRONG_BYTES;
    doctor_send(fd, bytes, sizeof bytes, deadline);
    doctor_send(fd, bytes, sizeof bytes, deadline);
  }
  if (fd >= 0)
    close(fd);
  return NULL;
}

static struct doctor_peer_facts look_at_actor(int part, uint32_t timeout_ms) {
  struct actor actor = {.part = part};
  struct doctor_peer_facts facts;
  pthread_t thread;
  assert_int_equal(doctor_listener_open(&actor.listener, 0), 0);
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

static void large_messages_that_do_not_come_are_told(void **state) {
  (void)state;
  struct doctor_peer_facts facts = look_at_actor(NO_BULK, LONG_MS);
  assert_true(facts.answered && facts.bulk_sent && !facts.bulk_came);
  assert_int_equal(facts.back, DOCTOR_REFUSED);
}

static void who_says_that_it_called_must_have_come(void **state) {
  (void)state;
  assert_int_equal(look_at_actor(CALLED_BACK_IN_WORDS_ONLY, SHORT_MS).back, DOCTOR_SILENT);
}

static void names_and_ports_that_are_none_are_told(void **state) {
  (void)state;
  struct doctor_peer_facts facts = {0};
  doctor_gather_peer(&facts, "127.0.0.1:five", LONG_MS);
  assert_string_equal(facts.error, "\"five\" is not a port");
  facts = (struct doctor_peer_facts){0};
  doctor_gather_peer(&facts, "[::1]:65536", LONG_MS);
  assert_string_equal(facts.error, "\"65536\" is not a port");
  facts = (struct doctor_peer_facts){0};
  doctor_gather_peer(&facts, NULL, LONG_MS);
  assert_false(facts.asked);
}

static void listeners_survive_rubbish(void **state) {
  (void)state;
  struct other other;
  struct doctor_peer_facts facts;
  start(&other);
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(other.listener.port)};
  int fd = -1, error = 0;
  assert_int_equal(doctor_connect((struct sockaddr *)&to, sizeof to, clock_deadline_ms(LONG_MS), &fd, &error),
                   DOCTOR_REACHED);
  assert_true(doctor_send(fd, "GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n", 36, clock_deadline_ms(LONG_MS)));
  char byte;
  assert_false(doctor_receive(fd, &byte, 1, clock_deadline_ms(LONG_MS))); // it hangs up
  close(fd);
  look(&facts, "127.0.0.1", other.listener.port, LONG_MS);
  assert_true(facts.answered);
  stop(&other);
}

// Each would cost the others the deadline of a step, if they were heard one after the other.
static void callers_who_say_nothing_keep_nobody_waiting(void **state) {
  (void)state;
  enum { SILENT = 40 };
  struct other other;
  struct doctor_peer_facts facts;
  int silent[SILENT];
  start(&other);
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(other.listener.port)};
  for (int i = 0; i < SILENT; i++) {
    silent[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(silent[i], (struct sockaddr *)&address, sizeof address), 0);
  }
  look(&facts, "127.0.0.1", other.listener.port, LONG_MS / 2);
  assert_true(facts.answered);
  assert_int_equal(facts.back, DOCTOR_REACHED);
  stop(&other); // hangs up on them
  for (int i = 0; i < SILENT; i++)
    close(silent[i]);
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
      cmocka_unit_test(large_messages_that_do_not_come_are_told),
      cmocka_unit_test(who_says_that_it_called_must_have_come),
      cmocka_unit_test(names_and_ports_that_are_none_are_told),
      cmocka_unit_test(listeners_survive_rubbish),
      cmocka_unit_test(callers_who_say_nothing_keep_nobody_waiting),
      cmocka_unit_test(messages_survive_the_wire),
  };
  return cmocka_run_group_tests_name("the way to a peer", tests, NULL, NULL);
}
