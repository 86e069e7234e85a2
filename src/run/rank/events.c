// Sends a rank's events to its node: views, losses, phases.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/printable.h"
#include "base/time/clock.h"
#include "run/common/rank_pipe.h"
#include "run/rank/rank.h"

static const char *const names[] = {
    [WEFT_EP_EVENT_CONNECTED] = "connected",   [WEFT_EP_EVENT_PEER_LOST] = "peer_lost",
    [WEFT_EP_EVENT_COMMITTED] = "committed",   [WEFT_EP_EVENT_ACTIVATED] = "activated",
    [WEFT_EP_EVENT_RELEASED] = "released",     [WEFT_EP_EVENT_STORE_LOST] = "store_lost",
    [WEFT_EP_EVENT_STORE_BACK] = "store_back", [WEFT_EP_EVENT_FENCED] = "fenced",
};

void rank_events_free(struct rank_events *events) {
  free(events->activations);
  free(events->commits);
  free(events->losses);
}

static void keep_view(struct rank_activation **views, size_t *count, const struct weft_ep_event *event) {
  struct rank_activation *grown = realloc(*views, (*count + 1) * sizeof **views);
  if (!grown) {
    log_error("no memory for an event");
    return;
  }
  *views = grown;
  grown[(*count)++] = (struct rank_activation){event->epoch, event->op, event->time_ns};
}

static void keep_loss(struct rank_events *events, const struct weft_ep_event *event) {
  struct run_loss *grown = realloc(events->losses, (events->num_losses + 1) * sizeof *events->losses);
  if (!grown) {
    log_error("no memory for an event");
    return;
  }
  events->losses = grown;
  struct run_loss *loss = &grown[events->num_losses++];
  *loss = (struct run_loss){.rank = event->rank, .time_ns = event->time_ns};
  snprintf(loss->detail, sizeof loss->detail, "%.*s", (int)sizeof loss->detail - 1, event->detail);
  printable_line(loss->detail);
}

static void keep(struct rank_events *events, const struct weft_ep_event *event) {
  if (event->kind == WEFT_EP_EVENT_COMMITTED)
    keep_view(&events->commits, &events->num_commits, event);
  if (event->kind == WEFT_EP_EVENT_ACTIVATED)
    keep_view(&events->activations, &events->num_activations, event);
  if (event->kind == WEFT_EP_EVENT_PEER_LOST)
    keep_loss(events, event);
}

void rank_take_events(struct rank *rank) {
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  while (rank->ep && weft_ep_next_event(rank->ep, &event) > 0) {
    keep(&rank->events, &event);
    if (event.dropped > 0)
      log_warn("rank %d: %llu events were dropped", rank->task.rank, (unsigned long long)event.dropped);
    run_message_send(rank->task.message_fd,
                     json_pack("{s:s, s:s, s:I, s:i, s:I, s:I, s:s}", "kind", "event", "event", names[event.kind],
                               "time_ns", (json_int_t)event.time_ns, "peer", (int)event.rank, "epoch",
                               (json_int_t)event.epoch, "op", (json_int_t)event.op, "detail", event.detail));
  }
}

bool rank_await_event(struct rank *rank, uint64_t deadline_ns) {
  struct pollfd news = {.fd = -1, .events = POLLIN};
  if (weft_ep_fd(rank->ep, &news.fd) != 0)
    return false;
  while (!clock_passed(deadline_ns))
    if (poll(&news, 1, clock_left_ms(deadline_ns)) > 0)
      return true;
  return false;
}

static bool find(const struct rank_activation *views, size_t count, uint64_t epoch, struct rank_activation *found) {
  for (size_t i = 0; i < count; i++) {
    if (views[i].epoch != epoch)
      continue;
    *found = views[i];
    return true;
  }
  return false;
}

bool rank_find_activation(const struct rank_events *events, uint64_t epoch, struct rank_activation *found) {
  return find(events->activations, events->num_activations, epoch, found);
}

bool rank_find_commit(const struct rank_events *events, uint64_t epoch, struct rank_activation *found) {
  return find(events->commits, events->num_commits, epoch, found);
}
