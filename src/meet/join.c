// Takes a rank, and waits until all workers have taken theirs.
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "meet/state.h"

enum {
  SETTLE_MS = 100,      // an earlier benchmark that ends takes its keys away in less
  PROBE_MS = 500,       // how long one of its workers may take to answer
  PROBE_AGAIN_MS = 500, // between two checks of workers that have not gone
};

struct join {
  struct meet_founder founder;
  uint64_t deadline_ns, full_since_ns, next_probe_ns, differ_ns;
};

// The lowest rank that nobody has, or the size.
static uint32_t free_rank(const struct meet *meet) {
  uint32_t rank = 0;
  while (rank < meet->open_size && meet->workers[rank].there)
    rank++;
  return rank;
}

// Whether there is something to claim now: to found a meeting, or a rank of the open one.
static bool may_claim(const struct meet *meet, uint32_t *rank, bool *found) {
  *found = meet->open_revision == 0;
  *rank = *found ? 0 : free_rank(meet);
  if (*found)
    return !meet->follows && !meet->workers[0].there;
  return !meet->open_full && *rank < meet->open_size && meet_founder_known(meet);
}

// In which this worker is, or would be if it had a rank.
static const char *meeting_of(const struct meet *meet) {
  return meet->joined ? meet->meeting : meet->open_id;
}

enum holders { ALL, OF_THIS_MEETING, OF_ANOTHER };

static bool is_one(const struct meet *meet, uint32_t rank, enum holders which) {
  const struct meet_worker *worker = &meet->workers[rank];
  bool ours = strcmp(worker->meeting, meeting_of(meet)) == 0;
  return worker->there && strcmp(worker->id, meet->id) != 0 && (which == ALL || ours == (which == OF_THIS_MEETING));
}

// Names the first few workers that hold the ranks.
static void add_holders(const struct meet *meet, enum holders which, struct text *out) {
  uint32_t shown = 0, more = 0;
  for (uint32_t i = 0; i < MEET_MAX_WORKERS; i++) {
    if (!is_one(meet, i, which))
      continue;
    if (shown == 4) {
      more++;
      continue;
    }
    text_add(out, shown++ ? ", " : "");
    meet_add_name(meet, i, out);
  }
  if (more)
    text_add(out, " and %u more", more);
}

static int full(const struct meet *meet) {
  struct text who = {0};
  add_holders(meet, ALL, &who);
  int err = fail(WEFT_ERR_INVALID,
                 "this worker is too late: the benchmark at %s in the store %s already has all its %u worker%s (%s); "
                 "want another name for another benchmark, or one worker less",
                 meet->prefix, weft_store_name(meet->store), meet->open_size, text_s(meet->open_size),
                 who.data ? who.data : "?");
  text_free(&who);
  return err;
}

static int never_free(const struct meet *meet) {
  struct text who = {0};
  add_holders(meet, ALL, &who);
  int err = fail(WEFT_ERR_TIMEOUT,
                 "workers of an earlier benchmark at %s in the store %s still run: %s; end them, or want another name "
                 "for this benchmark",
                 meet->prefix, weft_store_name(meet->store), who.data ? who.data : "?");
  text_free(&who);
  return err;
}

static int not_all_came(const struct meet *meet) {
  struct text missing = {0}, here = {0}, others = {0};
  uint32_t shown = 0, count = 0;
  for (uint32_t i = 0; i < meet->size; i++) {
    if (meet->workers[i].there && strcmp(meet->workers[i].meeting, meeting_of(meet)) == 0)
      continue;
    count++;
    if (shown < 16)
      text_add(&missing, "%s%u", shown++ ? ", " : "", i);
  }
  if (count > shown)
    text_add(&missing, " and %u more", count - shown);
  add_holders(meet, OF_THIS_MEETING, &here);
  add_holders(meet, OF_ANOTHER, &others);
  int err =
      fail(meet->away_ns ? WEFT_ERR_UNREACHABLE : WEFT_ERR_TIMEOUT,
           "%u of %u workers joined the benchmark at %s in the store %s in time; missing: rank%s %s; here: this "
           "worker%s%s%s%s%s",
           meet->size - count, meet->size, meet->prefix, weft_store_name(meet->store), text_s(count),
           missing.data ? missing.data : "?", meet->joined ? "" : ", which had no rank yet", here.size ? ", and " : "",
           here.data ? here.data : "", others.size ? "; workers of an earlier benchmark that are still there: " : "",
           others.data ? others.data : "");
  text_free(&missing);
  text_free(&here);
  text_free(&others);
  return err;
}

static int nobody_began(const struct meet *meet) {
  return fail(meet->away_ns ? WEFT_ERR_UNREACHABLE : WEFT_ERR_TIMEOUT,
              "no worker began the benchmark at %s in the store %s in time: start the worker that has the store, which "
              "has to be the first",
              meet->prefix, weft_store_name(meet->store));
}

// Out of time without a rank. A worker that has tried to claim one has found no earlier benchmark in its way.
static int too_late(const struct meet *meet) {
  if (meet->follows && meet->open_revision == 0 && !meet->workers[0].there)
    return nobody_began(meet);
  bool room = !meet->open_full && meet_founder_known(meet);
  return room || meet->meeting[0] ? not_all_came(meet) : never_free(meet);
}

// Checks whether each worker of the meeting is alive, and removes the keys of dead ones. `*dead`: the number of dead
// workers. With the lock, which is released meanwhile.
static void probe_all(struct meet *meet, uint32_t *dead, uint32_t *alive) {
  for (uint32_t rank = 0; rank < MEET_MAX_WORKERS; rank++) {
    const struct meet_worker *worker = &meet->workers[rank];
    char address[MEET_ADDRESS_SIZE], id[MEET_ID_SIZE];
    if (!worker->there)
      continue;
    memcpy(address, worker->address, sizeof address);
    memcpy(id, worker->id, sizeof id);
    bool same_place = strcmp(worker->place, meet->place) == 0;
    int64_t lease = worker->lease;
    pthread_mutex_unlock(&meet->lock);
    enum meet_life life = meet_probe(address, id, same_place, PROBE_MS);
    if (life == MEET_DEAD)
      weft_store_lease_revoke(meet->store, lease); // if this fails, the lease's end does it
    pthread_mutex_lock(&meet->lock);
    *dead += life == MEET_DEAD;
    *alive += life == MEET_ALIVE;
  }
}

// Somebody of them has left, is dead or has failed: the others are about to leave.
static bool any_ended(const struct meet *meet) {
  for (uint32_t rank = 0; rank < MEET_MAX_WORKERS; rank++)
    if (meet->workers[rank].end != MEET_GOING)
      return true;
  return false;
}

// All ranks are held: by a running benchmark, by one that is just ending, or by dead workers.
static int wait_for_room(struct meet *meet, struct join *join) {
  uint64_t now = clock_ns();
  if (join->full_since_ns == 0) {
    join->full_since_ns = now;
    join->next_probe_ns = now + SETTLE_MS * UINT64_C(1000000);
  }
  if (now >= join->next_probe_ns) {
    uint32_t dead = 0, alive = 0;
    probe_all(meet, &dead, &alive);
    join->next_probe_ns = clock_deadline_ms(PROBE_AGAIN_MS);
    uint64_t long_ago = (MEET_TTL_S * 1000 + MEET_RENEW_MS) * UINT64_C(1000000);
    bool stays = (alive > 0 && dead == 0 && !any_ended(meet)) || clock_ns() - join->full_since_ns > long_ago;
    if (stays && meet->open_full && free_rank(meet) == meet->open_size && meet->open_size > 0)
      return full(meet);
    return 0;
  }
  if (clock_passed(join->deadline_ns))
    return too_late(meet);
  meet_sleep(meet, join->next_probe_ns < join->deadline_ns ? join->next_probe_ns : join->deadline_ns);
  return 0;
}

// Makes one attempt, and then waits until the store has reported its result.
static int try_claim(struct meet *meet, uint32_t rank, bool found, struct join *join) {
  uint64_t seen = meet->changes;
  bool taken = false;
  int err = meet_claim(meet, rank, found, &taken);
  join->full_since_ns = 0;
  while (!err && (taken ? !meet->joined : meet->changes == seen)) {
    err = meet_obstacle(meet);
    if (!err && clock_passed(join->deadline_ns))
      err = not_all_came(meet);
    if (!err)
      meet_sleep(meet, join->deadline_ns);
  }
  return err;
}

static void report_waiting(struct meet *meet) {
  uint32_t come = meet_state_come(meet);
  if (come == meet->num_reported)
    return;
  meet->num_reported = come;
  if (meet->waiting)
    meet->waiting(meet->arg, come, meet->size);
}

// The meeting of this worker is over before all had come: its founder was ended in good order. There may be another
// meeting.
static bool is_over(const struct meet *meet) {
  const struct meet_worker *founder = &meet->workers[0]; // there: the events of one transaction are not all seen yet
  return strcmp(meet->open_id, meet->meeting) != 0 && !(founder->there && strcmp(founder->meeting, meet->meeting) == 0);
}

static int wait_for_all(struct meet *meet, struct join *join) {
  if (meet->other < MEET_MAX_WORKERS && join->differ_ns == 0)
    join->differ_ns = clock_deadline_ms(MEET_GRACE_MS);
  if (meet->other < MEET_MAX_WORKERS && (clock_passed(join->differ_ns) || free_rank(meet) == meet->open_size))
    return meet_settings_differ(meet);
  report_waiting(meet);
  int err = meet_obstacle(meet);
  if (!err && clock_passed(join->deadline_ns))
    err = not_all_came(meet);
  if (!err && is_over(meet) && meet->other == MEET_MAX_WORKERS)
    return meet_give_back(meet);
  if (!err)
    meet_sleep(meet, join->differ_ns && join->differ_ns < join->deadline_ns ? join->differ_ns : join->deadline_ns);
  return err;
}

int meet_join(struct meet *meet, uint64_t deadline_ns) {
  struct join join = {.deadline_ns = deadline_ns};
  int err = 0;
  while (!err && !(meet->all_joined && meet->other == MEET_MAX_WORKERS)) {
    uint32_t rank;
    bool found;
    if (meet->joined)
      err = wait_for_all(meet, &join);
    else if (!may_claim(meet, &rank, &found))
      err = wait_for_room(meet, &join);
    else if (found || meet_founder_lives(meet, &join.founder))
      err = try_claim(meet, rank, found, &join);
    else if (clock_passed(deadline_ns))
      err = too_late(meet);
    else
      meet_founder_call(meet, &join.founder, deadline_ns);
    if (!err && !meet->joined)
      err = meet_obstacle(meet);
  }
  if (!err)
    report_waiting(meet);
  if (!err && meet->rank == 0 && !meet->open_full) // the last one to come did not know that it was
    err = meet_close_to_others(meet);
  return err;
}
