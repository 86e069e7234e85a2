// A store and the members of a group on it, in one thread and in virtual time, for the state machine's tests. The store
// has etcd's rules for revisions, leases and transactions. Delays of requests and of events are random, from a seed.
// Tests can cut off, kill and stop members, lose answers, and restart the store empty.
#ifndef TESTS_GROUP_WORLD_H
#define TESTS_GROUP_WORLD_H

#include "group/machine.h"

enum { WORLD_MEMBERS = 80, WORLD_EPOCHS = 512 };

struct world_member {
  struct group_machine *machine;
  uint64_t incarnation;
  bool cut;     // cannot reach the store any more
  bool stopped; // does not run, as after SIGSTOP
  // Events for the layer above.
  uint64_t epochs[WORLD_EPOCHS];
  uint32_t num_views, num_fenced, num_lost, num_back, num_gone;
  uint32_t num_requests;
  // The request in flight, and the watch.
  bool busy, executed, told_lost;
  struct group_request request;
  struct group_answer answer;
  struct weft_store_list *list; // result of a read
  uint64_t execute_at, answer_at, wake;
  bool watching, reset;
  size_t position; // next event of the log
};

struct world;

struct world *world_new(uint64_t seed, uint32_t capacity, uint32_t ttl_s);
void world_free(struct world *world);
// Adds a member with founders 0 to `founders` - 1. world_member() numbers the members in the order of their addition.
struct world_member *world_add(struct world *world, int32_t rank, uint32_t founders);
// Adds a member that only joins: it knows that the group exists (join_only of group_machine_options).
struct world_member *world_add_joiner(struct world *world, int32_t rank);
struct world_member *world_member(struct world *world, uint32_t index);
uint32_t world_count(const struct world *world);
void world_kill(struct world *world, struct world_member *member);
void world_restart_empty(struct world *world);
// Ends all leases now, although all members reach the store. A store that has stood still for long does so.
void world_expire_leases(struct world *world);
// Allows two different views of this epoch: after the store has restarted empty, members restore what each of them
// knew.
void world_expect_fork(struct world *world, uint64_t epoch);
// Of each hundred requests, `fail_percent` have no effect and `lose_answer_percent` lose their answer.
void world_set_faults(struct world *world, uint32_t fail_percent, uint32_t lose_answer_percent);
void world_advance(struct world *world, uint64_t ms);
// Continues until `condition` holds; fails the test if it does not within `ms` of virtual time.
void world_until(struct world *world, bool (*condition)(struct world *world), uint64_t ms, const char *what);
uint64_t world_now(const struct world *world);
// Fails the test unless each member saw its views in the order of their epochs and, if `whole`, without a gap. (Whether
// all members saw the same view of an epoch is checked when they see it.)
void world_check_views(const struct world *world, bool whole);
// The number of the store's keys whose names begin with `prefix`.
uint32_t world_keys(const struct world *world, const char *prefix);
uint32_t world_leases(const struct world *world);
// Puts a key as another program would; with a value of NULL, deletes it.
void world_write(struct world *world, const char *key, const char *value);

#endif
