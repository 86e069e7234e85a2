// The common parts of all changes of the view: which member proposes, which members are removed, and the transaction.
#include "base/random.h"
#include "group/state.h"

enum { DELAY_STEP_MS = 2, DELAY_CAP_MS = 50, CONFLICT_CAP = 5 };

// Whether the change that is needed since the view has this revision may be proposed now. `place` is how many members
// go before this one.
bool group_turn_has_come(struct group_machine *m, uint32_t place, bool urgent) {
  if (m->need_mod != m->stored_mod) {
    m->need_mod = m->stored_mod;
    m->need_since = m->now;
    uint64_t delay = (uint64_t)place * DELAY_STEP_MS < DELAY_CAP_MS ? (uint64_t)place * DELAY_STEP_MS : DELAY_CAP_MS;
    m->need_delay = delay ? delay * GROUP_MS + random_next(&m->random) % (delay * GROUP_MS) : 0;
    m->conflict_delay = 0;
    if (m->conflicts > 0) {
      uint32_t doublings = m->conflicts < CONFLICT_CAP ? m->conflicts : CONFLICT_CAP;
      m->conflict_delay = random_next(&m->random) % ((uint64_t)GROUP_MS << doublings);
    }
  }
  return group_due(m, m->need_since + (urgent ? 0 : m->need_delay) + m->conflict_delay);
}

bool group_has_to_go(struct group_machine *m, const struct group_member *member, bool *urgent) {
  const struct group_removal *removal = &m->removals[member->rank];
  if (removal->incarnation == member->incarnation) {
    *urgent |= removal->removers > 0;
    return true;
  }
  if (member->rank == m->rank && member->incarnation == m->incarnation)
    return false;
  return m->claims[member->rank].incarnation != member->incarnation && group_due(m, m->grace_until);
}

// Every proposal holds only as long as its proposer does.
void group_proposal_begin(struct group_machine *m) {
  group_txn_begin(m);
  m->builder.of_view = true;
  group_txn_compare(m, group_key_view(m->prefix), WEFT_STORE_MOD, m->stored_mod);
  if (group_holds_claim(m))
    group_txn_compare(m, group_key_claim(m->prefix, m->rank), WEFT_STORE_CREATE, m->claims[m->rank].create_revision);
}

// The removed members' claims are deleted with them, so that their ranks are free at once. If a claim has gone in the
// meantime, the transaction fails, and the event of that claim starts the next attempt.
static void delete_claims(struct group_machine *m, const struct group_next *next) {
  for (uint32_t i = 0; i < next->num_removed; i++) {
    const struct group_member *removed = &next->removed[i];
    const struct group_claim *claim = &m->claims[removed->rank];
    m->builder.of_leave |= removed->rank == m->rank && removed->incarnation == m->incarnation;
    if (claim->create_revision == 0 || claim->incarnation != removed->incarnation)
      continue;
    if (removed->rank != m->rank)
      group_txn_compare(m, group_key_claim(m->prefix, removed->rank), WEFT_STORE_CREATE, claim->create_revision);
    group_txn_delete(m, group_key_claim(m->prefix, removed->rank));
  }
}

void group_proposal_end(struct group_machine *m, const struct group_next *next) {
  group_txn_put(m, group_key_view(m->prefix), group_view_encode(next->view), m->stored_lease);
  delete_claims(m, next);
}
