// Data that is damaged, foreign or out of bounds is refused with the reason.
#include "conformance/suite.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

typedef int (*read_fn)(void *arg, const void *bytes, size_t size);

static void expect_refused(int rc, const char *how, size_t at) {
  if (rc != WEFT_ERR_PROTOCOL && rc != WEFT_ERR_VERSION)
    fail_msg("%s at %zu: %s, not PROTOCOL", how, at, weft_err_name(rc));
  assert_true(weft_last_error()[0] != '\0');
}

// Each truncation, one byte more, each byte changed, and noise.
static void damage(const unsigned char *bytes, size_t size, read_fn read, void *arg) {
  unsigned char *copy = malloc(size + 1); // so that a sanitizer sees who reads beyond
  for (size_t cut = 0; cut < size; cut++) {
    unsigned char *part = malloc(cut ? cut : 1);
    memcpy(part, bytes, cut);
    expect_refused(read(arg, part, cut), "cut", cut);
    free(part);
  }
  memcpy(copy, bytes, size);
  copy[size] = 0;
  expect_refused(read(arg, copy, size + 1), "one byte more", size);
  uint64_t random = suite.seed;
  for (size_t at = 0; at < size; at++) {
    memcpy(copy, bytes, size);
    copy[at] ^= (unsigned char)(1 + random_next(&random) % 255);
    expect_refused(read(arg, copy, size), "changed", at);
  }
  for (int i = 0; i < 100; i++) {
    for (size_t at = 0; at < size; at++)
      copy[at] = (unsigned char)random_next(&random);
    expect_refused(read(arg, copy, size), "noise", 0);
  }
  free(copy);
}

static int read_address(void *arg, const void *bytes, size_t size) {
  struct end *end = arg;
  struct transport_peer *peer = NULL;
  int rc = suite.transport->connect(end->worker, bytes, size, NULL, &peer);
  if (rc == 0)
    suite.transport->disconnect(peer);
  return rc;
}

static void test_damaged_addresses(void **state) {
  (void)state;
  struct pair pair;
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address, none = 0;
  pair_open(&pair, false);
  assert_works(suite.transport->address(pair.b->worker, address, &size));
  assert_int_equal(suite.transport->address(pair.b->worker, NULL, &none), WEFT_ERR_LIMIT);
  damage(address, size, read_address, pair.a);
  pair_close(&pair);
}

static int read_key(void *arg, const void *bytes, size_t size) {
  struct transport_remote *remote = NULL;
  int rc = suite.transport->import(arg, bytes, size, &remote);
  if (rc == 0)
    suite.transport->release(remote);
  return rc;
}

static void test_damaged_keys(void **state) {
  (void)state;
  struct pair pair;
  struct place there;
  unsigned char key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key, none = 0;
  pair_open(&pair, false);
  place_open(&there, pair.b, pair.to_b, 1000);
  assert_works(suite.transport->pack(there.region, key, &size));
  assert_int_equal(suite.transport->pack(there.region, NULL, &none), WEFT_ERR_LIMIT);
  damage(key, size, read_key, pair.to_b);
  place_close(&there);
  pair_close(&pair);
}

static void test_pieces_out_of_bounds(void **state) {
  (void)state;
  struct route route;
  route_open(&route, 1000);
  const uint64_t cases[][3] = {{1, 0, 1000}, {0, 1, 1000},           {0, 0, 1001},          {1001, 0, 1},
                               {0, 1001, 1}, {0, 0, UINT64_MAX - 5}, {(uint64_t)-8, 0, 16}, {0, (uint64_t)-8, 16}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct transport_piece piece = piece_of(&route.local, cases[i][0], &route.there, cases[i][1], cases[i][2]);
    struct transport_request request;
    request_init(&request, route.pair.to_b, i % 2 ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE, &piece, 1);
    int rc = suite.transport->prepare(&request);
    if (rc >= 0)
      fail_msg("a piece out of bounds was taken (case %zu)", i);
  }
  route_close(&route);
}

static void test_read_only_memory_is_not_written(void **state) {
  (void)state;
  NEEDS(suite.kind == WEFT_MEMORY_HOST, "only host memory is tried");
  struct route route;
  struct transport_region *regions[2];
  struct transport_remote *remote;
  unsigned char key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key;
  route_open(&route, 1000);
  place_fill(&route.there, 4);
  struct transport_memory memory = route.there.region->memory;
  memory.read_only = true;
  assert_works(suite.transport->reg(route.pair.b->worker, &memory, &regions[0]));
  assert_works(suite.transport->pack(regions[0], key, &size));
  assert_works(suite.transport->import(route.pair.to_b, key, size, &remote));
  memory = route.local.region->memory;
  memory.read_only = true;
  assert_works(suite.transport->reg(route.pair.a->worker, &memory, &regions[1]));

  struct transport_piece piece = piece_of(&route.local, 0, &route.there, 0, 1000);
  struct transport_request request;
  piece.remote = remote;
  request_init(&request, route.pair.to_b, WEFT_TRANSFER_WRITE, &piece, 1);
  assert_int_equal(suite.transport->prepare(&request), WEFT_ERR_INVALID);
  request.op = WEFT_TRANSFER_READ;
  assert_int_equal(request_run(&route.pair, &request), 0);
  place_check(&route.local, 0, 1000, 4, 0);
  piece = piece_of(&route.local, 0, &route.there, 0, 1000);
  piece.local = regions[1];
  assert_int_equal(suite.transport->prepare(&request), WEFT_ERR_INVALID);
  request.op = WEFT_TRANSFER_WRITE;
  assert_int_equal(request_run(&route.pair, &request), 0);

  suite.transport->release(remote);
  suite.transport->unreg(regions[0]);
  suite.transport->unreg(regions[1]);
  route_close(&route);
}

static void test_settings_that_are_none(void **state) {
  (void)state;
  const char *const settings[] = {"no_such_setting=1", NULL};
  struct transport_options options = {.size = sizeof options, .settings = settings};
  struct transport_worker *worker = NULL;
  int rc = suite.transport->open(&options, &worker);
  assert_int_equal(rc, WEFT_ERR_INVALID);
  assert_null(worker);
}

const struct CMUnitTest bad_cases[] = {
    CASE(test_damaged_addresses),      CASE(test_damaged_keys),
    CASE(test_pieces_out_of_bounds),   CASE(test_read_only_memory_is_not_written),
    CASE(test_settings_that_are_none),
};
const size_t num_bad_cases = sizeof bad_cases / sizeof *bad_cases;
