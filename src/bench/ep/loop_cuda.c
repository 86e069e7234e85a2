// Operations on CUDA memory, timed by events in the stream: the time of a half on the device, with its waits for peers.
//
// Work before the timed operation keeps the stream busy, so that everything is launched before it runs; otherwise the
// time that the host needs for launches would be counted. An untimed pair follows, since the hosts alone would begin
// some microseconds apart. A pair with many tokens leaves the ranks up to 15 us apart, so a pair without tokens follows
// it.
#include "bench/ep/rank.h"

enum {
  MAX_MARKS = 5,
  IN_GRAPH = 8, // pairs in a graph; with a single one the launch of the graph would count too much
  SPARE_MS = 10000,
  COVER_BYTES = 64 << 20, // a GPU takes longer to fill so much than the host to launch the first kernels
};

struct timer {
  struct bench_ep_rank *rank;
  void *marks[MAX_MARKS];
  void *graph;
};

static int open_timer(struct timer *timer) {
  const struct buffer_home *home = &timer->rank->home;
  char why[DEVICE_WHY] = "";
  int err = 0;
  for (int i = 0; i < MAX_MARKS && !err; i++)
    if ((err = home->api->event_open(home->device, &timer->marks[i], why)))
      device_fail(err, "cannot make a CUDA event for times", why);
  return err;
}

static void close_timer(struct timer *timer) {
  const struct buffer_home *home = &timer->rank->home;
  if (home->is_stuck)
    return;
  for (int i = 0; i < MAX_MARKS; i++)
    if (timer->marks[i])
      home->api->event_close(home->device, timer->marks[i]);
  if (timer->graph)
    home->api->graph_close(home->device, timer->graph);
}

static int set_mark(struct timer *timer, int index) {
  const struct buffer_home *home = &timer->rank->home;
  char why[DEVICE_WHY] = "";
  int err = home->api->event_record(home->device, timer->marks[index], home->stream, why);
  return err ? device_fail(err, "cannot record a CUDA event for times", why) : 0;
}

static int time_since(struct timer *timer, int index, uint64_t *ns) {
  const struct buffer_home *home = &timer->rank->home;
  char why[DEVICE_WHY] = "";
  int err = home->api->event_elapsed(home->device, timer->marks[index - 1], timer->marks[index], ns, why);
  return err ? device_fail(err, "cannot read a time between CUDA events", why) : 0;
}

// --- launches ---

static int launch_dispatch(struct bench_ep_rank *r, uint64_t *op) {
  return weft_ep_dispatch(r->ep, &r->dispatch, &r->traffic->place, NULL, op);
}

static int launch_combine(struct bench_ep_rank *r, uint64_t op) {
  return weft_ep_combine(r->ep, op, &r->combine, NULL);
}

static int launch_pair(struct bench_ep_rank *r, uint64_t *op) {
  int err = launch_dispatch(r, op);
  return err ? err : launch_combine(r, *op);
}

// Launches a pair of the timed kind, and with many tokens a pair without tokens, after which the ranks are close
// together.
static int launch_ahead(struct bench_ep_rank *r, uint64_t *op) {
  const struct weft_ep_dispatch_args timed = r->dispatch;
  int err = launch_pair(r, op);
  if (err || r->config->mode != BENCH_EP_THROUGHPUT)
    return err;
  r->dispatch.num_tokens = 0;
  r->dispatch.route = NULL;
  err = launch_pair(r, op);
  r->dispatch = timed;
  return err;
}

static int launch_both(struct timer *timer, uint64_t *op) {
  int err = set_mark(timer, 0);
  if (!err)
    err = launch_pair(timer->rank, op);
  return err ? err : set_mark(timer, 1);
}

static int launch_parts(struct timer *timer, uint64_t *op) {
  int err = set_mark(timer, 0);
  if (!err)
    err = launch_dispatch(timer->rank, op);
  if (!err)
    err = set_mark(timer, 1);
  if (!err)
    err = launch_combine(timer->rank, *op);
  return err ? err : set_mark(timer, 2);
}

static int launch_split(struct timer *timer, uint64_t *op) {
  struct bench_ep_rank *r = timer->rank;
  int err = set_mark(timer, 0);
  if (!err)
    err = weft_ep_dispatch_send(r->ep, &r->dispatch, op);
  if (!err)
    err = set_mark(timer, 1);
  if (!err)
    err = weft_ep_dispatch_recv(r->ep, *op, &r->traffic->place, NULL);
  if (!err)
    err = set_mark(timer, 2);
  if (!err)
    err = weft_ep_combine_send(r->ep, *op, &r->combine);
  if (!err)
    err = set_mark(timer, 3);
  if (!err)
    err = weft_ep_combine_recv(r->ep, *op, &r->combine, NULL);
  return err ? err : set_mark(timer, 4);
}

// --- the graph ---

static int capture(struct timer *timer) {
  struct bench_ep_rank *r = timer->rank;
  const struct buffer_home *home = &r->home;
  char why[DEVICE_WHY] = "";
  uint64_t op;
  int err = home->api->graph_begin ? home->api->graph_begin(home->device, home->stream, why)
                                   : fail(WEFT_ERR_UNSUPPORTED, "--graph: this plug-in makes no CUDA graphs");
  if (err)
    return home->api->graph_begin ? device_fail(err, "--graph", why) : err;
  for (int i = 0; i < IN_GRAPH && !err; i++)
    err = launch_pair(r, &op);
  int ended = home->api->graph_end(home->device, home->stream, &timer->graph, why);
  if (err)
    return fail_context(err, "--graph");
  return ended ? device_fail(ended, "--graph", why) : 0;
}

static int launch_graph(struct timer *timer, uint64_t *op) {
  const struct buffer_home *home = &timer->rank->home;
  char why[DEVICE_WHY] = "";
  *op = UINT64_MAX; // the last operation of the replay, whichever it is
  int err = set_mark(timer, 0);
  if (!err && (err = home->api->graph_launch(home->device, timer->graph, home->stream, why)) != 0)
    device_fail(err, "--graph", why);
  return err ? err : set_mark(timer, 1);
}

// --- the loop ---

// Waits for the end of the stream, and then asks for the operation. After a replay this is the last one that ran.
static int await_end(struct timer *timer, uint64_t op) {
  struct bench_ep_rank *r = timer->rank;
  struct traffic *t = r->traffic;
  char why[DEVICE_WHY] = "";
  uint64_t wait_limit = ((uint64_t)r->config->common.timeout_ms * 8 * (1 + DEVICE_EXTENSIONS) + SPARE_MS) * IN_GRAPH;
  uint32_t wait_limit_ms = wait_limit < UINT32_MAX ? (uint32_t)wait_limit : UINT32_MAX - 1;
  int err = r->home.api->stream_wait(r->home.device, r->home.stream, wait_limit_ms, why);
  r->home.is_stuck |= err == WEFT_ERR_TIMEOUT;
  if (err)
    return device_fail(err, "cannot wait for the end of an operation", why);
  return weft_ep_await(r->ep, op, &t->info, &t->result, SPARE_MS);
}

static int keep(struct timer *timer, uint32_t iteration) {
  struct bench_ep_rank *r = timer->rank;
  int err = 0;
  if (iteration < r->config->warmup)
    return 0;
  for (uint32_t i = 0; i < bench_ep_times_of(r->point->loop) && !err; i++) {
    uint64_t *ns = &bench_ep_times(r->board, r->index, i)[iteration - r->config->warmup];
    err = time_since(timer, (int)i + 1, ns);
    if (!err && r->point->loop == BENCH_EP_GRAPH)
      *ns /= IN_GRAPH;
  }
  return err;
}

static int iterate(struct timer *timer, uint32_t iteration) {
  static int (*const launches[])(struct timer * timer, uint64_t * op) = {[BENCH_EP_PAIR] = launch_both,
                                                                         [BENCH_EP_PARTS] = launch_parts,
                                                                         [BENCH_EP_SPLIT] = launch_split,
                                                                         [BENCH_EP_GRAPH] = launch_graph};
  struct bench_ep_rank *r = timer->rank;
  uint64_t op;
  bench_ep_forget(r);
  int err = weft_ep_barrier(r->ep);
  if (!err)
    err = buffer_fill(&r->home, r->traffic->cover, 0, COVER_BYTES);
  if (!err) // an untimed operation of the same kind runs before the timed one
    err = timer->graph ? launch_graph(timer, &op) : launch_ahead(r, &op);
  if (!err)
    err = launches[r->point->loop](timer, &op);
  if (!err)
    err = await_end(timer, op);
  if (!err)
    err = bench_ep_group_whole(r);
  return err ? err : keep(timer, iteration);
}

int bench_ep_loop_cuda(struct bench_ep_rank *r) {
  struct timer timer = {.rank = r};
  bool last = false;
  int err = open_timer(&timer);
  if (!err && r->point->loop == BENCH_EP_GRAPH)
    err = capture(&timer);
  for (uint32_t i = 0; !err && !last; i++) {
    err = iterate(&timer, i);
    last = !err && bench_ep_progress(r, i, r->traffic->info.mark);
  }
  close_timer(&timer);
  return err;
}
