// The measurements: latency of single transfers, bandwidth with several under way.
#include "p2p/measure.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"

enum {
  MAX_DEPTH = 256,
  SMALL = 65536, // smaller transfers read the clock once for 16 of them
};

// The transfers of a load, one for each place.
struct p2p_lane {
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfers[MAX_DEPTH];
  uint32_t count;
};

uint32_t p2p_places(uint64_t length, uint64_t bytes, uint32_t depth) {
  uint64_t places = length / bytes;
  places = places < depth ? places : depth;
  return places < MAX_DEPTH ? (uint32_t)places : MAX_DEPTH;
}

static void close_lane(struct p2p_lane *lane) {
  for (uint32_t i = 0; i < lane->count; i++) {
    weft_transfer_cancel(lane->transfers[i], 1000);
    weft_transfer_free(lane->transfers[i]);
  }
  weft_dlist_free(lane->local);
  weft_dlist_free(lane->remote);
}

static int make_lists(struct p2p_lane *lane, struct p2p_session *session, const struct p2p_load *load, uint32_t places,
                      const struct p2p_buffer *local, const struct p2p_remote *remote) {
  struct weft_descriptor here[MAX_DEPTH] = {{0}}, there[MAX_DEPTH] = {{0}};
  for (uint32_t i = 0; i < places; i++) {
    here[i] = (struct weft_descriptor){
        .address = (uintptr_t)local->address + i * load->bytes, .length = load->bytes, .region = local->region};
    there[i] = remote->each ? (struct weft_descriptor){.length = load->bytes, .region = remote->each[i]}
                            : (struct weft_descriptor){.address = remote->address + i * load->bytes,
                                                       .length = load->bytes,
                                                       .region = remote->region};
  }
  int rc = weft_dlist_create(session->agent, WEFT_PEER_SELF, here, places, &lane->local);
  if (rc == 0)
    rc = weft_dlist_create(session->agent, session->peer, there, places, &lane->remote);
  return rc;
}

static int open_lane(struct p2p_lane *lane, struct p2p_session *session, const struct p2p_load *load, uint32_t places,
                     const struct p2p_buffer *local, const struct p2p_remote *remote) {
  *lane = (struct p2p_lane){0};
  int rc = make_lists(lane, session, load, places, local, remote);
  for (uint32_t i = 0; i < places && rc == 0; i++) {
    struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
    options.local_index = options.remote_index = &i;
    options.num_index = 1;
    options.transport = load->transport && !strchr(load->transport, ',') ? load->transport : NULL;
    rc = weft_transfer_create(session->agent, load->op, lane->local, lane->remote, &options, &lane->transfers[i]);
    lane->count += rc == 0;
  }
  if (rc != 0)
    close_lane(lane);
  return rc;
}

// The deadline is the transfer's own.
static int finish(weft_transfer_t *transfer) {
  int rc;
  while ((rc = weft_transfer_poll(transfer)) == 1)
    if (stop_came())
      return stop_check(); // close_lane() cancels it
  return rc == 0 ? 0 : fail(rc, "a transfer failed: %s", weft_transfer_error(transfer));
}

static int once(weft_transfer_t *transfer) {
  int rc = stop_check(); // a transfer that ends within the post is never polled
  if (rc == 0)
    rc = weft_transfer_post(transfer);
  return rc == 0 ? finish(transfer) : rc;
}

// The transport's name is the first word of the explanation.
static void name_transport(weft_transfer_t *transfer, char out[32]) {
  const char *text = weft_transfer_explain(transfer);
  size_t size = strcspn(text, " :\n");
  snprintf(out, 32, "%.*s", (int)(size < 31 ? size : 31), text);
}

int p2p_latency(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                const struct p2p_remote *remote, struct histogram *latency, char transport[32]) {
  struct p2p_lane lane;
  int rc = open_lane(&lane, session, load, 1, local, remote);
  if (rc != 0)
    return rc;
  *latency = (struct histogram){0};
  name_transport(lane.transfers[0], transport);
  uint64_t ended = clock_ns();
  for (uint32_t i = 0; i < load->warmup + load->iterations && rc == 0; i++) {
    rc = p2p_say_work(session, ended);
    if (rc != 0)
      break;
    uint64_t begun = clock_ns();
    rc = once(lane.transfers[0]);
    ended = clock_ns();
    if (i >= load->warmup)
      histogram_add(latency, ended - begun);
  }
  close_lane(&lane);
  return rc;
}

// Posts `count` transfers in all; posts the transfer of a place again when it has ended.
static int stream(struct p2p_session *session, const struct p2p_load *load, struct p2p_lane *lane, uint32_t count) {
  uint32_t every = load->bytes < SMALL ? 16 : 1;
  int rc = 0;
  for (uint32_t i = 0; i < count && rc == 0; i++) {
    weft_transfer_t *transfer = lane->transfers[i % lane->count];
    rc = i >= lane->count ? finish(transfer) : 0;
    if (rc == 0)
      rc = stop_check();
    if (rc == 0 && i % every == 0)
      rc = p2p_say_work(session, clock_ns());
    if (rc == 0)
      rc = weft_transfer_post(transfer);
  }
  for (uint32_t i = 0; i < lane->count && i < count && rc == 0; i++)
    rc = finish(lane->transfers[i]);
  return rc;
}

// The number of places for the load in that buffer, at least one. INVALID: there is no room for it.
static int count_places(const struct p2p_load *load, const struct p2p_buffer *local, uint32_t *places) {
  *places = p2p_places(local->length, load->bytes, load->depth);
  if (*places > 0)
    return 0;
  return fail(WEFT_ERR_INVALID, "a load of %" PRIu64 " bytes at once in a buffer of %" PRIu64, load->bytes,
              local->length);
}

// The first touch of a page is slow.
static int warm_up(struct p2p_session *session, const struct p2p_load *load, struct p2p_lane *lane) {
  return stream(session, load, lane, load->warmup > lane->count ? load->warmup : lane->count);
}

int p2p_bandwidth(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                  const struct p2p_remote *remote, double *gbps) {
  struct p2p_lane lane;
  uint32_t places;
  int rc = count_places(load, local, &places);
  if (rc == 0)
    rc = open_lane(&lane, session, load, places, local, remote);
  if (rc != 0)
    return rc;
  uint32_t count = load->iterations > places ? load->iterations : places; // so that every place is written
  rc = warm_up(session, load, &lane);
  uint64_t begun = clock_ns();
  if (rc == 0)
    rc = stream(session, load, &lane, count);
  if (rc == 0)
    *gbps = (double)load->bytes * count / (double)(clock_ns() - begun);
  close_lane(&lane);
  return rc;
}

// --- a load that goes on until somebody has seen enough ---

int p2p_lane_open(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                  const struct p2p_remote *remote, struct p2p_lane **out) {
  uint32_t places;
  int rc = count_places(load, local, &places);
  if (rc != 0)
    return rc;
  struct p2p_lane *lane = malloc(sizeof *lane);
  if (!lane)
    return fail(WEFT_ERR_NOMEM, "no memory for the transfers");
  rc = open_lane(lane, session, load, places, local, remote);
  if (rc != 0) {
    free(lane);
    return rc;
  }
  rc = warm_up(session, load, lane);
  if (rc == 0)
    *out = lane;
  else
    p2p_lane_close(lane);
  return rc;
}

void p2p_lane_close(struct p2p_lane *lane) {
  if (lane)
    close_lane(lane);
  free(lane);
}

int p2p_lane_run(struct p2p_lane *lane, uint32_t every, p2p_look *look, void *arg) {
  uint64_t posted = 0;
  int rc = look(arg, 0);
  for (; rc == 0; posted++) {
    weft_transfer_t *transfer = lane->transfers[posted % lane->count];
    uint64_t ended = posted < lane->count ? 0 : posted - lane->count + 1;
    rc = ended > 0 ? finish(transfer) : 0;
    if (rc == 0)
      rc = stop_check();
    if (rc == 0 && ended > 0 && ended % every == 0)
      rc = look(arg, ended);
    if (rc == 0)
      rc = weft_transfer_post(transfer);
    if (rc != 0)
      break;
  }
  for (uint32_t i = 0; rc == 1 && i < lane->count; i++) { // transfers that are still under way
    int ended = finish(lane->transfers[i]);
    rc = ended != 0 ? ended : rc;
  }
  return rc == 1 ? 0 : rc;
}
