// Calls that wait for offers and changes of the view.
#include <inttypes.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "group/driver.h"

enum { ANSWER_MS = 10000 }; // for a transaction that is under way at the deadline

static int no_offer(const struct group *group) {
  return fail(WEFT_ERR_NOT_CONNECTED,
              "rank %" PRId32
              " is in no view and has no offer any more: the offer was withdrawn, or the store has lost it",
              group_machine_rank(group->machine));
}

static enum group_offer_stage own_stage(const struct group *group) {
  uint64_t incarnation;
  bool before;
  enum group_offer_stage stage =
      group_machine_offer_of(group->machine, group_machine_rank(group->machine), &incarnation, &before);
  return incarnation == group->incarnation ? stage : GROUP_OFFER_NONE;
}

// --- This rank's offer.

void group_offer_begin(struct group *group) {
  pthread_mutex_lock(&group->lock);
  group_machine_offer(group->machine, GROUP_OFFER_COMING);
  group_driver_poke(group);
  pthread_mutex_unlock(&group->lock);
}

void group_offer_end(struct group *group) {
  pthread_mutex_lock(&group->lock);
  group_machine_offer(group->machine, GROUP_OFFER_NONE);
  group_driver_poke(group);
  pthread_mutex_unlock(&group->lock);
}

// `*arg`: the stage that is waited for.
static int check_stage(struct group *group, void *arg) {
  int blocked = group_obstacle(group);
  bool taken = group_self_in_view(group) != NULL; // then its offer is gone
  if (blocked != GROUP_PENDING || taken || own_stage(group) >= *(enum group_offer_stage *)arg)
    return blocked != GROUP_PENDING ? blocked : 0;
  return group_machine_offers(group->machine) ? GROUP_PENDING : no_offer(group);
}

static void missing_stage(struct group *group, void *arg, struct text *out) {
  (void)arg;
  text_add(out, "waiting for the store to show the offer of rank %" PRId32, group_machine_rank(group->machine));
}

static void add_peer(const struct group *group, struct group_member *peers, uint32_t *count, int32_t rank,
                     uint64_t incarnation) {
  if (rank == group_machine_rank(group->machine) && incarnation == group->incarnation)
    return;
  for (uint32_t i = 0; i < *count; i++)
    if (peers[i].rank == rank)
      return;
  peers[(*count)++] = (struct group_member){.rank = rank, .incarnation = incarnation};
}

static void list_peers(const struct group *group, struct group_member *peers, uint32_t *count) {
  const struct group_view *view = group_machine_view(group->machine);
  *count = 0;
  for (uint32_t i = 0; view && i < view->count; i++)
    add_peer(group, peers, count, view->members[i].rank, view->members[i].incarnation);
  for (uint32_t r = 0; r < group->capacity; r++) {
    uint64_t incarnation;
    bool before;
    if (group_machine_offer_of(group->machine, (int32_t)r, &incarnation, &before) != GROUP_OFFER_NONE && before)
      add_peer(group, peers, count, (int32_t)r, incarnation);
  }
}

int group_offer_peers(struct group *group, uint64_t deadline_ns, struct group_member *peers, uint32_t *count,
                      const struct group_view **view) {
  enum group_offer_stage stage = GROUP_OFFER_COMING;
  pthread_mutex_lock(&group->lock);
  int err = group_wait(group, deadline_ns, check_stage, missing_stage, &stage);
  if (!err) {
    list_peers(group, peers, count);
    *view = group_view_ref(group_machine_view(group->machine));
  }
  pthread_mutex_unlock(&group->lock);
  return err;
}

int group_offer_ready(struct group *group, uint64_t deadline_ns) {
  enum group_offer_stage stage = GROUP_OFFER_READY;
  pthread_mutex_lock(&group->lock);
  int err = group_machine_offers(group->machine) || group_self_in_view(group) ? 0 : no_offer(group);
  if (!err) {
    group_machine_offer(group->machine, stage);
    group_driver_poke(group);
    err = group_wait(group, deadline_ns, check_stage, missing_stage, &stage);
  }
  pthread_mutex_unlock(&group->lock);
  return err;
}

static int check_taken(struct group *group, void *arg) {
  (void)arg;
  if (group_self_in_view(group))
    return 0;
  int blocked = group_obstacle(group);
  return blocked != GROUP_PENDING || group_machine_offers(group->machine) ? blocked : no_offer(group);
}

static void missing_taker(struct group *group, void *arg, struct text *out) {
  (void)arg;
  text_add(out, "waiting for a view that admits rank %" PRId32, group_machine_rank(group->machine));
}

int group_wait_taken(struct group *group, uint64_t deadline_ns) {
  pthread_mutex_lock(&group->lock);
  int err = group_wait(group, deadline_ns, check_taken, missing_taker, NULL);
  pthread_mutex_unlock(&group->lock);
  return err;
}

// --- An offer that is taken back.

struct withdrawn {
  int32_t rank;
  uint64_t incarnation;
};

static int check_withdrawn(struct group *group, void *arg) {
  const struct withdrawn *offer = arg;
  const struct group_member *member = group_view_find(group_machine_view(group->machine), offer->rank);
  uint64_t incarnation;
  bool before;
  enum group_offer_stage stage = group_machine_offer_of(group->machine, offer->rank, &incarnation, &before);
  if ((member && member->incarnation == offer->incarnation) ||
      (stage == GROUP_OFFER_TAKEN && incarnation == offer->incarnation))
    return fail(WEFT_ERR_CONFLICT, "rank %" PRId32 " was taken into a view", offer->rank);
  return stage == GROUP_OFFER_NONE || incarnation != offer->incarnation ? 0 : group_obstacle(group);
}

static void missing_withdrawal(struct group *group, void *arg, struct text *out) {
  (void)group;
  text_add(out, "waiting until the offer of rank %" PRId32 " is gone", ((const struct withdrawn *)arg)->rank);
}

int group_withdraw(struct group *group, int32_t rank, uint64_t deadline_ns) {
  int err = group_valid_ranks(group, &rank, 1);
  if (err)
    return err;
  struct withdrawn offer = {.rank = rank};
  bool before, own = rank == group_machine_rank(group->machine);
  pthread_mutex_lock(&group->lock);
  bool there = group_machine_offer_of(group->machine, rank, &offer.incarnation, &before) != GROUP_OFFER_NONE;
  enum group_offer_stage offering = group_machine_offering(group->machine);
  if (own)
    group_machine_offer(group->machine, GROUP_OFFER_NONE);
  else
    group_machine_withdraw(group->machine, rank, offer.incarnation);
  group_driver_poke(group);
  err = there ? group_wait(group, deadline_ns, check_withdrawn, missing_withdrawal, &offer)
              : fail(WEFT_ERR_NOT_FOUND, "rank %" PRId32 " has made no offer", rank);
  bool stands = err == WEFT_ERR_TIMEOUT || err == WEFT_ERR_CANCELED || err == WEFT_ERR_UNREACHABLE;
  if (own && stands && offering != GROUP_OFFER_NONE) // unless the store was asked already: its answer ends this wish
    group_machine_offer(group->machine, offering);
  group_machine_withdraw(group->machine, -1, 0);
  pthread_mutex_unlock(&group->lock);
  return err;
}

// --- Changes.

static int check_changed(struct group *group, void *arg) {
  const struct group_change *change = arg;
  if (group_machine_changed(group->machine))
    return 0;
  int blocked = group_obstacle(group);
  bool joins = change->num_add == 1 && change->num_remove == 0 && change->add[0] == group_machine_rank(group->machine);
  if (blocked != GROUP_PENDING || joins || group_self_in_view(group))
    return blocked;
  return fail(WEFT_ERR_NOT_CONNECTED, "rank %" PRId32 " is in no view, so it changes none; it may add itself alone",
              group_machine_rank(group->machine));
}

static void missing_change(struct group *group, void *arg, struct text *out) {
  struct text ranks = {0};
  (void)arg;
  if (group_machine_change_missing(group->machine, &ranks))
    text_add(out, "waiting for ranks to offer themselves; missing: %s", ranks.data ? ranks.data : "?");
  else
    text_add(out, "waiting for the changed view to be agreed on");
  text_free(&ranks);
}

// A proposed transaction has to end before the call can report that nothing was proposed.
static int check_settled(struct group *group, void *arg) {
  (void)arg;
  if (group_machine_changed(group->machine))
    return 0;
  return group_machine_change_sent(group->machine) ? GROUP_PENDING : WEFT_ERR_TIMEOUT;
}

static int check_change(const struct group *group, const struct group_change *change) {
  int err = group_valid_ranks(group, change->add, change->num_add);
  if (!err)
    err = group_valid_ranks(group, change->remove, change->num_remove);
  if (err)
    return err;
  if (change->num_add > GROUP_CHANGES || change->num_remove > GROUP_CHANGES)
    return fail(
        WEFT_ERR_LIMIT,
        "%u ranks to add and %u to remove: one change of the view adds at most %d ranks, and removes at most as many",
        change->num_add, change->num_remove, GROUP_CHANGES);
  for (uint32_t i = 0; i < change->num_add + change->num_remove; i++)
    for (uint32_t j = 0; j < i; j++) {
      int32_t one = i < change->num_add ? change->add[i] : change->remove[i - change->num_add];
      int32_t other = j < change->num_add ? change->add[j] : change->remove[j - change->num_add];
      if (one == other)
        return fail(WEFT_ERR_INVALID, "rank %" PRId32 " is named twice", one);
    }
  return 0;
}

int group_change(struct group *group, const struct group_change *change, uint64_t deadline_ns) {
  uint64_t removed[GROUP_CHANGES] = {0};
  int err = check_change(group, change);
  if (err)
    return err;
  pthread_mutex_lock(&group->lock);
  if (group_machine_changes(group->machine)) {
    pthread_mutex_unlock(&group->lock);
    return fail(WEFT_ERR_BUSY, "another thread of rank %" PRId32 " waits for a change of the view",
                group_machine_rank(group->machine));
  }
  for (uint32_t i = 0; i < change->num_remove; i++) {
    const struct group_member *member = group_view_find(group_machine_view(group->machine), change->remove[i]);
    removed[i] = member ? member->incarnation : 0;
  }
  group_machine_change(group->machine, change, removed);
  group_driver_poke(group);
  err = group_wait(group, deadline_ns, check_changed, missing_change, (void *)change);
  if (err == WEFT_ERR_TIMEOUT && group_machine_change_sent(group->machine))
    err = group_wait(group, clock_deadline_ms(ANSWER_MS), check_settled, missing_change, (void *)change);
  if (err == WEFT_ERR_TIMEOUT && group_machine_change_unknown(group->machine))
    err = fail_context(WEFT_ERR_UNREACHABLE, "the store did not answer whether it made a change; it may have made it");
  group_machine_change(group->machine, NULL, NULL);
  group_driver_poke(group);
  pthread_mutex_unlock(&group->lock);
  return err;
}
