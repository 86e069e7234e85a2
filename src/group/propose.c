// Changes of the view: the members of the next view, which member proposes it, and when.
//
// The lowest member that could propose does so at once. The others wait a few milliseconds, longer with a higher
// position, and then find the work done. So N survivors of one death make about one transaction, not N.
#include <stdlib.h>
#include <string.h>

#include "group/state.h"

static void clear_need(struct group_machine *m) {
  m->need_mod = -1;
}

// The number of members of `view` with a lower rank than this one that are not about to leave. For a member that has
// given up its claim, the number of all lower ones, since all members that leave together have given up theirs.
static uint32_t place_in(const struct group_machine *m, const struct group_view *view) {
  uint32_t place = 0;
  for (uint32_t i = 0; i < view->count && view->members[i].rank < m->rank; i++)
    place += m->claim_dropped || (m->removals[view->members[i].rank].incarnation != view->members[i].incarnation &&
                                  m->claims[view->members[i].rank].incarnation == view->members[i].incarnation);
  return place;
}

static bool put_view(struct group_machine *m, const struct group_view *view, int64_t lease,
                     struct group_request *request) {
  group_proposal_begin(m);
  group_txn_put(m, group_key_view(m->prefix), group_view_encode(view), lease);
  return group_txn_end(m, request);
}

// Puts `view` if there is no view, on a separate lease, which it requests first.
static bool create(struct group_machine *m, const struct group_view *view, struct group_request *request) {
  if (m->spare_lease)
    return put_view(m, view, m->spare_lease, request);
  // Longer than a member's: a view outlives the three that keep it until the others have put them out.
  *request = (struct group_request){.kind = GROUP_REQUEST_GRANT, .ttl_s = (int64_t)(2 * m->ttl_ns / 1000000000u)};
  m->of_view_lease = true;
  return true;
}

static bool founders_ready(const struct group_machine *m) {
  for (uint32_t i = 0; i < m->num_founders; i++)
    if (m->claims[m->founders[i]].incarnation == 0)
      return false;
  return true;
}

// Whether the newest view, which the store does not have any more, belongs to a dead group, and not to a group whose
// members still have to come back after an outage.
static bool is_left_behind(struct group_machine *m) {
  return !group_is_alive(m, m->view) && group_due(m, m->grace_until) && group_due(m, m->view_grace_until);
}

static bool may_found(struct group_machine *m) {
  return m->founding && founders_ready(m) && group_machine_lowest_founder(m) == m->rank &&
         (m->stored || !m->view || is_left_behind(m));
}

static struct group_view *first_view(const struct group_machine *m) {
  uint32_t count = m->num_founders ? m->num_founders : 1;
  struct group_view *view = group_view_new(m->view ? m->view->epoch + 1 : 1, count);
  for (uint32_t i = 0; view && i < count; i++) {
    int32_t rank = m->num_founders ? m->founders[i] : m->rank;
    view->members[i] = (struct group_member){.rank = rank, .incarnation = m->claims[rank].incarnation};
  }
  return view;
}

static bool propose_first(struct group_machine *m, struct group_request *request) {
  struct group_view *view = first_view(m);
  if (!view)
    return group_try_again(m);
  bool due = m->stored ? put_view(m, view, m->stored_lease, request) : create(m, view, request);
  group_view_unref(view);
  return due;
}

// The store has lost the view, or has one that is older than the agreed one: the members restore it.
static bool restore(struct group_machine *m, struct group_request *request) {
  if (!group_in_view(m, m->view) || !group_turn_has_come(m, place_in(m, m->view), false))
    return false;
  return m->stored ? put_view(m, m->view, m->stored_lease, request) : create(m, m->view, request);
}

// The store lost the view, and others restored an older view and continued from it to the epoch that had been agreed on
// before. Two views have the same number then, so a new view is made from that of the store.
static bool supersede(struct group_machine *m, struct group_request *request) {
  if (!group_in_view(m, m->stored) || !group_turn_has_come(m, place_in(m, m->stored), false))
    return false;
  struct group_view *view = group_view_new(m->stored->epoch + 1, m->stored->count);
  if (!view)
    return group_try_again(m);
  memcpy(view->members, m->stored->members, view->count * sizeof *view->members);
  bool due = put_view(m, view, m->stored_lease, request);
  group_view_unref(view);
  return due;
}

static void sort_out(struct group_machine *m, struct group_next *next) {
  struct group_view *view = next->view;
  view->count = 0;
  for (uint32_t i = 0; i < m->stored->count; i++) {
    const struct group_member *member = &m->stored->members[i];
    if (next->num_removed < GROUP_REMOVALS && group_has_to_go(m, member, &next->urgent))
      next->removed[next->num_removed++] = *member;
    else
      view->members[view->count++] = *member;
  }
}

// The next view, without the members that have to be removed.
static bool remove_members(struct group_machine *m, struct group_request *request) {
  struct group_next next = {.view = group_view_new(m->stored->epoch + 1, m->stored->count)};
  if (!next.view)
    return group_try_again(m);
  bool due = false;
  sort_out(m, &next);
  if (next.num_removed == 0) {
    clear_need(m);
    m->conflicts = 0;
  } else if (group_turn_has_come(m, place_in(m, m->stored), next.urgent)) {
    group_proposal_begin(m);
    group_proposal_end(m, &next);
    due = group_txn_end(m, request);
  }
  group_view_unref(next.view);
  return due;
}

static bool join(struct group_machine *m, struct group_request *request) {
  if (!group_turn_has_come(m, 0, true))
    return false;
  struct group_view *view = group_view_new(m->stored->epoch + 1, m->stored->count + 1);
  if (!view)
    return group_try_again(m);
  uint32_t at = 0;
  while (at < m->stored->count && m->stored->members[at].rank < m->rank)
    at++;
  memcpy(view->members, m->stored->members, at * sizeof *view->members);
  view->members[at] = (struct group_member){.rank = m->rank, .incarnation = m->incarnation};
  memcpy(view->members + at + 1, m->stored->members + at, (m->stored->count - at) * sizeof *view->members);
  group_proposal_begin(m);
  group_txn_put(m, group_key_view(m->prefix), group_view_encode(view), m->stored_lease);
  if (m->offers[m->rank].create_revision != 0)
    group_txn_delete(m, group_key_offer(m->prefix, m->rank));
  bool due = group_txn_end(m, request);
  group_view_unref(view);
  return due;
}

// Whether this member wishes to join and its rank is not held in the view by an incarnation before it, which has to
// be removed first.
static bool wants_in(const struct group_machine *m) {
  return m->join_epoch == m->stored->epoch && !group_view_find(m->stored, m->rank);
}

bool group_propose(struct group_machine *m, struct group_request *request) {
  if (!group_holds_claim(m) || m->damage[0])
    return false;
  if (!m->stored && group_in_view(m, m->view))
    return restore(m, request);
  if (!m->stored || m->stored->count == 0)
    return may_found(m) ? propose_first(m, request) : m->stored && wants_in(m) ? join(m, request) : false;
  if (m->stored->epoch < m->view->epoch)
    return restore(m, request);
  if (!group_view_equal(m->stored, m->view))
    return supersede(m, request);
  if (wants_in(m))
    return join(m, request);
  // A change also removes the members that have to be removed.
  return group_change_is_possible(m) ? group_propose_change(m, request) : remove_members(m, request);
}

// At the close: leaves the view; the last member deletes it, with its lease.
bool group_propose_leave(struct group_machine *m, struct group_request *request) {
  if (!m->stored ||
      (m->stored->count > 0 && !(group_in_view(m, m->stored) && (group_holds_claim(m) || m->claim_dropped))))
    return false;
  if (m->stored->count > 1) {
    m->removals[m->rank] = (struct group_removal){.incarnation = m->incarnation, .removers = !m->claim_dropped};
    return remove_members(m, request);
  }
  group_proposal_begin(m);
  group_txn_delete(m, group_key_view(m->prefix));
  if (group_holds_claim(m))
    group_txn_delete(m, group_key_claim(m->prefix, m->rank));
  m->spare_lease = m->stored_lease; // request.c revokes it when no view hangs on it
  return group_txn_end(m, request);
}
