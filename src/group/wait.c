// Calls that wait: each sets a wish, waits until the state shows that the wish is fulfilled, and withdraws it.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "group/driver.h"

enum { PENDING = GROUP_PENDING, BARRIER_NAME_SIZE = 128 };

static int deadline_passed(struct group *group, void (*missing)(struct group *, void *, struct text *), void *arg) {
  struct text text = {0};
  const char *lost = group_machine_lost(group->machine);
  missing(group, arg, &text);
  const char *what = text.data ? text.data : "";
  int err =
      lost ? fail(WEFT_ERR_UNREACHABLE, "%s; store unreachable: %s", what, lost) : fail(WEFT_ERR_TIMEOUT, "%s", what);
  text_free(&text);
  return err;
}

static int interrupted(struct group *group, void (*missing)(struct group *, void *, struct text *), void *arg) {
  struct text text = {0};
  missing(group, arg, &text);
  int err = fail(WEFT_ERR_CANCELED, "interrupted; %s", text.data ? text.data : "");
  text_free(&text);
  return err;
}

int group_wait(struct group *group, uint64_t deadline_ns, int (*check)(struct group *group, void *arg),
               void (*missing)(struct group *group, void *arg, struct text *out), void *arg) {
  struct timespec deadline = clock_timespec(deadline_ns);
  for (;;) {
    int result = check(group, arg);
    if (result != PENDING)
      return result;
    if (group->interrupted && group->interrupted(group->event_arg))
      return interrupted(group, missing, arg);
    if (clock_passed(deadline_ns))
      return deadline_passed(group, missing, arg);
    pthread_cond_timedwait(&group->changed, &group->lock, &deadline);
  }
}

static int fenced(const struct group *group) {
  return fail(WEFT_ERR_FENCED, "rank %" PRId32 ", incarnation %016" PRIx64 ", was removed from the group",
              group_machine_rank(group->machine), group->incarnation);
}

int group_obstacle(struct group *group) {
  enum group_standing standing = group_machine_standing(group->machine);
  const char *damage = group_machine_damage(group->machine);
  if (standing == GROUP_FENCED)
    return fenced(group);
  if (standing == GROUP_LEFT)
    return fail(WEFT_ERR_CLOSED, "rank %" PRId32 " has left the group", group_machine_rank(group->machine));
  if (damage)
    return fail(WEFT_ERR_PROTOCOL, "the key %sview is damaged: %s", group->prefix, damage);
  return PENDING;
}

const struct group_member *group_self_in_view(const struct group *group) {
  const struct group_member *self =
      group_view_find(group_machine_view(group->machine), group_machine_rank(group->machine));
  return self && self->incarnation == group->incarnation ? self : NULL;
}

// --- The claim of group_open().

static int check_claim(struct group *group, void *arg) {
  (void)arg;
  if (group_machine_standing(group->machine) != GROUP_OPENING)
    return 0;
  if (group_machine_refused(group->machine))
    return fail(group_machine_refused(group->machine), "the store refuses this client: %s",
                group_machine_lost(group->machine));
  if (group_machine_rank(group->machine) < 0 && group_machine_full(group->machine))
    return fail(WEFT_ERR_LIMIT, "all ranks of the group, 0 to %u, are claimed", group->capacity - 1);
  return PENDING;
}

static void missing_claim(struct group *group, void *arg, struct text *out) {
  int32_t rank = group_machine_rank(group->machine);
  (void)arg;
  if (rank < 0)
    text_add(out, "no rank claimed by the deadline");
  else
    text_add(out, "rank %" PRId32 " not claimed by the deadline", rank);
}

int group_wait_claim(struct group *group, uint64_t deadline_ns) {
  pthread_mutex_lock(&group->lock);
  int err = group_wait(group, deadline_ns, check_claim, missing_claim, NULL);
  int32_t rank = group_machine_rank(group->machine);
  uint64_t holder;
  const char *address;
  if (err == WEFT_ERR_TIMEOUT && rank >= 0 && group_machine_claim(group->machine, rank, &holder, &address))
    err = fail(WEFT_ERR_EXISTS, "rank %" PRId32 " is held by incarnation %016" PRIx64 " at '%.*s'", rank, holder,
               (int)strcspn(address, " "), address);
  pthread_mutex_unlock(&group->lock);
  return err;
}

// --- Ranks.

struct ranks {
  const int32_t *ranks;
  size_t count;
  uint64_t *incarnations; // of those to remove, 0 for none
};

static bool is_claimed(const struct group *group, int32_t rank) {
  uint64_t incarnation;
  const char *address;
  return group_machine_claim(group->machine, rank, &incarnation, &address) && incarnation;
}

static int check_ranks(struct group *group, void *arg) {
  const struct ranks *wanted = arg;
  for (size_t i = 0; i < wanted->count; i++)
    if (!is_claimed(group, wanted->ranks[i]))
      return PENDING;
  return 0;
}

static void missing_ranks(struct group *group, void *arg, struct text *out) {
  const struct ranks *wanted = arg;
  struct text ranks = {0};
  for (size_t i = 0; i < wanted->count; i++)
    if (!is_claimed(group, wanted->ranks[i]))
      text_add_rank(&ranks, wanted->ranks[i]);
  text_add(out, "waiting for ranks to be claimed; missing: %s", ranks.data ? ranks.data : "?");
  text_free(&ranks);
}

int group_valid_ranks(const struct group *group, const int32_t *ranks, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (ranks[i] < 0 || (uint32_t)ranks[i] >= group->capacity)
      return fail(WEFT_ERR_INVALID, "rank %" PRId32 ": ranks are 0 to %u", ranks[i], group->capacity - 1);
  return 0;
}

static int wait_for_ranks(struct group *group, const int32_t *ranks, size_t count, uint64_t deadline_ns,
                          int (*check)(struct group *group, void *arg)) {
  int err = group_valid_ranks(group, ranks, count);
  if (err)
    return err;
  struct ranks wanted = {.ranks = ranks, .count = count};
  pthread_mutex_lock(&group->lock);
  err = group_wait(group, deadline_ns, check, missing_ranks, &wanted);
  pthread_mutex_unlock(&group->lock);
  return err;
}

int group_wait_ranks(struct group *group, const int32_t *ranks, size_t count, uint64_t deadline_ns) {
  return wait_for_ranks(group, ranks, count, deadline_ns, check_ranks);
}

// A founder is no longer waited for when this rank is in a view, and that rank is not.
static bool is_missing_founder(const struct group *group, int32_t rank) {
  return !is_claimed(group, rank) &&
         (!group_self_in_view(group) || group_view_find(group_machine_view(group->machine), rank));
}

// PENDING, or NOT_FOUND where there is a group that lives, and this rank is not in it.
static int check_none_lives(struct group *group) {
  const struct group_view *view = group_machine_view(group->machine);
  if (group_self_in_view(group) || !group_machine_view_stands(group->machine) || !group_machine_lives(group->machine))
    return PENDING;
  return fail(WEFT_ERR_NOT_FOUND, "the group exists already, with view %" PRIu64 " without rank %" PRId32, view->epoch,
              group_machine_rank(group->machine));
}

static int check_founders(struct group *group, void *arg) {
  const struct ranks *wanted = arg;
  bool missing = false;
  for (size_t i = 0; i < wanted->count; i++)
    missing |= is_missing_founder(group, wanted->ranks[i]);
  if (!missing)
    return 0;
  int blocked = group_obstacle(group);
  return blocked == PENDING ? check_none_lives(group) : blocked;
}

int group_wait_founders(struct group *group, const int32_t *ranks, size_t count, uint64_t deadline_ns) {
  return wait_for_ranks(group, ranks, count, deadline_ns, check_founders);
}

// --- Views.

static int check_view(struct group *group, void *arg) {
  uint64_t epoch = *(uint64_t *)arg;
  const struct group_view *view = group_machine_view(group->machine);
  if (epoch ? view && view->epoch >= epoch : group_self_in_view(group) != NULL)
    return 0;
  return group_obstacle(group);
}

static void missing_view(struct group *group, void *arg, struct text *out) {
  uint64_t epoch = *(uint64_t *)arg;
  const struct group_view *view = group_machine_view(group->machine);
  if (epoch)
    text_add(out, "waiting for view %" PRIu64, epoch);
  else
    text_add(out, "waiting for a view with rank %" PRId32, group_machine_rank(group->machine));
  text_add(out, "; the newest is %" PRIu64, view ? view->epoch : 0);
}

int group_wait_view(struct group *group, uint64_t epoch, uint64_t deadline_ns) {
  pthread_mutex_lock(&group->lock);
  int err = group_wait(group, deadline_ns, check_view, missing_view, &epoch);
  pthread_mutex_unlock(&group->lock);
  return err;
}

static int check_founded(struct group *group, void *arg) {
  (void)arg;
  if (group_self_in_view(group))
    return 0;
  int blocked = group_obstacle(group);
  return blocked == PENDING ? check_none_lives(group) : blocked;
}

static void missing_founders(struct group *group, void *arg, struct text *out) {
  struct text ranks = {0};
  (void)arg;
  if (group_machine_missing_founders(group->machine, &ranks))
    text_add(out, "waiting for the founders; missing: %s", ranks.data ? ranks.data : "?");
  else
    text_add(out, "waiting for rank %" PRId32 ", the lowest founder, to create the first view",
             group_machine_lowest_founder(group->machine));
  text_free(&ranks);
}

int group_found(struct group *group, uint64_t deadline_ns) {
  pthread_mutex_lock(&group->lock);
  group_machine_found(group->machine, true);
  group_driver_poke(group);
  int err = group_wait(group, deadline_ns, check_founded, missing_founders, NULL);
  group_machine_found(group->machine, false);
  pthread_mutex_unlock(&group->lock);
  return err;
}

static int check_joined(struct group *group, void *arg) {
  uint64_t base = *(uint64_t *)arg;
  const struct group_view *view = group_machine_view(group->machine);
  if (group_self_in_view(group))
    return 0;
  int blocked = group_obstacle(group);
  if (blocked != PENDING)
    return blocked;
  if (!view || view->epoch != base)
    return fail(WEFT_ERR_CONFLICT, "view %" PRIu64 " is not the newest: that is %" PRIu64, base,
                view ? view->epoch : 0);
  return PENDING;
}

static void missing_join(struct group *group, void *arg, struct text *out) {
  text_add(out, "waiting for view %" PRIu64 " with rank %" PRId32 " added", *(uint64_t *)arg + 1,
           group_machine_rank(group->machine));
}

int group_join(struct group *group, const struct group_view *base, uint64_t deadline_ns) {
  if (!base)
    return fail(WEFT_ERR_INVALID, "base is NULL: want the view to join");
  uint64_t epoch = base->epoch;
  pthread_mutex_lock(&group->lock);
  group_machine_join(group->machine, epoch);
  group_driver_poke(group);
  int err = group_wait(group, deadline_ns, check_joined, missing_join, &epoch);
  group_machine_join(group->machine, 0);
  pthread_mutex_unlock(&group->lock);
  return err;
}

static bool is_in_view(const struct group *group, const struct ranks *ranks, size_t i) {
  const struct group_member *member = group_view_find(group_machine_view(group->machine), ranks->ranks[i]);
  return member && member->incarnation == ranks->incarnations[i];
}

static int check_removed(struct group *group, void *arg) {
  const struct ranks *leaving = arg;
  for (size_t i = 0; i < leaving->count; i++)
    if (is_in_view(group, leaving, i))
      return group_obstacle(group);
  return 0;
}

static void missing_removals(struct group *group, void *arg, struct text *out) {
  const struct ranks *leaving = arg;
  struct text ranks = {0};
  for (size_t i = 0; i < leaving->count; i++)
    if (is_in_view(group, leaving, i))
      text_add_rank(&ranks, leaving->ranks[i]);
  text_add(out, "waiting for a view without ranks %s", ranks.data ? ranks.data : "?");
  text_free(&ranks);
}

int group_remove(struct group *group, const int32_t *ranks, size_t count, uint64_t deadline_ns) {
  int err = group_valid_ranks(group, ranks, count);
  if (err)
    return err;
  struct ranks leaving = {.ranks = ranks, .count = count, .incarnations = calloc(count + 1, sizeof(uint64_t))};
  if (!leaving.incarnations)
    return fail(WEFT_ERR_NOMEM, "no memory to remove %zu ranks", count);
  pthread_mutex_lock(&group->lock);
  for (size_t i = 0; i < count; i++)
    leaving.incarnations[i] = group_machine_remove(group->machine, ranks[i]);
  group_driver_poke(group);
  err = group_wait(group, deadline_ns, check_removed, missing_removals, &leaving);
  for (size_t i = 0; i < count; i++)
    if (leaving.incarnations[i])
      group_machine_remove_end(group->machine, ranks[i], leaving.incarnations[i]);
  pthread_mutex_unlock(&group->lock);
  free(leaving.incarnations);
  return err;
}

// --- Barriers.

static int check_barrier(struct group *group, void *arg) {
  struct text missing = {0};
  bool pending = group_machine_barrier_missing(group->machine, arg, &missing);
  text_free(&missing);
  if (!pending)
    return 0;
  int blocked = group_obstacle(group);
  if (blocked == PENDING && !group_self_in_view(group))
    return fail(WEFT_ERR_NOT_CONNECTED, "rank %" PRId32 " is in no view", group_machine_rank(group->machine));
  return blocked;
}

static void missing_at_barrier(struct group *group, void *arg, struct text *out) {
  struct text ranks = {0};
  group_machine_barrier_missing(group->machine, arg, &ranks);
  text_add(out, "barrier '%s': waiting for ranks %s", (const char *)arg, ranks.data ? ranks.data : "?");
  text_free(&ranks);
}

int group_barrier(struct group *group, const char *name, uint64_t deadline_ns) {
  if (!name || !*name || strlen(name) >= BARRIER_NAME_SIZE)
    return fail(WEFT_ERR_INVALID, "a barrier's name has 1 to %d bytes", BARRIER_NAME_SIZE - 1);
  pthread_mutex_lock(&group->lock);
  int err = group_self_in_view(group) ? 0 : group_obstacle(group);
  if (err == PENDING)
    err = fail(WEFT_ERR_NOT_CONNECTED, "rank %" PRId32 " is in no view", group_machine_rank(group->machine));
  if (!err)
    err = group_machine_barrier(group->machine, name);
  if (!err) {
    group_driver_poke(group);
    err = group_wait(group, deadline_ns, check_barrier, missing_at_barrier, (char *)name);
    group_machine_barrier_end(group->machine, name);
    group_driver_poke(group);
  }
  pthread_mutex_unlock(&group->lock);
  return err;
}
