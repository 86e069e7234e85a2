/**
 * @file ep.h
 * @brief Elastic expert parallelism: dispatch and combine among ranks that join, leave and die.
 *
 * A *group* of ranks shares a store and a key prefix. Rank r owns experts [r*E, (r+1)*E), E =
 * experts_per_rank. The *view* is the agreed set of active ranks; it changes only by an agreed step, and each
 * change takes effect at one operation number for everybody, while operations go on
 * (docs/design/membership.md says how).
 *
 * An *operation* is one dispatch and, usually, the combine that answers it. Every rank of the view takes part
 * in every operation, in the same order, with 0 tokens if it has none. Each half may be issued apart:
 * dispatch_send, dispatch_recv, combine_send, combine_recv; two operations may overlap.
 *
 * A lost peer costs one deadline (or, when the kernel reports its death, milliseconds): the operation
 * ends without it, its results say what is missing, and the next one runs without that rank.
 *
 * On CUDA memory (weft_ep_options.memory) every buffer of an operation is device memory of the rank's GPU, and the
 * calls are ordered in the caller's streams: they launch kernels and return. `info` or `result` given, a call waits for
 * its kernel; else ask weft_ep_await() later. What a call would have returned for a lost peer is there to be read,
 * never an error of CUDA. The launches can be captured in a CUDA graph, which replays across operations and changes of
 * view: kernels count operations themselves, so that the numbers given to the host's calls matter for eager launches
 * only. Eager launches and replays are not mixed while an operation is open.
 *
 * Symbols in shapes: T tokens of this rank, H hidden, K top-k, E experts per rank, S rows of a receive buffer.
 * Thread rules: [owner] one thread at a time uses the handle for operations; [any] any thread, at any time.
 */
#ifndef WEFT_EP_H
#define WEFT_EP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/err.h>
#include <weft/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_ep weft_ep_t; /**< one rank's membership in a group, with its buffers */

enum {
  WEFT_EP_MAX_TOKENS = 1024,  /**< tokens per rank and operation */
  WEFT_EP_MAX_HIDDEN = 16384, /**< hidden, a multiple of WEFT_EP_BLOCK */
  WEFT_EP_MAX_TOPK = 16,
  WEFT_EP_MAX_EXPERTS = 256,   /**< experts per rank */
  WEFT_EP_MAX_CAPACITY = 4096, /**< rank indices of a group */
  WEFT_EP_BLOCK = 128,         /**< values that share one fp8 scale */
  WEFT_EP_DEPTH = 2,           /**< operations that may overlap */
};

/** What travels in a dispatch. */
enum weft_ep_dtype {
  WEFT_EP_BF16 = 0,
  /** e4m3, one f32 scale per 128 values: scale = max(amax, 1e-4) / 448, value = e4m3(x / scale) */
  WEFT_EP_FP8 = 1,
  /** the same with the scale rounded up to a power of two */
  WEFT_EP_FP8_POW2 = 2,
  /** the same, the scales as ue8m0 (OCP Microscaling: a byte, exponent + 127; 255 is NaN): uint32_t [ceil(H/512)] for
   *  a row, block b in byte b % 4, the lowest first, of word b / 4; bytes without a block are 0 */
  WEFT_EP_FP8_UE8M0 = 3,
};

/** What travels in a combine, from one rank to another; what the caller gives and gets is bf16. */
enum weft_ep_combine_dtype {
  WEFT_EP_COMBINE_BF16 = 0,
  /** 10 bits a value, on a logarithmic scale of its own for each 128 values, whose two ends come through as they are.
   *  Off by at most 0.07 % of the value for each power of two between these ends, rounding to bf16 aside; by 2.2 % at
   *  most, for the scale ends at 2^-32 of the largest magnitude: what is smaller becomes 0 or that. 128 values with an
   *  infinity or NaN among them become NaN. Two thirds of the bytes: 10H/8 + 8H/128 for a row */
  WEFT_EP_COMBINE_LOGFMT10 = 1,
};

/** Where the buffers of operations lie, and who moves them. */
enum weft_ep_memory {
  WEFT_EP_MEMORY_HOST = 0, /**< host memory: the processor, over shared memory */
  WEFT_EP_MEMORY_CUDA = 1, /**< memory of one GPU: kernels, over NVLink or PCIe peer access */
  WEFT_EP_MEMORY_AUTO = 2, /**< CUDA where this process has a GPU that can do it, else host; weft_ep_memory() tells */
};

/** How received rows are laid out. */
enum weft_ep_layout {
  /** x[E][expert_rows][H]: the rows of each local expert, packed; a token stands once for each of its local
   *  experts. combine() weighs and sums them. */
  WEFT_EP_PER_EXPERT = 0,
  /** x[S][H]: each token once per rank, with its local experts and weights. The caller reduces over its experts;
   *  combine() sums the ranks' rows unweighted. */
  WEFT_EP_RANK_MAJOR = 1,
};

/** What a rank index is to this rank. */
enum weft_ep_rank_state {
  WEFT_EP_ABSENT = 0,    /**< nothing known, or gone */
  WEFT_EP_CONNECTED = 1, /**< windows mapped both ways, not in the active view */
  WEFT_EP_ACTIVE = 2,    /**< in the active view */
  WEFT_EP_MASKED = 3,    /**< in the active view; this rank sends it no tokens (weft_ep_mask_update) */
  WEFT_EP_LOST = 4,      /**< in the active view, found dead or silent; a view without it is on its way */
};

/** What happened, for weft_ep_options.on_event. */
enum weft_ep_event_kind {
  WEFT_EP_EVENT_CONNECTED,  /**< windows with `rank` are mapped both ways; on another host: `detail` is the way */
  WEFT_EP_EVENT_PEER_LOST,  /**< `rank` was found dead or silent; `detail` says how */
  WEFT_EP_EVENT_COMMITTED,  /**< view `epoch` is agreed on */
  WEFT_EP_EVENT_ACTIVATED,  /**< view `epoch` takes effect with operation `op` */
  WEFT_EP_EVENT_RELEASED,   /**< windows with `rank` are unmapped */
  WEFT_EP_EVENT_STORE_LOST, /**< the store does not answer: operations go on, changes wait */
  WEFT_EP_EVENT_STORE_BACK, /**< it does again */
  WEFT_EP_EVENT_FENCED,     /**< a view without this rank is agreed on, though it did not ask to leave */
};

/** One event of a group, as this rank sees it. */
struct weft_ep_event {
  enum weft_ep_event_kind kind; /**< what happened */
  int32_t rank;                 /**< peer concerned, -1 for none */
  uint64_t incarnation;         /**< of that peer */
  uint64_t epoch;               /**< view concerned, 0 for none */
  uint64_t op;                  /**< operation concerned, 0 for none */
  uint64_t time_ns;             /**< CLOCK_MONOTONIC */
  const char *detail;           /**< a few words, or "" */
};

/** [callback] from the owner's thread or one of the library's; return soon, call nothing of this handle. */
typedef void (*weft_ep_event_fn)(void *arg, const struct weft_ep_event *event);

/** How to open. Initialise with WEFT_EP_OPTIONS_INIT; zero means the default of each field. All ranks of a
 *  group must agree on capacity, max_tokens, hidden, topk, experts_per_rank, dtype and combine_dtype;
 *  connect checks it. */
struct weft_ep_options {
  size_t size;               /**< sizeof(struct weft_ep_options) */
  weft_store_t *store;       /**< required; stays the caller's, outlives the handle */
  const char *prefix;        /**< the group's keys, ending in '/'; default "/weft/default/" */
  int32_t rank;              /**< this rank's index; -1: the lowest free one */
  uint32_t capacity;         /**< rank indices are below it; default 64 */
  const int32_t *founders;   /**< ranks of the first view, this one among them. None: found the group alone, */
  uint32_t num_founders;     /**< or join the one that is there */
  uint32_t max_tokens;       /**< default 128 */
  uint32_t hidden;           /**< default 7168; a multiple of 128 */
  uint32_t topk;             /**< default 8 */
  uint32_t experts_per_rank; /**< default 2 */
  enum weft_ep_dtype dtype;  /**< of dispatch */
  /** A peer silent for so long in an operation is lost; default 5,000. One that does not come because it waits for a
   *  third rank in turn is not silent: it gets up to three times as long again. */
  uint32_t op_timeout_ms;
  uint32_t lease_ttl_s;       /**< the store forgets a rank so long after its last sign of life; default 10 */
  weft_ep_event_fn on_event;  /**< may be NULL */
  void *event_arg;            /**< first argument of on_event */
  bool join_only;             /**< there is a group: await its view, and never found one, even if the store has lost it;
                                 weft_ep_open waits for it up to a lease's time, so that it takes no member's rank */
  enum weft_ep_memory memory; /**< all ranks of a group have the same */
  int32_t device;             /**< CUDA: index of the GPU; -1 (from OPTIONS_INIT): the thread's current one */
  uint32_t max_processors;    /**< CUDA: streaming multiprocessors that a kernel may take; default all of them. Ranks
                                   of one process that share a GPU must share these out among them */
  enum weft_ep_combine_dtype combine_dtype; /**< of combine */
  /** Way to ranks on other hosts: the transport "ofi" or "ucx"; "nvlink": only where NVLink joins the GPUs; "none":
   *  this host only. NULL: the environment's WEFT_EP_TRANSPORT; else, unless the store is of this process, NVLink where
   *  it reaches, and where not the first transport that works. NVLink joins hosts of one domain and containers of one
   *  host whose processes may use the same IMEX channel. All ranks have the same. */
  const char *transport;
  /** Where ranks on other hosts call: comma-separated addresses or interfaces of this host. NULL: WEFT_ADDRESS or
   *  WEFT_INTERFACE, else the addresses of all interfaces that are up, but loopback. Who can read the store can call;
   *  what travels is not encrypted. */
  const char *listen;
  /** Ranks with different ones reach each other as on different hosts. NULL: WEFT_HOST_ID, else all of a host's ranks
   *  share its memory. */
  const char *host_id;
};
#ifdef __cplusplus
}
inline weft_ep_options weft_ep_options_init() {
  weft_ep_options options = weft_sized<weft_ep_options>();
  options.rank = -1;
  options.device = -1;
  return options;
}
extern "C" {
#define WEFT_EP_OPTIONS_INIT weft_ep_options_init()
#else
/** Initial value: its size, rank -1, device -1, and 0, the default, for every other field. */
#define WEFT_EP_OPTIONS_INIT                                                                                           \
  { .size = sizeof(struct weft_ep_options), .rank = -1, .device = -1 }
#endif

/**
 * Claims the rank under a new incarnation, opens its windows and starts its service thread. No peer is connected
 * yet. EXISTS: another live process holds the rank (waits for `timeout_ms` that it goes). [any]
 */
WEFT_API int weft_ep_open(weft_ep_t **ep, const struct weft_ep_options *options, uint32_t timeout_ms);

/**
 * Leaves at once and frees everything; peers see a clean departure. An active rank that wants to leave without
 * costing the others anything calls weft_ep_disconnect() on itself first and goes on until it is out. NULL is
 * legal. CUDA: what was launched is to have run, so wait for the streams before. [owner]
 */
WEFT_API void weft_ep_close(weft_ep_t *ep);

/** Where the operations' buffers lie: HOST or CUDA; `*device` (may be NULL) is the GPU's index, -1 for none. [any] */
WEFT_API enum weft_ep_memory weft_ep_memory(const weft_ep_t *ep, int32_t *device);

/** This rank's index. [any] */
WEFT_API int32_t weft_ep_rank(const weft_ep_t *ep);
/** This rank's incarnation: random, new at each open. [any] */
WEFT_API uint64_t weft_ep_incarnation(const weft_ep_t *ep);

/**
 * Connects to each of `ranks`: waits until it has come, exchanges and maps windows both ways. The other side needs
 * no call. Connecting twice is no error. TIMEOUT names the ranks that did not come; those that did stay connected.
 * INVALID: a rank out of range, or this one. VERSION: a peer runs with other sizes; says which. [owner]
 */
WEFT_API int weft_ep_connect(weft_ep_t *ep, const int32_t *ranks, size_t count, uint32_t timeout_ms);

/**
 * Makes this rank active. A founder waits for the other founders, and returns when the first view is agreed on.
 * A joiner connects to every active rank, proposes the view with itself, and returns when the running ranks have
 * fixed the operation with which it takes effect: they must be running operations. No running rank waits. [owner]
 */
WEFT_API int weft_ep_activate(weft_ep_t *ep, uint32_t timeout_ms);

/**
 * Proposes the view without `ranks` and returns when it is agreed on; it takes effect within the next few
 * operations, which all ranks, the leaving ones included, go on running. A rank that is not active is only
 * unmapped; NOT_FOUND names one that is not even connected. Itself among `ranks`: it leaves, see
 * weft_ep_is_active(). [owner]
 */
WEFT_API int weft_ep_disconnect(weft_ep_t *ep, const int32_t *ranks, size_t count, uint32_t timeout_ms);

/** Whether this rank takes part in the next operation. False before activation and after it has left. [owner] */
WEFT_API bool weft_ep_is_active(const weft_ep_t *ep);

/** Number of the next operation. [owner] */
WEFT_API uint64_t weft_ep_next_op(const weft_ep_t *ep);

/** The view of the next operation: its epoch, and its ranks, ascending, into ranks[cap]; `*count` is how many there
 *  are, also when `cap` is less. [owner] */
WEFT_API int weft_ep_view(const weft_ep_t *ep, uint64_t *epoch, int32_t *ranks, size_t cap, size_t *count);

/** The newest agreed view, which may not have taken effect yet. Likewise. [any] */
WEFT_API int weft_ep_committed_view(const weft_ep_t *ep, uint64_t *epoch, int32_t *ranks, size_t cap, size_t *count);

/** State of every rank index into states[capacity]. [owner] */
WEFT_API int weft_ep_mask_query(const weft_ep_t *ep, enum weft_ep_rank_state *states);

/** Masks an active rank for this rank's own traffic (its contributions count as missing), or unmasks it, from the
 *  next dispatch on. The rank stays in the view, and headers still flow. [owner] */
WEFT_API int weft_ep_mask_update(weft_ep_t *ep, int32_t rank, bool masked);

/**
 * A number that rides on every operation from the next dispatch on; each dispatch tells the lowest one of the active
 * ranks, the same to all (a rank that dies in mid-dispatch may have told it to some only: the others then learn a
 * higher number one operation earlier, as long as nobody's sinks and a joiner brings its own). With it ranks agree,
 * without a store or a pause, on the operation at which something begins: a phase, a weight version, the end.
 * Default 0. [owner]
 */
WEFT_API void weft_ep_set_mark(weft_ep_t *ep, uint64_t mark);

/** What to dispatch. */
struct weft_ep_dispatch {
  size_t size;             /**< sizeof(struct weft_ep_dispatch) */
  const void *x;           /**< bf16 [T][H], or with `scales` e4m3; read until dispatch_send returns */
  uint32_t num_tokens;     /**< T, 0 to max_tokens */
  const int64_t *topk_idx; /**< [T][K] global expert, or -1 for none. CUDA: this and topk_weights stay as they are until
                                the combine has run; an expert that does not exist is one whose rank is not there */
  const float *topk_weights; /**< [T][K], or NULL: they come with the combine (PER_EXPERT only) */
  /** fp8: float [T][H/128], ue8m0: uint32_t [T][ceil(H/512)], read as long as x, which then is e4m3 [T][H]: both travel
   *  as given, for a caller whose layer before has made them. What they mean is the caller's: nothing is looked at.
   *  CUDA, and bf16 too: four aligned bytes FF FF FF FF of x, or of a float scale, arrive as FF FF FF 7F: as numbers
   *  both are NaN. NULL: x is bf16, and is cast here. */
  const void *scales;
  void *stream; /**< CUDA: the cudaStream_t of dispatch_send; NULL: the default stream */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_DISPATCH_INIT WEFT_SIZED(struct weft_ep_dispatch)

/** Where to receive; the caller owns every buffer. Pointers marked * may be NULL. */
struct weft_ep_recv {
  size_t size;                /**< sizeof(struct weft_ep_recv) */
  enum weft_ep_layout layout; /**< how the received rows are laid out */
  uint32_t rows;      /**< PER_EXPERT: rows of each expert's part; RANK_MAJOR: S. max_tokens times the active ranks is
                           enough, unless a view with more ranks takes effect in mid-operation or a token selects one
                           expert twice; LIMIT says how many were needed. At most INT32_MAX in all */
  void *x;            /**< bf16 or e4m3; PER_EXPERT [E][rows][H], RANK_MAJOR [rows][H]. NULL: see rows_at */
  void *scales;       /**< fp8: float, PER_EXPERT [E][rows][H/128], RANK_MAJOR [rows][H/128]; ue8m0: uint32_t, with
                           ceil(H/512) in the place of H/128 */
  int32_t *counts;    /**< [E] rows of each local expert; RANK_MAJOR: (token, expert) pairs of each */
  int32_t *src_rank;  /**< *[E][rows] or [rows]: rank that the row came from */
  int32_t *src_token; /**< *[E][rows] or [rows]: the token's index there */
  int64_t *range;     /**< *PER_EXPERT [E][capacity], RANK_MAJOR [capacity]: begin << 32 | count of each source */
  int32_t *local_expert; /**< *RANK_MAJOR [rows][K]: local expert ids in top-k order, then -1 */
  float *weights;        /**< *RANK_MAJOR [rows][K]: their weights, then 0 */
  /** *In place, with x NULL: where each row lies, [E][rows] or [rows]: H values, for fp8 its scales right behind them.
   *  Nothing is copied: rows of other ranks stay in the windows that they came through, this rank's own in args->x of
   *  weft_ep_dispatch (or in the library's memory: fp8, or halves apart). They stay as they are until
   *  weft_ep_combine_send, weft_ep_combine or weft_ep_finish of this operation is called, whatever happens to their
   *  senders; args->x has to stay as long. Their sender maps them too: one that breaks the protocol could still change
   *  values, as it could before, but now between two readings. */
  const void **rows_at;
  int32_t *expert_total; /**< *[E], added to: rows (RANK_MAJOR: pairs) of each local expert */
  int64_t *wait_ns;      /**< *[capacity], added to: ns that this rank waited for each source's dispatch */
  void *stream;          /**< CUDA: the cudaStream_t of dispatch_recv */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_RECV_INIT WEFT_SIZED(struct weft_ep_recv)

/** What an operation's dispatch did. Valid after dispatch_recv. */
struct weft_ep_info {
  size_t size;            /**< sizeof(struct weft_ep_info) */
  uint64_t op;            /**< the operation */
  uint64_t epoch;         /**< view it ran in */
  uint32_t num_ranks;     /**< ranks of that view */
  uint32_t num_rows;      /**< rows received: PER_EXPERT over all experts, RANK_MAJOR in all */
  uint32_t num_lost;      /**< ranks of the view whose tokens did not come */
  int32_t *lost;          /**< in: room for `lost_cap` ranks or NULL; out: the first of them, ascending */
  uint32_t lost_cap;      /**< room of `lost`, in ranks */
  uint64_t mark;          /**< lowest mark of the ranks heard (weft_ep_set_mark) */
  uint64_t wire_bytes;    /**< sent to other ranks in the dispatch: rows, scales and row headers */
  uint64_t logical_bytes; /**< per valid (token, expert): 2H + 16 for bf16, H + 16 and its scales for fp8 */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_INFO_INIT WEFT_SIZED(struct weft_ep_info)

/** What to combine, and where to. */
struct weft_ep_combine {
  size_t size;               /**< sizeof(struct weft_ep_combine) */
  const void *y;             /**< bf16, in the layout and row order of the receive; read until combine_send returns.
                                  NULL after weft_ep_combine_rows */
  const float *topk_weights; /**< PER_EXPERT: [T][K] when the dispatch had none; else NULL */
  bool renormalize;          /**< scale each token by (all weights) / (weights that came), where some are missing */
  void *out;                 /**< bf16 [T][H], written by combine_recv; a token with no contribution is 0 */
  void *stream;              /**< CUDA: the cudaStream_t of the half that is called */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_COMBINE_INIT WEFT_SIZED(struct weft_ep_combine)

/** A selection that brought no contribution. */
struct weft_ep_missing {
  int32_t token;  /**< index in this rank's dispatch */
  int32_t k;      /**< place in its top-k */
  int64_t expert; /**< global index of the selected expert */
};

/** What a combine did. */
struct weft_ep_result {
  size_t size;                     /**< sizeof(struct weft_ep_result) */
  uint32_t num_lost;               /**< ranks of the view whose contributions did not come */
  uint32_t num_missing;            /**< selections without contribution: the rank lost, masked, or not in the view */
  struct weft_ep_missing *missing; /**< in: room for `missing_cap` or NULL; out: the first, by token and k */
  uint32_t missing_cap;            /**< room of `missing`, in entries */
  uint64_t wire_bytes;             /**< sent to other ranks in the combine */
  uint64_t logical_bytes;          /**< 2H per valid (token, expert) of this rank's dispatch */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_RESULT_INIT WEFT_SIZED(struct weft_ep_result)

/**
 * Begins operation `*op`: routes, casts and writes this rank's tokens to their ranks. May wait for a peer to have
 * taken its rows of two operations ago, and never longer than op_timeout_ms allows; a peer that has not is lost, which
 * is no error. INVALID names the first bad argument, and the operation has not begun. FENCED: this rank is out of the
 * view. NOT_CONNECTED: not active yet. BUSY: two operations are open already. [owner]
 */
WEFT_API int weft_ep_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch *args, uint64_t *op);

/** Receives operation `op`: waits for every active rank's tokens (see op_timeout_ms), and lays them out by source
 *  rank, then by token. `info` may be NULL. Losses are no error: see `info->num_lost`. [owner] */
WEFT_API int weft_ep_dispatch_recv(weft_ep_t *ep, uint64_t op, const struct weft_ep_recv *recv,
                                   struct weft_ep_info *info);

/**
 * RANK_MAJOR, between dispatch_recv and combine_send, which may then have y NULL: tells where to write the output of
 * each received row, bf16 [H], in the row order of the receive, so that combine_send copies nothing. For rows of other
 * ranks that is the window that they read, so write each line once and in full, best past the caches unless the two
 * processors share one; what is there is not defined. The caller has ended every write before it calls combine_send.
 * May wait for a peer to have taken its rows of two operations ago, like dispatch_send; the rows of one that has not
 * all have one address, and it is lost. `rows_at` has info->num_rows places. INVALID: PER_EXPERT, a combine of
 * LOGFMT10, or not the time. UNSUPPORTED: CUDA memory; there y is read where it lies, and never copied before it
 * travels. [owner]
 */
WEFT_API int weft_ep_combine_rows(weft_ep_t *ep, uint64_t op, void **rows_at);

/** Sends back the experts' outputs of `op`: one row per (rank, token). With late weights, first exchanges them. */
WEFT_API int weft_ep_combine_send(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine *args);

/** Receives the contributions of `op` and sums them into `args->out` (the same args as for combine_send), in rank
 *  order, in fp32, rounded once. Ends the operation. `result` may be NULL. Losses are no error. [owner] */
WEFT_API int weft_ep_combine_recv(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine *args,
                                  struct weft_ep_result *result);

/** Ends an operation without a combine; every rank of the view does so, or none. CUDA: in the stream of the
 *  operation's last launch. [owner] */
WEFT_API int weft_ep_finish(weft_ep_t *ep, uint64_t op);

/** dispatch_send and dispatch_recv in one; CUDA: one kernel, in args->stream. On host memory, after LIMIT the operation
 *  is open: call dispatch_recv with more room, and keep args->x and args->scales readable until it returns. Rows may go
 *  to other hosts straight from args->x: it waits until they have left, or their rank is lost (up to half a second more
 *  than op_timeout_ms); after it the network reads no memory of the caller's. [owner] */
WEFT_API int weft_ep_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch *args, const struct weft_ep_recv *recv,
                              struct weft_ep_info *info, uint64_t *op);

/** combine_send and combine_recv in one. What weft_ep_dispatch says of args->x holds for args->y. [owner] */
WEFT_API int weft_ep_combine(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine *args,
                             struct weft_ep_result *result);

/**
 * CUDA: waits until the launches of operation `op` so far are done, and fills what is not NULL; `op` is one of the
 * newest two. UINT64_MAX: the newest that the device has begun, whoever launched it, a graph's replay too; of a replay
 * the dispatch is awaited, its stream is for the caller to wait for, and result->missing is not filled. TIMEOUT leaves
 * the work in the stream. LIMIT: recv.rows were too few, `info` says how many rows came; those beyond are lost,
 * and the operation goes on. On host memory: what the calls told. [owner]
 */
WEFT_API int weft_ep_await(weft_ep_t *ep, uint64_t op, struct weft_ep_info *info, struct weft_ep_result *result,
                           uint32_t timeout_ms);

/** An operation without tokens: returns when every active rank has come to it. PEER_LOST names those that did not
 *  within op_timeout_ms; they are lost. CUDA: in the stream of the last launch. [owner] */
WEFT_API int weft_ep_barrier(weft_ep_t *ep);

/** Counters since open; bytes are those of `weft_ep_info` and `weft_ep_result`. On CUDA memory bytes, `missing` and
 *  `wait_ns` are those of operations that were asked for by info or result, window_bytes holds the engine's workspace
 *  too, and of a peer's bytes nothing is counted. */
struct weft_ep_stats {
  size_t size;                  /**< sizeof(struct weft_ep_stats) */
  uint64_t operations;          /**< operations begun */
  uint64_t dispatch_wire_bytes, /**< as weft_ep_info.wire_bytes, summed */
      dispatch_logical_bytes;   /**< as weft_ep_info.logical_bytes, summed */
  uint64_t combine_wire_bytes,  /**< as weft_ep_result.wire_bytes, summed */
      combine_logical_bytes;    /**< as weft_ep_result.logical_bytes, summed */
  uint64_t connected;           /**< peers connected now */
  uint64_t window_bytes;        /**< memory of this rank's windows now */
  uint64_t activations;         /**< views that took effect */
  uint64_t lost;                /**< peers found dead or silent */
  uint64_t missing;             /**< selections without contribution */
  uint64_t wait_ns;             /**< time spent waiting for peers */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_STATS_INIT WEFT_SIZED(struct weft_ep_stats)
WEFT_API int weft_ep_stats(const weft_ep_t *ep, struct weft_ep_stats *stats); /**< [owner] */

/** Counters of one peer, since it was connected. */
struct weft_ep_peer_stats {
  size_t size;           /**< sizeof(struct weft_ep_peer_stats) */
  uint64_t incarnation;  /**< incarnation of the peer */
  uint64_t sent_bytes,   /**< bytes sent to the peer */
      received_bytes;    /**< bytes received from it */
  uint64_t window_bytes; /**< memory of the window that this peer writes to */
  uint64_t wait_ns;      /**< time that this rank waited with this peer the last to come */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_PEER_STATS_INIT WEFT_SIZED(struct weft_ep_peer_stats)
/** NOT_FOUND: not connected. [owner] */
WEFT_API int weft_ep_peer_stats(const weft_ep_t *ep, int32_t rank, struct weft_ep_peer_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
