// Seats and device windows of links, and the control words that the host writes for the kernels.
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "ep/gpu/gpu.h"
#include "ep/gpu/remote/sharers.h"
#include "ep/remote/neighbours.h"

static uint64_t bit(uint32_t seat) {
  return UINT64_C(1) << seat;
}

void ep_gpu_control(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  atomic_store(&gpu->masked, gpu->control.masked);
  if (gpu->engine && gpu->api->ep_control(gpu->engine, &gpu->control, why) != 0)
    log_warn("rank %d: an update did not reach the GPU: %s", ep->rank, why);
}

// --- seats ---

// Takes a free seat, and clears the state of its last link. Nothing waits on it, since no view has it. Under lock.
static int take_seat_locked(weft_ep_t *ep, struct ep_link *link) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  uint32_t seat = GPU_OWN_SEAT + 1;
  while (seat < DEVICE_SEATS && gpu->seats[seat])
    seat++;
  if (seat == DEVICE_SEATS)
    return fail(WEFT_ERR_LIMIT, "rank %d already has %d peers on CUDA memory, the most that a rank can have", ep->rank,
                DEVICE_SEATS - 1);
  gpu->control.gone &= ~bit(seat);
  gpu->control.masked &= ~bit(seat);
  ep_gpu_control(ep);
  int rc = gpu->api->ep_seat(gpu->engine, seat, why);
  if (rc != 0)
    return device_fail(rc, "a seat for a link", why);
  gpu->lost_seen = (gpu->lost_seen & ~bit(seat)) | (device_lost(gpu->report) & bit(seat));
  gpu->seats[seat] = link;
  link->device.seat = seat;
  return 0;
}

static int take_seat(weft_ep_t *ep, struct ep_link *link) {
  pthread_mutex_lock(&ep->gpu->lock);
  int rc = take_seat_locked(ep, link);
  pthread_mutex_unlock(&ep->gpu->lock);
  return rc;
}

// Clears what has to be 0 at first in a window of a group for throughput.
static int clear_window(weft_ep_t *ep, const struct ep_link *link, char *why) {
  const struct ep_gpu *gpu = ep->gpu;
  return ep_gpu_flows(ep) ? gpu->api->flow_clear(gpu->engine, &link->device.in, why) : 0;
}

static int open_fabric_window(weft_ep_t *ep, struct ep_link *link) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  int rc = gpu->api->fabric_create(gpu->device, gpu->area_bytes, &link->device.in, link->device.name, why);
  if (rc == 0)
    rc = clear_window(ep, link, why);
  return rc == 0 ? take_seat(ep, link) : device_fail(rc, "a window on the GPU for a peer on another host", why);
}

static int open_window(weft_ep_t *ep, struct ep_link *link, int *fd) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  int rc = take_seat(ep, link);
  if (rc != 0)
    return rc;
  rc = gpu->api->window_create(gpu->device, gpu->area_bytes, &link->device.in, fd, why);
  if (rc == 0)
    rc = clear_window(ep, link, why);
  return rc == 0 ? 0 : device_fail(rc, "a window on the GPU", why);
}

// The link's relay clears the windows. In a group for throughput neighbours may read what arrives.
static int open_host_windows(weft_ep_t *ep, struct ep_link *link) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  int rc = gpu->api->host_window_create(gpu->device, gpu->area_bytes, &link->device.in, &link->device.host_in,
                                        ep_gpu_flows(ep) ? &link->device.shown : NULL, why);
  if (rc == 0)
    rc = gpu->api->host_window_create(gpu->device, gpu->area_bytes, &link->device.out, &link->device.host_out, NULL,
                                      why);
  if (rc != 0)
    return device_fail(rc, "a window for a peer on another host", why);
  return take_seat(ep, link); // also writes the control words, since kernels read such windows in another way
}

int ep_gpu_link_open(weft_ep_t *ep, struct ep_link *link, enum ep_route route, int *fd) {
  if (route == EP_ROUTE_MAPPED)
    return open_window(ep, link, fd);
  return route == EP_ROUTE_FABRIC ? open_fabric_window(ep, link) : open_host_windows(ep, link);
}

// Checks that our kernels can reach the memory of the device of that uuid. If this process does not see the device,
// there is no check: mapping its window will show it.
static int check_reach(const struct ep_gpu *gpu, int32_t rank, const uint8_t uuid[16]) {
  char why[DEVICE_WHY] = "";
  int count = 0;
  if (memcmp(uuid, gpu->uuid, sizeof gpu->uuid) == 0 || gpu->api->count(&count, why) != 0)
    return 0;
  for (int i = 0; i < count; i++) {
    struct device_info info = {0};
    if (gpu->api->describe(i, &info, why) != 0 || memcmp(info.uuid, uuid, sizeof info.uuid) != 0)
      continue;
    int rc = gpu->api->check_peer(gpu->index, i, why);
    return rc == 0 ? 0 : fail(rc, "the GPU of rank %d cannot be reached from this rank's: %s", rank, why);
  }
  return 0;
}

static int map_zero_copy(weft_ep_t *ep, struct ep_link *link, int fd) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  int rc = gpu->api->window_map(gpu->device, ep->zero_copy.bytes, fd, &link->device.zero_copy, why);
  if (rc == 0)
    rc = gpu->api->ep_zero_copy(gpu->engine, link->device.seat, link->device.zero_copy.memory, why);
  return rc == 0 ? 0 : fail(rc, "the zero-copy memory of rank %d: %s", link->rank, why);
}

int ep_gpu_link_map(weft_ep_t *ep, struct ep_link *link, const int *fds, const uint8_t uuid[16]) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  int rc = check_reach(gpu, link->rank, uuid);
  if (rc != 0)
    return rc;
  rc = gpu->api->window_map(gpu->device, gpu->area_bytes, fds[EP_FD_DEVICE], &link->device.out, why);
  if (rc != 0)
    return fail(rc, "the window of rank %d on its GPU: %s", link->rank, why);
  return ep->zero_copy.bytes == 0 ? 0 : map_zero_copy(ep, link, fds[EP_FD_ZERO_COPY]);
}

int ep_gpu_link_map_fabric(weft_ep_t *ep, struct ep_link *link, const uint8_t *name) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  int rc = gpu->api->fabric_map(gpu->device, gpu->area_bytes, name, &link->device.out, why);
  return rc == 0 ? 0 : fail(rc, "the window of rank %d on its GPU: %s", link->rank, why);
}

static void release(const struct ep_gpu *gpu, struct device_window *window, void **host) {
  if (*host)
    gpu->api->host_window_release(gpu->device, window, *host);
  else if (window->memory)
    gpu->api->window_release(gpu->device, window);
  *host = NULL;
}

// Keeps the window mapped, and releases the window that has been kept longest.
static void quarantine(struct ep_gpu *gpu, struct device_window *window, void **host) {
  pthread_mutex_lock(&gpu->lock);
  struct gpu_quarantined *place = &gpu->quarantine[gpu->num_quarantined++ % GPU_QUARANTINE];
  struct gpu_quarantined before = *place;
  *place = (struct gpu_quarantined){*window, *host};
  pthread_mutex_unlock(&gpu->lock);
  release(gpu, &before.window, &before.host);
  *window = (struct device_window){0};
  *host = NULL;
}

void ep_gpu_quarantine_free(struct ep_gpu *gpu) {
  for (uint32_t i = 0; i < GPU_QUARANTINE; i++)
    release(gpu, &gpu->quarantine[i].window, &gpu->quarantine[i].host);
}

void ep_gpu_link_free(weft_ep_t *ep, struct ep_link *link) {
  struct ep_gpu *gpu = ep->gpu;
  if (link->device.written_late && link->device.host_in)
    quarantine(gpu, &link->device.in, &link->device.host_in);
  release(gpu, &link->device.in, &link->device.host_in);
  release(gpu, &link->device.out, &link->device.host_out);
  if (link->device.zero_copy.memory)
    gpu->api->window_release(gpu->device, &link->device.zero_copy);
  ep_sharers_changed(ep);
  if (link->device.seat == DEVICE_NO_SEAT)
    return;
  pthread_mutex_lock(&gpu->lock);
  gpu->seats[link->device.seat] = NULL;
  pthread_mutex_unlock(&gpu->lock);
}

void ep_gpu_link_down(weft_ep_t *ep, struct ep_link *link) {
  struct ep_gpu *gpu = ep->gpu;
  pthread_mutex_lock(&gpu->lock);
  gpu->control.gone |= bit(link->device.seat);
  ep_gpu_control(ep);
  pthread_mutex_unlock(&gpu->lock);
  ep_sharers_changed(ep);
}

// --- letting go ---

void ep_gpu_hold_links(const weft_ep_t *ep) {
  pthread_mutex_lock(&ep->gpu->lock);
}

void ep_gpu_unhold_links(const weft_ep_t *ep) {
  pthread_mutex_unlock(&ep->gpu->lock);
}

// Seats of the views in which kernels run or may run later. Under lock.
static uint64_t needed(const struct ep_gpu *gpu) {
  uint64_t seats = 0;
  for (uint32_t i = 0; i < gpu->num_published; i++)
    seats |= gpu->published[i].seats;
  return seats;
}

static bool is_needed(weft_ep_t *ep, const struct ep_link *link) {
  return needed(ep->gpu) & bit(link->device.seat);
}

// Links of the table that will be retired. They are held, so nobody frees them.
struct leaving {
  struct ep_link *links[DEVICE_SEATS];
  uint32_t count;
};

// Under lock.
static void hold(weft_ep_t *ep, struct leaving *leaving, struct ep_link *link) {
  if (leaving->count == DEVICE_SEATS)
    return;
  pthread_mutex_lock(&ep->links.lock);
  link->holds++;
  pthread_mutex_unlock(&ep->links.lock);
  leaving->links[leaving->count++] = link;
}

static void unhold(weft_ep_t *ep, const struct leaving *leaving) {
  pthread_mutex_lock(&ep->links.lock);
  for (uint32_t i = 0; i < leaving->count; i++)
    leaving->links[i]->holds--;
  pthread_mutex_unlock(&ep->links.lock);
  ep_service_kick(ep); // they were retired in between
}

// Sending the rest of their data takes a while, in which views are published and links go down. So not under lock.
static void let_go(weft_ep_t *ep, const struct leaving *leaving) {
  if (leaving->count == 0)
    return;
  for (uint32_t i = 0; i < leaving->count; i++)
    leaving->links[i]->path->flush(leaving->links[i]);
  pthread_mutex_lock(&ep->gpu->lock);
  for (uint32_t i = 0; i < leaving->count; i++) {
    struct ep_link *link = leaving->links[i];
    if (atomic_load(&ep->links.by_rank[link->rank]) != link) // another thread has, or a newer link has its place
      continue;
    if (is_needed(ep, link)) { // by a view that has arrived meanwhile: the watcher will retire the link
      link->was_active = true;
      continue;
    }
    ep_link_notify_left(link);
    ep_link_retire(ep, link);
  }
  pthread_mutex_unlock(&ep->gpu->lock);
  unhold(ep, leaving);
}

int ep_gpu_unmap(weft_ep_t *ep, int32_t rank) {
  struct leaving leaving = {.count = 0};
  pthread_mutex_lock(&ep->gpu->lock);
  struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
  if (link && is_needed(ep, link)) // the watcher will retire it
    link->was_active = true;
  else if (link)
    hold(ep, &leaving, link);
  pthread_mutex_unlock(&ep->gpu->lock);
  let_go(ep, &leaving);
  if (link)
    ep_neighbours_sweep_unlinked(ep);
  return link ? 0 : WEFT_ERR_NOT_FOUND;
}

// A link is retired when it is down, or was active, and no active or future view has its seat. Every change of these
// conditions sets ep->sweep, so there is no need to try again.
static void sweep_locked(weft_ep_t *ep, struct leaving *leaving) {
  ep_links_sweep(ep, is_needed);
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
    if (link && (!ep_link_up(link) || link->was_active) && !is_needed(ep, link))
      hold(ep, leaving, link);
  }
  if (leaving->count > 0) // so that another thread does not consider them links that stay
    atomic_store(&ep->sweep, true);
}

void ep_gpu_sweep(weft_ep_t *ep) {
  struct leaving leaving = {.count = 0};
  pthread_mutex_lock(&ep->gpu->lock);
  bool swept = atomic_exchange(&ep->sweep, false);
  if (swept)
    sweep_locked(ep, &leaving);
  pthread_mutex_unlock(&ep->gpu->lock);
  let_go(ep, &leaving);
  if (swept)
    ep_neighbours_sweep_unlinked(ep);
}

// --- masks and the mark ---

void ep_gpu_set_masks(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  uint64_t masked = ep->masked[ep->rank] ? bit(GPU_OWN_SEAT) : 0;
  for (uint32_t seat = GPU_OWN_SEAT + 1; seat < DEVICE_SEATS; seat++)
    if (gpu->seats[seat] && ep->masked[gpu->seats[seat]->rank] == gpu->seats[seat]->incarnation)
      masked |= bit(seat);
  if (masked == gpu->control.masked)
    return;
  gpu->control.masked = masked;
  ep_gpu_control(ep);
}

void ep_gpu_mask(weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  pthread_mutex_lock(&ep->gpu->lock);
  ep->masked[rank] = incarnation;
  ep_gpu_set_masks(ep);
  pthread_mutex_unlock(&ep->gpu->lock);
}

void ep_gpu_set_mark(weft_ep_t *ep, uint64_t mark) {
  struct ep_gpu *gpu = ep->gpu;
  pthread_mutex_lock(&gpu->lock);
  if (gpu->control.mark != mark) {
    gpu->control.mark = mark;
    ep_gpu_control(ep);
  }
  pthread_mutex_unlock(&gpu->lock);
}
