// Messages: each arrives once, complete, in order, after its data, and never after a failed piece.
#include "conformance/suite.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/time/clock.h"

struct watch { // what a message finds when it comes
  struct place *there;
  uint64_t seed;
  uint64_t length;
  bool came;
};

static void look_at_data(struct end *end, const void *bytes, size_t size) {
  struct watch *watch = end->hook_arg;
  assert_int_equal(size, sizeof watch->seed);
  memcpy(&watch->seed, bytes, size);
  place_check(watch->there, 0, watch->length, watch->seed, 0);
  watch->came = true;
}

static bool has_come(void *arg) {
  return ((struct watch *)arg)->came;
}

static void test_the_message_comes_after_the_data(void **state) {
  (void)state;
  NEEDS(HAS(MESSAGES), "it carries no messages");
  static const uint64_t lengths[] = {1, 8, 100, 5000, 70000, 1 << 20};
  struct pair pair;
  pair_open(&pair, false);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    struct place local, there;
    place_open(&local, pair.a, NULL, lengths[i]);
    place_open(&there, pair.b, pair.to_b, lengths[i]);
    struct watch watch = {.there = &there, .length = lengths[i]};
    pair.b->hook = look_at_data;
    pair.b->hook_arg = &watch;
    struct transport_piece piece = piece_of(&local, 0, &there, 0, lengths[i]);
    struct transport_request request;
    uint64_t seed;
    request_init(&request, pair.to_b, WEFT_TRANSFER_WRITE, &piece, 1);
    request.message = &seed;
    request.message_size = sizeof seed;
    assert_works(suite.transport->prepare(&request));
    for (seed = 1; seed <= times(30); seed++) {
      watch.came = false;
      place_fill(&local, seed);
      assert_works(suite.transport->post(&request));
      pair_wait(&pair, request_ended, &request, "a write with a message");
      assert_int_equal(request.state, 0);
      pair_wait(&pair, has_come, &watch, "its message");
      assert_int_equal(watch.seed, seed);
    }
    suite.transport->unprepare(&request);
    place_close(&there);
    place_close(&local);
  }
  pair_close(&pair);
}

struct keep {
  unsigned char bytes[TRANSPORT_MAX_MESSAGE];
  size_t size;
  bool came;
};

static void keep_message(struct end *end, const void *bytes, size_t size) {
  struct keep *keep = end->hook_arg;
  assert_true(size <= sizeof keep->bytes);
  memcpy(keep->bytes, bytes, size);
  keep->size = size;
  keep->came = true;
}

static bool is_kept(void *arg) {
  return ((struct keep *)arg)->came;
}

static void send_all_sizes(bool loopback) {
  static unsigned char bytes[TRANSPORT_MAX_MESSAGE];
  static struct keep keep;
  struct pair pair;
  pair_open(&pair, loopback);
  pair.b->hook = keep_message;
  pair.b->hook_arg = &keep;
  for (uint32_t size = 1; size <= TRANSPORT_MAX_MESSAGE; size += size < 80 ? 1 : 97) {
    struct transport_request request;
    request_init(&request, pair.to_b, WEFT_TRANSFER_WRITE, NULL, 0);
    request.message = bytes;
    request.message_size = size;
    pattern_fill(bytes, size, 0, size);
    keep.came = false;
    assert_int_equal(request_run(&pair, &request), 0);
    pair_wait(&pair, is_kept, &keep, "a message");
    assert_int_equal(keep.size, size);
    assert_memory_equal(keep.bytes, bytes, size);
  }
  pair_close(&pair);
}

static void test_messages_of_all_sizes(void **state) {
  (void)state;
  NEEDS(HAS(MESSAGES), "it carries no messages");
  send_all_sizes(false);
}

static void test_messages_to_oneself(void **state) {
  (void)state;
  NEEDS(HAS(MESSAGES), "it carries no messages");
  send_all_sizes(true);
}

static void test_a_message_that_is_too_long_is_refused(void **state) {
  (void)state;
  NEEDS(HAS(MESSAGES), "it carries no messages");
  static unsigned char bytes[1 << 20];
  struct pair pair;
  struct transport_request request;
  pair_open(&pair, false);
  request_init(&request, pair.to_b, WEFT_TRANSFER_WRITE, NULL, 0);
  request.message = bytes;
  request.message_size = sizeof bytes;
  int rc = suite.transport->prepare(&request);
  if (rc == 0)
    suite.transport->unprepare(&request); // it can carry that much: not wrong
  else
    assert_int_equal(rc, WEFT_ERR_LIMIT);
  pair_close(&pair);
}

static void test_a_read_may_have_a_message(void **state) {
  (void)state;
  NEEDS(HAS(MESSAGES), "it carries no messages");
  static struct keep keep;
  struct route route;
  route_open(&route, 5000);
  place_fill(&route.there, 3);
  keep.came = false;
  route.pair.b->hook = keep_message;
  route.pair.b->hook_arg = &keep;
  struct transport_piece piece = piece_of(&route.local, 0, &route.there, 0, 5000);
  struct transport_request request;
  request_init(&request, route.pair.to_b, WEFT_TRANSFER_READ, &piece, 1);
  request.message = "read";
  request.message_size = 5;
  assert_int_equal(request_run(&route.pair, &request), 0);
  place_check(&route.local, 0, 5000, 3, 0);
  pair_wait(&route.pair, is_kept, &keep, "the message of a read");
  assert_string_equal((char *)keep.bytes, "read");
  route_close(&route);
}

// --- floods ---

enum { WINDOW = 32 };

struct flood {
  struct transport_request requests[WINDOW];
  unsigned char bytes[WINDOW][TRANSPORT_MAX_MESSAGE];
  uint64_t sent, ended, received, random, random_there;
  uint64_t total;
};

// The n-th message of a flood: its number, then bytes that belong to it.
static uint32_t compose(unsigned char *bytes, uint64_t number, uint64_t *random) {
  uint32_t size = 8 + (uint32_t)(random_next(random) % (number % 16 ? 200 : TRANSPORT_MAX_MESSAGE - 8));
  memcpy(bytes, &number, 8);
  pattern_fill(bytes + 8, number, 0, size - 8);
  return size;
}

static void take_flood(struct end *end, const void *bytes, size_t size) {
  static unsigned char wanted[TRANSPORT_MAX_MESSAGE];
  struct flood *flood = end->hook_arg;
  uint32_t wanted_size = compose(wanted, flood->received, &flood->random_there);
  uint64_t number = UINT64_MAX;
  if (size >= 8)
    memcpy(&number, bytes, 8);
  if (size != wanted_size || memcmp(bytes, wanted, size) != 0)
    fail_msg("message %llu of %zu bytes came in the place of %llu of %u", (unsigned long long)number, size,
             (unsigned long long)flood->received, wanted_size);
  flood->received++;
}

static void flood_open(struct flood *flood, struct transport_peer *peer, uint64_t total, uint64_t seed) {
  memset(flood, 0, sizeof *flood);
  flood->total = total;
  flood->random = flood->random_there = seed;
  for (int i = 0; i < WINDOW; i++) {
    request_init(&flood->requests[i], peer, WEFT_TRANSFER_WRITE, NULL, 0);
    flood->requests[i].message = flood->bytes[i];
    flood->requests[i].message_size = TRANSPORT_MAX_MESSAGE;
    assert_works(suite.transport->prepare(&flood->requests[i]));
  }
}

// Posts as long as there is a free request. Requests of one peer end in their order or not, messages come in it.
static void flood_more(struct flood *flood) {
  while (flood->sent < flood->total) {
    struct transport_request *request = &flood->requests[flood->sent % WINDOW];
    if (flood->sent >= WINDOW && !request_ended(request))
      return;
    if (flood->sent >= WINDOW)
      assert_int_equal(request->state, 0);
    request->message_size = compose(flood->bytes[flood->sent % WINDOW], flood->sent, &flood->random);
    flood->sent++;
    assert_works(suite.transport->post(request));
  }
}

static bool flood_over(const struct flood *flood) {
  if (flood->sent < flood->total || flood->received < flood->total)
    return false;
  for (int i = 0; i < WINDOW; i++)
    if (!request_ended((void *)&flood->requests[i]))
      return false;
  return true;
}

static void flood_close(struct flood *flood) {
  for (int i = 0; i < WINDOW; i++)
    suite.transport->unprepare(&flood->requests[i]);
}

static void test_floods_both_ways(void **state) {
  (void)state;
  NEEDS(HAS(MESSAGES), "it carries no messages");
  uint64_t total = SUPPORT_SANITIZED ? 1000 : 5000;
  struct flood *floods = calloc(2, sizeof *floods);
  assert_non_null(floods);
  struct pair pair;
  pair_open(&pair, false);
  bool both = pair.a != pair.b;
  flood_open(&floods[0], pair.to_b, total, suite.seed);
  flood_open(&floods[1], pair.to_a, both ? total : 0, suite.seed + 1);
  pair.b->hook = pair.a->hook = take_flood;
  pair.a->hook_arg = &floods[1];
  pair.b->hook_arg = &floods[0];
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS), random = suite.seed;
  while (!flood_over(&floods[0]) || !flood_over(&floods[1])) {
    flood_more(&floods[0]);
    flood_more(&floods[1]);
    if (random_next(&random) % 4) // now and then one of them does not listen
      suite.transport->progress(pair.a->worker);
    if (random_next(&random) % 4)
      suite.transport->progress(pair.b->worker);
    if (clock_passed(deadline_ns))
      fail_msg("of two floods %llu and %llu messages have come", (unsigned long long)floods[0].received,
               (unsigned long long)floods[1].received);
  }
  for (int i = 0; i < 1000; i++)
    pair_drive(&pair);
  assert_int_equal(pair.a->messages, total);
  assert_int_equal(pair.b->messages, total);
  flood_close(&floods[0]);
  flood_close(&floods[1]);
  pair_close(&pair);
  free(floods);
}

// --- sleeping ---

// Progress until there is nothing to do, so that its descriptor tells of what comes next.
static void fall_asleep(struct end *end) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  do {
    suite.transport->progress(end->worker);
    if (clock_passed(deadline_ns))
      fail_msg("a worker with nothing to do cannot sleep");
  } while (suite.transport->arm && suite.transport->arm(end->worker) != 0);
}

static void test_a_sleeper_is_woken(void **state) {
  (void)state;
  NEEDS(HAS(MESSAGES), "it carries no messages");
  struct pair pair;
  pair_open(&pair, false);
  if (suite.transport->fd(pair.b->worker) < 0) {
    pair_close(&pair);
    NEEDS(false, "it has no descriptor to sleep on");
  }
  for (int i = 0; i < 200; i++) {
    struct transport_request request;
    request_init(&request, pair.to_b, WEFT_TRANSFER_WRITE, NULL, 0);
    request.message = &i;
    request.message_size = sizeof i;
    assert_works(suite.transport->prepare(&request));
    fall_asleep(pair.b);
    assert_works(suite.transport->post(&request));
    struct pollfd poll_fd = {.fd = suite.transport->fd(pair.b->worker), .events = POLLIN};
    uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
    while (!request_ended(&request) || pair.b->messages == (uint64_t)i) {
      suite.transport->progress(pair.a->worker);
      if (poll(&poll_fd, 1, 0) == 1)
        fall_asleep(pair.b);
      if (clock_passed(deadline_ns))
        fail_msg("message %d did not wake the sleeper", i);
    }
    assert_int_equal(request.state, 0);
    suite.transport->unprepare(&request);
  }
  pair_close(&pair);
}

const struct CMUnitTest message_cases[] = {
    CASE(test_the_message_comes_after_the_data),
    CASE(test_messages_of_all_sizes),
    CASE(test_messages_to_oneself),
    CASE(test_a_message_that_is_too_long_is_refused),
    CASE(test_a_read_may_have_a_message),
    CASE(test_floods_both_ways),
    CASE(test_a_sleeper_is_woken),
};
const size_t num_message_cases = sizeof message_cases / sizeof *message_cases;
