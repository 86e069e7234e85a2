// Handles an exchange that has ended, or whose request is cancelled. After a temporary refusal, or a broken connection,
// it is tried again in the same lane, with growing delays and a limited number of times.
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "transport/object/object.h"

enum { BACKOFF_MAX_MS = 5000 };

// --- why it failed ---

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
  // The sentence names the server: the caller has named it by a variable or by a region, if at all.
  const char *url = lane->object_url, *path = strchr(strstr(url, "://") + 3, '/');
  long error = 0; // of connect()
  if (result == CURLE_COULDNT_CONNECT)
    curl_easy_getinfo(lane->easy, CURLINFO_OS_ERRNO, &error);
  const char *cause = error > 0 ? strerrordesc_np((int)error) : NULL;
  snprintf(why, cap, "%.*s: %s%s%s%s", (int)(path - url), url, certificate ? "its certificate is not accepted: " : "",
           curl_easy_strerror(result), cause ? ": " : "", cause ? cause : "");
  return err;
}

// The same, and sets the last error, which names the object and the reason.
static int lane_failure(struct object_lane *lane, CURLcode result, bool *again) {
  char why[256] = "";
  int err = object_lane_judge(lane, result, again, why, sizeof why);
  // A version that was replaced fails the condition If-Match.
  if (err == WEFT_ERR_CONFLICT && lane->verb == OBJECT_GET && lane->answer.status == 412)
    snprintf(why, sizeof why, "it was changed while it was read");
  const char *path = lane->own ? object_target_path(lane->target) : lane->object_url;
  return err ? fail(err, "%s: %s", path, why) : 0;
}

// --- after a failure ---

uint64_t object_backoff_ns(const struct object_settings *set, uint64_t attempt) {
  uint64_t ms = set->backoff_ms << (attempt < 16 ? attempt : 16);
  ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
  return ms * 500000u + random_id() % (ms * 500000u + 1);
}

// Has the exchange tried again later; false: it has been tried often enough, or for long enough, or nobody wants
// another upload any more: one that was begun after its request had been cancelled would only be aborted.
static bool lane_retries(struct object_lane *lane) {
  const struct object_settings *set = &lane->worker->set;
  uint64_t now = clock_ns();
  bool unwanted = lane->verb == OBJECT_CREATE && !lane->own;
  if (unwanted || lane->attempt >= set->retries || now - lane->began_ns >= set->timeout_s * 1000000000u ||
      lane->worker->base.closing)
    return false;
  lane->retry_ns = now + 1 + object_backoff_ns(set, lane->attempt++);
  snprintf(lane->failed, sizeof lane->failed, TRANSPORT_CANCELED_AFTER "%s", weft_last_error());
  log_debug("object: attempt %u: %s", lane->attempt, weft_last_error());
  return true;
}

static bool is_multipart(const struct object_request *own, const struct object_target *target) {
  return own->base.request->op == WEFT_TRANSFER_WRITE && target->num_parts > 1;
}

// Stops the other exchanges under way for an object that will not be completed.
static void stop_target(struct object_worker *worker, const struct object_target *target) {
  for (uint64_t i = 0; i < worker->set.parallel; i++) {
    struct object_lane *lane = &worker->lanes[i];
    if (!lane->busy || !lane->own || lane->target != target)
      continue;
    object_loop_stop(lane);
    object_lane_free(lane);
  }
}

static void lane_failed(struct object_lane *lane, int err) {
  struct object_request *own = lane->own;
  struct object_target *target = lane->target;
  if (!own) {
    log_warn("object: an upload may stay unfinished: %s", weft_last_error());
    object_lane_free(lane);
    return;
  }
  bool all = own->base.request->op == WEFT_TRANSFER_WRITE || err == WEFT_ERR_AUTH || err == WEFT_ERR_NOT_FOUND ||
             err == WEFT_ERR_CONFLICT || err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_UNSUPPORTED;
  if (all)
    object_target_fail(own, target, err);
  else if (lane->part)
    object_part_settle(own, target, lane->part, err);
  target->opening = false;
  object_lane_free(lane);
  if (target->err && is_multipart(own, target)) {
    stop_target(lane->worker, target);
    object_upload_abort(lane->worker, target);
  }
  object_request_finish(own);
}

// --- after a success ---

static int check_created(struct object_lane *lane) {
  char id[512];
  if (!object_answer_element(&lane->answer, "UploadId", id, sizeof id) || !*id ||
      !object_encode(id, "", lane->upload, sizeof lane->upload))
    return fail(WEFT_ERR_PROTOCOL, "%s: the server gave no id for an upload in parts", lane->object_url);
  return 0;
}

static void created(struct object_lane *lane) {
  if (!lane->own) { // cancelled meanwhile
    object_lane_next(lane, OBJECT_ABORT);
    return;
  }
  struct object_target *target = lane->target;
  snprintf(target->upload, sizeof target->upload, "%s", lane->upload);
  target->opening = false;
  target->opened = true;
  object_lane_free(lane);
}

static void part_came(struct object_lane *lane) {
  struct object_request *own = lane->own;
  struct object_target *target = lane->target;
  if (target->opening)
    snprintf(target->etag, sizeof target->etag, "%s", lane->answer.etag);
  target->opening = false;
  target->opened = true;
  object_part_settle(own, target, lane->part, 0);
  object_lane_free(lane);
}

static void part_went(struct object_lane *lane) {
  struct object_target *target = lane->target;
  memcpy(lane->part->etag, lane->answer.etag, sizeof lane->part->etag); // object_lane_ended() has seen that it fits
  lane->part->etag[sizeof lane->part->etag - 1] = '\0';
  if (++target->parts_done == target->num_parts && !target->err) {
    object_lane_next(lane, OBJECT_COMPLETE);
    return;
  }
  object_lane_free(lane);
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
    object_target_moved(own, lane->target);
    object_lane_free(lane);
    break;
  case OBJECT_ABORT:
    object_lane_free(lane);
    break;
  case OBJECT_HEAD: // query.c's, in no lane of the worker
    break;
  }
  if (own)
    object_request_finish(own);
}

void object_lane_ended(struct object_lane *lane, CURLcode result) {
  bool again;
  bool moves = lane->verb == OBJECT_GET || lane->verb == OBJECT_PUT || lane->verb == OBJECT_PUT_PART;
  bool short_one = moves && lane->answer.status < 300 && lane->answer.status >= 200 && lane->moved < lane->part->length;
  if (result == CURLE_OK && short_one && !lane->refused)
    object_exchange_check_short(lane);
  int err = lane_failure(lane, result, &again);
  if (err == 0 && lane->verb == OBJECT_CREATE)
    err = check_created(lane);
  if (err == 0 && lane->verb == OBJECT_PUT_PART && (!lane->answer.etag[0] || strlen(lane->answer.etag) >= 64))
    err = fail(WEFT_ERR_PROTOCOL, "%s: the server gave no ETag for a part", object_target_path(lane->target));
  if (err == WEFT_ERR_NOT_FOUND && lane->verb == OBJECT_ABORT)
    err = 0; // it is aborted already
  // Also at the first attempt: curl itself sends a request again if a kept connection ends without any answer.
  if (err == WEFT_ERR_NOT_FOUND && lane->verb == OBJECT_COMPLETE)
    err = fail(WEFT_ERR_UNREACHABLE, "%s: the answer to its completion was lost; it may have been written",
               object_target_path(lane->target));
  if (err == 0)
    lane_succeeded(lane);
  else if (!again || !lane_retries(lane))
    lane_failed(lane, err);
}

// --- cancelling ---

// The end of a request that waits for a server in trouble tells what the trouble is.
static void tell_failure(const struct object_lane *lane, struct transport_request *request) {
  if (lane->failed[0] && !request->why[0])
    snprintf(request->why, sizeof request->why, "%s", lane->failed);
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
    tell_failure(lane, request);
    if (lane->verb == OBJECT_CREATE && lane->retry_ns == 0) { // its answer is needed: it names the upload to abort
      own->running--;
      lane->own = NULL;
      continue;
    }
    object_loop_stop(lane);
    object_lane_free(lane);
  }
  for (uint32_t i = 0; i < own->num_targets; i++)
    object_upload_abort(worker, &own->targets[i]);
  storage_request_end(&own->base);
}
