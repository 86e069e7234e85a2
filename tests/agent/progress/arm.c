// Two agents, each in its own thread, only ever sleep on their descriptors. Each message back and forth wakes up both
// sides, and a lost wake-up shows as a sleep of seconds. test_agent_arm [COUNT] [thread]: COUNT sleeps, of agents that
// the sleepers drive, or with "thread" of agents that have threads.
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "agent/support/pair.h"

enum { PATIENCE_MS = 5000, FEW = 20000 };

static uint32_t wanted = FEW;
static enum weft_agent_progress progress = WEFT_AGENT_PROGRESS_NONE;
static struct pair pair;
static _Atomic uint32_t slept; // by both

struct sleeper {
  struct pair_end *end;
  uint32_t got;
  const char *wrong; // NULL: nothing
};

// Sleeps once, unless there is something to do.
static void nap(struct sleeper *sleeper, int fd) {
  uint32_t timeout_ms = 0;
  int rc = weft_agent_arm(sleeper->end->agent, &timeout_ms);
  if (rc < 0)
    sleeper->wrong = "arming failed";
  if (rc != 0)
    return;
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  int most_ms = timeout_ms < PATIENCE_MS ? (int)timeout_ms : PATIENCE_MS;
  slept++;
  if (poll(&ready, 1, most_ms) == 0 && most_ms == PATIENCE_MS)
    sleeper->wrong = "a wake-up was lost";
}

// Waits for a notification. False: it is the last one, or something is wrong.
static bool await(struct sleeper *sleeper, int fd) {
  struct weft_notification note;
  uint32_t count = 0;
  while (!sleeper->wrong && count == 0) {
    if (weft_agent_notifications(sleeper->end->agent, &note, 1, &count) != 0)
      sleeper->wrong = "no notifications";
    if (count == 0)
      nap(sleeper, fd);
  }
  sleeper->got += count;
  return !sleeper->wrong && note.size == 4 && memcmp(note.bytes, "ping", 4) == 0;
}

static void send_text(struct sleeper *sleeper, const char *text) {
  if (weft_agent_notify(sleeper->end->agent, sleeper->end->peer, text, 4) != 0)
    sleeper->wrong = "a message was refused";
}

static void *answer(void *arg) {
  struct sleeper *sleeper = arg;
  int fd;
  if (weft_agent_fd(sleeper->end->agent, &fd) != 0)
    sleeper->wrong = "no descriptor";
  while (!sleeper->wrong && await(sleeper, fd))
    send_text(sleeper, "ping");
  return NULL;
}

static void ask(struct sleeper *sleeper) {
  int fd;
  assert_int_equal(weft_agent_fd(sleeper->end->agent, &fd), 0);
  do
    send_text(sleeper, "ping");
  while (!sleeper->wrong && await(sleeper, fd) && slept < wanted);
  send_text(sleeper, "stop");
}

static void test_no_wake_up_is_lost(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = progress;
  options.spin_us = 1;
  options.heartbeat_ms = 3600000; // nothing else wakes them
  options.peer_timeout_ms = 3600000;
  pair_open(&pair, "shm", NULL, &options);
  struct sleeper a = {.end = &pair.a}, b = {.end = &pair.b};
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, answer, &b), 0);
  ask(&a);
  pthread_join(other, NULL);
  print_message("%u messages, for which the two slept %u times\n", a.got + b.got, (uint32_t)slept);
  if (a.wrong || b.wrong)
    fail_msg("a: %s, after %u; b: %s, after %u", a.wrong ? a.wrong : "well", a.got, b.wrong ? b.wrong : "well", b.got);
  assert_true(slept >= wanted);
  pair_close(&pair);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "thread") == 0)
      progress = WEFT_AGENT_PROGRESS_THREAD;
    else
      wanted = (uint32_t)strtoul(argv[i], NULL, 10);
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_wake_up_is_lost)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
