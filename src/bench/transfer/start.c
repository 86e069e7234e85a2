// The start line: who is ready, and when all begin.
#include "bench/transfer/start.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/signal/stop.h"
#include "base/text/text.h"
#include "base/time/clock.h"

// From the word of rank 0 to the beginning: longer than a notification takes.
enum { LEAD_NS = 200000, LEAD_OF_HOSTS_NS = 2000000, LEAD_OF_WORKER_NS = 50000 };
enum { PINGS = 16, LOOK_EVERY = 256 };
enum kind { PING = 1, PONG, MEASURED, READY, GO };

struct message {
  uint32_t kind, reserved;
  uint64_t round;
  int64_t sent, time; // by the clock of who sends; by rank 0's
};

static int say(struct transfer_worker *worker, uint32_t rank, const struct message *message) {
  return weft_agent_notify(worker->agent, worker->others[rank].peer, message, sizeof *message);
}

static int look_around(struct transfer_worker *worker) {
  char why[FAIL_DETAIL_SIZE];
  int err = stop_check();
  if (!err && meet_lost(worker->meet, NULL, why, sizeof why))
    err = fail(WEFT_ERR_PEER_LOST, "%s", why);
  return err;
}

static int say_missing(struct transfer_worker *worker, const bool *there) {
  struct text who = {0};
  uint32_t timeout_ms = worker->plan->config.common.timeout_ms;
  if (!there)
    return fail(WEFT_ERR_TIMEOUT, "rank 0 on %s did not start the window within %u ms", meet_host(worker->meet, 0),
                timeout_ms);
  for (uint32_t rank = 1; rank < worker->size; rank++)
    if (!there[rank])
      text_add(&who, "%s%u on %s", who.size ? ", " : "", rank, meet_host(worker->meet, rank));
  int err = fail(WEFT_ERR_TIMEOUT, "not ready to start a window within %u ms: rank %.600s", timeout_ms,
                 who.data ? who.data : "?");
  text_free(&who);
  return err;
}

// The next message, and who has sent it. `there`: for the sentence of a deadline; NULL: rank 0 is waited for.
static int hear(struct transfer_worker *worker, uint64_t deadline_ns, const bool *there, struct message *message,
                uint32_t *from) {
  for (uint64_t tries = 1;; tries++) {
    struct weft_notification note;
    uint32_t count = 0;
    int err = weft_agent_notifications(worker->agent, &note, 1, &count);
    if (err)
      return err;
    for (uint32_t rank = 0; count == 1 && rank < worker->size; rank++)
      if (worker->others[rank].peer == note.peer && note.size == sizeof *message) {
        memcpy(message, note.bytes, sizeof *message);
        *from = rank;
        return 0;
      }
    if (tries % LOOK_EVERY != 0)
      continue;
    sched_yield();
    err = look_around(worker);
    if (!err && clock_passed(deadline_ns))
      err = say_missing(worker, there);
    if (err)
      return err;
  }
}

static uint64_t deadline_of(const struct transfer_worker *worker) {
  return clock_deadline_ms(worker->plan->config.common.timeout_ms);
}

static int unexpected(uint32_t rank, const struct message *message) {
  return fail(WEFT_ERR_PROTOCOL, "rank %u says %u of window %llu, which was not expected: is it of another version?",
              rank, message->kind, (unsigned long long)message->round);
}

// --- clocks ---

static int answer_pings(struct transfer_worker *worker) {
  uint64_t deadline_ns = deadline_of(worker);
  bool *there = calloc(worker->size, sizeof *there);
  int err = there ? 0 : fail(WEFT_ERR_NOMEM, "no memory for %u workers", worker->size);
  for (uint32_t measured = 1; measured < worker->size && !err;) {
    struct message message;
    uint32_t from = 0;
    err = hear(worker, deadline_ns, there, &message, &from);
    if (err)
      break;
    if (message.kind == PING) {
      message.kind = PONG;
      message.time = (int64_t)clock_ns();
      err = say(worker, from, &message);
    } else if (message.kind == MEASURED) {
      measured += !there[from];
      there[from] = true;
    } else {
      err = unexpected(from, &message);
    }
  }
  free(there);
  return err;
}

static int ping(struct transfer_worker *worker, int64_t *shortest) {
  struct message message = {.kind = PING, .sent = (int64_t)clock_ns()};
  uint32_t from = 0;
  int err = say(worker, 0, &message);
  if (!err)
    err = hear(worker, deadline_of(worker), NULL, &message, &from);
  if (!err && (message.kind != PONG || from != 0))
    err = unexpected(from, &message);
  int64_t now = (int64_t)clock_ns(), trip = now - message.sent;
  if (!err && trip < *shortest) {
    *shortest = trip;
    worker->offset_ns = message.time - (message.sent + trip / 2);
  }
  return err;
}

static bool shares_clock(const struct transfer_worker *worker) {
  return strcmp(meet_host(worker->meet, worker->rank), meet_host(worker->meet, 0)) == 0;
}

int transfer_start_open(struct transfer_worker *worker) {
  int64_t shortest = INT64_MAX;
  int err = 0;
  if (worker->rank == 0)
    return answer_pings(worker);
  for (int i = 0; i < PINGS && !err && !shares_clock(worker); i++)
    err = ping(worker, &shortest);
  const struct message done = {.kind = MEASURED};
  return err ? err : say(worker, 0, &done);
}

// --- windows ---

static int await_ready(struct transfer_worker *worker) {
  uint64_t deadline_ns = deadline_of(worker);
  bool *there = calloc(worker->size, sizeof *there);
  int err = there ? 0 : fail(WEFT_ERR_NOMEM, "no memory for %u workers", worker->size);
  for (uint32_t ready = 1; ready < worker->size && !err;) {
    struct message message;
    uint32_t from = 0;
    err = hear(worker, deadline_ns, there, &message, &from);
    if (!err && (message.kind != READY || message.round != worker->round))
      err = unexpected(from, &message);
    ready += !err && !there[from];
    there[from] = true;
  }
  free(there);
  return err;
}

static int call_all(struct transfer_worker *worker, int64_t *time) {
  bool hosts = false;
  int err = await_ready(worker);
  for (uint32_t rank = 1; rank < worker->size; rank++)
    hosts |= strcmp(meet_host(worker->meet, rank), meet_host(worker->meet, 0)) != 0;
  *time = (int64_t)clock_ns() + (hosts ? LEAD_OF_HOSTS_NS : LEAD_NS) + (int64_t)worker->size * LEAD_OF_WORKER_NS;
  const struct message go = {.kind = GO, .round = worker->round, .time = *time};
  for (uint32_t rank = 1; rank < worker->size && !err; rank++)
    err = say(worker, rank, &go);
  return err;
}

static int await_call(struct transfer_worker *worker, int64_t *time) {
  const struct message ready = {.kind = READY, .round = worker->round};
  struct message message;
  uint32_t from = 0;
  int err = say(worker, 0, &ready);
  if (!err)
    err = hear(worker, deadline_of(worker), NULL, &message, &from);
  if (!err && (message.kind != GO || message.round != worker->round || from != 0))
    err = unexpected(from, &message);
  if (!err)
    *time = message.time - worker->offset_ns;
  return err;
}

int transfer_start_wait(struct transfer_worker *worker) {
  int64_t time = 0;
  worker->round++;
  int err = worker->rank == 0 ? call_all(worker, &time) : await_call(worker, &time);
  while (!err && (int64_t)clock_ns() < time)
    ; // less than the time that an operating system takes to wake a thread
  return err;
}
