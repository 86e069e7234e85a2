/**
 * @file ep.h
 * @brief Elastic expert parallelism: dispatch and combine among ranks that join, leave and die.
 *
 * A *group* of ranks shares a store and a key prefix. Rank r holds experts [r*E, (r+1)*E), E = experts_per_rank. The
 * *view* is the agreed set of active ranks, and its number is the *epoch*. It changes only by agreement, and each
 * change takes effect at one operation number for all ranks, while operations go on (docs/design/membership.md says
 * how).
 *
 * An *operation* is one dispatch and, usually, the combine that answers it. Every rank of the view takes part in every
 * operation, in the same order, with 0 tokens if it has none. Each half has calls of its own: weft_ep_dispatch_send(),
 * weft_ep_dispatch_recv(), weft_ep_combine_send(), weft_ep_combine_recv(). Two operations may be open at once.
 *
 * A lost peer costs one deadline or, when the kernel reports its death, milliseconds: the operation ends without it,
 * its results say what is missing, and a view without that rank follows.
 *
 * The smallest example, one rank of two, without error handling; examples/ep_rank is a whole program, and README.md has
 * the middle part:
 *
 *     const int32_t founders[] = {0, 1};
 *     struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
 *     options.store = store;
 *     options.rank = 0;
 *     options.founders = founders;
 *     options.num_founders = 2;
 *     weft_ep_open(&ep, &options, 10000);
 *     weft_ep_activate(ep, 10000);
 *     weft_ep_dispatch(ep, &tokens, &received, NULL, &op);
 *     // the experts turn received.x into y
 *     weft_ep_combine(ep, op, &y_and_sums, NULL);
 *     weft_ep_close(ep);
 *
 * A joiner that the running ranks take in when they like, with as many others as they like; without error handling:
 *
 *     weft_ep_offer(ep, 10000);                         // the joiner
 *     weft_ep_await_start(ep, WEFT_WAIT_FOREVER, NULL); // then it operates like every rank
 *
 *     struct weft_ep_change_args change = WEFT_EP_CHANGE_ARGS_INIT; // one of the running ranks
 *     change.add = joiners;
 *     change.num_add = 2;
 *     weft_ep_change(ep, &change, 10000); // both, or the view as it was
 *
 * **Memory.** weft_ep_options.memory says where the rows of operations lie. In the texts of fields, *rank memory* is
 * that: memory of the host, or memory of the rank's GPU (or what that GPU can read and write). *Host memory* is memory
 * of the host on both. All structs themselves are in host memory, and are read before the call returns; it keeps none
 * of them.
 *
 * **CUDA memory.** The calls follow the order of the caller's streams: they launch kernels and return. The caller must
 * not change the rank memory that it gave to a call until those kernels have run; work that comes later in the stream
 * may overwrite it. A stream that is NULL is the default stream. Calls without a stream launch in the stream of the
 * last launch, so that stream has to exist until there is a launch in another one, or the group is closed. A call that
 * is given `info` or `result` waits for its kernel; otherwise weft_ep_await() gets them later. Lost peers are reported
 * there, never as an error of CUDA. If CUDA refuses one launch of a call after it has accepted others of the same call,
 * the rank is stuck: that call and all later calls that launch return SYSTEM, until the rank is closed. The launches
 * can be captured in a CUDA graph, which may be replayed across operations and changes of view: the kernels count
 * operations themselves, so the numbers that host calls take and return matter for eager launches only. Eager launches
 * and replays must not be mixed while an operation is open. An operation that begins in a capture has to end in the
 * same capture, and one that begins outside must not end in one (INVALID). A view has at most 64 ranks.
 *
 * **Symbols in shapes.** T: tokens of this rank. H: hidden. K: top-k of the dispatch. E: experts per rank. S: rows of a
 * receive buffer. [rows]: weft_ep_recv_args.rows, so [E][rows] is E parts with room for as many rows each. [capacity]:
 * weft_ep_options.capacity.
 *
 * **Types.** weft_ep_options opens a group for one type of a dispatch, one of a combine, and one top-k. Each call may
 * name others, as long as their rows take no more room than those that the group was opened for: bf16 leaves room for
 * all, fp8 for every fp8. All ranks of an operation have to dispatch one type with one top-k (PROTOCOL:
 * weft_ep_dispatch_recv() names the rank that differs; on CUDA memory that rank is lost to this one). On host memory
 * each rank chooses the type of a combine for the rows that it sends; on CUDA memory all ranks choose the same. Between
 * hosts that NVLink does not join, CUDA memory with LATENCY has the types and the top-k of the group only
 * (UNSUPPORTED).
 *
 * **Threads.** [owner]: one thread at a time uses the handle. [any]: any thread at any time, also while the owner is
 * inside a call. No other call may use a handle while it is closed, or afterwards. The library has threads of its own
 * for each handle; they accept peers, watch the store and drive transports.
 *
 * **Time.** Calls with a `timeout_ms` wait for the store and for peers, at most for so long; with 0 they look once, and
 * with WEFT_WAIT_FOREVER they have no deadline. On host memory the calls of an operation wait for peers, each at most
 * for op_timeout_ms, or up to four times as long for peers that in turn wait for a third rank. On CUDA memory the
 * kernels wait in the same way. Dispatch and combine allocate nothing and take no lock that waits.
 *
 * **Errors.** Every call may return INVALID (an argument is wrong), NOMEM, SYSTEM (the operating system or CUDA
 * refuses) and LIMIT (no more descriptors, threads, or what the call says). A call with a `timeout_ms` returns TIMEOUT
 * when the time has passed, or UNREACHABLE if the store did not answer at that time; the sentence names whom it waited
 * for. Such calls, and those of an operation, return CANCELED after weft_ep_interrupt(). The texts of the calls name
 * only further errors, and what an error means there.
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

typedef struct weft_ep_route weft_ep_route_t; /**< where the tokens of an operation went, kept by the caller */

enum {
  WEFT_EP_BLOCK = 128, /**< values that share one fp8 scale */
};

/** The type of the values that a dispatch sends. 0: as the group was opened, and there bf16. */
enum weft_ep_dtype {
  WEFT_EP_BF16 = 1, /**< bf16 */
  /** e4m3, one f32 scale per 128 values: scale = max(amax, 1e-4) / 448, value = e4m3(x / scale) */
  WEFT_EP_FP8 = 2,
  /** the same with the scale rounded up to a power of two */
  WEFT_EP_FP8_POW2 = 3,
  /** the same, the scales as ue8m0 (OCP Microscaling: a byte, exponent + 127; 255 is NaN): uint32_t [ceil(H/512)] for a
   *  row, block b in byte b % 4, the lowest first, of word b / 4; bytes without a block are 0 */
  WEFT_EP_FP8_UE8M0 = 4,
  /** bytes that the library does not look at: row_bytes of values and scale_bytes of scales for each token, which the
   *  caller's layer has made (NVFP4, MXFP8). It is said in each call: a group is opened for a type whose rows have room
   *  for it. On CUDA memory with THROUGHPUT only */
  WEFT_EP_OPAQUE = 5,
};

/** The type of the values that a combine sends from one rank to another; what the caller gives and gets is bf16. 0: as
 *  the group was opened, and there bf16. */
enum weft_ep_combine_dtype {
  WEFT_EP_COMBINE_BF16 = 1, /**< bf16 */
  /** 10 bits a value, on a logarithmic scale of its own for each 128 values, whose two ends are exact. The error is at
   *  most 0.07 % of the value for each power of two between these ends, besides rounding to bf16, and at most 2.2 %,
   *  since the scale ends at 2^-32 of the largest magnitude: a smaller value becomes 0 or that end. 128 values with an
   *  infinity or NaN among them become NaN. A row takes 10H/8 + 8H/128 bytes, two thirds of those of bf16. */
  WEFT_EP_COMBINE_LOGFMT10 = 2,
};

/** What a group is made for. 0: LATENCY for up to weft_ep_limits.max_latency_tokens tokens, else THROUGHPUT. */
enum weft_ep_mode {
  /** A few tokens as fast as they can be, as decoding has them: a window has room for the rows of whole operations. */
  WEFT_EP_LATENCY = 1,
  /** Many tokens, as prefill and training have them: rows flow in pieces through windows of a bounded size
   *  (weft_ep_options.window_bytes), on few processors. weft_ep_dispatch() and weft_ep_combine() send and receive at
   *  once. The single halves, weft_ep_recv_args.rows_at and weft_ep_combine_rows() are for operations whose rows fit
   *  into a window all at once, else LIMIT; weights of the top-k come with the dispatch. On CUDA memory a window has
   *  room for the rows of one operation and the answers of one combine: a half that was sent is received before another
   *  one is sent, else BUSY; no operation is combined behind a newer one; and window_bytes has room for a few rows in
   *  each of a window's channels, else INVALID says how much that takes */
  WEFT_EP_THROUGHPUT = 2,
};

/** Where the buffers of operations lie, and what moves them. */
enum weft_ep_memory {
  WEFT_EP_MEMORY_HOST = 0, /**< host memory: the processor, over shared memory or a transport */
  WEFT_EP_MEMORY_CUDA = 1, /**< memory of one GPU: kernels, over NVLink or PCIe peer access, else a transport */
  WEFT_EP_MEMORY_AUTO =
      2, /**< CUDA if this process has a GPU that can do it, else host; weft_ep_get_memory() says which */
};

/** How received rows are laid out. 0: PER_EXPERT. */
enum weft_ep_layout {
  /** x[E][rows][H]: the rows of each local expert one after the other. A token has a row for each of its local experts.
   *  The combine weighs and sums them. */
  WEFT_EP_PER_EXPERT = 1,
  /** x[S][H]: a token has one row on each rank that holds any of its experts, with its local experts and weights. The
   *  caller computes the weighted sum over these; the combine adds the rows of the ranks, unweighted. */
  WEFT_EP_RANK_MAJOR = 2,
  /** x[S][H]: as PER_EXPERT, without room between the experts: the part of each begins at the first multiple of
   *  weft_ep_recv_args.alignment that is not before the end of the part before it. CUDA: THROUGHPUT only */
  WEFT_EP_PACKED = 3,
};

/** What a rank index is to this rank. */
enum weft_ep_rank_state {
  WEFT_EP_ABSENT = 0,    /**< not connected, not in the active view */
  WEFT_EP_CONNECTED = 1, /**< windows mapped in both directions, not in the active view */
  WEFT_EP_ACTIVE = 2,    /**< in the active view */
  WEFT_EP_MASKED = 3,    /**< in the active view; this rank sends it no tokens (weft_ep_mask_update()) */
  WEFT_EP_LOST = 4,      /**< in the active view, found dead or silent; a view without it is being agreed on */
};

/** What happened: weft_ep_event.kind. */
enum weft_ep_event_kind {
  WEFT_EP_EVENT_CONNECTED = 1,  /**< windows with `rank` are mapped in both directions; on another host `detail` is the
                                   way */
  WEFT_EP_EVENT_PEER_LOST = 2,  /**< this rank found `rank` dead or silent; `detail` says how. Of a loss that others
                                   found first, COMMITTED may be the only event: its view is without the rank */
  WEFT_EP_EVENT_COMMITTED = 3,  /**< view `epoch` is agreed on */
  WEFT_EP_EVENT_ACTIVATED = 4,  /**< view `epoch` takes effect with operation `op` */
  WEFT_EP_EVENT_RELEASED = 5,   /**< windows with `rank` are unmapped */
  WEFT_EP_EVENT_STORE_LOST = 6, /**< the store does not answer: operations go on, changes of the view wait */
  WEFT_EP_EVENT_STORE_BACK = 7, /**< it answers again */
  WEFT_EP_EVENT_FENCED =
      8, /**< this rank was removed: a view without it is agreed on, though it did not ask to leave */
};

enum { WEFT_EP_DETAIL_SIZE = 200 }; /**< room of weft_ep_event.detail, its end included */

/** One event of a group, as this rank sees it: see weft_ep_next_event(). Initialise with WEFT_EP_EVENT_INIT. */
struct weft_ep_event {
  size_t size;                      /**< sizeof(struct weft_ep_event) */
  enum weft_ep_event_kind kind;     /**< what happened */
  int32_t rank;                     /**< peer concerned, -1: none; FENCED: this rank */
  uint64_t incarnation;             /**< of that rank, 0: none */
  uint64_t epoch;                   /**< view concerned, 0: none */
  uint64_t op;                      /**< operation concerned; ACTIVATED only, else 0 */
  uint64_t time_ns;                 /**< when it happened, CLOCK_MONOTONIC */
  uint64_t dropped;                 /**< events for which there was no room since the one that was taken before */
  char detail[WEFT_EP_DETAIL_SIZE]; /**< a few words, or "" */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_EVENT_INIT WEFT_SIZED(struct weft_ep_event)
/** The same for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_event_init(struct weft_ep_event *event, size_t size);

/** What weft_ep_options.flags may ask for. */
enum weft_ep_option_flags {
  /** Join a group, and never found one, even when the store has lost its view; not together with founders.
   *  weft_ep_open() then waits for the view up to the time of a lease, so that this rank takes no member's index. */
  WEFT_EP_OPTION_JOIN_ONLY = 1 << 0,
  /** CUDA: of all ranks of this process on this GPU that have the flag, only one runs at a time. They are of different
   *  groups, and the caller launches their operations into one stream, or into streams that events order, and in the
   *  same order on all hosts. So each of them may take all processors. In another order their kernels wait for each
   *  other up to op_timeout_ms. Host memory: no effect. */
  WEFT_EP_OPTION_ORDERED = 1 << 1,
};

/**
 * How to open a rank. Initialise with WEFT_EP_OPTIONS_INIT; a field that is 0 or NULL has its default. All ranks of a
 * group have the same capacity, max_tokens, hidden, topk, experts_per_rank, dtype, combine_dtype and memory: connecting
 * compares them (VERSION). weft_ep_get_limits() says how large they may be. All memory is the host's; the library
 * copies the founders and all strings.
 */
struct weft_ep_options {
  size_t size;             /**< sizeof(struct weft_ep_options) */
  weft_store_t *store;     /**< required; stays the caller's, and has to outlive the handle */
  const char *prefix;      /**< of the group's keys in the store, ending in '/', the same for all its ranks, e.g.
                              "/JOB/"; may be NULL with a store inside this process */
  const int32_t *founders; /**< [num_founders] ranks of the first view, this one among them; `rank` is given then.
                              Default: none, and this rank joins the group, or founds it alone if there is none */
  /** Way to ranks on other hosts, the same for all ranks: the transport "ofi" or "ucx"; "nvlink": only where NVLink
   *  joins the GPUs; "none": no other host. Default: the environment's WEFT_EP_TRANSPORT; else none if the store is
   *  inside this process; else NVLink where it reaches, and elsewhere ofi, then ucx, which has RDMA only unless it is
   *  named. NVLink joins hosts of one domain, and containers of one host whose processes may use the same IMEX
   *  channel. */
  const char *transport;
  /** Where ranks on other hosts connect to this one: addresses or interfaces of this host, comma-separated. Default:
   *  the environment's WEFT_ADDRESS or WEFT_INTERFACE; else the addresses of all interfaces that are up, except
   *  loopback. Whoever can read the store can connect; rows are not encrypted. */
  const char *listen;
  /** Ranks with different ones reach each other as if they were on different hosts. Default: the environment's
   *  WEFT_HOST_ID; else all ranks of a host share its memory. */
  const char *host_id;
  uint32_t num_founders;     /**< entries of founders; 0 with founders NULL, and then only */
  int32_t rank;              /**< this rank's index; -1 (from WEFT_EP_OPTIONS_INIT): the lowest free one */
  uint32_t capacity;         /**< rank indices are below it; default 64 */
  uint32_t max_tokens;       /**< tokens of a rank in one operation, at most; default 128 */
  uint32_t hidden;           /**< values of a token, a multiple of WEFT_EP_BLOCK; default 7168 */
  uint32_t topk;             /**< experts that a token selects, at most; default 8 */
  uint32_t experts_per_rank; /**< experts that each rank holds; default 2 */
  enum weft_ep_dtype dtype;  /**< of dispatch, where a call says no other; default bf16 */
  enum weft_ep_combine_dtype combine_dtype; /**< of combine, likewise; default bf16 */
  /** A peer that does not come within this time in an operation is lost; default 5,000. One that does not come because
   *  it waits for a third rank gets up to three times as long again. */
  uint32_t op_timeout_ms;
  uint32_t lease_ttl_s;       /**< the store gives this rank up so long after its last renewal; default 10 */
  enum weft_ep_memory memory; /**< where the rows lie; default: host memory */
  int32_t device;             /**< CUDA: index of the GPU; -1 (from WEFT_EP_OPTIONS_INIT): the thread's current one */
  uint32_t max_processors;    /**< CUDA: streaming multiprocessors that a kernel may take; default: all. Ranks of one
                                 process that share a GPU must divide these among them, unless they are
                                 WEFT_EP_OPTION_ORDERED */
  uint32_t flags;             /**< WEFT_EP_OPTION_* */
  uint32_t reserved;          /**< 0 */
  uint64_t window_bytes;  /**< THROUGHPUT: memory, in bytes, that a peer's rows flow through on their way to this rank,
                             at most; the same for all ranks. Default: 64 MiB, whatever max_tokens is. CUDA memory, for
                             a peer on a host that NVLink does not reach: twice as much, of pinned host memory */
  enum weft_ep_mode mode; /**< what the group is made for, the same for all ranks */
  uint32_t max_rows;      /**< THROUGHPUT: rows that this rank receives in one operation, at most, which its bookkeeping
                             has room for; default: max_tokens times the capacity */
  uint64_t zero_copy_bytes; /**< THROUGHPUT: of weft_ep_get_zero_copy_memory(), the same for all ranks. Default: 0,
                               none */
};
#ifdef __cplusplus
}
namespace {
inline weft_ep_options weft_initial_ep_options() {
  weft_ep_options options = weft_sized<weft_ep_options>();
  options.rank = -1;
  options.device = -1;
  return options;
}
} // namespace
extern "C" {
#define WEFT_EP_OPTIONS_INIT (weft_initial_ep_options())
#else
/** Initial value: its size, rank -1, device -1, and 0, the default, for every other field. */
#define WEFT_EP_OPTIONS_INIT                                                                                           \
  ((struct weft_ep_options){.size = sizeof(struct weft_ep_options), .rank = -1, .device = -1})
#endif
/** Writes WEFT_EP_OPTIONS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_options_init(struct weft_ep_options *options, size_t size);

/** How large groups may be. Initialise with WEFT_EP_LIMITS_INIT. */
struct weft_ep_limits {
  size_t size;                   /**< sizeof(struct weft_ep_limits) */
  uint32_t max_tokens;           /**< the largest weft_ep_options.max_tokens, */
  uint32_t max_hidden;           /**< .hidden, */
  uint32_t max_topk;             /**< .topk, */
  uint32_t max_experts_per_rank; /**< .experts_per_rank */
  uint32_t max_capacity;         /**< and .capacity */
  uint32_t max_cuda_ranks;       /**< ranks of a view on CUDA memory */
  uint32_t depth;                /**< operations that may be open at once */
  uint32_t max_combines;         /**< combines of one operation (WEFT_EP_COMBINE_KEEP) */
  uint32_t max_latency_tokens;   /**< the largest weft_ep_options.max_tokens with LATENCY */
  uint32_t min_processors;       /**< CUDA: the fewest processors that a kernel with THROUGHPUT may be given */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_LIMITS_INIT WEFT_SIZED(struct weft_ep_limits)
/** Writes WEFT_EP_LIMITS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_limits_init(struct weft_ep_limits *limits, size_t size);
/** Writes the limits of this library. INVALID: `limits` was not initialised. [any] */
WEFT_API int weft_ep_get_limits(struct weft_ep_limits *limits);

/**
 * Claims the rank in the store under a new incarnation, opens its windows and starts the library's threads. No peer is
 * connected yet. It blocks for at most `timeout_ms`. The caller closes `*ep` with weft_ep_close(). EXISTS: another live
 * process holds the rank, and did not release it in time. LIMIT: all ranks of the group are claimed. AUTH: the store
 * refuses this client. UNSUPPORTED: memory is CUDA, and no GPU here can do it; the sentence says why. Others are those
 * of the store. [any]
 */
WEFT_API int weft_ep_open(weft_ep_t **ep, const struct weft_ep_options *options, uint32_t timeout_ms);

/**
 * Leaves at once and frees everything; peers see that the rank has left. An active rank that wants to leave without
 * cost for the others first calls weft_ep_disconnect() on itself and goes on until weft_ep_is_active() is false. It
 * blocks: for milliseconds while the store answers, for up to five seconds while it does not; then the lease ends the
 * claim. NULL is legal. CUDA: wait for the streams first; launches that have not run are given
 * op_timeout_ms. [owner]
 */
WEFT_API void weft_ep_close(weft_ep_t *ep);

/** Where the rows of operations lie: HOST or CUDA; `*device` (may be NULL) is the GPU's index, -1 for none. [any] */
WEFT_API enum weft_ep_memory weft_ep_get_memory(const weft_ep_t *ep, int32_t *device);

/**
 * Memory for rows that peers read where they lie (zero copy): `*bytes` (may be NULL) of rank memory, zeroed, aligned to
 * 4 KiB, as weft_ep_options.zero_copy_bytes says; NULL: none. It is the caller's to lay out, until weft_ep_close().
 *
 * On CUDA memory a combine copies none of the rows that lie in it into windows: each peer reads its own over NVLink and
 * adds them, so that half as many processors take less time. This is so for `y` of weft_ep_combine() and
 * weft_ep_combine_route() if it is RANK_MAJOR and travels as bf16; row_weights has to be in it too, where there are
 * any. The call ends in its stream when all peers have read, so that what comes next there may write to the memory. It
 * copies, as with other memory, if a peer is on another host or does not map it, if memory is the host's, for a single
 * half, and where there are 16 GiB of it or more. All processes of the group can write to the memory, as to windows.
 * [any]
 */
WEFT_API void *weft_ep_get_zero_copy_memory(const weft_ep_t *ep, uint64_t *bytes);

/** This rank's index. [any] */
WEFT_API int32_t weft_ep_rank(const weft_ep_t *ep);
/** This rank's incarnation: random, new at each open. [any] */
WEFT_API uint64_t weft_ep_incarnation(const weft_ep_t *ep);

/**
 * Takes the oldest event that is queued: 1, and `*event` is filled; 0: there is none. A rank queues its events from
 * weft_ep_open() on, and keeps at least the newest 256. Beyond these the oldest goes first, except FENCED and the last
 * PEER_LOST of each rank, which stay until they are taken; `event->dropped` counts what went. INVALID: an argument is
 * wrong. It does not wait. [any]
 */
WEFT_API int weft_ep_next_event(weft_ep_t *ep, struct weft_ep_event *event);

/** Writes a descriptor to `*fd` that is readable (POLLIN, EPOLLIN) while events are queued: for poll and epoll, never
 * to read from. It is the handle's, which closes it. It is made at the first call; LIMIT: no descriptor is left. [any]
 */
WEFT_API int weft_ep_fd(weft_ep_t *ep, int *fd);

/**
 * Ends a wait: that of the call which waits in this handle now, else of the next one that has to wait. It returns
 * CANCELED, once; a call that finds what it needs without a wait is not touched. [any], also from a handler of a
 * signal: it is async-signal-safe.
 *
 * What CANCELED leaves: weft_ep_connect(), weft_ep_activate() and the other calls with a `timeout_ms` leave what
 * TIMEOUT leaves. A call of an operation on host memory, weft_ep_barrier() too, goes on where it was when the same call
 * is made again with the same arguments; until then its buffers stay in use, and peers wait for this rank as for a slow
 * one. After weft_ep_dispatch() weft_ep_dispatch_recv() may be called instead if `*op` was written, and likewise after
 * weft_ep_combine(). On CUDA memory only the wait of the host ends: what was launched runs, and weft_ep_await() asks
 * for it again. Not ended are weft_ep_close() and the wait until the network has taken what was sent to it.
 */
WEFT_API void weft_ep_interrupt(weft_ep_t *ep);

/**
 * Connects to each of ranks[count]: waits until it has claimed its rank, and exchanges and maps windows in both
 * directions. The other side needs no call. To connect a second time is no error. TIMEOUT names ranks that did not
 * come: those that did stay connected, of the others nothing is left, and the call may be made again. With a
 * `timeout_ms` of 0 it only tells who is not connected. INVALID: a rank is out of range, or
 * this one. VERSION: a peer runs with other sizes, or another version of Weft. UNSUPPORTED: a peer on another host that
 * no common transport reaches. AUTH: a process of another user. LIMIT: on CUDA memory, more than 63 peers. [owner]
 */
WEFT_API int weft_ep_connect(weft_ep_t *ep, const int32_t *ranks, size_t count, uint32_t timeout_ms);

/**
 * Makes this rank active. A founder connects to the other founders, except to those that a later view is without, and
 * the call returns when the first view is agreed on. For a joiner it is weft_ep_offer(), weft_ep_change() with itself
 * and weft_ep_await_start() in one, also after a weft_ep_offer() of its own: it connects to every active rank, proposes
 * the view with itself, and the call returns when the running ranks have fixed its first operation. For that the
 * running ranks have to run operations; none of them waits for the joiner. If all of them leave or die before that, the
 * ranks that await their first operation begin among themselves, with operation 0. What a group whose ranks have all
 * died left in the store is not joined; it ends within two leases, and the call founds the group anew. A rank that is
 * active already gets 0. TIMEOUT names who is missing; this rank offers itself no more then, but may be in the view
 * already. FENCED: the group removed this rank meanwhile. Others are those of weft_ep_connect(). After an error the
 * call may be tried again, unless it was FENCED. [owner]
 */
WEFT_API int weft_ep_activate(weft_ep_t *ep, uint32_t timeout_ms);

/** Which view is to follow. Initialise with WEFT_EP_CHANGE_ARGS_INIT. No rank is named twice. */
struct weft_ep_change_args {
  size_t size;           /**< sizeof(struct weft_ep_change_args) */
  const int32_t *add;    /**< [num_add] ranks that are to come in: weft_ep_offer(). The call keeps no pointer */
  const int32_t *remove; /**< [num_remove] ranks that are to go; this one may be among them. Likewise */
  uint32_t num_add;      /**< entries of add, at most 60 */
  uint32_t num_remove;   /**< entries of remove, at most 60 */
  uint32_t flags;        /**< 0: none has a meaning yet */
  uint32_t reserved;     /**< 0 */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_CHANGE_ARGS_INIT WEFT_SIZED(struct weft_ep_change_args)
/** The same for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_change_args_init(struct weft_ep_change_args *change, size_t size);

/**
 * Changes the membership in one step: proposes one view with all of `change->add` and without all of `change->remove`,
 * and returns when it is agreed on. All of that comes true, or nothing: until every rank of `add` has offered itself
 * nothing is proposed, the view stays, and operations go on. No operation has to run for it; the view takes effect at
 * an operation that all ranks fix as they run, captured graphs too, as any other does. Ranks of `add` that are in the
 * view, and ranks of `remove` that are not, are as asked for. Ranks that died go at the same time.
 *
 * TIMEOUT names who of `add` did not offer itself: the view is as it was, and the others' offers stand.
 * UNREACHABLE, CANCELED: what was proposed may still come true, weft_ep_committed_view() says. INVALID: an argument is
 * wrong. NOT_CONNECTED: this rank is in no view; then it may add itself, and nobody else. LIMIT: more than 60 of a
 * kind. FENCED, CLOSED: this rank was removed, or has left. [owner]
 */
WEFT_API int weft_ep_change(weft_ep_t *ep, const struct weft_ep_change_args *change, uint32_t timeout_ms);

/**
 * Offers this rank, which is not active, to be taken into a view: waits until there is a view, connects to all its
 * members and to every rank that has offered itself before, and tells the others. From then on weft_ep_change() of an
 * active rank may take it in at any time, and weft_ep_await_start() says when. Whoever offers himself later connects to
 * this rank, without a call here. An offer ends when it is taken, by weft_ep_withdraw() and weft_ep_close(), when this
 * rank dies, and when the store comes back empty. Once is enough: a second call returns 0. TIMEOUT and other errors
 * leave no offer, and the links that were made. EXISTS: this rank has been active. Others are those of
 * weft_ep_connect(). [owner]
 */
WEFT_API int weft_ep_offer(weft_ep_t *ep, uint32_t timeout_ms);

/** Takes the offer of `rank` back, this one's or another's. NOT_FOUND: it offers itself to no view. CONFLICT: a view
 * has taken it in. TIMEOUT, UNREACHABLE, CANCELED: the offer stands, unless the store was asked already and takes it
 * back yet. INVALID: the rank is out of range. [owner] */
WEFT_API int weft_ep_withdraw(weft_ep_t *ep, int32_t rank, uint32_t timeout_ms);

/**
 * Waits until a view has taken this rank in and the running ranks have fixed its first operation; for that they have to
 * be running operations. `*op` (may be NULL) is its number, and this rank is active: it has to come to that operation,
 * for which the others wait as they do for a slow rank. A rank that is or was active gets its first operation again.
 * NOT_CONNECTED: it has not offered itself, or its offer was taken back, or lost with the store. FENCED: the group
 * removed it meanwhile. TIMEOUT: the offer stands, or it is in the view already: call again. [owner]
 */
WEFT_API int weft_ep_await_start(weft_ep_t *ep, uint32_t timeout_ms, uint64_t *op);

/**
 * Proposes the view without ranks[count] and returns when it is agreed on. It takes effect within the next few
 * operations, which all ranks, the leaving ones included, go on running. This rank may be among `ranks`: it leaves, and
 * weft_ep_is_active() says when. A rank that is connected and not active is only unmapped. NOT_FOUND names a rank that
 * is not even connected. FENCED, CLOSED: this rank itself has been removed, or has left. TIMEOUT: the view has them
 * yet; what was proposed until then may still come true. [owner]
 */
WEFT_API int weft_ep_disconnect(weft_ep_t *ep, const int32_t *ranks, size_t count, uint32_t timeout_ms);

/** Whether this rank takes part in the next operation: false before activation, and after it has left or was removed.
 *  [owner] */
WEFT_API bool weft_ep_is_active(const weft_ep_t *ep);

/** Number of the next operation; all ranks number operations alike. [owner] */
WEFT_API uint64_t weft_ep_next_op(const weft_ep_t *ep);

/** The view of the next operation: `*epoch` (may be NULL), and the first of its ranks, ascending, in ranks[cap] (host
 *  memory; NULL if cap is 0). `*count` (may be NULL) is how many there are, also when `cap` is less. Before activation
 *  both are 0. INVALID: `ranks` is NULL, and `cap` is not 0. [owner] */
WEFT_API int weft_ep_view(const weft_ep_t *ep, uint64_t *epoch, int32_t *ranks, uint32_t cap, uint32_t *count);

/** The newest agreed view, which may not have taken effect yet; arguments as in weft_ep_view(). INVALID likewise.
 *  [any] */
WEFT_API int weft_ep_committed_view(const weft_ep_t *ep, uint64_t *epoch, int32_t *ranks, uint32_t cap,
                                    uint32_t *count);

/** Writes the states of the first rank indices into states[cap] (host memory; NULL if cap is 0). `*count` (may be
 *  NULL) is how many there are, the group's capacity, also when `cap` is less. INVALID: `states` is NULL, and `cap` is
 *  not 0. [owner] */
WEFT_API int weft_ep_states(const weft_ep_t *ep, enum weft_ep_rank_state *states, uint32_t cap, uint32_t *count);

/** Masks an active rank, or unmasks it, from the next dispatch on: this rank sends it no tokens, and their selections
 *  count as missing. The rank stays in the view and is still waited for. NOT_FOUND: the rank is not active. [owner] */
WEFT_API int weft_ep_mask_update(weft_ep_t *ep, int32_t rank, bool masked);

/** Writes for the first rank indices into masked[cap] (rank memory; NULL if cap is 0) whether this rank masks them: 1,
 *  else 0, as the next dispatch does. Entries from the group's capacity on stay as they are. CUDA: it launches in
 *  `stream` and does not wait; in a graph it tells the masks of each replay. INVALID: `masked` is no rank memory.
 *  [owner] */
WEFT_API int weft_ep_mask_read(weft_ep_t *ep, int32_t *masked, uint32_t cap, void *stream);

/**
 * Sets a number that this rank sends with every operation from the next dispatch on. weft_ep_info.mark is the lowest
 * mark of the active ranks, the same for all. With it ranks agree, without a store or a pause, on the operation at
 * which something begins: a phase, a weight version, the end. A rank that dies in mid-dispatch may have reached only
 * some: the others then see a higher mark one operation earlier, provided that no rank lowers its mark and a joiner
 * brings the current one. Default 0. [owner]
 */
WEFT_API void weft_ep_set_mark(weft_ep_t *ep, uint64_t mark);

/** What weft_ep_dispatch_args.flags may ask for. */
enum weft_ep_dispatch_flags {
  /** If the operation of two dispatches ago is still open, ends it as weft_ep_finish() does, instead of BUSY. All ranks
   *  of the view do so in the same operation. BUSY still, if that one has not been received, or its combine has been
   *  sent and not been received. CUDA: the end of that operation is launched in the stream of this dispatch; one that a
   *  graph of its own has begun is not known here, so a graph ends what it begins. */
  WEFT_EP_DISPATCH_RECYCLE = 1 << 0,
  /** With `route`: topk_idx has to be what the route knows, else INVALID names the first token and place that differ,
   *  and no operation has begun. The dispatch goes by a route that is filled, and fills one that was planned. It is for
   *  debugging. CUDA: the GPU compares them, and the call waits for that, and for all before it in the stream, as calls
   *  with `info` wait (TIMEOUT, CANCELED); so a stream that is captured is INVALID, and so is num_tokens_at */
  WEFT_EP_DISPATCH_CHECK_ROUTE = 1 << 1,
};

/** What to dispatch. Initialise with WEFT_EP_DISPATCH_ARGS_INIT. A field that is 0 or NULL has its default. */
struct weft_ep_dispatch_args {
  size_t size; /**< sizeof(struct weft_ep_dispatch_args) */
  /** [T][H] in rank memory: bf16, or with `scales` e4m3. Host memory: read until the call returns; weft_ep_dispatch()
   *  and weft_ep_recv_args.rows_at say when longer. CUDA: until the kernel of this call has run; THROUGHPUT: until
   *  that of weft_ep_dispatch_recv() has run, which brings this rank's own rows to their places */
  const void *x;
  /** Scales of an x that the caller has cast to e4m3 already, in rank memory: float [T][H/128], for ue8m0 uint32_t
   *  [T][ceil(H/512)], OPAQUE uint32_t [T][scale_bytes/4]; read as long as x. Both travel as they are, and nothing
   *  looks at their values. CUDA, with bf16 too: four aligned bytes FF FF FF FF of x, or of a float scale, arrive as FF
   *  FF FF 7F: as numbers both are NaN. NULL: x is OPAQUE without scales, or bf16, and is cast here if `dtype` is
   *  fp8. */
  const void *scales;
  /** [T][K] global experts in rank memory, -1: none. On host memory an expert out of range is INVALID, and the call
   *  keeps no pointer. CUDA: it stays unchanged, as topk_weights does, until the combine has run, and an expert out of
   *  range counts as one whose rank is absent. With LATENCY kernels look at the lower 32 bits of each alone */
  const int64_t *topk_idx;
  const int32_t *topk_idx32; /**< the same as int32_t, in the place of topk_idx */
  const float *topk_weights; /**< [T][K] in rank memory; NULL: they come with the combine (PER_EXPERT only) */
  /** One number in rank memory: T, read when the rows are, so that one captured graph serves any; num_tokens is then
   * the most that it may be (host memory: else INVALID; CUDA: more count as num_tokens). Default: T is num_tokens */
  const uint32_t *num_tokens_at;
  /** With topk_idx, which is not NULL then for 0 tokens either: the dispatch fills the route. With topk_idx and
   *  topk_idx32 NULL: it goes by the route, with as many tokens as filled it, and topk_weights NULL, for the route has
   *  kept them. See weft_ep_route_create(). Default: none. CUDA: THROUGHPUT only */
  weft_ep_route_t *route;
  void *stream;                /**< CUDA: the cudaStream_t to launch in; host memory: unused */
  uint64_t row_stride;         /**< bytes from a row of x to the next; default: those of a row. CUDA: a multiple of
                                  16, below 2^32 */
  uint64_t scale_row_stride;   /**< elements (float or uint32_t) from the scales of a row to those of the next; default:
                                  those of a row */
  uint64_t scale_block_stride; /**< elements from a scale to the next of its row; default 1 */
  uint32_t num_tokens;         /**< T, 0 to max_tokens */
  uint32_t topk;               /**< K, 1 to weft_ep_options.topk. Default: that; of what goes by a route, the route's */
  enum weft_ep_dtype dtype;    /**< of the rows that are sent; default: as the group was opened */
  enum weft_ep_dtype x_dtype;  /**< of x; default, and the only ones today: bf16, or `dtype` with `scales` or OPAQUE */
  uint32_t row_bytes;          /**< OPAQUE: bytes of a row of x, a multiple of 16; in all ranks the same */
  uint32_t scale_bytes;        /**< OPAQUE: bytes of its scales, a multiple of 4; in all ranks the same. 0: none. CUDA:
                                  512 at most */
  uint32_t processors;         /**< CUDA: streaming multiprocessors that the kernel may take, at most and by default
                                  weft_ep_options.max_processors; THROUGHPUT: 8 to that, by default 24. Host memory:
                                  unused */
  uint32_t flags;              /**< WEFT_EP_DISPATCH_* */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_DISPATCH_ARGS_INIT WEFT_SIZED(struct weft_ep_dispatch_args)
/** Writes WEFT_EP_DISPATCH_ARGS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_dispatch_args_init(struct weft_ep_dispatch_args *args, size_t size);

/** What a dispatch brought, for kernels and threads that do not call the library (weft_ep_recv_args.told). No `size`:
 *  weft_ep_recv_args.told_size says how much of it the caller has. */
struct weft_ep_told {
  uint64_t op;          /**< the operation */
  uint64_t epoch;       /**< view that it ran in */
  uint64_t mark;        /**< as weft_ep_info.mark */
  uint32_t num_ranks;   /**< ranks of that view */
  uint32_t num_rows;    /**< as weft_ep_info.num_rows */
  uint32_t rows_needed; /**< as weft_ep_info.rows_needed */
  uint32_t num_lost;    /**< as weft_ep_info.num_lost */
  uint64_t written;     /**< op + 1, stored last, with release: a thread that polls it reads the rest behind it */
};

/** What weft_ep_recv_args.flags may ask for. */
enum weft_ep_recv_flags {
  /** RANK_MAJOR: local_expert and weights of a row stand at their places in the token's top-k, with -1 and 0 at the
   *  places of experts that other ranks have. Else they stand first. */
  WEFT_EP_RECV_KEEP_PLACES = 1 << 0,
  /** PACKED: rows between the parts of experts, and behind the last up to a multiple of the alignment, become 0, their
   *  scales too; src_rank and src_token -1, rows_at NULL. Else all that stays as it is */
  WEFT_EP_RECV_ZERO_PADDING = 1 << 1,
};

/** Where to receive. Initialise with WEFT_EP_RECV_ARGS_INIT. The caller owns every buffer, and all of them are in rank
 *  memory, but for rows_at; they overlap neither each other nor what the dispatch reads. A field whose text begins with
 *  * may be NULL. */
struct weft_ep_recv_args {
  size_t size; /**< sizeof(struct weft_ep_recv_args) */
  /** bf16 or e4m3; PER_EXPERT [E][rows][H], RANK_MAJOR and PACKED [rows][H]; OPAQUE: row_bytes in the place of H
   *  values. NULL: see rows_at */
  void *x;
  /** fp8 and OPAQUE, with x: float, PER_EXPERT [E][rows][H/128], RANK_MAJOR and PACKED [rows][H/128]; ue8m0 and OPAQUE:
   *  uint32_t, with ceil(H/512) or scale_bytes/4 in the place of H/128; see scale_row_stride */
  void *scales;
  int32_t *counts;    /**< [E] rows of each local expert; RANK_MAJOR: its (token, expert) pairs */
  int32_t *src_rank;  /**< *PER_EXPERT [E][rows], RANK_MAJOR and PACKED [rows]: rank that the row came from */
  int32_t *src_token; /**< *PER_EXPERT [E][rows], RANK_MAJOR and PACKED [rows]: the token's index on that rank */
  /** *PER_EXPERT and PACKED [E][capacity], RANK_MAJOR [capacity]: begin << 32 | count of each source's rows. `begin` is
   *  a row of the expert's part, RANK_MAJOR of x */
  int64_t *range;
  int32_t *local_expert; /**< *RANK_MAJOR [rows][K]: local expert ids in top-k order, then -1 */
  float *weights;        /**< *RANK_MAJOR [rows][K]: their weights, then 0 */
  /** *Host memory only, with x NULL: receives in place. PER_EXPERT [E][rows], RANK_MAJOR and PACKED [rows], in host
   *  memory: gets the address of each row: its values, and right behind them its scales, whatever the strides. Nothing
   *  is copied: rows of other ranks stay in the windows through which they came, this rank's own in
   *  weft_ep_dispatch_args.x (or in the library's memory: with fp8, or after weft_ep_dispatch_send()). They stay
   *  unchanged until weft_ep_combine_send(), weft_ep_combine() or weft_ep_finish() of this operation is called,
   *  whatever happens to their senders; weft_ep_dispatch_args.x has to stay as long. Their sender maps them too: one
   *  that breaks the protocol could change values between two readings. */
  const void **rows_at;
  int32_t *expert_total;     /**< *[E], added to: rows (RANK_MAJOR: pairs) of each local expert */
  int64_t *wait_ns;          /**< *[capacity], added to: how long this rank waited for each source's dispatch, in ns */
  int32_t *slot;             /**< *PACKED [rows][K]: a row for each token of each rank that any came of, by source rank,
                                then by token: the rows of x where its selections stand, at their places in the token's
                                top-k; -1 for those of other ranks */
  int32_t *expert_end;       /**< *PACKED [E]: row of x behind the last of each local expert */
  struct weft_ep_told *told; /**< *what the dispatch brought, written behind all of it */
  uint64_t *lost; /**< *[ceil(capacity/64)] bit r % 64 of word r / 64: rank r of the view did not come; written before
                     `told` */
  void *stream;   /**< CUDA: the cudaStream_t of weft_ep_dispatch_recv(), unused by weft_ep_dispatch() and on host
                     memory */
  uint64_t scale_row_stride;   /**< elements (float or uint32_t) from the scales of a row to those of the next; default:
                                  those of a row */
  uint64_t scale_block_stride; /**< elements from a scale to the next of its row; default 1 */
  uint64_t scale_expert_stride; /**< PER_EXPERT: elements from the scales of an expert's first row to those of the next
                                   expert's; default: `rows` times those of a row, whatever the other strides */
  enum weft_ep_layout layout;   /**< how the received rows are laid out; default PER_EXPERT */
  /** room. PER_EXPERT: rows of each expert's part; RANK_MAJOR and PACKED: S. max_tokens times the active ranks is
   *  enough for PER_EXPERT and RANK_MAJOR, unless a view with more ranks takes effect in mid-operation or a token
   *  selects one expert twice; ROOM says how many were needed. At most INT32_MAX in all parts together */
  uint32_t rows;
  uint32_t alignment; /**< PACKED: rows, 1 to 256; the part of each expert begins at a multiple of it; default 1 */
  uint32_t told_size; /**< with told: sizeof(struct weft_ep_told) */
  uint32_t flags;     /**< WEFT_EP_RECV_* */
  uint32_t reserved;  /**< 0 */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_RECV_ARGS_INIT WEFT_SIZED(struct weft_ep_recv_args)
/** Writes WEFT_EP_RECV_ARGS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_recv_args_init(struct weft_ep_recv_args *args, size_t size);

/** What the dispatch of an operation did. Initialise with WEFT_EP_INFO_INIT. */
struct weft_ep_info {
  size_t size;            /**< sizeof(struct weft_ep_info) */
  uint64_t op;            /**< the operation */
  uint64_t epoch;         /**< view that it ran in */
  uint64_t mark;          /**< lowest mark of the ranks whose dispatch came (weft_ep_set_mark()) */
  uint64_t wire_bytes;    /**< sent to other ranks in the dispatch: rows, scales and row headers */
  uint64_t logical_bytes; /**< per valid (token, expert) pair: 2H + 16 for bf16, H + 16 and its scales for fp8 */
  int32_t *lost;        /**< in: room for `lost_cap` ranks in host memory, or NULL; out: the first of them, ascending */
  uint32_t lost_cap;    /**< in: room of `lost`, in ranks */
  uint32_t num_lost;    /**< ranks of the view whose tokens did not come */
  uint32_t num_ranks;   /**< ranks of that view */
  uint32_t num_rows;    /**< rows received: PER_EXPERT by all experts together, RANK_MAJOR in all */
  uint32_t rows_needed; /**< of weft_ep_recv_args.rows, to hold them all */
  uint32_t reserved;    /**< 0 */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_INFO_INIT WEFT_SIZED(struct weft_ep_info)
/** Writes WEFT_EP_INFO_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_info_init(struct weft_ep_info *info, size_t size);

/** What weft_ep_combine_args.flags may ask for. */
enum weft_ep_combine_flags {
  /** Where contributions are missing, scale the token by (all weights) / (weights that came). Each weight counts as 1
   *  with UNWEIGHTED, and where rows are RANK_MAJOR and the dispatch had no topk_weights. */
  WEFT_EP_COMBINE_RENORMALIZE = 1 << 0,
  /** The operation stays open for another combine, which begins with weft_ep_combine_send(); the receiving half takes
   *  the flag. weft_ep_finish(), WEFT_EP_DISPATCH_RECYCLE or a combine without the flag ends it; all ranks of the view
   *  combine as often. CUDA: both halves take the flag, and operations end in their order: while one before it is open,
   *  an operation can be combined with this flag only. UNSUPPORTED with LATENCY where a peer is on a host that NVLink
   *  does not reach. */
  WEFT_EP_COMBINE_KEEP = 1 << 1,
  /** PER_EXPERT, PACKED: the rows of a token are added as they are, without the weights of the dispatch, as those that
   *  are RANK_MAJOR always are. All ranks set it, or none. On CUDA memory with THROUGHPUT only */
  WEFT_EP_COMBINE_UNWEIGHTED = 1 << 2,
};

/** What to combine, and where to. Initialise with WEFT_EP_COMBINE_ARGS_INIT. A field that is 0 or NULL has its
 *  default. */
struct weft_ep_combine_args {
  size_t size; /**< sizeof(struct weft_ep_combine_args) */
  /** bf16 in rank memory, PER_EXPERT [E][rows][H], RANK_MAJOR and PACKED [rows][H], in the row order of the receive.
   *  Host memory: read until the sending call returns; CUDA: until its kernel has run. NULL after
   *  weft_ep_combine_rows() */
  const void *y;
  const float *topk_weights; /**< PER_EXPERT, PACKED: [T][K] in rank memory when the dispatch had none; else NULL, with
                                UNWEIGHTED too. Host memory: read until the sending call returns; CUDA: until the
                                combine has run */
  const float *row_weights;  /**< RANK_MAJOR [rows][K] in rank memory, at their places in the top-k: weights that go
                                back with the rows, for out_weights; default: none. Read as long as topk_weights. On
                                CUDA memory with THROUGHPUT only, and by all ranks or none */
  const void *bias[2]; /**< bf16 [T][H] in rank memory, added one after the other to the sum, scaled or not, before
                          it is rounded; they do not overlap `out`. Read by the receiving half. Default: none. On
                          CUDA memory with THROUGHPUT only */
  void *out; /**< bf16 [T][H] in rank memory, written by the receiving half; a token without contribution is 0, or the
                sum of its biases. It does not overlap `y` where one call is both halves, which reads that meanwhile */
  float *out_weights; /**< [T][K] in rank memory, written by the receiving half: the row_weights of the ranks, summed;
                         each selection has those of one rank, and 0 where none came. Default: not written. On CUDA
                         memory as row_weights, with which it goes */
  void *stream;       /**< CUDA: the cudaStream_t to launch in; host memory: unused */
  enum weft_ep_combine_dtype dtype; /**< of the rows that this rank sends; default: as the group was opened. CUDA: the
                                       same for all ranks */
  uint32_t processors; /**< CUDA: streaming multiprocessors that the kernel may take, as in weft_ep_dispatch_args. Host
                          memory: unused */
  uint32_t flags;      /**< WEFT_EP_COMBINE_* */
  uint32_t reserved;   /**< 0 */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_COMBINE_ARGS_INIT WEFT_SIZED(struct weft_ep_combine_args)
/** Writes WEFT_EP_COMBINE_ARGS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_combine_args_init(struct weft_ep_combine_args *args, size_t size);

/** A selection that brought no contribution. */
struct weft_ep_missing {
  int32_t token;  /**< index in this rank's dispatch */
  int32_t k;      /**< place in its top-k */
  int64_t expert; /**< global index of the selected expert */
};

/** What a combine did. Initialise with WEFT_EP_RESULT_INIT. */
struct weft_ep_result {
  size_t size;                     /**< sizeof(struct weft_ep_result) */
  uint64_t wire_bytes;             /**< sent to other ranks in the combine */
  uint64_t logical_bytes;          /**< 2H per valid (token, expert) pair of this rank's dispatch */
  struct weft_ep_missing *missing; /**< in: room for `missing_cap` entries in host memory, or NULL; out: the first of
                                      them, by token and k */
  uint32_t missing_cap;            /**< in: room of `missing`, in entries */
  uint32_t num_missing; /**< selections without contribution: their rank is lost, masked, or not in the view */
  uint32_t num_lost;    /**< ranks of the view whose contributions did not come */
  uint32_t reserved;    /**< 0 */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_RESULT_INIT WEFT_SIZED(struct weft_ep_result)
/** Writes WEFT_EP_RESULT_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_result_init(struct weft_ep_result *result, size_t size);

/**
 * Begins an operation, whose number is `*op`: routes this rank's tokens, casts them, and writes them to their ranks. It
 * may wait for a peer that has not read its rows of two operations ago (THROUGHPUT on CUDA memory: of those before); a
 * peer that does not read them in time is lost, which is no error. INVALID names the first bad argument. UNSUPPORTED
 * names one that this memory cannot do yet. NOT_CONNECTED: this rank has not been activated. FENCED: it has left or was
 * removed; if it was removed, close it and open it again. BUSY: two operations are open already; THROUGHPUT on CUDA
 * memory: one was sent and has not been received (of two in one graph nobody knows when they are captured: their ranks
 * are lost to each other when they run). LIMIT, with THROUGHPUT: the rows do not fit into a window all at once;
 * weft_ep_dispatch() sends any. ROOM: the route that is to be filled has no room for so many tokens or selections, or
 * more rows came when it was filled than it has room for. After an error no operation has begun. [owner]
 */
WEFT_API int weft_ep_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint64_t *op);

/**
 * Receives operation `op`, in the order of operations: waits for the tokens of every active rank, and lays them out by
 * source rank, then by token. `info` may be NULL. A loss is no error: see `info->num_lost`. ROOM: `recv->rows` are too
 * few; `info->rows_needed`, and `told`, say how many there are. On host memory nothing else of `info` is written then,
 * nothing was added to what is added to, and the other buffers may hold a part of what came: call again with more room.
 * On CUDA memory ROOM shows only with `info` or in weft_ep_await(); rows beyond the room are lost, and the operation
 * goes on. INVALID: an argument is wrong, or it is not this operation's turn. THROUGHPUT: of a rank that is lost when a
 * part of its rows had come, these stay, and the places of the others are empty: values and scales 0, src_rank that
 * rank, src_token -1, local_expert -1, weights 0, slot -1; counts and ranges count them, and it is in `info->lost`.
 * LIMIT: rows_at, and the rows of a rank do not lie in its window all at once; call again with x. UNSUPPORTED names an
 * argument that this memory cannot do yet. PROTOCOL, on host memory: a rank dispatches another type or top-k in this
 * operation; it has ended then, without rows, as it has for the others. CUDA: see weft_ep_await() for waiting. [owner]
 */
WEFT_API int weft_ep_dispatch_recv(weft_ep_t *ep, uint64_t op, const struct weft_ep_recv_args *recv,
                                   struct weft_ep_info *info);

/**
 * For RANK_MAJOR, after weft_ep_dispatch_recv(), and again after a combine with WEFT_EP_COMBINE_KEEP: writes into
 * rows_at[info->num_rows] (host memory), in the row order of the receive, the address at which the caller is to write
 * the output of each row, bf16 [H]. weft_ep_combine_send() then has y NULL and copies nothing. For rows of other ranks
 * that address is in the window that the other rank reads. So write each line once and in full, best past the caches
 * unless both processors share one; what is there before is undefined. All writes end before weft_ep_combine_send() is
 * called. The call may wait for a peer that has not read its rows of two operations ago, like weft_ep_dispatch_send();
 * a peer that does not is lost, and its rows share one address. INVALID: PER_EXPERT, a combine of LOGFMT10, or not this
 * operation's turn. UNSUPPORTED: CUDA memory, where y is read where it lies and never copied before it travels. [owner]
 */
WEFT_API int weft_ep_combine_rows(weft_ep_t *ep, uint64_t op, void **rows_at);

/** Sends the experts' outputs of `op` back: one row for each (rank, token). If the dispatch had no weights, the ranks
 *  exchange them first, and the call waits for them. It may also wait for a peer that has not read its rows of two
 *  operations ago. A loss is no error. INVALID: an argument is wrong, or the operation was not received. UNSUPPORTED
 *  names an argument that this memory cannot do yet. LIMIT: a combine more than weft_ep_limits.max_combines; or, with
 *  THROUGHPUT, the rows of a rank do not fit into a window all at once, which weft_ep_combine() does not need (CUDA:
 * those of a rank with max_tokens). BUSY, with THROUGHPUT on CUDA memory: another combine was sent and has not been
 * received. [owner]
 */
WEFT_API int weft_ep_combine_send(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine_args *args);

/** Waits for the contributions to `op` and sums them into `args->out` (the same args as for weft_ep_combine_send()), in
 *  the order of ranks, in fp32, rounded once. It ends the operation, unless WEFT_EP_COMBINE_KEEP is set. `result` may
 * be NULL. A loss is no error: see `result->num_missing`. INVALID: an argument is wrong, or nothing was sent. [owner]
 */
WEFT_API int weft_ep_combine_recv(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine_args *args,
                                  struct weft_ep_result *result);

/** Ends a received operation without a combine, or one that a combine left open; every rank of the view does so, or
 *  none. It does not wait. CUDA: it launches in the stream of the operation's last launch; nothing, if a capture that
 *  is over has begun the operation. INVALID: the operation was not received, or a combine of it was sent and not
 *  received. [owner] */
WEFT_API int weft_ep_finish(weft_ep_t *ep, uint64_t op);

/**
 * weft_ep_dispatch_send() and weft_ep_dispatch_recv() in one, with the errors of both; CUDA: one kernel, in
 * args->stream. On host memory, after ROOM of the receive the operation `*op` is open: call weft_ep_dispatch_recv()
 * with more room, and keep args->x and args->scales readable until it returns; after LIMIT of the receive likewise,
 * with x. ROOM of a route, and LIMIT of the send, leave `*op` as it was, and no operation has begun. INVALID, on host
 * memory, is also that an operation before this one was sent and has not been received. Rows may go to other hosts
 * directly from args->x: the call waits until they have left or their rank is lost (up to half a second more than
 * op_timeout_ms), and afterwards no network reads memory of the caller. [owner]
 */
WEFT_API int weft_ep_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch_args *args,
                              const struct weft_ep_recv_args *recv, struct weft_ep_info *info, uint64_t *op);

/** weft_ep_combine_send() and weft_ep_combine_recv() in one, with the errors of both. What weft_ep_dispatch() says of
 *  args->x holds for args->y. INVALID, CANCELED and others are those of the two. [owner] */
WEFT_API int weft_ep_combine(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine_args *args,
                             struct weft_ep_result *result);

/**
 * CUDA: waits until the launches of operation `op` so far have run, at most for `timeout_ms`, and fills `info` and
 * `result` (each may be NULL). `op` is one of the newest two. UINT64_MAX: the newest that the device has begun, also by
 * a graph's replay; of a replay only the dispatch is awaited, the caller waits for its stream, and result->missing is
 * not filled. TIMEOUT: the work stays in the stream. ROOM: weft_ep_recv_args.rows were too few, and `info` is filled;
 * rows beyond the room are lost, and the operation goes on; likewise, without `info`, where the group, or the route
 * that the operation fills or goes by, has too few max_rows. INVALID: not one of the newest two, or not as far yet as
 * was asked for. A dispatch or combine on CUDA memory that is given `info` or `result` waits in the same way, and
 * longer than its kernel can take. On host memory it does not wait, and repeats what the calls have reported. [owner]
 */
WEFT_API int weft_ep_await(weft_ep_t *ep, uint64_t op, struct weft_ep_info *info, struct weft_ep_result *result,
                           uint32_t timeout_ms);

/**
 * An operation without tokens: returns when every active rank has come to it. All ranks of the view call it for the
 * same operation. PEER_LOST names those that did not come within op_timeout_ms; they are lost. PROTOCOL: a rank
 * dispatches in this operation. NOT_CONNECTED, FENCED, BUSY: as with weft_ep_dispatch_send(). INVALID, on host memory:
 * an operation was sent and has not been received. CUDA: it launches in the stream of the last launch, and waits; BUSY
 * is also that an operation is open. [owner]
 */
WEFT_API int weft_ep_barrier(weft_ep_t *ep);

/**
 * How to make a route. Initialise with WEFT_EP_ROUTE_OPTIONS_INIT. A field that is 0 has its default.
 */
struct weft_ep_route_options {
  size_t size;         /**< sizeof(struct weft_ep_route_options) */
  uint32_t max_tokens; /**< tokens of this rank, at most; default: the group's */
  uint32_t max_rows;   /**< received rows, one for each (rank, token), at most; default: max_tokens of the group times
                          the capacity. CUDA: rows beyond are answered by 0, in the operation that fills the route too,
                          and weft_ep_await() says ROOM */
  uint32_t topk;       /**< experts that a token selects, at most; default: the group's */
  uint32_t alignment;  /**< of the parts of experts, in rows (PACKED), 1 to 256; default 1 */
  uint32_t flags;      /**< 0 */
  uint32_t reserved;   /**< 0 */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_ROUTE_OPTIONS_INIT WEFT_SIZED(struct weft_ep_route_options)
/** Writes WEFT_EP_ROUTE_OPTIONS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_route_options_init(struct weft_ep_route_options *options, size_t size);

/** What a route knows, in rank memory that it owns: the first group after weft_ep_route_plan() or a dispatch, the
 * second after the receive of that dispatch. T and K are those of the dispatch (of a plan: K is the route's topk), S is
 * weft_ep_route_info.num_rows. Received rows stand here by source rank, then by token, as RANK_MAJOR lays them out,
 * whatever the layout of the receive was. Initialise with WEFT_EP_ROUTE_ARRAYS_INIT. */
struct weft_ep_route_arrays {
  size_t size;                    /**< sizeof(struct weft_ep_route_arrays) */
  const int32_t *tokens_per_rank; /**< [capacity] tokens of this rank that go to each rank; 0 for one that is masked or
                                     not in the view */
  const int32_t
      *tokens_per_expert;    /**< [capacity * E] selections of each expert by this rank, whether they go or not */
  const uint8_t *in_rank;    /**< [T][capacity] 1: the token goes to that rank, else 0 */
  const int32_t *rank_end;   /**< [capacity] received rows of the ranks up to this one, itself included */
  const int32_t *expert_end; /**< [E] as weft_ep_recv_args.expert_end, with the route's alignment */
  const int32_t *src_rank;   /**< [S] rank that each row came from */
  const int32_t *src_token;  /**< [S] the token's index on that rank */
  const int32_t *slot;       /**< [S][K] as weft_ep_recv_args.slot, with the route's alignment */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_ROUTE_ARRAYS_INIT WEFT_SIZED(struct weft_ep_route_arrays)
/** Writes WEFT_EP_ROUTE_ARRAYS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_route_arrays_init(struct weft_ep_route_arrays *arrays, size_t size);

/** The counts of a route, on the host. Initialise with WEFT_EP_ROUTE_INFO_INIT. */
struct weft_ep_route_info {
  size_t size;          /**< sizeof(struct weft_ep_route_info) */
  uint64_t op;          /**< operation that filled it */
  uint64_t epoch;       /**< view of that */
  int32_t *expert_rows; /**< in: room for `expert_cap` numbers in host memory, or NULL; out: rows of the first local
                           experts */
  uint32_t expert_cap;  /**< in: room of expert_rows */
  uint32_t num_experts; /**< E */
  uint32_t num_rows;    /**< received rows: one for each (rank, token) */
  uint32_t packed_rows; /**< PACKED: rows with the room behind the parts of experts */
  uint32_t num_ranks;   /**< ranks of the view */
  uint32_t num_lost;    /**< of them, whose tokens did not come */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_ROUTE_INFO_INIT WEFT_SIZED(struct weft_ep_route_info)
/** Writes WEFT_EP_ROUTE_INFO_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_route_info_init(struct weft_ep_route_info *info, size_t size);

/**
 * Makes a route: memory for where tokens went, which outlives operations, so that later dispatches, combines, and
 * dispatches back (gradients), go the same ways. A dispatch with weft_ep_dispatch_args.route and topk_idx *fills* it;
 * it is filled when that operation has been received. The caller frees `*route` with weft_ep_route_free().
 *
 * A dispatch with the route and without topk_idx *goes by* it, and so does weft_ep_combine_route(). Tokens go where
 * they went when it was filled, with the weights of then; no row headers travel; and rows have the places that they
 * had, so that equal x gives equal rows, counts and indices, bit by bit. It may be received in another layout and type
 * than the first time. All ranks of the view go by routes that one and the same operation filled: else the operation
 * ends for all of them, with PROTOCOL. Operations that are open at once may go by one route; while one does, no
 * dispatch can fill it (BUSY).
 *
 * A route is of the view in which it was filled. When ranks of that view have left or died since, or are masked, their
 * places stay: rows of 0, with src_rank, but -1 in src_token, local_expert and slot, and weights of 0; and selections
 * of their experts are listed as missing. When a rank has joined since, a call that goes by the route returns CONFLICT
 * before anything is sent, on all ranks in the same operation; then fill it again. Where a death makes ranks find that
 * out in mid-operation (docs/design/membership.md), the operation has ended for all of them: with CONFLICT for those
 * that went by the route, with PROTOCOL for others.
 *
 * After weft_ep_close() of its rank the calls of a route return CLOSED. INVALID: an option is more than the group was
 * opened for.
 *
 * CUDA, THROUGHPUT only: launches that use a route follow each other as their streams do, and nothing is BUSY. By a
 * route, rows that are not RANK_MAJOR have the layout, `rows` and alignment of the receive that filled it, else
 * UNSUPPORTED; the masks are those of the filling. weft_ep_dispatch() and weft_ep_combine_route() cannot say CONFLICT
 * before kernels have run: the operation then moves no rows on any rank, and `info`, `result` or weft_ep_await() say
 * it. A rank that goes by a route of another operation is lost to the others. [owner]
 */
WEFT_API int weft_ep_route_create(weft_ep_t *ep, const struct weft_ep_route_options *options, weft_ep_route_t **route);

/** Frees a route, also after its `ep` was closed. NULL is legal. No launch that uses it may still have to run; on host
 *  memory an open operation that needs it keeps what it needs. [owner] */
WEFT_API void weft_ep_route_free(weft_ep_route_t *route);

/** Computes what this rank will send in the view of its next operation, without sending: the first group of
 *  weft_ep_route_arrays. topk_idx[num_tokens][K], K the route's topk, as in weft_ep_dispatch_args, in rank memory;
 *  CUDA: in `stream`. What the route was filled with is forgotten. ROOM: more tokens than the route has room for.
 *  BUSY: an open operation needs the route. NOT_CONNECTED, FENCED: as with weft_ep_dispatch_send(). [owner] */
WEFT_API int weft_ep_route_plan(weft_ep_route_t *route, const int64_t *topk_idx, uint32_t num_tokens, void *stream);

/** Writes the addresses of a route's arrays: valid until it is freed. What they hold is undefined before it is planned
 *  or filled, and changes with each dispatch that fills it. INVALID: an argument is NULL. [owner] */
WEFT_API int weft_ep_route_get_arrays(weft_ep_route_t *route, struct weft_ep_route_arrays *arrays);

/** Waits until the dispatch that fills the route has been received, and writes its counts; `info` may be NULL. On host
 * memory it does not wait. TIMEOUT: it has not. INVALID: no dispatch fills it. ROOM: more rows came than the route has
 * room for; info->num_rows says how many, and no operation can go by it. CONFLICT: a rank joined since, so that an
 * operation by this route would miss it; the counts are written. [owner] */
WEFT_API int weft_ep_route_await(weft_ep_route_t *route, struct weft_ep_route_info *info, uint32_t timeout_ms);

/** A combine by a route, as an operation of its own, whose number is `*op`: the rows of args->y, in the row order of
 * the receive that filled the route, go back the ways that the tokens came. Masks do not matter. All ranks of the view
 * call it. CONFLICT, PROTOCOL: see weft_ep_route_create(). BUSY: two operations are open already. Others are those of
 *  weft_ep_combine(). With WEFT_EP_COMBINE_KEEP the operation stays open for weft_ep_combine() with its number. [owner]
 */
WEFT_API int weft_ep_combine_route(weft_ep_t *ep, weft_ep_route_t *route, const struct weft_ep_combine_args *args,
                                   struct weft_ep_result *result, uint64_t *op);

/** Counters since open; bytes are those of `weft_ep_info` and `weft_ep_result`. On CUDA memory bytes, `missing` and
 *  `wait_ns` count operations that were given info or result, window_bytes contains the engine's workspace too, and no
 *  bytes of a single peer are counted. Initialise with WEFT_EP_STATS_INIT. */
struct weft_ep_stats {
  size_t size;                     /**< sizeof(struct weft_ep_stats) */
  uint64_t operations;             /**< operations ended */
  uint64_t dispatch_wire_bytes;    /**< as weft_ep_info.wire_bytes, summed */
  uint64_t dispatch_logical_bytes; /**< as weft_ep_info.logical_bytes, summed */
  uint64_t combine_wire_bytes;     /**< as weft_ep_result.wire_bytes, summed */
  uint64_t combine_logical_bytes;  /**< as weft_ep_result.logical_bytes, summed */
  uint64_t connected;              /**< peers connected now */
  uint64_t window_bytes;           /**< memory of this rank's windows now */
  uint64_t activations;            /**< views that took effect */
  uint64_t lost;                   /**< peers found dead or silent */
  uint64_t missing;                /**< selections without contribution */
  uint64_t wait_ns;                /**< time spent waiting for peers, in ns */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_STATS_INIT WEFT_SIZED(struct weft_ep_stats)
/** Writes WEFT_EP_STATS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_stats_init(struct weft_ep_stats *stats, size_t size);
/** Writes this rank's counters. It does not wait for peers. INVALID: `stats` was not initialised. [owner] */
WEFT_API int weft_ep_get_stats(const weft_ep_t *ep, struct weft_ep_stats *stats);

/** Counters of one peer, since it was connected. Initialise with WEFT_EP_PEER_STATS_INIT. */
struct weft_ep_peer_stats {
  size_t size;             /**< sizeof(struct weft_ep_peer_stats) */
  uint64_t incarnation;    /**< incarnation of the peer */
  uint64_t sent_bytes;     /**< bytes sent to the peer */
  uint64_t received_bytes; /**< bytes received from it */
  uint64_t window_bytes;   /**< memory of the window that this peer writes to */
  uint64_t wait_ns;        /**< time that this rank waited for this peer as the last to come, in ns */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_PEER_STATS_INIT WEFT_SIZED(struct weft_ep_peer_stats)
/** Writes WEFT_EP_PEER_STATS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_peer_stats_init(struct weft_ep_peer_stats *stats, size_t size);
/** Writes the counters of one peer. NOT_FOUND: it is not connected. [owner] */
WEFT_API int weft_ep_get_peer_stats(const weft_ep_t *ep, int32_t rank, struct weft_ep_peer_stats *stats);

/** Writes the counters of this rank and of its connected peers, in the OpenMetrics text format 1.0, NUL-terminated,
 * into `text`, of `cap` bytes of host memory. `*size` is the bytes that it takes, its NUL included; a `cap` of 0 asks
 * for them. ROOM: `cap` is less, and nothing is written but `*size`. NOMEM: no memory. INVALID: a pointer is NULL.
 * [owner] */
WEFT_API int weft_ep_metrics(const weft_ep_t *ep, char *text, size_t cap, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
