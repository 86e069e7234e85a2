// Requests of a lane: makes them, renews them, and frees them.
#include "bench/transfer/lane.h"

#include <stdlib.h>
#include <string.h>

#include "base/time/ticks.h"
#include "bench/transfer/lane_run.h"

// --- one request ---

static void free_request(struct transfer_request *request) {
  if (request->transfer)
    weft_transfer_cancel(request->transfer, 1000);
  weft_transfer_free(request->transfer);
  weft_dlist_free(request->local);
  weft_dlist_free(request->remote);
  *request = (struct transfer_request){0};
}

static int make_lists(struct transfer_lane *lane, struct transfer_request *request, uint32_t slot, uint32_t variant,
                      uint32_t member) {
  const struct transfer_load *load = lane->load;
  weft_peer_t peer = 0;
  for (uint64_t i = 0; i < load->batch; i++) {
    struct transfer_block block = {0};
    load->place(load->arg, lane->thread, slot, member, variant, i, &block);
    lane->here[i] = (struct weft_descriptor){.address = (uintptr_t)block.buffer->address + block.offset,
                                             .length = load->block,
                                             .region = block.buffer->region};
    lane->there[i] = (struct weft_descriptor){.address = block.address, .length = load->block, .region = block.region};
    peer = block.peer;
  }
  int err = weft_dlist_create(load->agent, WEFT_PEER_SELF, lane->here, (uint32_t)load->batch, &request->local);
  if (!err)
    err = weft_dlist_create(load->agent, peer, lane->there, (uint32_t)load->batch, &request->remote);
  return err;
}

static int make_transfer(struct transfer_lane *lane, struct transfer_request *request) {
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.transport = lane->load->transport;
  options.timeout_ms = lane->load->timeout_ms;
  return weft_transfer_create(lane->load->agent, lane->load->op, request->local, request->remote, &options,
                              &request->transfer);
}

static struct transfer_request *request_of(struct transfer_lane *lane, uint32_t slot, uint32_t variant,
                                           uint32_t member) {
  const struct transfer_load *load = lane->load;
  return &lane->requests[(slot * (size_t)load->variants + variant) * load->group + member];
}

// --- renewal in the timed loop of --recreate_xfer ---

static int drop(struct transfer_request *request, bool lists) {
  int err = weft_transfer_free(request->transfer);
  if (err)
    return err;
  request->transfer = NULL;
  if (lists) {
    weft_dlist_free(request->local);
    weft_dlist_free(request->remote);
    request->local = request->remote = NULL;
  }
  return 0;
}

// Memory can be registered again only if no request uses it: all requests are dropped, and each is made again when it
// is next posted.
static int reregister(struct transfer_lane *lane) {
  const struct transfer_load *load = lane->load;
  int err = 0;
  for (size_t i = 0; i < (size_t)load->depth * load->variants * load->group && !err; i++)
    err = drop(&lane->requests[i], true);
  for (uint32_t i = 0; i < load->num_reregister && !err; i++)
    err = transfer_buffer_reregister(&load->reregister[i]);
  return err;
}

static int renew_one(struct transfer_lane *lane, struct transfer_request *request, uint32_t slot, uint32_t member) {
  bool lists = !lane->load->prepared || lane->load->num_reregister > 0;
  int err = drop(request, lists);
  if (!err && lists)
    err = make_lists(lane, request, slot, lane->variant[slot], member);
  return err ? err : make_transfer(lane, request);
}

int transfer_lane_renew(struct transfer_lane *lane, uint32_t slot) {
  int err = lane->load->num_reregister > 0 ? reregister(lane) : 0;
  for (uint32_t member = 0; member < lane->load->group && !err; member++)
    err = renew_one(lane, request_of(lane, slot, lane->variant[slot], member), slot, member);
  return err;
}

// --- opening and closing ---

static int make_requests(struct transfer_lane *lane) {
  const struct transfer_load *load = lane->load;
  uint32_t made = 0;
  for (uint32_t slot = 0; slot < load->depth; slot++) {
    for (uint32_t i = 0; i < load->variants * load->group; i++) {
      uint32_t variant = i / load->group, member = i % load->group;
      struct transfer_request *request = request_of(lane, slot, variant, member);
      uint64_t begun = ticks_now();
      int err = make_lists(lane, request, slot, variant, member);
      if (!err && load->prepared)
        begun = ticks_now();
      if (!err)
        err = make_transfer(lane, request);
      if (err)
        return err;
      lane->prep[made++] = ticks_now() - begun;
    }
  }
  lane->num_prep = made;
  return 0;
}

// With most transports the peer's process takes part in a transfer. On a host with few processors, this thread and that
// of its agent would keep the peer from its processor until their time slices end. With shm and cuda the peer takes no
// part and the polls do the work, so that a yield would only cost time.
static uint32_t spin_limit_of(const struct transfer_lane *lane) {
  enum { SHORT = 64, LONG = 4096 };
  return strcmp(lane->transport, "shm") == 0 || strcmp(lane->transport, "cuda") == 0 ? LONG : SHORT;
}

static void name_transport(struct transfer_lane *lane) {
  struct weft_transfer_info info = WEFT_TRANSFER_INFO_INIT;
  if (weft_transfer_get_info(lane->requests[0].transfer, &info) == 0)
    snprintf(lane->transport, sizeof lane->transport, "%s", info.transport);
}

int transfer_lane_open(struct transfer_lane *lane, const struct transfer_load *load, uint32_t thread) {
  size_t requests = (size_t)load->depth * load->variants * load->group;
  size_t most = load->iterations > load->warmup ? load->iterations : load->warmup;
  most = most > load->depth * load->variants ? most : load->depth * load->variants; // each place once
  *lane = (struct transfer_lane){.load = load, .thread = thread};
  ticks_open();
  lane->requests = calloc(requests, sizeof *lane->requests);
  lane->here = calloc(load->batch, sizeof *lane->here);
  lane->there = calloc(load->batch, sizeof *lane->there);
  lane->variant = calloc(load->depth, sizeof *lane->variant);
  lane->slot_number = calloc(load->depth, sizeof *lane->slot_number);
  lane->started = calloc(most, sizeof *lane->started);
  lane->posted = calloc(most, sizeof *lane->posted);
  lane->ended = calloc(most, sizeof *lane->ended);
  lane->prep = calloc(most > requests ? most : requests, sizeof *lane->prep);
  int err = 0;
  if (!lane->requests || !lane->here || !lane->there || !lane->variant || !lane->slot_number || !lane->started ||
      !lane->posted || !lane->ended || !lane->prep)
    err = fail(WEFT_ERR_NOMEM, "no memory for the requests of a thread");
  if (!err)
    err = make_requests(lane);
  if (err)
    transfer_lane_close(lane);
  else
    name_transport(lane);
  lane->spin_limit = spin_limit_of(lane);
  return err;
}

void transfer_lane_close(struct transfer_lane *lane) {
  size_t requests = lane->load ? (size_t)lane->load->depth * lane->load->variants * lane->load->group : 0;
  for (size_t i = 0; lane->requests && i < requests; i++)
    free_request(&lane->requests[i]);
  free(lane->requests);
  free(lane->here);
  free(lane->there);
  free(lane->variant);
  free(lane->slot_number);
  free(lane->started);
  free(lane->posted);
  free(lane->ended);
  free(lane->prep);
  *lane = (struct transfer_lane){0};
}
