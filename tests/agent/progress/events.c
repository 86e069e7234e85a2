// Events that the application takes when it likes: they come in order, also under an application lock that is held
// around every call of the agent. Some events are kept when nobody takes any.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "agent/limits.h"
#include "agent/support/pair.h"
#include "base/time/clock.h"
#include "support/loop.h"
#include "support/wait.h"

enum { LIVES = 200 };

static const struct transport *more[2] = {&transport_loop, NULL};
static struct pair pair;
static pthread_mutex_t application = PTHREAD_MUTEX_INITIALIZER; // as an interpreter's, for instance

static int set_up(void **state) {
  (void)state;
  loop_reset();
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.heartbeat_ms = 3600000;
  pair_open(&pair, "", more, &options);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  pair_close(&pair);
  return 0;
}

// The events that one thread received.
struct told {
  uint32_t loaded, left;
  weft_peer_t living;
  bool wrong;
};

static void take_in(struct told *told, const struct weft_agent_event *event) {
  if (event->kind == WEFT_AGENT_EVENT_PEER_LOADED) {
    told->wrong |= told->living != 0 || event->peer == 0;
    told->living = event->peer;
    told->loaded++;
  } else if (event->kind == WEFT_AGENT_EVENT_PEER_LEFT) {
    told->wrong |= told->living != event->peer;
    told->living = 0;
    told->left++;
  }
  told->wrong |= strcmp(event->name, "b") != 0 || event->dropped != 0 || event->time_ns == 0;
}

static void *pull(void *arg) {
  struct told *told = arg;
  uint64_t until = clock_deadline_ms(SUPPORT_DEADLINE_MS);
  struct weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  while (told->left < LIVES && !clock_passed(until)) {
    pthread_mutex_lock(&application);
    int rc = weft_agent_next_event(pair.a.agent, &event);
    if (rc == 1)
      take_in(told, &event);
    pthread_mutex_unlock(&application);
    if (rc == 0)
      sched_yield();
  }
  return NULL;
}

// An event that came inside of a call, and took this lock, waited for ever.
static void test_under_a_lock_of_the_application(void **state) {
  (void)state;
  pthread_t puller;
  struct told told = {0};
  assert_int_equal(pthread_create(&puller, NULL, pull, &told), 0);
  for (int i = 0; i < LIVES; i++) {
    pthread_mutex_lock(&application);
    int rc = weft_agent_invalidate(pair.a.agent, pair.a.peer);
    if (rc == 0 && i + 1 < LIVES)
      rc = pair_load_metadata(pair.b.agent, pair.a.agent, &pair.a.peer);
    pthread_mutex_unlock(&application);
    assert_int_equal(rc, 0);
  }
  pthread_join(puller, NULL);
  assert_int_equal(told.left, LIVES);
  assert_int_equal(told.loaded, LIVES);
  assert_false(told.wrong);
}

// Each changes b, and a learns of it: an UPDATED.
static void update(uint32_t times) {
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  memory.address = pair.b.memory;
  memory.length = 64;
  for (uint32_t i = 0; i < times; i++) {
    weft_region_t region;
    assert_int_equal(weft_agent_register(pair.b.agent, &memory, &region), 0);
    assert_int_equal(pair_load_metadata(pair.b.agent, pair.a.agent, &pair.a.peer), 0);
    assert_int_equal(weft_agent_deregister(pair.b.agent, region), 0);
  }
}

static void test_the_end_of_a_peer_is_never_dropped(void **state) {
  (void)state;
  struct weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  while (weft_agent_next_event(pair.a.agent, &event) == 1)
    assert_int_equal(event.kind, WEFT_AGENT_EVENT_PEER_LOADED);
  weft_peer_t first = pair.a.peer;
  assert_int_equal(weft_agent_invalidate(pair.a.agent, first), 0);
  assert_int_equal(pair_load_metadata(pair.b.agent, pair.a.agent, &pair.a.peer), 0);
  update(AGENT_EVENTS + 99);
  assert_int_equal(weft_agent_next_event(pair.a.agent, &event), 1);
  assert_int_equal(event.kind, WEFT_AGENT_EVENT_PEER_LEFT);
  assert_true(event.peer == first && event.dropped >= 100 && strcmp(event.name, "b") == 0);
  uint32_t updated = 0; // b also sends messages about its regions, which may still arrive
  while (weft_agent_next_event(pair.a.agent, &event) == 1) {
    assert_int_equal(event.kind, WEFT_AGENT_EVENT_PEER_UPDATED);
    assert_true(event.peer == pair.a.peer);
    updated++;
  }
  assert_true(updated >= AGENT_EVENTS);
}

// An older program's struct, and wrong ones.
static void test_sizes(void **state) {
  (void)state;
  struct weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  event.size = 8;
  assert_int_equal(weft_agent_next_event(pair.a.agent, &event), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_next_event(pair.a.agent, NULL), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_next_event(NULL, &event), WEFT_ERR_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_under_a_lock_of_the_application, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_the_end_of_a_peer_is_never_dropped, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_sizes, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
