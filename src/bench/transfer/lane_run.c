// The timed loops. They write ticks into arrays that were allocated before, and poll the transfers. Only from time to
// time do they check for a signal or a lost worker.
#include "bench/transfer/lane_run.h"

#include <sched.h>

#include "base/signal/stop.h"
#include "base/time/ticks.h"

// Polls without success until a look for signals and losses, and until the thread yields.
enum { LOOK_EVERY = 1024, YIELD_EVERY = 16, LANE_POSTED_EACH = 8, SMALL = 16384 };

static struct transfer_request *requests_of(struct transfer_lane *lane, uint32_t slot) {
  const struct transfer_load *load = lane->load;
  return &lane->requests[(slot * (size_t)load->variants + lane->variant[slot]) * load->group];
}

static int look_around(const struct transfer_load *load) {
  int err = stop_check();
  if (!err && load->ended && load->ended(load->arg))
    err = fail(WEFT_ERR_PEER_LOST, "a worker has gone");
  return err;
}

// 0: all requests of the slot have ended without error; 1: not yet.
static int poll_slot(const struct transfer_request *requests, uint32_t group) {
  int state = 0;
  for (uint32_t i = 0; i < group; i++) {
    int rc = weft_transfer_poll(requests[i].transfer);
    if (rc < 0)
      return fail(rc, "a transfer failed: %s", weft_transfer_error(requests[i].transfer));
    state |= rc;
  }
  return state;
}

static int begin(struct transfer_lane *lane, uint32_t slot, uint64_t number) {
  const struct transfer_load *load = lane->load;
  // A transfer that ends within its post is never waited for, so nothing else would see the signal.
  int err = stop_came() ? look_around(load) : 0;
  if (!err && load->recreate) {
    uint64_t begun = ticks_now();
    err = transfer_lane_renew(lane, slot);
    lane->prep[number] = ticks_now() - begun;
  }
  if (err)
    return err;
  const struct transfer_request *requests = requests_of(lane, slot);
  lane->started[number] = ticks_now();
  for (uint32_t i = 0; i < load->group && !err; i++)
    err = weft_transfer_post(requests[i].transfer);
  lane->posted[number] = ticks_now();
  return err;
}

// Moves the slot to its next place.
static void turn(struct transfer_lane *lane, uint32_t slot) {
  if (lane->load->variants > 1)
    lane->variant[slot] = (lane->variant[slot] + 1) % lane->load->variants;
}

static int spin_or_yield(const struct transfer_lane *lane, uint64_t polls) {
  if (polls > lane->spin_limit && polls % YIELD_EVERY == 0)
    sched_yield();
  return polls % LOOK_EVERY == 0 ? look_around(lane->load) : 0;
}

// The serial loop for one request at a time, with as few instructions as possible between the clock readings. The end
// of one request is the begin of the next, and of small requests only some are timed at their post.
static int run_single(struct transfer_lane *lane, uint32_t count) {
  const struct transfer_load *load = lane->load;
  uint32_t mask = load->block * load->batch <= SMALL ? LANE_POSTED_EACH - 1 : 0;
  uint64_t now = ticks_now();
  int rc = 0;
  for (uint32_t i = 0; i < count; i++) {
    weft_transfer_t *transfer = requests_of(lane, 0)->transfer;
    lane->started[i] = now;
    rc = weft_transfer_post(transfer);
    if (rc != 0)
      return rc;
    lane->posted[i] = (i & mask) == 0 ? ticks_now() : 0;
    uint64_t polls = 0;
    while ((rc = weft_transfer_poll(transfer)) == 1)
      if ((rc = spin_or_yield(lane, ++polls)) != 0)
        return rc;
    lane->ended[i] = now = ticks_now();
    if (rc != 0)
      return fail(rc, "a transfer failed: %s", weft_transfer_error(transfer));
    if (stop_came() && (rc = look_around(load)) != 0)
      return rc;
    turn(lane, 0);
  }
  return 0;
}

static bool is_single(const struct transfer_load *load) {
  return load->depth == 1 && load->group == 1 && !load->recreate;
}

bool transfer_lane_is_brief(const struct transfer_lane *lane) {
  return is_single(lane->load) && lane->load->block * lane->load->batch <= SMALL;
}

// One request after the other, without reading a clock.
static int run_blind(struct transfer_lane *lane, uint32_t count) {
  const struct transfer_load *load = lane->load;
  int rc = 0;
  for (uint32_t i = 0; i < count; i++) {
    weft_transfer_t *transfer = requests_of(lane, 0)->transfer;
    uint64_t polls = 0;
    rc = weft_transfer_post(transfer);
    if (rc != 0)
      return rc;
    while ((rc = weft_transfer_poll(transfer)) == 1)
      if ((rc = spin_or_yield(lane, ++polls)) != 0)
        return rc;
    if (rc != 0)
      return fail(rc, "a transfer failed: %s", weft_transfer_error(transfer));
    if (stop_came() && (rc = look_around(load)) != 0)
      return rc;
    turn(lane, 0);
  }
  return 0;
}

// One iteration after the other.
static int run_serial(struct transfer_lane *lane, uint32_t count) {
  const struct transfer_load *load = lane->load;
  int err = 0;
  for (uint32_t i = 0; i < count && !err; i++) {
    err = begin(lane, 0, i);
    const struct transfer_request *requests = requests_of(lane, 0);
    uint64_t polls = 0;
    while (!err && (err = poll_slot(requests, load->group)) == 1)
      err = spin_or_yield(lane, ++polls);
    lane->ended[i] = ticks_now();
    turn(lane, 0);
  }
  return err;
}

// Keeps `depth` iterations under way: a slot begins again as soon as it has ended. At the end it waits for all.
static int run_ring(struct transfer_lane *lane, uint32_t count) {
  const struct transfer_load *load = lane->load;
  uint32_t begun = 0, done = 0, slots = load->depth < count ? load->depth : count;
  uint64_t polls = 0;
  int err = 0;
  for (; begun < slots && !err; begun++) {
    lane->slot_number[begun] = begun;
    err = begin(lane, begun, begun);
  }
  while (done < count && !err) {
    for (uint32_t slot = 0; slot < slots && !err; slot++) {
      uint64_t number = lane->slot_number[slot];
      int state = number == UINT64_MAX ? 1 : poll_slot(requests_of(lane, slot), load->group);
      if (state != 0) {
        err = state < 0 ? state : 0;
        continue;
      }
      lane->ended[number] = ticks_now();
      polls = 0;
      done++;
      turn(lane, slot);
      lane->slot_number[slot] = begun < count ? begun : UINT64_MAX;
      if (begun < count)
        err = begin(lane, slot, begun++);
    }
    if (!err)
      err = spin_or_yield(lane, ++polls);
  }
  return err;
}

// Afterwards nothing is under way, whatever happened before.
static void cancel_all(struct transfer_lane *lane) {
  const struct transfer_load *load = lane->load;
  for (size_t i = 0; i < (size_t)load->depth * load->variants * load->group; i++)
    if (lane->requests[i].transfer)
      weft_transfer_cancel(lane->requests[i].transfer, 1000);
}

// Ends a run. If it failed, keeps its sentence, and cancels what is under way.
static int end_run(struct transfer_lane *lane, int err) {
  if (err) {
    snprintf(lane->why, sizeof lane->why, "%s", weft_last_error());
    cancel_all(lane);
    fail(err, "%s", lane->why);
  }
  return lane->err = err;
}

int transfer_lane_run(struct transfer_lane *lane, uint32_t count) {
  lane->begin_ns = clock_ns();
  lane->begin_ticks = ticks_now();
  int err = is_single(lane->load)    ? run_single(lane, count)
            : lane->load->depth == 1 ? run_serial(lane, count)
                                     : run_ring(lane, count);
  lane->end_ns = clock_ns();
  if (lane->load->recreate)
    lane->num_prep = count;
  return end_run(lane, err);
}

int transfer_lane_rate(struct transfer_lane *lane, uint32_t count) {
  lane->rate_begin_ns = clock_ns();
  int err = run_blind(lane, count);
  lane->rate_end_ns = clock_ns();
  return end_run(lane, err);
}
