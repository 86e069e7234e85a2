// Whether the meeting that a new worker finds lives: its founder is called before a rank is taken.
//
// The meeting's key is on the founder's lease, which ends only seconds after its death. A living founder notices the
// death of each of its workers at once, and then closes the meeting; so its answer shows that all of them are alive.
#include <string.h>

#include "base/time/clock.h"
#include "meet/state.h"

enum {
  CALL_MS = 500,       // how long it may take to answer
  CALL_AGAIN_MS = 200, // between two attempts to reach a founder that does not answer, or whose lease is to end
  SILENT_MS = 2000,    // an unreachable founder's lease is checked after this time; a firewall may cause this
};

bool meet_founder_known(const struct meet *meet) {
  const struct meet_worker *worker = &meet->workers[0];
  return worker->there && meet->open_id[0] && strcmp(worker->meeting, meet->open_id) == 0;
}

bool meet_founder_lives(const struct meet *meet, const struct meet_founder *founder) {
  return founder->answered && strcmp(founder->id, meet->workers[0].id) == 0;
}

// Its lease has more time left than a lease that was not renewed since the first attempt can have.
static bool renews(struct meet *meet, int64_t lease, uint64_t since_ns) {
  int64_t left_s;
  return clock_ns() - since_ns >= SILENT_MS * UINT64_C(1000000) &&
         weft_store_lease_ttl(meet->store, lease, &left_s) == 0 && left_s > MEET_TTL_S - SILENT_MS / 1000;
}

void meet_founder_call(struct meet *meet, struct meet_founder *founder, uint64_t deadline_ns) {
  const struct meet_worker *worker = &meet->workers[0];
  char address[MEET_ADDRESS_SIZE];
  if (strcmp(founder->id, worker->id) != 0) {
    *founder = (struct meet_founder){.since_ns = clock_ns()};
    memcpy(founder->id, worker->id, sizeof founder->id);
  }
  if (!clock_passed(founder->next_ns)) {
    meet_sleep(meet, founder->next_ns < deadline_ns ? founder->next_ns : deadline_ns);
    return;
  }
  memcpy(address, worker->address, sizeof address);
  bool same_place = strcmp(worker->place, meet->place) == 0;
  int64_t lease = worker->lease;
  pthread_mutex_unlock(&meet->lock);
  enum meet_life life = meet_probe(address, founder->id, same_place, CALL_MS);
  if (life == MEET_DEAD)
    weft_store_lease_revoke(meet->store, lease); // if this fails, the lease's end or the next attempt does it
  bool alive = life == MEET_ALIVE || (life == MEET_UNKNOWN && renews(meet, lease, founder->since_ns));
  pthread_mutex_lock(&meet->lock);
  founder->answered = alive;
  founder->next_ns = clock_deadline_ms(CALL_AGAIN_MS);
}
