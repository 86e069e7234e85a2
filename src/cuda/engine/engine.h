// One rank's engine: its state on the device, and what the host keeps beside it.
#ifndef CUDA_ENGINE_ENGINE_H
#define CUDA_ENGINE_ENGINE_H

#include <weft/ep.h>

#include "base/ep_limits.h"
#include "cuda/engine/flow_layout.h"
#include "cuda/kernels/launch.h"
#include "cuda/plugin.h"
#include "cuda/throughput/launch.h"

enum { CUDA_KNOWN = 64 }; // arguments that are remembered to be memory of the device

// In pinned host memory, so that copies need no kernel and no thread of the driver.
struct cuda_host {
  struct device_report report; // written by kernels
  _Alignas(CUDA_LINE) struct cuda_begin begin;
  // On their way to the device, under `lock`
  _Alignas(CUDA_LINE) union {
    struct cuda_state state;
    struct cuda_view view;
    struct cuda_control control;
    uint64_t word;
  } out;
  struct device_progress progress; // on its way from it, likewise
  // On their way from it, for the owner
  struct device_record record;
  uint64_t missing[EP_MAX_TOKENS], went[EP_MAX_TOKENS]; // by so many tokens at a time
  struct cuda_flow_op flow;
};
CUDA_STATIC_ASSERT(sizeof(struct cuda_host) <= CUDA_PINNED, "it is in a piece of pinned memory");

// A route on the device: its arrays, and the struct that the kernels read.
struct cuda_routing {
  struct cuda_route *route; // on the device
  struct cuda_route arrays; // what it holds
};

// What an open operation of a group for throughput has; all of it is on the device but for the pointers.
struct cuda_side {
  struct cuda_flow_op *op;
  uint32_t *counts;  // [DEVICE_SEATS][E]
  uint64_t *missing; // [T]
  struct cuda_routing routing;
  const uint64_t *seats; // [T] of the route of its operation, which may be the caller's
};

// Of a group for throughput.
struct cuda_streams {
  struct cuda_flow flow;
  uint64_t offset; // of a stream in a window
  void *memory;    // all of what follows
  struct cuda_side sides[EP_DEPTH];
  uint32_t *plan_workspace, *rows_workspace;
};

// A route that the caller keeps.
struct device_route {
  struct device *device;
  struct device_route_options options;
  struct cuda_flow flow;
  uint32_t capacity;
  void *memory; // all of what follows
  struct cuda_routing routing;
  struct cuda_filled *filled;
  uint32_t *counts; // of it
  struct cuda_route_lists lists;
  void *topk_idx;  // [T][K]
  float *weights;  // [T][K]
  uint64_t *first; // that differs from a call's: route_compare.c
  bool half;       // what was to make it was launched in part alone
};

enum { CUDA_PIECE = 16 }; // bytes that kernels read and write at once
#define CUDA_COUNT(list) (sizeof(list) / sizeof *(list))

struct device_ep {
  struct device *device;
  struct device_ep_options options;
  struct cuda_layout layout;
  struct cuda_forms forms;
  uint32_t members;            // that a view can have
  uint32_t ranks;              // of the newest view
  uint32_t blocks;             // of each kernel
  uint64_t window;             // bytes of one
  struct cuda_streams streams; // of a group for throughput
  bool limited;                // to fewer than the device has
  bool early;                  // kernels can be launched early: kernels/launch.h
  bool shared;                 // has its blocks of the device
  uint64_t bytes;
  struct cuda_state *state;             // on the device
  char *area;                           // likewise: what this rank sends to itself
  void *arrays;                         // likewise: those of the handles
  struct cuda_handle handle[CUDA_LIVE]; // pointers to it
  struct cuda_host *host;
  struct device_report *report; // that of `host`, as kernels see it
  struct cuda_begin *begin;     // likewise
  cudaStream_t control;         // carries what any thread writes for the kernels
  cudaStream_t owner;           // carries what the owner launches and reads
  bool beginning;               // [owner] a kernel writes host->begin, or may
  cudaEvent_t end;
  cudaStream_t last;    // of the newest launch
  uint64_t last_launch; // its number among those of the device, 0: none
  pthread_mutex_t lock;
  bool copying;                       // `control` still copies what a call has not waited for
  uint64_t published[CUDA_PUBLISHED]; // epoch in each place
  uint64_t newest, begun;             // epochs: published last, begun with
  const void *known[CUDA_KNOWN];      // arguments
  char stuck[DEVICE_WHY];             // why a call was launched in part alone; "": none was
};

// flow_memory.c: the arrays of a routing, in memory at `base`. NULL: only the size counts, which is returned.
uint64_t cuda_place_routing(struct cuda_routing *routing, const struct cuda_flow *flow, uint32_t max_tokens,
                            uint32_t max_rows, uint32_t topk, char *base);
// Copies the structs of routes to where the kernels read them.
int cuda_write_routing(struct device *device, const struct cuda_routing *routing, char *why);
// Opens the memory. Within a guard. cuda_ep_close() releases it.
int cuda_open_streams(struct device_ep *ep, char *why);
// Rows that this rank receives in one operation, at most.
uint32_t cuda_max_rows(const struct device_ep_options *options);
// flow_record.c: what the kernels of rows know of operation `op`: adds it to its record (ROOM: the rows were more than
// its route has room for), or tells of each token the members whose contribution is missing. Within a guard. [owner]
int cuda_flow_record(struct device_ep *ep, uint64_t op, struct device_record *record, char *why);
int cuda_flow_missing(struct device_ep *ep, uint64_t op, uint64_t *missing, uint32_t num_tokens, char *why);
// route.c: what a plan, with the rows of a dispatch where it receives too, finds made blank in a route; and the lists
// behind them, of which `args` says what the operation has. Within a guard. [owner]
void cuda_route_blanks(const struct device_route *route, bool receives, struct cuda_blank blank[2]);
int cuda_clear_route(const struct device_route *route, void *stream, char *why);
// INVALID: the route is half made.
int cuda_check_route(const struct device_route *route, char *why);
int cuda_launch_route_lists(struct device_ep *ep, const struct device_route *route, struct cuda_lists_args *args,
                            uint32_t blocks, void *stream, char *why);
// launched.c: what all launches have in common: a guard for launches into the stream, which is one of the engine's
// device (SYSTEM: the engine is stuck); and, within it:
int cuda_enter_stream(struct device_ep *ep, void *stream, struct cuda_guard *guard, char *why);
bool cuda_early(const struct device_ep *ep);
int cuda_launched(struct device_ep *ep, int error, void *stream, const char *what, char *why);
// Ends a call that launched what it could: `rc` is its error or 0, `before` ep->last_launch before it, and `fills` the
// route that it was to make, or NULL. Where a part of the launches alone will run, the engine is stuck: SYSTEM, in each
// later call too.
int cuda_launched_all(struct device_ep *ep, uint64_t before, struct device_route *fills, int rc, void *stream,
                      char *why);
bool cuda_runs(cudaStream_t stream); // what is launched there, since it is not captured
int cuda_get(struct device_ep *ep, void *to, const void *from, size_t size, const char *what, char *why);

// Checks that the kernels of `ep` can use all arguments: INVALID names one that they cannot use. `align`: of its
// address; `needed`: NULL is an error. Within a guard. [owner]
struct cuda_argument {
  const char *name;
  const void *memory;
  uint32_t align;
  bool needed;
};
int cuda_check_arguments(struct device_ep *ep, const struct cuda_argument *list, size_t count, char *why);
// The same of what a dispatch sends (`selects`: its top-k is looked at) and of where it receives (`scales`: the rows
// have some).
int cuda_check_sent(struct device_ep *ep, const struct device_dispatch *d, bool selects, char *why);
int cuda_check_received(struct device_ep *ep, const struct device_dispatch *d, bool scales, char *why);
// Checks that the stream is one of the engine's device; before cuda_enter(). [owner]
int cuda_check_stream(const struct device_ep *ep, void *stream, char *why);

#endif
