// One operation on a GPU. Its kernels run in one stream, with marks around each half. The time between the marks is the
// time of the half on the device, including the wait for peers. If nothing has to be done between the halves, both are
// launched at once.
#include "base/fail.h"
#include "base/time/clock.h"
#include "run/traffic/internal.h"

enum { DISPATCH_BEGIN, DISPATCH_END, COMBINE_BEGIN, COMBINE_END, NUM_MARKS };

enum {
  SPARE_MS = 10000,
  COVER_BYTES = 64 << 20, // a GPU fills this in more time than the host needs to launch two kernels
};

_Static_assert(NUM_MARKS == sizeof((struct traffic *)0)->marks / sizeof(void *), "marks of an operation");

int traffic_gpu_open(struct traffic *t) {
  const struct buffer_home *home = t->home;
  char why[DEVICE_WHY] = "";
  int err = home->api ? buffer_allocate(home, COVER_BYTES, &t->cover) : 0;
  for (int i = 0; home->api && i < NUM_MARKS && !err; i++)
    if ((err = home->api->event_open(home->device, &t->marks[i], why)))
      device_fail(err, "cannot make a CUDA event for times", why);
  return err;
}

void traffic_gpu_close(struct traffic *t) {
  buffer_release(t->home, t->cover, COVER_BYTES);
  for (int i = 0; t->home->api && !t->home->is_stuck && i < NUM_MARKS; i++)
    if (t->marks[i])
      t->home->api->event_close(t->home->device, t->marks[i]);
}

static int set_mark(struct traffic *t, int index) {
  char why[DEVICE_WHY] = "";
  int err = t->home->api->event_record(t->home->device, t->marks[index], t->home->stream, why);
  return err ? device_fail(err, "cannot record a CUDA event for times", why) : 0;
}

// Gives the stream some work. An idle stream would pass a mark at once, and the time of the host's launch would count
// as time of the kernel.
static int keep_busy(struct traffic *t) {
  return buffer_fill(t->home, t->cover, 0, COVER_BYTES);
}

// Waits for the last mark, which comes after the awaited kernels.
static int await_marks(struct traffic *t) {
  char why[DEVICE_WHY] = "";
  int err = t->home->api->stream_wait(t->home->device, t->home->stream, SPARE_MS, why);
  t->home->is_stuck |= err == WEFT_ERR_TIMEOUT;
  return err ? device_fail(err, "cannot wait for the end of an operation", why) : 0;
}

static int time_between(struct traffic *t, int begin, int end, uint64_t *ns) {
  char why[DEVICE_WHY] = "";
  int err = t->home->api->event_elapsed(t->home->device, t->marks[begin], t->marks[end], ns, why);
  return err ? device_fail(err, "cannot read a time between CUDA events", why) : 0;
}

// A half takes up to four waits if peers fall silent one after the other, and each wait may be extended. A kernel that
// takes longer does not end.
static int await(struct traffic *t, uint64_t op, struct weft_ep_info *info, struct weft_ep_result *result) {
  uint64_t limit_ms = (uint64_t)t->config->timeout_ms * 8 * (1 + DEVICE_EXTENSIONS) + SPARE_MS;
  int err = weft_ep_await(t->ep, op, info, result, limit_ms < UINT32_MAX ? (uint32_t)limit_ms : UINT32_MAX);
  if (err != WEFT_ERR_TIMEOUT)
    return err;
  t->home->is_stuck = true;
  return fail_context(err, "the kernels of operation %llu have not ended within %llu ms", (unsigned long long)op,
                      (unsigned long long)limit_ms);
}

static int launch_dispatch(struct traffic *t, const struct weft_ep_dispatch_args *args, struct traffic_op *op) {
  struct weft_ep_recv_args recv = t->place;
  uint64_t expected = op->op;
  int err = set_mark(t, DISPATCH_BEGIN);
  traffic_form_receive(t, &recv);
  op->begin_ns = clock_ns();
  if (!err)
    err = weft_ep_dispatch(t->ep, args, &recv, NULL, &op->op);
  if (!err)
    err = traffic_check_number(expected, op->op);
  return err ? err : set_mark(t, DISPATCH_END);
}

static int launch_combine(struct traffic *t, const struct weft_ep_combine_args *args, struct traffic_op *op) {
  uint64_t expected = op->op;
  int err = set_mark(t, COMBINE_BEGIN);
  if (!err)
    err = traffic_combine(t, args, NULL, &op->op);
  if (!err)
    err = traffic_check_number(expected, op->op);
  return err ? err : set_mark(t, COMBINE_END);
}

static int ask_experts(struct traffic *t, const struct traffic_op *op) {
  int err = await(t, op->op, &t->info, NULL);
  if (!err)
    err = traffic_get_received(t);
  if (!err)
    err = traffic_form_note(t, op);
  if (err)
    return err;
  traffic_experts(t, op->kind);
  err = traffic_form_answer(t);
  return err ? err : traffic_put_answer(t);
}

int traffic_gpu_operate(struct traffic *t, struct weft_ep_dispatch_args *dispatch, struct weft_ep_combine_args *combine,
                        struct traffic_op *op) {
  bool alone = t->form.way == TRAFFIC_COMBINE_ROUTE, asks = t->answer == TRAFFIC_EXPERTS && !alone;
  int err = t->answer == TRAFFIC_HELD ? traffic_hold(t) : 0;
  if (!err && op->in_step)
    err = keep_busy(t);
  if (!err && !alone)
    err = launch_dispatch(t, dispatch, op);
  if (!err && alone)
    op->begin_ns = clock_ns();
  if (!err && asks)
    err = ask_experts(t, op);
  if (!err)
    op->combine_begin_ns = asks ? clock_ns() : 0;
  if (!err)
    err = launch_combine(t, combine, op);
  if (!err)
    err = await(t, op->op, asks || alone ? NULL : &t->info, &t->result);
  if (!err)
    err = await_marks(t);
  if (!err && !alone)
    err = time_between(t, DISPATCH_BEGIN, DISPATCH_END, &op->dispatch_ns);
  if (!err)
    err = time_between(t, COMBINE_BEGIN, COMBINE_END, &op->combine_ns);
  if (!op->combine_begin_ns) // in the stream the combine follows the dispatch
    op->combine_begin_ns = op->begin_ns + op->dispatch_ns;
  return err;
}

int traffic_gpu_rehearse(struct traffic *t) {
  uint64_t ns;
  int err = set_mark(t, DISPATCH_BEGIN);
  if (!err)
    err = keep_busy(t);
  if (!err && (t->config->layout != WEFT_EP_PER_EXPERT || t->config->dtype != WEFT_EP_BF16)) // others hold no rows
    err = traffic_hold(t);
  if (!err)
    err = set_mark(t, DISPATCH_END);
  if (!err)
    err = await_marks(t);
  return err ? err : time_between(t, DISPATCH_BEGIN, DISPATCH_END, &ns);
}
