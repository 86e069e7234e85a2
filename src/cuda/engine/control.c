// The data that the host writes for the kernels (views, control words, seats), the beginning of the first operation,
// and the data that any thread may read from the kernels. The copy engine copies all of it in a separate stream, so
// that it reaches running kernels and waits for none of them.
#include "cuda/engine/engine.h"

#include "base/time/clock.h"

#include <string.h>

// slices and spinning time of a wait for a joiner's first operation
enum { SLICE_NS = 20 * 1000 * 1000, SPIN_MS = 200 };

static int await_copies(struct device_ep *ep, const char *what, char *why) {
  int rc = cuda_await(ep->control, CUDA_OWN_WORK_MS * (uint64_t)1000000, what, why);
  ep->copying = rc != 0;
  return rc;
}

// Copies from `out` to the device; kernels launched after the return see it. Under the lock, within a guard.
static int put(struct device_ep *ep, void *to, size_t size, const char *what, char *why) {
  int rc = cuda_check(why, cudaMemcpyAsync(to, &ep->host->out, size, cudaMemcpyHostToDevice, ep->control), what);
  return rc ? rc : await_copies(ep, what, why);
}

static void leave(struct device_ep *ep, const struct cuda_guard *guard) {
  pthread_mutex_unlock(&ep->lock);
  cuda_leave(guard);
}

// If an earlier call stopped waiting for its copy, the copy may still read `out`. So this waits for its end before
// `out` is written.
static int enter(struct device_ep *ep, struct cuda_guard *guard, char *why) {
  int rc = cuda_enter(ep->device, guard, why);
  if (rc != 0)
    return rc;
  pthread_mutex_lock(&ep->lock);
  rc = ep->copying ? await_copies(ep, "a copy of a call before", why) : 0;
  if (rc != 0)
    leave(ep, guard);
  return rc;
}

// Epoch of the newest view that the kernels have decided on.
static uint64_t active_epoch(const struct device_ep *ep) {
  const struct device_report *report = &ep->host->report;
  uint64_t epoch = __atomic_load_n(&ep->begun, __ATOMIC_ACQUIRE), count = report->activations;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (count > 0 && report->activation[(count - 1) % DEVICE_ACTIVATIONS].epoch > epoch)
    epoch = report->activation[(count - 1) % DEVICE_ACTIVATIONS].epoch;
  return epoch;
}

// An entry whose view no kernel will look for: one that was never used, or the oldest one, if it is older than the
// active view, or than `needed`.
static int find_place(const struct device_ep *ep, uint64_t needed) {
  int oldest = 0;
  if (needed < active_epoch(ep))
    needed = active_epoch(ep);
  for (int i = 1; i < CUDA_PUBLISHED; i++)
    if (ep->published[i] < ep->published[oldest])
      oldest = i;
  return ep->published[oldest] == 0 || ep->published[oldest] < needed ? oldest : -1;
}

static int check_view(const struct device_ep *ep, const struct device_view *view, char *why) {
  if (view->epoch <= ep->newest || view->epoch > UINT32_MAX)
    return cuda_why(why, WEFT_ERR_INVALID, "view %llu comes after view %llu: want ascending epochs below 2^32",
                    (unsigned long long)view->epoch, (unsigned long long)ep->newest);
  if (view->count > ep->members) // a view without members exists after the last ranks have left
    return cuda_why(why, WEFT_ERR_LIMIT,
                    "view %llu has %u ranks: want at most %u, for which the kernels have shared memory at these sizes",
                    (unsigned long long)view->epoch, view->count, ep->members);
  for (uint32_t i = 0; i < view->count; i++) {
    const struct device_member *m = &view->members[i];
    bool own = m->rank == ep->options.rank, none = m->seat == DEVICE_NO_SEAT;
    if ((i > 0 && m->rank <= m[-1].rank) || (m->seat >= DEVICE_SEATS && (!none || own)) ||
        (!own && !none && (!m->in || !m->out)))
      return cuda_why(why, WEFT_ERR_INVALID,
                      "view %llu: rank %d is out of order, or has seat %u without areas: want ascending ranks",
                      (unsigned long long)view->epoch, m->rank, m->seat);
  }
  return 0;
}

static void fill_view(const struct device_ep *ep, const struct device_view *view, struct cuda_view *out) {
  memset(out, 0, sizeof *out);
  out->count = view->count;
  out->by_count = cuda_divisor_of(view->count ? view->count : 1);
  out->self = CUDA_NOT_A_MEMBER;
  for (uint32_t i = 0; i < view->count; i++) {
    const struct device_member *m = &view->members[i];
    struct cuda_member *to = &out->members[i];
    to->rank = m->rank;
    to->seat = m->seat;
    out->seats |= m->seat < DEVICE_SEATS ? UINT64_C(1) << m->seat : 0;
    if (m->rank == ep->options.rank) {
      out->self = i;
      to->in = to->out = ep->area;
    } else if (m->seat != DEVICE_NO_SEAT) {
      to->in = m->in;
      to->out = m->out;
    }
  }
}

// A kernel that reads the entry meanwhile finds epoch 0 there, or the whole view: each copy ends before the next one
// begins. So a kernel that finds the view also finds that one of its links is slow; the control words may arrive later.
static int write_view(struct device_ep *ep, const struct device_view *view, struct cuda_view *place, char *why) {
  ep->host->out.word = 0;
  int rc = put(ep, &place->epoch, sizeof place->epoch, "clearing an old view", why);
  if (rc == 0) {
    fill_view(ep, view, &ep->host->out.view);
    rc = put(ep, place, sizeof *place, "publishing a view", why);
  }
  if (rc == 0 && __atomic_load_n(&ep->device->strict, __ATOMIC_ACQUIRE)) {
    ep->host->out.word = true;
    rc = put(ep, &ep->state->control.strict, sizeof ep->state->control.strict, "publishing that a link is slow", why);
  }
  if (rc == 0) {
    ep->host->out.word = view->epoch;
    rc = put(ep, &place->epoch, sizeof place->epoch, "publishing a view", why);
  }
  return rc;
}

int cuda_ep_publish(struct device_ep *ep, const struct device_view *view, char *why) {
  struct cuda_guard guard;
  int rc = enter(ep, &guard, why);
  if (rc != 0)
    return rc;
  rc = check_view(ep, view, why);
  int place = find_place(ep, view->oldest);
  if (rc == 0 && place < 0)
    rc = cuda_why(why, WEFT_ERR_BUSY, "%d views wait to take effect already: try again when one has", CUDA_PUBLISHED);
  if (rc == 0) {
    ep->published[place] = 0;
    rc = write_view(ep, view, &ep->state->published[place], why);
  }
  if (rc == 0) {
    ep->published[place] = ep->newest = view->epoch;
    __atomic_store_n(&ep->ranks, view->count, __ATOMIC_RELAXED); // a launch may read it at the same time
  }
  leave(ep, &guard);
  return rc;
}

int cuda_ep_control(struct device_ep *ep, const struct device_control *control, char *why) {
  struct cuda_guard guard;
  int rc = enter(ep, &guard, why);
  if (rc != 0)
    return rc;
  ep->host->out.control = (struct cuda_control){.ready = control->ready,
                                                .mark = control->mark,
                                                .gone = control->gone,
                                                .masked = control->masked,
                                                .timeout_ns = ep->options.timeout_ns,
                                                .strict = __atomic_load_n(&ep->device->strict, __ATOMIC_ACQUIRE),
                                                .operations_per_step = ep->options.operations_per_step};
  rc = put(ep, &ep->state->control, sizeof ep->state->control, "writing the control words", why);
  leave(ep, &guard);
  return rc;
}

int cuda_ep_seat(struct device_ep *ep, uint32_t seat, char *why) {
  struct cuda_guard guard;
  if (seat >= DEVICE_SEATS)
    return cuda_why(why, WEFT_ERR_INVALID, "seat %u does not exist: want 0 to %d", seat, DEVICE_SEATS - 1);
  int rc = enter(ep, &guard, why);
  if (rc != 0)
    return rc;
  ep->host->out.word = 0;
  rc = put(ep, &ep->state->start_sent[seat], sizeof ep->state->start_sent[seat], "clearing a seat", why);
  if (rc == 0)
    rc = put(ep, &ep->state->zero_copy[seat], sizeof ep->state->zero_copy[seat], "clearing a seat", why);
  if (rc == 0) // the kernels clear their own state of the seat with the first view of the new link
    ep->host->report.lost[seat] = 0;
  leave(ep, &guard);
  return rc;
}

int cuda_ep_zero_copy(struct device_ep *ep, uint32_t seat, const void *memory, char *why) {
  struct cuda_guard guard;
  if (seat >= DEVICE_SEATS || (uintptr_t)memory % CUDA_PIECE != 0)
    return cuda_why(why, WEFT_ERR_INVALID, "zero-copy memory %p of seat %u: want whole pieces and a seat below %d",
                    memory, seat, DEVICE_SEATS);
  int rc = enter(ep, &guard, why);
  if (rc != 0)
    return rc;
  ep->host->out.word = (uintptr_t)memory;
  rc =
      put(ep, &ep->state->zero_copy[seat], sizeof ep->state->zero_copy[seat], "writing a seat's zero-copy memory", why);
  leave(ep, &guard);
  return rc;
}

int cuda_ep_progress(struct device_ep *ep, struct device_progress *progress, char *why) {
  struct cuda_guard guard;
  int rc = enter(ep, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_check(
      why,
      cudaMemcpyAsync(&ep->host->progress, &ep->state->progress, sizeof *progress, cudaMemcpyDeviceToHost, ep->control),
      "cannot copy from the device");
  if (rc == 0)
    rc = await_copies(ep, "reading the progress of the kernels", why);
  if (rc == 0)
    *progress = ep->host->progress;
  leave(ep, &guard);
  return rc;
}

// Runs the kernel once; its result is in host->begin. If an earlier call stopped waiting for its kernel, that kernel
// still writes there, and may have begun the rank; then this call uses its result. The other ranks reach this rank's
// first operation two operations after they have published it, and then wait for this rank: so this thread spins for
// `spin_ns`. Within a guard.
static int begin(struct device_ep *ep, struct cuda_begin_args *args, uint64_t spin_ns, char *why) {
  int rc = 0;
  const bool late = ep->beginning;
  args->state = ep->state;
  args->result = ep->begin;
  if (!ep->beginning) {
    ep->host->begin = (struct cuda_begin){0};
    rc = cuda_check(why, (cudaError_t)cuda_launch_begin(args, ep->owner), "cannot launch a kernel");
    ep->beginning = rc == 0;
  }
  if (rc == 0)
    rc = cuda_await_spinning(ep->owner, CUDA_OWN_WORK_MS * (uint64_t)1000000, spin_ns, "beginning", why);
  if (rc != 0)
    return rc;
  ep->beginning = false;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (late) // its result has the words of other seats
    memcpy(ep->host->begin.awaits, args->known, sizeof args->known);
  if (ep->host->begin.begun)
    __atomic_store_n(&ep->begun, ep->host->begin.epoch, __ATOMIC_RELEASE);
  return 0;
}

static struct cuda_begin_args args_of(const struct device_ep *ep, const struct device_member *seats, uint32_t count) {
  struct cuda_begin_args args = {.op = CUDA_AWAIT, .state = ep->state, .result = ep->begin, .area = ep->window};
  for (uint32_t i = 0; i < count && args.count < CUDA_MAX_MEMBERS; i++)
    if (seats[i].in) {
      args.in[args.count] = seats[i].in;
      args.out[args.count++] = seats[i].out;
    }
  return args;
}

int cuda_ep_begin(struct device_ep *ep, const struct device_member *seats, uint32_t count, uint64_t op, uint64_t epoch,
                  char *why) {
  struct cuda_begin_args args = args_of(ep, seats, count);
  struct cuda_guard guard;
  args.op = op;
  args.epoch = epoch;
  int rc = cuda_enter(ep->device, &guard, why);
  if (rc != 0)
    return rc;
  rc = begin(ep, &args, 0, why);
  if (rc == 0 && !ep->host->begin.begun)
    rc = cuda_why(why, WEFT_ERR_NOT_FOUND, "view %llu has not been published", (unsigned long long)epoch);
  cuda_leave(&guard);
  return rc;
}

int cuda_ep_wake_links(struct device_ep *ep, const struct device_member *seats, uint32_t count, char *why) {
  struct cuda_begin_args args = args_of(ep, seats, count);
  struct cuda_guard guard;
  int rc = cuda_enter(ep->device, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_check(why, (cudaError_t)cuda_launch_wake_links(&args, ep->owner), "cannot launch a kernel");
  if (rc == 0)
    rc = cuda_await(ep->owner, CUDA_OWN_WORK_MS * (uint64_t)1000000, "waking links", why);
  // The first copy from the device takes long. So it is made here, and not later, when this rank reads the result of
  // its first operation and the other ranks wait for it.
  if (rc == 0)
    rc = cuda_check(why,
                    cudaMemcpyAsync(&ep->host->record, ep->state->record, sizeof ep->host->record,
                                    cudaMemcpyDeviceToHost, ep->owner),
                    "cannot copy from the device");
  if (rc == 0)
    rc = cuda_await(ep->owner, CUDA_OWN_WORK_MS * (uint64_t)1000000, "a copy from the device", why);
  cuda_leave(&guard);
  return rc;
}

static void put_awaiting(struct cuda_begin_args *args, const struct device_member *seats, uint32_t count,
                         const struct device_awaiting *awaiting) {
  args->awaits = awaiting->word;
  for (uint32_t i = 0, at = 0; i < count && at < args->count; i++)
    if (seats[i].in) {
      args->takes |= (awaiting->takes >> i & 1) << at;
      args->known[at++] = awaiting->peers[i];
    }
}

// Whether one of the words has changed.
static bool get_awaiting(const struct cuda_begin *found, uint32_t known, const struct device_member *seats,
                         uint32_t count, struct device_awaiting *awaiting) {
  bool news = false;
  for (uint32_t i = 0, at = 0; i < count && at < known; i++)
    if (seats[i].in) {
      news |= awaiting->peers[i] != found->awaits[at];
      awaiting->peers[i] = found->awaits[at++];
    }
  return news;
}

int cuda_ep_await_begin(struct device_ep *ep, const struct device_member *seats, uint32_t count,
                        struct device_awaiting *awaiting, uint32_t timeout_ms, const volatile bool *cancel,
                        uint64_t *op, uint64_t *epoch, char *why) {
  uint64_t deadline = clock_deadline_ms(timeout_ms), nap = clock_deadline_ms(SPIN_MS);
  struct cuda_begin_args args = args_of(ep, seats, count);
  const struct cuda_begin *found = &ep->host->begin;
  struct cuda_guard guard;
  bool news = false;
  *epoch = 0;
  put_awaiting(&args, seats, count, awaiting);
  int rc = cuda_enter(ep->device, &guard, why);
  if (rc != 0)
    return rc;
  do {
    uint64_t left = clock_left_ns(deadline);
    args.timeout_ns = left < SLICE_NS ? left : SLICE_NS;
    rc = begin(ep, &args, clock_left_ns(nap), why);
    if (rc == 0 && !found->begun && *cancel)
      rc = cuda_why(why, WEFT_ERR_CANCELED, "the wait for the first operation was cancelled");
    news = rc == 0 && !found->begun && found->epoch == 0 && get_awaiting(found, args.count, seats, count, awaiting);
  } while (rc == 0 && !found->begun && found->epoch == 0 && !news && !clock_passed(deadline));
  if (rc == 0) {
    *epoch = found->epoch;
    if (found->begun)
      *op = found->op;
    else
      rc = cuda_why(why, WEFT_ERR_TIMEOUT,
                    found->epoch ? "the view of the first operation has not been published"
                                 : "no peer has published the first operation");
  }
  cuda_leave(&guard);
  return rc;
}
