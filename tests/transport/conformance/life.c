// Requests, peers, regions and workers end while operations are in flight. Nothing touches memory after its end.
#include "conformance/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/time/clock.h"
#include "support/allocations.h"
#include "support/entries.h"

enum { BATCH = 24, LENGTH = 270000 };

// Requests that write parts of one place, each with a message where there are messages.
struct batch {
  struct route route;
  struct transport_piece pieces[BATCH];
  struct transport_request requests[BATCH];
  uint32_t count;
};

static void batch_open(struct batch *batch) {
  struct route *route = &batch->route;
  memset(batch, 0, sizeof *batch);
  batch->count = suite.kind == WEFT_MEMORY_OBJECT ? BATCH / 4 : BATCH;
  route_open_parts(route, (uint64_t)batch->count * LENGTH, LENGTH);
  place_fill(&route->local, 21);
  for (uint32_t i = 0; i < batch->count; i++) {
    uint64_t at = (uint64_t)i * LENGTH;
    batch->pieces[i] = piece_of(&route->local, at, &route->there, at, LENGTH);
    request_init(&batch->requests[i], route->pair.to_b, WEFT_TRANSFER_WRITE, &batch->pieces[i], 1);
    if (HAS(MESSAGES)) {
      batch->requests[i].message = "batch";
      batch->requests[i].message_size = 6;
    }
    assert_works(suite.transport->prepare(&batch->requests[i]));
  }
}

static void batch_unprepare(struct batch *batch) {
  for (uint32_t i = 0; i < batch->count; i++)
    suite.transport->unprepare(&batch->requests[i]);
}

static void batch_close(struct batch *batch) {
  batch_unprepare(batch);
  route_close(&batch->route);
}

static void batch_post(struct batch *batch) {
  for (uint32_t i = 0; i < batch->count; i++)
    assert_works(suite.transport->post(&batch->requests[i]));
}

// All have ended, well or with that code; the number of those that ended well.
static uint32_t batch_wait(struct batch *batch, int code) {
  uint32_t well = 0;
  for (uint32_t i = 0; i < batch->count; i++) {
    struct transport_request *request = &batch->requests[i];
    pair_wait(&batch->route.pair, request_ended, request, "the end of a request that was cut short");
    if (request->state != 0 && request->state != code)
      fail_msg("a request ended with %s (%s), not with %s", weft_err_name(request->state), request->why,
               weft_err_name(code));
    if (request->state == 0)
      place_check(&batch->route.there, (uint64_t)i * LENGTH, LENGTH, 21, (uint64_t)i * LENGTH);
    well += request->state == 0;
  }
  return well;
}

// Opens one whose requests have been under way for a while, which grows with the round.
static void batch_begin(struct batch *batch, int round) {
  batch_open(batch);
  place_fill(&batch->route.there, 22);
  batch_post(batch);
  pair_drive_on(&batch->route.pair, round * 10);
}

static void vanish(struct place *place) {
  place_forget(place);
  if (place->mapping)
    munmap(place->mapping, place->mapping_size);
  place->mapping = NULL;
}

static void test_cancel_in_flight(void **state) {
  (void)state;
  struct batch batch;
  struct route *route = &batch.route;
  for (int round = 0; round < 4; round++) {
    batch_begin(&batch, round);
    for (uint32_t i = 0; i < batch.count; i++)
      suite.transport->cancel(&batch.requests[(i * 7) % batch.count]);
    uint32_t well = batch_wait(&batch, WEFT_ERR_CANCELED);
    batch_unprepare(&batch);
    vanish(&route->local);
    if (place_is_whole(&route->there)) { // what the server had received whole it may still make the object
      pair_drive_on(&route->pair, 2000);
      place_check_either(&route->there, 21, 22);
    } else if (route->pair.to_b->failed) { // on a busy machine the requests did not end in time, and it was cut off
      pair_drive_on(&route->pair, 2000);
    } else {
      place_fill(&route->there, 23);
      pair_drive_on(&route->pair, 2000);
      place_check(&route->there, 0, route->there.length, 23, 0);
    }
    if (HAS(MESSAGES) && !route->pair.to_b->failed)
      assert_int_equal(route->pair.b->messages, well); // never that of one that was cancelled
    place_close(&route->there);
    pair_close(&route->pair);
  }
}

static void test_cancel_of_what_is_not_in_flight(void **state) {
  (void)state;
  struct route route;
  route_open(&route, 100);
  struct transport_piece piece = piece_of(&route.local, 0, &route.there, 0, 100);
  struct transport_request request;
  request_init(&request, route.pair.to_b, WEFT_TRANSFER_WRITE, &piece, 1);
  assert_works(suite.transport->prepare(&request));
  suite.transport->cancel(&request);
  for (int i = 0; i < 3; i++) { // as if nothing had been
    place_fill(&route.local, (uint64_t)i);
    assert_works(suite.transport->post(&request));
    pair_wait(&route.pair, request_ended, &request, "a request after a cancel() too early");
    assert_int_equal(request.state, 0);
    suite.transport->cancel(&request);
    assert_int_equal(request.state, 0);
    place_check(&route.there, 0, 100, (uint64_t)i, 0);
  }
  suite.transport->unprepare(&request);
  route_close(&route);
}

// Once from a place of its own to another.
static void write_once(struct pair *pair, uint64_t seed) {
  struct place local, there;
  place_open(&local, pair->a, NULL, 1000);
  place_open(&there, pair->b, pair->to_b, 1000);
  place_fill(&local, seed);
  struct transport_piece piece = piece_of(&local, 0, &there, 0, 1000);
  struct transport_request request;
  request_init(&request, pair->to_b, WEFT_TRANSFER_WRITE, &piece, 1);
  assert_int_equal(request_run(pair, &request), 0);
  place_check(&there, 0, 1000, seed, 0);
  place_close(&there);
  place_close(&local);
}

static void test_disconnect_in_flight(void **state) {
  (void)state;
  struct batch batch;
  struct route *route = &batch.route;
  struct pair *pair = &route->pair;
  for (int round = 0; round < 3; round++) {
    batch_begin(&batch, round);
    suite.transport->disconnect(pair->to_b);
    place_lost_peer(&route->there);
    batch_wait(&batch, WEFT_ERR_CANCELED);
    batch_unprepare(&batch);
    vanish(&route->local);
    vanish(&route->there);
    pair_drive_on(pair, 2000);
    // And there is a way to come back.
    pair->to_b = end_connect(pair->a, pair->b);
    write_once(pair, 9);
    place_close(&route->there);
    pair_close(pair);
  }
}

// Whether this transport fences peers, with these settings.
static bool fences(void) {
  bool can = suite.transport->fence != NULL;
  for (const char *const *setting = suite.settings; *setting; setting++)
    if (strcmp(*setting, "serve=off") == 0)
      can = false;
  return can;
}

// What was under way changes nothing any more. Where some of it has ended, all of it may have, but not in each round.
static void test_a_fence(void **state) {
  (void)state;
  NEEDS(fences(), "its peers are not fenced");
  struct batch batch;
  struct route *route = &batch.route;
  struct pair *pair = &route->pair;
  int met = 0;
  for (int round = 0; round < 6; round++) {
    batch_open(&batch);
    write_once(pair, 9); // there is a connection
    place_fill(&route->there, 22);
    batch_post(&batch);
    if (round < 3)
      pair_drive_on(pair, round * 10);
    else
      pair_wait(pair, request_ended, &batch.requests[round], "a write before the fence");
    suite.transport->fence(pair->to_a);
    place_fill(&route->there, 23);
    for (uint32_t i = 0; i < batch.count; i++)
      pair_wait(pair, request_ended, &batch.requests[i], "a write that met a fence");
    pair_drive_on(pair, 2000);
    place_check(&route->there, 0, route->there.length, 23, 0);
    met += batch.requests[batch.count - 1].state != 0;
    batch_unprepare(&batch);
    // And there is a way to come back.
    suite.transport->disconnect(pair->to_b);
    place_lost_peer(&route->there);
    pair_drive_on(pair, 2000);
    pair->to_b = end_connect(pair->a, pair->b);
    write_once(pair, 9);
    place_close(&route->local);
    place_close(&route->there);
    pair_close(pair);
  }
  assert_true(met > 0);
}

static void test_close_in_flight(void **state) {
  (void)state;
  struct batch batch;
  struct route *route = &batch.route;
  struct pair *pair = &route->pair;
  for (int round = 0; round < 3; round++) {
    batch_begin(&batch, round);
    end_close(pair->a);
    for (uint32_t i = 0; i < batch.count; i++) {
      int is = atomic_load(&batch.requests[i].state);
      assert_true(is == 0 || is == WEFT_ERR_CANCELED);
    }
    batch_unprepare(&batch);
    place_lost_worker(&route->local);
    place_lost_peer(&route->there);
    if (pair->b == pair->a)
      place_lost_worker(&route->there);
    vanish(&route->local);
    pair_drive_on(pair, 2000);
    place_close(&route->there);
    if (pair->b != pair->a)
      end_close(pair->b);
  }
}

static void test_a_region_that_was_taken_back(void **state) {
  (void)state;
  NEEDS(!HAS(SELF_ONLY), "its regions are its own worker's");
  struct route route;
  route_open(&route, 5000);
  struct transport_piece piece = piece_of(&route.local, 0, &route.there, 0, 5000);
  struct transport_request request;
  request_init(&request, route.pair.to_b, WEFT_TRANSFER_WRITE, &piece, 1);
  request.message = "gone";
  request.message_size = 5;
  assert_works(suite.transport->prepare(&request));
  place_forget(&route.there);
  int rc = suite.transport->post(&request);
  if (rc == 0)
    pair_wait(&route.pair, request_ended, &request, "a write to a region that was taken back");
  int is = request.state;
  pair_drive_on(&route.pair, 2000);
  if (HAS(MESSAGES))
    assert_int_equal(route.pair.b->messages, is == 0);
  print_message("%s: a write to a region that was taken back: %s: %s\n", suite.name, weft_err_name(is), request.why);
  suite.transport->unprepare(&request);
  route_close(&route);
}

static void come_and_go(void) {
  struct pair pair;
  pair_open(&pair, false);
  for (uint32_t i = 0; i < times(100); i++)
    write_once(&pair, i);
  pair_close(&pair);
}

static void test_all_is_given_back(void **state) {
  (void)state;
  come_and_go(); // what stays for the life of the process is there then
  int descriptors = support_descriptors();
  for (uint32_t i = 0; i < (suite.kind == WEFT_MEMORY_OBJECT ? 2 : 5); i++)
    come_and_go();
  assert_int_equal(support_descriptors(), descriptors);
}

static void test_two_pairs_side_by_side(void **state) {
  (void)state;
  struct batch batches[2];
  for (int i = 0; i < 2; i++)
    batch_open(&batches[i]);
  for (int i = 0; i < 2; i++)
    batch_post(&batches[i]);
  for (int i = 0; i < 2; i++)
    assert_int_equal(batch_wait(&batches[i], 0), batches[i].count);
  for (int i = 0; i < 2; i++)
    batch_close(&batches[i]);
}

// --- from within a callback ---

struct chain {
  struct transport_request *requests;
  uint32_t count, posted, done;
};

static void post_next(struct transport_request *request) {
  struct chain *chain = request->arg;
  assert_int_equal(atomic_load(&request->state), 0);
  chain->done++;
  if (chain->posted < chain->count)
    assert_works(suite.transport->post(&chain->requests[chain->posted++]));
}

static bool is_done(void *arg) {
  struct chain *chain = arg;
  return chain->done == chain->count;
}

static void test_done_may_post(void **state) {
  (void)state;
  struct batch batch;
  batch_open(&batch);
  struct chain chain = {.requests = batch.requests, .count = batch.count, .posted = 1};
  for (uint32_t i = 0; i < batch.count; i++) {
    batch.requests[i].done = post_next;
    batch.requests[i].arg = &chain;
  }
  assert_works(suite.transport->post(&batch.requests[0]));
  pair_wait(&batch.route.pair, is_done, &chain, "requests that each post the next");
  assert_int_equal(batch_wait(&batch, 0), batch.count);
  batch_close(&batch);
}

// --- allocations ---

static void test_post_and_progress_allocate_nothing(void **state) {
  (void)state;
  NEEDS(allocations_counted(), "this build does not count");
  struct batch batch;
  batch_open(&batch);
  batch_post(&batch);
  batch_wait(&batch, 0);
  struct allocations sum = {0};
  for (uint32_t round = 0; round < (suite.kind == WEFT_MEMORY_OBJECT ? 2 : 5); round++) {
    for (uint32_t i = 0; i < batch.count; i++) {
      struct transport_request *request = &batch.requests[i];
      allocations_begin();
      int rc = suite.transport->post(request);
      if (place_is_whole(&batch.route.there)) { // only its post: to begin an exchange by HTTP allocates
        allocations_end(&sum);
        assert_works(rc);
        pair_wait(&batch.route.pair, request_ended, request, "a request whose post was looked at");
        continue;
      }
      uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS); // pair_wait() would be counted
      while (rc == 0 && !request_ended(request) && !clock_passed(deadline_ns))
        pair_drive(&batch.route.pair);
      allocations_end(&sum);
      assert_int_equal(request->state, 0);
    }
  }
  print_message("%s: %llu allocations of its own, %llu of libraries, %llu maps, %llu locks, %llu getenvs\n", suite.name,
                (unsigned long long)sum.own, (unsigned long long)sum.others, (unsigned long long)sum.maps,
                (unsigned long long)sum.locks, (unsigned long long)sum.getenvs);
  assert_int_equal(sum.own, 0);
  batch_close(&batch);
}

const struct CMUnitTest life_cases[] = {
    CASE(test_cancel_in_flight),     CASE(test_cancel_of_what_is_not_in_flight),
    CASE(test_disconnect_in_flight), CASE(test_a_fence),
    CASE(test_close_in_flight),      CASE(test_a_region_that_was_taken_back),
    CASE(test_all_is_given_back),    CASE(test_two_pairs_side_by_side),
    CASE(test_done_may_post),        CASE(test_post_and_progress_allocate_nothing),
};
const size_t num_life_cases = sizeof life_cases / sizeof *life_cases;
