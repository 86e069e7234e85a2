// What the files of the plug-in share: devices, their contexts, and how errors are reported. Unlike the rest of Weft
// the plug-in keeps no last error: the message goes into the caller's `why`.
#ifndef CUDA_PLUGIN_H
#define CUDA_PLUGIN_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/err.h>

#include "device/device.h"

enum {
  CUDA_OWN_WORK_MS = 20000,  // time limit of our own copies, which only a broken device holds up
  CUDA_FILL_BYTES = 1 << 20, // bytes of zeros, and of ones, that every device has in pinned host memory
  CUDA_PINNED = 256 << 10,   // bytes of what cuda_pin gives
};

// Opened once for the process, and then kept: closing a context or a stream waits for kernels, and a kernel of one rank
// may wait for the very rank that would be waiting here.
struct device {
  int index;
  CUcontext context; // the primary one: the same as the caller's own CUDA code uses
  struct device_info info;
  size_t shared_memory; // that a block can have
  size_t granularity;   // of windows; 0: no windows
  cudaStream_t stream;  // of our own, ordered with no other
  cudaMemPool_t pool;
  char *fill_source; // CUDA_FILL_BYTES bytes of zeros, then as many of ones
  bool strict;       // a window has been mapped that is not behind NVLink: see kernels/layout.h

  pthread_mutex_t lock;                 // of what follows
  uint32_t users;                       // open() without close()
  uint32_t engines, processors;         // that may run at once; ordered ones count once
  uint32_t ordered, ordered_processors; // engines that run one after the other, and what the largest takes
  struct cuda_spare *spares;            // pinned host memory that engines have left
  struct cuda_mark *marks;              // words that no copies use
  struct cuda_host_spare *host_spares;  // windows in host memory that links have left
  uint64_t launches;                    // by all engines; atomic
  uint32_t host_windows;                // that links have; atomic
  // The stream that cuda_stream_wait() waited for last, and the number of launches before that
  cudaStream_t idle_stream;
  uint64_t idle_launches;
};

// --- errors: driver/error.c ---

// Writes the message and returns rc.
int cuda_why(char *why, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
// 0 for success; else writes "<what>: <CUDA's message>" and returns the code that fits.
int cuda_check(char *why, cudaError_t error, const char *what);
int cuda_check_driver(char *why, CUresult result, const char *what);

// A device that has been opened, or NULL.
const struct device *cuda_any_device(void);

// --- contexts and quotas: driver/context.c ---

// Between cuda_enter() and cuda_leave() the device's context is the thread's current one ("within a guard" below).
// CUDA's own "current device" stays as it is, since restoring it would open a context on that device; and no call in
// between disturbs a stream capture of this thread or another.
struct cuda_guard {
  enum cudaStreamCaptureMode mode;
  bool pushed;
};
int cuda_enter(const struct device *device, struct cuda_guard *guard, char *why);
void cuda_leave(const struct cuda_guard *guard);

// The same on any device that has been opened, for calls that need some context and would open one: 0 or NOT_FOUND.
int cuda_enter_any(struct cuda_guard *guard);

// The processors of a device that engines of this process have reserved. LIMIT: fewer than `processors` are left.
// `ordered`: the engine runs never beside others that are ordered, so they share what the largest of them takes.
int cuda_quota_take(struct device *device, uint32_t processors, bool ordered, char *why);
void cuda_quota_return(struct device *device, uint32_t processors, bool ordered);
// Whether no other engine may run beside the one that asks.
bool cuda_quota_alone(const struct device *device);

// --- waiting: memory/stream.c ---

// INVALID: the caller's stream is being captured; waiting for it would end the capture.
int cuda_check_capture(cudaStream_t stream, char *why);
// Polls until all that is in the stream is done: 0, TIMEOUT or what went wrong.
int cuda_await(cudaStream_t stream, uint64_t timeout_ns, const char *what, char *why);
// The same, but spins in the first `spin_ns`: for a thread that others wait for.
int cuda_await_spinning(cudaStream_t stream, uint64_t timeout_ns, uint64_t spin_ns, const char *what, char *why);

// --- the table's functions, see device.h ---

int cuda_count(int *count, char *why);
int cuda_describe(int index, struct device_info *info, char *why);
int cuda_check_peer(int index, int peer, char *why);
int cuda_open(int index, struct device **device, char *why);
void cuda_close(struct device *device);

int cuda_allocate(struct device *device, size_t size, void **memory, char *why);
void cuda_release(struct device *device, void *memory);
int cuda_copy(struct device *device, void *to, const void *from, size_t size, void *stream, bool wait, char *why);
int cuda_fill(struct device *device, void *memory, uint8_t byte, size_t size, void *stream, char *why);
int cuda_owner(const void *memory, int *index, char *why);
int cuda_extent(const void *memory, int *index, uint64_t *bytes, char *why);
// An area (kernels/layout.h) in which nothing has come yet: in memory of its own, to be released likewise; or made of a
// window, within a guard. Memory is cleared by the copy engine: a kernel would have to wait for those that spin.
int cuda_allocate_area(struct device *device, size_t size, void **memory, char *why);
int cuda_clear_area(struct device *device, void *area, size_t size, char *why);
int cuda_zero(struct device *device, void *memory, size_t size, char *why); // likewise; takes the guard itself
// Pinned host memory, zeroed, in pieces of one size; a piece that is returned serves the next caller. Within a guard.
int cuda_pin(struct device *device, void **memory, char *why);
void cuda_unpin(struct device *device, void *memory);

int cuda_window_create(struct device *device, size_t size, struct device_window *window, int *fd, char *why);
int cuda_window_map(struct device *device, size_t size, int fd, struct device_window *window, char *why);
void cuda_window_release(struct device *device, struct device_window *window);
int cuda_fabric_create(struct device *device, size_t size, struct device_window *window, uint8_t *name, char *why);
int cuda_fabric_map(struct device *device, size_t size, const uint8_t *name, struct device_window *window, char *why);

int cuda_host_window_create(struct device *device, size_t size, struct device_window *window, void **host, int *fd,
                            char *why);
void cuda_host_window_release(struct device *device, struct device_window *window, void *host);

int cuda_stream_open(struct device *device, void **stream, char *why);
void cuda_stream_close(struct device *device, void *stream);
int cuda_stream_wait(struct device *device, void *stream, uint32_t timeout_ms, char *why);
int cuda_stream_device(void *stream, int *index, char *why);
int cuda_stream_capture(void *stream, uint64_t *capture, char *why);
int cuda_event_open(struct device *device, void **mark, char *why);
void cuda_event_close(struct device *device, void *mark);
int cuda_event_record(struct device *device, void *mark, void *stream, char *why);
int cuda_event_elapsed(struct device *device, void *begin, void *end, uint64_t *ns, char *why);
int cuda_graph_begin(struct device *device, void *stream, char *why);
int cuda_graph_end(struct device *device, void *stream, void **graph, char *why);
int cuda_graph_launch(struct device *device, void *graph, void *stream, char *why);
void cuda_graph_close(struct device *device, void *graph);

size_t cuda_ep_area_bytes(const struct device_ep_options *options, char *why);
int cuda_ep_open(struct device *device, const struct device_ep_options *options, struct device_ep **ep, char *why);
void cuda_ep_close(struct device_ep *ep);
uint64_t cuda_ep_memory(const struct device_ep *ep);
const struct device_report *cuda_ep_report(const struct device_ep *ep);
int cuda_ep_progress(struct device_ep *ep, struct device_progress *progress, char *why);
int cuda_ep_publish(struct device_ep *ep, const struct device_view *view, char *why);
int cuda_ep_control(struct device_ep *ep, const struct device_control *control, char *why);
int cuda_ep_seat(struct device_ep *ep, uint32_t seat, char *why);
int cuda_ep_zero_copy(struct device_ep *ep, uint32_t seat, const void *memory, char *why);
int cuda_ep_begin(struct device_ep *ep, const struct device_member *seats, uint32_t count, uint64_t op, uint64_t epoch,
                  char *why);
int cuda_ep_wake_links(struct device_ep *ep, const struct device_member *seats, uint32_t count, char *why);
int cuda_ep_await_begin(struct device_ep *ep, const struct device_member *seats, uint32_t count,
                        struct device_awaiting *awaiting, uint32_t timeout_ms, const volatile bool *cancel,
                        uint64_t *op, uint64_t *epoch, char *why);
int cuda_ep_dispatch(struct device_ep *ep, const struct device_dispatch *args, void *stream, char *why);
int cuda_ep_combine(struct device_ep *ep, const struct device_combine *args, void *stream, char *why);
int cuda_ep_read_masks(struct device_ep *ep, int32_t *ranks, uint32_t count, uint64_t masked, bool replays,
                       void *stream, char *why);
int cuda_ep_finish(struct device_ep *ep, void *stream, char *why);
int cuda_ep_record(struct device_ep *ep, uint64_t op, struct device_record *record, char *why);
int cuda_ep_missing(struct device_ep *ep, uint64_t op, uint64_t *missing, uint32_t num_tokens, char *why);

int cuda_flow_clear(struct device_ep *ep, const struct device_window *in, char *why);
int cuda_flow_dispatch(struct device_ep *ep, const struct device_flow_dispatch *args, void *stream, char *why);
int cuda_flow_combine(struct device_ep *ep, const struct device_flow_combine *args, void *stream, char *why);
int cuda_route_create(struct device *device, const struct device_ep_options *ep,
                      const struct device_route_options *options, struct device_route **route, char *why);
void cuda_route_free(struct device_route *route);
int cuda_route_plan(struct device_ep *ep, struct device_route *route, const void *topk_idx, bool narrow,
                    uint32_t num_tokens, uint64_t masked, void *stream, char *why);
void cuda_route_arrays(const struct device_route *route, struct weft_ep_route_arrays *arrays);
void cuda_route_selections(const struct device_route *route, const void **topk_idx, const float **weights);
int cuda_route_compare(struct device_ep *ep, struct device_route *route, const struct device_compare *compare,
                       void *stream, char *why);
int cuda_route_difference(struct device_route *route, const struct device_compare *compare,
                          struct device_difference *difference, char *why);
int cuda_route_counts(struct device_route *route, struct device_route_counts *counts, int32_t *expert_rows,
                      uint32_t cap, char *why);

int cuda_share(const void *memory, uint64_t size, bool window, struct device_share *share, char *why);
int cuda_share_open(struct device *device, const struct device_share *share, int fd, void **memory, char *why);
void cuda_share_close(struct device *device, const struct device_share *share, void *memory);
int cuda_pin_caller(void *memory, uint64_t size, char *why);
void cuda_unpin_caller(void *memory);
int cuda_copies_open(struct device *device, const struct device_copy *copies, uint32_t count,
                     struct device_copies **opened, char *why);
int cuda_copies_run(struct device_copies *copies, void *stream, char *why);
int cuda_copies_passed(struct device_copies *copies, bool *passed, char *why);
void cuda_copies_close(struct device_copies *copies);

// mark.c: [CUDA_COPIES_WORDS] words of 0 in pinned host memory. Within a guard; they are given back unused.
int cuda_mark_take(struct device *device, uint32_t **words, char *why);
void cuda_mark_give(struct device *device, uint32_t *words); // NULL is legal
int cuda_with(struct device *device, void (*function)(void *arg), void *arg, char *why);

#endif
