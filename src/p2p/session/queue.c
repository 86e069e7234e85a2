// The queue of initiators that wait for the target.
#include "p2p/session/queue.h"

#include <stdio.h>
#include <string.h>

#include "base/time/clock.h"

enum { REMIND_MS = 100 }; // shorter than every sensible --timeout-ms of a waiting initiator

static void say_wait(weft_agent_t *agent, weft_peer_t peer) {
  p2p_send_to(agent, peer, json_pack("{s:s}", "say", "wait")); // an initiator that has disconnected needs no answer
}

static void say_full(weft_agent_t *agent, weft_peer_t peer) {
  char text[P2P_SHOWN];
  snprintf(text, sizeof text, "%d initiators wait for this target already: try again later", P2P_MAX_WAITING);
  p2p_send_to(agent, peer, json_pack("{s:s, s:i, s:s}", "say", "failed", "code", WEFT_ERR_BUSY, "text", text));
}

// Whether the peer is in the queue already; each peer has at most one place.
static bool waits(const struct p2p_queue *queue, weft_peer_t peer) {
  for (uint32_t i = 0; i < queue->count; i++)
    if (queue->list[i].peer == peer)
      return true;
  return false;
}

static json_t *take_out(struct p2p_queue *queue, uint32_t index) {
  json_t *hello = queue->list[index].hello;
  queue->count--;
  memmove(&queue->list[index], &queue->list[index + 1], (queue->count - index) * sizeof *queue->list);
  return hello;
}

static void drop_gone(struct p2p_queue *queue, weft_agent_t *agent) {
  for (uint32_t i = queue->count; i-- > 0;)
    if (weft_agent_check(agent, queue->list[i].peer) != 0)
      json_decref(take_out(queue, i));
}

void p2p_queue_take(struct p2p_queue *queue, weft_agent_t *agent, const struct weft_notification *note) {
  json_t *message = json_loadb(note->bytes, note->size, 0, NULL);
  if (strcmp(p2p_text(message, "say"), "hello") != 0 || waits(queue, note->peer)) {
    json_decref(message);
    return;
  }
  drop_gone(queue, agent);
  if (queue->count == P2P_MAX_WAITING) {
    json_decref(message);
    say_full(agent, note->peer);
    return;
  }
  queue->list[queue->count].peer = note->peer;
  queue->list[queue->count++].hello = message;
  say_wait(agent, note->peer);
}

void p2p_queue_remind(struct p2p_queue *queue, weft_agent_t *agent) {
  if (queue->count == 0 || !clock_passed(queue->remind_ns))
    return;
  queue->remind_ns = clock_deadline_ms(REMIND_MS);
  drop_gone(queue, agent);
  for (uint32_t i = 0; i < queue->count; i++)
    say_wait(agent, queue->list[i].peer);
}

bool p2p_queue_next(struct p2p_queue *queue, weft_agent_t *agent, weft_peer_t *peer, json_t **hello) {
  drop_gone(queue, agent);
  if (queue->count == 0)
    return false;
  *peer = queue->list[0].peer;
  *hello = take_out(queue, 0);
  return true;
}

void p2p_queue_clear(struct p2p_queue *queue) {
  while (queue->count > 0)
    json_decref(take_out(queue, queue->count - 1));
}
