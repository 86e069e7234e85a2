// The index of regions against a plain list, in random sequences: regions nest, overlap, repeat and touch.
#include "agent/memory/region_index.h"

#include <stdlib.h>
#include <string.h>

#include "agent/memory/region.h"
#include "base/random.h"
#include "cmocka_all.h"

enum { REGIONS = 400, STEPS = 2000, SPACE = 64, AT_ONCE = 12 };

struct scenario {
  struct agent_ranges ranges;
  struct agent_region regions[REGIONS];
  bool known[REGIONS];
  uint64_t random, next_id;
};

static uint64_t below(struct scenario *scenario, uint64_t limit) {
  return random_next(&scenario->random) % limit;
}

static void draw(struct scenario *scenario, struct agent_region *region) {
  bool is_file = below(scenario, 8) == 0;
  *region = (struct agent_region){.id = scenario->next_id++,
                                  .kind = is_file ? WEFT_MEMORY_FILE : WEFT_MEMORY_HOST,
                                  .address = is_file ? 0 : 1000 + below(scenario, SPACE),
                                  .length = 1 + below(scenario, below(scenario, 2) ? 4 : SPACE)};
}

static void add_some(struct scenario *scenario) {
  struct agent_region *added[AT_ONCE];
  uint32_t count = 0, wanted = 1 + (uint32_t)below(scenario, AT_ONCE);
  for (int i = 0; i < REGIONS && count < wanted; i++) {
    if (scenario->known[i])
      continue;
    draw(scenario, &scenario->regions[i]);
    scenario->known[i] = true;
    added[count++] = &scenario->regions[i];
  }
  for (uint32_t i = count; i > 1; i--) { // their ids are in no order
    uint32_t other = (uint32_t)below(scenario, i);
    struct agent_region *last = added[i - 1];
    added[i - 1] = added[other];
    added[other] = last;
  }
  assert_int_equal(agent_ranges_reserve(&scenario->ranges, count), 0);
  agent_ranges_add(&scenario->ranges, added, count);
}

static void remove_one(struct scenario *scenario) {
  uint64_t i = below(scenario, REGIONS);
  if (!scenario->known[i])
    return;
  agent_ranges_remove(&scenario->ranges, &scenario->regions[i]);
  scenario->known[i] = false;
}

static void remove_some(struct scenario *scenario) {
  struct agent_region *first = NULL;
  uint32_t count = 0, wanted = 1 + (uint32_t)below(scenario, AT_ONCE);
  for (int i = 0; i < REGIONS && count < wanted; i++) {
    if (!scenario->known[i] || below(scenario, 4) != 0)
      continue;
    scenario->regions[i].gone = true;
    scenario->regions[i].next = first;
    first = &scenario->regions[i];
    scenario->known[i] = false;
    count++;
  }
  agent_ranges_remove_gone(&scenario->ranges, first, count);
}

// The smallest region with the range, among equal ones the oldest.
static struct agent_region *search(struct scenario *scenario, uint64_t address, uint64_t length) {
  struct agent_region *best = NULL;
  for (int i = 0; i < REGIONS; i++) {
    struct agent_region *region = &scenario->regions[i];
    if (!scenario->known[i] || region->kind != WEFT_MEMORY_HOST || region->address > address ||
        region->address + region->length < address + length)
      continue;
    if (!best || region->length < best->length || (region->length == best->length && region->id < best->id))
      best = region;
  }
  return best;
}

static void compare(struct scenario *scenario) {
  for (int i = 0; i < 20; i++) {
    uint64_t address = 998 + below(scenario, SPACE + 4), length = 1 + below(scenario, SPACE);
    assert_ptr_equal(agent_ranges_find(&scenario->ranges, address, length), search(scenario, address, length));
  }
  uint64_t i = below(scenario, REGIONS);
  struct agent_region *expected = scenario->known[i] ? &scenario->regions[i] : NULL;
  if (scenario->regions[i].id != 0)
    assert_ptr_equal(agent_ranges_get(&scenario->ranges, scenario->regions[i].id), expected);
}

static void random_sequences_find_what_a_list_finds(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 5; seed++) {
    struct scenario *scenario = calloc(1, sizeof *scenario);
    assert_non_null(scenario);
    scenario->random = seed;
    scenario->next_id = 1;
    for (int step = 0; step < STEPS; step++) {
      uint64_t what = below(scenario, 10);
      if (what < 2)
        add_some(scenario);
      else if (what < 9)
        remove_one(scenario);
      else
        remove_some(scenario);
      compare(scenario);
    }
    agent_ranges_free(&scenario->ranges);
    free(scenario);
  }
}

static void a_range_past_the_end_of_memory_is_in_no_region(void **state) {
  (void)state;
  struct agent_ranges ranges = {0};
  struct agent_region region = {.id = 1, .kind = WEFT_MEMORY_HOST, .address = 4096, .length = 4096};
  struct agent_region *const regions[] = {&region};
  assert_int_equal(agent_ranges_reserve(&ranges, 1), 0);
  agent_ranges_add(&ranges, regions, 1);
  assert_ptr_equal(agent_ranges_find(&ranges, 4096, 4096), &region);
  assert_null(agent_ranges_find(&ranges, 4096, 4097));
  assert_null(agent_ranges_find(&ranges, 8000, UINT64_MAX - 2000)); // its end would be 5,999
  agent_ranges_free(&ranges);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_sequences_find_what_a_list_finds),
      cmocka_unit_test(a_range_past_the_end_of_memory_is_in_no_region),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
