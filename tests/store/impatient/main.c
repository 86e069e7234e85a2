// Actors with little time use a server that ends and begins again, through a relay that disturbs what passes. The first
// argument is the number of disturbances, the second the seed.
#include "store/impatient/actor.h"
#include "store/impatient/server.h"

#include "base/random.h"
#include "cmocka_all.h"
#include "support/relay.h"
#include "support/sanitized.h"
#include "support/wait.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DISTURBANCES = SUPPORT_SANITIZED ? 30 : 40, MOST_LIFE_MS = 400, CALM_MS = 20000 };

static uint32_t disturbances = DISTURBANCES;
static uint64_t random_state;
static struct world world;
static struct actor actors[ACTORS];
static pthread_t threads[ACTORS];
static struct watched witness; // a watch from the begin to the end
static struct support_relay *relay;

static uint32_t draw(uint32_t below) {
  return (uint32_t)(random_next(&random_state) % below);
}

static void *live(void *arg) {
  struct actor *actor = arg;
  while (!atomic_load(&world.calm) && actor_live(actor, (uint32_t)(random_next(&actor->random) % MOST_LIFE_MS)))
    ;
  return NULL;
}

static void *conclude(void *arg) {
  actor_conclude(arg);
  return NULL;
}

static void start_threads(void *(*what)(void *)) {
  for (uint32_t i = 0; i < ACTORS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, what, &actors[i]), 0);
}

static void join_threads(void) {
  for (uint32_t i = 0; i < ACTORS; i++)
    pthread_join(threads[i], NULL);
}

static void open_world(void) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  world.token = server_kind.token();
  relay = support_relay_start(server_kind.port());
  assert_non_null(relay);
  const char *scheme = server_kind.scheme();
  snprintf(world.direct, sizeof world.direct, "%s://127.0.0.1:%u", scheme, server_kind.port());
  snprintf(world.relayed, sizeof world.relayed, "%s://127.0.0.1:%u", scheme, support_relay_port(relay));
  snprintf(world.dead, sizeof world.dead, "%s://127.0.0.1:%u", scheme, support_free_port());
  for (uint32_t i = 0; i < TRUTH_COUNTERS; i++)
    pthread_mutex_init(&world.counters[i].lock, NULL);
  options.endpoints = world.relayed;
  options.token = world.token;
  options.request_timeout_ms = 1000;
  assert_int_equal(weft_store_open(&world.shared, &options), 0);
  watched_begin(&witness, &world.generation);
  assert_int_equal(weft_store_watch_open(world.shared, ACTOR_PREFIX, 1, watched_take, &witness, &witness.watch), 0);
}

static bool begin_again(void) {
  if (!server_kind.keeps)
    atomic_fetch_add(&world.generation, 1);
  bool up = server_kind.start_again(draw(2) ? SERVER_STOPS : SERVER_IS_KILLED);
  if (!server_kind.keeps)
    atomic_fetch_add(&world.generation, 1);
  return up;
}

// Each ends before the next one begins, except a delay.
static bool disturb(void) {
  uint32_t drawn = draw(20);
  useconds_t time_us = draw(60000);
  if (drawn < (server_kind.keeps ? 1 : 2)) // an etcd takes a second
    return begin_again();
  if (drawn < 9) {
    support_relay_cut(relay);
  } else if (drawn < 11) {
    support_relay_refuse(relay, true);
    usleep(time_us);
    support_relay_refuse(relay, false);
  } else if (drawn < 13) {
    support_relay_hold(relay, true);
    usleep(time_us);
    support_relay_hold(relay, false);
  } else if (drawn < 16) {
    support_relay_hold_answers(relay, true);
    usleep(time_us);
    support_relay_hold_answers(relay, false);
  } else if (drawn < 18) {
    support_relay_delay(relay, draw(4));
  } else if (server_kind.freeze) {
    server_kind.freeze(true);
    usleep(time_us);
    server_kind.freeze(false);
  }
  return true;
}

static bool has_an_error(void) {
  bool any = atomic_load(&witness.wrong) != NULL;
  for (uint32_t i = 0; i < ACTORS; i++)
    any |= atomic_load(&actors[i].failed);
  return any;
}

// Whether the witness has seen the last put of each actor.
static bool witness_is_there(void *arg) {
  int64_t last = 0;
  (void)arg;
  for (uint32_t i = 0; i < ACTORS; i++)
    last = actors[i].own.revision > last ? actors[i].own.revision : last;
  return atomic_load(&witness.seen) >= last || atomic_load(&witness.wrong);
}

static bool check_witness(void) {
  bool there = support_wait(witness_is_there, NULL, CALM_MS);
  weft_store_watch_close(witness.watch);
  const char *wrong = atomic_load(&witness.wrong);
  print_message("witness: %u events, %u losses, %u resets\n", atomic_load(&witness.events),
                atomic_load(&witness.losses), atomic_load(&witness.resets));
  if (wrong)
    print_error("witness: %s: %s\n", wrong, witness.detail);
  else if (!there)
    print_error("witness: it has not seen the last puts\n");
  return there && !wrong;
}

static void calls_end_and_what_is_read_was_written(void **state) {
  (void)state;
  uint32_t again = 0;
  print_message("seed %llu\n", (unsigned long long)random_state);
  actors_init(actors, &world, random_state);
  assert_true(server_kind.start(random_next(&random_state)));
  open_world();
  start_threads(live);
  bool good = true;
  for (uint32_t i = 0; i < disturbances && good && !has_an_error(); i++) {
    usleep(draw(4) ? draw(30000) : draw(200000));
    uint64_t before = atomic_load(&world.generation);
    good = disturb();
    again += atomic_load(&world.generation) != before;
  }
  support_relay_delay(relay, 0);
  atomic_store(&world.calm, true);
  join_threads();
  if (good) {
    start_threads(conclude);
    join_threads();
  }
  good = check_witness() && good;
  good = actors_report(actors) && good;
  weft_store_close(world.shared);
  support_relay_stop(relay);
  server_kind.stop();
  print_message("%s: began again without its keys %u times\n", world.direct, again);
  assert_true(good);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "serve") == 0)
    return server_be(argv[2]);
  random_state = argc > 2 ? strtoull(argv[2], NULL, 10) : random_id();
  if (argc > 1)
    disturbances = (uint32_t)atoi(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_end_and_what_is_read_was_written)};
  return cmocka_run_group_tests_name("store_impatient", tests, NULL, NULL);
}
