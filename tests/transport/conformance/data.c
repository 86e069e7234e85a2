// All bytes arrive at their target address, and nowhere else.
#include "conformance/suite.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

enum { SPARE = 16 };

// One piece with that offset on both sides.
static void move_once(struct pair *pair, enum weft_transfer_op op, uint64_t length, uint64_t local_offset,
                      uint64_t offset) {
  struct place local, there;
  place_open(&local, pair->a, NULL, length + SPARE);
  place_open(&there, pair->b, pair->to_b, length + SPARE);
  place_fill(&local, suite.seed);
  place_fill(&there, suite.seed + 1);
  bool whole = op == WEFT_TRANSFER_WRITE && place_is_whole(&there);
  offset = whole ? 0 : offset;
  struct transport_piece piece = piece_of(&local, local_offset, &there, offset, length);
  struct transport_request request;
  int32_t status = 99;
  request_init(&request, pair->to_b, op, &piece, 1);
  request.status = &status;
  int state = request_run(pair, &request);
  if (state != 0)
    fail_msg("%llu bytes: %s: %s", (unsigned long long)length, weft_err_name(state), request.why);
  assert_int_equal(status, 0);
  assert_int_equal(request.moved, length);
  struct place *to = op == WEFT_TRANSFER_WRITE ? &there : &local;
  uint64_t at = op == WEFT_TRANSFER_WRITE ? offset : local_offset,
           from = op == WEFT_TRANSFER_WRITE ? local_offset : offset;
  uint64_t kept = op == WEFT_TRANSFER_WRITE ? suite.seed + 1 : suite.seed,
           brought = op == WEFT_TRANSFER_WRITE ? suite.seed : suite.seed + 1;
  place_check(to, 0, at, kept, 0);
  place_check(to, at, length, brought, from);
  if (whole)
    place_check_end(to, length);
  else
    place_check(to, at + length, SPARE - at, kept, at + length);
  struct place *source = op == WEFT_TRANSFER_WRITE ? &local : &there;
  place_check(source, 0, length + SPARE, brought, 0);
  place_close(&there);
  place_close(&local);
}

static void move_all_sizes(bool loopback) {
  static const uint64_t sizes[] = {1, 2, 3, 7, 8, 63, 64, 65, 511, 4095, 4096, 4097, 65536 + 5, (1 << 20) + 3, 8 << 20};
  struct pair pair;
  bool few = suite.kind == WEFT_MEMORY_OBJECT;
  pair_open(&pair, loopback);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint64_t step = few ? 4 : sizes[i] > 4097 ? 3 : 1;
    for (uint64_t offset = few ? 2 : 0; offset < 4; offset += step) {
      move_once(&pair, WEFT_TRANSFER_WRITE, sizes[i], offset, 3 - offset);
      move_once(&pair, WEFT_TRANSFER_READ, sizes[i], 5, offset);
    }
  }
  pair_close(&pair);
}

static void test_all_sizes(void **state) {
  (void)state;
  move_all_sizes(false);
}

static void test_all_sizes_to_oneself(void **state) {
  (void)state;
  NEEDS(!HAS(SELF_ONLY), "its only peer is itself, as in the case before");
  move_all_sizes(true);
}

// So much that a transport may copy it in another way.
static void test_more_than_the_caches_hold(void **state) {
  (void)state;
  NEEDS(suite.kind == WEFT_MEMORY_HOST, "only host memory is tried");
  enum { COUNT = 3, UNIT = (6 << 20) + 77 };
  struct route route;
  struct transport_piece pieces[COUNT];
  struct transport_request request;
  route_open(&route, COUNT * UNIT + 100);
  for (enum weft_transfer_op op = WEFT_TRANSFER_READ; op <= WEFT_TRANSFER_WRITE; op++) {
    place_fill(&route.local, 1);
    place_fill(&route.there, 2);
    for (uint32_t i = 0; i < COUNT; i++)
      pieces[i] = piece_of(&route.local, i * UNIT + 3, &route.there, i * UNIT + 50, UNIT - 9);
    request_init(&request, route.pair.to_b, op, pieces, COUNT);
    assert_int_equal(request_run(&route.pair, &request), 0);
    struct place *to = op == WEFT_TRANSFER_WRITE ? &route.there : &route.local;
    uint64_t at = op == WEFT_TRANSFER_WRITE ? 50 : 3, from = op == WEFT_TRANSFER_WRITE ? 3 : 50,
             seed = op == WEFT_TRANSFER_WRITE ? 1 : 2;
    for (uint32_t i = 0; i < COUNT; i++) {
      place_check(to, i * UNIT + at, UNIT - 9, seed, i * UNIT + from);
      place_check(to, i * UNIT + at + UNIT - 9, 9, 3 - seed, i * UNIT + at + UNIT - 9);
    }
    place_check(to, 0, at, 3 - seed, 0);
  }
  route_close(&route);
}

// Pieces of drawn lengths, next to each other at the source and in another order at the destination.
static void test_scattered_pieces(void **state) {
  (void)state;
  enum { ALL = 20000, UNIT = 96 };
  uint32_t count = suite.abilities.max_pieces && suite.abilities.max_pieces < ALL ? suite.abilities.max_pieces : ALL;
  if (suite.kind != WEFT_MEMORY_HOST || SUPPORT_SANITIZED)
    count = count < ALL / 10 ? count : ALL / 10;
  if (suite.kind == WEFT_MEMORY_OBJECT) // an exchange for each
    count = count < ALL / 500 ? count : ALL / 500;
  struct route route;
  route_open(&route, (uint64_t)count * UNIT);
  struct transport_piece *pieces = calloc(count, sizeof *pieces);
  int32_t *status = malloc(count * sizeof *status);
  uint32_t *order = malloc(count * sizeof *order);
  assert_true(pieces && status && order);
  for (enum weft_transfer_op op = WEFT_TRANSFER_READ; op <= WEFT_TRANSFER_WRITE; op++) {
    uint64_t random = suite.seed + op, total = 0;
    for (uint32_t i = 0; i < count; i++) {
      uint32_t j = (uint32_t)(random_next(&random) % (i + 1));
      order[i] = order[j];
      order[j] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
      uint64_t length = 1 + random_next(&random) % UNIT;
      if (op == WEFT_TRANSFER_WRITE && place_is_whole(&route.there)) // then without a gap
        length = UNIT;
      pieces[i] = piece_of(&route.local, (uint64_t)i * UNIT, &route.there, (uint64_t)order[i] * UNIT, length);
      status[i] = 99;
      total += length;
    }
    place_fill(&route.local, 1);
    place_fill(&route.there, 2);
    struct transport_request request;
    request_init(&request, route.pair.to_b, op, pieces, count);
    request.status = status;
    assert_int_equal(request_run(&route.pair, &request), 0);
    assert_int_equal(request.moved, total);
    for (uint32_t i = 0; i < count; i++) {
      uint64_t here = (uint64_t)i * UNIT, far = (uint64_t)order[i] * UNIT, length = pieces[i].length;
      assert_int_equal(status[i], 0);
      if (op == WEFT_TRANSFER_WRITE) {
        place_check(&route.there, far, length, 1, here);
        place_check(&route.there, far + length, UNIT - length, 2, far + length);
      } else {
        place_check(&route.local, here, length, 2, far);
        place_check(&route.local, here + length, UNIT - length, 1, here + length);
      }
    }
  }
  free(order);
  free(status);
  free(pieces);
  route_close(&route);
}

// Lengths may be less than they were at prepare(), and nothing.
static void test_lengths_change_between_posts(void **state) {
  (void)state;
  NEEDS(HAS(LENGTHS), "lengths stay what they were at prepare()");
  enum { COUNT = 8, UNIT = 1000 };
  struct route route;
  route_open(&route, COUNT * UNIT);
  struct transport_piece pieces[COUNT];
  int32_t status[COUNT];
  for (uint32_t i = 0; i < COUNT; i++)
    pieces[i] = piece_of(&route.local, i * UNIT, &route.there, i * UNIT, UNIT);
  struct transport_request request;
  request_init(&request, route.pair.to_b, WEFT_TRANSFER_WRITE, pieces, COUNT);
  request.status = status;
  assert_works(suite.transport->prepare(&request));
  uint64_t random = suite.seed;
  for (int round = 0; round < 50; round++) {
    uint64_t total = 0;
    place_fill(&route.local, 100u + (unsigned)round);
    place_fill(&route.there, 7);
    for (uint32_t i = 0; i < COUNT; i++) {
      pieces[i].length = random_next(&random) % 3 == 0 ? 0 : random_next(&random) % (UNIT + 1);
      total += pieces[i].length;
      status[i] = 99;
    }
    assert_works(suite.transport->post(&request));
    pair_wait(&route.pair, request_ended, &request, "a request with other lengths");
    assert_int_equal(request.state, 0);
    assert_int_equal(request.moved, total);
    for (uint32_t i = 0; i < COUNT; i++) {
      assert_int_equal(status[i], 0);
      place_check(&route.there, i * UNIT, pieces[i].length, 100u + (unsigned)round, i * UNIT);
      place_check(&route.there, i * UNIT + pieces[i].length, UNIT - pieces[i].length, 7, i * UNIT + pieces[i].length);
    }
  }
  suite.transport->unprepare(&request);
  route_close(&route);
}

// Pieces may begin elsewhere than they did at prepare(), at both ends.
static void test_addresses_change_between_posts(void **state) {
  (void)state;
  NEEDS(HAS(MOVES), "addresses stay what they were at prepare()");
  enum { COUNT = 8, UNIT = 1000, WHOLE = 4 * COUNT * UNIT };
  struct route route;
  route_open(&route, WHOLE);
  struct transport_piece pieces[COUNT];
  for (uint32_t i = 0; i < COUNT; i++)
    pieces[i] = piece_of(&route.local, 0, &route.there, 0, UNIT);
  struct transport_request request;
  request_init(&request, route.pair.to_b, WEFT_TRANSFER_WRITE, pieces, COUNT);
  assert_works(suite.transport->prepare(&request));
  const uint64_t here = pieces[0].local_address, far = pieces[0].remote_address;
  uint64_t random = suite.seed, from[COUNT], to[COUNT];
  for (unsigned round = 0; round < 50; round++) {
    place_fill(&route.local, 100 + round);
    place_fill(&route.there, 7);
    for (uint32_t i = 0; i < COUNT; i++) { // each in 4 units of its own
      from[i] = random_next(&random) % (WHOLE - UNIT);
      to[i] = 4 * UNIT * i + random_next(&random) % (3 * UNIT);
      pieces[i].length = random_next(&random) % (UNIT + 1);
      pieces[i].local_address = here + from[i];
      pieces[i].remote_address = far + to[i];
    }
    assert_works(suite.transport->post(&request));
    pair_wait(&route.pair, request_ended, &request, "a request with other addresses");
    assert_int_equal(request.state, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
      uint64_t begin = 4 * UNIT * i, end = to[i] + pieces[i].length;
      place_check(&route.there, begin, to[i] - begin, 7, begin);
      place_check(&route.there, to[i], pieces[i].length, 100 + round, from[i]);
      place_check(&route.there, end, begin + 4 * UNIT - end, 7, end);
    }
  }
  suite.transport->unprepare(&request);
  route_close(&route);
}

static void test_posted_again_and_again(void **state) {
  (void)state;
  enum { LENGTH = 1000 };
  uint32_t rounds = suite.kind == WEFT_MEMORY_HOST ? 1000 : times(100);
  struct route route;
  route_open(&route, LENGTH);
  struct transport_piece piece = piece_of(&route.local, 0, &route.there, 0, LENGTH);
  struct transport_request request;
  request_init(&request, route.pair.to_b, WEFT_TRANSFER_WRITE, &piece, 1);
  assert_works(suite.transport->prepare(&request));
  for (uint32_t i = 0; i < rounds; i++) {
    place_fill(&route.local, i);
    assert_works(suite.transport->post(&request));
    pair_wait(&route.pair, request_ended, &request, "a request that was posted again");
    assert_int_equal(request.state, 0);
    place_check(&route.there, 0, LENGTH, i, 0);
  }
  suite.transport->unprepare(&request);
  route_close(&route);
}

static void count_done(struct transport_request *request) {
  assert_int_not_equal(atomic_load(&request->state), TRANSPORT_IN_FLIGHT);
  ++*(uint32_t *)request->arg;
}

static void test_many_at_once(void **state) {
  (void)state;
  enum { MOST = 64, LENGTH = 20000 };
  uint32_t count = times(MOST) * 2 < MOST ? times(MOST) * 2 : MOST;
  struct route route;
  struct transport_piece pieces[MOST];
  struct transport_request requests[MOST];
  uint32_t done = 0;
  route_open_parts(&route, (uint64_t)count * LENGTH, LENGTH);
  place_fill(&route.local, 11);
  place_fill(&route.there, 12);
  for (uint32_t i = 0; i < count; i++) { // half of them each way, in parts of their own
    pieces[i] = piece_of(&route.local, i * LENGTH, &route.there, i * LENGTH, LENGTH);
    request_init(&requests[i], route.pair.to_b, i % 2 ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE, &pieces[i], 1);
    requests[i].done = count_done;
    requests[i].arg = &done;
    assert_works(suite.transport->prepare(&requests[i]));
  }
  for (uint32_t i = 0; i < count; i++)
    assert_works(suite.transport->post(&requests[i]));
  for (uint32_t i = 0; i < count; i++) {
    pair_wait(&route.pair, request_ended, &requests[i], "one of many requests");
    assert_int_equal(requests[i].state, 0);
    suite.transport->unprepare(&requests[i]);
  }
  assert_int_equal(done, count);
  for (uint32_t i = 0; i < count; i++)
    place_check(i % 2 ? &route.local : &route.there, i * LENGTH, LENGTH, i % 2 ? 12 : 11, i * LENGTH);
  route_close(&route);
}

static void test_mapped_memory_is_the_peers(void **state) {
  (void)state;
  NEEDS(HAS(MAPS), "it maps nothing");
  struct pair pair;
  struct place there;
  pair_open(&pair, false);
  place_open(&there, pair.b, pair.to_b, 10000);
  unsigned char *mapped = suite.transport->map(there.remote);
  if (mapped) {
    pattern_fill(mapped, 5, 0, 10000);
    place_check(&there, 0, 10000, 5, 0);
  }
  place_close(&there);
  pair_close(&pair);
}

const struct CMUnitTest data_cases[] = {
    CASE(test_all_sizes),
    CASE(test_all_sizes_to_oneself),
    CASE(test_more_than_the_caches_hold),
    CASE(test_scattered_pieces),
    CASE(test_lengths_change_between_posts),
    CASE(test_addresses_change_between_posts),
    CASE(test_posted_again_and_again),
    CASE(test_many_at_once),
    CASE(test_mapped_memory_is_the_peers),
};
const size_t num_data_cases = sizeof data_cases / sizeof *data_cases;
