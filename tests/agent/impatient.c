// Actors that are threads of one process. They use shared memory, or the transport that the first argument names. The
// second argument is the longest life of an agent in ms.
#include <pthread.h>
#include <stdlib.h>

#include "cmocka_all.h"

#include "agent/support/actor.h"
#include "base/random.h"
#include "support/sanitized.h"

enum {
  LIVES = SUPPORT_SANITIZED ? 8 : 16,
  LEAST = 20, // writes that all together verify: the last lives are as long as this takes
};

static const char *transport = "shm";
static uint32_t most_life_ms = 150;
static struct actors actors;

static void *live(void *arg) {
  struct actor *actor = arg;
  bool good = true;
  for (uint32_t life = 1; life <= LIVES && good; life++)
    good = actor_live(&actors, actor, actor_draw(actor, most_life_ms), life == LIVES ? LEAST : 0);
  return NULL;
}

static void calls_end_and_writes_arrive(void **state) {
  (void)state;
  pthread_t threads[ACTORS];
  actors_init(&actors, transport, random_id());
  assert_int_equal(weft_store_open_local(&actors.store), 0);
  for (uint32_t i = 0; i < ACTORS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, live, &actors.list[i]), 0);
  for (uint32_t i = 0; i < ACTORS; i++)
    pthread_join(threads[i], NULL);
  weft_store_close(actors.store);
  assert_true(actors_report(&actors));
  assert_true(atomic_load(&actors.verified) >= LEAST);
}

int main(int argc, char **argv) {
  if (argc > 1)
    transport = argv[1];
  if (argc > 2)
    most_life_ms = (uint32_t)atoi(argv[2]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_end_and_writes_arrive)};
  return cmocka_run_group_tests_name("agent_impatient", tests, NULL, NULL);
}
