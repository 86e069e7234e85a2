// What every transport has to provide through the agent: data, notifications, merging, indices, runs. The argument
// names the transport: loop, free (one of the tests), or one of the library's.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "agent/memory/region.h"
#include "agent/support/pair.h"
#include "support/loop.h"
#include "support/wait.h"

static const char *names;
static const struct transport *more[2];
static enum weft_agent_progress progress;
static struct pair pair;

static int set_up(void **state) {
  (void)state;
  loop_reset();
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = progress;
  pair_open(&pair, names, more[0] ? more : NULL, &options);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  pair_close(&pair);
  return 0;
}

static void fill(uint8_t *bytes, uint64_t size, uint32_t salt) {
  for (uint64_t i = 0; i < size; i++)
    bytes[i] = (uint8_t)(i * 31 + (i >> 8) + salt);
}

static bool ended(void *arg) {
  return weft_transfer_poll(arg) != 1;
}

// Posts, drives both until it has ended.
static int run(weft_transfer_t *transfer) {
  int rc = weft_transfer_post(transfer);
  if (rc != 0)
    return rc;
  assert_true(pair_until(&pair, ended, transfer));
  return weft_transfer_poll(transfer);
}

static void writes_and_reads(void **state) {
  (void)state;
  fill(pair.a.memory, 70000, 1);
  weft_transfer_t *out = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 100, 70000, NULL);
  weft_transfer_t *in = pair_transfer(&pair, WEFT_TRANSFER_READ, 100000, 100, 70000, NULL);
  assert_int_equal(weft_transfer_poll(out), WEFT_ERR_INVALID);
  for (uint32_t round = 0; round < 3; round++) {
    fill(pair.a.memory, 70000, round);
    assert_int_equal(run(out), 0);
    assert_memory_equal(pair.a.memory, pair.b.memory + 100, 70000);
    assert_int_equal(run(in), 0);
    assert_memory_equal(pair.a.memory, pair.a.memory + 100000, 70000);
  }
  assert_int_equal(pair.b.memory[99], 0);
  assert_int_equal(pair.b.memory[70100], 0);
  assert_string_equal(weft_transfer_error(out), "");
  uint64_t ns;
  assert_int_equal(weft_transfer_estimate(out, &ns), 0);
  assert_true(ns > 0);
  pair_free(out);
  pair_free(in);
}

static weft_dlist_t *strips(struct pair_end *by, struct pair_end *of, uint32_t count, uint32_t length, uint32_t stride,
                            weft_region_t region) {
  struct weft_descriptor *all = calloc(count, sizeof *all);
  assert_non_null(all);
  for (uint32_t i = 0; i < count; i++)
    all[i] = (struct weft_descriptor){(uintptr_t)of->memory + i * stride, length, region};
  weft_dlist_t *list = NULL;
  assert_int_equal(weft_dlist_create(by->agent, by == of ? WEFT_PEER_SELF : by->peer, all, count, &list), 0);
  free(all);
  return list;
}

static weft_transfer_t *make(enum weft_transfer_op op, weft_dlist_t *local, weft_dlist_t *remote,
                             const struct weft_transfer_options *options) {
  weft_transfer_t *transfer = NULL;
  if (weft_transfer_create(pair.a.agent, op, local, remote, options, &transfer) != 0)
    fail_msg("no transfer: %s", weft_last_error());
  return transfer;
}

static void chooses_descriptors(void **state) {
  (void)state;
  enum { COUNT = 1000, LENGTH = 100 };
  fill(pair.a.memory, COUNT * LENGTH, 7);
  weft_dlist_t *local = strips(&pair.a, &pair.a, COUNT, LENGTH, LENGTH, 0);
  weft_dlist_t *remote = strips(&pair.a, &pair.b, COUNT, LENGTH, 2 * LENGTH, 0);
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  // Every third to the front, backwards.
  struct weft_transfer_run runs[2] = {
      {.local_first = 0, .local_stride = 3, .remote_first = 10, .remote_stride = 1, .count = 20},
      {.local_first = 999, .local_stride = 0, .remote_first = 0, .remote_stride = 5, .count = 2}};
  options.runs = runs;
  options.num_runs = 2;
  weft_transfer_t *transfer = make(WEFT_TRANSFER_WRITE, local, remote, &options);
  assert_int_equal(transfer->num_pairs, 22);
  assert_int_equal(run(transfer), 0);
  for (uint32_t i = 0; i < 20; i++)
    assert_memory_equal(pair.b.memory + (10 + i) * 2 * LENGTH, pair.a.memory + i * 3 * LENGTH, LENGTH);
  assert_memory_equal(pair.b.memory, pair.a.memory + 999 * LENGTH, LENGTH);
  assert_memory_equal(pair.b.memory + 5 * 2 * LENGTH, pair.a.memory + 999 * LENGTH, LENGTH);
  assert_int_equal(pair.b.memory[LENGTH], 0);
  assert_int_equal(weft_transfer_free(transfer), 0);

  uint32_t here[3] = {5, 4, 5}, there[3] = {100, 200, 300};
  options = (struct weft_transfer_options)WEFT_TRANSFER_OPTIONS_INIT;
  options.local_index = here;
  options.remote_index = there;
  options.num_index = 3;
  transfer = make(WEFT_TRANSFER_WRITE, local, remote, &options);
  assert_int_equal(run(transfer), 0);
  for (uint32_t i = 0; i < 3; i++)
    assert_memory_equal(pair.b.memory + there[i] * 2 * LENGTH, pair.a.memory + here[i] * LENGTH, LENGTH);
  int32_t status[3] = {1, 1, 1};
  uint32_t count = 3;
  assert_int_equal(weft_transfer_status(transfer, status, count, &count), 0);
  assert_int_equal(count, 3);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(status[i], 0);
  assert_int_equal(weft_transfer_free(transfer), 0);
  assert_int_equal(weft_dlist_free(local), 0);
  assert_int_equal(weft_dlist_free(remote), 0);
}

static void merges_neighbours(void **state) {
  (void)state;
  // Three runs: neighbours on both sides; on one side only; on neither.
  weft_dlist_t *dense = strips(&pair.a, &pair.a, 64, 16, 16, 0), *sparse = strips(&pair.a, &pair.b, 64, 16, 32, 0);
  weft_dlist_t *packed = strips(&pair.a, &pair.b, 64, 16, 16, 0);
  weft_transfer_t *merged = make(WEFT_TRANSFER_WRITE, dense, packed, NULL),
                  *apart = make(WEFT_TRANSFER_WRITE, dense, sparse, NULL);
  assert_int_equal(merged->num_pieces, 1);
  assert_int_equal(apart->num_pieces, 64);
  fill(pair.a.memory, 1024, 3);
  assert_int_equal(run(merged), 0);
  assert_memory_equal(pair.a.memory, pair.b.memory, 1024);
  int32_t status[64];
  uint32_t count = 0;
  assert_int_equal(weft_transfer_status(merged, NULL, count, &count), 0);
  assert_int_equal(count, 64);
  count = 63;
  assert_int_equal(weft_transfer_status(merged, status, count, &count), 0); // the first ones
  assert_int_equal(count, 64);
  memset(status, 1, sizeof status);
  count = 64;
  assert_int_equal(weft_transfer_status(merged, status, count, &count), 0);
  for (uint32_t i = 0; i < 64; i++)
    assert_int_equal(status[i], 0);
  assert_int_equal(run(apart), 0);
  for (uint32_t i = 0; i < 64; i++)
    assert_memory_equal(pair.a.memory + i * 16, pair.b.memory + i * 32, 16);
  assert_int_equal(weft_dlist_free(dense), WEFT_ERR_BUSY);
  assert_int_equal(weft_transfer_free(merged), 0);
  assert_int_equal(weft_transfer_free(apart), 0);
  assert_int_equal(weft_dlist_free(dense), 0);
  assert_int_equal(weft_dlist_free(sparse), 0);
  assert_int_equal(weft_dlist_free(packed), 0);
}

static void regions_do_not_merge(void **state) {
  (void)state;
  // Two regions of b side by side: what crosses from one to the other is two pieces.
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  weft_region_t halves[2];
  memory.length = 4096;
  for (int i = 0; i < 2; i++) {
    memory.address = pair.b.memory + 8192 + i * 4096;
    assert_int_equal(weft_agent_register(pair.b.agent, &memory, &halves[i]), 0);
  }
  assert_int_equal(pair_load_metadata(pair.b.agent, pair.a.agent, &pair.a.peer), 0);
  struct weft_descriptor there[2] = {{(uintptr_t)pair.b.memory + 8192 + 4000, 96, 0},
                                     {(uintptr_t)pair.b.memory + 8192 + 4096, 104, 0}};
  weft_dlist_t *remote, *local;
  assert_int_equal(weft_dlist_create(pair.a.agent, pair.a.peer, there, 2, &remote), 0);
  assert_int_equal(remote->spans[0].region->id, halves[0]); // the smallest that holds it, not the whole
  assert_int_equal(remote->spans[1].region->id, halves[1]);
  struct weft_descriptor here[2] = {{(uintptr_t)pair.a.memory, 96, 0}, {(uintptr_t)pair.a.memory + 96, 104, 0}};
  assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, here, 2, &local), 0);
  weft_transfer_t *transfer = make(WEFT_TRANSFER_WRITE, local, remote, NULL);
  assert_int_equal(transfer->num_pieces, 2);
  fill(pair.a.memory, 200, 9);
  assert_int_equal(run(transfer), 0);
  assert_memory_equal(pair.b.memory + 8192 + 4000, pair.a.memory, 200);
  pair_free(transfer);

  // The same on this side.
  for (int i = 0; i < 2; i++) {
    memory.address = pair.a.memory + 8192 + i * 4096;
    assert_int_equal(weft_agent_register(pair.a.agent, &memory, &halves[i]), 0);
    here[i] = (struct weft_descriptor){(uintptr_t)memory.address + (i == 0 ? 4000 : 0), i == 0 ? 96 : 104, 0};
    there[i] = (struct weft_descriptor){(uintptr_t)pair.b.memory + (i == 0 ? 0 : 96), i == 0 ? 96 : 104, 0};
  }
  assert_int_equal(weft_dlist_create(pair.a.agent, pair.a.peer, there, 2, &remote), 0);
  assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, here, 2, &local), 0);
  transfer = make(WEFT_TRANSFER_WRITE, local, remote, NULL);
  assert_int_equal(transfer->num_pieces, 2);
  fill(pair.a.memory + 8192 + 4000, 200, 11);
  assert_int_equal(run(transfer), 0);
  assert_memory_equal(pair.b.memory, pair.a.memory + 8192 + 4000, 200);
  pair_free(transfer);
}

// Two regions of b that share a part: each serves what lies in it, the whole what crosses both; and when one is taken
// back, what is known of the others stands.
static void regions_overlap(void **state) {
  (void)state;
  enum { SIZE = 8192, SHARED = 4096, BEGIN = 16384 };
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  weft_region_t first, second;
  memory.length = SIZE;
  memory.address = pair.b.memory + BEGIN;
  assert_int_equal(weft_agent_register(pair.b.agent, &memory, &first), 0);
  memory.address = pair.b.memory + BEGIN + SIZE - SHARED;
  memory.length = SIZE + 1; // so that the first is the smaller one
  assert_int_equal(weft_agent_register(pair.b.agent, &memory, &second), 0);
  assert_int_equal(pair_load_metadata(pair.b.agent, pair.a.agent, &pair.a.peer), 0);
  uint64_t there = (uintptr_t)pair.b.memory + BEGIN;
  struct weft_descriptor parts[] = {{there + 10, 20, 0},             // in the first
                                    {there + SIZE - 10, 10, 0},      // in both
                                    {there + SIZE, 100, 0},          // in the second
                                    {there + 10, SIZE + SHARED, 0}}; // across both
  const weft_region_t serves[] = {first, first, second, pair.b.region};
  weft_dlist_t *remote;
  assert_int_equal(weft_dlist_create(pair.a.agent, pair.a.peer, parts, 4, &remote), 0);
  for (int i = 0; i < 4; i++)
    assert_int_equal(remote->spans[i].region->id, serves[i]);
  assert_int_equal(weft_dlist_free(remote), 0);
  assert_int_equal(weft_agent_deregister(pair.b.agent, first), 0);
  assert_int_equal(pair_load_metadata(pair.b.agent, pair.a.agent, &pair.a.peer), 0);
  assert_int_equal(weft_dlist_create(pair.a.agent, pair.a.peer, parts + 1, 2, &remote), 0);
  assert_int_equal(remote->spans[0].region->id, second);
  struct weft_descriptor here[] = {{(uintptr_t)pair.a.memory, 10, 0}, {(uintptr_t)pair.a.memory + 10, 100, 0}};
  weft_dlist_t *local;
  assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, here, 2, &local), 0);
  weft_transfer_t *transfer = make(WEFT_TRANSFER_WRITE, local, remote, NULL);
  fill(pair.a.memory, 110, 5);
  assert_int_equal(run(transfer), 0);
  assert_memory_equal(pair.b.memory + BEGIN + SIZE - 10, pair.a.memory, 110);
  pair_free(transfer);
}

// A notification with a transfer is there once, after the data; alone too; in order.
static void notifies(void **state) {
  (void)state;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  char text[WEFT_AGENT_MAX_NOTIFICATION];
  options.notification = "data";
  options.notification_size = 5;
  fill(pair.a.memory, 5000, 5);
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 5000, &options);
  for (uint32_t round = 0; round < 5; round++) {
    pair.a.memory[4999] = (uint8_t)round;
    assert_int_equal(weft_transfer_post(transfer), 0);
    assert_int_equal(pair_hear(&pair, &pair.b, text, sizeof text), 5);
    assert_string_equal(text, "data");
    assert_memory_equal(pair.a.memory, pair.b.memory, 5000);
    assert_true(pair_until(&pair, ended, transfer));
    assert_int_equal(weft_transfer_poll(transfer), 0);
  }
  uint32_t sizes[] = {0, 1, 200, 201, WEFT_AGENT_MAX_NOTIFICATION};
  static uint8_t bytes[WEFT_AGENT_MAX_NOTIFICATION];
  for (uint32_t i = 0; i < 5; i++) {
    fill(bytes, sizes[i], i);
    assert_int_equal(weft_agent_notify(pair.a.agent, pair.a.peer, bytes, sizes[i]), 0);
  }
  for (uint32_t i = 0; i < 5; i++) {
    fill(bytes, sizes[i], i);
    assert_int_equal(pair_hear(&pair, &pair.b, text, sizeof text), sizes[i]);
    assert_memory_equal(text, bytes, sizes[i]);
  }
  uint32_t count = 1;
  struct weft_notification none;
  assert_int_equal(weft_agent_notifications(pair.b.agent, &none, count, &count), 0);
  assert_int_equal(count, 0);
  assert_int_equal(weft_agent_notify(pair.a.agent, pair.a.peer, bytes, WEFT_AGENT_MAX_NOTIFICATION + 1),
                   WEFT_ERR_LIMIT);
  pair_free(transfer);
}

// More pieces than a request of the test's transport takes: the message still comes last.
static void notifies_after_many_requests(void **state) {
  (void)state;
  weft_dlist_t *local = strips(&pair.a, &pair.a, 500, 16, 32, 0), *remote = strips(&pair.a, &pair.b, 500, 16, 48, 0);
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.notification = "!";
  options.notification_size = 1;
  weft_transfer_t *transfer = make(WEFT_TRANSFER_WRITE, local, remote, &options);
  fill(pair.a.memory, 500 * 32, 11);
  char text[8];
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_int_equal(pair_hear(&pair, &pair.b, text, sizeof text), 1);
  for (uint32_t i = 0; i < 500; i++)
    assert_memory_equal(pair.b.memory + i * 48, pair.a.memory + i * 32, 16);
  assert_true(pair_until(&pair, ended, transfer));
  pair_free(transfer);
}

// To oneself: bytes, notifications, under one's own name.
static void loops_back(void **state) {
  (void)state;
  weft_peer_t self;
  assert_int_equal(weft_agent_find(pair.a.agent, "a", &self), 0);
  assert_true(self == WEFT_PEER_SELF);
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.notification = "own";
  options.notification_size = 4;
  weft_dlist_t *local = pair_list(&pair.a, &pair.a, 0, 1000), *remote = pair_list(&pair.a, &pair.a, 500, 1000);
  fill(pair.a.memory, 1500, 2);
  uint8_t before[1000];
  memcpy(before, pair.a.memory, 1000);
  weft_transfer_t *transfer = make(WEFT_TRANSFER_WRITE, local, remote, &options);
  assert_int_equal(run(transfer), 0);
  assert_memory_equal(pair.a.memory + 500, before, 1000);
  char text[8];
  assert_int_equal(pair_hear(&pair, &pair.a, text, sizeof text), 4);
  assert_string_equal(text, "own");
  assert_int_equal(weft_agent_notify(pair.a.agent, WEFT_PEER_SELF, "me", 3), 0);
  assert_int_equal(pair_hear(&pair, &pair.a, text, sizeof text), 3);
  assert_string_equal(text, "me");
  pair_free(transfer);
}

// A post copies a little only; the rest comes with progress, can be cancelled, and ends with its agent.
static void loops_back_much(void **state) {
  (void)state;
  enum { MUCH = 8 << 20 };
  static uint8_t memory[2 * MUCH];
  struct weft_agent_memory registered = WEFT_AGENT_MEMORY_INIT;
  registered.address = memory;
  registered.length = sizeof memory;
  weft_region_t region;
  assert_int_equal(weft_agent_register(pair.a.agent, &registered, &region), 0);
  struct weft_descriptor from = {(uintptr_t)memory, MUCH, region}, to = {(uintptr_t)memory + MUCH, MUCH, region};
  weft_dlist_t *local, *remote;
  assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, &from, 1, &local), 0);
  assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, &to, 1, &remote), 0);
  weft_transfer_t *transfer = make(WEFT_TRANSFER_WRITE, local, remote, NULL);
  fill(memory, MUCH, 3);
  memset(memory + MUCH, 0, MUCH);
  assert_int_equal(weft_transfer_post(transfer), 0);
  if (progress == WEFT_AGENT_PROGRESS_NONE) { // else the thread may be at it
    assert_int_equal(memory[MUCH], 0);
    assert_int_equal(weft_transfer_cancel(transfer, SUPPORT_DEADLINE_MS), 0);
    assert_int_equal(weft_transfer_poll(transfer), WEFT_ERR_CANCELED);
    int32_t status = 0;
    uint32_t count = 1;
    assert_int_equal(weft_transfer_status(transfer, &status, count, &count), 0);
    assert_int_equal(status, WEFT_ERR_CANCELED);
    assert_int_equal(weft_transfer_post(transfer), 0);
  }
  assert_true(pair_until(&pair, ended, transfer));
  assert_int_equal(weft_transfer_poll(transfer), 0);
  assert_memory_equal(memory, memory + MUCH, MUCH);
  assert_int_equal(weft_transfer_post(transfer), 0); // tear_down() closes the agent meanwhile
}

struct flood {
  uint32_t sent, heard;
};

// Sends what may be sent, takes one, which has to be the next.
static bool flood_on(void *arg) {
  enum { ALL = AGENT_CREDITS + 3000 };
  struct flood *flood = arg;
  while (flood->sent < ALL && weft_agent_notify(pair.a.agent, pair.a.peer, &flood->sent, sizeof flood->sent) == 0)
    flood->sent++;
  struct weft_notification got;
  uint32_t count = 1;
  assert_int_equal(weft_agent_notifications(pair.b.agent, &got, count, &count), 0);
  if (count == 1) {
    assert_int_equal(got.size, sizeof flood->heard);
    assert_memory_equal(got.bytes, &flood->heard, sizeof flood->heard);
    flood->heard++;
  }
  return flood->heard == ALL;
}

// A flood ends at the credits, whatever the reader does; when it reads there are more.
static void floods_are_bounded(void **state) {
  (void)state;
  uint32_t sent = 0;
  int rc = 0;
  while (sent < 5000 && (rc = weft_agent_notify(pair.a.agent, pair.a.peer, &sent, sizeof sent)) == 0)
    sent++;
  assert_int_equal(rc, WEFT_ERR_BUSY);
  assert_int_equal(sent, AGENT_CREDITS);
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.notification = "x";
  options.notification_size = 1;
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 8, &options);
  assert_int_equal(weft_transfer_post(transfer), WEFT_ERR_BUSY);
  struct flood flood = {.sent = sent};
  if (!pair_until(&pair, flood_on, &flood))
    fail_msg("of %u notifications %u came", flood.sent, flood.heard);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_true(pair_until(&pair, ended, transfer));
  pair_free(transfer);
}

// A reader that has ended with all credits of the sender never reads again: a post says so, and does not stay BUSY.
static void floods_end_with_the_reader(void **state) {
  (void)state;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.notification = "x";
  options.notification_size = 1;
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 8, &options);
  while (weft_agent_notify(pair.a.agent, pair.a.peer, "y", 1) == 0)
    ;
  assert_int_equal(weft_transfer_post(transfer), WEFT_ERR_BUSY);
  assert_int_equal(weft_transfer_poll(transfer), WEFT_ERR_INVALID); // it was never posted
  assert_int_equal(weft_agent_invalidate(pair.a.agent, pair.a.peer), 0);
  assert_int_equal(weft_transfer_post(transfer), WEFT_ERR_PEER_LOST);
  assert_non_null(strstr(weft_last_error(), "invalidated"));
  assert_int_equal(weft_transfer_poll(transfer), WEFT_ERR_PEER_LOST);
  int32_t status = 0;
  uint32_t count = 1;
  assert_int_equal(weft_transfer_status(transfer, &status, count, &count), 0);
  assert_int_equal(status, WEFT_ERR_PEER_LOST);
  pair_free(transfer);
}

// The sender forgets the reader, which knows nothing of it, and loads it again.
static void floods_go_on_from_anew(void **state) {
  (void)state;
  struct flood flood = {0}, again = {0};
  assert_true(pair_until(&pair, flood_on, &flood));
  assert_int_equal(weft_agent_invalidate(pair.a.agent, pair.a.peer), 0);
  assert_int_equal(pair_load_metadata(pair.b.agent, pair.a.agent, &pair.a.peer), 0);
  if (!pair_until(&pair, flood_on, &again))
    fail_msg("of %u notifications %u came", again.sent, again.heard);
  struct weft_agent_stats stats = WEFT_AGENT_STATS_INIT;
  assert_int_equal(weft_agent_get_stats(pair.a.agent, pair.a.peer, &stats), 0);
  assert_int_equal(stats.notifications_sent, again.sent);
  assert_int_equal(weft_agent_get_stats(pair.b.agent, pair.b.peer, &stats), 0);
  assert_int_equal(stats.notifications_taken, flood.sent + again.sent);
}

static bool all_dropped(void *arg) {
  const uint32_t *sent = arg;
  struct weft_agent_stats stats = WEFT_AGENT_STATS_INIT;
  assert_int_equal(weft_agent_get_stats(pair.b.agent, 0, &stats), 0);
  return stats.messages_dropped >= *sent;
}

static bool send_new(void *arg) {
  uint32_t *left = arg;
  while (*left > 0 && weft_agent_notify(pair.a.agent, pair.a.peer, "new", 4) == 0)
    --*left;
  return *left == 0;
}

// The reader forgets the sender, which uses up its credits before it is loaded again.
static void readers_begin_anew(void **state) {
  (void)state;
  uint32_t sent = 0, left = 100;
  char text[8];
  assert_int_equal(weft_agent_notify(pair.a.agent, pair.a.peer, "old", 4), 0);
  assert_int_equal(pair_hear(&pair, &pair.b, text, sizeof text), 4);
  assert_int_equal(weft_agent_invalidate(pair.b.agent, pair.b.peer), 0);
  while (weft_agent_notify(pair.a.agent, pair.a.peer, &sent, sizeof sent) == 0)
    sent++;
  assert_true(pair_until(&pair, all_dropped, &sent));
  assert_int_equal(pair_load_metadata(pair.a.agent, pair.b.agent, &pair.b.peer), 0);
  assert_true(pair_until(&pair, send_new, &left));
  assert_int_equal(pair_hear(&pair, &pair.b, text, sizeof text), 4);
  assert_string_equal(text, "new");
}

static void waits_and_signals(void **state) {
  (void)state;
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 4096, NULL);
  int fd;
  assert_int_equal(weft_transfer_fd(transfer, &fd), 0);
  for (uint32_t round = 0; round < 10; round++) {
    assert_int_equal(weft_transfer_post(transfer), 0);
    assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
    uint64_t times = 0;
    while (read(fd, &times, sizeof times) != sizeof times)
      sched_yield(); // whoever ended it is about to
    assert_int_equal(times, 1);
  }
  pair_free(transfer);
}

static void explains_the_choice(void **state) {
  (void)state;
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 4096, NULL);
  const char *lines = weft_transfer_explain(transfer);
  assert_non_null(strstr(lines, "is chosen\n"));
  assert_non_null(strstr(lines, "self: cannot: it serves an agent's own memory only\n"));
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.transport = "self";
  weft_transfer_t *none;
  assert_int_equal(
      weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, transfer->local, transfer->remote, &options, &none),
      WEFT_ERR_UNREACHABLE);
  options.transport = "pigeon";
  assert_int_equal(
      weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, transfer->local, transfer->remote, &options, &none),
      WEFT_ERR_UNSUPPORTED);
  pair_free(transfer);
}

int main(int argc, char **argv) {
  names = "";
  const char *name = argc > 1 ? argv[1] : "loop";
  progress = argc > 2 && strcmp(argv[2], "none") == 0 ? WEFT_AGENT_PROGRESS_NONE : WEFT_AGENT_PROGRESS_THREAD;
  if (strcmp(name, "loop") == 0)
    more[0] = &transport_loop;
  else if (strcmp(name, "free") == 0)
    more[0] = &transport_loop_free;
  else
    names = name;
#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(writes_and_reads),
      CASE(chooses_descriptors),
      CASE(merges_neighbours),
      CASE(regions_do_not_merge),
      CASE(regions_overlap),
      CASE(notifies),
      CASE(notifies_after_many_requests),
      CASE(loops_back),
      CASE(loops_back_much),
      CASE(floods_are_bounded),
      CASE(floods_end_with_the_reader),
      CASE(floods_go_on_from_anew),
      CASE(readers_begin_anew),
      CASE(waits_and_signals),
      CASE(explains_the_choice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
