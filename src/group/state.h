// The inside of the state machine of machine.h: its state, and the functions that its files share.
//   machine.c   life, wishes, queries         observe.c  the content of the store, and what follows from it
//   request.c   which request is next         propose.c  changes of the view
//   barrier.c   barriers                      txn.c      builds a transaction
//   proposal.c  common parts of changes       offer.c    ranks that want to be taken in, and the view that takes them
//               in
#ifndef GROUP_STATE_H
#define GROUP_STATE_H

#include "group/codec.h"
#include "group/machine.h"
#include "group/view.h"

enum {
  GROUP_REMOVALS = GROUP_CHANGES, // members that one transaction can remove
  GROUP_TXN_COMPARES = GROUP_REMOVALS + GROUP_CHANGES + 2,
  GROUP_TXN_OPS = GROUP_REMOVALS + GROUP_CHANGES + 3,
  GROUP_TXN_STRINGS = 2 * GROUP_REMOVALS + 3 * GROUP_CHANGES + 8,
};

#define GROUP_MS 1000000u

// A claim key; create_revision 0: there is no such key.
struct group_claim {
  uint64_t incarnation; // 0: its value is unreadable
  int64_t create_revision;
  int64_t mod_revision;
  int64_t lease;
  char *address;
};

// An offer key; create_revision 0: there is no such key.
struct group_offer {
  uint64_t incarnation; // 0: its value is unreadable
  int64_t create_revision;
  int64_t mod_revision;
  int64_t lease;
  enum group_offer_stage stage;
};

// A change for which a call waits.
struct group_wanted {
  const struct group_change *change; // the caller's; NULL: none
  const uint64_t *removed;           // [num_remove] incarnations to remove
  bool sent;                         // its transaction is under way, or was carried out and is not visible yet
  bool unknown;                      // a transaction of it had no answer
  bool leaves;                       // it removes this member, which had not requested that before
};

// A view in the making.
struct group_next {
  struct group_view *view;
  struct group_member removed[GROUP_REMOVALS];
  uint32_t num_removed;
  bool urgent; // a call waits for it
};

// A process that wants any rank: the i-th in the queue takes the i-th free rank.
struct group_ticket {
  int64_t revision;
  uint64_t incarnation;
};

// A member that has to be removed.
struct group_removal {
  uint64_t incarnation; // 0: not claimed
  uint32_t removers;    // number of calls that wait for it
  bool suspected;
};

struct group_barrier {
  struct group_barrier *next;
  bool wanted;   // this rank's key has to exist
  bool complete; // everybody has arrived
  bool ended; // the call is over: the next barrier deletes the key, since somebody may have to read it again until then
  uint64_t *come; // [capacity] incarnation of the rank's key, 0 for none
  char name[];
};

struct group_queued {
  struct group_queued *next;
  struct group_event event;
};

struct group_txn_builder {
  struct weft_store_txn txn;
  struct weft_store_compare compares[GROUP_TXN_COMPARES];
  struct weft_store_op ops[GROUP_TXN_OPS];
  char *strings[GROUP_TXN_STRINGS];
  uint32_t num_strings;
  int64_t lease;  // the lease of its puts
  bool of_view;   // it changes the view
  bool of_change; // it changes the view by `wanted`
  bool of_leave;  // it removes this member from the view
  bool failed;    // memory ran out
};

struct group_machine {
  char *prefix, *address;
  uint32_t capacity;
  int32_t *founders; // [num_founders], ascending; none: this rank alone
  uint32_t num_founders;
  bool join_only;
  uint64_t ttl_ns;
  uint64_t incarnation;
  uint64_t random;

  // The content of the store.
  bool synced;                     // it was read
  bool watching;                   // it has been watched since it was read
  int64_t revision;                // newest revision known
  struct group_claim *claims;      // [capacity]
  struct group_offer *offers;      // [capacity]
  const struct group_view *stored; // value of the view key; NULL: absent or unreadable
  int64_t stored_mod;              // 0: absent
  int64_t stored_lease;
  int64_t stored_seen; // revision of the last event of the view key, deletions too
  char damage[160];    // why the view key is unreadable; "": it is not
  struct group_ticket *tickets;
  uint32_t num_tickets, room_tickets;
  bool late_ticket; // its own ticket exists, though it has its rank
  struct group_barrier *barriers;
  uint64_t *served; // hashes of the names of barriers that this member has gone through, ascending
  size_t num_served, room_served;

  // This member's state and wishes.
  enum group_standing standing;
  int32_t rank;                    // -1 while it has no rank
  const struct group_view *view;   // newest agreed view
  struct group_removal *removals;  // [capacity]
  uint64_t join_epoch;             // 0: no wish to join
  enum group_offer_stage offering; // NONE, COMING or READY: the stage that its own offer should have
  bool offered;                    // the offer was seen in the store: if it disappears, somebody has withdrawn it
  int64_t given_up; // revision of its own offer that it does not count on any more, since it has given it up; 0: none
  struct group_wanted wanted;
  int32_t withdraw; // rank whose offer is to be deleted, -1: none
  uint64_t withdraw_incarnation;
  bool founding, leaving, closing, closed;
  bool may_leave; // a transaction for leaving had no answer, and may still take effect unless the view has changed
  uint64_t close_until;
  bool claim_dropped; // at its close: it has given up its claim; the next proposer also removes it from the view

  // Its leases.
  int64_t lease;
  int64_t spare_lease; // granted for the view key; not in use yet, or not any more
  uint64_t keepalive_at, view_keepalive_at;

  // The request under way, and when to make the next ones.
  uint64_t now, wake;
  bool busy;
  enum group_request_kind kind;
  bool of_view_lease;    // the grant or keepalive under way is for the view's lease
  int64_t asked_lease;   // lease of the request
  int64_t sent_revision; // newest known revision when the transaction was sent
  bool retry;            // the last request failed: the next one not before retry_at
  uint64_t retry_at;
  uint32_t failures;
  bool holding;          // a transaction was answered: wait until its effect is visible
  int64_t hold_revision; // it is visible at this revision; 0: at any change
  uint64_t hold_until;
  uint64_t grace_until;      // until then a claim may be absent although its owner lives
  uint64_t view_grace_until; // until then the view may be absent because the store has lost it
  int64_t need_mod;          // revision of the view for which a change is needed; -1: none
  uint64_t need_since, need_delay, conflict_delay;
  uint32_t conflicts;
  struct group_txn_builder builder;

  // Store lost and found.
  bool lost, watch_lost, requests_fail;
  int refused;
  char reason[256];

  struct group_queued *events, **events_tail;
  unsigned dropped; // kinds of events, 1 << enum group_event_kind, that were not queued for lack of memory
  bool starved;     // memory ran out while an answer of the store was read
};

static inline bool group_due(struct group_machine *m, uint64_t at_ns) {
  if (m->now >= at_ns)
    return true;
  if (at_ns < m->wake)
    m->wake = at_ns;
  return false;
}

static inline bool group_in_view(const struct group_machine *m, const struct group_view *view) {
  return m->rank >= 0 && group_view_has(view, m->rank, m->incarnation);
}

// Whether one of the view's members has its claim, or is this member. If all members of a group have died, its view
// stays until its lease ends.
static inline bool group_is_alive(const struct group_machine *m, const struct group_view *view) {
  bool alive = group_in_view(m, view);
  for (uint32_t i = 0; view && i < view->count && !alive; i++)
    alive = m->claims[view->members[i].rank].incarnation == view->members[i].incarnation;
  return alive;
}

// Whether the store has this member's claim.
static inline bool group_holds_claim(const struct group_machine *m) {
  return m->rank >= 0 && m->claims[m->rank].create_revision != 0 && m->claims[m->rank].incarnation == m->incarnation;
}

// The effect of an answered transaction is visible, or nothing waits for it any more.
static inline void group_shows(struct group_machine *m) {
  m->holding = false;
  m->wanted.sent = false;
}

// observe.c
void group_observe_all(struct group_machine *m, const struct weft_store_list *list);
void group_observe(struct group_machine *m, const struct weft_store_event *event);
void group_update_lost(struct group_machine *m, const char *reason); // after watch_lost or requests_fail has changed

// propose.c: builds the transaction or request that the view needs now; false: it needs none.
bool group_propose(struct group_machine *m, struct group_request *request);
bool group_propose_leave(struct group_machine *m, struct group_request *request); // at the close

// proposal.c: whether it is time for a proposal; whether a member has to be removed; begin and end of the transaction.
bool group_turn_has_come(struct group_machine *m, uint32_t place, bool urgent);
bool group_has_to_go(struct group_machine *m, const struct group_member *member, bool *urgent);
void group_proposal_begin(struct group_machine *m);
void group_proposal_end(struct group_machine *m, const struct group_next *next);

// offer.c
void group_offer_put(struct group_machine *m, int32_t rank, const struct weft_store_kv *kv);
void group_offer_deleted(struct group_machine *m, int32_t rank, int64_t revision);
bool group_offer_request(struct group_machine *m, struct group_request *request);
bool group_change_is_possible(struct group_machine *m); // a change is wished, and all ranks that it adds are ready
bool group_propose_change(struct group_machine *m, struct group_request *request);
void group_change_answered(struct group_machine *m, int err, bool succeeded);

// barrier.c
void group_barrier_observe(struct group_machine *m, const struct group_key *key, uint64_t incarnation);
void group_barrier_forget_keys(struct group_machine *m);
void group_barriers_settle(struct group_machine *m); // after a change of keys or of the view
bool group_barrier_request(struct group_machine *m, struct group_request *request);
void group_barriers_free(struct group_machine *m);

// txn.c: builds the next transaction. It takes over the strings that are passed in; NULL means that memory ran out.
void group_txn_begin(struct group_machine *m);
void group_txn_compare(struct group_machine *m, char *key, enum weft_store_target target, int64_t number);
void group_txn_put(struct group_machine *m, char *key, char *value, int64_t lease);
void group_txn_delete(struct group_machine *m, char *key);
bool group_txn_end(struct group_machine *m, struct group_request *request); // false: no memory, tries again later
bool group_try_again(struct group_machine *m); // out of memory: it is tried again later; returns false
void group_txn_free(struct group_machine *m);

#endif
