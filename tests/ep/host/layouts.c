// Thousands of operations in which every rank chooses its own layout of rows: per expert, by rank, packed with any
// alignment, in place; of any type, also opaque bytes; combined with or without weights, with biases, with returned
// weights; in groups for LATENCY and for THROUGHPUT, some with interrupted calls. A judge of its own (support/world.h)
// compares every number.
//
//   test_ep_layouts [operations [seed]]
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "ep/host/support/world.h"
#include "ep/support/rank.h"
#include "support/emulated.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { OPERATIONS = 3000, OPERATIONS_WHEN_SLOW = 200, OPERATIONS_OF_A_GROUP = 100, MOST_RANKS = 5, CAPACITY = 8 };

static unsigned long operations;
static uint64_t seed = 2511;

struct group {
  struct world world;
  uint32_t operations;
  bool interrupts;
};

struct interrupter {
  weft_ep_t *ep;
  atomic_bool stop;
};

static void *interrupt(void *arg) {
  struct interrupter *interrupter = arg;
  while (!atomic_load(&interrupter->stop)) {
    weft_ep_interrupt(interrupter->ep);
    usleep(100);
  }
  return NULL;
}

static void body(struct rank *rank, void *arg) {
  const struct group *group = arg;
  struct interrupter interrupter = {.ep = rank->ep};
  pthread_t thread;
  bool started = group->interrupts && pthread_create(&thread, NULL, interrupt, &interrupter) == 0;
  for (uint32_t i = 0; i < group->operations && world_operate(rank, &group->world); i++)
    continue;
  atomic_store(&interrupter.stop, true);
  if (started)
    pthread_join(thread, NULL);
}

static uint32_t draw(uint64_t *state, uint32_t low, uint32_t high) {
  return low + (uint32_t)(random_next(state) % (high - low + 1));
}

static struct world draw_world(uint64_t *state, int32_t ranks[MOST_RANKS]) {
  struct world world = {.seed = random_next(state), .capacity = CAPACITY, .ranks = ranks};
  world.tokens = draw(state, 1, 24);
  world.hidden = draw(state, 1, 3) * WEFT_EP_BLOCK;
  world.topk = draw(state, 1, 8);
  world.experts = draw(state, 1, 5);
  world.dtype = (enum weft_ep_dtype)draw(state, WEFT_EP_BF16, WEFT_EP_FP8_UE8M0);
  world.combine_dtype = WEFT_EP_COMBINE_BF16;
  if (draw(state, 0, 1))
    world.window = draw(state, 1, world.tokens + 2);
  uint32_t wanted = draw(state, 1, MOST_RANKS);
  for (uint32_t rank = 0; rank < CAPACITY && world.num_ranks < wanted; rank++)
    if (draw(state, 1, CAPACITY - rank) <= wanted - world.num_ranks)
      ranks[world.num_ranks++] = (int32_t)rank;
  return world;
}

static void every_rank_in_its_own_way(void **state) {
  (void)state;
  uint64_t random = seed;
  for (unsigned long done = 0; done < operations;) {
    int32_t ranks[MOST_RANKS];
    struct group group = {.world = draw_world(&random, ranks)};
    const struct world *world = &group.world;
    unsigned long left = operations - done;
    group.interrupts = draw(&random, 0, 3) == 0;
    group.operations = left < OPERATIONS_OF_A_GROUP ? (uint32_t)left : OPERATIONS_OF_A_GROUP;
    struct setup setup = {.capacity = world->capacity,
                          .tokens = world->tokens,
                          .hidden = world->hidden,
                          .topk = world->topk,
                          .experts = world->experts,
                          .window = world->window,
                          .dtype = world->dtype,
                          .combine_dtype = world->combine_dtype};
    assert_int_equal(weft_store_open_local(&setup.store), 0);
    ranks_run(&setup, ranks, world->num_ranks, body, &group);
    weft_store_close(setup.store);
    done += group.operations;
  }
}

int main(int argc, char **argv) {
  operations = SANITIZED || support_emulated() ? OPERATIONS_WHEN_SLOW : OPERATIONS;
  if (argc > 1)
    operations = strtoul(argv[1], NULL, 0);
  if (argc > 2)
    seed = strtoull(argv[2], NULL, 0);
  print_message("%lu operations, seed %" PRIu64 "\n", operations, seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_rank_in_its_own_way)};
  return cmocka_run_group_tests_name("ep_layouts", tests, NULL, NULL);
}
