// Ten thousand operations in groups of random shapes: ranks, sizes, format, layout, ways of calling, gaps, masks.
// Tokens vary from operation to operation. The oracle checks every number of every rank.
//
//   test_ep_random [operations [seed]]
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "ep/support/rank.h"
#include "support/emulated.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { OPERATIONS = 10000, OPERATIONS_WHEN_SLOW = 1000 };

enum { OPERATIONS_OF_A_GROUP = 100, MOST_RANKS = 5, CAPACITY = 8 };

static unsigned long operations;
static uint64_t seed = 20261;

static uint32_t draw(uint64_t *state, uint32_t low, uint32_t high) {
  return low + (uint32_t)(random_next(state) % (high - low + 1));
}

static struct setup draw_setup(uint64_t *state) {
  struct setup setup = {.capacity = CAPACITY, .uneven = true, .masks = true, .seed = random_next(state)};
  setup.tokens = draw(state, 1, 24);
  setup.hidden = draw(state, 1, 4) * WEFT_EP_BLOCK;
  setup.topk = draw(state, 1, 8);
  setup.experts = draw(state, 1, 4);
  setup.dtype = (enum weft_ep_dtype)draw(state, WEFT_EP_BF16, WEFT_EP_FP8_UE8M0);
  setup.combine_dtype = (enum weft_ep_combine_dtype)draw(state, WEFT_EP_COMBINE_BF16, WEFT_EP_COMBINE_LOGFMT10);
  setup.cast_before = draw(state, 0, 1);
  setup.layout = (enum weft_ep_layout)draw(state, WEFT_EP_PER_EXPERT, WEFT_EP_RANK_MAJOR);
  setup.late_weights = setup.layout == WEFT_EP_PER_EXPERT && draw(state, 0, 2) == 0;
  setup.apart = draw(state, 0, 1);
  setup.in_place = draw(state, 0, 1);
  setup.placed = draw(state, 0, 1) && setup.combine_dtype == WEFT_EP_COMBINE_BF16;
  setup.renormalize = draw(state, 0, 1);
  setup.drop = (float)draw(state, 0, 4) / 8;
  setup.vary = draw(state, 0, 1);
  return setup;
}

// Rank indices, ascending, with gaps between them.
static uint32_t draw_ranks(uint64_t *state, int32_t ranks[MOST_RANKS]) {
  uint32_t wanted = draw(state, 1, MOST_RANKS), count = 0;
  for (uint32_t rank = 0; rank < CAPACITY && count < wanted; rank++)
    if (draw(state, 1, CAPACITY - rank) <= wanted - count)
      ranks[count++] = (int32_t)rank;
  return count;
}

static void body(struct rank *rank, void *arg) {
  uint32_t count = *(const uint32_t *)arg;
  if (rank_operate_n(rank, count) && rank->checked != count)
    rank_fail(rank, "%" PRIu64 " of %u operations were judged", rank->checked, count);
}

static void drawn_shapes_sizes_and_masks(void **state) {
  (void)state;
  uint64_t random = seed;
  for (unsigned long done = 0; done < operations;) {
    int32_t ranks[MOST_RANKS];
    struct setup setup = draw_setup(&random);
    uint32_t num_ranks = draw_ranks(&random, ranks);
    uint32_t count = operations - done < OPERATIONS_OF_A_GROUP ? (uint32_t)(operations - done) : OPERATIONS_OF_A_GROUP;
    assert_int_equal(weft_store_open_local(&setup.store), 0);
    ranks_run(&setup, ranks, num_ranks, body, &count);
    weft_store_close(setup.store);
    done += count;
  }
}

int main(int argc, char **argv) {
  operations = SANITIZED || support_emulated() ? OPERATIONS_WHEN_SLOW : OPERATIONS;
  if (argc > 1)
    operations = strtoul(argv[1], NULL, 0);
  if (argc > 2)
    seed = strtoull(argv[2], NULL, 0);
  print_message("%lu operations, seed %" PRIu64 "\n", operations, seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_shapes_sizes_and_masks)};
  return cmocka_run_group_tests_name("ep_random_operations", tests, NULL, NULL);
}
