// Members of a group on a real store, each with its own handle, and what they were told; for the tests of the group.
#ifndef TESTS_GROUP_CREW_H
#define TESTS_GROUP_CREW_H

#include <pthread.h>

#include "group/group.h"

enum { CREW_EVENTS = 128, CREW_DEADLINE_MS = 60000 };

struct crew_member {
  struct group *group;
  pthread_mutex_t lock;
  pthread_cond_t told;
  const struct group_view *views[CREW_EVENTS];
  uint32_t num_views;
  uint32_t counts[GROUP_EVENT_STORE_BACK + 1]; // of each kind of event
};

uint64_t crew_deadline(void); // far off, for a loaded machine

// Opens a member with founders 0 to `founders` - 1; fails the test when it cannot.
void crew_open(struct crew_member *member, weft_store_t *store, int32_t rank, uint32_t founders, uint32_t ttl_s);
int crew_try_open(struct crew_member *member, weft_store_t *store, int32_t rank, uint32_t founders, uint32_t ttl_s,
                  uint64_t deadline_ns);
void crew_close(struct crew_member *member);

// Opens and founds `count` members, each from a thread of its own.
void crew_found(struct crew_member *members, weft_store_t **stores, uint32_t count, uint32_t ttl_s);

// Waits until the member was told so many events of this kind.
void crew_wait_told(struct crew_member *member, enum group_event_kind kind, uint32_t count);

// Joins on the newest view until it is in.
int crew_join(struct crew_member *member);

// Fails the test unless everybody was told the same view for each epoch, in order; and without a gap, if `whole`.
void crew_check_views(struct crew_member *members, uint32_t count, bool whole);

#endif
