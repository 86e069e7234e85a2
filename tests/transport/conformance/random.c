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

struct story {
  struct pair pair;
  struct side local[REGIONS], there[REGIONS];
  struct flight flights[REQUESTS];
  uint32_t regions; // of each side
  uint64_t random, next_seed, well, canceled;
};

static uint32_t draw(struct story *story, uint32_t below) {
  return (uint32_t)(random_next(&story->random) % below);
}

static void fill_side(struct story *story, struct side *side) {
  uint64_t seed = story->next_seed++;
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

static void come_or_go(struct story *story) {
  bool far = draw(story, 2);
  struct side *side = &(far ? story->there : story->local)[draw(story, story->regions)];
  if (!side->open) {
    place_open_parts(&side->place, far ? story->pair.b : story->pair.a, far ? story->pair.to_b : NULL, LENGTH,
                     OBJECT_UNITS * UNIT);
    side->open = true;
    fill_side(story, side);
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

static uint32_t choose_pieces(struct story *story, struct flight *flight, enum weft_transfer_op op) {
  bool in_objects = place_is_whole(&flight->there->place);
  uint32_t count = 0, wanted = 1 + draw(story, in_objects ? 3 : PIECES);
  for (uint32_t i = 0; i < wanted; i++) {
    uint32_t length = 1 + draw(story, 4);
    if (in_objects && op == WEFT_TRANSFER_WRITE)
      length = OBJECT_UNITS;
    uint32_t here = draw(story, UNITS - length), far = draw(story, UNITS - length);
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

static void begin(struct story *story, struct flight *flight) {
  flight->local = &story->local[draw(story, story->regions)];
  flight->there = &story->there[draw(story, story->regions)];
  if (!flight->local->open || !flight->there->open)
    return;
  enum weft_transfer_op op = draw(story, 2) ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE;
  uint32_t count = choose_pieces(story, flight, op);
  request_init(&flight->request, story->pair.to_b, op, flight->pieces, count);
  flight->request.status = flight->status;
  if (HAS(MESSAGES) && (count == 0 || draw(story, 2))) {
    flight->request.message = "random";
    flight->request.message_size = 7;
  }
  assert_works(suite.transport->prepare(&flight->request));
  assert_works(suite.transport->post(&flight->request));
  flight->in_flight = true;
}

// What each piece brought, by its status: all of it, or nobody knows.
static void settle(struct story *story, struct flight *flight) {
  bool write = flight->request.op == WEFT_TRANSFER_WRITE;
  int is = flight->request.state;
  assert_true(is == 0 || is == WEFT_ERR_CANCELED);
  is == 0 ? story->well++ : story->canceled++;
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

static void step(struct story *story) {
  struct flight *flight = &story->flights[draw(story, REQUESTS)];
  switch (draw(story, 8)) {
  case 0:
    come_or_go(story);
    break;
  case 1:
    if (flight->in_flight)
      suite.transport->cancel(&flight->request);
    break;
  case 2:
  case 3:
  case 4:
    if (!flight->in_flight)
      begin(story, flight);
    break;
  default:
    pair_drive(&story->pair);
    pair_sleep(&story->pair);
  }
  for (uint32_t i = 0; i < REQUESTS; i++)
    if (story->flights[i].in_flight && request_ended(&story->flights[i].request))
      settle(story, &story->flights[i]);
}

static void end_story(struct story *story) {
  for (uint32_t i = 0; i < REQUESTS; i++) {
    if (!story->flights[i].in_flight)
      continue;
    pair_wait(&story->pair, request_ended, &story->flights[i].request, "a drawn transfer");
    settle(story, &story->flights[i]);
  }
  for (uint32_t i = 0; i < REGIONS; i++) {
    struct side *sides[2] = {&story->local[i], &story->there[i]};
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
  int stories = object ? 2 : SUPPORT_SANITIZED ? 4 : 20;
  int steps = suite.kind == WEFT_MEMORY_HOST ? 3000 : object ? 200 : 500;
  uint64_t well = 0, canceled = 0;
  for (int i = 0; i < stories; i++) {
    struct story *story = calloc(1, sizeof *story);
    assert_non_null(story);
    story->random = suite.seed + (uint64_t)i;
    story->next_seed = 1000;
    story->regions = object ? 2 : REGIONS;
    pair_open(&story->pair, i % 4 == 3);
    for (int n = 0; n < steps; n++)
      step(story);
    end_story(story);
    pair_close(&story->pair);
    well += story->well;
    canceled += story->canceled;
    free(story);
  }
  print_message("%s: %llu drawn transfers came, %llu were cancelled\n", suite.name, (unsigned long long)well,
                (unsigned long long)canceled);
  assert_true(well > 0);
}

const struct CMUnitTest random_cases[] = {CASE(test_random_sequences)};
const size_t num_random_cases = sizeof random_cases / sizeof *random_cases;
