// The content of the store, as it was read and watched, and the consequences for this member.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "group/state.h"

enum { STARVED_MS = 50 };

static void emit(struct group_machine *m, enum group_event_kind kind, const struct group_view *view, int32_t rank,
                 uint64_t incarnation) {
  struct group_queued *queued = malloc(sizeof *queued);
  m->dropped &= ~(1u << kind); // this event carries more
  if (!queued) {               // its kind is enough: the state at that time is reported later
    m->dropped |= 1u << kind;
    return;
  }
  queued->next = NULL;
  queued->event =
      (struct group_event){.kind = kind, .view = group_view_ref(view), .rank = rank, .incarnation = incarnation};
  *m->events_tail = queued;
  m->events_tail = &queued->next;
}

void group_update_lost(struct group_machine *m, const char *reason) {
  bool lost = m->watch_lost || m->requests_fail;
  if (lost && reason)
    snprintf(m->reason, sizeof m->reason, "%s", reason);
  if (lost == m->lost)
    return;
  m->lost = lost;
  // Claims may have run out while their owners could not reach the store either: gives the owners time to restore them.
  if (!lost)
    m->grace_until = m->view_grace_until = m->now + m->ttl_ns;
  emit(m, lost ? GROUP_EVENT_STORE_LOST : GROUP_EVENT_STORE_BACK, NULL, -1, 0);
}

// Whether this member leaves by its own wish; this may be a wish that it has given up while the store carries it out.
static bool goes(const struct group_machine *m) {
  return m->leaving || m->closing || m->builder.of_leave || m->may_leave;
}

static void fence(struct group_machine *m, const char *why) {
  if (m->standing != GROUP_CLAIMED)
    return;
  if (goes(m)) {
    m->standing = GROUP_LEFT;
    return;
  }
  log_info("group: rank %d is fenced: %s", m->rank, why);
  m->standing = GROUP_FENCED;
  emit(m, GROUP_EVENT_FENCED, m->view, -1, 0);
}

// Memory ran out while a value was read: its contents must not be guessed.
static void starve(struct group_machine *m, const char *what) {
  log_error("group: no memory for %s: reading everything again", what);
  m->starved = true;
}

// Called after observations: if memory ran out, reads everything again in a moment.
static void settle_starved(struct group_machine *m) {
  if (!m->starved)
    return;
  m->starved = false;
  m->synced = false;
  m->retry = true;
  m->retry_at = m->now + (uint64_t)STARVED_MS * GROUP_MS;
}

// Removes a claim whose key has gone, and reports it.
static void claim_gone(struct group_machine *m, int32_t rank) {
  struct group_claim *claim = &m->claims[rank];
  if (claim->create_revision == 0)
    return;
  uint64_t incarnation = claim->incarnation;
  int64_t lease = claim->lease;
  claim->create_revision = 0;
  claim->incarnation = 0;
  free(claim->address);
  claim->address = NULL;
  if (incarnation)
    emit(m, GROUP_EVENT_GONE, NULL, rank, incarnation);
  if (rank != m->rank || incarnation != m->incarnation || m->standing != GROUP_CLAIMED || m->claim_dropped)
    return;
  // This member's own claim. If it did not delete the claim itself, its lease has run out, and the cause may have
  // affected the leases of all.
  if (lease == m->lease && !goes(m))
    m->lease = 0;
  m->grace_until = m->now + m->ttl_ns;
}

static void ticket_gone(struct group_machine *m, uint64_t incarnation) {
  if (incarnation == m->incarnation)
    m->late_ticket = false;
  for (uint32_t i = 0; i < m->num_tickets; i++) {
    if (m->tickets[i].incarnation != incarnation)
      continue;
    memmove(&m->tickets[i], &m->tickets[i + 1], (m->num_tickets - i - 1) * sizeof *m->tickets);
    m->num_tickets--;
    return;
  }
}

static void claim_put(struct group_machine *m, int32_t rank, const struct weft_store_kv *kv) {
  struct group_claim *claim = &m->claims[rank];
  uint64_t incarnation = 0;
  char *address = NULL;
  if (kv->mod_revision <= claim->mod_revision)
    return;
  int err = group_claim_decode(kv->value, kv->value_len, &incarnation, &address);
  if (err == WEFT_ERR_NOMEM) {
    starve(m, "a claim");
    return;
  }
  if (err)
    log_error("group: the claim of rank %d is unreadable: %s", rank, weft_last_error());
  if (claim->create_revision != 0 && claim->incarnation != incarnation)
    claim_gone(m, rank);
  free(claim->address);
  *claim = (struct group_claim){.incarnation = incarnation,
                                .create_revision = kv->create_revision,
                                .mod_revision = kv->mod_revision,
                                .lease = kv->lease,
                                .address = address};
  ticket_gone(m, incarnation); // its own event follows, though this transaction deleted it
  if (incarnation == m->incarnation && m->standing == GROUP_OPENING) {
    m->rank = rank;
    m->standing = GROUP_CLAIMED;
  } else if (rank == m->rank && incarnation != m->incarnation) {
    fence(m, "another incarnation has claimed its rank");
  }
}

static void claim_deleted(struct group_machine *m, int32_t rank, int64_t revision) {
  if (revision <= m->claims[rank].mod_revision)
    return;
  m->claims[rank].mod_revision = revision;
  claim_gone(m, rank);
}

// Wishes about members that are in the view no more are fulfilled.
static void settle_removals(struct group_machine *m) {
  for (uint32_t r = 0; r < m->capacity; r++)
    if (m->removals[r].incarnation && !group_view_has(m->view, (int32_t)r, m->removals[r].incarnation))
      m->removals[r] = (struct group_removal){0};
}

static void view_agreed(struct group_machine *m, const struct group_view *view) {
  const struct group_view *before = m->view;
  m->view = group_view_ref(view);
  emit(m, GROUP_EVENT_VIEW, view, -1, 0);
  if (group_in_view(m, before) && !group_in_view(m, view))
    fence(m, "it is not in the new view");
  group_view_unref(before);
  settle_removals(m);
}

static void view_absent(struct group_machine *m) {
  group_view_unref(m->stored);
  m->stored = NULL;
  m->stored_mod = 0;
  m->stored_lease = 0;
  m->damage[0] = '\0';
}

static void view_put(struct group_machine *m, const struct weft_store_kv *kv) {
  if (kv->mod_revision <= m->stored_seen)
    return;
  struct group_view *view = NULL;
  int err = group_view_decode(kv->value, kv->value_len, m->capacity, &view);
  if (err == WEFT_ERR_NOMEM) {
    starve(m, "the view");
    return;
  }
  view_absent(m);
  m->stored_seen = kv->mod_revision;
  m->stored_mod = kv->mod_revision;
  m->stored_lease = kv->lease;
  m->stored = view;
  m->may_leave &= !group_in_view(m, view);
  if (err) {
    snprintf(m->damage, sizeof m->damage, "%s", weft_last_error());
    log_error("group: the view is unreadable: %s", m->damage);
    return;
  }
  if (!m->view || view->epoch > m->view->epoch)
    view_agreed(m, view);
  else if (view->epoch == m->view->epoch && group_in_view(m, m->view) && !group_in_view(m, view))
    fence(m, "after the store lost the view, other ranks made one of the same epoch without it");
}

static void view_deleted(struct group_machine *m, int64_t revision) {
  if (revision <= m->stored_seen)
    return;
  view_absent(m);
  m->stored_seen = revision;
}

// A process that was not in the newest view that it knows accepts another view from the store if that belongs to a
// living group: all members of the earlier group have died, and their keys have gone from the store, before others
// founded the group anew.
static void settle_view(struct group_machine *m) {
  bool over = m->standing == GROUP_FENCED || m->standing == GROUP_LEFT;
  if (over || !m->stored || !m->view || group_in_view(m, m->view) || group_view_equal(m->stored, m->view))
    return;
  if (group_in_view(m, m->stored) || (group_is_alive(m, m->stored) && !group_is_alive(m, m->view)))
    view_agreed(m, m->stored);
}

// Tickets are in the order of their revisions. A watch reports them in this order, a read does not.
static void ticket_put(struct group_machine *m, uint64_t incarnation, int64_t revision) {
  if (m->rank >= 0) {
    m->late_ticket |= incarnation == m->incarnation;
    return; // it has a rank: the queue is no concern of this member
  }
  ticket_gone(m, incarnation);
  if (m->num_tickets == m->room_tickets) {
    uint32_t room = m->room_tickets ? 2 * m->room_tickets : 16;
    struct group_ticket *tickets = realloc(m->tickets, room * sizeof *tickets);
    if (!tickets) {
      starve(m, "the tickets");
      return;
    }
    m->tickets = tickets;
    m->room_tickets = room;
  }
  uint32_t place = m->num_tickets++;
  for (; place > 0 && m->tickets[place - 1].revision > revision; place--)
    m->tickets[place] = m->tickets[place - 1];
  m->tickets[place] = (struct group_ticket){.revision = revision, .incarnation = incarnation};
}

static void observe_barrier(struct group_machine *m, const struct group_key *key, const struct weft_store_kv *kv,
                            bool put) {
  uint64_t incarnation = 0;
  if (put && group_incarnation_decode(kv->value, kv->value_len, &incarnation) != 0)
    log_error("group: barrier key '%s' is unreadable: %s", kv->key, weft_last_error());
  group_barrier_observe(m, key, incarnation);
}

static void observe_kv(struct group_machine *m, const struct weft_store_kv *kv, bool put) {
  struct group_key key = group_key_parse(m->prefix, m->capacity, kv->key);
  switch (key.kind) {
  case GROUP_KEY_VIEW:
    if (put)
      view_put(m, kv);
    else
      view_deleted(m, kv->mod_revision);
    break;
  case GROUP_KEY_CLAIM:
    if (put)
      claim_put(m, key.rank, kv);
    else
      claim_deleted(m, key.rank, kv->mod_revision);
    break;
  case GROUP_KEY_TICKET:
    if (put)
      ticket_put(m, key.incarnation, kv->create_revision);
    else
      ticket_gone(m, key.incarnation);
    break;
  case GROUP_KEY_OFFER:
    if (put)
      group_offer_put(m, key.rank, kv);
    else
      group_offer_deleted(m, key.rank, kv->mod_revision);
    break;
  case GROUP_KEY_BARRIER:
    observe_barrier(m, &key, kv, put);
    break;
  case GROUP_KEY_OTHER:
    log_debug("group: ignoring key '%s', which no group of capacity %u has", kv->key, m->capacity);
    break;
  }
}

void group_observe(struct group_machine *m, const struct weft_store_event *event) {
  if (event->revision < m->revision)
    return; // known from the read already
  m->revision = event->revision;
  observe_kv(m, event->kv, event->kind == WEFT_STORE_EVENT_PUT);
  settle_view(m);
  group_barriers_settle(m);
  settle_starved(m);
  if (m->holding && (m->hold_revision == 0 || m->revision >= m->hold_revision))
    group_shows(m);
}

// The list is complete. Revisions begin anew if the store restarted empty, so the known ones are dropped.
void group_observe_all(struct group_machine *m, const struct weft_store_list *list) {
  for (uint32_t r = 0; r < m->capacity; r++)
    m->claims[r].mod_revision = m->offers[r].mod_revision = 0;
  m->num_tickets = 0;
  m->late_ticket = false;
  m->stored_seen = 0;
  group_barrier_forget_keys(m);
  for (size_t i = 0; i < list->count; i++)
    observe_kv(m, list->kvs[i], true);
  for (uint32_t r = 0; r < m->capacity; r++)
    if (m->claims[r].mod_revision == 0)
      claim_gone(m, (int32_t)r);
  for (uint32_t r = 0; r < m->capacity; r++)
    if (m->offers[r].mod_revision == 0)
      group_offer_deleted(m, (int32_t)r, list->revision);
  if (m->stored_seen == 0)
    view_absent(m);
  m->revision = list->revision;
  if (m->standing == GROUP_OPENING && (m->stored || m->num_founders == 0))
    m->grace_until = m->now + m->ttl_ns; // it cannot know whether there was an outage before its start
  if (m->join_only && !m->stored && m->view_grace_until == 0)
    m->view_grace_until = m->now + m->ttl_ns; // the members' claims are not back either
  m->synced = true;
  settle_view(m);
  group_shows(m);
  group_barriers_settle(m);
  settle_starved(m);
}
