// Views, between the group that agrees on them and the kernels that run in them.
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ep/gpu/gpu.h"

enum { JOINER_NS = 1000000 }; // time for a joiner to receive the view that has it, after the running ranks

static bool is_self(const weft_ep_t *ep, const struct group_member *member) {
  return member->rank == ep->rank && member->incarnation == ep->incarnation;
}

uint64_t ep_gpu_next_op(const weft_ep_t *ep) {
  uint64_t replayed = ep->gpu->report ? ep_gpu_read(&ep->gpu->report->replayed) : 0;
  return replayed > ep->next_op ? replayed : ep->next_op;
}

// --- publishing ---

// Lists the members for the device; returns their seats. Another incarnation of this rank is left out, since the device
// recognises itself by the rank.
static uint64_t list_members(weft_ep_t *ep, const struct group_view *view, struct device_member *members,
                             uint32_t *count) {
  uint64_t seats = 0;
  *count = 0;
  pthread_mutex_lock(&ep->links.lock); // so that no link in the table is freed
  for (uint32_t i = 0; i < view->count; i++) {
    const struct group_member *from = &view->members[i];
    struct device_member member = {.rank = from->rank, .seat = DEVICE_NO_SEAT};
    struct ep_link *link = atomic_load(&ep->links.by_rank[from->rank]);
    if (from->rank == ep->rank) {
      if (!is_self(ep, from))
        continue;
      member.seat = GPU_OWN_SEAT;
    } else if (link && link->incarnation == from->incarnation) {
      member.seat = link->device.seat;
      member.in = link->device.in.memory;
      member.out = link->device.out.memory;
      seats |= UINT64_C(1) << member.seat;
    }
    members[(*count)++] = member;
  }
  pthread_mutex_unlock(&ep->links.lock);
  return seats;
}

// Publishes a view to the device. BUSY: there is no room for it yet. Any other error, which is also logged: the device
// can never run in this view.
static int publish(weft_ep_t *ep, const struct group_view *view) {
  struct ep_gpu *gpu = ep->gpu;
  struct device_member members[DEVICE_SEATS];
  struct device_view out = {.epoch = view->epoch, .members = members, .oldest = gpu->begins_from};
  char why[DEVICE_WHY] = "";
  if (view->count > DEVICE_SEATS) {
    fail(WEFT_ERR_LIMIT, "view %llu has %u ranks; on CUDA memory a view has at most %d",
         (unsigned long long)view->epoch, view->count, DEVICE_SEATS);
    log_warn("rank %d: %s", ep->rank, weft_last_error());
    return WEFT_ERR_LIMIT;
  }
  if (gpu->num_published == GPU_VIEWS)
    return WEFT_ERR_BUSY;
  uint64_t seats = list_members(ep, view, members, &out.count);
  int rc = gpu->api->ep_publish(gpu->engine, &out, why);
  if (rc != 0 && rc != WEFT_ERR_BUSY) {
    fail(rc, "view %llu did not reach the GPU: %s", (unsigned long long)view->epoch, why);
    log_warn("rank %d: %s", ep->rank, weft_last_error());
  }
  if (rc == 0) {
    if (gpu->published_last > 0 && (seats & ~gpu->last_seats) != 0)
      gpu->hold_until_ns = clock_ns() + JOINER_NS;
    gpu->published[gpu->num_published++] = (struct gpu_published){.view = group_view_ref(view), .seats = seats};
    gpu->published_last = view->epoch;
    gpu->last_seats = seats;
  }
  return rc;
}

// Like publish(); any result except BUSY completes the view.
static int look_at(weft_ep_t *ep, const struct group_view *view) {
  int rc = publish(ep, view);
  if (rc != WEFT_ERR_BUSY)
    ep->gpu->looked_at = view->epoch;
  return rc;
}

void ep_gpu_publish_locked(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  uint64_t covered = atomic_load(&ep->ready);
  if (!gpu->engine || gpu->publish_from == UINT64_MAX)
    return;
  gpu->behind = false;
  while (!gpu->behind) {
    uint64_t from = gpu->looked_at + 1 > gpu->publish_from ? gpu->looked_at + 1 : gpu->publish_from;
    const struct group_view *view = ep_views_find(ep, from);
    bool wanted = view && view->epoch <= covered;
    gpu->behind = wanted && look_at(ep, view) == WEFT_ERR_BUSY;
    group_view_unref(view);
    if (!wanted)
      break;
  }
  // If the device has no room for the newest views, one of those that it has must take effect first.
  uint64_t ready = gpu->behind || gpu->published_last == covered ? gpu->published_last : 0;
  bool publishes = ready > gpu->control.ready;
  gpu->holds_back = publishes && clock_ns() < gpu->hold_until_ns;
  if (publishes && !gpu->holds_back) {
    gpu->control.ready = ready;
    ep_gpu_control(ep);
  }
}

static void forget(struct ep_gpu *gpu, uint64_t before) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < gpu->num_published; i++) {
    if (gpu->published[i].view->epoch >= before)
      gpu->published[kept++] = gpu->published[i];
    else
      group_view_unref(gpu->published[i].view);
  }
  gpu->num_published = kept;
}

// This rank begins in the view of that epoch, or in a newer one: the device needs no older ones. Under lock.
static void begin_from(struct ep_gpu *gpu, uint64_t epoch) {
  if (epoch > gpu->begins_from)
    gpu->begins_from = epoch;
  forget(gpu, epoch);
}

void ep_gpu_publish_from(weft_ep_t *ep, uint64_t epoch) {
  pthread_mutex_lock(&ep->gpu->lock);
  begin_from(ep->gpu, epoch);
  ep_gpu_publish_locked(ep);
  pthread_mutex_unlock(&ep->gpu->lock);
}

void ep_gpu_publish(weft_ep_t *ep) {
  ep_gpu_publish_from(ep, 0);
}

// --- the first operation ---

int ep_gpu_found(weft_ep_t *ep, const struct group_view *view) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  pthread_mutex_lock(&gpu->lock);
  begin_from(gpu, view->epoch);
  int rc = gpu->looked_at >= view->epoch ? 0 : look_at(ep, view);
  gpu->publish_from = view->epoch + 1;
  ep_gpu_publish_locked(ep);
  pthread_mutex_unlock(&gpu->lock);
  if (rc == WEFT_ERR_BUSY)
    return fail(rc, "the GPU has no room for the first view");
  if (rc != 0)
    return rc;
  rc = gpu->api->ep_begin(gpu->engine, NULL, 0, 0, view->epoch, why);
  return rc == 0 ? 0 : device_fail(rc, "the first operation on the GPU", why);
}

void ep_gpu_joined(weft_ep_t *ep, uint64_t base) {
  struct ep_gpu *gpu = ep->gpu;
  pthread_mutex_lock(&gpu->lock);
  if (gpu->publish_from == UINT64_MAX)
    gpu->publish_from = base != 0 ? base + 1 : ep_views_first_own(ep);
  ep_gpu_publish_locked(ep);
  pthread_mutex_unlock(&gpu->lock);
}

// --- what the kernels have decided ---

static void note_active(weft_ep_t *ep, const struct group_view *view) {
  for (uint32_t i = 0; i < view->count; i++) {
    struct ep_link *link = ep_link_find(ep, view->members[i].rank, view->members[i].incarnation);
    if (link)
      link->was_active = true;
  }
}

// `view`: a reference, taken.
static void add_step(weft_ep_t *ep, uint64_t op, const struct group_view *view) {
  struct ep_gpu *gpu = ep->gpu;
  while (gpu->num_steps > 1 && gpu->steps[gpu->num_steps - 1].op >= op) // decided, and then skipped
    group_view_unref(gpu->steps[--gpu->num_steps].view);
  if (gpu->num_steps == GPU_STEPS) {
    group_view_unref(gpu->steps[0].view);
    memmove(gpu->steps, gpu->steps + 1, --gpu->num_steps * sizeof *gpu->steps);
  }
  gpu->steps[gpu->num_steps++] = (struct gpu_step){.op = op, .view = view};
  gpu->ask_at_ns = clock_ns() + GPU_ASK_NS;
  note_active(ep, view);
  ep_gpu_set_masks(ep);
  atomic_store(&ep->sweep, true);
}

void ep_gpu_started(weft_ep_t *ep, uint64_t op, const struct group_view *view) {
  ep->gpu->first_op = op;
  forget(ep->gpu, view->epoch); // ranks in older views only wait until this rank drops them
  add_step(ep, op, group_view_ref(view));
}

static void note_activation(struct ep_gpu *gpu, uint64_t op, uint64_t epoch, bool adopted) {
  if (gpu->num_news < DEVICE_ACTIVATIONS)
    gpu->news[gpu->num_news++] = (struct gpu_news){.op = op, .epoch = epoch, .adopted = adopted};
}

// Handles that a view was decided for a later operation, or that a decided view takes effect earlier, because a rank
// was found that ran in it.
static void take_activation(weft_ep_t *ep, uint64_t op, uint64_t epoch) {
  struct ep_gpu *gpu = ep->gpu;
  struct gpu_step *last = gpu->num_steps > 0 ? &gpu->steps[gpu->num_steps - 1] : NULL;
  if (last && (epoch < last->view->epoch || (epoch == last->view->epoch && op >= last->op)))
    return;
  bool earlier = last && epoch == last->view->epoch;
  if (earlier) {
    last->op = op;
  } else {
    const struct group_view *view = NULL;
    for (uint32_t i = 0; i < gpu->num_published && !view; i++)
      if (gpu->published[i].view->epoch == epoch)
        view = group_view_ref(gpu->published[i].view);
    if (!view) {
      log_warn("rank %d: the GPU has decided on view %llu, which was not published to it", ep->rank,
               (unsigned long long)epoch);
      return;
    }
    add_step(ep, op, view);
    atomic_fetch_add(&gpu->activations, 1);
  }
  note_activation(gpu, op, epoch, earlier);
}

void ep_gpu_drop_passed(weft_ep_t *ep, uint64_t left) {
  struct ep_gpu *gpu = ep->gpu;
  uint32_t passed = 0;
  while (passed + 1 < gpu->num_steps && gpu->steps[passed + 1].op <= left)
    group_view_unref(gpu->steps[passed++].view);
  if (passed == 0)
    return;
  gpu->num_steps -= passed;
  memmove(gpu->steps, gpu->steps + passed, gpu->num_steps * sizeof *gpu->steps);
  forget(gpu, gpu->steps[0].view->epoch);
  atomic_store(&ep->sweep, true);
}

void ep_gpu_take_activations(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  uint64_t count = ep_gpu_read(&gpu->report->activations);
  if (count - gpu->seen > DEVICE_ACTIVATIONS)
    gpu->seen = count - DEVICE_ACTIVATIONS;
  for (; gpu->seen < count; gpu->seen++)
    take_activation(ep, ep_gpu_read(&gpu->report->activation[gpu->seen % DEVICE_ACTIVATIONS].op),
                    ep_gpu_read(&gpu->report->activation[gpu->seen % DEVICE_ACTIVATIONS].epoch));
}

// Takes no lock when there is nothing new: a thread that publishes a view holds the lock for as long as copies to the
// device take, and a launch must not wait for that.
void ep_gpu_follow(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  uint64_t next = ep_gpu_next_op(ep);
  if (!gpu->report || (ep_gpu_read(&gpu->report->activations) == gpu->followed && next < gpu->next_step))
    return;
  pthread_mutex_lock(&gpu->lock);
  ep_gpu_take_activations(ep);
  gpu->followed = gpu->seen;
  gpu->next_step = UINT64_MAX;
  const struct group_view *view = NULL;
  for (uint32_t i = 0; i < gpu->num_steps; i++)
    if (i == 0 || gpu->steps[i].op <= next)
      view = gpu->steps[i].view;
    else if (gpu->steps[i].op < gpu->next_step)
      gpu->next_step = gpu->steps[i].op;
  if (view && view != ep->view) {
    group_view_unref(ep->view);
    ep->view = group_view_ref(view);
  }
  pthread_mutex_unlock(&gpu->lock);
}

const struct group_view *ep_gpu_view(weft_ep_t *ep, uint64_t epoch) {
  struct ep_gpu *gpu = ep->gpu;
  const struct group_view *view = NULL;
  if (ep->view && ep->view->epoch == epoch) // without the lock, as above
    return group_view_ref(ep->view);
  pthread_mutex_lock(&gpu->lock);
  for (uint32_t i = 0; i < gpu->num_published && !view; i++)
    if (gpu->published[i].view->epoch == epoch)
      view = group_view_ref(gpu->published[i].view);
  pthread_mutex_unlock(&gpu->lock);
  if (view)
    return view;
  view = ep_views_find(ep, epoch);
  if (!view || view->epoch == epoch)
    return view;
  group_view_unref(view);
  return NULL;
}

void ep_gpu_views_free(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  forget(gpu, UINT64_MAX);
  while (gpu->num_steps > 0)
    group_view_unref(gpu->steps[--gpu->num_steps].view);
}
