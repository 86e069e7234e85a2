// Starts and ends of runs, by notifications.
#include "bench/traffic/crew.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"

enum { READY = 1, GO, DONE, PING, PONG, COMPARED };
enum {
  SPIN_NS = 300000,          // longer than a start takes where each worker has a processor
  FINE_NS = 80000,           // a short sleep wakes up so late, by the timer slack of threads (prctl(2)) and some more
  LEAD_NS = 150000,          // from the choice of a start to the start: the message has to arrive until then
  LEAD_CROWDED_NS = 1000000, // where those who are to get it have to wait for a processor first
  LEAD_EACH_NS = 10000,
  NAP_MS = 5,
  LOOK_NS = 1000000, // between looks at what asks to end, which are not free
  PINGS = 16,
  BLAME_MS = 2000,
  LOST_MS = 1000,
};

// On the wire between workers of the same version, little-endian as all that Weft runs on.
struct message {
  uint32_t kind, reserved;
  uint64_t run, ns;
};

static int send_to(struct traffic_crew *crew, uint32_t rank, uint32_t kind, uint64_t run, uint64_t ns) {
  struct message message = {.kind = kind, .run = run, .ns = ns};
  int rc = weft_agent_notify(crew->agent, crew->mates[rank].peer, &message, sizeof message);
  return rc == 0 ? 0 : traffic_crew_blame(crew, rc, weft_last_error(), rank);
}

static int take_message(struct traffic_crew *crew, const struct weft_notification *note) {
  struct message message;
  uint32_t rank = 0;
  while (rank < crew->size && crew->mates[rank].peer != note->peer)
    rank++;
  if (rank == crew->size || note->size != sizeof message)
    return 0; // not of this benchmark
  memcpy(&message, note->bytes, sizeof message);
  switch (message.kind) {
  case READY:
    crew->mates[rank].ready = message.run;
    return 0;
  case GO:
    crew->go = message.run;
    crew->go_ns = message.ns;
    return 0;
  case DONE:
    crew->mates[rank].done = message.run;
    return 0;
  case PING:
    return send_to(crew, rank, PONG, message.run, clock_ns());
  case PONG:
    crew->pong_ns = message.ns;
    return 0;
  case COMPARED:
    crew->asking -= crew->asking > 0;
    return 0;
  default:
    return fail(WEFT_ERR_PROTOCOL, "worker %u on %s sent a message of kind %u: is it another version?", rank,
                meet_host(crew->meet, rank), message.kind);
  }
}

static int take_all(struct traffic_crew *crew) {
  struct weft_notification note;
  uint32_t count = 0;
  for (;;) {
    int rc = weft_agent_notifications(crew->agent, &note, 1, &count);
    if (rc != 0 || count == 0)
      return rc;
    rc = take_message(crew, &note);
    if (rc != 0)
      return rc;
  }
}

int traffic_crew_look(struct traffic_crew *crew) {
  int rc = stop_check();
  if (rc == 0 && meet_lost(crew->meet, NULL, NULL, 0)) // a step says who and why, at once
    rc = meet_barrier(crew->meet, "end", LOST_MS);
  return rc;
}

// A wait, turn by turn.
struct wait {
  uint64_t begun_ns, looked_ns, deadline_ns;
};

static struct wait begin_wait(const struct traffic_crew *crew) {
  uint64_t now = clock_ns();
  return (struct wait){.begun_ns = now, .looked_ns = now, .deadline_ns = clock_deadline_ms(crew->timeout_ms)};
}

// 0: look again. TIMEOUT without a sentence: the deadline has passed.
static int turn(struct traffic_crew *crew, struct wait *wait) {
  int rc = take_all(crew);
  uint64_t now = clock_ns();
  if (rc != 0)
    return rc;
  if (now - wait->looked_ns > LOOK_NS) {
    wait->looked_ns = now;
    rc = traffic_crew_look(crew);
  }
  if (rc == 0 && now >= wait->deadline_ns)
    return WEFT_ERR_TIMEOUT;
  if (rc == 0 && now - wait->begun_ns < SPIN_NS) {
    if (!crew->roomy)
      sched_yield(); // to whom this one waits for
    rc = weft_agent_progress(crew->agent, NULL);
  } else if (rc == 0) {
    struct pollfd wake = {.fd = crew->wake, .events = POLLIN};
    uint64_t left_ms = (wait->deadline_ns - now + 999999) / 1000000;
    poll(&wake, 1, left_ms < NAP_MS ? (int)left_ms : NAP_MS); // a death or a signal is looked for in between
  }
  return rc;
}

static int say_missing(struct traffic_crew *crew, int rc, uint32_t rank, const char *what) {
  if (rc != WEFT_ERR_TIMEOUT)
    return rc;
  return fail(rc, "worker %u on %s %s within %u ms", rank, meet_host(crew->meet, rank), what, crew->timeout_ms);
}

// --- clocks ---

// The answer that came back soonest tells most exactly: rank 0's clock was that of the middle, within half the way.
static int compare_clocks(struct traffic_crew *crew) {
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < PINGS; i++) {
    struct wait wait = begin_wait(crew);
    uint64_t begun = clock_ns();
    crew->pong_ns = 0;
    int rc = send_to(crew, 0, PING, 0, 0);
    while (rc == 0 && (rc = take_all(crew)) == 0 && crew->pong_ns == 0)
      rc = turn(crew, &wait);
    if (rc != 0)
      return say_missing(crew, rc, 0, "did not answer");
    uint64_t way = clock_ns() - begun;
    if (way >= best)
      continue;
    best = way;
    crew->ahead_ns = (int64_t)(crew->pong_ns - (begun + way / 2));
    crew->error_ns = way / 2 + 1;
  }
  return send_to(crew, 0, COMPARED, 0, 0);
}

int traffic_crew_open(struct traffic_crew *crew, const bool *other_clock) {
  crew->ahead_ns = 0;
  crew->error_ns = 0;
  crew->asking = 0;
  for (uint32_t i = 1; i < crew->size; i++)
    crew->asking += other_clock[i];
  int rc = weft_agent_fd(crew->agent, &crew->wake);
  if (rc != 0 || crew->rank != 0)
    return rc == 0 && other_clock[crew->rank] ? compare_clocks(crew) : rc;
  struct wait wait = begin_wait(crew);
  while (rc == 0 && crew->asking > 0)
    rc = turn(crew, &wait);
  if (rc == WEFT_ERR_TIMEOUT)
    return fail(rc, "%u of the workers on other hosts have not compared their clocks within %u ms", crew->asking,
                crew->timeout_ms);
  return rc;
}

void traffic_crew_close(struct traffic_crew *crew) {
  free(crew->mates);
  crew->mates = NULL;
}

// --- starts and ends ---

static int await_ready(struct traffic_crew *crew, uint64_t run, const uint32_t *ranks, uint32_t count) {
  struct wait wait = begin_wait(crew);
  for (uint32_t i = 1; i < count; i++)
    while (crew->mates[ranks[i]].ready != run) {
      int rc = turn(crew, &wait);
      if (rc != 0)
        return say_missing(crew, rc, ranks[i], "has not come to the start of a run");
    }
  return 0;
}

static int lead_start(struct traffic_crew *crew, uint64_t run, const uint32_t *ranks, uint32_t count) {
  int rc = await_ready(crew, run, ranks, count);
  uint64_t ahead = (crew->roomy ? LEAD_NS : LEAD_CROWDED_NS) + (uint64_t)count * LEAD_EACH_NS;
  crew->go = run;
  crew->go_ns = clock_ns() + (uint64_t)crew->ahead_ns + (count > 1 ? ahead : 0);
  for (uint32_t i = 1; i < count && rc == 0; i++)
    rc = send_to(crew, ranks[i], GO, run, crew->go_ns);
  return rc;
}

static int follow_start(struct traffic_crew *crew, uint64_t run, uint32_t leader) {
  struct wait wait = begin_wait(crew);
  int rc = send_to(crew, leader, READY, run, 0);
  while (rc == 0 && crew->go != run)
    rc = turn(crew, &wait);
  return say_missing(crew, rc, leader, "did not begin a run");
}

int traffic_crew_start(struct traffic_crew *crew, uint64_t run, const uint32_t *ranks, uint32_t count,
                       uint64_t *start_ns) {
  int rc = ranks[0] == crew->rank ? lead_start(crew, run, ranks, count) : follow_start(crew, run, ranks[0]);
  if (rc != 0)
    return rc;
  *start_ns = crew->go_ns - (uint64_t)crew->ahead_ns;
  uint64_t left = clock_left_ns(*start_ns);
  struct timespec nap = clock_timespec(left > FINE_NS ? left - FINE_NS : 0);
  if (crew->crowded)
    nanosleep(&nap, NULL); // so that the others get the message; who keeps a processor starts in time
  while (!clock_passed(*start_ns))
    ;
  return 0;
}

int traffic_crew_tell_done(struct traffic_crew *crew, uint64_t run, uint32_t rank) {
  if (rank == crew->rank) {
    crew->mates[rank].done = run;
    return 0;
  }
  return send_to(crew, rank, DONE, run, 0);
}

int traffic_crew_await_done(struct traffic_crew *crew, uint64_t run, uint32_t rank) {
  struct wait wait = begin_wait(crew);
  while (crew->mates[rank].done != run) {
    int rc = turn(crew, &wait);
    if (rc != 0)
      return say_missing(crew, rc, rank, "has not sent all of its bytes");
  }
  return 0;
}

int traffic_crew_sleep(struct traffic_crew *crew, uint64_t until_ns) {
  enum { NAP_NS = 2000000 }; // a poll may wake up so late
  int rc = 0;
  while (rc == 0 && !clock_passed(until_ns)) {
    uint64_t left = clock_left_ns(until_ns);
    rc = take_all(crew);
    if (rc == 0)
      rc = traffic_crew_look(crew);
    struct timespec fine = clock_timespec(left);
    if (rc == 0 && left > NAP_NS) {
      struct pollfd wake = {.fd = crew->wake, .events = POLLIN};
      poll(&wake, 1, left > (uint64_t)NAP_MS * 1000000 + NAP_NS ? NAP_MS : 1);
    } else if (rc == 0) {
      nanosleep(&fine, NULL);
    }
  }
  return rc;
}

int traffic_crew_blame(struct traffic_crew *crew, int err, const char *sentence, uint32_t rank) {
  char kept[512];
  snprintf(kept, sizeof kept, "%s", sentence);
  uint64_t deadline_ns = clock_deadline_ms(BLAME_MS);
  int rc = 0;
  while (err == WEFT_ERR_PEER_LOST && rc == 0 && !clock_passed(deadline_ns)) { // whose death all are to be told alike
    rc = traffic_crew_look(crew);
    if (rc == 0)
      poll(NULL, 0, 1);
  }
  if (rc != 0)
    return rc;
  return fail(err, "worker %u on %s: %s", rank, meet_host(crew->meet, rank), kept);
}
