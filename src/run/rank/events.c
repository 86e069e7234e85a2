// Sends a rank's events to its node: views, losses, phases.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "run/common/rank_pipe.h"
#include "run/rank/rank.h"

static const char *const names[] = {
    [WEFT_EP_EVENT_CONNECTED] = "connected",   [WEFT_EP_EVENT_PEER_LOST] = "peer_lost",
    [WEFT_EP_EVENT_COMMITTED] = "committed",   [WEFT_EP_EVENT_ACTIVATED] = "activated",
    [WEFT_EP_EVENT_RELEASED] = "released",     [WEFT_EP_EVENT_STORE_LOST] = "store_lost",
    [WEFT_EP_EVENT_STORE_BACK] = "store_back", [WEFT_EP_EVENT_FENCED] = "fenced",
};

int rank_events_init(struct rank_events *events, int message_fd) {
  *events = (struct rank_events){.message_fd = message_fd};
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  int error = pthread_cond_init(&events->change, &monotonic);
  pthread_condattr_destroy(&monotonic);
  if (!error && (error = pthread_mutex_init(&events->mutex, NULL)) != 0)
    pthread_cond_destroy(&events->change);
  return error ? fail_errno(error, "cannot make a mutex") : 0;
}

void rank_events_free(struct rank_events *events) {
  free(events->activations);
  free(events->losses);
  pthread_mutex_destroy(&events->mutex);
  pthread_cond_destroy(&events->change);
}

static void keep_activation(struct rank_events *events, const struct weft_ep_event *event) {
  struct rank_activation *grown =
      realloc(events->activations, (events->num_activations + 1) * sizeof *events->activations);
  if (!grown) {
    log_error("no memory for an event");
    return;
  }
  events->activations = grown;
  grown[events->num_activations++] = (struct rank_activation){event->epoch, event->op, event->time_ns};
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
  strncat(loss->detail, event->detail, sizeof loss->detail - 1);
}

void rank_on_event(void *arg, const struct weft_ep_event *event) {
  struct rank_events *events = arg;
  pthread_mutex_lock(&events->mutex);
  if (event->kind == WEFT_EP_EVENT_COMMITTED && events->committed_ns == 0)
    events->committed_ns = event->time_ns;
  if (event->kind == WEFT_EP_EVENT_ACTIVATED)
    keep_activation(events, event);
  if (event->kind == WEFT_EP_EVENT_PEER_LOST)
    keep_loss(events, event);
  if (event->kind == WEFT_EP_EVENT_PEER_LOST || event->kind == WEFT_EP_EVENT_COMMITTED) {
    events->reported++;
    pthread_cond_broadcast(&events->change);
  }
  pthread_mutex_unlock(&events->mutex);
  run_message_send(events->message_fd, json_pack("{s:s, s:s, s:I, s:i, s:I, s:I, s:s}", "kind", "event", "event",
                                                 names[event->kind], "time_ns", (json_int_t)event->time_ns, "peer",
                                                 (int)event->rank, "epoch", (json_int_t)event->epoch, "op",
                                                 (json_int_t)event->op, "detail", event->detail ? event->detail : ""));
}

bool rank_find_activation(struct rank_events *events, uint64_t epoch, struct rank_activation *found) {
  bool there = false;
  pthread_mutex_lock(&events->mutex);
  for (size_t i = 0; i < events->num_activations && !there; i++) {
    there = events->activations[i].epoch == epoch;
    if (there)
      *found = events->activations[i];
  }
  pthread_mutex_unlock(&events->mutex);
  return there;
}
