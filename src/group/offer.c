// Offers of ranks that want to join a view, and changes of the view that take them in.
//
// A joiner announces itself, makes its links, and announces that it is ready; so a view may add several joiners at
// once. The transaction of a change compares the key of each joiner, and marks it as taken. So a joiner that has
// withdrawn its offer is not added, and a joiner whose key is marked knows that a view with it follows.
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "group/state.h"

// --- The content of the store.

static bool is_own(const struct group_machine *m, int32_t rank) {
  return rank == m->rank && m->offers[rank].create_revision != 0 && m->offers[rank].incarnation == m->incarnation;
}

// Whether it is the offer that this member had given up when it offered itself again. It may be about to be deleted.
static bool is_given_up(const struct group_machine *m, int32_t rank) {
  return is_own(m, rank) && m->offers[rank].mod_revision == m->given_up;
}

void group_offer_put(struct group_machine *m, int32_t rank, const struct weft_store_kv *kv) {
  struct group_offer *offer = &m->offers[rank];
  uint64_t incarnation = 0;
  enum group_offer_stage stage = GROUP_OFFER_NONE;
  if (kv->mod_revision <= offer->mod_revision)
    return;
  if (group_offer_decode(kv->value, kv->value_len, &incarnation, &stage) != 0)
    log_error("group: the offer of rank %" PRId32 " is unreadable: %s", rank, weft_last_error());
  *offer = (struct group_offer){.incarnation = incarnation,
                                .create_revision = kv->create_revision,
                                .mod_revision = kv->mod_revision,
                                .lease = kv->lease,
                                .stage = stage};
  if (!is_own(m, rank))
    return;
  m->offered |= m->offering != GROUP_OFFER_NONE;
  if (stage == GROUP_OFFER_TAKEN)
    m->offering = GROUP_OFFER_NONE;
}

void group_offer_deleted(struct group_machine *m, int32_t rank, int64_t revision) {
  struct group_offer *offer = &m->offers[rank];
  if (revision <= offer->mod_revision)
    return;
  if (is_own(m, rank) && m->offered) {
    m->offering = GROUP_OFFER_NONE;
    m->offered = false;
  }
  *offer = (struct group_offer){.mod_revision = revision};
}

// --- Its own offer, and an offer to be withdrawn.

static bool put_own(struct group_machine *m, enum group_offer_stage stage, struct group_request *request) {
  const struct group_offer *own = &m->offers[m->rank];
  group_txn_begin(m);
  if (own->create_revision != 0)
    group_txn_compare(m, group_key_offer(m->prefix, m->rank), WEFT_STORE_MOD, own->mod_revision);
  else
    group_txn_compare(m, group_key_offer(m->prefix, m->rank), WEFT_STORE_CREATE, 0);
  group_txn_put(m, group_key_offer(m->prefix, m->rank), group_offer_encode(m->incarnation, stage), m->lease);
  return group_txn_end(m, request);
}

static bool delete_offer(struct group_machine *m, int32_t rank, struct group_request *request) {
  group_txn_begin(m);
  group_txn_compare(m, group_key_offer(m->prefix, rank), WEFT_STORE_MOD, m->offers[rank].mod_revision);
  group_txn_delete(m, group_key_offer(m->prefix, rank));
  return group_txn_end(m, request);
}

bool group_offer_request(struct group_machine *m, struct group_request *request) {
  if (!group_holds_claim(m))
    return false;
  const struct group_offer *own = &m->offers[m->rank];
  bool mine = is_own(m, m->rank);
  if (group_in_view(m, m->stored)) // its wish is fulfilled
    m->offering = GROUP_OFFER_NONE;
  if (!mine && m->offering != GROUP_OFFER_NONE && !m->offered)
    return put_own(m, GROUP_OFFER_COMING, request);
  if (m->offering != GROUP_OFFER_NONE && is_given_up(m, m->rank))
    return put_own(m, GROUP_OFFER_COMING, request);
  if (mine && m->offering == GROUP_OFFER_READY && own->stage == GROUP_OFFER_COMING)
    return put_own(m, GROUP_OFFER_READY, request);
  if (mine && m->offering == GROUP_OFFER_NONE && own->stage != GROUP_OFFER_TAKEN)
    return delete_offer(m, m->rank, request);
  if (m->withdraw < 0)
    return false;
  const struct group_offer *other = &m->offers[m->withdraw];
  bool there = other->create_revision != 0 && other->incarnation == m->withdraw_incarnation;
  return there && other->stage != GROUP_OFFER_TAKEN && delete_offer(m, m->withdraw, request);
}

// --- Changes.

// Whether the rank is in `view` with its current holder: a holder that has gone still has to be removed.
static bool is_in(const struct group_machine *m, const struct group_view *view, int32_t rank) {
  const struct group_member *member = group_view_find(view, rank);
  return member && m->claims[rank].incarnation == member->incarnation;
}

static bool is_ready(const struct group_machine *m, int32_t rank) {
  const struct group_offer *offer = &m->offers[rank];
  return offer->stage == GROUP_OFFER_READY && offer->incarnation == m->claims[rank].incarnation;
}

// Whether the change removes the member.
static bool is_removed(const struct group_wanted *wanted, const struct group_member *member) {
  for (uint32_t i = 0; i < wanted->change->num_remove; i++)
    if (wanted->change->remove[i] == member->rank && wanted->removed[i] == member->incarnation)
      return true;
  return false;
}

static bool is_as_wanted(const struct group_machine *m, const struct group_view *view) {
  const struct group_wanted *wanted = &m->wanted;
  for (uint32_t i = 0; i < wanted->change->num_add; i++)
    if (!is_in(m, view, wanted->change->add[i]))
      return false;
  for (uint32_t i = 0; view && i < view->count; i++)
    if (is_removed(wanted, &view->members[i]))
      return false;
  return true;
}

// Whether the rank can be in the view that is to follow: it is in and stays, or it is not and has offered itself. A
// member that has to go would be put out by that very change.
static bool may_be_in(struct group_machine *m, int32_t rank) {
  const struct group_member *member = group_view_find(m->stored, rank);
  bool urgent = false;
  if (!member)
    return is_ready(m, rank);
  return is_in(m, m->stored, rank) && !group_has_to_go(m, member, &urgent);
}

static bool all_are_ready(struct group_machine *m) {
  const struct group_change *change = m->wanted.change;
  for (uint32_t i = 0; i < change->num_add; i++)
    if (!may_be_in(m, change->add[i]))
      return false;
  return true;
}

static void insert(struct group_view *view, struct group_member member) {
  uint32_t at = view->count++;
  for (; at > 0 && view->members[at - 1].rank > member.rank; at--)
    view->members[at] = view->members[at - 1];
  view->members[at] = member;
}

// Members that have to be removed for other reasons are removed, too, as far as there is room for them in the
// transaction.
static void sort_out(struct group_machine *m, struct group_next *next) {
  uint32_t others = GROUP_REMOVALS - m->wanted.change->num_remove;
  next->view->count = 0;
  for (uint32_t i = 0; i < m->stored->count; i++) {
    const struct group_member *member = &m->stored->members[i];
    bool asked = is_removed(&m->wanted, member);
    if (asked || (others > 0 && group_has_to_go(m, member, &next->urgent))) {
      others -= !asked;
      next->removed[next->num_removed++] = *member;
    } else {
      next->view->members[next->view->count++] = *member;
    }
  }
}

static void take_in(struct group_machine *m, struct group_next *next, int32_t rank) {
  const struct group_offer *offer = &m->offers[rank];
  insert(next->view, (struct group_member){.rank = rank, .incarnation = offer->incarnation});
  group_txn_compare(m, group_key_offer(m->prefix, rank), WEFT_STORE_MOD, offer->mod_revision);
  group_txn_put(m, group_key_offer(m->prefix, rank), group_offer_encode(offer->incarnation, GROUP_OFFER_TAKEN),
                offer->lease);
}

bool group_change_is_possible(struct group_machine *m) {
  return m->wanted.change && !m->wanted.sent && !is_as_wanted(m, m->stored) && all_are_ready(m);
}

bool group_propose_change(struct group_machine *m, struct group_request *request) {
  const struct group_change *change = m->wanted.change;
  if (!group_turn_has_come(m, 0, true))
    return false;
  struct group_next next = {.view = group_view_new(m->stored->epoch + 1, m->stored->count + change->num_add)};
  if (!next.view)
    return group_try_again(m);
  group_proposal_begin(m);
  m->builder.of_change = true;
  sort_out(m, &next);
  for (uint32_t i = 0; i < change->num_add; i++)
    if (!is_in(m, m->stored, change->add[i]))
      take_in(m, &next, change->add[i]);
  group_proposal_end(m, &next); // last: a lease that is gone is taken for the view's
  bool due = group_txn_end(m, request);
  m->wanted.sent = due;
  group_view_unref(next.view);
  return due;
}

void group_change_answered(struct group_machine *m, int err, bool succeeded) {
  if (!m->builder.of_change)
    return;
  m->wanted.sent = succeeded;
  m->wanted.unknown |= err != 0;
}

// --- Wishes and state.

void group_machine_offer(struct group_machine *m, enum group_offer_stage stage) {
  if (m->offering == GROUP_OFFER_NONE) {
    bool mine = m->rank >= 0 && is_own(m, m->rank);
    m->offered = stage == GROUP_OFFER_READY && mine;
    if (stage == GROUP_OFFER_COMING && mine && m->offers[m->rank].stage != GROUP_OFFER_TAKEN)
      m->given_up = m->offers[m->rank].mod_revision;
  }
  if (stage == GROUP_OFFER_NONE || stage > m->offering)
    m->offering = stage;
}

enum group_offer_stage group_machine_offering(const struct group_machine *m) {
  return m->offering;
}

bool group_machine_offers(const struct group_machine *m) {
  return m->offering != GROUP_OFFER_NONE || (m->rank >= 0 && is_own(m, m->rank));
}

enum group_offer_stage group_machine_offer_of(const struct group_machine *m, int32_t rank, uint64_t *incarnation,
                                              bool *before) {
  const struct group_offer *offer = &m->offers[rank];
  *incarnation = offer->incarnation;
  *before = m->rank >= 0 && is_own(m, m->rank) && offer->create_revision < m->offers[m->rank].create_revision;
  return offer->create_revision != 0 && !is_given_up(m, rank) ? offer->stage : GROUP_OFFER_NONE;
}

void group_machine_withdraw(struct group_machine *m, int32_t rank, uint64_t incarnation) {
  m->withdraw = rank;
  m->withdraw_incarnation = incarnation;
}

void group_machine_change(struct group_machine *m, const struct group_change *change, const uint64_t *removed) {
  if (m->wanted.leaves && m->standing == GROUP_CLAIMED) // it did not come to that
    m->leaving = false;
  m->wanted = (struct group_wanted){.change = change, .removed = removed};
  for (uint32_t i = 0; change && !m->leaving && i < change->num_remove; i++)
    m->wanted.leaves |= change->remove[i] == m->rank && removed[i] == m->incarnation;
  m->leaving |= m->wanted.leaves;
}

bool group_machine_changes(const struct group_machine *m) {
  return m->wanted.change != NULL;
}

bool group_machine_changed(const struct group_machine *m) {
  return m->wanted.change && m->view && is_as_wanted(m, m->view);
}

bool group_machine_change_sent(const struct group_machine *m) {
  return m->wanted.sent;
}

bool group_machine_change_unknown(const struct group_machine *m) {
  return m->wanted.unknown;
}

bool group_machine_change_missing(const struct group_machine *m, struct text *missing) {
  bool found = false;
  for (uint32_t i = 0; i < m->wanted.change->num_add; i++) {
    int32_t rank = m->wanted.change->add[i];
    if (is_in(m, m->view, rank) || is_ready(m, rank))
      continue;
    found = true;
    text_add_rank(missing, rank);
  }
  return found;
}
