// Opens and closes a rank's membership.
#include "group/group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "group/codec.h"
#include "group/driver.h"

enum { CLOSE_MS = 1000 };

static int check_founders(const struct group_options *o) {
  bool own = o->num_founders == 0;
  for (uint32_t i = 0; i < o->num_founders; i++) {
    if (o->founders[i] < 0 || (uint32_t)o->founders[i] >= o->capacity)
      return fail(WEFT_ERR_INVALID, "founder %d: ranks are 0 to %u", o->founders[i], o->capacity - 1);
    for (uint32_t j = 0; j < i; j++)
      if (o->founders[i] == o->founders[j])
        return fail(WEFT_ERR_INVALID, "founder %d is named twice: want each rank once", o->founders[i]);
    own |= o->founders[i] == o->rank;
  }
  return own ? 0 : fail(WEFT_ERR_INVALID, "rank %d is not among the founders", o->rank);
}

// The address has to fit, and to be valid in JSON.
static int check_address(const char *address) {
  if (!address || strlen(address) >= GROUP_ADDRESS_SIZE)
    return fail(WEFT_ERR_INVALID, "the address is missing or too long: want 1 to %d bytes", GROUP_ADDRESS_SIZE - 1);
  errno = 0;
  char *claim = group_claim_encode(1, address);
  if (!claim && errno == ENOMEM)
    return fail(WEFT_ERR_NOMEM, "no memory for a group");
  if (!claim)
    return fail(WEFT_ERR_INVALID, "the address '%s' is not UTF-8", address);
  free(claim);
  return 0;
}

static int check(const struct group_options *o) {
  if (!o->store)
    return fail(WEFT_ERR_INVALID, "the group's store is NULL: want an open store");
  if (!o->prefix || !*o->prefix || o->prefix[strlen(o->prefix) - 1] != '/')
    return fail(WEFT_ERR_INVALID, "a group's prefix ends in '/': '%s' does not", o->prefix ? o->prefix : "");
  if (o->capacity == 0 || o->capacity > INT32_MAX)
    return fail(WEFT_ERR_INVALID, "a group's capacity is from 1 to %d, not %u", INT32_MAX, o->capacity);
  if (o->rank < -1 || (o->rank >= 0 && (uint32_t)o->rank >= o->capacity))
    return fail(WEFT_ERR_INVALID, "rank %d: ranks are 0 to %u, or -1 for the lowest free one", o->rank,
                o->capacity - 1);
  if (o->lease_ttl_s == 0)
    return fail(WEFT_ERR_INVALID, "the lease is too short: want 1 s or more");
  int err = check_address(o->address);
  return err ? err : check_founders(o);
}

static int set_up(struct group *group, const struct group_options *options) {
  group->store = options->store;
  group->capacity = options->capacity;
  group->on_event = options->on_event;
  group->interrupted = options->interrupted;
  group->event_arg = options->event_arg;
  group->incarnation = random_id();
  group->prefix = strdup(options->prefix);
  if (!group->prefix)
    return fail(WEFT_ERR_NOMEM, "no memory for a group");
  const struct group_machine_options machine = {
      .prefix = options->prefix,
      .rank = options->rank,
      .capacity = options->capacity,
      .founders = options->founders,
      .num_founders = options->num_founders,
      .join_only = options->join_only,
      .lease_ttl_s = options->lease_ttl_s,
      .address = options->address,
      .incarnation = group->incarnation,
      .seed = random_id(),
  };
  return group_machine_new(&group->machine, &machine);
}

static void init_locks(struct group *group) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&group->lock, NULL);
  pthread_cond_init(&group->changed, &monotonic);
  pthread_cond_init(&group->input, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static void destroy(struct group *group) {
  group_machine_free(group->machine);
  pthread_cond_destroy(&group->input);
  pthread_cond_destroy(&group->changed);
  pthread_mutex_destroy(&group->lock);
  free(group->prefix);
  free(group);
}

int group_open(struct group **group, const struct group_options *options, uint64_t deadline_ns) {
  int err = check(options);
  if (err)
    return err;
  struct group *opened = calloc(1, sizeof *opened);
  if (!opened)
    return fail(WEFT_ERR_NOMEM, "no memory for a group");
  init_locks(opened);
  err = set_up(opened, options);
  if (!err)
    err = group_driver_start(opened);
  if (err) {
    destroy(opened);
    return err;
  }
  err = group_wait_claim(opened, deadline_ns);
  if (err) {
    group_close(opened);
    return err;
  }
  *group = opened;
  return 0;
}

void group_close(struct group *group) {
  if (!group)
    return;
  pthread_mutex_lock(&group->lock);
  group_machine_close(group->machine, clock_deadline_ms(CLOSE_MS));
  group_driver_limit(group);
  group_driver_poke(group);
  pthread_mutex_unlock(&group->lock);
  pthread_join(group->thread, NULL);
  destroy(group);
}

int32_t group_rank(const struct group *group) {
  return group_machine_rank(group->machine);
}

uint64_t group_incarnation(const struct group *group) {
  return group->incarnation;
}

void group_wake(struct group *group) {
  pthread_mutex_lock(&group->lock);
  pthread_cond_broadcast(&group->changed);
  pthread_mutex_unlock(&group->lock);
}

const struct group_view *group_view(struct group *group) {
  pthread_mutex_lock(&group->lock);
  const struct group_view *view = group_view_ref(group_machine_view(group->machine));
  pthread_mutex_unlock(&group->lock);
  return view;
}

bool group_lives(struct group *group) {
  pthread_mutex_lock(&group->lock);
  bool lives = group_machine_lives(group->machine);
  pthread_mutex_unlock(&group->lock);
  return lives;
}

int group_find(struct group *group, int32_t rank, struct group_peer *peer) {
  if (rank < 0 || (uint32_t)rank >= group->capacity)
    return fail(WEFT_ERR_INVALID, "rank %d: ranks are 0 to %u", rank, group->capacity - 1);
  struct group_peer found = {.rank = rank};
  const char *address;
  pthread_mutex_lock(&group->lock);
  bool claimed = group_machine_claim(group->machine, rank, &found.incarnation, &address) && found.incarnation;
  if (claimed)
    snprintf(found.address, sizeof found.address, "%s", address);
  pthread_mutex_unlock(&group->lock);
  if (!claimed)
    return fail(WEFT_ERR_NOT_FOUND, "rank %d is not claimed", rank);
  *peer = found;
  return 0;
}

void group_suspect(struct group *group, int32_t rank, uint64_t incarnation, const char *cause) {
  if (rank < 0 || (uint32_t)rank >= group->capacity)
    return;
  log_info("group: rank %d suspects rank %d: %s", group_rank(group), rank, cause ? cause : "no cause given");
  pthread_mutex_lock(&group->lock);
  group_machine_suspect(group->machine, rank, incarnation);
  group_driver_poke(group);
  pthread_mutex_unlock(&group->lock);
}
