// Lanes, and the choice of the next exchange for a free lane. The objects of a request follow one another. The parts of
// an object move in parallel after the first answer has arrived: the answer of a READ has the version that all other
// parts have to have, the answer of a WRITE in parts the upload's id.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "transport/object/object.h"

static struct object_lane *free_lane(struct object_worker *worker) {
  for (uint64_t i = 0; worker->busy < worker->set.parallel && i < worker->set.parallel; i++) {
    if (!worker->lanes[i].busy)
      return &worker->lanes[i];
  }
  return NULL;
}

// Sets the exchange up and starts it.
static void lane_attempt(struct object_lane *lane) {
  int rc = object_exchange_setup(lane);
  if (rc == 0) {
    object_loop_start(lane);
    return;
  }
  lane->refused = rc;
  snprintf(lane->why, sizeof lane->why, "%s", weft_last_error());
  object_lane_ended(lane, CURLE_OUT_OF_MEMORY);
}

void object_lane_next(struct object_lane *lane, enum object_verb verb) {
  lane->verb = verb;
  lane->part = NULL;
  lane->attempt = 0;
  lane->failed[0] = '\0';
  lane->began_ns = clock_ns();
  lane_attempt(lane);
}

void object_lane_free(struct object_lane *lane) {
  struct object_request *own = lane->own;
  object_exchange_clear(lane);
  free(lane->object_url);
  lane->object_url = NULL;
  lane->busy = false;
  lane->own = NULL;
  lane->worker->busy--;
  if (own)
    own->running--;
}

static struct object_lane *lane_take(struct object_worker *worker, struct object_request *own,
                                     struct object_target *target, const char *object_url) {
  struct object_lane *lane = free_lane(worker);
  char *url = lane ? strdup(object_url) : NULL;
  if (!url)
    return NULL;
  lane->busy = true;
  lane->own = own;
  lane->target = target;
  lane->object_url = url;
  lane->part = NULL;
  lane->attempt = 0;
  lane->failed[0] = '\0';
  lane->retry_ns = 0;
  lane->upload[0] = '\0';
  worker->busy++;
  if (own)
    own->running++;
  lane->began_ns = clock_ns();
  return lane;
}

// --- aborting an upload ---

static void abort_later(struct object_worker *worker, const char *object_url, const char *upload) {
  struct object_abort *later = calloc(1, sizeof *later);
  char *url = strdup(object_url);
  if (!later || !url) {
    log_warn("object: out of memory: an upload stays unfinished at %s", object_url);
    free(later);
    free(url);
    return;
  }
  later->object_url = url;
  snprintf(later->upload, sizeof later->upload, "%s", upload);
  later->next = worker->aborts;
  worker->aborts = later;
}

void object_upload_abort(struct object_worker *worker, struct object_target *target) {
  if (target->upload[0])
    abort_later(worker, target->region->url, target->upload);
  target->upload[0] = '\0';
}

static bool begin_abort(struct object_worker *worker) {
  struct object_abort *one = worker->aborts;
  struct object_lane *lane = lane_take(worker, NULL, NULL, one->object_url);
  if (!lane)
    return false;
  worker->aborts = one->next;
  snprintf(lane->upload, sizeof lane->upload, "%s", one->upload);
  free(one->object_url);
  free(one);
  object_lane_next(lane, OBJECT_ABORT);
  return true;
}

// --- the next exchange ---

// Skips objects without further parts to begin. Returns the next object that has some; NULL: there is none, or its
// first answer has to arrive before.
static struct object_target *target_to_begin(struct object_request *own) {
  for (; own->next_target < own->num_targets; own->next_target++) {
    struct object_target *target = &own->targets[own->next_target];
    if (!target->err && target->region->base.gone)
      object_target_fail(own, target, fail(WEFT_ERR_NOT_FOUND, "%s was deregistered", object_target_path(target)));
    if (!target->err && target->next_part < target->num_parts)
      return target->opening ? NULL : target;
  }
  return NULL;
}

static bool begin_target(struct object_worker *worker, struct object_request *own, struct object_target *target) {
  struct object_lane *lane = lane_take(worker, own, target, target->region->url);
  if (!lane)
    return false;
  bool opens = !target->opened && target->num_parts > 1;
  target->opening = opens;
  if (opens && own->base.request->op == WEFT_TRANSFER_WRITE) {
    object_lane_next(lane, OBJECT_CREATE);
    return true;
  }
  enum object_verb verb = own->base.request->op == WEFT_TRANSFER_READ ? OBJECT_GET
                          : target->num_parts > 1                     ? OBJECT_PUT_PART
                                                                      : OBJECT_PUT;
  snprintf(lane->upload, sizeof lane->upload, "%s", target->upload);
  lane->verb = verb;
  lane->part = &own->parts[target->first_part + target->next_part++];
  lane_attempt(lane);
  return true;
}

// Whether object_issue() would begin, fail or end something of the request.
static bool has_next(const struct object_request *own) {
  for (uint32_t i = own->next_target; i < own->num_targets; i++) {
    const struct object_target *target = &own->targets[i];
    if (!target->err && target->region->base.gone)
      return true;
    if (!target->err && target->next_part < target->num_parts)
      return !target->opening;
  }
  return own->running == 0;
}

bool object_can_issue(const struct object_worker *worker) {
  if (worker->busy >= worker->set.parallel)
    return false;
  if (worker->aborts)
    return true;
  for (struct link *link = worker->base.active.next; link != &worker->base.active; link = link->next) {
    if (has_next((const struct object_request *)LINK_OF(link, struct storage_request, link)))
      return true;
  }
  return false;
}

void object_issue(struct object_worker *worker) {
  while (worker->aborts && worker->busy < worker->set.parallel && begin_abort(worker))
    ;
  struct link *next;
  for (struct link *link = worker->base.active.next; link != &worker->base.active; link = next) {
    next = link->next;
    struct object_request *own = (struct object_request *)LINK_OF(link, struct storage_request, link);
    struct object_target *target = NULL;
    own->running++; // an exchange that fails at once must not end the request meanwhile
    while (worker->busy < worker->set.parallel && (target = target_to_begin(own)) && begin_target(worker, own, target))
      ;
    own->running--;
    object_request_finish(own);
  }
}
