// A store and the members of a group on it, in one thread and in virtual time, for the state machine's tests. The store
// has etcd's rules for revisions, leases and transactions. Delays of requests and of events are random, from a seed;
// members can be cut off, killed and stopped, answers lost, and the store can restart empty.
#ifndef TESTS_GROUP_WORLD_H
#define TESTS_GROUP_WORLD_H

#include "group/machine.h"

enum { WORLD_MEMBERS = 80, WORLD_EPOCHS = 512 };

struct world_member {
  struct group_machine *machine;
  uint64_t incarnation;
  bool cut;     // reaches the store no more
  bool stopped; // does not run, like after SIGSTOP
  // What its layer above was told.
  uint64_t epochs[WORLD_EPOCHS];
  uint32_t num_views, num_fenced, num_lost, num_back, num_gone;
  uint32_t num_requests;
  // The request under way, and the watch.
  bool busy, executed, told_lost;
  struct group_request request;
  struct group_answer answer;
  struct weft_store_list *list; // what was read
  uint64_t execute_at, answer_at, wake;
  bool watching, reset;
  size_t position; // next event of the log
};

struct world;

struct world *world_new(uint64_t seed, uint32_t capacity, uint32_t ttl_s);
void world_free(struct world *world);
// A member with founders 0 to `founders` - 1; its number is its place.
struct world_member *world_add(struct world *world, int32_t rank, uint32_t founders);
// One that knows that there is a group.
struct world_member *world_add_joiner(struct world *world, int32_t rank);
struct world_member *world_member(struct world *world, uint32_t index);
uint32_t world_count(const struct world *world);
void world_kill(struct world *world, struct world_member *member);
void world_restart_empty(struct world *world);
// Every lease runs out at this moment, though everybody reaches the store: it had stood still.
void world_expire_leases(struct world *world);
// Two views of this epoch are expected: made from different memories when the store had restarted empty.
void world_expect_fork(struct world *world, uint64_t epoch);
// Of each hundred requests, so many have no effect and so many lose their answer.
void world_set_faults(struct world *world, uint32_t fail_percent, uint32_t lose_answer_percent);
void world_advance(struct world *world, uint64_t ms);
// Goes on until `condition` holds; fails the test when it does not within `ms` of virtual time.
void world_until(struct world *world, bool (*condition)(struct world *world), uint64_t ms, const char *what);
uint64_t world_now(const struct world *world);
// Fails the test unless each epoch was the same view for all who saw it, and each member saw them in order and, if
// `whole`, without a gap.
void world_check_views(const struct world *world, bool whole);
// Keys that the store holds whose name starts so.
uint32_t world_keys(const struct world *world, const char *prefix);
uint32_t world_leases(const struct world *world);
// Puts or deletes a key as a stranger would; value NULL deletes.
void world_write(struct world *world, const char *key, const char *value);

#endif
