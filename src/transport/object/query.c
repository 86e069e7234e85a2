// Gets the length of an object from the server, while the caller waits: HEAD, with a separate handle.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "transport/object/object.h"

// One answer; `*again`: another try may go better.
static int ask(struct object_lane *lane, const char *path, uint64_t deadline_ns, bool *again) {
  char why[256] = "";
  int rc = object_exchange_setup(lane);
  if (rc != 0)
    return rc;
  int left_ms = clock_left_ms(deadline_ns);
  curl_easy_setopt(lane->easy, CURLOPT_TIMEOUT_MS, left_ms > 0 ? (long)left_ms : 1L);
  CURLcode result = curl_easy_perform(lane->easy);
  rc = object_lane_judge(lane, result, again, why, sizeof why);
  if (result == CURLE_OPERATION_TIMEDOUT && clock_passed(deadline_ns))
    rc = WEFT_ERR_TIMEOUT;
  if (rc == 0 && !lane->answer.has_length)
    return fail(WEFT_ERR_PROTOCOL, "%s: the server does not report its length", path);
  return rc == 0 ? 0 : fail(rc, "%s: %s", path, why);
}

static int ask_until(struct object_lane *lane, const char *path, uint64_t deadline_ns) {
  const struct object_settings *set = &lane->worker->set;
  bool again = false;
  int rc = ask(lane, path, deadline_ns, &again);
  for (uint64_t tries = 0; rc != 0 && again && tries < set->retries && !clock_passed(deadline_ns); tries++) {
    snprintf(lane->failed, sizeof lane->failed, "%s", weft_last_error());
    uint64_t next_ns = clock_ns() + object_backoff_ns(set, tries);
    poll(NULL, 0, clock_left_ms(next_ns < deadline_ns ? next_ns : deadline_ns));
    again = false;
    if (!clock_passed(deadline_ns))
      rc = ask(lane, path, deadline_ns, &again);
  }
  if (rc == WEFT_ERR_TIMEOUT && lane->failed[0]) // it alone would not say why the attempts before it have failed
    return fail(rc, "%s: no answer in time after: %s", path, lane->failed);
  return rc;
}

// Of the worker only its settings are read, which stay.
int object_query(struct transport_worker *base, const char *path, uint32_t timeout_ms, uint64_t *length) {
  struct object_worker *worker = (struct object_worker *)base;
  struct object_lane lane = {.worker = worker, .easy = curl_easy_init(), .verb = OBJECT_HEAD};
  uint64_t deadline_ns = clock_wait_deadline(timeout_ms);
  if (!lane.easy)
    return fail(WEFT_ERR_NOMEM, "out of memory for a request to the object store");
  int rc = object_url(&worker->set, path, &lane.object_url);
  if (rc == 0) {
    rc = ask_until(&lane, path, deadline_ns);
    if (rc == 0)
      *length = lane.answer.length; // the answer of a failure has the length of its text
    object_exchange_clear(&lane);
  }
  free(lane.object_url);
  curl_easy_cleanup(lane.easy);
  return rc;
}
