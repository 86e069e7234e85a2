// Waits for changes by events, and the errors that end every wait.
#include "base/fail.h"
#include "base/time/clock.h"
#include "meet/state.h"

enum { ASK_MS = 50 }; // how often it is asked whether a wait is interrupted

static int somebody_lost(const struct meet *meet) {
  const struct meet_worker *worker = &meet->workers[meet->first];
  struct text who = {0};
  meet_add_name(meet, meet->first, &who);
  int err = worker->end == MEET_FAILED
                ? fail(worker->err, "%s failed: %s", who.data ? who.data : "a worker", worker->why ? worker->why : "?")
                : fail(WEFT_ERR_PEER_LOST, "%s is lost: %s", who.data ? who.data : "a worker",
                       worker->why ? worker->why : "?");
  text_free(&who);
  return err;
}

int meet_obstacle(struct meet *meet) {
  if (meet->joined && meet->workers[meet->rank].end == MEET_LOST)
    return fail(WEFT_ERR_FENCED, "the other workers considered this worker, rank %u, dead: %s", meet->rank,
                meet->workers[meet->rank].why ? meet->workers[meet->rank].why : "?");
  if (atomic_load(&meet->lost))
    return somebody_lost(meet);
  if (meet->lease_ended)
    return fail(WEFT_ERR_FENCED,
                "the keys of this worker are gone from the store %s: the store was restarted, or this worker was "
                "stopped for more than %d s",
                weft_store_name(meet->store), MEET_TTL_S);
  if (meet->away_ns && clock_ns() - meet->away_ns > MEET_SILENCE_MS * UINT64_C(1000000))
    return fail(WEFT_ERR_UNREACHABLE, "the store %s has not answered for %d ms", weft_store_name(meet->store),
                MEET_SILENCE_MS);
  if (meet->interrupted && meet->interrupted(meet->arg))
    return fail(WEFT_ERR_CANCELED, "interrupted");
  return 0;
}

void meet_sleep(struct meet *meet, uint64_t until_ns) {
  uint64_t ask = clock_deadline_ms(meet->interrupted ? ASK_MS : MEET_RENEW_MS);
  struct timespec wake = clock_timespec(until_ns < ask ? until_ns : ask);
  pthread_cond_timedwait(&meet->changed, &meet->lock, &wake);
}

static int too_late(struct meet *meet, void (*missing)(struct meet *meet, void *arg, struct text *out), void *arg) {
  struct text text = {0};
  missing(meet, arg, &text);
  int err = meet->away_ns ? fail(WEFT_ERR_UNREACHABLE, "the store %s does not answer; %s", weft_store_name(meet->store),
                                 text.data ? text.data : "?")
                          : fail(WEFT_ERR_TIMEOUT, "%s", text.data ? text.data : "?");
  text_free(&text);
  return err;
}

int meet_wait(struct meet *meet, uint64_t deadline_ns, bool (*done)(struct meet *meet, void *arg),
              int (*hopeless)(struct meet *meet, void *arg),
              void (*missing)(struct meet *meet, void *arg, struct text *out), void *arg) {
  for (;;) {
    if (done(meet, arg))
      return 0;
    int err = meet_obstacle(meet);
    if (!err)
      err = hopeless(meet, arg);
    if (!err && clock_passed(deadline_ns))
      err = too_late(meet, missing, arg);
    if (err)
      return err;
    meet_sleep(meet, deadline_ns);
  }
}
