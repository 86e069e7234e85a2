// Words for a peer on another host that belong to no part: how far this rank has read (`taken`), the start, and that
// this rank waits. Only the newest values matter, so one message at a time is enough.
#include "ep/remote/requests.h"

static struct ep_slot_head *slot_of(const struct ep_remote *remote, void *area, uint64_t op) {
  return ep_slot(&remote->ep->layout, area, op);
}

static void compose_state(struct ep_remote *remote) {
  struct ep_message *state = &remote->state;
  ep_message_begin(state, remote);
  for (uint64_t slot = 0; slot < EP_DEPTH; slot++) {
    struct ep_slot_head *in = slot_of(remote, remote->link->in.memory, slot);
    struct ep_slot_head *out = slot_of(remote, remote->link->out.memory, slot);
    ep_message_add(&state->update, EP_PLACE_SHADOW, ep_message_offset(remote, &out->taken.dispatch),
                   atomic_load(&in->taken.dispatch));
    ep_message_add(&state->update, EP_PLACE_SHADOW, ep_message_offset(remote, &out->taken.combine),
                   atomic_load(&in->taken.combine));
  }
  ep_message_add_start(&state->update, remote);
  if (atomic_exchange(&remote->heartbeat, false))
    ep_message_add(&state->update, EP_PLACE_SIGN, 0, 0);
  ep_message_end(state);
}

// True: the caller has to post the current state. The exchange that clears the mark also reads it, so that the stores
// before the mark are seen.
static bool take_state(struct ep_remote *remote) {
  if (!atomic_load(&remote->state_dirty) || atomic_exchange(&remote->state_busy, true))
    return false;
  atomic_exchange(&remote->state_dirty, false);
  compose_state(remote);
  return true;
}

static void state_left(struct ep_post *post, int err) {
  struct ep_remote *remote = post->remote;
  if (err != 0) {
    ep_remote_fail(remote, err, post->request.why);
    return;
  }
  atomic_store(&remote->state_busy, false);
  if (take_state(remote))
    ep_net_post(remote->net, post); // through the queue: a request must not be posted again in its own completion
}

void ep_words_acknowledge(struct ep_link *link) {
  struct ep_remote *remote = link->remote;
  atomic_store(&remote->state_dirty, true);
  if (take_state(remote))
    ep_net_post(remote->net, &remote->state.post);
}

void ep_words_publish_start(struct ep_link *link, uint64_t op, uint64_t epoch) {
  struct ep_remote *remote = link->remote;
  atomic_store(&remote->start_epoch, epoch);
  atomic_store_explicit(&remote->start_plus_1, op + 1, memory_order_release);
  ep_words_acknowledge(link);
}

void ep_words_heartbeat(weft_ep_t *ep, uint64_t now_ns) {
  if (!atomic_load_explicit(&ep->net, memory_order_relaxed) || now_ns < ep->next_heartbeat_ns)
    return;
  ep->next_heartbeat_ns = now_ns + ep_heartbeat_ns(ep);
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    struct ep_link *link = ep_link_find(ep, (int32_t)rank, 0);
    if (!link || !link->remote)
      continue;
    atomic_store(&link->remote->heartbeat, true);
    ep_words_acknowledge(link);
  }
}

int ep_words_prepare(struct ep_remote *remote) {
  return ep_message_prepare(remote, &remote->state, state_left, NULL, NULL, 0);
}
