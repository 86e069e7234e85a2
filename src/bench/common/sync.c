// Starts and ends of runs, agreed on by notifications.
#include "bench/common/sync.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/processors.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"

enum { READY = 1, GO, DONE, PING, PONG, COMPARED };
enum {
  SPIN_NS = 300000,          // longer than a start takes if each worker has a processor
  FINE_NS = 80000,           // a sleep may end so late: the timer slack of threads (prctl(2)) and some more
  LEAD_NS = 150000,          // from the choice of a start to the start; the message has to arrive in this time
  LEAD_CROWDED_NS = 1000000, // the same if the receivers have to wait for a processor first
  LEAD_APART_NS = 2000000,   // the same to other hosts
  LEAD_EACH_NS = 10000,
  NAP_MS = 5,
  LOOK_NS = 1000000, // between two looks for a signal or a lost worker, since a look takes time
  PINGS = 16,
  LOST_MS = 1000,
};

// A message between workers of the same version. It is little-endian, as are all machines that Weft runs on.
struct message {
  uint32_t kind, reserved;
  uint64_t run, ns;
};

static int send_to(struct bench_sync *sync, uint32_t rank, uint32_t kind, uint64_t run, uint64_t ns) {
  struct message message = {.kind = kind, .run = run, .ns = ns};
  int rc = weft_agent_notify(sync->agent, sync->peers[rank].peer, &message, sizeof message);
  return rc == 0 ? 0 : bench_sync_blame(sync, rc, weft_last_error(), rank);
}

static int take_message(struct bench_sync *sync, const struct weft_notification *note) {
  struct message message;
  uint32_t rank = 0;
  while (rank < sync->size && sync->peers[rank].peer != note->peer)
    rank++;
  if (rank == sync->size || note->size != sizeof message)
    return 0; // a notification that does not belong to this benchmark
  memcpy(&message, note->bytes, sizeof message);
  switch (message.kind) {
  case READY:
    sync->peers[rank].ready = message.run;
    return 0;
  case GO:
    sync->go = message.run;
    sync->go_ns = message.ns;
    return 0;
  case DONE:
    sync->peers[rank].done = message.run;
    return 0;
  case PING:
    return send_to(sync, rank, PONG, message.run, clock_ns());
  case PONG:
    sync->pong_ns = message.ns;
    return 0;
  case COMPARED:
    sync->peers[rank].compared = message.run;
    return 0;
  default:
    return fail(WEFT_ERR_PROTOCOL, "worker %u on %s sent a message of kind %u: is it another version?", rank,
                meet_host(sync->meet, rank), message.kind);
  }
}

static int take_all(struct bench_sync *sync) {
  struct weft_notification note;
  uint32_t count = 0;
  for (;;) {
    int rc = weft_agent_notifications(sync->agent, &note, 1, &count);
    if (rc != 0 || count == 0)
      return rc;
    rc = take_message(sync, &note);
    if (rc != 0)
      return rc;
  }
}

int bench_sync_look(struct bench_sync *sync) {
  int rc = stop_check();
  // The meeting notices a lost worker at once, and names it with the reason.
  if (rc == 0 && meet_lost(sync->meet, NULL, NULL, 0))
    rc = meet_barrier(sync->meet, "end", LOST_MS);
  return rc;
}

// The state of one wait, which consists of turns.
struct wait {
  uint64_t begun_ns, looked_ns, deadline_ns, timeout_ms;
  bool over; // the deadline has passed
};

static struct wait begin_wait(uint64_t timeout_ms) {
  uint64_t now = clock_ns();
  return (struct wait){
      .begun_ns = now, .looked_ns = now, .deadline_ns = clock_deadline_ms(timeout_ms), .timeout_ms = timeout_ms};
}

// The leader of a run waits for start_ms from the moment of its own arrival, and can name the missing workers. A worker
// that waits for the leader may have arrived up to start_ms earlier, and must not report an error before the leader
// does.
static uint64_t beyond_start_ms(const struct bench_sync *sync) {
  return 2 * (uint64_t)sync->start_ms + 2 * LOST_MS;
}

// 0: look again. TIMEOUT means either that wait->over is set, without a sentence, or that another worker failed by a
// timeout, with the sentence of that worker.
static int turn(struct bench_sync *sync, struct wait *wait) {
  int rc = take_all(sync);
  uint64_t now = clock_ns();
  if (rc != 0)
    return rc;
  if (now - wait->looked_ns > LOOK_NS) {
    wait->looked_ns = now;
    rc = bench_sync_look(sync);
  }
  wait->over = rc == 0 && now >= wait->deadline_ns;
  if (wait->over)
    return WEFT_ERR_TIMEOUT;
  if (rc == 0 && now - wait->begun_ns < SPIN_NS) {
    if (!sync->roomy)
      sched_yield(); // the worker that this one waits for may need this processor
    rc = weft_agent_progress(sync->agent, NULL);
  } else if (rc == 0) {
    struct pollfd wake = {.fd = sync->wake, .events = POLLIN};
    uint64_t left_ms = (wait->deadline_ns - now + 999999) / 1000000;
    poll(&wake, 1, left_ms < NAP_MS ? (int)left_ms : NAP_MS); // between the polls it looks for deaths and signals
  }
  return rc;
}

static int say_missing(struct bench_sync *sync, int rc, uint32_t rank, const char *what, const struct wait *wait) {
  if (!wait->over)
    return rc;
  return fail(rc, "worker %u on %s %s within %" PRIu64 " ms", rank, meet_host(sync->meet, rank), what,
              wait->timeout_ms);
}

int bench_sync_init(struct bench_sync *sync, struct meet *meet, uint32_t timeout_ms) {
  char list[64];
  unsigned processors = processors_usable(NULL, list, sizeof list), workers = 0;
  *sync = (struct bench_sync){.meet = meet,
                              .wake = -1,
                              .rank = meet_rank(meet),
                              .size = meet_size(meet),
                              .timeout_ms = timeout_ms,
                              .start_ms = timeout_ms};
  for (uint32_t rank = 0; rank < sync->size; rank++)
    workers += meet_same_machine(meet, rank, sync->rank);
  sync->crowded = workers > processors;
  sync->roomy = 2 * workers <= processors;
  sync->peers = calloc(sync->size, sizeof *sync->peers);
  return sync->peers ? 0 : fail(WEFT_ERR_NOMEM, "no memory for %u workers", sync->size);
}

// --- clocks ---

// The fastest answer is the most exact one: rank 0 read its clock about in the middle between sending and receiving,
// with an error of at most half of that time.
static int compare_clocks(struct bench_sync *sync) {
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < PINGS; i++) {
    struct wait wait = begin_wait(beyond_start_ms(sync));
    uint64_t begun = clock_ns();
    sync->pong_ns = 0;
    int rc = send_to(sync, 0, PING, 0, 0);
    while (rc == 0 && (rc = take_all(sync)) == 0 && sync->pong_ns == 0)
      rc = turn(sync, &wait);
    if (rc != 0)
      return say_missing(sync, rc, 0, "did not answer", &wait);
    uint64_t way = clock_ns() - begun;
    if (way >= best)
      continue;
    best = way;
    sync->ahead_ns = (int64_t)(sync->pong_ns - (begun + way / 2));
    sync->error_ns = way / 2 + 1;
  }
  return send_to(sync, 0, COMPARED, sync->rounds, 0);
}

// The first worker that has not compared its clock in this round; `size` if there is none.
static uint32_t find_asking(const struct bench_sync *sync) {
  uint32_t rank = 1;
  while (rank < sync->size && (!sync->peers[rank].other_clock || sync->peers[rank].compared >= sync->rounds))
    rank++;
  return rank;
}

int bench_sync_compare(struct bench_sync *sync) {
  sync->rounds++;
  if (sync->rank != 0)
    return sync->peers[sync->rank].other_clock ? compare_clocks(sync) : 0;
  struct wait wait = begin_wait(sync->start_ms);
  int rc = 0;
  while (rc == 0 && find_asking(sync) < sync->size)
    rc = turn(sync, &wait);
  return rc ? say_missing(sync, rc, find_asking(sync), "has not compared its clock", &wait) : 0;
}

static bool has_other_clock(const char *const *boots, uint32_t rank) {
  return !boots[0] || !boots[rank] || !*boots[rank] || strcmp(boots[0], boots[rank]) != 0;
}

int bench_sync_open(struct bench_sync *sync, const char *const *boots) {
  for (uint32_t i = 1; i < sync->size; i++) {
    sync->peers[i].other_clock = has_other_clock(boots, i);
    sync->apart |= sync->peers[i].other_clock;
  }
  int rc = weft_agent_fd(sync->agent, &sync->wake);
  return rc == 0 ? bench_sync_compare(sync) : rc;
}

void bench_sync_close(struct bench_sync *sync) {
  free(sync->peers);
  sync->peers = NULL;
}

// --- starts and ends ---

static uint32_t rank_at(const uint32_t *ranks, uint32_t place) {
  return ranks ? ranks[place] : place;
}

static int await_ready(struct bench_sync *sync, uint64_t run, const uint32_t *ranks, uint32_t count) {
  struct wait wait = begin_wait(sync->start_ms);
  for (uint32_t i = 1; i < count; i++)
    while (sync->peers[rank_at(ranks, i)].ready != run) {
      int rc = turn(sync, &wait);
      if (rc != 0)
        return say_missing(sync, rc, rank_at(ranks, i), "has not reached the start of a run", &wait);
    }
  return 0;
}

static int lead_start(struct bench_sync *sync, uint64_t run, const uint32_t *ranks, uint32_t count) {
  int rc = await_ready(sync, run, ranks, count);
  uint64_t ahead = (sync->apart   ? LEAD_APART_NS
                    : sync->roomy ? LEAD_NS
                                  : LEAD_CROWDED_NS) +
                   (uint64_t)count * LEAD_EACH_NS;
  sync->go = run;
  sync->go_ns = clock_ns() + (uint64_t)sync->ahead_ns + (count > 1 ? ahead : 0);
  for (uint32_t i = 1; i < count && rc == 0; i++)
    rc = send_to(sync, rank_at(ranks, i), GO, run, sync->go_ns);
  return rc;
}

static int follow_start(struct bench_sync *sync, uint64_t run, uint32_t leader) {
  struct wait wait = begin_wait(beyond_start_ms(sync));
  int rc = send_to(sync, leader, READY, run, 0);
  while (rc == 0 && sync->go != run)
    rc = turn(sync, &wait);
  return say_missing(sync, rc, leader, "did not begin a run", &wait);
}

int bench_sync_start(struct bench_sync *sync, uint64_t run, const uint32_t *ranks, uint32_t count, uint64_t *start_ns) {
  uint32_t leader = rank_at(ranks, 0);
  int rc = leader == sync->rank ? lead_start(sync, run, ranks, count) : follow_start(sync, run, leader);
  if (rc != 0)
    return rc;
  *start_ns = sync->go_ns - (uint64_t)sync->ahead_ns;
  uint64_t left = clock_left_ns(*start_ns);
  struct timespec nap = clock_timespec(left > FINE_NS ? left - FINE_NS : 0);
  if (sync->crowded)
    nanosleep(&nap, NULL); // lets other workers get the message; with a processor of its own a worker needs no sleep
  while (!clock_passed(*start_ns))
    ;
  return 0;
}

int bench_sync_send_done(struct bench_sync *sync, uint64_t run, uint32_t rank) {
  if (rank == sync->rank) {
    sync->peers[rank].done = run;
    return 0;
  }
  return send_to(sync, rank, DONE, run, 0);
}

int bench_sync_await_done(struct bench_sync *sync, uint64_t run, uint32_t rank) {
  // The transfer has an earlier deadline, and its error says more.
  struct wait wait = begin_wait((uint64_t)sync->timeout_ms + LOST_MS);
  while (sync->peers[rank].done != run) {
    int rc = turn(sync, &wait);
    if (rc != 0)
      return say_missing(sync, rc, rank, "has not sent all of its bytes", &wait);
  }
  return 0;
}

int bench_sync_sleep(struct bench_sync *sync, uint64_t until_ns) {
  enum { NAP_NS = 2000000 }; // a poll may return so late
  int rc = 0;
  while (rc == 0 && !clock_passed(until_ns)) {
    uint64_t left = clock_left_ns(until_ns);
    rc = take_all(sync);
    if (rc == 0)
      rc = bench_sync_look(sync);
    struct timespec fine = clock_timespec(left);
    if (rc == 0 && left > NAP_NS) {
      struct pollfd wake = {.fd = sync->wake, .events = POLLIN};
      poll(&wake, 1, left > (uint64_t)NAP_MS * 1000000 + NAP_NS ? NAP_MS : 1);
    } else if (rc == 0) {
      nanosleep(&fine, NULL);
    }
  }
  return rc;
}

int bench_sync_blame(struct bench_sync *sync, int err, const char *sentence, uint32_t rank) {
  char kept[512];
  snprintf(kept, sizeof kept, "%s", sentence);
  int cause = meet_cause(sync->meet, err);
  return cause ? cause : fail(err, "worker %u on %s: %s", rank, meet_host(sync->meet, rank), kept);
}
