// Operations on host memory, timed by the host's clock.
//
// A barrier comes before the timed part, so that the ranks begin within the time that a word takes from one to the
// other: the times then show the operation, and not that some ranks begin later. The time of the barrier is not
// counted.
#include "base/time/clock.h"
#include "bench/ep/rank.h"

// Copies the times of the operation to the board, unless it belongs to the warm-up.
static void keep(struct bench_ep_rank *r, uint32_t iteration, const uint64_t *at, uint32_t count) {
  if (iteration < r->config->warmup)
    return;
  for (uint32_t i = 0; i < count; i++)
    bench_ep_times(r->board, r->index, i)[iteration - r->config->warmup] = at[i];
}

static int run_pair(struct bench_ep_rank *r, uint64_t *ns) {
  struct traffic *t = r->traffic;
  uint64_t op, begin = clock_ns();
  int err = weft_ep_dispatch(r->ep, &r->dispatch, &t->place, &t->info, &op);
  if (!err)
    err = weft_ep_combine(r->ep, op, &r->combine, &t->result);
  ns[0] = clock_ns() - begin;
  return err;
}

static int run_parts(struct bench_ep_rank *r, uint64_t *ns) {
  struct traffic *t = r->traffic;
  uint64_t op, begin = clock_ns();
  int err = weft_ep_dispatch(r->ep, &r->dispatch, &t->place, &t->info, &op);
  ns[0] = clock_ns() - begin;
  if (!err)
    err = weft_ep_barrier(r->ep);
  begin = clock_ns();
  if (!err)
    err = weft_ep_combine(r->ep, op, &r->combine, &t->result);
  ns[1] = clock_ns() - begin;
  return err;
}

static int run_split(struct bench_ep_rank *r, uint64_t *ns) {
  struct traffic *t = r->traffic;
  uint64_t op, at[6] = {clock_ns()};
  int err = weft_ep_dispatch_send(r->ep, &r->dispatch, &op);
  at[1] = clock_ns();
  if (!err)
    err = weft_ep_dispatch_recv(r->ep, op, &t->place, &t->info);
  at[2] = clock_ns();
  if (!err)
    err = weft_ep_barrier(r->ep);
  at[3] = clock_ns();
  if (!err)
    err = weft_ep_combine_send(r->ep, op, &r->combine);
  at[4] = clock_ns();
  if (!err)
    err = weft_ep_combine_recv(r->ep, op, &r->combine, &t->result);
  at[5] = clock_ns();
  ns[0] = at[1] - at[0];
  ns[1] = at[2] - at[1];
  ns[2] = at[4] - at[3];
  ns[3] = at[5] - at[4];
  return err;
}

int bench_ep_loop_host(struct bench_ep_rank *r) {
  static int (*const runs[])(struct bench_ep_rank * r, uint64_t * ns) = {
      [BENCH_EP_PAIR] = run_pair, [BENCH_EP_PARTS] = run_parts, [BENCH_EP_SPLIT] = run_split};
  uint64_t ns[BENCH_EP_MAX_TIMES];
  bool last = false;
  for (uint32_t i = 0; !last; i++) {
    bench_ep_forget(r);
    int err = weft_ep_barrier(r->ep);
    if (!err)
      err = runs[r->point->loop](r, ns);
    if (!err)
      err = bench_ep_group_whole(r);
    if (err)
      return err;
    keep(r, i, ns, bench_ep_times_of(r->point->loop));
    last = bench_ep_progress(r, i, r->traffic->info.mark);
  }
  return 0;
}
