// The GPU functions that the layers above use: a table that the plug-in libweft_cuda fills in. The plug-in contains the
// kernels and all calls of CUDA; no other part of Weft includes a header of CUDA.
//
// Functions return 0 or a weft_err; with an error they write the reason into `why` (DEVICE_WHY bytes). Streams are
// cudaStream_t. [any] means that any thread may call at any time. A function leaves the calling thread's current device
// as it was.
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  DEVICE_ABI = 19, // version of this header
  DEVICE_WHY = 256,
  DEVICE_SEATS = 64, // peers of an engine, itself among them
  DEVICE_NAME = 64,  // bytes that name a window to other hosts
  // A peer that is late because it waits for a third one is not silent: it gets so many more time limits.
  DEVICE_EXTENSIONS = 3,
};

struct device;    // a GPU, opened by this process
struct device_ep; // one rank's engine on it
struct device_relay;
struct weft_ep_recv_status; // of weft/ep.h

struct device_info {
  char name[96];
  char pci[16];
  uint8_t uuid[16];
  int major, minor; // compute capability
  uint32_t processors;
  uint64_t memory_bytes;
  bool windows; // its memory can be shared with other processes by file descriptors (VMM)
  // its memory can be shared with other hosts of its NVLink domain, by processes that may use an IMEX channel
  bool fabric;
};

// Memory of a GPU that processes share. Only the plug-in uses the other members than `memory` and `size`.
struct device_window {
  void *memory; // on the device; NULL: none
  size_t size;
  uint64_t handle;
};

// --- copies, also between processes of a host ---

// Names memory of a device so that another process of the host can map it. The struct is plain bytes that can be sent
// to that process.
struct device_share {
  uint64_t process; // random number of the process that shares
  uint64_t address; // of the memory in that process
  uint64_t size;
  uint64_t offset;    // of the memory in the allocation that `handle` names
  uint8_t uuid[16];   // of the device
  uint8_t handle[64]; // handle of CUDA's IPC; zeros: the memory is a window, which is mapped by its descriptor
};

struct device_copy {
  void *to;
  const void *from;
  uint64_t size;
};
struct device_copies; // many copies that run together

// --- the engine ---

struct device_ep_options {
  int32_t rank;
  uint32_t capacity, max_tokens, hidden, topk, experts_per_rank;
  int dtype, combine_dtype; // of weft/ep.h
  uint32_t processors;      // to use at most; 0: all
  uint64_t timeout_ns;      // a peer silent for so long in an operation is lost
  bool throughput;          // rows flow through windows of a bounded size; else windows have room for whole operations
  bool ordered;             // its launches run after those of the device's other engines that are ordered
  uint64_t window_bytes;    // with `throughput`: most bytes of a window
  uint32_t max_rows;        // with `throughput`: most rows that this rank receives in one operation
  const void *zero_copy;    // with `throughput`: memory that peers map, to read its rows in place; NULL: none
  uint64_t zero_copy_bytes;
  uint32_t operations_per_step; // a view takes effect with a multiple of this; 0: with any operation
};

// A member of a view. `seat` identifies the link to one incarnation of the member while the link exists. It is below
// DEVICE_SEATS and unique among the links of this rank. For this rank's own seat `in` and `out` are NULL.
// DEVICE_NO_SEAT: there is no link, so the member counts as lost.
enum { DEVICE_NO_SEAT = 0xFF };
struct device_member {
  int32_t rank;
  uint32_t seat;
  void *in;  // area that the peer writes, in our memory
  void *out; // area that we write, in its memory
};

// The words that a rank which awaits its first operation exchanges with its peers. Index i means peer i of the call's
// `seats`.
struct device_awaiting {
  uint64_t word;  // the state of this rank, published to all peers: ep/view/awaiting.h
  uint64_t takes; // bit i: this rank accepts a first operation that peer i has published
  // The peers' words, as this rank knows them; updated if the wait ends without a start
  uint64_t peers[DEVICE_SEATS];
};

struct device_view {
  uint64_t epoch; // below 2^32
  uint32_t count;
  const struct device_member *members; // ascending by rank
  uint64_t oldest;                     // no kernel will look for an older view than this, or than the active one
};

// What the host writes for the kernels. `gone`: seats of links that are down. `masked`: seats that get no tokens.
struct device_control {
  uint64_t ready, mark;
  uint64_t gone, masked;
};

// Progress of the kernels, in device memory; ep_progress() reads it. It is not in host memory: a kernel that writes
// even one word of host memory ends 1 us later in a stream (not in a graph), because it waits until the word has
// arrived.
struct device_progress {
  uint64_t begun;    // dispatches begun: the number of the newest + 1
  uint64_t ended;    // operations before this number are over (combined or finished); the next kernel writes it
  uint64_t left;     // operations before this number use no area any more; the kernel after that writes it
  uint64_t received; // dispatches whose headers have all been received: the number of the newest + 1
};

// What the kernels report to the host as they run, in host memory. Words are written one by one: in each group from the
// last member to the first one.
enum { DEVICE_ACTIVATIONS = 16 };
struct device_report {
  volatile uint64_t replayed; // dispatches begun by graphs: the number of the newest + 1
  // 1: a kernel has found the seat silent; ep_seat() sets it to 0. One byte for each seat, since both sides write, and
  // few machines have atomic operations between a GPU and host memory.
  volatile uint8_t lost[DEVICE_SEATS];
  // The number of views decided; view i is in entry i % DEVICE_ACTIVATIONS
  volatile uint64_t activations;
  volatile struct {
    uint64_t op, epoch; // the view takes effect with this operation
  } activation[DEVICE_ACTIVATIONS];
};

// The seats that kernels have found silent, one bit for each. [any]
static inline uint64_t device_lost(const struct device_report *report) {
  uint64_t lost = 0;
  for (uint32_t seat = 0; seat < DEVICE_SEATS; seat++)
    lost |= (uint64_t)(__atomic_load_n(&report->lost[seat], __ATOMIC_ACQUIRE) != 0) << seat;
  return lost;
}

// The result of one operation; copied from the device.
struct device_record {
  uint64_t op, epoch, mark;
  uint64_t lost;         // dispatch: members (by index in the view of `epoch`) whose tokens did not arrive
  uint64_t combine_lost; // combine: members whose contributions did not arrive
  uint32_t num_ranks;
  uint32_t num_rows;              // received
  uint32_t needed_rows;           // value of weft_ep_recv_args.rows that holds all rows
  uint32_t sent_rows;             // rows sent to other ranks
  uint32_t answered_rows;         // rows that the combine sent to other ranks
  uint32_t tokens;                // of this rank
  uint32_t selections;            // valid (token, expert) pairs dispatched by this rank
  uint32_t unsent;                // selections that no rank got
  uint32_t missing;               // further selections without a contribution to the newest combine
  uint32_t kind;                  // what this rank sent; 1: dispatch, 2: barrier
  uint64_t other_kinds;           // members that sent another kind
  uint64_t wait_ns[DEVICE_SEATS]; // time that this rank waited for each member's header
};

enum { DEVICE_SEND = 1, DEVICE_RECV = 2 }; // the halves that one kernel runs

// All pointers are to device memory (or to memory that the device can read and write); see weft/ep.h for their shapes.
struct device_dispatch {
  uint32_t halves;
  uint32_t kind;       // 1: dispatch, 2: barrier
  uint32_t processors; // to use at most; 0: as opened
  uint32_t topk;       // 0: as opened; the same for `dtype`. Both halves of an operation have the same values
  int dtype;
  bool narrow;      // topk_idx contains int32_t, else int64_t
  bool replays;     // in a graph: the masks differ each time, and only the kernel counts the operations
  bool rank_major;  // received
  bool keep_places; // local_expert and weights have the places of the token's top-k
  // send
  const void *x;
  const void *scales; // of rows that the caller has cast; else NULL
  const void *topk_idx;
  const float *topk_weights;     // NULL: they follow with the combine
  const uint32_t *num_tokens_at; // number of tokens, at most num_tokens; NULL: num_tokens
  uint32_t num_tokens;
  uint32_t row_stride;                           // bytes; 0, here and below: no gap between rows
  uint32_t scale_row_stride, scale_block_stride; // elements of 4 bytes
  uint64_t masked;                               // seats that get no rows; if `replays`, those of the control instead
  // receive
  uint32_t rows;
  uint32_t out_scale_row_stride, out_scale_block_stride; // elements of 4 bytes
  uint64_t out_scale_expert_stride;                      // the same
  void *out;
  void *out_scales;
  int32_t *counts, *src_rank, *src_token;
  int64_t *range;
  int32_t *local_expert;
  float *weights;                     // rank_major [rows][K], packed [rows]; else NULL
  int32_t *expert_total;              // [E], added to; may be NULL
  int64_t *wait_ns;                   // [capacity], added to; may be NULL
  struct weft_ep_recv_status *status; // may be NULL
  uint64_t *lost;                     // may be NULL
};

struct device_combine {
  uint32_t halves;
  bool rank_major, renormalize;
  bool late_weights; // topk_weights are sent now
  const void *y;
  void *out;
  bool keeps;     // the operation stays open
  uint32_t ahead; // earlier operations that are still open and have had no combine; if there are any, `keeps` is set
  bool again;     // the operation was kept open: the first half makes room for further answers
  uint32_t topk;  // of the dispatch, as in struct device_dispatch
  int dtype;      // type of the values sent; 0: as opened. The same for all ranks
  uint32_t processors;
  uint32_t num_tokens;       // of the dispatch, at most
  const void *topk_idx;      // of the dispatch
  bool narrow;               // topk_idx contains int32_t, else int64_t
  const float *topk_weights; // of the dispatch, or with late_weights those of this call
};

// --- groups for throughput ---

// The destinations of an operation's tokens, which the caller keeps on a device.
struct device_route;
struct weft_ep_route_arrays;

struct device_route_options {
  uint32_t max_tokens, max_rows, topk, alignment;
};

// The counts of a route, copied from the device.
struct device_route_counts {
  uint64_t op, epoch;   // of the operation that filled it
  uint32_t num_rows;    // rows received: one for each (rank, token)
  uint32_t packed_rows; // rows packed by expert, with the gaps between the parts
  uint32_t num_ranks, num_lost;
};

// Compares the selections of a call with the selections of a route.
struct device_compare {
  const void *topk_idx; // of the call: [num_tokens][topk]
  bool narrow;          // topk_idx contains int32_t, else int64_t
  bool kept_narrow;     // the same for the selections of the route
  uint32_t num_tokens, topk;
};

// The first selection that differs.
struct device_difference {
  bool differs; // false: no selection differs, and the other members are not set
  uint64_t at;  // token * topk + place of the selection
  int64_t given, kept;
};

// A dispatch of a group for throughput, with both halves.
struct device_flow_dispatch {
  struct device_dispatch d;
  uint32_t place;            // 0 or 1: operations that are open at the same time have different places
  bool packed, zero_padding; // layout of what is received
  uint32_t alignment;        // of PACKED, in rows
  int32_t *expert_end;       // of PACKED; may be NULL; so may `slot`
  int32_t *slot;
  uint32_t row_bytes, scale_bytes; // of opaque rows
  struct device_route *route;      // NULL: none
  bool keeps;                      // the dispatch uses the destinations of the route; false: it fills the route
};

// A combine of such a group.
struct device_flow_combine {
  struct device_combine c; // its topk_weights compensate for missing contributions; NULL: each weight is 1
  uint32_t place;          // of the operation
  bool packed, unweighted;
  uint32_t rows;            // rows of y: as its receive said
  const void *bias[2];      // NULL: none
  const float *row_weights; // rank_major [S][K], else one for each row of y; NULL: none
  float *out_weights;
  struct device_route *route; // of the operation; NULL: none
  bool begins;                // the combine is an operation of its own, which uses the route and the masks of `masked`
  uint64_t masked;
  bool replays; // as in struct device_dispatch
};

// Rows that a transport moves from our window to the peer's: `bytes` bytes, from the same offset in both.
struct device_move {
  uint64_t offset, bytes;
};

// The moves that accompany a batch of a relay and are not part of it.
struct device_moves {
  struct device_move *list; // [count], written
  uint32_t count, room;     // room: entries that `list` can hold
  uint64_t bytes, most;     // bytes: of all moves; most: the limit for them
  uint64_t number;          // of the batch, from 1 on
  uint64_t landed;          // the newest batch that is in the peer's window, with all earlier batches and their moves
};

// A link of a group whose peers read each other's windows (ep/gpu/remote/sharers.h).
struct device_carrier {
  struct device_relay *relay;
  uint64_t window; // the number by which these peers know the window of this link at its peer
  uint64_t landed; // stamp: batches up to this one are in the window; UINT64_MAX: all are
};

// For one batch: what a relay knows of the links that share rows with its own link. All batches of a rank have
// ascending stamps.
struct device_sharing {
  uint64_t stamp; // of the batch
  uint32_t seat;  // of the link
  uint32_t count; // 0: the link shares with no other link
  // [count], the link itself included, in the same order for all of these links
  const struct device_carrier *carriers;
  const uint64_t *counted; // [DEVICE_SEATS] stamps like `landed`, for each link; UINT64_MAX: there is no link
  uint64_t named_bytes;    // increased by the bytes of rows that were not sent, because the peer finds them
};

// The windows of neighbours, for a batch that names rows in them.
struct device_neighbours {
  void *arg;
  // Returns the memory of the window with this number, which has the same size and which the batch's sender writes;
  // NULL: this rank has no such window.
  const char *(*find)(void *arg, uint64_t window);
  // Called after rows have been copied. False: the sender has given this rank up, and may have overwritten the rows.
  bool (*holds)(void *arg);
};

// in device_record.kind: a rank joined after the route was filled, so no rows were sent
enum { DEVICE_CONFLICT = 0x100 };

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
  // Copies in any direction, in the stream's order. With `wait` it returns when the copy is done.
  int (*copy)(struct device *device, void *to, const void *from, size_t size, void *stream, bool wait, char *why);
  int (*fill)(struct device *device, void *memory, uint8_t byte, size_t size, void *stream, char *why);
  // Finds the device that has `memory`: -1 if no device has it. [any]
  int (*owner)(const void *memory, int *index, char *why);
  // The same, and the number of bytes from `memory` to the end of its allocation. [any]
  int (*extent)(const void *memory, int *index, uint64_t *bytes, char *why);

  // Windows: empty areas (cuda/kernels/layout.h). *fd is for the peer; the caller closes it. [any]
  int (*window_create)(struct device *device, size_t size, struct device_window *window, int *fd, char *why);
  int (*window_map)(struct device *device, size_t size, int fd, struct device_window *window, char *why);
  void (*window_release)(struct device *device, struct device_window *window);
  // The same for peers that cannot get a descriptor: on other hosts of the GPU's NVLink domain, or in other containers
  // of this host. `name` (DEVICE_NAME bytes) identifies the window. UNSUPPORTED: this host, or the connection to the
  // peer, does not support it.
  int (*fabric_create)(struct device *device, size_t size, struct device_window *window, uint8_t *name, char *why);
  int (*fabric_map)(struct device *device, size_t size, const uint8_t *name, struct device_window *window, char *why);

  // Streams and time.
  int (*stream_open)(struct device *device, void **stream, char *why);
  void (*stream_close)(struct device *device, void *stream);
  // Waits until all that is in the stream is done; TIMEOUT after `timeout_ms`.
  int (*stream_wait)(struct device *device, void *stream, uint32_t timeout_ms, char *why);
  // Finds the index of the stream's device; NULL is the default stream of the current device. INVALID: it is no stream.
  int (*stream_device)(void *stream, int *index, char *why);
  // The number of the graph capture to which launches into the stream belong; 0: there is no capture, launches run.
  // [any]
  int (*stream_capture)(void *stream, uint64_t *capture, char *why);
  int (*event_open)(struct device *device, void **event, char *why); // an event: a point in a stream
  void (*event_close)(struct device *device, void *event);
  int (*event_record)(struct device *device, void *event, void *stream, char *why);
  // Time between two events that have passed, in ns.
  int (*event_elapsed)(struct device *device, void *begin, void *end, uint64_t *ns, char *why);
  // Begins to capture the launches of this thread into `stream`. graph_end() makes a graph of them that is ready to
  // run. The caller has to call it also after a launch has failed; then there is no graph. One thread.
  int (*graph_begin)(struct device *device, void *stream, char *why);
  int (*graph_end)(struct device *device, void *stream, void **graph, char *why);
  int (*graph_launch)(struct device *device, void *graph, void *stream, char *why);
  void (*graph_close)(struct device *device, void *graph); // none of it runs. NULL is legal

  // Returns the bytes of a window for one direction of a link. 0 and `why`: an engine cannot be that large.
  size_t (*ep_area_bytes)(const struct device_ep_options *options, char *why);
  int (*ep_open)(struct device *device, const struct device_ep_options *options, struct device_ep **ep, char *why);
  // Waits until running kernels have ended, which is soon after all seats are gone. The stream of the newest launch
  // must still exist, unless stream_wait() has waited for it; replays of graphs must have ended. NULL is legal.
  void (*ep_close)(struct device_ep *ep);
  uint64_t (*ep_memory)(const struct device_ep *ep); // bytes on the device, without windows
  const struct device_report *(*ep_report)(const struct device_ep *ep);
  int (*ep_progress)(struct device_ep *ep, struct device_progress *progress, char *why); // [any]
  // Views must be published in ascending order, each one before a control whose `ready` covers it. Every kernel
  // launched after the return sees the published view; kernels that run already see it soon. BUSY: all views that can
  // be stored are still needed; try again when one has taken effect. [any, one at a time]
  int (*ep_publish)(struct device_ep *ep, const struct device_view *view, char *why);
  int (*ep_control)(struct device_ep *ep, const struct device_control *control, char *why);
  // A new link takes the seat: clears the state of the old one. [any, one at a time with the two above]
  int (*ep_seat)(struct device_ep *ep, uint32_t seat, char *why);
  // Sets the peer's zero-copy memory as mapped here; it has zero_copy_bytes. To be called before a view contains the
  // seat; ep_seat() deletes it. [any]
  int (*ep_zero_copy)(struct device_ep *ep, uint32_t seat, const void *memory, char *why);
  // Sets the first operation and its view, which has been published before. `seats` are the peers that know that this
  // rank awaits it. [owner]
  int (*ep_begin)(struct device_ep *ep, const struct device_member *seats, uint32_t count, uint64_t op, uint64_t epoch,
                  char *why);
  // Wakes the links to the peers of `seats`, so that none of them sleeps at the first operation. [owner]
  int (*ep_wake_links)(struct device_ep *ep, const struct device_member *seats, uint32_t count, char *why);
  // Waits until a peer among `seats` has published the first operation, and begins with it; polls *cancel meanwhile.
  // TIMEOUT: no peer has published it (*epoch is 0), or a peer has written a new word into `awaiting` (*epoch is 0), or
  // the view with *epoch has not been published. [owner]
  int (*ep_await_begin)(struct device_ep *ep, const struct device_member *seats, uint32_t count,
                        struct device_awaiting *awaiting, uint32_t timeout_ms, const volatile bool *cancel,
                        uint64_t *op, uint64_t *epoch, char *why);
  // The kernels of a rank must run one after the other: in one stream, or in several streams ordered by events. After a
  // call was launched only in part, all calls that launch return SYSTEM with the first reason. [owner]
  int (*ep_dispatch)(struct device_ep *ep, const struct device_dispatch *args, void *stream, char *why);
  int (*ep_combine)(struct device_ep *ep, const struct device_combine *args, void *stream, char *why);
  // Writes whether each rank below `count` is among the masked seats: `masked`, or with `replays` those of the control.
  int (*ep_read_masks)(struct device_ep *ep, int32_t *ranks, uint32_t count, uint64_t masked, bool replays,
                       void *stream, char *why);
  // Ends an operation that has no combine, or that was kept open.
  int (*ep_finish)(struct device_ep *ep, void *stream, char *why);
  // Reads the result of operation `op`, which must be one of the newest two. Wait for the stream before.
  int (*ep_record)(struct device_ep *ep, uint64_t op, struct device_record *record, char *why);
  // For each token of the operation's combine, a bit for each member (by index in its view) whose contribution is
  // missing.
  int (*ep_missing)(struct device_ep *ep, uint64_t op, uint64_t *missing, uint32_t num_tokens, char *why);

  // --- groups for throughput ---

  // Prepares a new window for the peer, before the peer gets it.
  int (*flow_clear)(struct device_ep *ep, const struct device_window *in, char *why);
  // Like ep_dispatch and ep_combine. LIMIT: the call has one half only, and all its rows or answers do not fit into a
  // window at the same time.
  int (*flow_dispatch)(struct device_ep *ep, const struct device_flow_dispatch *args, void *stream, char *why);
  int (*flow_combine)(struct device_ep *ep, const struct device_flow_combine *args, void *stream, char *why);
  // Allocates a route for a group that was opened with the options `ep`. The route may outlive the engine. route_free()
  // frees it, when no launch uses it any more; NULL is legal there.
  int (*route_create)(struct device *device, const struct device_ep_options *ep,
                      const struct device_route_options *options, struct device_route **route, char *why);
  void (*route_free)(struct device_route *route);
  // Computes what this rank will send, without an operation: the first group of the arrays. [owner]
  int (*route_plan)(struct device_ep *ep, struct device_route *route, const void *topk_idx, bool narrow,
                    uint32_t num_tokens, uint64_t masked, void *stream, char *why);
  void (*route_arrays)(const struct device_route *route, struct weft_ep_route_arrays *arrays);
  // Gets copies of the selections with which the route was planned or filled (int64_t or int32_t, as given), and of the
  // weights with which it was filled.
  void (*route_selections)(const struct device_route *route, const void **topk_idx, const float **weights);
  // route_compare() launches a search for the first selection that differs from the route's. When the stream has run,
  // route_difference() reads the result. It reads only the newest search of a route. [owner]
  int (*route_compare)(struct device_ep *ep, struct device_route *route, const struct device_compare *compare,
                       void *stream, char *why);
  int (*route_difference)(struct device_route *route, const struct device_compare *compare,
                          struct device_difference *difference, char *why);
  // Reads the counts of the route, and of the first `cap` local experts. Wait for the dispatch that fills the route
  // before. NOT_FOUND: no dispatch has filled it.
  int (*route_counts)(struct device_route *route, struct device_route_counts *counts, int32_t *expert_rows,
                      uint32_t cap, char *why);

  // Shares memory of CUDA's own allocator, or of a window (`window`). UNSUPPORTED: other processes cannot map it. [any]
  int (*share)(const void *memory, uint64_t size, bool window, struct device_share *share, char *why);
  // Maps memory that this or another process shares, so that `device` reaches it. `fd`: descriptor of a window; it
  // stays the caller's. [any]
  int (*share_open)(struct device *device, const struct device_share *share, int fd, void **memory, char *why);
  void (*share_close)(struct device *device, const struct device_share *share, void *memory);
  // Pins host memory, so that devices copy from and to it by themselves. Ranges may overlap: pages stay pinned until
  // each pin() of them has had its unpin(), with the same range. EXISTS: other code has pinned all of it. INVALID:
  // other code has pinned a part of it. [any]
  int (*pin)(void *memory, uint64_t size, char *why);
  void (*unpin)(void *memory, uint64_t size);
  // Prepares copies by one device, in no order. The device must reach the memory; pinned host memory is allowed. [any]
  int (*copies_open)(struct device *device, const struct device_copy *copies, uint32_t count,
                     struct device_copies **opened, char *why);
  // Launches the copies; the previous run must have ended. After an error no copy runs.
  int (*copies_run)(struct device_copies *copies, void *stream, char *why);
  // Says whether the last run has ended, so that all devices and processors see what it wrote. After an error no copy
  // runs any more: the device has failed, or the launch of some copies has failed and the others have ended.
  int (*copies_passed)(struct device_copies *copies, bool *passed, char *why);
  void (*copies_close)(struct device_copies *copies); // none of it runs. NULL is legal

  // Creates an empty window (cuda/kernels/layout.h) in host memory, for a peer on another host. *host is its address on
  // the host. From now on kernels of the device rely on no more than 16 bytes to arrive as a whole. `fd` not NULL:
  // other processes of this host are to read the window. Then *fd is a sealed memfd of `size` bytes, which belongs to
  // the window, or -1: there is no memfd, and no other process can read the window. The memory of a released window is
  // used again for other links, but not while a process maps it by a descriptor that this process opened anew and holds
  // a shared lock on (flock(2)): the kernel keeps such a lock until nothing is mapped by that descriptor. [any]
  int (*host_window_create)(struct device *device, size_t size, struct device_window *window, void **host, int *fd,
                            char *why);
  void (*host_window_release)(struct device *device, struct device_window *window, void *host); // no kernel uses it
  // Opens a relay, which carries data between a link's two windows `in` and `out` (addresses on the host) and the
  // windows of the peer. One thread at a time for each relay; no call waits. In a group for throughput, relay_open()
  // does for both windows what flow_clear() does.
  int (*relay_open)(const struct device_ep_options *options, void *in, void *out, struct device_relay **relay,
                    char *why);
  void (*relay_close)(struct device_relay *relay); // NULL is legal
  // Collects from `out` the data that kernels have written, if it is complete, has not been collected yet and fits into
  // `size` bytes (aligned to 16); a row always fits. With LATENCY the header of a dispatch follows all of its rows.
  // Returns the number of bytes.
  //
  // With `moves` the batch does not contain the rows of the rings; `moves` says where they lie. The rows must be
  // visible in the peer's window before the peer's relay gets the batch, because the batch announces them to the peer's
  // kernels. The rows do not change before that, unless the peer reads none of them. Either all batches of a link have
  // moves, or none. With `sharing`, rows that the peer can read in the window of a neighbour are not sent at all.
  size_t (*relay_collect)(struct device_relay *relay, void *bytes, size_t size, struct device_moves *moves,
                          struct device_sharing *sharing);
  // Gets the range of the rings in each of the two windows. The peer's transport may write this range only. It begins
  // at a page boundary. 0 bytes: there are no rings (LATENCY).
  void (*relay_rings)(const struct device_relay *relay, uint64_t *offset, uint64_t *bytes);
  // Reports that the peer has put all batches up to that stamp into its window. The batch that arrived with this report
  // has not been delivered yet.
  void (*relay_landed)(struct device_relay *relay, uint64_t stamp);
  // Writes a batch that the peer's relay has collected into `in`. Each batch must be delivered once, in order. A batch
  // may name rows in windows of `neighbours`; NULL: there are none. PROTOCOL: the batch is malformed. PEER_LOST:
  // `holds` of the neighbours returned false.
  int (*relay_deliver)(struct device_relay *relay, const void *bytes, size_t size,
                       const struct device_neighbours *neighbours, char *why);

  // Calls the function with `device` as the calling thread's current device: for libraries that use the current device.
  // [any]
  int (*with)(struct device *device, void (*function)(void *arg), void *arg, char *why);
};

// The plug-in's only symbol: `weft_cuda_api`.
typedef const struct device_api *device_api_fn(void);

// Gets the plug-in. The first call loads it from the folder of this library or program, or from where the loader finds
// it (WEFT_CUDA_PLUGIN names another file). UNSUPPORTED: there is no plug-in, or it has another version. [any]
int device_load(const struct device_api **api);

// Reports an error of the plug-in: fail(rc, "<what>: <why>"). Returns rc.
int device_fail(int rc, const char *what, const char *why);

#endif
