// The engine of one rank: its state on the device, and the host's data for it.
#ifndef CUDA_ENGINE_ENGINE_H
#define CUDA_ENGINE_ENGINE_H

#include <weft/ep.h>

#include "base/ep_limits.h"
#include "cuda/engine/flow_layout.h"
#include "cuda/kernels/launch.h"
#include "cuda/plugin.h"
#include "cuda/throughput/launch.h"

enum { CUDA_KNOWN = 64 }; // number of remembered arguments that are known to be device memory

// Buffers in pinned host memory, so that copies need no kernel and no thread of the driver.
struct cuda_host {
  struct device_report report; // written by kernels
  _Alignas(CUDA_LINE) struct cuda_begin begin;
  // Copied to the device, under `lock`
  _Alignas(CUDA_LINE) union {
    struct cuda_state state;
    struct cuda_view view;
    struct cuda_control control;
    uint64_t word;
  } out;
  struct device_progress progress; // copied from the device, under `lock`
  // Copied from the device, for the owner
  struct device_record record;
  uint64_t missing[EP_MAX_TOKENS], went[EP_MAX_TOKENS]; // buffers for this many tokens at a time
  struct cuda_flow_op flow;
};
CUDA_STATIC_ASSERT(sizeof(struct cuda_host) <= CUDA_PINNED, "it is in a piece of pinned memory");

// A route on the device: its arrays, and the struct that the kernels read.
struct cuda_routing {
  struct cuda_route *route; // on the device
  struct cuda_route arrays; // what it holds
};

// The data of an open operation of a group for throughput. The pointers are on the host; all data is on the device.
struct cuda_open_op {
  struct cuda_flow_op *op;
  uint32_t *counts;  // [DEVICE_SEATS][E]
  uint64_t *missing; // [T]
  struct cuda_routing routing;
  const uint64_t *seats; // [T] `seats` of the operation's route, which may be a route of the caller
};

// The device memory of a group for throughput.
struct cuda_streams {
  struct cuda_flow flow;
  uint64_t offset; // offset of the stream in a window
  void *memory;    // all of what follows
  struct cuda_open_op open_ops[EP_DEPTH];
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
  uint64_t *first; // the first selection that differs from a call's: route_compare.c
  bool half;       // the call that should make the route was launched only in part
};

enum { CUDA_PIECE = 16 }; // bytes that kernels read and write with one access
#define CUDA_COUNT(list) (sizeof(list) / sizeof *(list))

struct device_ep {
  struct device *device;
  struct device_ep_options options;
  struct cuda_layout layout;
  struct cuda_forms forms;
  uint32_t members;            // most members of a view
  uint32_t ranks;              // members of the newest view
  uint32_t blocks;             // of each kernel
  uint64_t window;             // bytes of one
  struct cuda_streams streams; // of a group for throughput
  bool limited;                // the engine may use fewer processors than the device has
  bool early;                  // kernels can be launched early: kernels/launch.h
  bool shared;                 // the engine has reserved its blocks (processors) of the device
  uint64_t bytes;
  struct cuda_state *state;             // on the device
  char *area;                           // on the device: the area for data that this rank sends to itself
  void *arrays;                         // on the device: the arrays of the handles
  struct cuda_handle handle[CUDA_LIVE]; // pointers to it
  struct cuda_host *host;
  struct device_report *report; // address of host->report for kernels
  struct cuda_begin *begin;     // address of host->begin for kernels
  cudaStream_t control;         // stream for data that any thread writes for the kernels
  cudaStream_t owner;           // stream for the owner's launches and reads
  bool beginning;               // [owner] a kernel may still write host->begin
  cudaEvent_t end;
  cudaStream_t last;    // of the newest launch
  uint64_t last_launch; // its number among those of the device, 0: none
  pthread_mutex_t lock;
  bool copying;                       // a copy in `control` may still run, since a call stopped waiting for it
  uint64_t published[CUDA_PUBLISHED]; // epoch of the view in each entry
  uint64_t newest, begun;             // epochs: newest view published; view with which this rank began
  const void *known[CUDA_KNOWN];      // arguments
  char stuck[DEVICE_WHY];             // why a call was launched only in part; "": no such call
};

// flow_memory.c: places the arrays of a routing in memory at `base`; NULL: only computes the size. Returns the size.
uint64_t cuda_place_routing(struct cuda_routing *routing, const struct cuda_flow *flow, uint32_t max_tokens,
                            uint32_t max_rows, uint32_t topk, char *base);
// Copies the structs of routes to where the kernels read them.
int cuda_write_routing(struct device *device, const struct cuda_routing *routing, char *why);
// Opens the memory. Within a guard. cuda_ep_close() releases it.
int cuda_open_streams(struct device_ep *ep, char *why);
// The most rows that this rank receives in one operation.
uint32_t cuda_max_rows(const struct device_ep_options *options);
// flow_record.c: gets the results of the rows and answers kernels for operation `op`. The first function adds them to
// the operation's record (ROOM: there were more rows than its route has room for); the second one finds for each token
// the members whose contribution is missing. Within a guard. [owner]
int cuda_flow_record(struct device_ep *ep, uint64_t op, struct device_record *record, char *why);
int cuda_flow_missing(struct device_ep *ep, uint64_t op, uint64_t *missing, uint32_t num_tokens, char *why);
// route.c: the parts of a route that must be blank before a plan, and with `receives` before the rows of a dispatch;
// and the launch of the lists after them, for which `args` describes the operation. Within a guard. [owner]
void cuda_route_blanks(const struct device_route *route, bool receives, struct cuda_blank blank[2]);
int cuda_clear_route(const struct device_route *route, void *stream, char *why);
// INVALID: the route was made only in part.
int cuda_check_route(const struct device_route *route, char *why);
int cuda_launch_route_lists(struct device_ep *ep, const struct device_route *route, struct cuda_lists_args *args,
                            uint32_t blocks, void *stream, char *why);
// launched.c: functions that all launches use. The first one opens a guard for launches into the stream, which must
// belong to the engine's device (SYSTEM: the engine is stuck). Within the guard:
int cuda_enter_stream(struct device_ep *ep, void *stream, struct cuda_guard *guard, char *why);
bool cuda_early(const struct device_ep *ep);
int cuda_launched(struct device_ep *ep, int error, void *stream, const char *what, char *why);
// Ends a call after its launches. `rc`: its error or 0; `before`: ep->last_launch before the call; `fills`: the route
// that the call should make, or NULL. If only a part of the launches will run, the engine is stuck: this call and each
// later one return SYSTEM.
int cuda_launched_all(struct device_ep *ep, uint64_t before, struct device_route *fills, int rc, void *stream,
                      char *why);
bool cuda_runs(cudaStream_t stream); // whether launches there run, because the stream is not being captured
int cuda_get(struct device_ep *ep, void *to, const void *from, size_t size, const char *what, char *why);

// Checks that the kernels of `ep` can use all arguments; INVALID names an argument that they cannot use. `align`:
// required alignment of the address; `needed`: NULL is an error. Within a guard. [owner]
struct cuda_argument {
  const char *name;
  const void *memory;
  uint32_t align;
  bool needed;
};
int cuda_check_arguments(struct device_ep *ep, const struct cuda_argument *list, size_t count, char *why);
// The same for the data that a dispatch sends (`selects`: also topk_idx), and for its receive buffers (`scales`: the
// rows have scales).
int cuda_check_sent(struct device_ep *ep, const struct device_dispatch *d, bool selects, char *why);
int cuda_check_received(struct device_ep *ep, const struct device_dispatch *d, bool scales, char *why);
// Checks that the stream belongs to the engine's device; to be called before cuda_enter(). [owner]
int cuda_check_stream(const struct device_ep *ep, void *stream, char *why);

#endif
