// The state machine of membership: the consequences of each event, without input or output.
#include "group/machine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "group/state.h"

static int by_rank(const void *a, const void *b) {
  int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
  return (left > right) - (left < right);
}

static int copy_options(struct group_machine *m, const struct group_machine_options *o) {
  m->prefix = strdup(o->prefix);
  m->address = strdup(o->address);
  m->claims = calloc(o->capacity, sizeof *m->claims);
  m->removals = calloc(o->capacity, sizeof *m->removals);
  m->offers = calloc(o->capacity, sizeof *m->offers);
  m->founders = calloc(o->num_founders + 1u, sizeof *m->founders);
  if (!m->prefix || !m->address || !m->claims || !m->removals || !m->offers || !m->founders)
    return fail(WEFT_ERR_NOMEM, "no memory for a group of capacity %u", o->capacity);
  if (o->num_founders > 0)
    memcpy(m->founders, o->founders, o->num_founders * sizeof *m->founders);
  qsort(m->founders, o->num_founders, sizeof *m->founders, by_rank);
  return 0;
}

int group_machine_new(struct group_machine **machine, const struct group_machine_options *options) {
  struct group_machine *m = calloc(1, sizeof *m);
  if (!m)
    return fail(WEFT_ERR_NOMEM, "no memory for a group");
  m->capacity = options->capacity;
  m->num_founders = options->num_founders;
  m->join_only = options->join_only;
  m->ttl_ns = (uint64_t)options->lease_ttl_s * 1000000000u;
  m->incarnation = options->incarnation;
  m->random = options->seed;
  m->rank = options->rank;
  m->need_mod = -1;
  m->withdraw = -1;
  m->events_tail = &m->events;
  int err = copy_options(m, options);
  if (err) {
    group_machine_free(m);
    return err;
  }
  *machine = m;
  return 0;
}

void group_machine_free(struct group_machine *m) {
  if (!m)
    return;
  struct group_event event;
  while (group_machine_event(m, &event))
    group_view_unref(event.view);
  for (uint32_t r = 0; m->claims && r < m->capacity; r++)
    free(m->claims[r].address);
  group_txn_free(m);
  group_barriers_free(m);
  group_view_unref(m->stored);
  group_view_unref(m->view);
  free(m->tickets);
  free(m->founders);
  free(m->removals);
  free(m->offers);
  free(m->claims);
  free(m->address);
  free(m->prefix);
  free(m);
}

// Reports the present state in place of events for which there was no memory. A vanished claim is not reported again.
static bool emit_dropped(struct group_machine *m, struct group_event *event) {
  while (m->dropped != 0) {
    enum group_event_kind kind = (enum group_event_kind)__builtin_ctz(m->dropped);
    m->dropped &= m->dropped - 1;
    bool holds = kind == GROUP_EVENT_VIEW || kind == GROUP_EVENT_FENCED ||
                 kind == (m->lost ? GROUP_EVENT_STORE_LOST : GROUP_EVENT_STORE_BACK);
    if (!holds)
      continue;
    *event = (struct group_event){.kind = kind, .view = group_view_ref(m->view), .rank = -1};
    return true;
  }
  return false;
}

bool group_machine_event(struct group_machine *m, struct group_event *event) {
  struct group_queued *first = m->events;
  if (!first)
    return emit_dropped(m, event);
  m->events = first->next;
  if (!m->events)
    m->events_tail = &m->events;
  *event = first->event;
  free(first);
  return true;
}

void group_machine_found(struct group_machine *m, bool wish) {
  m->founding = wish;
}

void group_machine_join(struct group_machine *m, uint64_t base_epoch) {
  m->join_epoch = base_epoch;
}

uint64_t group_machine_remove(struct group_machine *m, int32_t rank) {
  const struct group_member *member = group_view_find(m->view, rank);
  if (!member)
    return 0;
  struct group_removal *removal = &m->removals[rank];
  removal->incarnation = member->incarnation;
  removal->removers++;
  if (rank == m->rank && member->incarnation == m->incarnation)
    m->leaving = true;
  return member->incarnation;
}

void group_machine_remove_end(struct group_machine *m, int32_t rank, uint64_t incarnation) {
  struct group_removal *removal = &m->removals[rank];
  if (removal->incarnation != incarnation || removal->removers == 0)
    return;
  removal->removers--;
  if (removal->removers == 0 && !removal->suspected)
    removal->incarnation = 0;
  if (removal->removers == 0 && rank == m->rank && incarnation == m->incarnation && m->standing == GROUP_CLAIMED)
    m->leaving = m->wanted.leaves; // it did not come to that
}

void group_machine_suspect(struct group_machine *m, int32_t rank, uint64_t incarnation) {
  // A suspicion of a rank that is not in the view is ignored there: its own link may be at fault, or the rank itself.
  // If no member is left, the leases run out.
  if (rank == m->rank || !group_view_has(m->view, rank, incarnation) || !group_in_view(m, m->view))
    return;
  m->removals[rank].incarnation = incarnation;
  m->removals[rank].suspected = true;
}

void group_machine_close(struct group_machine *m, uint64_t until_ns) {
  m->closing = true;
  m->close_until = until_ns;
}

enum group_standing group_machine_standing(const struct group_machine *m) {
  return m->standing;
}

bool group_machine_closed(const struct group_machine *m) {
  return m->closed;
}

int32_t group_machine_rank(const struct group_machine *m) {
  return m->rank;
}

const struct group_view *group_machine_view(const struct group_machine *m) {
  return m->view;
}

bool group_machine_view_stands(const struct group_machine *m) {
  return m->stored != NULL;
}

bool group_machine_lives(const struct group_machine *m) {
  return group_is_alive(m, m->view);
}

bool group_machine_claim(const struct group_machine *m, int32_t rank, uint64_t *incarnation, const char **address) {
  const struct group_claim *claim = &m->claims[rank];
  if (claim->create_revision == 0)
    return false;
  *incarnation = claim->incarnation;
  *address = claim->address ? claim->address : "";
  return true;
}

bool group_machine_full(const struct group_machine *m) {
  if (!m->synced)
    return false;
  for (uint32_t r = 0; r < m->capacity; r++)
    if (m->claims[r].create_revision == 0)
      return false;
  return true;
}

const char *group_machine_damage(const struct group_machine *m) {
  return m->damage[0] ? m->damage : NULL;
}

const char *group_machine_lost(const struct group_machine *m) {
  return m->lost ? m->reason : NULL;
}

int group_machine_refused(const struct group_machine *m) {
  return m->refused;
}

bool group_machine_missing_founders(const struct group_machine *m, struct text *missing) {
  bool found = false;
  for (uint32_t i = 0; i < m->num_founders; i++) {
    if (m->claims[m->founders[i]].incarnation != 0)
      continue;
    found = true;
    text_add_rank(missing, m->founders[i]);
  }
  return found;
}

int32_t group_machine_lowest_founder(const struct group_machine *m) {
  return m->num_founders ? m->founders[0] : m->rank;
}
