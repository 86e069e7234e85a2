// How a rank waits while rows flow in pieces (THROUGHPUT): for all peers at once. Each peer has a separate deadline,
// which counts from the time when it last sent or took a piece.
#include "ep/host/flow_wait.h"
#include "base/time/clock.h"
#include "ep/core/interrupt.h"
#include "ep/host/host.h"

void ep_flow_begin(struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++)
    op->members[i].awaited = false;
}

// Marks the members that are awaited from now on; returns the first deadline among them.
static uint64_t next_deadline(weft_ep_t *ep, struct ep_op *op, ep_flow_awaits awaits) {
  uint64_t first = UINT64_MAX, now_ns = clock_ns(), limit_ns = (uint64_t)ep->op_timeout_ms * 1000000u;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    bool before = member->awaited;
    member->awaited = awaits(ep, op, i);
    if (!member->awaited)
      continue;
    if (!before) { // it had nothing to do for this rank until now
      member->progress_ns = now_ns;
      member->extensions = 0;
    }
    if (member->progress_ns + limit_ns < first)
      first = member->progress_ns + limit_ns;
  }
  return first;
}

// The deadline of some members has passed. As in recv_headers.c: a member that waits for a third rank gets more time;
// and if most of the view is silent, it is more likely that this rank is isolated.
static void give_up(weft_ep_t *ep, struct ep_op *op, uint64_t deadline_ns, const char *what) {
  uint64_t limit_ns = (uint64_t)ep->op_timeout_ms * 1000000u, now_ns = clock_ns(), moment_ns = ep_heartbeat_ns(ep);
  uint32_t silent = 0;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    bool late = member->awaited && member->progress_ns + limit_ns <= deadline_ns;
    bool waits = late && member->extensions < EP_EXTENSIONS && ep_link_waits(ep, member->link);
    if (waits) {
      member->progress_ns = now_ns;
      member->extensions++;
    } else if (!late && member->progress_ns + limit_ns < now_ns + moment_ns) {
      member->progress_ns = now_ns + moment_ns - limit_ns; // this rank itself may have been stopped
    }
    member->silent = late && !waits;
    silent += member->silent;
  }
  bool isolated = ep_activation_isolated(silent, op->num_members);
  for (uint32_t i = 0; i < op->num_members; i++)
    if (op->members[i].silent)
      ep_link_down(ep, op->members[i].link, isolated ? EP_LINK_DOUBTED : EP_LINK_SILENT, what);
}

bool ep_flow_wait(weft_ep_t *ep, struct ep_op *op, struct ep_pause *pause, ep_flow_awaits awaits, const char *what) {
  uint64_t deadline_ns = next_deadline(ep, op, awaits);
  pause->limited = true;
  if (ep_pause(ep, pause, deadline_ns))
    return true;
  if (pause->interrupted)
    return false;
  give_up(ep, op, deadline_ns, what);
  return true;
}

void ep_flow_wait_end(weft_ep_t *ep, struct ep_op *op, struct ep_pause *pause) {
  if (pause->since_ns == 0) { // a piece was there without a wait
    ep_interrupt_forget(ep);
    return;
  }
  uint64_t waited = ep_pause_end(ep, pause);
  for (uint32_t i = 0; i < op->num_members; i++)
    if (op->members[i].awaited && op->members[i].link) {
      op->members[i].link->wait_ns += waited; // counted once, for the first of them
      return;
    }
}
