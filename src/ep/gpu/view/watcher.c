// The watcher: once in a millisecond it checks what the kernels report. That costs a few reads if there is nothing new.
// After a change of view it queries how far the kernels are, until no rank is in the old view.
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "ep/gpu/gpu.h"

enum { LOOK_NS = 1000000 };

// Emits the recorded events in their order; only this thread does.
static void emit(weft_ep_t *ep, const struct gpu_news *news, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    ep_emit(ep, WEFT_EP_EVENT_ACTIVATED, -1, 0, news[i].epoch, news[i].op,
            news[i].adopted ? "adopted from a rank that runs in it" : "");
}

// Takes the seats that kernels gave up and that are not reported yet. The seats of one operation are given up at about
// the same time, and their number shows which side is isolated. So they are judged when a check finds no more. Under
// lock.
static uint64_t take_lost(struct ep_gpu *gpu) {
  uint64_t lost = device_lost(gpu->report);
  gpu->lost_seen = (gpu->lost_seen & lost) | (lost & gpu->control.gone);
  uint64_t fresh = lost & ~gpu->lost_seen;
  bool settled = fresh == gpu->lost_pending;
  gpu->lost_pending = settled ? 0 : fresh;
  if (!settled)
    return 0;
  gpu->lost_seen |= fresh;
  return fresh;
}

// The members of the view of the newest operation that has begun. Under lock.
static uint32_t members_now(const struct ep_gpu *gpu, uint64_t begun) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < gpu->num_steps; i++)
    if (i == 0 || gpu->steps[i].op < begun)
      count = gpu->steps[i].view->count;
  return count;
}

// Holds the link of a seat. NULL: there is none, or it is down already. A link that is not in the table any more may be
// in the course of being freed, with its seat released last: nobody would see that it is held.
static struct ep_link *hold(weft_ep_t *ep, uint32_t seat) {
  struct ep_gpu *gpu = ep->gpu;
  pthread_mutex_lock(&gpu->lock); // so that no link with a seat is freed
  pthread_mutex_lock(&ep->links.lock);
  struct ep_link *link = gpu->seats[seat];
  if (link && atomic_load(&ep->links.by_rank[link->rank]) != link)
    link = NULL;
  if (link)
    link->holds++;
  pthread_mutex_unlock(&ep->links.lock);
  pthread_mutex_unlock(&gpu->lock);
  return link;
}

// As at a deadline on host memory: if most of the view is silent, it is more likely that this rank is isolated, and it
// only takes its links to them down.
static void lose(weft_ep_t *ep, uint64_t lost, uint32_t members) {
  bool isolated = ep_activation_isolated((uint32_t)__builtin_popcountll(lost), members);
  enum ep_link_state state = isolated ? EP_LINK_DOUBTED : EP_LINK_SILENT;
  for (uint32_t seat = GPU_OWN_SEAT + 1; seat < DEVICE_SEATS; seat++) {
    struct ep_link *link = lost >> seat & 1 ? hold(ep, seat) : NULL;
    if (!link)
      continue;
    ep_link_down(ep, link, state, "by the deadline it had not sent, or not read, what a kernel waited for");
    pthread_mutex_lock(&ep->links.lock);
    link->holds--;
    pthread_mutex_unlock(&ep->links.lock);
    ep_service_kick(ep); // it may have been retired in between
  }
}

// Queries how far the kernels are, if that matters: in which of several views a rank is lost, or when the old view may
// be dropped. Not under lock, since launches may wait for it.
static struct device_progress ask_progress(struct ep_gpu *gpu) {
  struct device_progress progress = {0};
  char why[DEVICE_WHY] = "";
  pthread_mutex_lock(&gpu->lock);
  bool late = clock_passed(gpu->ask_at_ns), lost = (device_lost(gpu->report) & ~gpu->lost_seen) != 0;
  bool matters = gpu->num_steps > 1 && (late || lost);
  if (matters)
    gpu->ask_at_ns = clock_ns() + GPU_ASK_NS;
  pthread_mutex_unlock(&gpu->lock);
  if (matters && gpu->api->ep_progress(gpu->engine, &progress, why) != 0)
    log_debug("the progress of the GPU cannot be read: %s", why);
  return progress;
}

static void look(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  struct gpu_news news[DEVICE_ACTIVATIONS];
  const struct device_progress progress = ask_progress(gpu);
  pthread_mutex_lock(&gpu->lock);
  ep_gpu_take_activations(ep);
  ep_gpu_drop_passed(ep, progress.left);
  if (gpu->behind || gpu->holds_back)
    ep_gpu_publish_locked(ep);
  uint32_t count = gpu->num_news, members = members_now(gpu, progress.begun);
  memcpy(news, gpu->news, count * sizeof *news);
  gpu->num_news = 0;
  uint64_t lost = take_lost(gpu);
  pthread_mutex_unlock(&gpu->lock);
  emit(ep, news, count);
  if (lost != 0)
    lose(ep, lost, members);
  if (atomic_load_explicit(&ep->sweep, memory_order_relaxed))
    ep_gpu_sweep(ep);
}

// False: the watcher has to stop.
static bool rest(struct ep_gpu *gpu) {
  struct timespec until = clock_timespec(clock_ns() + LOOK_NS);
  pthread_mutex_lock(&gpu->lock);
  if (!gpu->stop)
    pthread_cond_timedwait(&gpu->wake, &gpu->lock, &until);
  bool go_on = !gpu->stop;
  pthread_mutex_unlock(&gpu->lock);
  return go_on;
}

static void *watch(void *arg) {
  weft_ep_t *ep = arg;
  do
    look(ep);
  while (rest(ep->gpu));
  return NULL;
}

int ep_gpu_watch_start(weft_ep_t *ep) {
  int error = thread_create(&ep->gpu->watcher, NULL, watch, ep);
  if (error != 0)
    return fail_thread(error, "the thread that watches the GPU");
  ep->gpu->watching = true;
  return 0;
}

void ep_gpu_watch_stop(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  if (!gpu->watching)
    return;
  pthread_mutex_lock(&gpu->lock);
  gpu->stop = true;
  pthread_cond_signal(&gpu->wake);
  pthread_mutex_unlock(&gpu->lock);
  pthread_join(gpu->watcher, NULL);
  gpu->watching = false;
}
