// Each rule of a fault script has its documented effect, and the same seed repeats it.
#include "conformance/suite.h"

#include <string.h>

#include "base/fail.h"

struct suite suite;

enum { PIECES = 8, UNIT = 1000, TIMES = 200 };

struct fixture {
  struct pair pair;
  struct place local, there;
  struct transport_piece pieces[PIECES];
  int32_t status[PIECES];
  struct transport_request request;
};

static void open_fixture(struct fixture *fixture, const char *name) {
  memset(fixture, 0, sizeof *fixture);
  suite.name = name;
  assert_works(transport_find(name, &suite.transport));
  suite.abilities = suite.transport->abilities;
  pair_open(&fixture->pair, false);
  place_open(&fixture->local, fixture->pair.a, NULL, PIECES * UNIT);
  place_open(&fixture->there, fixture->pair.b, fixture->pair.to_b, PIECES * UNIT);
  place_fill(&fixture->local, 1);
  for (uint32_t i = 0; i < PIECES; i++)
    fixture->pieces[i] = piece_of(&fixture->local, i * UNIT, &fixture->there, i * UNIT, UNIT);
  request_init(&fixture->request, fixture->pair.to_b, WEFT_TRANSFER_WRITE, fixture->pieces, PIECES);
  fixture->request.status = fixture->status;
  fixture->request.message = "message";
  fixture->request.message_size = 8;
  assert_works(suite.transport->prepare(&fixture->request));
}

static void close_fixture(struct fixture *fixture) {
  suite.transport->unprepare(&fixture->request);
  place_close(&fixture->there);
  place_close(&fixture->local);
  pair_close(&fixture->pair);
}

// Its state in the end, or that of its post.
static int post_once(struct fixture *fixture) {
  place_fill(&fixture->there, 2);
  int rc = suite.transport->post(&fixture->request);
  if (rc == 0)
    pair_wait(&fixture->pair, request_ended, &fixture->request, "a request with faults");
  for (int i = 0; i < 4; i++)
    pair_drive(&fixture->pair);
  assert_int_equal(fixture->request.state, rc ? rc : fixture->request.state);
  return fixture->request.state;
}

static void test_names_that_are_wrong(void **state) {
  (void)state;
  static const char *const names[] = {"fault:",
                                      "fault:1",
                                      "fault:1:none",
                                      "fault:x:none:shm",
                                      "fault:1::shm",
                                      "fault:1:lose:shm",
                                      "fault:1:lose=101:shm",
                                      "fault:1:delay=5:shm",
                                      "fault:1:die@0:shm",
                                      "fault:1:lose=5x:shm",
                                      "fault:1:big@0:shm",
                                      "fault:1:reg@0:shm",
                                      "fault:1:cling@3:shm",
                                      "fault:1:burn=5:shm",
                                      "fault:1:none:fault:1:none:shm"};
  const struct transport *transport = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int rc = transport_find(names[i], &transport);
    if (rc != WEFT_ERR_INVALID)
      fail_msg("%s: %s", names[i], weft_err_name(rc));
  }
  assert_int_equal(transport_find("fault:1:none:smoke", &transport), WEFT_ERR_NOT_FOUND);
  assert_null(transport);
}

static void test_lost_messages(void **state) {
  (void)state;
  struct fixture fixture;
  open_fixture(&fixture, "fault:7:lose=30:shm");
  for (int i = 0; i < TIMES; i++) {
    assert_int_equal(post_once(&fixture), 0);
    place_check(&fixture.there, 0, PIECES * UNIT, 1, 0);
  }
  assert_uint_in_range(fixture.pair.b->messages, TIMES / 2, TIMES - 1);
  close_fixture(&fixture);
}

static void test_failing_posts(void **state) {
  (void)state;
  struct fixture fixture;
  open_fixture(&fixture, "fault:7:fail=30:shm");
  uint64_t well = 0;
  for (int i = 0; i < TIMES; i++) {
    int is = post_once(&fixture);
    well += is == 0;
    assert_true(is == 0 || is == WEFT_ERR_UNREACHABLE);
    place_check(&fixture.there, 0, PIECES * UNIT, is == 0 ? 1 : 2, 0);
    assert_int_equal(fixture.pair.b->messages, well);
  }
  assert_uint_in_range(well, TIMES / 2, TIMES - 1);
  close_fixture(&fixture);
}

static void test_short_transfers(void **state) {
  (void)state;
  struct fixture fixture;
  open_fixture(&fixture, "fault:7:short=50:shm");
  uint64_t well = 0;
  for (int i = 0; i < TIMES; i++) {
    int is = post_once(&fixture);
    well += is == 0;
    uint32_t moved = 0;
    for (uint32_t n = 0; n < PIECES; n++) {
      assert_int_equal(fixture.status[n] == 0, moved == n && fixture.status[n] == 0); // those that moved come first
      place_check(&fixture.there, n * UNIT, UNIT, fixture.status[n] == 0 ? 1 : 2, n * UNIT);
      moved += fixture.status[n] == 0;
    }
    assert_int_equal(is, moved == PIECES ? 0 : WEFT_ERR_DATA);
    assert_int_equal(fixture.pair.b->messages, well);
    assert_int_equal(fixture.request.moved, moved * UNIT);
  }
  assert_uint_in_range(well, TIMES / 4, TIMES - 1);
  close_fixture(&fixture);
}

static void test_what_sticks_ends_when_cancelled(void **state) {
  (void)state;
  static const char *const names[] = {"fault:7:stick=100:shm", "fault:7:mute@1:shm"};
  for (int i = 0; i < 2; i++) {
    struct fixture fixture;
    open_fixture(&fixture, names[i]);
    assert_works(suite.transport->post(&fixture.request));
    for (int n = 0; n < 1000; n++)
      pair_drive(&fixture.pair);
    assert_int_equal(fixture.request.state, TRANSPORT_IN_FLIGHT);
    suite.transport->cancel(&fixture.request);
    pair_wait(&fixture.pair, request_ended, &fixture.request, "the end of what stuck");
    assert_int_equal(fixture.request.state, WEFT_ERR_CANCELED);
    assert_int_equal(fixture.pair.b->messages, 0);
    close_fixture(&fixture);
  }
}

static void test_what_clings(void **state) {
  (void)state;
  static const char *const names[] = {"fault:7:big@8000+cling@1:shm", "fault:7:big@8000+cling@2:shm"};
  for (int i = 0; i < 2; i++) {
    struct fixture fixture;
    struct transport_request *request = &fixture.request;
    open_fixture(&fixture, names[i]);
    assert_works(suite.transport->post(request));
    suite.transport->cancel(request);
    pair_drive_on(&fixture.pair, 1000);
    assert_int_equal(request->state, TRANSPORT_IN_FLIGHT);
    suite.transport->disconnect(fixture.pair.to_b);
    fixture.there.remote = NULL;
    assert_int_equal(request->state, i == 0 ? WEFT_ERR_CANCELED : TRANSPORT_IN_FLIGHT);
    end_close(fixture.pair.a);
    assert_int_equal(request->state, WEFT_ERR_CANCELED);
    close_fixture(&fixture);
  }
}

static void test_small_ones_do_not_stick(void **state) {
  (void)state;
  struct fixture fixture;
  open_fixture(&fixture, "fault:7:big@8008:shm");
  assert_int_equal(post_once(&fixture), 0);
  close_fixture(&fixture);
}

static void test_the_link_goes_down(void **state) {
  (void)state;
  struct fixture fixture;
  open_fixture(&fixture, "fault:7:mute@3:shm");
  assert_int_equal(post_once(&fixture), 0);
  assert_int_equal(post_once(&fixture), 0);
  assert_works(suite.transport->post(&fixture.request));
  suite.transport->disconnect(fixture.pair.to_b);
  fixture.there.remote = NULL;
  assert_int_equal(fixture.request.state, WEFT_ERR_CANCELED);
  close_fixture(&fixture);
}

static void test_a_peer_dies(void **state) {
  (void)state;
  struct fixture fixture;
  open_fixture(&fixture, "fault:7:die@3:shm");
  assert_int_equal(post_once(&fixture), 0);
  assert_int_equal(post_once(&fixture), 0);
  assert_int_equal(post_once(&fixture), WEFT_ERR_PEER_LOST);
  assert_int_equal(fixture.pair.a->peer_events, 1);
  assert_ptr_equal(fixture.pair.a->told[0].peer, fixture.pair.to_b);
  assert_int_equal(post_once(&fixture), WEFT_ERR_PEER_LOST);
  assert_int_equal(fixture.pair.a->peer_events, 1);
  close_fixture(&fixture);
}

static void run_mix(uint32_t states[TIMES]) {
  struct fixture fixture;
  open_fixture(&fixture, "fault:99:fail=20+short=20+lose=10+delay=30/5:shm");
  for (int i = 0; i < TIMES; i++)
    states[i] = (uint32_t)-post_once(&fixture) << 16 | (uint32_t)fixture.pair.b->messages;
  close_fixture(&fixture);
}

static void test_a_seed_repeats(void **state) {
  (void)state;
  uint32_t states[2][TIMES];
  run_mix(states[0]);
  run_mix(states[1]);
  assert_memory_equal(states[0], states[1], sizeof states[0]);
}

static void test_large_memory_is_not_registered(void **state) {
  (void)state;
  static char bytes[PIECES * UNIT + 1];
  struct fixture fixture;
  open_fixture(&fixture, "fault:7:reg@8001:shm"); // which registers 8,000
  struct transport_memory memory = {
      .kind = WEFT_MEMORY_HOST, .address = bytes, .length = sizeof bytes, .device = -1, .fd = -1};
  struct transport_region *region = NULL;
  assert_int_equal(suite.transport->reg(fixture.pair.a->worker, &memory, &region), WEFT_ERR_LIMIT);
  assert_null(region);
  memory.length--;
  assert_works(suite.transport->reg(fixture.pair.a->worker, &memory, &region));
  suite.transport->unreg(region);
  close_fixture(&fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names_that_are_wrong),
      cmocka_unit_test(test_lost_messages),
      cmocka_unit_test(test_failing_posts),
      cmocka_unit_test(test_short_transfers),
      cmocka_unit_test(test_what_sticks_ends_when_cancelled),
      cmocka_unit_test(test_what_clings),
      cmocka_unit_test(test_small_ones_do_not_stick),
      cmocka_unit_test(test_the_link_goes_down),
      cmocka_unit_test(test_a_peer_dies),
      cmocka_unit_test(test_large_memory_is_not_registered),
      cmocka_unit_test(test_a_seed_repeats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
