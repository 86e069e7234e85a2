// How transfers end that fail, are cancelled or are orphaned, and when their resources may be freed. A transport of the
// test holds each transfer as long as the test wants, so that each moment can be checked.
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "agent/memory/region.h"
#include "agent/metadata/describe.h"
#include "agent/peer/load.h"
#include "agent/peer/message_send.h"
#include "agent/progress/submit.h"
#include "agent/support/owned.h"
#include "agent/support/pair.h"
#include "base/time/clock.h"
#include "support/loop.h"
#include "support/wait.h"

static const struct transport *more[2] = {&transport_loop, NULL};
static enum weft_agent_progress progress;
static struct pair pair;
static uint32_t events[WEFT_AGENT_EVENT_PEER_LOST + 1];

// How many such events came to either agent so far.
static uint32_t told(enum weft_agent_event_kind kind) {
  struct weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  while (weft_agent_next_event(pair.a.agent, &event) == 1 || weft_agent_next_event(pair.b.agent, &event) == 1)
    events[event.kind]++;
  return events[kind];
}

// Each tells the other once, at the start, that it lives.
static bool has_sent_a_message(void *arg) {
  (void)arg;
  return atomic_load(&loop.heard) >= 2;
}

static int set_up(void **state) {
  (void)state;
  loop_reset();
  memset(events, 0, sizeof events);
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = progress;
  options.heartbeat_ms = 3600000;
  pair_open(&pair, "", more, &options);
  assert_true(pair_until(&pair, has_sent_a_message, NULL));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  loop_reset();
  pair_close(&pair);
  assert_int_equal(loop_flying(), 0);
  return 0;
}

static bool ended(void *arg) {
  return weft_transfer_poll(arg) != 1;
}

static bool silent(void) {
  for (int i = 0; i < 100; i++) {
    weft_agent_progress(pair.a.agent, NULL);
    weft_agent_progress(pair.b.agent, NULL);
  }
  struct weft_notification got;
  uint32_t count = 1;
  assert_int_equal(weft_agent_notifications(pair.b.agent, &got, count, &count), 0);
  return count == 0;
}

static bool flies(void *before) {
  return loop_flying() > *(const uint32_t *)before;
}

// A post may leave it to the worker's thread to give it to the transport: until then it could be cancelled.
static weft_transfer_t *held(uint64_t length, const struct weft_transfer_options *options) {
  atomic_store(&loop.hold, true);
  uint32_t before = loop_flying();
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, length, options);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_true(pair_until(&pair, flies, &before));
  return transfer;
}

static struct weft_transfer_options with_note(void) {
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.notification = "note";
  options.notification_size = 5;
  return options;
}

static void cancel_waits_until_nothing_moves(void **state) {
  (void)state;
  struct weft_transfer_options options = with_note();
  weft_transfer_t *transfer = held(4096, &options);
  assert_int_equal(weft_transfer_poll(transfer), 1);
  assert_int_equal(weft_transfer_post(transfer), WEFT_ERR_BUSY);
  assert_int_equal(weft_transfer_free(transfer), WEFT_ERR_BUSY);
  // A card that still writes: it cannot be stopped, and says so.
  atomic_store(&loop.deaf, true);
  assert_int_equal(weft_transfer_cancel(transfer, 20), WEFT_ERR_TIMEOUT);
  assert_int_equal(weft_transfer_poll(transfer), 1);
  assert_int_equal(weft_transfer_free(transfer), WEFT_ERR_BUSY);
  atomic_store(&loop.deaf, false);
  assert_int_equal(weft_transfer_cancel(transfer, SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(weft_transfer_poll(transfer), WEFT_ERR_CANCELED);
  assert_true(strlen(weft_transfer_error(transfer)) > 0);
  assert_int_equal(loop_flying(), 0);
  assert_true(silent());
  // What is unmapped now is not touched: this would be the end of the test.
  assert_int_equal(mprotect(pair.a.memory, PAIR_BYTES, PROT_NONE), 0);
  assert_true(silent());
  assert_int_equal(mprotect(pair.a.memory, PAIR_BYTES, PROT_READ | PROT_WRITE), 0);
  // It can be posted again, and the cancellation is forgotten.
  atomic_store(&loop.hold, false);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_true(pair_until(&pair, ended, transfer));
  assert_int_equal(weft_transfer_poll(transfer), 0);
  char text[8];
  assert_int_equal(pair_hear(&pair, &pair.b, text, sizeof text), 5);
  assert_int_equal(weft_transfer_cancel(transfer, 0), 0);
  assert_int_equal(weft_transfer_poll(transfer), 0);
  pair_free(transfer);
}

// What asks for the end may run between the moment in which a post says that it flies and the one in which the
// transport has it: it is in the worker's queue, and served, before there is anything to stop.
static void cancel_overtakes_the_post(void **state) {
  (void)state;
  atomic_store(&loop.hold, true);
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 4096, NULL);
  agent_post_cancel(&transfer->parts[0], atomic_load(&transfer->number) + 1);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_true(pair_until(&pair, ended, transfer));
  assert_int_equal(weft_transfer_poll(transfer), WEFT_ERR_CANCELED);
  assert_int_equal(loop_flying(), 0);
  atomic_store(&loop.hold, false);
  assert_int_equal(weft_transfer_post(transfer), 0); // the next one is not meant
  assert_true(pair_until(&pair, ended, transfer));
  assert_int_equal(weft_transfer_poll(transfer), 0);
  pair_free(transfer);
}

// A small transfer can be posted 2^32 times in ten minutes. Post n + 2^32 is not the one of number n that was
// cancelled.
static void posts_are_counted_beyond_32_bits(void **state) {
  (void)state;
  weft_transfer_t *transfer = held(64, NULL); // number 1
  assert_int_equal(weft_transfer_cancel(transfer, SUPPORT_DEADLINE_MS), 0);
  atomic_store(&loop.hold, false);
  atomic_store(&transfer->number, UINT32_MAX);
  struct weft_transfer_info info = WEFT_TRANSFER_INFO_INIT;
  for (uint64_t i = 1; i <= 2; i++) {
    assert_int_equal(weft_transfer_post(transfer), 0);
    assert_true(pair_until(&pair, ended, transfer));
    assert_int_equal(weft_transfer_poll(transfer), 0);
    assert_int_equal(weft_transfer_get_info(transfer, &info), 0);
    assert_true(info.posts == UINT32_MAX + i);
    assert_true(info.start_ns > 0);
  }
  pair_free(transfer);
}

// A transport that posts a transfer again as soon as its post has ended: as if another thread did this at that moment.
static struct transport reposting;
static _Atomic(weft_transfer_t *) reposted;

static uint32_t progress_and_repost(struct transport_worker *worker) {
  uint32_t count = transport_loop.progress(worker);
  weft_transfer_t *transfer = atomic_load(&reposted);
  if (transfer && !agent_transfer_flies(transfer) && atomic_compare_exchange_strong(&reposted, &transfer, NULL))
    assert_int_equal(weft_transfer_post(transfer), 0);
  return count;
}

static void cancel_does_not_wait_for_the_next_post(void **state) {
  (void)state;
  const struct transport *const with[2] = {&reposting, NULL};
  reposting = transport_loop;
  reposting.progress = progress_and_repost;
  pair_close(&pair);
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = progress;
  pair_open(&pair, "", with, &options);
  weft_transfer_t *transfer = held(4096, NULL);
  atomic_store(&reposted, transfer);
  assert_int_equal(weft_transfer_cancel(transfer, 1000), 0);
  assert_null(atomic_load(&reposted));
  assert_int_equal(weft_transfer_poll(transfer), 1); // the second post is in flight, and is not meant
  atomic_store(&loop.hold, false);
  assert_true(pair_until(&pair, ended, transfer));
  assert_int_equal(weft_transfer_poll(transfer), 0);
  pair_free(transfer);
}

static void deadline_passes(void **state) {
  (void)state;
  struct weft_transfer_options options = with_note();
  options.timeout_ms = 30;
  weft_transfer_t *transfer = held(4096, &options);
  atomic_store(&loop.deaf, true);
  uint64_t until = clock_deadline_ms(SUPPORT_DEADLINE_MS);
  while (atomic_load(&loop.cancels) == 0 && !clock_passed(until))
    assert_int_equal(weft_transfer_poll(transfer), 1);
  for (int i = 0; i < 1000; i++)
    assert_int_equal(weft_transfer_poll(transfer), 1); // over its time, and not over
  atomic_store(&loop.deaf, false);
  assert_true(pair_until(&pair, ended, transfer));
  assert_int_equal(weft_transfer_poll(transfer), WEFT_ERR_TIMEOUT);
  assert_non_null(strstr(weft_transfer_error(transfer), "30 ms"));
  int32_t status = 0;
  uint32_t count = 1;
  assert_int_equal(weft_transfer_status(transfer, &status, count, &count), 0);
  assert_int_equal(status, WEFT_ERR_CANCELED);
  assert_true(silent());
  pair_free(transfer);
}

// A post that was refused is none, and nothing of it was moved.
static void check_refused(weft_transfer_t *transfer, uint64_t posts) {
  struct weft_transfer_info before = WEFT_TRANSFER_INFO_INIT, after = WEFT_TRANSFER_INFO_INIT;
  assert_int_equal(weft_transfer_get_info(transfer, &before), 0);
  assert_int_equal(weft_transfer_post(transfer), WEFT_ERR_PEER_LOST);
  assert_int_equal(weft_transfer_get_info(transfer, &after), 0);
  assert_int_equal(before.posts, posts);
  assert_int_equal(after.posts, posts);
  int32_t status = 0;
  uint32_t count = 1;
  assert_int_equal(weft_transfer_status(transfer, &status, count, &count), 0);
  assert_int_equal(status, WEFT_ERR_PEER_LOST);
}

static bool has_lost(void *arg) {
  (void)arg;
  return told(WEFT_AGENT_EVENT_PEER_LOST) > 0;
}

// Of two transfers one is in flight: it ends when nothing moves any more; the other fails at once.
static void peer_dies(void **state) {
  (void)state;
  struct weft_transfer_options options = with_note();
  weft_transfer_t *flying = held(4096, &options);
  weft_transfer_t *idle = pair_transfer(&pair, WEFT_TRANSFER_READ, 0, 0, 100, NULL);
  atomic_store(&loop.deaf, true);
  loop_kill_peers(1, "its process is gone"); // of a, which opened first
  assert_true(pair_until(&pair, has_lost, NULL));
  assert_int_equal(weft_transfer_poll(flying), 1);
  check_refused(idle, 0);
  assert_int_equal(weft_agent_check(pair.a.agent, pair.a.peer), WEFT_ERR_PEER_LOST);
  assert_non_null(strstr(weft_last_error(), "its process is gone"));
  assert_int_equal(weft_agent_notify(pair.a.agent, pair.a.peer, "", 0), WEFT_ERR_PEER_LOST);
  weft_peer_t found;
  assert_int_equal(weft_agent_find(pair.a.agent, "b", &found), WEFT_ERR_NOT_FOUND);
  atomic_store(&loop.deaf, false);
  assert_true(pair_until(&pair, ended, flying));
  assert_int_equal(weft_transfer_poll(flying), WEFT_ERR_PEER_LOST);
  assert_non_null(strstr(weft_transfer_error(flying), "its process is gone"));
  check_refused(flying, 1);
  assert_int_equal(told(WEFT_AGENT_EVENT_PEER_LOST), 1);
  // The same metadata again is another peer; what belongs to the one before does not come to life.
  atomic_store(&loop.hold, false);
  weft_peer_t again;
  assert_int_equal(pair_load_metadata(pair.b.agent, pair.a.agent, &again), 0);
  assert_true(again != pair.a.peer);
  assert_int_equal(weft_transfer_post(flying), WEFT_ERR_PEER_LOST);
  assert_int_equal(weft_agent_check(pair.a.agent, pair.a.peer), WEFT_ERR_PEER_LOST);
  pair_free(flying);
  pair_free(idle);
  pair.a.peer = again;
  weft_transfer_t *anew = pair_transfer(&pair, WEFT_TRANSFER_READ, 0, 0, 100, NULL);
  assert_int_equal(weft_transfer_post(anew), 0);
  assert_true(pair_until(&pair, ended, anew));
  assert_int_equal(weft_transfer_poll(anew), 0);
  pair_free(anew);
}

// b opens again under its name: the old one has to have ended; what it still says is dropped.
static void incarnations_do_not_mix(void **state) {
  (void)state;
  struct pair other;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = progress;
  pair_open(&other, "", more, &options); // another a and b
  weft_peer_t newer;
  assert_int_equal(pair_load_metadata(other.b.agent, pair.a.agent, &newer), WEFT_ERR_EXISTS);
  assert_int_equal(pair_load_metadata(other.a.agent, pair.a.agent, &newer), WEFT_ERR_EXISTS); // its own name
  assert_int_equal(weft_agent_invalidate(pair.a.agent, pair.a.peer), 0);
  assert_int_equal(told(WEFT_AGENT_EVENT_PEER_LEFT), 1);
  assert_int_equal(weft_agent_invalidate(pair.a.agent, pair.a.peer), WEFT_ERR_PEER_LOST);
  assert_int_equal(pair_load_metadata(other.b.agent, pair.a.agent, &newer), 0);
  uint64_t dropped = atomic_load(&pair.a.agent->dropped);
  assert_int_equal(weft_agent_notify(pair.b.agent, pair.b.peer, "late", 5), 0);
  uint64_t until = clock_deadline_ms(SUPPORT_DEADLINE_MS);
  while (atomic_load(&pair.a.agent->dropped) == dropped && !clock_passed(until))
    weft_agent_progress(pair.a.agent, NULL);
  struct weft_notification got;
  uint32_t count = 1;
  assert_int_equal(weft_agent_notifications(pair.a.agent, &got, count, &count), 0);
  assert_int_equal(count, 0);
  assert_int_equal(atomic_load(&pair.a.agent->dropped), dropped + 1);
  pair_close(&other);
}

static void deregister_is_busy(void **state) {
  (void)state;
  weft_transfer_t *transfer = held(4096, NULL);
  assert_int_equal(weft_agent_deregister(pair.a.agent, pair.a.region), WEFT_ERR_BUSY);
  assert_non_null(strstr(weft_last_error(), "in use by 1 list"));
  assert_non_null(strstr(weft_last_error(), "1 transfer in flight"));
  assert_int_equal(weft_dlist_free(transfer->local), WEFT_ERR_BUSY);
  assert_int_equal(weft_transfer_cancel(transfer, SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(weft_agent_deregister(pair.a.agent, pair.a.region), WEFT_ERR_BUSY);
  pair_free(transfer);
  assert_int_equal(weft_agent_deregister(pair.a.agent, pair.a.region), 0);
  assert_int_equal(weft_agent_deregister(pair.a.agent, pair.a.region), WEFT_ERR_NOT_FOUND);
  assert_non_null(strstr(weft_last_error(), "any more"));
}

// A region of the peer that goes: what was made for it fails in words, other transfers go on.
static void peer_takes_a_region_back(void **state) {
  (void)state;
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  weft_region_t extra;
  memory.address = pair.b.memory + 4096;
  memory.length = 4096;
  assert_int_equal(weft_agent_register(pair.b.agent, &memory, &extra), 0);
  assert_int_equal(pair_load_metadata(pair.b.agent, pair.a.agent, &pair.a.peer), 0);
  assert_int_equal(told(WEFT_AGENT_EVENT_PEER_UPDATED), 1);
  struct pair_end there = pair.b;
  there.region = extra;
  weft_dlist_t *local = pair_list(&pair.a, &pair.a, 0, 100), *remote = pair_list(&pair.a, &there, 4096, 100);
  weft_transfer_t *transfer, *other = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 100, NULL);
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, NULL, &transfer), 0);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_true(pair_until(&pair, ended, transfer));
  struct agent_description *older;
  assert_int_equal(agent_describe(pair.b.agent, NULL, 0, true, &older), 0);
  assert_int_equal(weft_agent_deregister(pair.b.agent, extra), 0);
  assert_int_equal(pair_load_metadata(pair.b.agent, pair.a.agent, &pair.a.peer), 0);
  assert_int_equal(told(WEFT_AGENT_EVENT_PEER_UPDATED), 2);
  assert_int_equal(weft_transfer_post(transfer), WEFT_ERR_NOT_FOUND);
  assert_int_equal(weft_transfer_post(other), 0);
  assert_true(pair_until(&pair, ended, other));
  weft_peer_t same;
  assert_int_equal(agent_adopt(pair.a.agent, older, 0, &same), 0); // too late: changes nothing
  free(older);
  assert_true(same == pair.a.peer);
  struct weft_region_info info[4];
  uint32_t count = 4;
  assert_int_equal(weft_agent_regions(pair.a.agent, pair.a.peer, info, sizeof *info, count, &count), 0);
  assert_int_equal(count, 1);
  assert_true(info[0].region == pair.b.region && info[0].length == PAIR_BYTES);
  pair_free(transfer);
  pair_free(other);
}

static void ids_are_never_used_twice(void **state) {
  (void)state;
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  memory.address = pair.a.memory;
  memory.length = 64;
  weft_region_t first, second;
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &first), 0);
  assert_int_equal(weft_agent_deregister(pair.a.agent, first), 0);
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &second), 0);
  assert_true(second > first);
  agent_set_next_region(pair.a.agent, UINT64_MAX - 1);
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &second), 0);
  assert_true(second == UINT64_MAX - 1);
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &second), WEFT_ERR_LIMIT);
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &second), WEFT_ERR_LIMIT);
}

// One piece fails: its pairs say so, though they were merged, and no notification comes.
static void each_pair_has_its_status(void **state) {
  (void)state;
  struct weft_descriptor here[6], there[6];
  for (int i = 0; i < 6; i++) {
    uint64_t gap = i >= 2 ? 100 : 0; // two pieces: of pairs 0 and 1, of 2 to 5
    here[i] = (struct weft_descriptor){(uintptr_t)pair.a.memory + i * 10 + gap, 10, 0};
    there[i] = (struct weft_descriptor){(uintptr_t)pair.b.memory + i * 10 + gap, 10, 0};
  }
  weft_dlist_t *local, *remote;
  assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, here, 6, &local), 0);
  assert_int_equal(weft_dlist_create(pair.a.agent, pair.a.peer, there, 6, &remote), 0);
  struct weft_transfer_options options = with_note();
  weft_transfer_t *transfer;
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer), 0);
  atomic_store(&loop.fail_piece, 1);
  atomic_store(&loop.fail, WEFT_ERR_DATA);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_true(pair_until(&pair, ended, transfer));
  assert_int_equal(weft_transfer_poll(transfer), WEFT_ERR_DATA);
  assert_non_null(strstr(weft_transfer_error(transfer), "told to fail"));
  int32_t status[6];
  uint32_t count = 6;
  assert_int_equal(weft_transfer_status(transfer, status, count, &count), 0);
  for (int i = 0; i < 6; i++)
    assert_int_equal(status[i], i < 2 ? 0 : WEFT_ERR_DATA);
  assert_true(silent());
  // Refused at the post: all pairs; and the credits of those that failed are there again.
  for (uint32_t i = 0; i < 2 * AGENT_CREDITS; i++) {
    atomic_store(&loop.refuse, WEFT_ERR_BUSY);
    assert_int_equal(weft_transfer_post(transfer), 0);
    assert_true(pair_until(&pair, ended, transfer)); // the thread may have the turn
    assert_int_equal(weft_transfer_poll(transfer), WEFT_ERR_BUSY);
  }
  assert_int_equal(weft_transfer_status(transfer, status, count, &count), 0);
  assert_int_equal(status[0], WEFT_ERR_BUSY);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_true(pair_until(&pair, ended, transfer));
  assert_int_equal(weft_transfer_poll(transfer), 0);
  pair_free(transfer);
}

// Messages arrive in the order of their sending, those behind a held one too.
static void order_is_kept(void **state) {
  (void)state;
  atomic_store(&loop.hold, true);
  for (uint32_t i = 0; i < 100; i++)
    assert_int_equal(weft_agent_notify(pair.a.agent, pair.a.peer, &i, sizeof i), 0);
  assert_true(silent());
  atomic_store(&loop.release, 1);
  uint32_t number;
  pair_hear(&pair, &pair.b, &number, sizeof number);
  assert_int_equal(number, 0);
  assert_true(silent());
  atomic_store(&loop.hold, false);
  for (uint32_t i = 1; i < 100; i++) {
    pair_hear(&pair, &pair.b, &number, sizeof number);
    assert_int_equal(number, i);
  }
}

static bool region_is_gone(void *arg) {
  (void)arg;
  return told(WEFT_AGENT_EVENT_PEER_UPDATED) == 2;
}

// A peer that does not read what is sent to it, but goes on to send, costs a bounded amount of memory. When it reads,
// it learns what it has missed.
static void messages_in_flight_are_bounded(void **state) {
  (void)state;
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  weft_region_t extra;
  memory.address = pair.a.memory;
  memory.length = 4096;
  assert_int_equal(weft_agent_register(pair.a.agent, &memory, &extra), 0);
  assert_int_equal(pair_load_metadata(pair.a.agent, pair.b.agent, &pair.b.peer), 0);
  atomic_store(&loop.hold, true);
  pthread_mutex_lock(&pair.a.agent->lock);
  struct agent_peer *peer = agent_peer_get(pair.a.agent, pair.a.peer);
  pthread_mutex_unlock(&pair.a.agent->lock);
  for (uint32_t i = 0; i < 2 * AGENT_FLYING; i++) {
    agent_credit_send(pair.a.agent, peer);
    assert_int_equal(agent_send(pair.a.agent, peer, AGENT_HEARTBEAT, NULL, 0), 0);
  }
  assert_in_range(loop_flying(), 1, AGENT_FLYING);
  assert_int_equal(weft_agent_deregister(pair.a.agent, extra), 0);
  assert_true(silent());
  assert_in_range(loop_flying(), 1, AGENT_FLYING);
  atomic_store(&loop.hold, false);
  assert_true(pair_until(&pair, region_is_gone, NULL));
}

// Closing with everything in flight, lists and transfers not freed: it waits.
static void closes_with_work_in_flight(void **state) {
  (void)state;
  struct weft_transfer_options options = with_note();
  for (int i = 0; i < 20; i++)
    held(4096, i % 2 ? &options : NULL);
  for (int i = 0; i < 20; i++)
    assert_int_equal(weft_agent_notify(pair.a.agent, pair.a.peer, "x", 1), 0);
  owned_close(pair.a.agent);
  pair.a.agent = NULL;
  assert_int_equal(loop_flying(), 0);
  // b's memory is not written to: it is not there.
  assert_int_equal(mprotect(pair.b.memory, PAIR_BYTES, PROT_NONE), 0);
  weft_agent_progress(pair.b.agent, NULL);
  assert_int_equal(mprotect(pair.b.memory, PAIR_BYTES, PROT_READ | PROT_WRITE), 0);
}

// The transport does not stop in time: what is in flight ends when it closes.
static void closes_on_a_transport_that_hangs(void **state) {
  (void)state;
  held(4096, NULL);
  assert_int_equal(weft_agent_notify(pair.a.agent, pair.a.peer, "x", 1), 0);
  atomic_store(&loop.deaf, true);
  owned_close(pair.a.agent);
  pair.a.agent = NULL;
  assert_int_equal(loop_flying(), 0);
}

// A caller whose wait ends sees that by 1, and keeps the memory: the write goes on, and arrives after the wait.
static void a_wait_ends_before_the_transfer(void **state) {
  (void)state;
  weft_transfer_t *transfer = held(4096, NULL);
  memset(pair.a.memory, 0x11, 4096);
  memset(pair.b.memory, 0, 4096);
  assert_int_equal(weft_transfer_wait(transfer, 0), 1);
  assert_int_equal(weft_transfer_wait(transfer, 20), 1);
  assert_int_equal(weft_transfer_poll(transfer), 1);
  assert_int_equal(weft_transfer_free(transfer), WEFT_ERR_BUSY); // the memory is not the caller's yet
  assert_int_equal(loop_flying(), 1);
  assert_int_equal(pair.b.memory[0], 0);
  memset(pair.a.memory, 0x22, 4096); // who reuses it now changes what arrives
  atomic_store(&loop.hold, false);
  assert_int_equal(weft_transfer_wait(transfer, WEFT_WAIT_FOREVER), 0);
  assert_int_equal(pair.b.memory[4095], 0x22);
  pair_free(transfer);

  // Its own deadline ends it: then nothing touches the memory any more.
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.timeout_ms = 30;
  transfer = held(4096, &options);
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), WEFT_ERR_TIMEOUT);
  assert_int_equal(loop_flying(), 0);
  pair_free(transfer);
}

static uint32_t refusals(weft_transfer_t *transfer, weft_dlist_t *list) {
  struct weft_post post = WEFT_POST_INIT;
  int32_t status;
  uint32_t count;
  uint64_t ns;
  int fd;
  int codes[] = {weft_transfer_post(transfer),      weft_transfer_post_with(transfer, &post),
                 weft_transfer_poll(transfer),      weft_transfer_wait(transfer, 0),
                 weft_transfer_cancel(transfer, 0), weft_transfer_status(transfer, &status, 1, &count),
                 weft_transfer_fd(transfer, &fd),   weft_transfer_estimate(transfer, &ns)};
  uint32_t closed = 0;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    closed += codes[i] == WEFT_ERR_CLOSED;
  weft_transfer_t *made;
  closed += pair.b.agent &&
            weft_transfer_create(pair.b.agent, WEFT_TRANSFER_READ, list, list, NULL, &made) == WEFT_ERR_CLOSED;
  return closed;
}

// What the owner holds when its agent closes stays the owner's: it answers, and it is freed by nobody else.
static void outlives_its_agent(void **state) {
  (void)state;
  weft_transfer_t *done = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 64, NULL);
  assert_int_equal(weft_transfer_post(done), 0);
  assert_int_equal(weft_transfer_wait(done, SUPPORT_DEADLINE_MS), 0);
  struct weft_transfer_options options = with_note();
  weft_transfer_t *flying = held(64, &options), *unused = pair_transfer(&pair, WEFT_TRANSFER_READ, 0, 0, 64, NULL);
  struct weft_post post = WEFT_POST_INIT;
  post.flags = WEFT_POST_COMPLETION;
  assert_int_equal(weft_transfer_post_with(unused, &post), 0);
  weft_transfer_t *all[] = {done, flying, unused};
  weft_agent_close(pair.a.agent);
  pair.a.agent = NULL;
  for (int i = 0; i < 3; i++) {
    weft_dlist_t *local = all[i]->local, *remote = all[i]->remote;
    assert_int_equal(refusals(all[i], local), 9);
    assert_non_null(strstr(weft_last_error(), "closed"));
    assert_non_null(strstr(weft_transfer_explain(all[i]), "is chosen"));
    if (i == 0) // in either order
      assert_int_equal(weft_dlist_free(local), 0);
    assert_int_equal(weft_transfer_free(all[i]), 0);
    assert_int_equal(weft_dlist_free(i == 0 ? NULL : local), 0);
    assert_int_equal(weft_dlist_free(remote), 0);
  }
}

// In the child: 0 where all of it is refused, and can be freed.
static int look_from_a_child(weft_transfer_t *transfer) {
  weft_agent_t *agent = pair.a.agent;
  weft_dlist_t *local = transfer->local, *remote = transfer->remote, *list;
  struct weft_descriptor one = {(uintptr_t)pair.a.memory, 64, 0};
  struct weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  struct weft_notification note;
  uint32_t count, ms;
  weft_peer_t peer;
  int codes[] = {weft_dlist_create(agent, WEFT_PEER_SELF, &one, 1, &list),
                 weft_agent_notify(agent, pair.a.peer, "x", 1),
                 weft_agent_notifications(agent, &note, 1, &count),
                 weft_agent_next_event(agent, &event),
                 weft_agent_completions(agent, NULL, 0, &count),
                 weft_agent_arm(agent, &ms),
                 weft_agent_progress(agent, NULL),
                 weft_agent_find(agent, "b", &peer),
                 weft_agent_deregister(agent, pair.a.region)};
  int right = 0, wanted = sizeof codes / sizeof *codes;
  for (int i = 0; i < wanted; i++)
    right += codes[i] == WEFT_ERR_CLOSED;
  if (right != wanted || !strstr(weft_last_error(), "forked"))
    return 1;
  if (refusals(transfer, local) != 9)
    return 2;
  if (weft_transfer_free(transfer) != 0 || weft_dlist_free(local) != 0 || weft_dlist_free(remote) != 0)
    return 3;
  weft_agent_close(agent);
  return 0;
}

// The child is killed when it has looked: what the transports hold is not its to free, and looks like a leak.
static void a_forked_child_has_no_agent(void **state) {
  (void)state;
  weft_transfer_t *transfer = held(4096, NULL);
  int *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(seen != MAP_FAILED);
  *seen = -1;
  pid_t child = fork();
  if (child == 0) {
    *seen = look_from_a_child(transfer);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  assert_int_equal(*seen, 0);
  munmap(seen, sizeof *seen);
  atomic_store(&loop.hold, false); // and here all goes on
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
  pair_free(transfer);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "free") == 0)
      more[0] = &transport_loop_free;
    else
      progress = WEFT_AGENT_PROGRESS_NONE;
  }
#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(cancel_waits_until_nothing_moves),
      CASE(cancel_overtakes_the_post),
      CASE(posts_are_counted_beyond_32_bits),
      CASE(cancel_does_not_wait_for_the_next_post),
      CASE(deadline_passes),
      CASE(a_wait_ends_before_the_transfer),
      CASE(peer_dies),
      CASE(incarnations_do_not_mix),
      CASE(deregister_is_busy),
      CASE(peer_takes_a_region_back),
      CASE(ids_are_never_used_twice),
      CASE(each_pair_has_its_status),
      CASE(order_is_kept),
      CASE(messages_in_flight_are_bounded),
      CASE(closes_with_work_in_flight),
      CASE(closes_on_a_transport_that_hangs),
      CASE(outlives_its_agent),
      CASE(a_forked_child_has_no_agent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
