// A simulation of a group: the real state machine of every member (group/machine.h) on the real core of the store
// (store/core/core.h), in one thread and in virtual time. Whatever has a delay takes it from the seed, so a seed gives
// the same run again.
//   queue.c   what will happen       server.c  the store and the way to it
//   member.c  one member's life      judge.c   what must hold all along
//   sim.c     the loop, faults       weather.c random lives and random faults
//   grow.c    changes in one step
//
// The first violation ends the run: sim_broken() tells it. Times are nanoseconds of virtual time.
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MS UINT64_C(1000000)
#define SIM_S  UINT64_C(1000000000)

struct sim;
struct sim_member;

struct sim_options {
  uint64_t seed;
  uint32_t capacity;
  uint32_t ttl_s;
  uint64_t deadline_ns; // of every call that found, joins or leaves: given up then; 0: waited for as long as it takes
  size_t history;       // events that the store keeps for watches; 0: as a server does
  // Of each 10,000 requests, so many
  uint32_t lose_requests; // never reach the store
  uint32_t lose_answers;  // are carried out, and time out
  uint32_t late_requests; // time out, and are carried out after that
};

struct sim_counts {
  uint64_t requests; // that members made
  uint64_t read;     // of these, those that read everything
  uint64_t events;   // that watches delivered
  uint64_t views;    // that the store was given
  uint64_t ended;    // foundings, joins and leaves that came true
  uint64_t refused;  // of them, that were given up at their deadline
  uint64_t grown;    // changes in one step that came true
};

struct sim *sim_new(const struct sim_options *options);
void sim_free(struct sim *sim); // ends every life, as a crash does

uint64_t sim_now(const struct sim *sim);
struct sim_counts sim_counts(const struct sim *sim);
uint32_t sim_live(const struct sim *sim); // members that run
struct sim_member *sim_live_at(const struct sim *sim, uint32_t index);
uint64_t sim_dice(struct sim *sim, uint64_t sides); // from 0

// The first violation, or NULL.
const char *sim_broken(const struct sim *sim);
void sim_break(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Goes on for so long, or until `condition` holds: false when it does not within that time, or something broke.
void sim_run(struct sim *sim, uint64_t ns);
bool sim_until(struct sim *sim, bool (*condition)(struct sim *sim), uint64_t ns);

// Members ----------------------------------------------------------------------------------------------------------

// Ranks 0 to `count` - 1, which found the group. More may be added later.
void sim_found(struct sim *sim, uint32_t count);
// One more that claims `rank` (-1: any) and joins, again for each view that is not the one it knew.
struct sim_member *sim_join(struct sim *sim, int32_t rank);
// Leaves its view and closes, or (`at_once`) only closes.
void sim_leave(struct sim *sim, struct sim_member *member, bool at_once);
// A member changes the view in one step: `count` new ones, which offer themselves, come in, and `goes` (may be NULL) is
// put out; all of that, or nothing by a deadline. Those who are not taken in join by themselves. False: it changes
// something already, or there are no ranks for them.
bool sim_grow(struct sim *sim, struct sim_member *member, uint32_t count, struct sim_member *goes);
// Dies. `heard`: every other hears it within milliseconds, as a closed socket tells; otherwise its lease tells.
void sim_crash(struct sim *sim, struct sim_member *member, bool heard);
// Somebody takes it for dead who is wrong.
void sim_accuse(struct sim *sim, struct sim_member *accuser, struct sim_member *accused);
// Stands still for so long: computes nothing, renews nothing; what comes in waits.
void sim_pause(struct sim *sim, struct sim_member *member, uint64_t ns);
// Its watch is cut for so long.
void sim_cut(struct sim *sim, struct sim_member *member, uint64_t ns);

bool sim_is_leaving(const struct sim_member *member);
bool sim_is_paused(const struct sim *sim, const struct sim_member *member);

// The store --------------------------------------------------------------------------------------------------------

// Nobody reaches it for so long. `stopped`: its clock stands too, and all leases that ended meanwhile end at once.
void sim_outage(struct sim *sim, uint64_t ns, bool stopped);
// Restarts empty, after so long.
void sim_restart_empty(struct sim *sim, uint64_t ns);
// From now on no request is lost or late.
void sim_clear(struct sim *sim);
bool sim_store_is_empty(const struct sim *sim); // no key, no lease

// Whether every member that runs is in the newest view, knows it, wants nothing more, and nobody else is in it.
bool sim_agreed(struct sim *sim);
bool sim_all_gone(struct sim *sim);

#endif
