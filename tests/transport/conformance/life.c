// Endings: of requests, peers, regions and workers, with everything under way. What has ended touches no memory.
#include "conformance/suite.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/random.h"
#include "support/allocations.h"

enum { BATCH = 24, LENGTH = 270000 };

// Requests that write parts of one place, each with a message where there are messages.
struct batch {
  struct place local, there;
  struct transport_piece pieces[BATCH];
  struct transport_request requests[BATCH];
  uint32_t count;
};

static void batch_open(struct batch *batch, struct pair *pair) {
  memset(batch, 0, sizeof *batch);
  batch->count = suite.kind == WEFT_MEMORY_OBJECT ? BATCH / 4 : BATCH;
  place_open(&batch->local, pair->a, NULL, (uint64_t)batch->count * LENGTH);
  place_open_parts(&batch->there, pair->b, pair->to_b, (uint64_t)batch->count * LENGTH, LENGTH);
  place_fill(&batch->local, 21);
  for (uint32_t i = 0; i < batch->count; i++) {
    uint64_t at = (uint64_t)i * LENGTH;
    batch->pieces[i] = piece_of(&batch->local, at, &batch->there, at, LENGTH);
    request_init(&batch->requests[i], pair->to_b, WEFT_WRITE, &batch->pieces[i], 1);
    if (HAS(MESSAGES)) {
      batch->requests[i].message = "batch";
      batch->requests[i].message_size = 6;
    }
    assert_works(suite.transport->prepare(&batch->requests[i]));
  }
}

static void batch_post(struct batch *batch) {
  for (uint32_t i = 0; i < batch->count; i++)
    assert_works(suite.transport->post(&batch->requests[i]));
}

// All have ended, well or with that code; the number of those that ended well.
static uint32_t batch_wait(struct batch *batch, struct pair *pair, int code) {
  uint32_t well = 0;
  for (uint32_t i = 0; i < batch->count; i++) {
    struct transport_request *request = &batch->requests[i];
    pair_wait(pair, request_ended, request, "the end of a request that was cut short");
    if (request->state != 0 && request->state != code)
      fail_msg("a request ended with %s (%s), not with %s", weft_err_name(request->state), request->why,
               weft_err_name(code));
    if (request->state == 0)
      place_check(&batch->there, (uint64_t)i * LENGTH, LENGTH, 21, (uint64_t)i * LENGTH);
    well += request->state == 0;
  }
  return well;
}

static void batch_unprepare(struct batch *batch) {
  for (uint32_t i = 0; i < batch->count; i++)
    suite.transport->unprepare(&batch->requests[i]);
}

static void vanish(struct place *place) {
  place_forget(place);
  if (place->mapping)
    munmap(place->mapping, place->mapping_size);
  place->mapping = NULL;
}

static void drive_on(struct pair *pair) {
  for (int i = 0; i < 2000; i++)
    pair_drive(pair);
}

static void test_cancel_in_flight(void **state) {
  (void)state;
  struct pair pair;
  struct batch batch;
  for (int round = 0; round < 4; round++) {
    pair_open(&pair, false);
    batch_open(&batch, &pair);
    place_fill(&batch.there, 22);
    batch_post(&batch);
    for (int i = 0; i < round * 10; i++)
      pair_drive(&pair);
    for (uint32_t i = 0; i < batch.count; i++)
      suite.transport->cancel(&batch.requests[(i * 7) % batch.count]);
    uint32_t well = batch_wait(&batch, &pair, WEFT_ERR_CANCELED);
    batch_unprepare(&batch);
    vanish(&batch.local);
    if (place_is_whole(&batch.there)) { // what the server had received whole it may still make the object
      drive_on(&pair);
      place_check_either(&batch.there, 21, 22);
    } else {
      place_fill(&batch.there, 23);
      drive_on(&pair);
      place_check(&batch.there, 0, batch.there.length, 23, 0);
    }
    if (HAS(MESSAGES))
      assert_int_equal(pair.b->messages, well); // never that of one that was cancelled
    place_close(&batch.there);
    pair_close(&pair);
  }
}

static void test_cancel_of_what_is_not_in_flight(void **state) {
  (void)state;
  struct pair pair;
  struct place local, there;
  pair_open(&pair, false);
  place_open(&local, pair.a, NULL, 100);
  place_open(&there, pair.b, pair.to_b, 100);
  struct transport_piece piece = piece_of(&local, 0, &there, 0, 100);
  struct transport_request request;
  request_init(&request, pair.to_b, WEFT_WRITE, &piece, 1);
  assert_works(suite.transport->prepare(&request));
  suite.transport->cancel(&request);
  for (int i = 0; i < 3; i++) { // as if nothing had been
    place_fill(&local, (uint64_t)i);
    assert_works(suite.transport->post(&request));
    pair_wait(&pair, request_ended, &request, "a request after a cancel() too early");
    assert_int_equal(request.state, 0);
    suite.transport->cancel(&request);
    assert_int_equal(request.state, 0);
    place_check(&there, 0, 100, (uint64_t)i, 0);
  }
  suite.transport->unprepare(&request);
  place_close(&there);
  place_close(&local);
  pair_close(&pair);
}

static void test_disconnect_in_flight(void **state) {
  (void)state;
  struct pair pair;
  struct batch batch;
  for (int round = 0; round < 3; round++) {
    pair_open(&pair, false);
    batch_open(&batch, &pair);
    batch_post(&batch);
    for (int i = 0; i < round * 10; i++)
      pair_drive(&pair);
    suite.transport->disconnect(pair.to_b);
    place_lost_peer(&batch.there);
    batch_wait(&batch, &pair, WEFT_ERR_CANCELED);
    batch_unprepare(&batch);
    vanish(&batch.local);
    vanish(&batch.there);
    drive_on(&pair);
    // And there is a way to come back.
    pair.to_b = end_connect(pair.a, pair.b);
    struct place local, there;
    place_open(&local, pair.a, NULL, 1000);
    place_open(&there, pair.b, pair.to_b, 1000);
    place_fill(&local, 9);
    struct transport_piece piece = piece_of(&local, 0, &there, 0, 1000);
    struct transport_request request;
    request_init(&request, pair.to_b, WEFT_WRITE, &piece, 1);
    assert_int_equal(request_run(&pair, &request), 0);
    place_check(&there, 0, 1000, 9, 0);
    place_close(&there);
    place_close(&local);
    place_close(&batch.there);
    pair_close(&pair);
  }
}

static void test_close_in_flight(void **state) {
  (void)state;
  struct pair pair;
  struct batch batch;
  for (int round = 0; round < 3; round++) {
    pair_open(&pair, false);
    batch_open(&batch, &pair);
    batch_post(&batch);
    for (int i = 0; i < round * 10; i++)
      pair_drive(&pair);
    end_close(pair.a);
    for (uint32_t i = 0; i < batch.count; i++) {
      int is = atomic_load(&batch.requests[i].state);
      assert_true(is == 0 || is == WEFT_ERR_CANCELED);
    }
    batch_unprepare(&batch);
    place_lost_worker(&batch.local);
    place_lost_peer(&batch.there);
    if (pair.b == pair.a)
      place_lost_worker(&batch.there);
    vanish(&batch.local);
    drive_on(&pair);
    place_close(&batch.there);
    if (pair.b != pair.a)
      end_close(pair.b);
  }
}

static void test_a_region_that_was_taken_back(void **state) {
  (void)state;
  NEEDS(!HAS(SELF_ONLY), "its regions are its own worker's");
  struct pair pair;
  struct place local, there;
  pair_open(&pair, false);
  place_open(&local, pair.a, NULL, 5000);
  place_open(&there, pair.b, pair.to_b, 5000);
  struct transport_piece piece = piece_of(&local, 0, &there, 0, 5000);
  struct transport_request request;
  request_init(&request, pair.to_b, WEFT_WRITE, &piece, 1);
  request.message = "gone";
  request.message_size = 5;
  assert_works(suite.transport->prepare(&request));
  place_forget(&there);
  int rc = suite.transport->post(&request);
  if (rc == 0)
    pair_wait(&pair, request_ended, &request, "a write to a region that was taken back");
  int is = request.state;
  drive_on(&pair);
  if (HAS(MESSAGES))
    assert_int_equal(pair.b->messages, is == 0);
  print_message("%s: a write to a region that was taken back: %s: %s\n", suite.name, weft_err_name(is), request.why);
  suite.transport->unprepare(&request);
  place_close(&there);
  place_close(&local);
  pair_close(&pair);
}

static uint32_t open_descriptors(void) {
  uint32_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  assert_non_null(folder);
  while (readdir(folder))
    count++;
  closedir(folder);
  return count;
}

static void come_and_go(void) {
  struct pair pair;
  struct place local, there;
  pair_open(&pair, false);
  for (uint32_t i = 0; i < times(100); i++) {
    place_open(&local, pair.a, NULL, 1000);
    place_open(&there, pair.b, pair.to_b, 1000);
    place_fill(&local, i);
    struct transport_piece piece = piece_of(&local, 0, &there, 0, 1000);
    struct transport_request request;
    request_init(&request, pair.to_b, WEFT_WRITE, &piece, 1);
    assert_int_equal(request_run(&pair, &request), 0);
    place_check(&there, 0, 1000, i, 0);
    place_close(&there);
    place_close(&local);
  }
  pair_close(&pair);
}

static void test_all_is_given_back(void **state) {
  (void)state;
  come_and_go(); // what stays for the life of the process is there then
  uint32_t descriptors = open_descriptors();
  for (uint32_t i = 0; i < (suite.kind == WEFT_MEMORY_OBJECT ? 2 : 5); i++)
    come_and_go();
  assert_int_equal(open_descriptors(), descriptors);
}

static void test_two_pairs_side_by_side(void **state) {
  (void)state;
  struct pair pairs[2];
  struct batch batches[2];
  for (int i = 0; i < 2; i++) {
    pair_open(&pairs[i], false);
    batch_open(&batches[i], &pairs[i]);
  }
  batch_post(&batches[0]);
  batch_post(&batches[1]);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(batch_wait(&batches[i], &pairs[i], 0), batches[i].count);
    batch_unprepare(&batches[i]);
    place_close(&batches[i].there);
    place_close(&batches[i].local);
  }
  pair_close(&pairs[0]);
  pair_close(&pairs[1]);
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
  struct pair pair;
  struct batch batch;
  pair_open(&pair, false);
  batch_open(&batch, &pair);
  struct chain chain = {.requests = batch.requests, .count = batch.count, .posted = 1};
  for (uint32_t i = 0; i < batch.count; i++) {
    batch.requests[i].done = post_next;
    batch.requests[i].arg = &chain;
  }
  assert_works(suite.transport->post(&batch.requests[0]));
  pair_wait(&pair, is_done, &chain, "requests that each post the next");
  assert_int_equal(batch_wait(&batch, &pair, 0), batch.count);
  batch_unprepare(&batch);
  place_close(&batch.there);
  place_close(&batch.local);
  pair_close(&pair);
}

// --- allocations ---

static void test_post_and_progress_allocate_nothing(void **state) {
  (void)state;
  NEEDS(allocations_counted(), "this build does not count");
  struct pair pair;
  struct batch batch;
  pair_open(&pair, false);
  batch_open(&batch, &pair);
  batch_post(&batch);
  batch_wait(&batch, &pair, 0);
  struct allocations sum = {0};
  for (uint32_t round = 0; round < (suite.kind == WEFT_MEMORY_OBJECT ? 2 : 5); round++) {
    for (uint32_t i = 0; i < batch.count; i++) {
      struct transport_request *request = &batch.requests[i];
      allocations_begin();
      int rc = suite.transport->post(request);
      if (place_is_whole(&batch.there)) { // only its post: to begin an exchange by HTTP allocates
        allocations_end(&sum);
        assert_works(rc);
        pair_wait(&pair, request_ended, request, "a request whose post was looked at");
        continue;
      }
      for (int turns = 0; rc == 0 && turns < 10000000 && !request_ended(request); turns++)
        pair_drive(&pair);
      allocations_end(&sum);
      assert_int_equal(request->state, 0);
    }
  }
  print_message("%s: %llu allocations of its own, %llu of libraries, %llu maps, %llu locks, %llu getenvs\n", suite.name,
                (unsigned long long)sum.own, (unsigned long long)sum.others, (unsigned long long)sum.maps,
                (unsigned long long)sum.locks, (unsigned long long)sum.getenvs);
  assert_int_equal(sum.own, 0);
  batch_unprepare(&batch);
  place_close(&batch.there);
  place_close(&batch.local);
  pair_close(&pair);
}

// --- many threads ---

enum { THREADS = 4, EACH = SUPPORT_SANITIZED ? 300 : 3000 };

struct poster {
  struct transport_peer *peer;
  struct place local, there;
  struct transport_piece piece;
  struct transport_request request;
  struct {
    uint32_t thread, number;
  } message;
  uint32_t index, next;    // to come
  uint32_t wrong;          // bytes
  uint32_t each;           // messages
  _Atomic uint32_t *ended; // by all threads
  _Atomic bool over;
};

static void take_posted(struct end *end, const void *bytes, size_t size) {
  struct poster *posters = end->hook_arg;
  uint32_t message[2];
  assert_int_equal(size, sizeof message);
  memcpy(message, bytes, size);
  assert_true(message[0] < THREADS);
  assert_int_equal(posters[message[0]].next, message[1]);
  posters[message[0]].next++;
}

static void *post_many(void *arg) {
  struct poster *poster = arg;
  for (uint32_t i = 0; i < poster->each; i++) {
    bool data = poster->request.num_pieces > 0;
    poster->message.number = i;
    if (data)
      place_fill(&poster->local, poster->index * EACH + i);
    if (suite.transport->post(&poster->request) != 0)
      break;
    while (!request_ended(&poster->request)) // until the receiver has made room
      sched_yield();
    if (poster->request.state != 0)
      break;
    unsigned char came[64];
    if (!data) { // all begin the next one together, so that nobody comes to help with what was left lying
      atomic_fetch_add(poster->ended, 1);
      while (atomic_load(poster->ended) < (i + 1) * THREADS)
        sched_yield();
      continue;
    }
    place_read(&poster->there, 0, came, sizeof came);
    for (uint32_t at = 0; at < sizeof came; at++)
      poster->wrong += came[at] != pattern(poster->index * EACH + i, at);
  }
  atomic_store(&poster->over, true);
  return NULL;
}

static bool all_over(void *arg) {
  struct poster *posters = arg;
  for (int i = 0; i < THREADS; i++)
    if (!atomic_load(&posters[i].over) || (HAS(MESSAGES) && posters[i].next < posters[i].each))
      return false;
  return true;
}

static void post_in_threads(uint32_t each, uint32_t num_pieces) {
  struct poster *posters = calloc(THREADS, sizeof *posters);
  pthread_t threads[THREADS];
  struct pair pair;
  _Atomic uint32_t ended = 0;
  pair_open(&pair, false);
  pair.b->hook = take_posted;
  pair.b->hook_arg = posters;
  for (uint32_t i = 0; i < THREADS; i++) {
    struct poster *poster = &posters[i];
    poster->index = poster->message.thread = i;
    place_open(&poster->local, pair.a, NULL, 64);
    place_open(&poster->there, pair.b, pair.to_b, 64);
    poster->piece = piece_of(&poster->local, 0, &poster->there, 0, 64);
    poster->each = each;
    poster->ended = &ended;
    request_init(&poster->request, pair.to_b, WEFT_WRITE, &poster->piece, num_pieces);
    if (HAS(MESSAGES)) {
      poster->request.message = &poster->message;
      poster->request.message_size = sizeof poster->message;
    }
    assert_works(suite.transport->prepare(&poster->request));
  }
  for (uint32_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
  pair_wait(&pair, all_over, posters, "all threads' messages");
  for (uint32_t i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(posters[i].request.state, 0);
    assert_int_equal(posters[i].wrong, 0);
    suite.transport->unprepare(&posters[i].request);
    place_close(&posters[i].there);
    place_close(&posters[i].local);
  }
  pair_close(&pair);
  free(posters);
}

static void test_posts_of_many_threads(void **state) {
  (void)state;
  NEEDS(HAS(CONCURRENT_POST), "its posts come from one thread at a time");
  post_in_threads(EACH, 1);
}

// Nothing but messages, so that threads meet in what they share.
static void test_messages_of_many_threads(void **state) {
  (void)state;
  NEEDS(HAS(CONCURRENT_POST) && HAS(MESSAGES), "its posts come from one thread at a time");
  post_in_threads(500, 0);
}

// --- a region taken back under fire ---

struct firing {
  struct transport_request request;
  _Atomic bool begun, refused, stop, over;
};

static void *fire(void *arg) {
  struct firing *firing = arg;
  while (!atomic_load(&firing->stop)) {
    suite.transport->post(&firing->request);
    atomic_store(&firing->begun, true);
    while (!request_ended(&firing->request))
      sched_yield();
    if (firing->request.state != 0)
      atomic_store(&firing->refused, true);
  }
  atomic_store(&firing->over, true);
  return NULL;
}

static bool has_begun(void *arg) {
  return atomic_load(&((struct firing *)arg)->begun);
}

static bool was_refused(void *arg) {
  return atomic_load(&((struct firing *)arg)->refused);
}

static bool has_ended(void *arg) {
  return atomic_load(&((struct firing *)arg)->over);
}

static void test_nothing_is_written_after_unreg(void **state) {
  (void)state;
  NEEDS(HAS(ONE_SIDED), "its writes need the target's help");
  NEEDS(HAS(CONCURRENT_POST), "its posts come from one thread at a time");
  enum { SIZE = 192 << 10 };
  for (int round = 0; round < 20; round++) {
    struct pair pair;
    struct place local, there;
    pthread_t thread;
    struct firing firing = {.stop = false};
    pair_open(&pair, false);
    place_open(&local, pair.a, NULL, SIZE);
    place_open(&there, pair.b, pair.to_b, SIZE);
    place_fill(&local, 31);
    struct transport_piece piece = piece_of(&local, 0, &there, 0, SIZE);
    request_init(&firing.request, pair.to_b, WEFT_WRITE, &piece, 1);
    assert_works(suite.transport->prepare(&firing.request));
    assert_int_equal(pthread_create(&thread, NULL, fire, &firing), 0);
    pair_wait(&pair, has_begun, &firing, "the first write");
    place_forget(&there);
    place_fill(&there, 32);
    place_check(&there, 0, SIZE, 32, 0);
    place_check(&there, 0, SIZE, 32, 0);
    pair_wait(&pair, was_refused, &firing, "a write that is refused");
    atomic_store(&firing.stop, true);
    pair_wait(&pair, has_ended, &firing, "the last write");
    pthread_join(thread, NULL);
    assert_true(firing.request.state < 0);
    suite.transport->unprepare(&firing.request);
    place_close(&there);
    place_close(&local);
    pair_close(&pair);
  }
}

const struct CMUnitTest life_cases[] = {
    CASE(test_cancel_in_flight),
    CASE(test_cancel_of_what_is_not_in_flight),
    CASE(test_disconnect_in_flight),
    CASE(test_close_in_flight),
    CASE(test_a_region_that_was_taken_back),
    CASE(test_all_is_given_back),
    CASE(test_two_pairs_side_by_side),
    CASE(test_done_may_post),
    CASE(test_post_and_progress_allocate_nothing),
    CASE(test_posts_of_many_threads),
    CASE(test_messages_of_many_threads),
    CASE(test_nothing_is_written_after_unreg),
};
const size_t num_life_cases = sizeof life_cases / sizeof *life_cases;
