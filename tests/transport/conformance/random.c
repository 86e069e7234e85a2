// Random sequences: regions that are added and removed, transfers in both directions in several requests, and cancels,
// against a model of every byte.
#include "conformance/suite.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

enum { REGIONS = 6, REQUESTS = 8, PIECES = 12, UNIT = 512, UNITS = 40, LENGTH = UNIT * UNITS };
enum { OBJECT_UNITS = 5 }; // of an object, which is written as a whole

// Both sides of a transfer are known unit by unit: which seed's data it holds, and from which unit on.
struct unit {
  uint64_t seed;
  uint32_t from;
  bool busy; // a request writes it, or reads it
  bool unknown;
  bool unsteady; // not used any more: the server may yet make an object what it had when that was cancelled
};

struct side {
  struct place place;
  struct unit units[UNITS];
  bool open;
};

struct flight {
  struct transport_request request;
  struct transport_piece pieces[PIECES];
  int32_t status[PIECES];
  struct {
    uint32_t to, from, length;
  } moves[PIECES];
  struct side *local, *there;
  bool in_flight;
};

struct scenario {
  struct pair pair;
  struct side local[REGIONS], there[REGIONS];
  struct flight flights[REQUESTS];
  uint32_t regions; // of each side
  uint64_t random, next_seed, well, canceled;
};

static uint32_t draw(struct scenario *scenario, uint32_t below) {
  return (uint32_t)(random_next(&scenario->random) % below);
}

static void fill_side(struct scenario *scenario, struct side *side) {
  uint64_t seed = scenario->next_seed++;
  place_fill(&side->place, seed);
  for (uint32_t i = 0; i < UNITS; i++)
    side->units[i] = (struct unit){.seed = seed, .from = i};
}

static void check_side(struct side *side) {
  for (uint32_t i = 0; i < UNITS; i++) {
    const struct unit *unit = &side->units[i];
    if (!unit->busy && !unit->unknown)
      place_check(&side->place, (uint64_t)i * UNIT, UNIT, unit->seed, (uint64_t)unit->from * UNIT);
  }
}

static bool in_use(const struct side *side) {
  for (uint32_t i = 0; i < UNITS; i++)
    if (side->units[i].busy)
      return true;
  return false;
}

static void come_or_go(struct scenario *scenario) {
  bool far = draw(scenario, 2);
  struct side *side = &(far ? scenario->there : scenario->local)[draw(scenario, scenario->regions)];
  if (!side->open) {
    place_open_parts(&side->place, far ? scenario->pair.b : scenario->pair.a, far ? scenario->pair.to_b : NULL, LENGTH,
                     OBJECT_UNITS * UNIT);
    side->open = true;
    fill_side(scenario, side);
  } else if (!in_use(side)) {
    check_side(side);
    place_close(&side->place);
    side->open = false;
  }
}

static bool take_units(struct side *side, uint32_t first, uint32_t count) {
  for (uint32_t i = first; i < first + count; i++)
    if (side->units[i].busy || side->units[i].unsteady)
      return false;
  for (uint32_t i = first; i < first + count; i++)
    side->units[i].busy = true;
  return true;
}

static void give_units(struct side *side, uint32_t first, uint32_t count) {
  for (uint32_t i = first; i < first + count; i++)
    side->units[i].busy = false;
}

static uint32_t choose_pieces(struct scenario *scenario, struct flight *flight, enum weft_transfer_op op) {
  bool in_objects = place_is_whole(&flight->there->place);
  uint32_t count = 0, wanted = 1 + draw(scenario, in_objects ? 3 : PIECES);
  for (uint32_t i = 0; i < wanted; i++) {
    uint32_t length = 1 + draw(scenario, 4);
    if (in_objects && op == WEFT_TRANSFER_WRITE)
      length = OBJECT_UNITS;
    uint32_t here = draw(scenario, UNITS - length), far = draw(scenario, UNITS - length);
    if (in_objects)
      far -= far % OBJECT_UNITS;
    if (!take_units(flight->local, here, length))
      continue;
    if (!take_units(flight->there, far, length)) {
      give_units(flight->local, here, length);
      continue;
    }
    flight->pieces[count] = piece_of(&flight->local->place, (uint64_t)here * UNIT, &flight->there->place,
                                     (uint64_t)far * UNIT, (uint64_t)length * UNIT);
    flight->moves[count].length = length;
    flight->moves[count].from = here;
    flight->moves[count].to = far;
    count++;
  }
  return count;
}

static void begin(struct scenario *scenario, struct flight *flight) {
  flight->local = &scenario->local[draw(scenario, scenario->regions)];
  flight->there = &scenario->there[draw(scenario, scenario->regions)];
  if (!flight->local->open || !flight->there->open)
    return;
  enum weft_transfer_op op = draw(scenario, 2) ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE;
  uint32_t count = choose_pieces(scenario, flight, op);
  request_init(&flight->request, scenario->pair.to_b, op, flight->pieces, count);
  flight->request.status = flight->status;
  if (HAS(MESSAGES) && (count == 0 || draw(scenario, 2))) {
    flight->request.message = "random";
    flight->request.message_size = 7;
  }
  assert_works(suite.transport->prepare(&flight->request));
  assert_works(suite.transport->post(&flight->request));
  flight->in_flight = true;
}

// What each piece brought, by its status: all of it, or nobody knows.
static void settle(struct scenario *scenario, struct flight *flight) {
  bool write = flight->request.op == WEFT_TRANSFER_WRITE;
  int is = flight->request.state;
  assert_true(is == 0 || is == WEFT_ERR_CANCELED);
  is == 0 ? scenario->well++ : scenario->canceled++;
  for (uint32_t i = 0; i < flight->request.num_pieces; i++) {
    if (is == 0)
      assert_int_equal(flight->status[i], 0);
    for (uint32_t u = 0; u < flight->moves[i].length; u++) {
      struct unit *here = &flight->local->units[flight->moves[i].from + u];
      struct unit *far = &flight->there->units[flight->moves[i].to + u];
      here->busy = far->busy = false;
      struct unit *to = write ? far : here, *from = write ? here : far;
      if (flight->status[i] == 0)
        *to = *from;
      else
        to->unknown = true;
      far->unsteady = write && flight->status[i] != 0 && place_is_whole(&flight->there->place);
    }
  }
  suite.transport->unprepare(&flight->request);
  flight->in_flight = false;
}

static void step(struct scenario *scenario) {
  struct flight *flight = &scenario->flights[draw(scenario, REQUESTS)];
  switch (draw(scenario, 8)) {
  case 0:
    come_or_go(scenario);
    break;
  case 1:
    if (flight->in_flight)
      suite.transport->cancel(&flight->request);
    break;
  case 2:
  case 3:
  case 4:
    if (!flight->in_flight)
      begin(scenario, flight);
    break;
  default:
    pair_drive(&scenario->pair);
    pair_sleep(&scenario->pair);
  }
  for (uint32_t i = 0; i < REQUESTS; i++)
    if (scenario->flights[i].in_flight && request_ended(&scenario->flights[i].request))
      settle(scenario, &scenario->flights[i]);
}

static void end_scenario(struct scenario *scenario) {
  for (uint32_t i = 0; i < REQUESTS; i++) {
    if (!scenario->flights[i].in_flight)
      continue;
    pair_wait(&scenario->pair, request_ended, &scenario->flights[i].request, "a drawn transfer");
    settle(scenario, &scenario->flights[i]);
  }
  for (uint32_t i = 0; i < REGIONS; i++) {
    struct side *sides[2] = {&scenario->local[i], &scenario->there[i]};
    for (int s = 0; s < 2; s++) {
      if (!sides[s]->open)
        continue;
      check_side(sides[s]);
      place_close(&sides[s]->place);
    }
  }
}

static void test_random_sequences(void **state) {
  (void)state;
  bool object = suite.kind == WEFT_MEMORY_OBJECT;
  int scenarios = object ? 2 : SUPPORT_SANITIZED ? 4 : 20;
  int steps = suite.kind == WEFT_MEMORY_HOST ? 3000 : object ? 200 : 500;
  uint64_t well = 0, canceled = 0;
  for (int i = 0; i < scenarios; i++) {
    struct scenario *scenario = calloc(1, sizeof *scenario);
    assert_non_null(scenario);
    scenario->random = suite.seed + (uint64_t)i;
    scenario->next_seed = 1000;
    scenario->regions = object ? 2 : REGIONS;
    pair_open(&scenario->pair, i % 4 == 3);
    for (int n = 0; n < steps; n++)
      step(scenario);
    end_scenario(scenario);
    pair_close(&scenario->pair);
    well += scenario->well;
    canceled += scenario->canceled;
    free(scenario);
  }
  print_message("%s: %llu drawn transfers came, %llu were cancelled\n", suite.name, (unsigned long long)well,
                (unsigned long long)canceled);
  assert_true(well > 0);
}

const struct CMUnitTest random_cases[] = {CASE(test_random_sequences)};
const size_t num_random_cases = sizeof random_cases / sizeof *random_cases;
