// Declarations for all files of the plug-in: devices, their contexts, and error reports. Unlike the rest of Weft the
// plug-in keeps no last error: it writes the message into the caller's `why`.
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
  CUDA_OWN_WORK_MS = 20000,  // time limit of our own copies; only a broken device takes so long
  CUDA_FILL_BYTES = 1 << 20, // bytes of zeros, and bytes of ones, in pinned host memory for each device
  CUDA_PINNED = 256 << 10,   // bytes of a piece from cuda_pin()
};

// A device is opened once for the process and never closed: closing a context or a stream waits for kernels, and a
// kernel of another rank may wait for the rank that would wait here.
struct device {
  int index;
  CUcontext context; // the primary context, which the caller's own CUDA code uses, too
  struct device_info info;
  size_t shared_memory; // most shared memory of a block
  size_t granularity;   // of windows; 0: no windows
  cudaStream_t stream;  // our own stream, not ordered with any other
  cudaMemPool_t pool;
  char *fill_source; // CUDA_FILL_BYTES bytes of zeros, then as many of ones
  bool strict;       // a window has been mapped that is not reached over NVLink: see kernels/layout.h

  pthread_mutex_t lock;         // protects the members below
  uint32_t users;               // number of open() without close()
  uint32_t engines, processors; // of engines that may run at the same time; all ordered engines count as one
  // engines that run one after the other, and the processors of the largest of them
  uint32_t ordered, ordered_processors;
  struct cuda_spare *spares;           // free pinned host memory, from engines that have closed
  struct cuda_mark *marks;             // free words for copies
  struct cuda_host_spare *host_spares; // free windows in host memory, from links that have closed
  uint64_t launches;                   // number of launches of all engines; atomic
  uint32_t host_windows;               // number of host windows in use by links; atomic
  // The stream for which cuda_stream_wait() last waited, and the number of launches before that wait
  cudaStream_t idle_stream;
  uint64_t idle_launches;
};

// --- errors: driver/error.c ---

// Writes the message and returns rc.
int cuda_why(char *why, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
// 0 for success; else writes "<what>: <CUDA's message>" and returns the code that fits.
int cuda_check(char *why, cudaError_t error, const char *what);
int cuda_check_driver(char *why, CUresult result, const char *what);

// Any device that has been opened, or NULL.
const struct device *cuda_any_device(void);

// --- contexts and quotas: driver/context.c ---

// Between cuda_enter() and cuda_leave() the device's context is the current context of the thread ("within a guard"
// below). CUDA's own "current device" is not changed, since restoring it would open a context on that device. No call
// within a guard disturbs a stream capture of this or another thread.
struct cuda_guard {
  enum cudaStreamCaptureMode mode;
  bool pushed;
};
int cuda_enter(const struct device *device, struct cuda_guard *guard, char *why);
void cuda_leave(const struct cuda_guard *guard);

// The same on any opened device, for calls that need a context and would otherwise open one. Returns 0 or NOT_FOUND.
int cuda_enter_any(struct cuda_guard *guard);

// Reserve and return processors of a device for an engine of this process. LIMIT: fewer than `processors` are left.
// `ordered`: the engine never runs at the same time as other ordered engines, so these share the processors of the
// largest of them.
int cuda_quota_take(struct device *device, uint32_t processors, bool ordered, char *why);
void cuda_quota_return(struct device *device, uint32_t processors, bool ordered);
// Whether the calling engine is the only one that may run.
bool cuda_quota_alone(const struct device *device);

// --- waiting: memory/stream.c ---

// INVALID: the caller's stream is being captured; waiting for it would end the capture.
int cuda_check_capture(cudaStream_t stream, char *why);
// Polls until all work in the stream is done. Returns 0, TIMEOUT or the error of the stream.
int cuda_await(cudaStream_t stream, uint64_t timeout_ns, const char *what, char *why);
// The same, but spins during the first `spin_ns`: for a thread for which others wait.
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
// Make an empty area (kernels/layout.h): in newly allocated memory, to be released with cuda_release(); or in a window,
// within a guard. The copy engine clears the memory, since a kernel would have to wait for kernels that spin.
int cuda_allocate_area(struct device *device, size_t size, void **memory, char *why);
int cuda_clear_area(struct device *device, void *area, size_t size, char *why);
// also by the copy engine; opens the guard itself
int cuda_zero(struct device *device, void *memory, size_t size, char *why);
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
int cuda_event_open(struct device *device, void **event, char *why);
void cuda_event_close(struct device *device, void *event);
int cuda_event_record(struct device *device, void *event, void *stream, char *why);
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
void cuda_unpin_caller(void *memory, uint64_t size);
int cuda_copies_open(struct device *device, const struct device_copy *copies, uint32_t count,
                     struct device_copies **opened, char *why);
int cuda_copies_run(struct device_copies *copies, void *stream, char *why);
int cuda_copies_passed(struct device_copies *copies, bool *passed, char *why);
void cuda_copies_close(struct device_copies *copies);

// mark.c: [CUDA_COPIES_WORDS] zero words in pinned host memory. Within a guard. No launch may use the words any more
// when they are given back.
int cuda_mark_take(struct device *device, uint32_t **words, char *why);
void cuda_mark_give(struct device *device, uint32_t *words); // NULL is legal
int cuda_with(struct device *device, void (*function)(void *arg), void *arg, char *why);

#endif
