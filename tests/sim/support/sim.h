// A simulation of a group: the real state machine of every member (group/machine.h) on the real core of the store
// (store/core/core.h), in one thread and in virtual time. All delays come from the seed, so a seed gives the same run
// again.
//   queue.c   future events          server.c  the store and its connection
//   member.c  the life of a member   judge.c   invariants
//   sim.c     the loop, faults       weather.c random lives and random faults
//   grow.c    changes in one step
//
// The first violation ends the run: sim_broken() returns it. Times are nanoseconds of virtual time.
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
  uint64_t deadline_ns; // of each call that founds, joins or leaves, which then gives up; 0: none
  size_t history;       // events that the store keeps for watches; 0: as many as a server
  // Of each 10,000 requests, so many
  uint32_t lose_requests; // never reach the store
  uint32_t lose_answers;  // are carried out, and time out
  uint32_t late_requests; // time out, and are carried out after that
};

struct sim_counts {
  uint64_t requests; // of members
  uint64_t read;     // requests that read everything
  uint64_t events;   // events that watches delivered
  uint64_t views;    // views that were written to the store
  uint64_t ended;    // completed foundings, joins and leaves
  uint64_t refused;  // foundings, joins and leaves given up at their deadline
  uint64_t grown;    // completed changes in one step
};

struct sim *sim_new(const struct sim_options *options);
void sim_free(struct sim *sim); // ends every life, as a crash does

uint64_t sim_now(const struct sim *sim);
struct sim_counts sim_counts(const struct sim *sim);
uint32_t sim_live(const struct sim *sim); // members that run
struct sim_member *sim_live_at(const struct sim *sim, uint32_t index);
uint64_t sim_dice(struct sim *sim, uint64_t sides); // 0 to sides - 1

// The first violation, or NULL.
const char *sim_broken(const struct sim *sim);
void sim_break(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Runs for `ns`, or until `condition` holds. False: it does not hold within that time, or there was a violation.
void sim_run(struct sim *sim, uint64_t ns);
bool sim_until(struct sim *sim, bool (*condition)(struct sim *sim), uint64_t ns);

// Members ----------------------------------------------------------------------------------------------------------

// Founds the group with ranks 0 to `count` - 1. More members may be added later.
void sim_found(struct sim *sim, uint32_t count);
// Adds a member that claims `rank` (-1: any) and asks to join, again on each new view until it is in one.
struct sim_member *sim_join(struct sim *sim, int32_t rank);
// Leaves its view and closes, or (`at_once`) only closes.
void sim_leave(struct sim *sim, struct sim_member *member, bool at_once);
// A member changes the view in one step: `count` new members, which offer themselves, come in, and `goes` (may be NULL)
// is put out; all of that, or nothing by a deadline. New members that are not taken in join by themselves. False: the
// member is already changing something, or there are no ranks for the new members.
bool sim_grow(struct sim *sim, struct sim_member *member, uint32_t count, struct sim_member *goes);
// The member dies. `noticed`: all others do so within milliseconds, as by a closed socket; otherwise its lease ends.
void sim_crash(struct sim *sim, struct sim_member *member, bool noticed);
// A member wrongly reports another one as dead.
void sim_accuse(struct sim *sim, struct sim_member *accuser, struct sim_member *accused);
// The member stops for `ns`: it computes nothing and renews nothing; its input waits.
void sim_pause(struct sim *sim, struct sim_member *member, uint64_t ns);
// The member's watch is cut for `ns`.
void sim_cut(struct sim *sim, struct sim_member *member, uint64_t ns);

bool sim_is_leaving(const struct sim_member *member);
bool sim_is_paused(const struct sim *sim, const struct sim_member *member);

// The store --------------------------------------------------------------------------------------------------------

// No member reaches the store for `ns`. `stopped`: the store's clock stops, too, and afterwards all leases that ended
// meanwhile end at once.
void sim_outage(struct sim *sim, uint64_t ns, bool stopped);
// The store restarts empty, after `ns`.
void sim_restart_empty(struct sim *sim, uint64_t ns);
// From now on no request is lost or late.
void sim_clear(struct sim *sim);
bool sim_store_is_empty(const struct sim *sim); // no key and no lease

// Whether all running members are in the newest view, know it and want nothing more, and no other member is in it.
bool sim_agreed(struct sim *sim);
bool sim_all_gone(struct sim *sim);

#endif
