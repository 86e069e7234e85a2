// Areas that neighbours show each other: descriptors are sent and received, mappings kept and released.
#include "ep/remote/neighbours.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "ep/remote/remote_link.h"
#include "group/view.h"

enum {
  AREAS = 1024, // most areas that a rank maps
  FDS = 4,      // most descriptors taken from one packet; the kernel closes further ones
};

static const uint64_t magic = 0x41455241544657u; // "WFTAREA", and a NUL

// The message that carries the descriptor of an area.
struct offer {
  uint64_t magic;
  uint64_t number; // ep_area_number() of the sender's link to the source
  uint64_t source_incarnation;
  int32_t source;
  uint32_t version; // EP_LAYOUT_VERSION
};

// Bytes of each shown area; 0: ranks of this group show none.
static size_t area_bytes(const weft_ep_t *ep) {
  return ep->engine->carrier->shown_bytes(ep);
}

static bool is_remote(const struct ep_link *link) {
  return link->remote && link->remote->net;
}

// --- showing ---

// Opens a read-only descriptor of the area. -1: none. While the descriptor is in transit, and as long as the area is
// mapped by it, its lock shows that the memory must not be reused (device/device.h, host_window_create).
static int open_for_reading(const struct ep_remote *remote) {
  char path[48];
  int shown = remote->ep->engine->carrier->shown(remote);
  if (shown < 0)
    return -1;
  snprintf(path, sizeof path, "/proc/self/fd/%d", shown);
  int area = open(path, O_RDONLY | O_CLOEXEC);
  if (area >= 0 && flock(area, LOCK_SH | LOCK_NB) != 0) {
    close(area);
    return -1;
  }
  return area;
}

static void send_offer(int socket, const struct offer *offer, int area) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof area)];
  } control = {0};
  struct iovec data = {.iov_base = (void *)offer, .iov_len = sizeof *offer};
  struct msghdr packet = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof area);
  memcpy(CMSG_DATA(header), &area, sizeof area);
  if (sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    log_info("a window cannot be passed to a neighbour: %s", strerror(errno));
}

// Shows the neighbour the area that the peer of `source` writes.
static void show(const struct ep_link *neighbour, const struct ep_link *source) {
  int area = open_for_reading(source->remote);
  if (area < 0) // then the source sends the neighbour separate rows
    return;
  struct offer offer = {.magic = magic,
                        .number = ep_area_number(source->remote->id),
                        .source_incarnation = source->incarnation,
                        .source = source->rank,
                        .version = EP_LAYOUT_VERSION};
  send_offer(neighbour->socket, &offer, area);
  close(area);
}

// --- notifying sources; under links.lock ---

static void notify(struct ep_neighbour_area *area, struct ep_link *source) {
  if (!area->notified && is_remote(source) && source->incarnation == area->source_incarnation)
    area->notified = ep_control_notify_reads(source, area->number);
}

static void notify_all(weft_ep_t *ep, struct ep_link *source) {
  for (struct ep_neighbour_area *area = atomic_load(&ep->links.areas); area; area = area->next)
    if (area->source == source->rank) {
      area->notified = false; // the link may be a newer one to the same incarnation
      notify(area, source);
    }
}

void ep_neighbours_connected(weft_ep_t *ep, int32_t rank) {
  struct ep_links *links = &ep->links;
  if (links->alone || area_bytes(ep) == 0)
    return;
  pthread_mutex_lock(&links->lock); // a link in the table is not freed then
  struct ep_link *link = atomic_load(&links->by_rank[rank]);
  if (link)
    link->connected = true;
  if (link && is_remote(link))
    notify_all(ep, link);
  for (uint32_t i = 0; link && i < ep->capacity; i++) {
    struct ep_link *other = atomic_load(&links->by_rank[i]);
    if (!other || other == link || !other->connected || !ep_link_up(other) || is_remote(other) == is_remote(link))
      continue;
    if (is_remote(link) && !other->remote)
      show(other, link);
    else if (is_remote(other) && !link->remote)
      show(link, other);
  }
  pthread_mutex_unlock(&links->lock);
}

// --- taking ---

// Adds the area to those that this rank reads. Under links.lock.
static void take(weft_ep_t *ep, const struct ep_link *carrier, const struct offer *offer, int fd) {
  struct ep_links *links = &ep->links;
  uint32_t count = 0;
  if (links->alone)
    return;
  for (struct ep_neighbour_area *area = atomic_load(&links->areas); area; area = area->next, count++)
    if (area->carrier == carrier->rank && area->carrier_incarnation == carrier->incarnation &&
        area->number == offer->number)
      return; // both threads of the carrier have shown it
  struct ep_neighbour_area *area = count < AREAS ? calloc(1, sizeof *area) : NULL;
  if (!area || ep_window_map_read(&area->window, area_bytes(ep), fd) != 0) {
    log_info("rank %d does not read rows from the window of rank %d: %s", ep->rank, carrier->rank,
             area ? "it cannot be mapped" : "too many are mapped already");
    free(area);
    return;
  }
  area->carrier = carrier->rank;
  area->carrier_incarnation = carrier->incarnation;
  area->source = offer->source;
  area->source_incarnation = offer->source_incarnation;
  area->number = offer->number;
  atomic_store(&area->next, atomic_load(&links->areas));
  atomic_store_explicit(&links->areas, area, memory_order_release);
  atomic_store(&ep->sweep, true); // to free the areas that it replaces
  struct ep_link *source = atomic_load(&links->by_rank[offer->source]);
  if (source)
    notify(area, source);
}

static bool is_offer(const weft_ep_t *ep, const struct ep_link *carrier, const struct offer *offer, size_t size) {
  return size == sizeof *offer && offer->magic == magic && offer->version == EP_LAYOUT_VERSION && offer->number != 0 &&
         offer->number >> EP_AREA_BITS == 0 && offer->source >= 0 && (uint32_t)offer->source < ep->capacity &&
         offer->source != ep->rank && offer->source != carrier->rank;
}

static bool is_confirmation(const void *bytes, size_t size) {
  static const uint64_t word = EP_CONFIRMATION;
  return size == sizeof word && memcmp(bytes, &word, sizeof word) == 0;
}

int ep_neighbours_receive(weft_ep_t *ep, struct ep_link *link) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(FDS * sizeof(int))];
  } control;
  struct offer offer;
  struct iovec data = {.iov_base = &offer, .iov_len = sizeof offer};
  struct msghdr packet = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  ssize_t size = recvmsg(link->socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0)
    return errno == EAGAIN || errno == EINTR ? 0 : EPIPE;
  int fd = -1;
  ep_window_take_fds(&packet, &fd, 1); // an empty packet may have descriptors, too
  bool confirms = is_confirmation(&offer, (size_t)size);
  bool offers = area_bytes(ep) != 0 && is_offer(ep, link, &offer, (size_t)size) && !(packet.msg_flags & MSG_TRUNC);
  if (confirms)
    atomic_store(&link->unconfirmed, false);
  if (offers && fd >= 0) { // else this process cannot open more descriptors
    pthread_mutex_lock(&ep->links.lock);
    take(ep, link, &offer, fd);
    pthread_mutex_unlock(&ep->links.lock);
  }
  if (fd >= 0)
    close(fd);
  return offers || confirms ? 0 : size == 0 ? EPIPE : EPROTO;
}

// --- reading ---

const void *ep_neighbours_area(const weft_ep_t *ep, const struct ep_link *source, uint64_t number) {
  const struct ep_neighbour_area *area = atomic_load_explicit(&ep->links.areas, memory_order_acquire);
  while (area &&
         (area->number != number || area->source != source->rank || area->source_incarnation != source->incarnation))
    area = area->next;
  return area ? area->window.memory : NULL;
}

bool ep_neighbours_reads(const struct ep_link *reader, const struct ep_link *carrier) {
  uint64_t number = ep_area_number(carrier->remote->peer_id);
  for (uint32_t i = 0; i < EP_READS; i++) {
    uint64_t read = atomic_load_explicit(&reader->remote->reads[i], memory_order_relaxed);
    if (read == number)
      return true;
    if (read == 0) // entries are filled from the first on
      return false;
  }
  return false;
}

// --- releasing ---

static bool is_up(const weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  const struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
  return link && link->incarnation == incarnation && ep_link_up(link);
}

// Whether there is a link to that incarnation, up or down; a link stays until no view needs it. Under links.lock.
static bool is_linked(const weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  const struct ep_link *link = atomic_load(&ep->links.by_rank[rank]), *old = ep->links.superseded;
  while (old && (old->rank != rank || old->incarnation != incarnation))
    old = old->next;
  return old || (link && link->incarnation == incarnation);
}

// Whether a newer area of the same carrier and source, which is before it in the list, has replaced it.
static bool is_replaced(const weft_ep_t *ep, const struct ep_neighbour_area *old) {
  const struct ep_neighbour_area *area = atomic_load(&ep->links.areas);
  while (area != old && (area->carrier != old->carrier || area->source != old->source))
    area = area->next;
  return area != old;
}

static bool is_known(const weft_ep_t *ep, int32_t rank, uint64_t incarnation) {
  return is_up(ep, rank, incarnation) || group_view_has(ep->view, rank, incarnation);
}

// Whether the area is still needed. Its source may not be connected yet.
static bool is_needed(const weft_ep_t *ep, const struct ep_neighbour_area *area) {
  return is_known(ep, area->carrier, area->carrier_incarnation) && !is_replaced(ep, area) &&
         (!area->notified || is_known(ep, area->source, area->source_incarnation));
}

// Whether no operation will name the area any more. A source that has not yet adopted the view without the carrier may
// name the area in its next operation.
static bool is_over(const weft_ep_t *ep, struct ep_neighbour_area *area) {
  if (is_needed(ep, area))
    area->last_op = 0;
  else if (area->last_op == 0)
    area->last_op = ep->next_op + EP_DEPTH;
  return area->last_op != 0 && ep->next_op > area->last_op;
}

// Whether a newer area of the same incarnations has replaced it, or its source never connected.
static bool is_renewed(const weft_ep_t *ep, const struct ep_neighbour_area *old) {
  const struct ep_neighbour_area *area = atomic_load(&ep->links.areas);
  while (area != old && (area->carrier != old->carrier || area->source != old->source ||
                         area->carrier_incarnation != old->carrier_incarnation ||
                         (area->source_incarnation != old->source_incarnation && old->notified)))
    area = area->next;
  return area != old;
}

// The carrier's link stays as long as a view needs it; in operations of that view the source may name the area. This
// also holds after the carrier's rank has been replaced, since batches that name the old area may be in flight. When
// the same two incarnations have a newer link, the source has freed the old one, and does not name its area any more.
static bool is_unlinked(const weft_ep_t *ep, struct ep_neighbour_area *area) {
  return !is_linked(ep, area->carrier, area->carrier_incarnation) || is_renewed(ep, area) ||
         (area->notified && !is_linked(ep, area->source, area->source_incarnation));
}

// Removes the areas that are not needed from the list. `*left`: more will follow soon.
static struct ep_neighbour_area *
take_out(weft_ep_t *ep, bool (*over)(const weft_ep_t *ep, struct ep_neighbour_area *area), bool *left) {
  struct ep_links *links = &ep->links;
  struct ep_neighbour_area *out = NULL, *before = NULL, *next;
  pthread_mutex_lock(&links->lock);
  for (struct ep_neighbour_area *area = atomic_load(&links->areas); area; area = next) {
    next = area->next;
    if (!over(ep, area)) {
      *left |= area->last_op != 0;
      before = area;
      continue;
    }
    if (before)
      atomic_store(&before->next, next);
    else
      atomic_store(&links->areas, next);
    area->next_out = out;
    out = area;
  }
  pthread_mutex_unlock(&links->lock);
  return out;
}

static void end_all(struct ep_neighbour_area *areas) {
  for (struct ep_neighbour_area *area = areas, *next; area; area = next) {
    next = area->next_out;
    ep_window_release(&area->window);
    free(area);
  }
}

bool ep_neighbours_sweep(weft_ep_t *ep) {
  bool left = false;
  end_all(take_out(ep, is_over, &left));
  return left;
}

void ep_neighbours_sweep_unlinked(weft_ep_t *ep) {
  bool left = false;
  struct ep_neighbour_area *out = take_out(ep, is_unlinked, &left);
  struct ep_net *net = atomic_load(&ep->net);
  if (out && net) { // a thread that has found one of them reads it under this lock
    ep_net_lock(net);
    ep_net_unlock(net);
  }
  end_all(out);
}

static bool is_any(const weft_ep_t *ep, struct ep_neighbour_area *area) {
  (void)ep, (void)area;
  return true;
}

void ep_neighbours_free(weft_ep_t *ep) {
  bool left = false;
  end_all(take_out(ep, is_any, &left));
}
