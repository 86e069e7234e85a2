// What an application can ask of peers, transports and transfers, by id and by name.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "agent/support/pair.h"
#include "base/time/clock.h"
#include "support/loop.h"
#include "support/wait.h"

static const struct transport *more[2] = {&transport_loop, NULL};
static struct pair pair;

static int set_up(void **state) {
  (void)state;
  loop_reset();
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.heartbeat_ms = 3600000;
  pair_open(&pair, "shm", more, &options);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  pair_close(&pair);
  return 0;
}

static void test_peers(void **state) {
  (void)state;
  weft_peer_t peers[4] = {0};
  uint32_t count = 99;
  struct weft_peer_info info = WEFT_PEER_INFO_INIT;
  assert_int_equal(weft_agent_peers(pair.a.agent, peers, 4, &count), 0);
  assert_int_equal(count, 1);
  assert_true(peers[0] == pair.a.peer);
  assert_int_equal(weft_agent_peers(pair.a.agent, NULL, 0, &count), 0);
  assert_int_equal(count, 1);
  assert_int_equal(weft_agent_peer(pair.a.agent, pair.a.peer, &info), 0);
  assert_string_equal(info.name, "b");
  assert_string_equal(info.reason, "");
  assert_non_null(strstr(info.transports, "shm"));
  assert_true(info.state == WEFT_PEER_ALIVE && info.num_regions == 1 && info.peer == pair.a.peer);
  assert_true(info.incarnation == pair.b.agent->incarnation);
  assert_int_equal(weft_agent_peer(pair.a.agent, WEFT_PEER_SELF, &info), 0);
  assert_string_equal(info.name, "a");
  assert_int_equal(weft_agent_peer(pair.a.agent, 4711, &info), WEFT_ERR_NOT_FOUND);

  weft_peer_t before = pair.a.peer; // its id keeps its name
  assert_int_equal(weft_agent_invalidate(pair.a.agent, before), 0);
  assert_int_equal(weft_agent_peer(pair.a.agent, before, &info), 0);
  assert_string_equal(info.name, "b");
  assert_true(info.state == WEFT_PEER_LEFT && info.num_regions == 0);
  assert_non_null(strstr(info.reason, "invalidated"));
  assert_string_equal(info.transports, "");
  assert_int_equal(weft_agent_peers(pair.a.agent, peers, 4, &count), 0);
  assert_int_equal(count, 0);
  info.size = offsetof(struct weft_peer_info, uses); // an older program
  memset(info.uses, 'x', sizeof info.uses);
  assert_int_equal(weft_agent_peer(pair.a.agent, before, &info), 0);
  assert_int_equal(info.uses[0], 'x');
  info.size = offsetof(struct weft_peer_info, uses) - 1;
  assert_int_equal(weft_agent_peer(pair.a.agent, before, &info), WEFT_ERR_INVALID);
}

static void test_connect(void **state) {
  (void)state;
  assert_int_equal(weft_agent_connect(pair.a.agent, pair.a.peer, SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(weft_agent_connect(pair.a.agent, WEFT_PEER_SELF, SUPPORT_DEADLINE_MS), 0);
  atomic_store(&loop.hold, true);
  assert_int_equal(weft_agent_connect(pair.a.agent, pair.a.peer, 30), WEFT_ERR_TIMEOUT);
  assert_non_null(strstr(weft_last_error(), "has reached b"));
  atomic_store(&loop.hold, false);
  assert_int_equal(weft_agent_connect(pair.a.agent, pair.a.peer, WEFT_WAIT_FOREVER), 0);
  assert_int_equal(weft_agent_invalidate(pair.a.agent, pair.a.peer), 0);
  assert_int_equal(weft_agent_connect(pair.a.agent, pair.a.peer, 30), WEFT_ERR_PEER_LOST);
}

static void test_transports(void **state) {
  (void)state;
  struct weft_transport_info all[16];
  uint32_t count = 0, more_count = 0;
  assert_int_equal(weft_transport_list(all, sizeof *all, 16, &count), 0);
  assert_in_range(count, 3, 16);
  bool shm = false;
  for (uint32_t i = 0; i < count; i++) {
    bool works = all[i].flags & WEFT_TRANSPORT_WORKS;
    assert_true(works != (all[i].why[0] != '\0'));             // or it says why not
    assert_true(strlen(all[i].what) < sizeof all[i].what - 1); // nothing of it is cut off
    assert_true(all[i].version[0] == 0 || strspn(all[i].version, "0123456789.") > 2);
    assert_true(strcmp(all[i].name, "ucx") != 0 || !works || all[i].version[0]);
    shm |= works && strcmp(all[i].name, "shm") == 0 && all[i].local_kinds & 1 << WEFT_MEMORY_HOST;
  }
  assert_true(shm);
  assert_int_equal(weft_transport_list(NULL, 0, 0, &more_count), 0);
  assert_int_equal(more_count, count);
  // An older program's entries, which are shorter only in a later version, and a newer one's.
  struct {
    struct weft_transport_info known;
    uint64_t later;
  } newer[2] = {{.later = 7}, {.later = 7}};
  assert_int_equal(weft_transport_list(&newer[0].known, sizeof *newer, 2, &count), 0);
  assert_string_equal(newer[1].known.name, all[1].name);
  assert_true(newer[0].later == 0 && newer[1].later == 0);
  assert_int_equal(weft_transport_list(all, sizeof *all - 1, 16, &count), WEFT_ERR_INVALID);
}

// A region may be kept from a transport that could have it.
static void test_transports_of_a_region(void **state) {
  (void)state;
  static uint8_t bytes[64];
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  weft_region_t region;
  memory.address = bytes;
  memory.length = sizeof bytes;
  memory.transports = "shm";
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), 0);
  struct weft_descriptor here = {(uintptr_t)bytes, 64, region}, there = {(uintptr_t)pair.b.memory, 64, pair.b.region};
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, &here, 1, &local), 0);
  assert_int_equal(weft_dlist_create(pair.a.agent, pair.a.peer, &there, 1, &remote), 0);
  options.transport = transport_loop.name;
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer),
                   WEFT_ERR_UNREACHABLE);
  assert_non_null(strstr(weft_last_error(), "not among the region's transports"));
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, NULL, &transfer), 0);
  struct weft_transfer_info info = WEFT_TRANSFER_INFO_INIT;
  assert_int_equal(weft_transfer_get_info(transfer, &info), 0);
  assert_string_equal(info.transport, "shm");
  pair_free(transfer);
  memory.transports = "shm,quantum";
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), WEFT_ERR_UNSUPPORTED);
  assert_non_null(strstr(weft_last_error(), "quantum"));
  memory.transports = ",";
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &region), WEFT_ERR_INVALID);
}

static void test_transfer_and_stats(void **state) {
  (void)state;
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_READ, 0, 0, 1000, NULL);
  struct weft_transfer_info info = WEFT_TRANSFER_INFO_INIT;
  struct weft_agent_stats stats = WEFT_AGENT_STATS_INIT;
  assert_int_equal(weft_transfer_get_info(transfer, &info), 0);
  assert_true(info.posts == 0 && info.start_ns == 0 && info.end_ns == 0 && info.bytes == 1000 && info.pieces == 1);
  uint64_t begun = clock_ns();
  for (int i = 0; i < 3; i++) {
    assert_int_equal(weft_transfer_post(transfer), 0);
    assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
  }
  assert_int_equal(weft_transfer_get_info(transfer, &info), 0);
  assert_true(info.posts == 3 && info.pairs == 1 && info.estimate_ns > 0);
  assert_true(info.start_ns + 1000000000 > begun && info.end_ns >= info.start_ns); // two clocks: not to the nanosecond
  assert_int_equal(weft_agent_get_stats(pair.a.agent, pair.a.peer, &stats), 0);
  assert_true(stats.reads == 3 && stats.read_bytes == 3000 && stats.writes == 0 && stats.read_errors == 0);
  pair_free(transfer);
  assert_int_equal(weft_agent_notify(pair.a.agent, pair.a.peer, "x", 1), 0);
  assert_int_equal(weft_agent_get_stats(pair.a.agent, WEFT_PEER_SELF, &stats), 0);
  assert_true(stats.reads == 0 && stats.notifications_sent == 0);
  assert_int_equal(weft_agent_invalidate(pair.a.agent, pair.a.peer), 0);
  assert_int_equal(weft_agent_get_stats(pair.a.agent, pair.a.peer, &stats), WEFT_ERR_PEER_LOST);
  assert_int_equal(weft_agent_get_stats(pair.a.agent, 0, &stats), 0); // those that have gone count in the sum
  assert_true(stats.reads == 3 && stats.read_bytes == 3000 && stats.notifications_sent == 1);
}

int main(void) {
#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(test_peers),
      CASE(test_connect),
      CASE(test_transports),
      CASE(test_transports_of_a_region),
      CASE(test_transfer_and_stats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
