// Chooses the next request, and handles its answer.
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "group/state.h"

enum {
  VIEW_KEEPERS = 3,    // members that keep the view's lease alive: its first ones
  HOLD_MS = 5000,      // an answered transaction that does not show for so long: read everything again
  RETRY_FIRST_MS = 50, // after a request that failed; doubles
  RETRY_DOUBLINGS = 4,
};

static uint64_t keepalive_period(const struct group_machine *m) {
  return m->ttl_ns / 3;
}

static bool is_over(const struct group_machine *m) {
  return m->standing == GROUP_LEFT || m->standing == GROUP_FENCED;
}

static bool read_all(struct group_request *request) {
  *request = (struct group_request){.kind = GROUP_REQUEST_READ};
  return true;
}

static bool watch(struct group_machine *m, struct group_request *request) {
  *request = (struct group_request){.kind = GROUP_REQUEST_WATCH, .revision = m->revision + 1};
  m->watching = true; // events may come before the answer does
  return true;
}

static bool grant(struct group_machine *m, struct group_request *request) {
  *request = (struct group_request){.kind = GROUP_REQUEST_GRANT, .ttl_s = (int64_t)(m->ttl_ns / 1000000000u)};
  m->of_view_lease = false;
  return true;
}

static bool revoke(int64_t *lease, struct group_request *request) {
  *request = (struct group_request){.kind = GROUP_REQUEST_REVOKE, .lease = *lease};
  *lease = 0;
  return true;
}

static bool keeps_view(const struct group_machine *m) {
  if (!m->stored || m->stored_lease == 0 || m->standing != GROUP_CLAIMED)
    return false;
  for (uint32_t i = 0; i < m->stored->count && i < VIEW_KEEPERS; i++)
    if (m->stored->members[i].rank == m->rank && m->stored->members[i].incarnation == m->incarnation)
      return true;
  return false;
}

static bool keep_leases(struct group_machine *m, struct group_request *request) {
  if (group_due(m, m->keepalive_at)) {
    m->keepalive_at = m->now + keepalive_period(m);
    m->of_view_lease = false;
    *request = (struct group_request){.kind = GROUP_REQUEST_KEEPALIVE, .lease = m->lease};
    return true;
  }
  if (keeps_view(m) && group_due(m, m->view_keepalive_at)) {
    m->view_keepalive_at = m->now + keepalive_period(m);
    m->of_view_lease = true;
    *request = (struct group_request){.kind = GROUP_REQUEST_KEEPALIVE, .lease = m->stored_lease};
    return true;
  }
  return false;
}

// A lease that was granted for the view and is not needed: another member was first.
static bool drop_spare(struct group_machine *m, struct group_request *request) {
  if (m->spare_lease == m->stored_lease)
    m->spare_lease = 0;
  bool may_need_it = !m->stored && !m->closing && !is_over(m);
  return m->spare_lease != 0 && !may_need_it && revoke(&m->spare_lease, request);
}

// Place of this member's ticket in the queue, -1: it has none.
static int64_t place_in_queue(const struct group_machine *m) {
  for (uint32_t i = 0; i < m->num_tickets; i++)
    if (m->tickets[i].incarnation == m->incarnation)
      return i;
  return -1;
}

// Whether another member of the view may have to restore its claim to this rank. In an outage of the store leases run
// out while their owners continue; a new process must not take the rank before its owner can restore the claim.
static bool is_kept(struct group_machine *m, int32_t rank) {
  const struct group_member *member = group_view_find(m->stored, rank);
  return member && member->incarnation != m->incarnation && !group_due(m, m->grace_until);
}

// Whether the view itself may have to be restored before a new process claims a rank. Founders know that there was
// none.
static bool may_lack_view(struct group_machine *m) {
  return !m->stored && m->num_founders == 0 && m->standing == GROUP_OPENING && !group_due(m, m->view_grace_until);
}

// The free rank for that place, -1 when so many are not free: it waits, some of those before it may be gone.
static int32_t rank_for(struct group_machine *m, int64_t place) {
  for (uint32_t r = 0; r < m->capacity; r++)
    if (m->claims[r].create_revision == 0 && !is_kept(m, (int32_t)r) && place-- == 0)
      return (int32_t)r;
  return -1;
}

static bool take_ticket(struct group_machine *m, struct group_request *request) {
  group_txn_begin(m);
  group_txn_put(m, group_key_ticket(m->prefix, m->incarnation), group_incarnation_encode(m->incarnation), m->lease);
  return group_txn_end(m, request);
}

static bool claim(struct group_machine *m, struct group_request *request) {
  if (group_holds_claim(m))
    return false;
  int32_t rank = m->rank;
  bool queued = rank < 0;
  int64_t place = -1;
  if (queued) {
    place = place_in_queue(m);
    if (place < 0)
      return take_ticket(m, request);
    rank = rank_for(m, place);
  }
  if (rank < 0 || m->claims[rank].create_revision != 0 || is_kept(m, rank) || may_lack_view(m))
    return false;
  group_txn_begin(m);
  group_txn_compare(m, group_key_claim(m->prefix, rank), WEFT_STORE_CREATE, 0);
  group_txn_put(m, group_key_claim(m->prefix, rank), group_claim_encode(m->incarnation, m->address), m->lease);
  if (queued) { // one ticket, one rank: a claim that was given up and arrives after the next one finds no ticket
    group_txn_compare(m, group_key_ticket(m->prefix, m->incarnation), WEFT_STORE_CREATE, m->tickets[place].revision);
    group_txn_delete(m, group_key_ticket(m->prefix, m->incarnation));
  }
  return group_txn_end(m, request);
}

// A ticket that was given up and arrived after this member had got its rank: it would hold a place in the queue.
static bool drop_ticket(struct group_machine *m, struct group_request *request) {
  if (!m->late_ticket)
    return false;
  group_txn_begin(m);
  group_txn_delete(m, group_key_ticket(m->prefix, m->incarnation));
  return group_txn_end(m, request);
}

// Whether the effect of an answered transaction is still to be seen by the watch.
static bool holds_back(struct group_machine *m) {
  if (!m->holding || !group_due(m, m->hold_until))
    return m->holding;
  group_shows(m);
  m->synced = false;
  return false;
}

static bool pick(struct group_machine *m, struct group_request *request) {
  bool held = holds_back(m);
  if (!m->synced)
    return read_all(request);
  if (!m->watching)
    return watch(m, request);
  if (is_over(m))
    return m->lease ? revoke(&m->lease, request) : drop_spare(m, request);
  if (!m->lease)
    return grant(m, request);
  if (keep_leases(m, request) || drop_spare(m, request))
    return true;
  if (held)
    return false;
  return drop_ticket(m, request) || claim(m, request) || group_offer_request(m, request) || group_propose(m, request) ||
         (m->standing == GROUP_CLAIMED && group_barrier_request(m, request));
}

// Others change the view at this moment, and may be leaving too. One by one they would need a view each, and every
// member would read them all; without its claim, a leaver is out of the next view that any member proposes.
static bool drop_claim(struct group_machine *m, struct group_request *request) {
  if (m->claim_dropped || m->conflicts == 0 || !m->lease || !group_in_view(m, m->stored) || m->stored->count < 3)
    return false;
  m->claim_dropped = true;
  return revoke(&m->lease, request);
}

static bool pick_closing(struct group_machine *m, struct group_request *request) {
  bool in_time = !group_due(m, m->close_until);
  if (in_time && !m->lost && m->synced) {
    if (!m->watching) // else it would repeat proposals whose effect it cannot see
      return watch(m, request);
    if (holds_back(m))
      return false;
    if (drop_spare(m, request) || drop_claim(m, request) || group_propose_leave(m, request))
      return true;
    if (group_in_view(m, m->stored) && (group_holds_claim(m) || m->claim_dropped))
      return false; // another member proposes first
  }
  if (!m->requests_fail && m->lease)
    return revoke(&m->lease, request);
  if (!m->requests_fail && drop_spare(m, request))
    return true;
  m->closed = true;
  return false;
}

bool group_machine_request(struct group_machine *m, uint64_t now_ns, struct group_request *request, uint64_t *wake_ns) {
  m->now = now_ns;
  m->wake = UINT64_MAX;
  bool picked = false;
  if (m->busy || m->closed)
    picked = false;
  else if (m->closing)
    picked = pick_closing(m, request);
  else if (!m->retry || group_due(m, m->retry_at))
    picked = pick(m, request);
  if (picked) {
    m->busy = true;
    m->retry = false;
    m->kind = request->kind;
    m->asked_lease = request->lease;
    m->sent_revision = m->revision;
  }
  *wake_ns = m->wake;
  return picked;
}

// The store did not carry the request out, or it is not known whether it did.
static void request_failed(struct group_machine *m, const struct group_answer *answer) {
  uint32_t doublings = m->failures < RETRY_DOUBLINGS ? m->failures : RETRY_DOUBLINGS;
  uint64_t delay = (uint64_t)RETRY_FIRST_MS * GROUP_MS << doublings;
  m->failures++;
  m->retry = true;
  m->retry_at = m->now + delay + random_next(&m->random) % (delay / 4);
  m->keepalive_at = m->retry_at; // so that the answer of a request shows that the store is back
  m->refused = answer->err == WEFT_ERR_AUTH ? answer->err : 0;
  m->requests_fail = true;
  if (m->kind == GROUP_REQUEST_TXN) {
    group_change_answered(m, answer->err, false);
    m->may_leave |= m->builder.of_leave;
    m->builder.of_leave = false;
  }
  if (m->kind == GROUP_REQUEST_WATCH)
    m->watching = false;
  group_update_lost(m, answer->reason ? answer->reason : weft_strerror(answer->err));
}

static void hold(struct group_machine *m, int64_t revision) {
  m->holding = true;
  m->hold_revision = revision;
  m->hold_until = m->now + (uint64_t)HOLD_MS * GROUP_MS;
}

// A lease has expired. The watch will report that the known keys on it have gone. If it has reported that already,
// there is nothing to wait for, and the claim has to be restored before the others' grace ends. This member's own lease
// may also belong to a store that no longer exists: to the watch, a new store that has reached the watch's revision
// looks like the old one.
static void lease_expired(struct group_machine *m, int64_t lease) {
  bool shows =
      (m->stored_mod != 0 && m->stored_lease == lease) || (group_holds_claim(m) && m->claims[m->rank].lease == lease);
  if (lease == m->lease) {
    m->lease = 0;
    m->synced = false;
  }
  if (lease == m->spare_lease)
    m->spare_lease = 0;
  if (shows)
    hold(m, 0);
}

static void txn_answered(struct group_machine *m, const struct group_answer *answer) {
  group_change_answered(m, 0, !answer->err && answer->succeeded);
  m->builder.of_leave &= !answer->err && answer->succeeded;
  if (answer->err) {
    lease_expired(m, m->builder.lease);
    return;
  }
  if (m->builder.of_view)
    m->conflicts = answer->succeeded ? 0 : m->conflicts + 1;
  if (answer->succeeded && m->revision < answer->revision)
    hold(m, answer->revision);
  if (!answer->succeeded && m->revision == m->sent_revision)
    hold(m, 0);
  if (!m->holding) // it has shown before
    group_shows(m);
}

static void lease_granted(struct group_machine *m, int64_t lease) {
  if (m->of_view_lease) {
    m->spare_lease = lease;
    m->view_keepalive_at = m->now + keepalive_period(m);
  } else {
    m->lease = lease;
    m->keepalive_at = m->now + keepalive_period(m);
  }
}

void group_machine_answer(struct group_machine *m, uint64_t now_ns, const struct group_answer *answer) {
  m->now = now_ns;
  m->busy = false;
  bool leased = m->kind == GROUP_REQUEST_KEEPALIVE || m->kind == GROUP_REQUEST_REVOKE || m->kind == GROUP_REQUEST_TXN;
  if (answer->err && !(leased && answer->err == WEFT_ERR_NOT_FOUND)) {
    request_failed(m, answer);
    return;
  }
  m->failures = 0;
  m->refused = 0;
  m->requests_fail = false;
  if (m->kind == GROUP_REQUEST_READ)
    m->watch_lost = false; // the watch that was lost is ended
  group_update_lost(m, NULL);
  if (m->kind == GROUP_REQUEST_READ) {
    m->watching = false;
    group_observe_all(m, answer->list);
  } else if (m->kind == GROUP_REQUEST_GRANT) {
    lease_granted(m, answer->lease);
  } else if (m->kind == GROUP_REQUEST_KEEPALIVE && answer->err) {
    lease_expired(m, m->asked_lease);
  } else if (m->kind == GROUP_REQUEST_TXN) {
    txn_answered(m, answer);
  }
}

void group_machine_watch(struct group_machine *m, uint64_t now_ns, const struct weft_store_event *event) {
  m->now = now_ns;
  switch (event->kind) {
  case WEFT_STORE_EVENT_PUT:
  case WEFT_STORE_EVENT_DELETE:
    if (m->synced && m->watching)
      group_observe(m, event);
    break;
  case WEFT_STORE_EVENT_LOST:
    m->watch_lost = true;
    group_update_lost(m, "the watch was interrupted");
    break;
  case WEFT_STORE_EVENT_RESUMED:
    if (m->watch_lost)
      m->keepalive_at = m->now; // the lease shows whether it is the same store
    m->watch_lost = false;
    group_update_lost(m, NULL);
    break;
  case WEFT_STORE_EVENT_RESET:
    m->watch_lost = false;
    m->synced = false;
    m->grace_until = m->view_grace_until = m->now + m->ttl_ns;
    group_update_lost(m, NULL);
    break;
  }
}
