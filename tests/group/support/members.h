// Members of a group on a real store, each with its own handle, and the events that they got; for the tests of the
// group.
#ifndef TESTS_GROUP_MEMBERS_H
#define TESTS_GROUP_MEMBERS_H

#include <pthread.h>

#include "group/group.h"

enum { MEMBER_EVENTS = 128, MEMBER_DEADLINE_MS = 60000 };

struct test_member {
  struct group *group;
  pthread_mutex_t lock;
  pthread_cond_t told;
  const struct group_view *views[MEMBER_EVENTS];
  uint32_t num_views;
  uint32_t counts[GROUP_EVENT_STORE_BACK + 1]; // of each kind of event
};

uint64_t member_deadline(void); // long enough for a loaded machine

// Opens a member with founders 0 to `founders` - 1; fails the test on an error.
void member_open(struct test_member *member, weft_store_t *store, int32_t rank, uint32_t founders, uint32_t ttl_s);
int member_try_open(struct test_member *member, weft_store_t *store, int32_t rank, uint32_t founders, uint32_t ttl_s,
                    uint64_t deadline_ns);
void member_close(struct test_member *member);

// Opens and founds `count` members, each in a separate thread.
void members_found(struct test_member *members, weft_store_t **stores, uint32_t count, uint32_t ttl_s);

// Waits until the member has got `count` events of this kind.
void member_await_events(struct test_member *member, enum group_event_kind kind, uint32_t count);

// Joins on the newest view, and tries again until it is a member.
int member_join(struct test_member *member);

// Fails the test unless all members got the same view for each epoch, in order; and without a gap, if `whole`.
void members_check_views(struct test_member *members, uint32_t count, bool whole);

#endif
