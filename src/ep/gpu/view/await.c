// How a joiner on CUDA memory waits for its first operation.
#include <time.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ep/gpu/gpu.h"
#include "ep/view/awaiting.h"

enum { AWAIT_SLICE_MS = 20, RETRY_NS = 500000 };

// The peers whose links are up. They stay until release().
struct held {
  uint32_t count;
  struct device_member members[DEVICE_SEATS];
  struct ep_link *links[DEVICE_SEATS];
};

static void hold(weft_ep_t *ep, struct held *held) {
  struct ep_gpu *gpu = ep->gpu;
  held->count = 0;
  pthread_mutex_lock(&gpu->lock);
  pthread_mutex_lock(&ep->links.lock);
  for (uint32_t rank = 0; rank < ep->capacity && held->count < DEVICE_SEATS; rank++) {
    struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
    if (!link || !ep_link_up(link))
      continue;
    link->holds++;
    held->links[held->count] = link;
    held->members[held->count++] = (struct device_member){
        .rank = link->rank, .seat = link->device.seat, .in = link->device.in.memory, .out = link->device.out.memory};
  }
  pthread_mutex_unlock(&ep->links.lock);
  pthread_mutex_unlock(&gpu->lock);
}

static void release(weft_ep_t *ep, struct held *held) {
  pthread_mutex_lock(&ep->links.lock);
  for (uint32_t i = 0; i < held->count; i++)
    held->links[i]->holds--;
  pthread_mutex_unlock(&ep->links.lock);
  ep_service_kick(ep); // a link may have been retired in between
}

void ep_gpu_wake_links(weft_ep_t *ep) {
  struct held held;
  char why[DEVICE_WHY] = "";
  hold(ep, &held);
  if (ep->gpu->api->ep_wake_links(ep->gpu->engine, held.members, held.count, why) != 0) // it then begins slowly
    log_warn("rank %d: links between GPUs may sleep: %s", ep->rank, why);
  release(ep, &held);
}

// One wait for the peers that are connected now; more may connect. It ends early if the word of one of them changes.
static int await_slice(weft_ep_t *ep, uint64_t word, uint32_t slice_ms, uint64_t *op, uint64_t *epoch) {
  struct ep_gpu *gpu = ep->gpu;
  struct device_awaiting words = {.word = word};
  struct held held;
  char why[DEVICE_WHY] = "";
  hold(ep, &held);
  for (uint32_t i = 0; i < held.count; i++) {
    words.takes |= (uint64_t)ep_awaiting_takes(ep, held.links[i]) << i;
    words.peers[i] = held.links[i]->awaits;
  }
  int rc = gpu->api->ep_await_begin(gpu->engine, held.members, held.count, &words, slice_ms,
                                    (const volatile bool *)&ep->fenced, op, epoch, why);
  for (uint32_t i = 0; i < held.count; i++)
    held.links[i]->awaits = words.peers[i];
  release(ep, &held);
  if (rc != 0 && rc != WEFT_ERR_TIMEOUT && !atomic_load(&ep->fenced))
    device_fail(rc, "the first operation on the GPU", why);
  return rc;
}

// Begins with operation 0. TIMEOUT: the device does not have the view yet.
static int begin_alone(weft_ep_t *ep, const struct group_view *view) {
  struct ep_gpu *gpu = ep->gpu;
  struct held held;
  char why[DEVICE_WHY] = "";
  ep_gpu_publish_from(ep, view->epoch);
  hold(ep, &held);
  int rc = gpu->api->ep_begin(gpu->engine, held.members, held.count, 0, view->epoch, why);
  release(ep, &held);
  if (rc == WEFT_ERR_NOT_FOUND)
    return WEFT_ERR_TIMEOUT;
  return rc == 0 ? 0 : device_fail(rc, "the first operation on the GPU", why);
}

// Begins by itself, or waits a while. TIMEOUT: it has not begun. *epoch: the view in which it begins, or in which it
// should begin but that has not arrived.
static int begin_or_wait(weft_ep_t *ep, uint32_t slice_ms, uint64_t *op, uint64_t *epoch) {
  const struct group_view *alone;
  uint64_t ready = atomic_load(&ep->ready);
  int rc;
  *epoch = 0;
  ep_gpu_hold_links(ep);
  uint64_t word = ep_awaiting_stand(ep, &alone);
  ep_gpu_unhold_links(ep);
  if (alone) {
    *op = 0;
    *epoch = alone->epoch;
    rc = begin_alone(ep, alone);
    group_view_unref(alone);
  } else {
    rc = await_slice(ep, word, ready != ep->awaiting.looked ? 0 : slice_ms, op, epoch);
    if (rc == WEFT_ERR_TIMEOUT && *epoch == 0)
      ep->awaiting.looked = ready;
  }
  return rc;
}

int ep_gpu_await_start(weft_ep_t *ep, uint64_t deadline_ns, uint64_t *op, const struct group_view **view) {
  const struct timespec nap = {.tv_nsec = RETRY_NS};
  uint64_t epoch;
  for (;;) {
    uint32_t left_ms = (uint32_t)clock_left_ms(deadline_ns);
    int rc = begin_or_wait(ep, left_ms < AWAIT_SLICE_MS ? left_ms : AWAIT_SLICE_MS, op, &epoch);
    if (rc == 0)
      break;
    if (atomic_load(&ep->fenced))
      return fail(WEFT_ERR_FENCED, "rank %d was removed from the view before its first operation", ep->rank);
    if (rc != WEFT_ERR_TIMEOUT)
      return rc;
    if (ep_interrupted(ep))
      return ep_canceled("the first operation");
    if (clock_passed(deadline_ns))
      return ep_awaiting_timed_out(ep, epoch);
    ep_gpu_publish_from(ep, epoch);
    if (epoch != 0)
      nanosleep(&nap, NULL); // another thread delivers the view
  }
  *view = ep_gpu_view(ep, epoch);
  return *view ? 0 : fail(WEFT_ERR_SYSTEM, "the GPU began in view %llu, which is not known", (unsigned long long)epoch);
}
