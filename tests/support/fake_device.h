// The parts of the fake plug-in (fake_device.c): its devices, and its engine (fake_engine.c).
#ifndef SUPPORT_FAKE_DEVICE_H
#define SUPPORT_FAKE_DEVICE_H

#include <pthread.h>

#include "device/device.h"

enum { FAKE_QUEUE = 64 };

// A route of the fake plug-in. It knows which operation filled it, and in which view, but nothing about tokens.
struct device_route {
  pthread_mutex_t lock;
  struct device_route_options options;
  uint32_t capacity, experts;
  uint64_t filled; // the operation, + 1; 0: none
  struct device_route_counts counts;
  uint32_t members;
  uint8_t seats[DEVICE_SEATS];
  void *lists;
  int64_t *kept; // [max_tokens][topk] selections of the plan, or of the dispatch that filled it
  uint32_t num_kept;
  struct device_difference difference; // of the newest search
};

// The next launch of a device, which its thread runs; NULL ends the thread.
struct fake_launch {
  void (*kernel)(const struct fake_launch *launch);
  struct device_ep *ep;
  struct device_dispatch dispatch;
  struct device_route *route; // in a group for throughput, or NULL
  bool keeps;
};

struct device {
  int index;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct fake_launch queue[FAKE_QUEUE];
  uint64_t put, done;
  pthread_t thread;
};

// Writes the sentence; returns the code.
int fake_say(char *why, int rc, const char *what);
void fake_nap(void);
void fake_launch(struct device *device, const struct fake_launch *launch);
// In fake_graph.c. fake_capture_of() returns the capture that launches into the stream belong to, or 0. fake_capture()
// keeps such a launch, which then does not run.
uint64_t fake_capture_of(const void *stream);
bool fake_capture(const void *stream, const struct fake_launch *launch);
int fake_graph_begin(struct device *device, void *stream, char *why);
int fake_graph_end(struct device *device, void *stream, void **graph, char *why);
int fake_graph_launch(struct device *device, void *graph, void *stream, char *why);
void fake_graph_close(struct device *device, void *graph);
int fake_fill(struct device *device, void *memory, uint8_t byte, size_t size, void *stream, char *why);
int fake_stream_wait(struct device *device, void *stream, uint32_t timeout_ms, char *why);
// The host's address for a device's address.
void *fake_reach(const void *memory);
int fake_window_map(struct device *device, size_t size, int fd, struct device_window *window, char *why);
void fake_window_release(struct device *device, struct device_window *window);

// --- the engine: its part of the table ---

size_t fake_area_bytes(const struct device_ep_options *options, char *why);
int fake_ep_open(struct device *device, const struct device_ep_options *options, struct device_ep **out, char *why);
void fake_ep_close(struct device_ep *ep);
uint64_t fake_ep_memory(const struct device_ep *ep);
const struct device_report *fake_ep_report(const struct device_ep *ep);
int fake_ep_progress(struct device_ep *ep, struct device_progress *progress, char *why);
int fake_ep_publish(struct device_ep *ep, const struct device_view *view, char *why);
int fake_ep_control(struct device_ep *ep, const struct device_control *control, char *why);
int fake_ep_seat(struct device_ep *ep, uint32_t seat, char *why);
// Writes this rank's index + 1 to the byte with that index, to show whose memory it is.
int fake_ep_zero_copy(struct device_ep *ep, uint32_t seat, const void *memory, char *why);
int fake_ep_begin(struct device_ep *ep, const struct device_member *seats, uint32_t count, uint64_t op, uint64_t epoch,
                  char *why);
int fake_ep_wake_links(struct device_ep *ep, const struct device_member *seats, uint32_t count, char *why);
int fake_ep_await_begin(struct device_ep *ep, const struct device_member *seats, uint32_t count,
                        struct device_awaiting *awaiting, uint32_t timeout_ms, const volatile bool *cancel,
                        uint64_t *op, uint64_t *epoch, char *why);
int fake_ep_dispatch(struct device_ep *ep, const struct device_dispatch *args, void *stream, char *why);
int fake_ep_combine(struct device_ep *ep, const struct device_combine *args, void *stream, char *why);
int fake_ep_read_masks(struct device_ep *ep, int32_t *ranks, uint32_t count, uint64_t masked, bool replays,
                       void *stream, char *why);
int fake_ep_finish(struct device_ep *ep, void *stream, char *why);
int fake_ep_record(struct device_ep *ep, uint64_t op, struct device_record *record, char *why);
int fake_ep_missing(struct device_ep *ep, uint64_t op, uint64_t *missing, uint32_t num_tokens, char *why);
int fake_flow_clear(struct device_ep *ep, const struct device_window *in, char *why);
int fake_flow_dispatch(struct device_ep *ep, const struct device_flow_dispatch *args, void *stream, char *why);
int fake_flow_combine(struct device_ep *ep, const struct device_flow_combine *args, void *stream, char *why);

// --- fake_route.c ---

int fake_route_create(struct device *device, const struct device_ep_options *ep,
                      const struct device_route_options *options, struct device_route **route, char *why);
void fake_route_free(struct device_route *route);
int fake_route_plan(struct device_ep *ep, struct device_route *route, const void *topk_idx, bool narrow,
                    uint32_t num_tokens, uint64_t masked, void *stream, char *why);
void fake_route_arrays(const struct device_route *route, struct weft_ep_route_arrays *arrays);
void fake_route_selections(const struct device_route *route, const void **topk_idx, const float **weights);
// Keeps the selections of a plan or a dispatch, which are in host memory.
void fake_route_keep(struct device_route *route, const void *topk_idx, bool narrow, uint32_t count);
int fake_route_compare(struct device_ep *ep, struct device_route *route, const struct device_compare *compare,
                       void *stream, char *why);
int fake_route_difference(struct device_route *route, const struct device_compare *compare,
                          struct device_difference *difference, char *why);
int fake_route_counts(struct device_route *route, struct device_route_counts *counts, int32_t *expert_rows,
                      uint32_t cap, char *why);

#endif
