// Many threads post at once, and a region is deregistered at the same time.
#include "conformance/suite.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

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
    request_init(&poster->request, pair.to_b, WEFT_TRANSFER_WRITE, &poster->piece, num_pieces);
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
    struct route route;
    pthread_t thread;
    struct firing firing = {.stop = false};
    route_open(&route, SIZE);
    place_fill(&route.local, 31);
    struct transport_piece piece = piece_of(&route.local, 0, &route.there, 0, SIZE);
    request_init(&firing.request, route.pair.to_b, WEFT_TRANSFER_WRITE, &piece, 1);
    assert_works(suite.transport->prepare(&firing.request));
    assert_int_equal(pthread_create(&thread, NULL, fire, &firing), 0);
    pair_wait(&route.pair, has_begun, &firing, "the first write");
    place_forget(&route.there);
    place_fill(&route.there, 32);
    place_check(&route.there, 0, SIZE, 32, 0);
    place_check(&route.there, 0, SIZE, 32, 0);
    pair_wait(&route.pair, was_refused, &firing, "a write that is refused");
    atomic_store(&firing.stop, true);
    pair_wait(&route.pair, has_ended, &firing, "the last write");
    pthread_join(thread, NULL);
    assert_true(firing.request.state < 0);
    suite.transport->unprepare(&firing.request);
    route_close(&route);
  }
}

const struct CMUnitTest thread_cases[] = {
    CASE(test_posts_of_many_threads),
    CASE(test_messages_of_many_threads),
    CASE(test_nothing_is_written_after_unreg),
};
const size_t num_thread_cases = sizeof thread_cases / sizeof *thread_cases;
