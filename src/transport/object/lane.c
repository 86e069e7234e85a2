// Which exchange comes next, and what becomes of it. The objects of a request follow one another; the parts of an
// object move in parallel, once its first answer has come: for a READ that names the version of which all other parts
// have to be, for a WRITE in parts the upload's id. After a refusal for now, or a broken connection, an exchange is
// tried again in the same lane, later each time, a bounded number of times.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "transport/object/object.h"

enum { BACKOFF_MAX_MS = 5000 };

static bool is_multipart(const struct object_request *own, const struct object_target *target) {
  return own->base.request->op == WEFT_TRANSFER_WRITE && target->num_parts > 1;
}

static const char *path_of(const struct object_target *target) {
  return target->region->base.base.memory.path ? target->region->base.base.memory.path : "an object";
}

// --- how pieces end ---

static const struct transport_piece *piece_at(const struct object_request *own, uint32_t entry) {
  return &own->base.request->pieces[own->order[entry]];
}

// Counts a part in its pieces: as moved (err 0), or as failed.
static void settle_part(struct object_request *own, const struct object_target *target, const struct object_part *part,
                        int err) {
  uint32_t last = target->first_entry + target->num_entries;
  uint64_t offset = part->offset, end = part->offset + part->length;
  for (uint32_t entry = part->first; entry < last && offset < end; entry++) {
    const struct transport_piece *piece = piece_at(own, entry);
    uint64_t piece_end = piece->remote_address + piece->length, run = (piece_end < end ? piece_end : end) - offset;
    if (err == 0)
      storage_request_moved(&own->base, own->order[entry], run);
    else
      storage_request_failed(&own->base, own->order[entry], err);
    offset += run;
  }
}

static void settle_target(struct object_request *own, const struct object_target *target, int err) {
  for (uint32_t i = 0; i < target->num_entries; i++) {
    uint32_t piece = own->order[target->first_entry + i];
    if (err == 0)
      storage_request_moved(&own->base, piece, own->base.request->pieces[piece].length);
    else
      storage_request_failed(&own->base, piece, err);
  }
}

// Fails the whole object: no other part of it begins, and those that have not arrived have failed.
static void fail_target(struct object_request *own, struct object_target *target, int err) {
  if (target->err)
    return;
  target->err = err;
  for (uint32_t i = 0; i < target->num_entries; i++) {
    uint32_t piece = own->order[target->first_entry + i];
    if (own->base.left[piece] > 0)
      storage_request_failed(&own->base, piece, err);
  }
}

static void finish_if_done(struct object_request *own) {
  if (own->running == 0 && own->next_target == own->num_targets && link_empty(&own->base.link) == false)
    storage_request_end(&own->base);
}

// --- lanes ---

static struct object_lane *free_lane(struct object_worker *worker) {
  for (uint64_t i = 0; worker->busy < worker->set.parallel && i < worker->set.parallel; i++) {
    if (!worker->lanes[i].busy)
      return &worker->lanes[i];
  }
  return NULL;
}

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

// Begins another exchange in a lane that is in use.
static void lane_next(struct object_lane *lane, enum object_verb verb) {
  lane->verb = verb;
  lane->part = NULL;
  lane->attempt = 0;
  lane->began_ns = clock_ns();
  lane_attempt(lane);
}

static void lane_free(struct object_lane *lane) {
  struct object_request *own = lane->own;
  struct object_target *target = lane->target;
  object_exchange_clear(lane);
  free(lane->object_url);
  lane->object_url = NULL;
  lane->busy = false;
  lane->own = NULL;
  lane->worker->busy--;
  if (!own)
    return;
  own->running--;
  target->parts_running--;
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
  lane->retry_ns = 0;
  lane->upload[0] = '\0';
  worker->busy++;
  if (own) {
    own->running++;
    target->parts_running++;
  }
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

// The upload of an object that will not be completed.
static void give_up_upload(struct object_worker *worker, struct object_target *target) {
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
  lane_next(lane, OBJECT_ABORT);
  return true;
}

// --- what begins next ---

// The object at which the request stands, past those that have nothing more to begin.
static struct object_target *target_to_begin(struct object_request *own) {
  for (; own->next_target < own->num_targets; own->next_target++) {
    struct object_target *target = &own->targets[own->next_target];
    if (!target->err && target->region->base.gone)
      fail_target(own, target, fail(WEFT_ERR_NOT_FOUND, "%s was deregistered", path_of(target)));
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
    lane_next(lane, OBJECT_CREATE);
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

bool object_can_issue(const struct object_worker *worker) {
  if (worker->busy >= worker->set.parallel)
    return false;
  if (worker->aborts)
    return true;
  for (struct link *link = worker->base.active.next; link != &worker->base.active; link = link->next) {
    if (target_to_begin((struct object_request *)LINK_OF(link, struct storage_request, link)))
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
    own->running++; // an exchange that fails at once does not end it meanwhile
    while (worker->busy < worker->set.parallel && (target = target_to_begin(own)) && begin_target(worker, own, target))
      ;
    own->running--;
    finish_if_done(own);
  }
}

// --- what became of it ---

int object_lane_judge(const struct object_lane *lane, CURLcode result, bool *again, char *why, size_t cap) {
  *again = false;
  if (lane->refused) {
    snprintf(why, cap, "%s", lane->why);
    *again = lane->refused == WEFT_ERR_PROTOCOL && result == CURLE_OK; // it ended early
    return lane->refused;
  }
  if (result == CURLE_OK || (result == CURLE_PARTIAL_FILE && lane->answer.status >= 300))
    return object_answer_judge(&lane->answer, again, why, cap);
  bool certificate = result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE;
  int err = certificate ? WEFT_ERR_AUTH : result == CURLE_OUT_OF_MEMORY ? WEFT_ERR_NOMEM : WEFT_ERR_UNREACHABLE;
  *again = err != WEFT_ERR_AUTH && result != CURLE_URL_MALFORMAT && result != CURLE_UNSUPPORTED_PROTOCOL;
  // Which server that is, the caller has said in a variable or by a region, if at all.
  const char *url = lane->object_url, *path = strchr(strstr(url, "://") + 3, '/');
  snprintf(why, cap, "%.*s: %s%s", (int)(path - url), url, certificate ? "its certificate is not accepted: " : "",
           curl_easy_strerror(result));
  return err;
}

// The sentence: what, and what was wrong with it; in the last error.
static int lane_failure(struct object_lane *lane, CURLcode result, bool *again) {
  char why[256] = "";
  int err = object_lane_judge(lane, result, again, why, sizeof why);
  // A version that was replaced fails the condition If-Match.
  if (err == WEFT_ERR_CONFLICT && lane->verb == OBJECT_GET && lane->answer.status == 412)
    snprintf(why, sizeof why, "it was changed while it was read");
  const char *path = lane->own ? path_of(lane->target) : lane->object_url;
  return err ? fail(err, "%s: %s", path, why) : 0;
}

static bool lane_retries(struct object_lane *lane) {
  const struct object_settings *set = &lane->worker->set;
  uint64_t now = clock_ns();
  if (lane->attempt >= set->retries || now - lane->began_ns >= set->timeout_s * 1000000000u ||
      lane->worker->base.closing)
    return false;
  uint64_t ms = set->backoff_ms << (lane->attempt < 16 ? lane->attempt : 16);
  ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
  lane->attempt++;
  log_debug("object: attempt %u: %s", lane->attempt, weft_last_error());
  lane->retry_ns = now + 1 + (ms * 500000u + random_id() % (ms * 500000u + 1)); // half of it is chance
  return true;
}

// What else is under way for an object that will not be completed.
static void stop_target(struct object_worker *worker, const struct object_target *target) {
  for (uint64_t i = 0; i < worker->set.parallel; i++) {
    struct object_lane *lane = &worker->lanes[i];
    if (!lane->busy || !lane->own || lane->target != target)
      continue;
    object_loop_stop(lane);
    lane_free(lane);
  }
}

static void lane_failed(struct object_lane *lane, int err) {
  struct object_request *own = lane->own;
  struct object_target *target = lane->target;
  if (!own) {
    log_warn("object: an upload stays unfinished: %s", weft_last_error());
    lane_free(lane);
    return;
  }
  bool all = own->base.request->op == WEFT_TRANSFER_WRITE || err == WEFT_ERR_AUTH || err == WEFT_ERR_NOT_FOUND ||
             err == WEFT_ERR_CONFLICT || err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_UNSUPPORTED;
  if (all)
    fail_target(own, target, err);
  else if (lane->part)
    settle_part(own, target, lane->part, err);
  target->opening = false;
  lane_free(lane);
  if (target->err && is_multipart(own, target)) {
    stop_target(lane->worker, target);
    give_up_upload(lane->worker, target);
  }
  finish_if_done(own);
}

static int check_created(struct object_lane *lane) {
  char id[512];
  if (!object_answer_element(&lane->answer, "UploadId", id, sizeof id) || !*id ||
      !object_encode(id, "", lane->upload, sizeof lane->upload))
    return fail(WEFT_ERR_PROTOCOL, "%s: the server gave no id for an upload in parts", lane->object_url);
  return 0;
}

static void created(struct object_lane *lane) {
  if (!lane->own) { // cancelled meanwhile
    lane_next(lane, OBJECT_ABORT);
    return;
  }
  struct object_target *target = lane->target;
  snprintf(target->upload, sizeof target->upload, "%s", lane->upload);
  target->opening = false;
  target->opened = true;
  lane_free(lane);
}

static void part_came(struct object_lane *lane) {
  struct object_request *own = lane->own;
  struct object_target *target = lane->target;
  if (target->opening)
    snprintf(target->etag, sizeof target->etag, "%s", lane->answer.etag);
  target->opening = false;
  target->opened = true;
  settle_part(own, target, lane->part, 0);
  lane_free(lane);
}

static void part_went(struct object_lane *lane) {
  struct object_target *target = lane->target;
  memcpy(lane->part->etag, lane->answer.etag, sizeof lane->part->etag); // object_lane_ended() has seen that it fits
  lane->part->etag[sizeof lane->part->etag - 1] = '\0';
  if (++target->parts_done == target->num_parts && !target->err) {
    lane_next(lane, OBJECT_COMPLETE);
    return;
  }
  lane_free(lane);
}

static void lane_succeeded(struct object_lane *lane) {
  struct object_request *own = lane->own;
  switch (lane->verb) {
  case OBJECT_GET:
    part_came(lane);
    break;
  case OBJECT_CREATE:
    created(lane);
    break;
  case OBJECT_PUT_PART:
    part_went(lane);
    break;
  case OBJECT_PUT:
  case OBJECT_COMPLETE:
    lane->target->upload[0] = '\0';
    settle_target(own, lane->target, 0);
    lane_free(lane);
    break;
  case OBJECT_ABORT:
    lane_free(lane);
    break;
  case OBJECT_HEAD: // query.c's, in no lane of the worker
    break;
  }
  if (own)
    finish_if_done(own);
}

void object_lane_ended(struct object_lane *lane, CURLcode result) {
  bool again;
  bool short_one = lane->verb == OBJECT_GET && lane->answer.status < 300 && lane->answer.status >= 200 &&
                   lane->moved < lane->part->length;
  if (result == CURLE_OK && short_one && !lane->refused)
    object_exchange_check_short(lane);
  int err = lane_failure(lane, result, &again);
  if (err == 0 && lane->verb == OBJECT_CREATE)
    err = check_created(lane);
  if (err == 0 && lane->verb == OBJECT_PUT_PART && (!lane->answer.etag[0] || strlen(lane->answer.etag) >= 64))
    err = fail(WEFT_ERR_PROTOCOL, "%s: the server gave no ETag for a part", path_of(lane->target));
  if (err == WEFT_ERR_NOT_FOUND && lane->verb == OBJECT_ABORT)
    err = 0; // it is aborted already
  if (err == WEFT_ERR_NOT_FOUND && lane->verb == OBJECT_COMPLETE && lane->attempt > 0)
    err = fail(WEFT_ERR_UNREACHABLE, "%s: the answer to its completion was lost; it may have been written",
               path_of(lane->target));
  if (err == 0)
    lane_succeeded(lane);
  else if (!again || !lane_retries(lane))
    lane_failed(lane, err);
}

void object_cancel(struct transport_request *request) {
  struct object_request *own = request->own;
  if (atomic_load_explicit(&request->state, memory_order_acquire) != TRANSPORT_IN_FLIGHT || own->base.canceled)
    return;
  struct object_worker *worker = (struct object_worker *)own->base.peer->base.worker;
  if (own->running == 0 && own->next_target == own->num_targets)
    return; // it has ended, and progress() completes it
  own->base.canceled = true;
  own->next_target = own->num_targets;
  for (uint64_t i = 0; i < worker->set.parallel; i++) {
    struct object_lane *lane = &worker->lanes[i];
    if (!lane->busy || lane->own != own)
      continue;
    if (lane->verb == OBJECT_CREATE && lane->retry_ns == 0) { // its answer is needed: it names the upload to abort
      own->running--;
      lane->target->parts_running--;
      lane->own = NULL;
      continue;
    }
    object_loop_stop(lane);
    lane_free(lane);
  }
  for (uint32_t i = 0; i < own->num_targets; i++)
    give_up_upload(worker, &own->targets[i]);
  storage_request_end(&own->base);
}
