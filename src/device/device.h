// What the layers above need of GPUs: a table of functions that the plug-in libweft_cuda fills in. The plug-in holds
// the kernels and all calls of CUDA; nobody else includes a header of CUDA.
//
// Functions return 0 or a weft_err, and then say in `why` (DEVICE_WHY bytes) what was wrong. Streams are cudaStream_t.
// [any] means that any thread may call at any time. A function leaves the calling thread's current device as it was.
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  DEVICE_ABI = 17, // of this page
  DEVICE_WHY = 256,
  DEVICE_SEATS = 64, // peers of an engine, itself among them
  DEVICE_NAME = 64,  // bytes that name a window to other hosts
  // A peer that does not come because it waits for a third one is not silent: it gets so many more time limits.
  DEVICE_EXTENSIONS = 3,
};

struct device;    // a GPU, opened by this process
struct device_ep; // one rank's engine on it
struct device_relay;
struct weft_ep_told; // of weft/ep.h

struct device_info {
  char name[96];
  char pci[16];
  uint8_t uuid[16];
  int major, minor; // compute capability
  uint32_t processors;
  uint64_t memory_bytes;
  bool windows; // its memory can be shared with other processes by file descriptors (VMM)
  bool fabric;  // and with other hosts of its NVLink domain, by processes that may use an IMEX channel
};

// Memory of a GPU that processes share: the plug-in's matter but for `memory` and `size`.
struct device_window {
  void *memory; // on the device; NULL: none
  size_t size;
  uint64_t handle;
};

// --- copies, also between processes of a host ---

// Names memory of a device so that another process of the host can map it. Plain bytes, to be sent there.
struct device_share {
  uint64_t process; // random, of the process that shares
  uint64_t address; // of the memory there
  uint64_t size;
  uint64_t offset;    // of the memory in the allocation that `handle` names
  uint8_t uuid[16];   // of the device
  uint8_t handle[64]; // of CUDA's IPC; zeros: it is a window, which is mapped by its descriptor
};

struct device_copy {
  void *to;
  const void *from;
  uint64_t size;
};
struct device_copies; // many copies, which run together

// --- the engine ---

struct device_ep_options {
  int32_t rank;
  uint32_t capacity, max_tokens, hidden, topk, experts_per_rank;
  int dtype, combine_dtype; // of weft/ep.h
  uint32_t processors;      // to use at most; 0: all
  uint64_t timeout_ns;      // a peer silent for so long in an operation is lost
  bool throughput;          // rows flow through windows of a bounded size; else these have room for whole operations
  bool ordered;             // its launches run after those of the device's other engines that are ordered
  uint64_t window_bytes;    // with it: of a window, at most
  uint32_t max_rows;        // likewise: rows that this rank receives in one operation, at most
  const void *zero_copy;    // likewise: memory that peers map, whose rows they read where they lie; NULL: none
  uint64_t zero_copy_bytes;
};

// A member of a view. `seat` names the link to one incarnation as long as it stands: below DEVICE_SEATS, unique among
// the links of this rank; its own seat has `in` and `out` NULL. DEVICE_NO_SEAT: there is no link, so it counts as lost.
enum { DEVICE_NO_SEAT = 0xFF };
struct device_member {
  int32_t rank;
  uint32_t seat;
  void *in;  // area that the peer writes, in our memory
  void *out; // area that we write, in its memory
};

// Between a rank that awaits its first operation and its peers, by their places among `seats` of the call.
struct device_awaiting {
  uint64_t word;  // how this rank stands, for all of them: ep/view/awaiting.h
  uint64_t takes; // bit i: a first operation that peer i has published counts
  uint64_t
      peers[DEVICE_SEATS]; // their words, as this rank knows them; written anew where the wait ends without a start
};

struct device_view {
  uint64_t epoch; // below 2^32
  uint32_t count;
  const struct device_member *members; // ascending by rank
};

// What the host writes for the kernels. `gone`: seats of links that are down. `masked`: seats that get no tokens.
struct device_control {
  uint64_t ready, mark;
  uint64_t gone, masked;
};

// How far the kernels are, in device memory: who wants to know asks for it (ep_progress). A kernel that writes as much
// as one word of the host's memory ends 1 us later in a stream, for it waits until that has arrived; not in a graph.
struct device_progress {
  uint64_t begun;    // dispatches begun: the number of the newest + 1
  uint64_t ended;    // operations before this number are over (combined or finished); the next kernel tells
  uint64_t left;     // operations before this number have no use for any area; the kernel after that tells
  uint64_t received; // dispatches whose headers are all heard: the number of the newest + 1
};

// What the kernels report to the host as they run, in host memory. Words are written one by one, in the order of
// this page from the last to the first of each group.
enum { DEVICE_ACTIVATIONS = 16 };
struct device_report {
  volatile uint64_t replayed; // dispatches begun by graphs: the number of the newest + 1
  // 1: a kernel has found the seat silent; ep_seat makes it 0. A byte each, for both sides write, and few machines have
  // atomic operations between a GPU and the host's memory.
  volatile uint8_t lost[DEVICE_SEATS];
  // Views decided, in order; entry i % DEVICE_ACTIVATIONS is the i-th
  volatile uint64_t activations;
  volatile struct {
    uint64_t op, epoch; // the view takes effect with this operation
  } activation[DEVICE_ACTIVATIONS];
};

// Seats that kernels have found silent, by bit. [any]
static inline uint64_t device_lost(const struct device_report *report) {
  uint64_t lost = 0;
  for (uint32_t seat = 0; seat < DEVICE_SEATS; seat++)
    lost |= (uint64_t)(__atomic_load_n(&report->lost[seat], __ATOMIC_ACQUIRE) != 0) << seat;
  return lost;
}

// What one operation did; copied from the device.
struct device_record {
  uint64_t op, epoch, mark;
  uint64_t lost;         // dispatch: members (by index in the view of `epoch`) whose tokens did not come
  uint64_t combine_lost; // combine: members whose contributions did not come
  uint32_t num_ranks;
  uint32_t num_rows;              // received
  uint32_t needed_rows;           // of weft_ep_recv_args.rows, to hold all
  uint32_t sent_rows;             // to other ranks
  uint32_t answered_rows;         // of the combine, to other ranks
  uint32_t tokens;                // of this rank
  uint32_t selections;            // valid (token, expert) pairs dispatched by this rank
  uint32_t unsent;                // of them, that no rank got
  uint32_t missing;               // and that brought no contribution to the newest combine, besides
  uint32_t kind;                  // 1: dispatch, 2: barrier, as this rank sent it
  uint64_t other_kinds;           // members that sent another kind
  uint64_t wait_ns[DEVICE_SEATS]; // that this rank waited for each member's header
};

enum { DEVICE_SEND = 1, DEVICE_RECV = 2 }; // halves, to be run by one kernel

// All pointers are to device memory (or to memory that the device can read and write); see weft/ep.h for their shapes.
struct device_dispatch {
  uint32_t halves;
  uint32_t kind;       // 1: dispatch, 2: barrier
  uint32_t processors; // to use at most; 0: as opened
  uint32_t topk;       // 0: as opened, and so is `dtype`. The halves of an operation say the same
  int dtype;
  bool narrow;      // topk_idx is of int32_t, else of int64_t
  bool replays;     // in a graph: with other masks each time, and nobody counts it but the kernel
  bool rank_major;  // received
  bool keep_places; // of local_expert and weights: those of the token's top-k
  // send
  const void *x;
  const void *scales; // given with rows cast before; else NULL
  const void *topk_idx;
  const float *topk_weights;     // NULL: they come with the combine
  const uint32_t *num_tokens_at; // NULL: num_tokens, else at most that
  uint32_t num_tokens;
  uint32_t row_stride;                           // bytes; 0, here and below: without room between them
  uint32_t scale_row_stride, scale_block_stride; // elements of 4 bytes
  uint64_t masked; // seats that get no rows; not where it replays: then those of the control
  // receive
  uint32_t rows;
  uint32_t out_scale_row_stride, out_scale_block_stride; // elements of 4 bytes
  uint64_t out_scale_expert_stride;                      // likewise
  void *out;
  void *out_scales;
  int32_t *counts, *src_rank, *src_token;
  int64_t *range;
  int32_t *local_expert;
  float *weights;
  int32_t *expert_total;     // [E], added to; may be NULL
  int64_t *wait_ns;          // [capacity], added to; may be NULL
  struct weft_ep_told *told; // may be NULL
  uint64_t *lost;            // likewise
};

struct device_combine {
  uint32_t halves;
  bool rank_major, renormalize;
  bool late_weights; // topk_weights travel now
  const void *y;
  void *out;
  bool keeps;     // the operation stays open
  uint32_t ahead; // operations before it that are open too and have not come to a combine; then it keeps
  bool again;     // it was kept open: the first half makes room for further answers
  uint32_t topk;  // of the dispatch, as in struct device_dispatch
  int dtype;      // of what travels; 0: as opened. The same for all ranks
  uint32_t processors;
  uint32_t num_tokens;       // of the dispatch, at most
  const void *topk_idx;      // of the dispatch
  bool narrow;               // likewise
  const float *topk_weights; // likewise, or those of now
};

// --- groups for throughput ---

// Where the tokens of an operation went, kept on a device by the caller.
struct device_route;
struct weft_ep_route_arrays;

struct device_route_options {
  uint32_t max_tokens, max_rows, topk, alignment;
};

// The counts of a route, copied from the device.
struct device_route_counts {
  uint64_t op, epoch;   // of the operation that filled it
  uint32_t num_rows;    // received: one for each (rank, token)
  uint32_t packed_rows; // by expert, with the room between the parts
  uint32_t num_ranks, num_lost;
};

// The selections of a call that are to be those which a route knows, and how the route has its own.
struct device_compare {
  const void *topk_idx; // the call's, [num_tokens][topk]
  bool narrow;          // it is of int32_t, else of int64_t
  bool kept_narrow;     // likewise, of the route's
  uint32_t num_tokens, topk;
};

// The first selection that differs.
struct device_difference {
  bool differs; // else there is none, and nothing of the rest
  uint64_t at;  // token * topk + its place
  int64_t given, kept;
};

// A dispatch of a group for throughput, with both halves.
struct device_flow_dispatch {
  struct device_dispatch d;
  uint32_t place;            // 0 or 1: operations that are open at once have different ones
  bool packed, zero_padding; // received
  uint32_t alignment;        // packed, in rows
  int32_t *expert_end;       // packed; may be NULL, and so may `slot`
  int32_t *slot;
  uint32_t row_bytes, scale_bytes; // of opaque rows
  struct device_route *route;      // NULL: none
  bool keeps;                      // goes the ways of the route, which is filled by the dispatch else
};

// A combine of such a group.
struct device_flow_combine {
  struct device_combine c; // its topk_weights: to make up for what is missing; NULL: each selection counts as 1
  uint32_t place;          // of the operation
  bool packed, unweighted;
  uint32_t rows;       // of y: as its receive said
  const void *bias[2]; // NULL: none
  const float *row_weights;
  float *out_weights;
  struct device_route *route; // of the operation; NULL: none
  bool begins;                // an operation of its own, by the route, with the masks of `masked`
  uint64_t masked;
  bool replays; // likewise, as in struct device_dispatch
};

// Rows that a transport moves from our window to the peer's: so many bytes, from the same offset in both.
struct device_move {
  uint64_t offset, bytes;
};

// What goes with a batch of a relay and is not in it.
struct device_moves {
  struct device_move *list; // [count], written
  uint32_t count, room;     // room: of the list
  uint64_t bytes, most;     // of all moves; most: that there may be
  uint64_t number;          // of the batch, from 1 on
  uint64_t landed;          // the newest batch that is in the peer's window, with all before it and their moves
};

// A link whose peer reads the windows of the others' peers, and shows them its own (ep/gpu/remote/sharers.h).
struct device_carrier {
  struct device_relay *relay;
  uint64_t window; // how these peers know the window that its peer has of us
  uint64_t landed; // stamp: its batches up to that one are in this window; UINT64_MAX: all are
};

// What a relay knows of the links that share rows with its own, for one batch. All batches of a rank have stamps, which
// ascend.
struct device_sharing {
  uint64_t stamp;                        // of the batch
  uint32_t seat;                         // of the link
  uint32_t count;                        // 0: it shares with nobody
  const struct device_carrier *carriers; // [count], itself among them, in the same order for all of them
  const uint64_t *counted;               // [DEVICE_SEATS] stamps: as `landed`, of each link; UINT64_MAX: there is none
  uint64_t named_bytes;                  // added to: bytes of rows that did not go, since the peer finds them
};

// Windows of neighbours, for a batch that names rows in them.
struct device_neighbours {
  void *arg;
  // The memory of a window of the same size that the batch's sender writes, by that number; NULL: this rank has none
  // such.
  const char *(*find)(void *arg, uint64_t window);
  // Asked when rows have been copied: false: the sender has let go of this rank, and may have written over them.
  bool (*holds)(void *arg);
};

enum { DEVICE_CONFLICT = 0x100 }; // in device_record.kind: a rank joined since the route was filled, so no rows went

struct device_api {
  uint32_t abi;

  // Devices that this process may use. UNSUPPORTED: no driver, one that is too old, or no device. [any]
  int (*count)(int *count, char *why);
  int (*describe)(int index, struct device_info *info, char *why); // [any]
  // UNSUPPORTED: memory of device `peer` cannot be reached from `index`. [any]
  int (*check_peer)(int index, int peer, char *why);
  int (*open)(int index, struct device **device, char *why); // [any]
  void (*close)(struct device *device);                      // NULL is legal

  // Plain memory for callers, zeroed. [any]
  int (*allocate)(struct device *device, size_t size, void **memory, char *why);
  void (*release)(struct device *device, void *memory);
  // Copies in any direction, in the stream's order; returns when it is done if `wait`.
  int (*copy)(struct device *device, void *to, const void *from, size_t size, void *stream, bool wait, char *why);
  int (*fill)(struct device *device, void *memory, uint8_t byte, size_t size, void *stream, char *why);
  // Which device `memory` is on: -1 for memory that none has. [any]
  int (*owner)(const void *memory, int *index, char *why);
  // Likewise, and how many bytes of its allocation there are from `memory` on. [any]
  int (*extent)(const void *memory, int *index, uint64_t *bytes, char *why);

  // Windows: areas in which nothing has come (cuda/kernels/layout.h). *fd is for the peer; the caller closes it. [any]
  int (*window_create)(struct device *device, size_t size, struct device_window *window, int *fd, char *why);
  int (*window_map)(struct device *device, size_t size, int fd, struct device_window *window, char *why);
  void (*window_release)(struct device *device, struct device_window *window);
  // The same for peers that no descriptor reaches: on other hosts of the GPU's NVLink domain, or in other containers of
  // this one. `name` (DEVICE_NAME bytes) says which window it is. UNSUPPORTED: this host, or the way to the peer,
  // cannot do it.
  int (*fabric_create)(struct device *device, size_t size, struct device_window *window, uint8_t *name, char *why);
  int (*fabric_map)(struct device *device, size_t size, const uint8_t *name, struct device_window *window, char *why);

  // Streams and time.
  int (*stream_open)(struct device *device, void **stream, char *why);
  void (*stream_close)(struct device *device, void *stream);
  // Waits until all that is in the stream is done; TIMEOUT after `timeout_ms`.
  int (*stream_wait)(struct device *device, void *stream, uint32_t timeout_ms, char *why);
  // Index of the stream's device; NULL is the default stream of the current one. INVALID: it is none.
  int (*stream_device)(void *stream, int *index, char *why);
  // The number of the capture into a graph that launches into the stream belong to; 0: they run. [any]
  int (*stream_capture)(void *stream, uint64_t *capture, char *why);
  int (*event_open)(struct device *device, void **event, char *why); // an event: a point in a stream
  void (*event_close)(struct device *device, void *event);
  int (*event_record)(struct device *device, void *event, void *stream, char *why);
  // Time between two events that have passed, in ns.
  int (*event_elapsed)(struct device *device, void *begin, void *end, uint64_t *ns, char *why);
  // Launches of this thread into `stream` are captured from here on, until graph_end() makes a graph of them, ready to
  // run. After an error of a launch it has to be ended all the same: then there is no graph. One thread.
  int (*graph_begin)(struct device *device, void *stream, char *why);
  int (*graph_end)(struct device *device, void *stream, void **graph, char *why);
  int (*graph_launch)(struct device *device, void *graph, void *stream, char *why);
  void (*graph_close)(struct device *device, void *graph); // none of it runs. NULL is legal

  // Bytes of a window for one direction of a link. 0 and `why`: no engine can be so large.
  size_t (*ep_area_bytes)(const struct device_ep_options *options, char *why);
  int (*ep_open)(struct device *device, const struct device_ep_options *options, struct device_ep **ep, char *why);
  // Waits until kernels that are under way have ended: soon, once all seats are gone. The stream of the newest launch
  // is still there, unless stream_wait has waited for it; replays of graphs have ended. NULL is legal.
  void (*ep_close)(struct device_ep *ep);
  uint64_t (*ep_memory)(const struct device_ep *ep); // bytes on the device, windows apart
  const struct device_report *(*ep_report)(const struct device_ep *ep);
  int (*ep_progress)(struct device_ep *ep, struct device_progress *progress, char *why); // [any]
  // Views are published in ascending order, each before a control with a `ready` that covers it. What is published here
  // is seen by every kernel launched after the return, and soon by those that run. BUSY: as many as are remembered are
  // still needed; try again when one has taken effect. [any, one at a time]
  int (*ep_publish)(struct device_ep *ep, const struct device_view *view, char *why);
  int (*ep_control)(struct device_ep *ep, const struct device_control *control, char *why);
  // A new link takes the seat: clears the state of the old one. [any, one at a time with the two above]
  int (*ep_seat)(struct device_ep *ep, uint32_t seat, char *why);
  // The peer's zero-copy memory, mapped here, of zero_copy_bytes; before a view has the seat, which forgets it when it
  // is made anew. [any]
  int (*ep_zero_copy)(struct device_ep *ep, uint32_t seat, const void *memory, char *why);
  // The first operation and its view, published before; `seats` have peers that were told that this rank awaits it.
  // [owner]
  int (*ep_begin)(struct device_ep *ep, const struct device_member *seats, uint32_t count, uint64_t op, uint64_t epoch,
                  char *why);
  // Wakes the links to the peers of `seats`, so that the first operation with them meets none that sleeps. [owner]
  int (*ep_wake_links)(struct device_ep *ep, const struct device_member *seats, uint32_t count, char *why);
  // Waits until a peer among `seats` has published the first operation, and begins with it; polls *cancel meanwhile.
  // TIMEOUT: no peer has (*epoch 0), or one has written another word into `awaiting` (likewise), or the view with
  // *epoch has not been published. [owner]
  int (*ep_await_begin)(struct device_ep *ep, const struct device_member *seats, uint32_t count,
                        struct device_awaiting *awaiting, uint32_t timeout_ms, const volatile bool *cancel,
                        uint64_t *op, uint64_t *epoch, char *why);
  // One rank's kernels run one after the other: in one stream, or in several that are ordered by events. What launches
  // is refused with SYSTEM and the first reason from then on when a call was launched in part. [owner]
  int (*ep_dispatch)(struct device_ep *ep, const struct device_dispatch *args, void *stream, char *why);
  int (*ep_combine)(struct device_ep *ep, const struct device_combine *args, void *stream, char *why);
  // Writes whether each rank below `count` is among the masked seats: `masked`, or where it replays those of the
  // control.
  int (*ep_read_masks)(struct device_ep *ep, int32_t *ranks, uint32_t count, uint64_t masked, bool replays,
                       void *stream, char *why);
  // Ends an operation without a combine, or one that was kept open.
  int (*ep_finish)(struct device_ep *ep, void *stream, char *why);
  // What operation `op` did: the newest two can be asked for. Wait for the stream before.
  int (*ep_record)(struct device_ep *ep, uint64_t op, struct device_record *record, char *why);
  // For each token of the operation's combine, a bit for each member (by index in its view) whose contribution is
  // missing.
  int (*ep_missing)(struct device_ep *ep, uint64_t op, uint64_t *missing, uint32_t num_tokens, char *why);

  // --- groups for throughput ---

  // A new window is ready for the peer: before it is given away.
  int (*flow_clear)(struct device_ep *ep, const struct device_window *in, char *why);
  // As ep_dispatch and ep_combine. LIMIT: the rows, or answers, of one half alone do not fit into a window all at once.
  int (*flow_dispatch)(struct device_ep *ep, const struct device_flow_dispatch *args, void *stream, char *why);
  int (*flow_combine)(struct device_ep *ep, const struct device_flow_combine *args, void *stream, char *why);
  // Memory for a route of a group that was opened so; it outlives the engine, and ends by route_free, once no launch
  // uses it. NULL is legal there.
  int (*route_create)(struct device *device, const struct device_ep_options *ep,
                      const struct device_route_options *options, struct device_route **route, char *why);
  void (*route_free)(struct device_route *route);
  // What this rank will send, without an operation: the first group of the arrays. [owner]
  int (*route_plan)(struct device_ep *ep, struct device_route *route, const void *topk_idx, bool narrow,
                    uint32_t num_tokens, uint64_t masked, void *stream, char *why);
  void (*route_arrays)(const struct device_route *route, struct weft_ep_route_arrays *arrays);
  // Copies of the selections that it was planned or filled with: int64_t or int32_t as they were given, and the weights
  // of the filling.
  void (*route_selections)(const struct device_route *route, const void **topk_idx, const float **weights);
  // Looks for the first selection that differs from the route's; once the stream has run, the second says what was
  // found. Only the newest search of a route can be asked for. [owner]
  int (*route_compare)(struct device_ep *ep, struct device_route *route, const struct device_compare *compare,
                       void *stream, char *why);
  int (*route_difference)(struct device_route *route, const struct device_compare *compare,
                          struct device_difference *difference, char *why);
  // Its counts, and those of the first `cap` local experts: wait for the dispatch that fills it before. NOT_FOUND: none
  // has.
  int (*route_counts)(struct device_route *route, struct device_route_counts *counts, int32_t *expert_rows,
                      uint32_t cap, char *why);

  // Memory of CUDA's own allocator, or of a window (`window`). UNSUPPORTED: others cannot map it. [any]
  int (*share)(const void *memory, uint64_t size, bool window, struct device_share *share, char *why);
  // Where `device` reaches what another process, or this one, shares. `fd`: of a window, stays the caller's. [any]
  int (*share_open)(struct device *device, const struct device_share *share, int fd, void **memory, char *why);
  void (*share_close)(struct device *device, const struct device_share *share, void *memory);
  // Host memory, so that devices copy from and to it by themselves. EXISTS: it is pinned already. [any]
  int (*pin)(void *memory, uint64_t size, char *why);
  void (*unpin)(void *memory);
  // Copies by one device, of memory that it reaches, host memory that is pinned among it; in no order. [any]
  int (*copies_open)(struct device *device, const struct device_copy *copies, uint32_t count,
                     struct device_copies **opened, char *why);
  // Launches them; the last run has passed. An error: none runs.
  int (*copies_run)(struct device_copies *copies, void *stream, char *why);
  // Whether the last run has passed: all devices and processors see what it wrote. An error: none runs any more, since
  // the device has failed, or since the launch of some did and the others have ended.
  int (*copies_passed)(struct device_copies *copies, bool *passed, char *why);
  void (*copies_close)(struct device_copies *copies); // none of it runs. NULL is legal

  // Peers on other hosts have windows in host memory, in which nothing has come (cuda/kernels/layout.h): *host is where
  // the host sees it. From here on kernels of the device do not count on more than 16 bytes to arrive at once. `fd` not
  // NULL: other processes of this host are to read it. Then *fd is a sealed memfd of `size` bytes, and stays the
  // window's; -1: there is none, and nobody else can read it. Memory is handed on from link to link, but not while a
  // process maps it by a descriptor of its own, opened anew and with a shared lock (flock(2)): the kernel keeps such a
  // lock until nothing is mapped by that descriptor. [any]
  int (*host_window_create)(struct device *device, size_t size, struct device_window *window, void **host, int *fd,
                            char *why);
  void (*host_window_release)(struct device *device, struct device_window *window, void *host); // no kernel uses it
  // What goes to and fro between a link's two windows `in` and `out` (as the host sees them) and the peer's. One thread
  // at a time for each of them; nothing waits. In a group for throughput it does for both windows what flow_clear does.
  int (*relay_open)(const struct device_ep_options *options, void *in, void *out, struct device_relay **relay,
                    char *why);
  void (*relay_close)(struct device_relay *relay); // NULL is legal
  // Takes what kernels have written into `out`, as far as it is whole, is not taken yet and fits into `size` bytes
  // (aligned to 16), which a row does. With LATENCY a dispatch's header comes behind all of its rows. Returns how many
  // they are.
  //
  // With `moves` rows of the rings are not in the batch: they say where these lie. They have to be visible in the
  // peer's window before the peer's relay gets the batch, which tells its kernels of them. They do not change before
  // that, unless the peer reads none of them. All batches of a link have moves, or none. With `sharing` rows that the
  // peer can read in the window of a neighbour do not go at all.
  size_t (*relay_collect)(struct device_relay *relay, void *bytes, size_t size, struct device_moves *moves,
                          struct device_sharing *sharing);
  // Where the rings lie in each of the two windows: what the peer's transport may write, and nothing else. They begin
  // with a page. 0 bytes: there are none, with LATENCY.
  void (*relay_rings)(const struct device_relay *relay, uint64_t *offset, uint64_t *bytes);
  // The peer has put all batches up to that stamp into its window; what it sent with that news is not delivered yet.
  void (*relay_landed)(struct device_relay *relay, uint64_t stamp);
  // Writes what the peer's relay has collected into `in`: each batch once, in their order. A batch may name rows in
  // windows of `neighbours`; NULL: there are none. PROTOCOL: a malformed batch. PEER_LOST: the neighbours do not hold.
  int (*relay_deliver)(struct device_relay *relay, const void *bytes, size_t size,
                       const struct device_neighbours *neighbours, char *why);

  // Calls the function with `device` as the calling thread's current one: for libraries that look at it. [any]
  int (*with)(struct device *device, void (*function)(void *arg), void *arg, char *why);
};

// The plug-in's only symbol: `weft_cuda_api`.
typedef const struct device_api *device_api_fn(void);

// The plug-in, loaded on first use: from the folder of this library or program, or where the loader finds it
// (WEFT_CUDA_PLUGIN names another file). UNSUPPORTED: it is not there, or is of another version. [any]
int device_load(const struct device_api **api);

// Reports an error of the plug-in: fail(rc, "<what>: <why>"). Returns rc.
int device_fail(int rc, const char *what, const char *why);

#endif
