// Peers that fail, leave or are severed, and requests that wait for room.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "transport/flow/flow.h"

enum {
  RETRIES = 64,           // peers of one progress()
  LEAST_DELAY_NS = 20000, // see put_off()
  MOST_DELAY_NS = 1000000,
};

static struct flow_worker *worker_of(const struct flow_peer *peer) {
  return (struct flow_worker *)peer->base.worker;
}

void flow_worker_init(struct flow_worker *worker, const struct transport *transport,
                      const struct transport_options *options) {
  worker->base =
      (struct transport_worker){.transport = transport, .abilities = transport->abilities, .options = *options};
  worker->base.options.settings = NULL;
  worker->base.options.device = NULL;
  link_init(&worker->peers);
  link_init(&worker->regions);
  link_init(&worker->wanting);
}

void flow_peer_init(struct flow_peer *peer, struct flow_worker *worker) {
  peer->base.worker = &worker->base;
  link_init(&peer->remotes);
  link_init(&peer->active);
  link_init(&peer->waiting);
  link_init(&peer->wanting);
  link_add(&worker->peers, &peer->peers);
}

void flow_remote_init(struct flow_remote *remote, struct flow_peer *peer) {
  remote->base.peer = &peer->base;
  remote->max_operation = worker_of(peer)->wire.max_operation;
  link_add(&peer->remotes, &remote->remotes);
}

void flow_region_init(struct flow_region *region, struct flow_worker *worker, const struct transport_memory *memory) {
  region->base = (struct transport_region){.worker = &worker->base, .memory = *memory};
  region->max_operation = UINT64_MAX;
  link_add(&worker->regions, &region->regions);
}

void flow_peer_failed(struct flow_peer *peer, int err, const char *why) {
  if (peer->lost)
    return;
  peer->lost = true;
  if (peer->base.failed)
    return; // it is leaving
  peer->base.failed = err;
  snprintf(peer->why, sizeof peer->why, "%s", why);
  peer->unreported = true;
  worker_of(peer)->unreported++;
}

static void break_all(struct flow_peer *peer, int err, const char *why, uint64_t deadline) {
  for (struct link *link = peer->active.next, *next; link != &peer->active; link = next) {
    next = link->next; // it is in flight, so it cannot be posted meanwhile
    flow_break(LINK_OF(link, struct flow_request, active), err, why, deadline);
  }
}

static void report(struct flow_worker *worker, struct flow_peer *peer) {
  peer->unreported = false;
  worker->unreported--;
  worker->events++;
  break_all(peer, WEFT_ERR_PEER_LOST, peer->why, clock_deadline_ms(worker->wire.lost_ms));
  if (worker->base.options.on_peer && !peer->leaving)
    worker->base.options.on_peer(worker->base.options.arg, &peer->base, peer->base.failed, peer->why);
}

static void report_all(struct flow_worker *worker) {
  for (struct link *link = worker->peers.next; link != &worker->peers && worker->unreported > 0; link = link->next) {
    struct flow_peer *peer = LINK_OF(link, struct flow_peer, peers);
    if (peer->unreported)
      report(worker, peer);
  }
}

void flow_disconnect(struct transport_peer *base) {
  struct flow_peer *peer = (struct flow_peer *)base;
  peer->leaving = true;
  worker_of(peer)->doomed++;
  peer->deadline = clock_deadline_ms(FLOW_GRACE_MS);
  if (!peer->base.failed) {
    peer->base.failed = WEFT_ERR_CANCELED;
    snprintf(peer->why, sizeof peer->why, "disconnected");
  }
  break_all(peer, WEFT_ERR_CANCELED, "the peer was disconnected", peer->deadline);
}

static void free_remotes(struct flow_peer *peer) {
  while (!link_empty(&peer->remotes)) {
    struct flow_remote *remote = LINK_OF(peer->remotes.next, struct flow_remote, remotes);
    link_remove(&remote->remotes);
    worker_of(peer)->wire.free_remote(remote);
  }
}

void flow_release(struct transport_remote *base) {
  struct flow_remote *remote = (struct flow_remote *)base;
  struct flow_worker *worker = worker_of((struct flow_peer *)base->peer);
  link_remove(&remote->remotes);
  worker->wire.free_remote(remote);
}

bool flow_overdue(const struct flow_request *own, uint64_t now) {
  return own->canceled && now >= own->deadline;
}

// Whether the peer has to be severed for one of its requests; those are marked.
static bool overdue(struct flow_peer *peer, uint64_t now) {
  bool found = false;
  for (struct link *link = peer->active.next; link != &peer->active; link = link->next) {
    struct flow_request *own = LINK_OF(link, struct flow_request, active);
    own->severed |= flow_overdue(own, now);
    found |= own->severed;
  }
  return found;
}

static void free_left(struct flow_worker *worker, struct flow_peer *peer) {
  worker->unreported -= peer->unreported;
  worker->doomed--;
  worker->events++;
  free_remotes(peer);
  link_remove(&peer->peers);
  free(peer);
}

static void look_at_doomed(struct flow_worker *worker) {
  uint64_t now = clock_ns();
  for (struct link *link = worker->peers.next, *next; link != &worker->peers; link = next) {
    struct flow_peer *peer = LINK_OF(link, struct flow_peer, peers);
    next = link->next;
    if (overdue(peer, now) || (peer->leaving && now >= peer->deadline))
      worker->wire.sever(peer);
    if (!peer->leaving || !link_empty(&peer->active))
      continue;
    if (worker->wire.part(peer))
      free_left(worker, peer);
  }
}

// A peer that has ended refuses for ever, and each attempt may cost a failed connection, so attempts become rare.
static void put_off(struct flow_peer *peer) {
  bool alone = worker_of(peer)->wire.connects && peer->refused && peer->running == 0;
  peer->delay_ns = !alone ? 0 : peer->delay_ns == 0 ? LEAST_DELAY_NS : 2 * peer->delay_ns;
  if (peer->delay_ns > MOST_DELAY_NS)
    peer->delay_ns = MOST_DELAY_NS;
  peer->retry_ns = alone ? clock_ns() + peer->delay_ns : 0;
}

static bool is_due(const struct flow_peer *peer) {
  return peer->retry_ns == 0 || clock_ns() >= peer->retry_ns;
}

// Starts the first request of each peer first, so that messages are sent in the order of their posts.
static void retry(struct flow_worker *worker) {
  for (int i = 0; i < RETRIES && !link_empty(&worker->wanting); i++) {
    struct flow_peer *peer = LINK_OF(worker->wanting.next, struct flow_peer, wanting);
    link_remove(&peer->wanting); // it is put at the end if it still has to wait
    link_add(&worker->wanting, &peer->wanting);
    bool due = is_due(peer);
    for (struct link *first = peer->waiting.next; due && first != &peer->waiting; first = peer->waiting.next) {
      flow_pump(LINK_OF(first, struct flow_request, waiting));
      if (peer->waiting.next == first)
        break;
    }
    if (due)
      put_off(peer);
    if (!link_empty(&peer->waiting) && worker->wanting.next == &peer->wanting)
      break; // there is no other
  }
}

uint32_t flow_progress(struct flow_worker *worker) {
  if (!link_empty(&worker->wanting))
    retry(worker);
  if (worker->unreported > 0)
    report_all(worker);
  if (worker->doomed > 0)
    look_at_doomed(worker);
  uint32_t events = worker->events;
  worker->events = 0;
  return events;
}

bool flow_busy(const struct flow_worker *worker) {
  return worker->unreported > 0 || worker->doomed > 0 || !link_empty(&worker->wanting);
}

bool flow_idle(const struct flow_worker *worker) {
  for (const struct link *link = worker->peers.next; link != &worker->peers; link = link->next) {
    if (!link_empty(&LINK_OF(link, struct flow_peer, peers)->active))
      return false;
  }
  return true;
}

void flow_stop(struct flow_worker *worker) {
  for (struct link *link = worker->peers.next; link != &worker->peers; link = link->next) {
    struct flow_peer *peer = LINK_OF(link, struct flow_peer, peers);
    if (!peer->base.failed) {
      peer->base.failed = WEFT_ERR_CLOSED;
      snprintf(peer->why, sizeof peer->why, "the worker is being closed");
    }
    break_all(peer, WEFT_ERR_CANCELED, "the worker was closed", 0);
  }
}

static void end_all(struct flow_peer *peer) {
  while (!link_empty(&peer->active)) {
    struct flow_request *own = LINK_OF(peer->active.next, struct flow_request, active);
    own->running = 0;
    own->stage = FLOW_SETTLING;
    own->pumping = false;
    flow_break(own, WEFT_ERR_CANCELED, "the worker was closed", 0);
  }
}

void flow_end(struct flow_worker *worker) {
  while (!link_empty(&worker->peers)) {
    struct flow_peer *peer = LINK_OF(worker->peers.next, struct flow_peer, peers);
    end_all(peer);
    free_remotes(peer);
    link_remove(&peer->peers);
    free(peer);
  }
}
