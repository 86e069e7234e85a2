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
 * When a peer is lost, the operation ends without it: after one deadline, or within milliseconds if the kernel reports
 * the peer's death. The results of the operation say what is missing, and a view without that rank follows.
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
 * A joiner that offers itself, so that the running ranks can take it in at any time, together with any number of
 * others; without error handling:
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
 * memory of this kind: memory of the host, or memory of the rank's GPU (or memory that this GPU can read and write).
 * *Host memory* is memory of the host in both cases. What follows "CUDA:" holds for groups on CUDA memory alone: with
 * "CUDA: THROUGHPUT only" these need that mode, and groups on host memory have the option in both modes. All structs
 * themselves are in host memory. A call reads them before it returns, and keeps no pointer to them.
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
 * inside a call. No other call may use a handle while it is being closed, or afterwards. For each handle the library
 * has its own threads, which accept peers, watch the store and drive transports.
 *
 * **Time.** Calls with a `timeout_ms` wait for the store and for peers, at most for this time; with 0 they check once
 * without waiting, and with WEFT_WAIT_FOREVER they have no deadline. On host memory the calls of an operation wait for
 * peers, each at most for op_timeout_ms, or up to four times as long for peers that in turn wait for a third rank. On
 * CUDA memory the kernels wait in the same way. Dispatch and combine allocate nothing and take no lock that waits.
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

typedef struct weft_ep_route weft_ep_route_t; /**< record of where the tokens of an operation went, which the caller
                                                   keeps */

enum {
  WEFT_EP_BLOCK = 128, /**< values that share one fp8 scale */
};

/** The type of the values that a dispatch sends. 0: the type that the group was opened for; in the options bf16. */
enum weft_ep_dtype {
  WEFT_EP_BF16 = 1, /**< bf16 */
  /** e4m3, one f32 scale per 128 values: scale = max(amax, 1e-4) / 448, value = e4m3(x / scale) */
  WEFT_EP_FP8 = 2,
  /** the same with the scale rounded up to a power of two */
  WEFT_EP_FP8_POW2 = 3,
  /** the same, the scales as ue8m0 (OCP Microscaling: a byte, exponent + 127; 255 is NaN): uint32_t [ceil(H/512)] for a
   *  row, block b in byte b % 4, the lowest first, of word b / 4; bytes without a block are 0 */
  WEFT_EP_FP8_UE8M0 = 4,
  /** bytes that the library does not interpret: row_bytes of values and scale_bytes of scales for each token, in a
   *  format of the caller (NVFP4, MXFP8). Each call has to name this type; the group is opened for another type whose
   *  rows have enough room. CUDA: THROUGHPUT only */
  WEFT_EP_OPAQUE = 5,
};

/** The type of the values that a combine sends from one rank to another; the caller's inputs and outputs are bf16. 0:
 *  the type that the group was opened for; in the options bf16. */
enum weft_ep_combine_dtype {
  WEFT_EP_COMBINE_BF16 = 1, /**< bf16 */
  /** 10 bits per value. Each block of 128 values has its own logarithmic scale, whose two ends are exact. Besides the
   *  rounding to bf16, the error is at most 0.07 % of the value for each power of two between these ends. It is at most
   *  2.2 %, since the scale ends at 2^-32 of the largest magnitude; a smaller value becomes 0 or that end. If a block
   *  contains an infinity or NaN, all its values become NaN. A row takes 10H/8 + 8H/128 bytes, two thirds of a bf16
   *  row. */
  WEFT_EP_COMBINE_LOGFMT10 = 2,
};

/** What a group is made for. 0: LATENCY for up to weft_ep_limits.max_latency_tokens tokens, else THROUGHPUT. */
enum weft_ep_mode {
  /** For a few tokens with the lowest latency, as in decoding: a window has room for the rows of whole operations. */
  WEFT_EP_LATENCY = 1,
  /** For many tokens, as in prefill and training: rows move in pieces through windows of a bounded size
   *  (weft_ep_options.window_bytes), with few processors. weft_ep_dispatch() and weft_ep_combine() send and receive at
   *  the same time. The single halves, weft_ep_recv_args.rows_at and weft_ep_combine_rows() only work for operations
   *  whose rows fit into a window all at once, else LIMIT. The weights of the top-k have to come with the dispatch. On
   *  CUDA memory a window has room for the rows of one operation and the answers of one combine. So a half that was
   *  sent has to be received before another one is sent, else BUSY, and an operation cannot be combined after a newer
   *  one. There window_bytes needs room for a few rows in each of a window's channels; else the sentence of INVALID
   *  says how many bytes are needed */
  WEFT_EP_THROUGHPUT = 2,
};

/** Where the buffers of operations lie, and what moves the rows. */
enum weft_ep_memory {
  WEFT_EP_MEMORY_HOST = 0, /**< host memory: the processor, over shared memory or a transport */
  WEFT_EP_MEMORY_CUDA = 1, /**< memory of one GPU: kernels, over NVLink or PCIe peer access, else a transport */
  WEFT_EP_MEMORY_AUTO =
      2, /**< CUDA if this process has a GPU that supports it, else host; weft_ep_get_memory() says which */
};

/** How received rows are laid out. 0: PER_EXPERT. */
enum weft_ep_layout {
  /** x[E][rows][H]: the rows of each local expert one after the other. A token has a row for each of its local experts.
   *  The combine computes their weighted sum. */
  WEFT_EP_PER_EXPERT = 1,
  /** x[S][H]: a token has one row on each rank that holds any of its experts, together with its local experts and
   *  weights. The caller computes the weighted sum over the local experts; the combine adds the rows of the ranks
   *  without weights. */
  WEFT_EP_RANK_MAJOR = 2,
  /** x[S][H]: as PER_EXPERT, but the parts of the experts follow each other directly: the part of each expert begins at
   *  the first multiple of weft_ep_recv_args.alignment at or after the end of the part before it. CUDA: THROUGHPUT
   *  only */
  WEFT_EP_PACKED = 3,
};

/** State of a rank index, as this rank sees it. */
enum weft_ep_rank_state {
  WEFT_EP_ABSENT = 0,    /**< not connected, not in the active view */
  WEFT_EP_CONNECTED = 1, /**< windows mapped in both directions, not in the active view */
  WEFT_EP_ACTIVE = 2,    /**< in the active view */
  WEFT_EP_MASKED = 3,    /**< in the active view; this rank sends it no tokens (weft_ep_mask_update()) */
  WEFT_EP_LOST = 4,      /**< in the active view, found dead or silent; a view without it is being agreed on */
};

/** What happened: weft_ep_event.kind. */
enum weft_ep_event_kind {
  WEFT_EP_EVENT_CONNECTED = 1,  /**< windows with `rank` are mapped in both directions; for a rank on another host
                                     `detail` has the way: "ofi tcp eth0". For people */
  WEFT_EP_EVENT_PEER_LOST = 2,  /**< this rank found `rank` dead or silent; `detail` says how. If others found the loss
                                     first, COMMITTED with a view without the rank may be the only event */
  WEFT_EP_EVENT_COMMITTED = 3,  /**< view `epoch` is agreed on */
  WEFT_EP_EVENT_ACTIVATED = 4,  /**< view `epoch` takes effect with operation `op` */
  WEFT_EP_EVENT_RELEASED = 5,   /**< windows with `rank` are unmapped */
  WEFT_EP_EVENT_STORE_LOST = 6, /**< the store does not answer: operations continue, changes of the view wait */
  WEFT_EP_EVENT_STORE_BACK = 7, /**< the store answers again */
  WEFT_EP_EVENT_FENCED =
      8, /**< this rank was removed: a view without it is agreed on, though it did not ask to leave */
};

enum { WEFT_EP_DETAIL_SIZE = 200 }; /**< size of weft_ep_event.detail, including its final NUL */

/** One event of a group, as this rank sees it: see weft_ep_next_event(). Initialise with WEFT_EP_EVENT_INIT. */
struct weft_ep_event {
  size_t size;                      /**< sizeof(struct weft_ep_event) */
  enum weft_ep_event_kind kind;     /**< what happened */
  int32_t rank;                     /**< the peer concerned, -1: none; FENCED: this rank */
  uint64_t incarnation;             /**< incarnation of `rank`, 0: none */
  uint64_t epoch;                   /**< the view concerned, 0: none */
  uint64_t op;                      /**< the operation concerned; ACTIVATED only, else 0 */
  uint64_t time_ns;                 /**< when it happened, CLOCK_MONOTONIC */
  uint64_t dropped;                 /**< events that were discarded since the event that was taken before */
  char detail[WEFT_EP_DETAIL_SIZE]; /**< a few words, or "" */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_EVENT_INIT WEFT_SIZED(struct weft_ep_event)
/** Writes the same initial value, for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_event_init(struct weft_ep_event *event, size_t size);

/** Bits of weft_ep_options.flags. */
enum weft_ep_option_flags {
  /** Join a group, but never found one, even if the store has lost the group's view; not together with founders.
   *  weft_ep_open() then waits for the view, at most for the time of a lease, so that this rank does not take the index
   *  of a member. */
  WEFT_EP_OPTION_JOIN_ONLY = 1 << 0,
  /** CUDA: the caller promises that of all ranks of this process on this GPU with this flag, only one runs at a time.
   *  These ranks are in different groups. The caller launches their operations into one stream, or into streams that
   *  are ordered by events, and in the same order on all hosts. So each of them may use all processors. In another
   *  order their kernels wait for each other up to op_timeout_ms. Host memory: no effect. */
  WEFT_EP_OPTION_ORDERED = 1 << 1,
};

/**
 * How to open a rank. Initialise with WEFT_EP_OPTIONS_INIT; a field that is 0 or NULL has its default. All ranks of a
 * group have the same capacity, max_tokens, hidden, topk, experts_per_rank, dtype, combine_dtype and memory: connecting
 * compares them (VERSION). weft_ep_get_limits() returns their maximum values. All pointers are to host memory; the
 * library copies the founders and all strings.
 */
struct weft_ep_options {
  size_t size;             /**< sizeof(struct weft_ep_options) */
  weft_store_t *store;     /**< required; it still belongs to the caller, and has to outlive the handle */
  const char *prefix;      /**< prefix of the group's keys in the store, ending in '/', the same for all its ranks, e.g.
                                "/JOB/"; may be NULL with a store inside this process */
  const int32_t *founders; /**< [num_founders] ranks of the first view, this one among them; `rank` is then required.
                                Default: none; this rank joins the group, or founds it alone if there is none */
  /** Way to ranks on other hosts, the same for all ranks: the transport "ofi" or "ucx"; "nvlink": only hosts whose GPUs
   *  NVLink connects; "none": no other host. Default: the environment's WEFT_EP_TRANSPORT; else none if the store is
   *  inside this process; else NVLink if it connects the GPUs, otherwise ofi, then ucx. If ucx is not named, it uses
   *  only RDMA. NVLink connects hosts of one domain, and containers of one host whose processes may use the same IMEX
   *  channel. */
  const char *transport;
  /** Where ranks on other hosts connect to this one: addresses or interfaces of this host, comma-separated. Default:
   *  the environment's WEFT_ADDRESS or WEFT_INTERFACE; else the addresses of all interfaces that are up, except
   *  loopback. Every process that can read the store can connect; rows are not encrypted. */
  const char *listen;
  /** Identity of this host. Ranks with different identities connect as if they were on different hosts. Default: the
   *  environment's WEFT_HOST_ID; else all ranks of a host share its memory. */
  const char *host_id;
  uint32_t num_founders;     /**< entries of founders; 0 if and only if founders is NULL */
  int32_t rank;              /**< this rank's index; -1 (from WEFT_EP_OPTIONS_INIT): the lowest free one */
  uint32_t capacity;         /**< all rank indices are less than it; default 64 */
  uint32_t max_tokens;       /**< maximum number of tokens of a rank in one operation; default 128 */
  uint32_t hidden;           /**< values of a token, a multiple of WEFT_EP_BLOCK; default 7168 */
  uint32_t topk;             /**< maximum number of experts that a token selects; default 8 */
  uint32_t experts_per_rank; /**< experts that each rank holds; default 2 */
  enum weft_ep_dtype dtype;  /**< type of a dispatch if a call names no other; default bf16 */
  enum weft_ep_combine_dtype combine_dtype; /**< the same for a combine; default bf16 */
  /** A peer that does not take part in an operation within this time is lost; default 5,000. If it does not because it
   *  waits for a third rank, this rank waits up to three times as long in addition. */
  uint32_t op_timeout_ms;
  uint32_t lease_ttl_s;       /**< the store deletes this rank's claim this time after its last renewal; default 10 */
  enum weft_ep_memory memory; /**< where the rows lie; default: host memory */
  int32_t device;             /**< CUDA: index of the GPU; -1 (from WEFT_EP_OPTIONS_INIT): the thread's current one */
  uint32_t max_processors;    /**< CUDA: maximum number of streaming multiprocessors of a kernel; default: all. Ranks of
                                   one process that share a GPU must divide these among them, unless they are
                                   WEFT_EP_OPTION_ORDERED */
  uint32_t flags;             /**< WEFT_EP_OPTION_* */
  /** Operations of one step of the caller's, the same for all ranks. A step begins with each operation whose number is
   *  a multiple of this. A view takes effect only with such an operation: so ranks join and leave between steps, and
   *  the first operation of a joiner is the first one of a step. Barriers and combines by a route are operations, too.
   *  Ranks that die are lost within the step. If several die at the same time, a view may take effect one operation
   *  late. Default: 1, so a view takes effect with any operation */
  uint32_t operations_per_step;
  uint64_t window_bytes;    /**< THROUGHPUT: maximum size, in bytes, of the memory through which a peer's rows move to
                                 this rank; the same for all ranks. Default: 64 MiB, for any max_tokens. CUDA memory,
                                 for a peer on a host that NVLink does not reach: twice as much pinned host memory */
  enum weft_ep_mode mode;   /**< mode of the group, the same for all ranks */
  uint32_t max_rows;        /**< THROUGHPUT: maximum number of rows that this rank receives in one operation, for which
                                 its bookkeeping has room; default: max_tokens times the capacity */
  uint64_t zero_copy_bytes; /**< THROUGHPUT: bytes of weft_ep_get_zero_copy_memory(), the same for all ranks. Default:
                                 0, none */
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

/** Limits of this library. Initialise with WEFT_EP_LIMITS_INIT. */
struct weft_ep_limits {
  size_t size;                   /**< sizeof(struct weft_ep_limits) */
  uint32_t max_tokens;           /**< maximum of weft_ep_options.max_tokens */
  uint32_t max_hidden;           /**< maximum of weft_ep_options.hidden */
  uint32_t max_topk;             /**< maximum of weft_ep_options.topk */
  uint32_t max_experts_per_rank; /**< maximum of weft_ep_options.experts_per_rank */
  uint32_t max_capacity;         /**< maximum of weft_ep_options.capacity */
  uint32_t max_cuda_ranks;       /**< maximum number of ranks of a view on CUDA memory */
  uint32_t depth;                /**< maximum number of operations that are open at the same time */
  uint32_t max_combines;         /**< maximum number of combines of one operation (WEFT_EP_COMBINE_KEEP) */
  uint32_t max_latency_tokens;   /**< maximum of weft_ep_options.max_tokens with LATENCY */
  uint32_t min_processors;       /**< CUDA: minimum number of processors of a kernel with THROUGHPUT */
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
 * refuses this client. UNSUPPORTED: memory is CUDA, and no GPU here supports it; the sentence says why. Other codes
 * come from the store. [any]
 */
WEFT_API int weft_ep_open(weft_ep_t **ep, const struct weft_ep_options *options, uint32_t timeout_ms);

/**
 * Leaves at once and frees everything; peers see that the rank has left. To leave without cost for the others, an
 * active rank first calls weft_ep_disconnect() with its own index, and continues to run operations until
 * weft_ep_is_active() is false. The call blocks: for milliseconds if the store answers, for up to five seconds if it
 * does not; in that case the claim of the rank ends with its lease. NULL is legal. CUDA: wait for the streams first;
 * launches that have not run yet have op_timeout_ms to finish. [owner]
 */
WEFT_API void weft_ep_close(weft_ep_t *ep);

/** Where the rows of operations lie: HOST or CUDA; `*device` (may be NULL) is the GPU's index, -1 if there is none.
 *  [any] */
WEFT_API enum weft_ep_memory weft_ep_get_memory(const weft_ep_t *ep, int32_t *device);

/**
 * Returns memory for rows that peers read in place (zero copy): `*bytes` (may be NULL) of rank memory, zeroed, aligned
 * to 4 KiB, of the size weft_ep_options.zero_copy_bytes. NULL: there is none. The caller may use it in any layout until
 * weft_ep_close().
 *
 * On CUDA memory a combine copies none of the rows in this memory into windows: each peer reads its own rows over
 * NVLink and adds them, so that half as many processors take less time. This applies to `y` of weft_ep_combine() and
 * weft_ep_combine_route() if it is RANK_MAJOR and is sent as bf16; row_weights, if there are any, have to be in this
 * memory too. The call ends in its stream when all peers have read their rows, so that later work in the stream may
 * write to the memory. The combine copies the rows, as from other memory, if a peer is on another host or does not map
 * the memory, on host memory, in a single half, and if the memory has 16 GiB or more. All processes of the group can
 * write to the memory, as to windows. [any]
 */
WEFT_API void *weft_ep_get_zero_copy_memory(const weft_ep_t *ep, uint64_t *bytes);

/** This rank's index. [any] */
WEFT_API int32_t weft_ep_rank(const weft_ep_t *ep);
/** This rank's incarnation: random, new at each open. [any] */
WEFT_API uint64_t weft_ep_incarnation(const weft_ep_t *ep);

/**
 * Takes the oldest event in the queue. 1: it is in `*event`. 0: there is none. A rank queues its events from
 * weft_ep_open() on, and keeps at least the newest 256. If there are more, it discards the oldest first, except FENCED
 * and the last PEER_LOST of each rank, which stay until they are taken; `event->dropped` counts the discarded ones.
 * INVALID: an argument is wrong. The call does not wait. [any]
 */
WEFT_API int weft_ep_next_event(weft_ep_t *ep, struct weft_ep_event *event);

/** Writes a descriptor to `*fd` that is readable (POLLIN, EPOLLIN) while events are queued. Use it for poll and epoll,
 *  but never read from it. It belongs to the handle, and weft_ep_close() closes it. The first call makes it. LIMIT: no
 *  descriptor is left. [any] */
WEFT_API int weft_ep_fd(weft_ep_t *ep, int *fd);

/**
 * Ends one wait: if a call with this handle waits now, that call returns CANCELED, otherwise the next call that has to
 * wait. A call that need not wait is not affected. [any], also from a signal handler: it is async-signal-safe.
 *
 * The state after CANCELED: after weft_ep_connect(), weft_ep_activate() and the other calls with a `timeout_ms` it is
 * the state after TIMEOUT. A call of an operation on host memory, weft_ep_barrier() too, continues where it was if you
 * make the same call again with the same arguments. Until then its buffers stay in use, and peers wait for this rank as
 * for a slow one. op_timeout_ms limits the time that all attempts together wait for a peer. After weft_ep_dispatch()
 * you may call weft_ep_dispatch_recv() instead if `*op` was written; the same holds after weft_ep_combine(). On CUDA
 * memory only the wait of the host ends: the launched kernels run, and weft_ep_await() gets their results later. The
 * function does not end weft_ep_close() or the wait until the network has taken the data sent to it.
 */
WEFT_API void weft_ep_interrupt(weft_ep_t *ep);

/**
 * Connects to each of ranks[count]: waits until the peer has claimed its rank, and exchanges and maps windows in both
 * directions. The other side needs no call. Connecting a second time is no error. TIMEOUT names the ranks that could
 * not be connected. The others stay connected, nothing remains of an unfinished connection, and the call may be
 * repeated. Each call begins an unfinished connection anew. So a `timeout_ms` must leave time for one connection, in
 * all calls that connect: some milliseconds on one host, up to a second where a network device registers the memory.
 * With a `timeout_ms` of 0 the call only reports which ranks are not connected. INVALID: a rank is out of range, or is
 * this rank. VERSION: a peer runs with other sizes, or another version of Weft. UNSUPPORTED: a peer is on another host
 * that no common transport reaches. AUTH: a peer is a process of another user. LIMIT: on CUDA memory, more than 63
 * peers. [owner]
 */
WEFT_API int weft_ep_connect(weft_ep_t *ep, const int32_t *ranks, size_t count, uint32_t timeout_ms);

/**
 * Makes this rank active. A founder connects to the other founders, except to those that a later view does not contain,
 * and the call returns when the first view is agreed on. For a joiner the call combines weft_ep_offer(),
 * weft_ep_change() with this rank in `add`, and weft_ep_await_start(), also if the joiner has called weft_ep_offer()
 * before. It connects to every active rank, proposes the view with this rank, and returns when the running ranks have
 * fixed its first operation. For that the running ranks have to run operations; none of them waits for the joiner. If
 * all of them leave or die before that, the ranks that await their first operation begin among themselves, with
 * operation 0. If all ranks of a group have died, a joiner does not join what they left in the store. That ends within
 * two leases, and the call founds the group anew. If this rank is active already, the call returns 0. TIMEOUT names the
 * missing ranks; the offer of this rank is then withdrawn, but the rank may be in the view already. FENCED: the group
 * removed this rank meanwhile. Other codes come from weft_ep_connect(). After an error other than FENCED the call may
 * be repeated. [owner]
 */
WEFT_API int weft_ep_activate(weft_ep_t *ep, uint32_t timeout_ms);

/** How the next view shall differ. Initialise with WEFT_EP_CHANGE_ARGS_INIT. No rank may be named twice. */
struct weft_ep_change_args {
  size_t size;           /**< sizeof(struct weft_ep_change_args) */
  const int32_t *add;    /**< [num_add] ranks to add, which offer themselves with weft_ep_offer(). The call keeps no
                              pointer */
  const int32_t *remove; /**< [num_remove] ranks to remove; this one may be among them. The call keeps no pointer */
  uint32_t num_add;      /**< entries of add, at most 60 */
  uint32_t num_remove;   /**< entries of remove, at most 60 */
  uint32_t flags;        /**< 0: no flag is defined yet */
  uint32_t reserved;     /**< 0 */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_CHANGE_ARGS_INIT WEFT_SIZED(struct weft_ep_change_args)
/** Writes the same initial value, for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_change_args_init(struct weft_ep_change_args *change, size_t size);

/**
 * Changes the membership in one step: proposes one view with all ranks of `change->add` and without all ranks of
 * `change->remove`, and returns when it is agreed on. The whole change happens, or nothing: until every rank of `add`
 * has offered itself, nothing is proposed, the view stays, and operations continue. The agreement needs no running
 * operations. Like any other view, this one takes effect at an operation that all ranks fix while they run, also with
 * captured graphs. Ranks of `add` that are already in the view, and ranks of `remove` that are not in it, are no error.
 * The change also removes ranks that died.
 *
 * TIMEOUT names the ranks of `add` that did not offer themselves: the view is unchanged, and the offers of the other
 * ranks remain. UNREACHABLE, CANCELED: the proposed change may still happen; weft_ep_committed_view() shows whether it
 * has. INVALID: an argument is wrong. NOT_CONNECTED: this rank is in no view; then it may add itself, and no other
 * rank. LIMIT: more than 60 ranks in `add` or in `remove`. FENCED, CLOSED: this rank was removed, or has left. [owner]
 */
WEFT_API int weft_ep_change(weft_ep_t *ep, const struct weft_ep_change_args *change, uint32_t timeout_ms);

/**
 * Offers this rank, which is not active, for a view: waits until there is a view, connects to all its members and to
 * every rank that has offered itself before, and publishes the offer. From then on an active rank may add this rank
 * with weft_ep_change() at any time, and weft_ep_await_start() waits for that. Ranks that offer themselves later
 * connect to this rank, without a call here. An offer ends when a view takes the rank in, with weft_ep_withdraw() and
 * weft_ep_close(), when this rank dies, and when the store was restarted empty. A second call returns 0. After TIMEOUT
 * and other errors there is no offer, but the connections that were made remain, and a view may have taken the rank in
 * meanwhile: then a further call returns 0. EXISTS: this rank has been active. Other codes come from weft_ep_connect().
 * [owner]
 */
WEFT_API int weft_ep_offer(weft_ep_t *ep, uint32_t timeout_ms);

/** Withdraws the offer of `rank`, which is this rank or another one. NOT_FOUND: the rank has no offer. CONFLICT: a view
 *  has taken it in. TIMEOUT, UNREACHABLE, CANCELED: the offer remains, unless the store has already got the request and
 *  still withdraws it. INVALID: the rank is out of range. [owner] */
WEFT_API int weft_ep_withdraw(weft_ep_t *ep, int32_t rank, uint32_t timeout_ms);

/**
 * Waits until a view has taken this rank in and the running ranks have fixed its first operation; for that they have to
 * run operations. `*op` (may be NULL) is the number of that operation. This rank is now active and has to take part in
 * it: the others wait there as for a slow rank. For them it may be any operation of a step that has several, such as
 * the second layer of a model. All ranks can begin the step again together: each after an operation whose
 * weft_ep_info.epoch is not that of its operation before, the joiner after its first one (docs/guide/python.md has the
 * loop). A rank that is or was active gets the number of its first operation again. NOT_CONNECTED: this rank has not
 * offered itself, or its offer was withdrawn, or lost with the store. FENCED: the group removed it meanwhile. TIMEOUT:
 * the offer remains, or the rank is in the view already: call again. [owner]
 */
WEFT_API int weft_ep_await_start(weft_ep_t *ep, uint32_t timeout_ms, uint64_t *op);

/**
 * Proposes the view without ranks[count] and returns when it is agreed on. It takes effect within the next few
 * operations, which all ranks, including the leaving ones, have to run. This rank may be among `ranks`: it then leaves
 * when weft_ep_is_active() becomes false. If a rank is connected but not active, only its windows are unmapped.
 * NOT_FOUND names a rank that is not even connected. FENCED, CLOSED: this rank itself was removed, or has left.
 * TIMEOUT: the view still contains the ranks; what was proposed until then may still happen. [owner]
 */
WEFT_API int weft_ep_disconnect(weft_ep_t *ep, const int32_t *ranks, size_t count, uint32_t timeout_ms);

/** Whether this rank takes part in the next operation: false before it was activated, and after it has left or was
 *  removed. [owner] */
WEFT_API bool weft_ep_is_active(const weft_ep_t *ep);

/** Number of the next operation; it is the same on all ranks. [owner] */
WEFT_API uint64_t weft_ep_next_op(const weft_ep_t *ep);

/** Writes the view of the next operation: its number to `*epoch` (may be NULL), and the first `cap` of its ranks,
 *  ascending, to ranks[cap] (host memory; NULL if cap is 0). `*count` (may be NULL) is the number of its ranks, also if
 *  `cap` is less. Before activation `*epoch` and `*count` are 0. INVALID: `ranks` is NULL, and `cap` is not 0.
 *  [owner] */
WEFT_API int weft_ep_view(const weft_ep_t *ep, uint64_t *epoch, int32_t *ranks, uint32_t cap, uint32_t *count);

/** Writes the newest agreed view, which may not have taken effect yet. Arguments and INVALID are as with
 *  weft_ep_view(). [any] */
WEFT_API int weft_ep_committed_view(const weft_ep_t *ep, uint64_t *epoch, int32_t *ranks, uint32_t cap,
                                    uint32_t *count);

/** Writes the states of the first `cap` rank indices into states[cap] (host memory; NULL if cap is 0). `*count` (may be
 *  NULL) is the number of rank indices, which is the group's capacity, also if `cap` is less. INVALID: `states` is
 *  NULL, and `cap` is not 0. [owner] */
WEFT_API int weft_ep_states(const weft_ep_t *ep, enum weft_ep_rank_state *states, uint32_t cap, uint32_t *count);

/** Masks an active rank, or unmasks it, from the next dispatch on. This rank sends a masked rank no tokens, and the
 *  selections of its experts count as missing. The masked rank stays in the view, and this rank still waits for it.
 *  NOT_FOUND: the rank is not active. [owner] */
WEFT_API int weft_ep_mask_update(weft_ep_t *ep, int32_t rank, bool masked);

/** Writes into masked[cap] (rank memory; NULL if cap is 0) which of the first `cap` rank indices this rank masks in the
 *  next dispatch: 1, else 0. Entries at and above the group's capacity are not written. CUDA: the call launches in
 *  `stream` and does not wait; in a graph it writes the masks at each replay. INVALID: `masked` is no rank memory.
 *  [owner] */
WEFT_API int weft_ep_mask_read(weft_ep_t *ep, int32_t *masked, uint32_t cap, void *stream);

/**
 * Sets a number that this rank sends with every operation from the next dispatch on. weft_ep_info.mark is the lowest
 * mark of the active ranks, the same for all. With it ranks can agree, without a store or a pause, on the operation at
 * which something begins: a phase, a weight version, the end. If a rank dies during its dispatch, its mark may have
 * reached only some ranks. The other ranks then see a higher mark one operation earlier, provided that no rank lowers
 * its mark and a joiner begins with the current one. Default 0. [owner]
 */
WEFT_API void weft_ep_set_mark(weft_ep_t *ep, uint64_t mark);

/** Bits of weft_ep_dispatch_args.flags. */
enum weft_ep_dispatch_flags {
  /** If the operation of two dispatches ago is still open, end it as weft_ep_finish() does, instead of returning BUSY.
   *  All ranks of the view have to do so in the same operation. The call still returns BUSY if that operation has not
   *  been received, or if its combine was sent and has not been received. CUDA: the end of that operation is launched
   *  in the stream of this dispatch. The call does not know an operation that another graph has begun, so a graph has
   *  to end the operations that it begins. */
  WEFT_EP_DISPATCH_RECYCLE = 1 << 0,
  /** With `route`, for debugging: topk_idx has to be equal to the selections in the route, else INVALID names the first
   *  token and place that differ, and no operation has begun. The dispatch uses the route if it is filled, and fills it
   *  if it was only planned. CUDA: the GPU compares them. The call waits for that, and for all earlier work in the
   *  stream, in the same way as calls with `info` (TIMEOUT, CANCELED); so a stream that is being captured is INVALID,
   *  and so is num_tokens_at */
  WEFT_EP_DISPATCH_CHECK_ROUTE = 1 << 1,
};

/** What to dispatch. Initialise with WEFT_EP_DISPATCH_ARGS_INIT. A field that is 0 or NULL has its default. */
struct weft_ep_dispatch_args {
  size_t size; /**< sizeof(struct weft_ep_dispatch_args) */
  /** [T][H] in rank memory: bf16, or with `scales` e4m3. Host memory: the call reads it until it returns;
   *  weft_ep_dispatch() and weft_ep_recv_args.rows_at describe when it is read longer. CUDA: read until the kernel of
   *  this call has run; THROUGHPUT: until the kernel of weft_ep_dispatch_recv() has run, which copies this rank's own
   *  rows to their places */
  const void *x;
  /** Scales of an x that the caller has cast to e4m3 already, in rank memory: float [T][H/128], for ue8m0 uint32_t
   *  [T][ceil(H/512)], OPAQUE uint32_t [T][scale_bytes/4]; read as long as x. Both are sent unchanged, and their values
   *  are not interpreted. CUDA, with bf16 too: four aligned bytes FF FF FF FF of x, or of a float scale, arrive as FF
   *  FF FF 7F; as numbers both are NaN. NULL: x is OPAQUE without scales, or bf16, and is cast here if `dtype` is
   *  fp8. */
  const void *scales;
  /** [T][K] global experts in rank memory, -1: none. On host memory an expert out of range is INVALID, and the call
   *  keeps no pointer. CUDA: the caller must not change topk_idx and topk_weights until the combine has run, and an
   *  expert out of range counts as one whose rank is absent. With LATENCY kernels read only the lower 32 bits of each
   *  entry */
  const int64_t *topk_idx;
  const int32_t *topk_idx32; /**< the same as int32_t, instead of topk_idx */
  /** [T][K] in rank memory. NULL: the combine gives the weights (PER_EXPERT and PACKED, in groups for LATENCY), or the
   *  combine is UNWEIGHTED, or each row counts as 1 (RANK_MAJOR). */
  const float *topk_weights;
  /** One number in rank memory: T, read together with the rows, so that one captured graph works for any T up to
   *  num_tokens (host memory: a larger T is INVALID; CUDA: it counts as num_tokens). Default: T is num_tokens */
  const uint32_t *num_tokens_at;
  /** With topk_idx, which then must not be NULL even for 0 tokens: the dispatch fills the route. With topk_idx and
   *  topk_idx32 NULL: the dispatch goes by the route. The number of tokens has to be that of the dispatch that filled
   *  it, and topk_weights NULL, because the route has kept the weights. See weft_ep_route_create(). Default: none.
   *  CUDA: THROUGHPUT only */
  weft_ep_route_t *route;
  void *stream;                /**< CUDA: the cudaStream_t to launch in; host memory: unused */
  uint64_t row_stride;         /**< bytes from a row of x to the next; default: the size of a row. CUDA: a multiple of
                                    16, less than 2^32 */
  uint64_t scale_row_stride;   /**< elements (float or uint32_t) from the scales of a row to the scales of the next;
                                    default: the number of scales of a row */
  uint64_t scale_block_stride; /**< elements from a scale to the next scale of its row; default 1 */
  uint32_t num_tokens;         /**< T, 0 to max_tokens */
  uint32_t topk;               /**< K, 1 to weft_ep_options.topk. Default: that number; for a dispatch that goes by a
                                    route, the K of the route */
  enum weft_ep_dtype dtype;    /**< type of the rows that are sent; default: the type that the group was opened for */
  enum weft_ep_dtype x_dtype;  /**< type of x; default, and the only allowed values: bf16, or `dtype` with `scales` or
                                    OPAQUE */
  uint32_t row_bytes;          /**< OPAQUE: bytes of a row of x, a multiple of 16; the same on all ranks */
  uint32_t scale_bytes;        /**< OPAQUE: bytes of the scales of a row, a multiple of 4; the same on all ranks. 0:
                                    none. CUDA: at most 512 */
  uint32_t processors;         /**< CUDA: maximum number of streaming multiprocessors of the kernel, up to
                                    weft_ep_options.max_processors, which is the default; THROUGHPUT: 8 up to that
                                    number, by default 24. Host memory: unused */
  uint32_t flags;              /**< WEFT_EP_DISPATCH_* */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_DISPATCH_ARGS_INIT WEFT_SIZED(struct weft_ep_dispatch_args)
/** Writes WEFT_EP_DISPATCH_ARGS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_dispatch_args_init(struct weft_ep_dispatch_args *args, size_t size);

/** The counts of a received dispatch, for kernels and threads that do not call the library (weft_ep_recv_args.status).
 *  The struct has no `size`; instead weft_ep_recv_args.status_size is the caller's sizeof. */
struct weft_ep_recv_status {
  uint64_t op;          /**< the operation */
  uint64_t epoch;       /**< view that it ran in */
  uint64_t mark;        /**< as weft_ep_info.mark */
  uint32_t num_ranks;   /**< ranks of that view */
  uint32_t num_rows;    /**< as weft_ep_info.num_rows */
  uint32_t rows_needed; /**< as weft_ep_info.rows_needed */
  uint32_t num_lost;    /**< as weft_ep_info.num_lost */
  uint64_t written;     /**< op + 1, stored last, with release: a thread that polls it with acquire sees all other
                             fields */
};

/** Bits of weft_ep_recv_args.flags. */
enum weft_ep_recv_flags {
  /** RANK_MAJOR: local_expert and weights of a row are at the places that the experts have in the token's top-k; the
   *  places of other ranks' experts have -1 and 0. Without the flag the row's own experts come first. */
  WEFT_EP_RECV_KEEP_PLACES = 1 << 0,
  /** PACKED: the rows between the parts of experts, and those after the last part up to a multiple of the alignment,
   *  become 0, and so do their scales and weights; their src_rank and src_token become -1, their rows_at NULL. Without
   *  the flag they are not written */
  WEFT_EP_RECV_ZERO_PADDING = 1 << 1,
};

/** Where to receive. Initialise with WEFT_EP_RECV_ARGS_INIT. The caller owns every buffer. All buffers except rows_at
 *  are in rank memory. They must not overlap each other or the memory that the dispatch reads. A field whose text
 *  begins with * may be NULL. */
struct weft_ep_recv_args {
  size_t size; /**< sizeof(struct weft_ep_recv_args) */
  /** bf16 or e4m3; PER_EXPERT [E][rows][H], RANK_MAJOR and PACKED [rows][H]; OPAQUE: row_bytes bytes instead of H
   *  values. NULL: see rows_at */
  void *x;
  /** fp8 and OPAQUE, with x: float, PER_EXPERT [E][rows][H/128], RANK_MAJOR and PACKED [rows][H/128]; ue8m0 and OPAQUE:
   *  uint32_t, with ceil(H/512) or scale_bytes/4 instead of H/128; see scale_row_stride */
  void *scales;
  int32_t *counts;    /**< [E] rows of each local expert; RANK_MAJOR: its (token, expert) pairs */
  int32_t *src_rank;  /**< *PER_EXPERT [E][rows], RANK_MAJOR and PACKED [rows]: rank that the row came from */
  int32_t *src_token; /**< *PER_EXPERT [E][rows], RANK_MAJOR and PACKED [rows]: the token's index on that rank */
  /** *PER_EXPERT and PACKED [E][capacity], RANK_MAJOR [capacity]: begin << 32 | count of each source's rows. `begin` is
   *  counted from the start of the expert's part; RANK_MAJOR: from the start of x */
  int64_t *range;
  int32_t *local_expert; /**< *RANK_MAJOR [rows][K]: local expert ids in top-k order, then -1 */
  float *weights;        /**< *RANK_MAJOR [rows][K]: the weights of these experts, then 0; PACKED [rows]: the weight of
                              the selection that each row belongs to */
  /** *Host memory only, with x NULL, to receive in place. PER_EXPERT [E][rows], RANK_MAJOR and PACKED [rows], in host
   *  memory: the call writes the address of each row; there are its values and, directly after them, its scales,
   *  whatever the strides are. Nothing is copied: rows of other ranks stay in the windows through which they came, this
   *  rank's own rows in weft_ep_dispatch_args.x (with fp8, or after weft_ep_dispatch_send(), in the library's memory).
   *  The rows stay unchanged until weft_ep_combine_send(), weft_ep_combine() or weft_ep_finish() of this operation is
   *  called, whatever happens to their senders; the caller must not change weft_ep_dispatch_args.x before that. Their
   *  sender also maps them, so a sender that violates the protocol could change values between two reads. */
  const void **rows_at;
  int32_t *expert_total; /**< *[E] the call adds the number of rows (RANK_MAJOR: pairs) of each local expert */
  int64_t *wait_ns;      /**< *[capacity] the call adds the time that this rank waited for each source's dispatch,
                              in ns */
  int32_t *slot;         /**< *PACKED [rows][K]: an entry for each received token of each rank, by source rank, then
                              by token: the rows of x that belong to its selections, at their places in the token's
                              top-k; -1 for selections of other ranks' experts */
  int32_t *expert_end;   /**< *PACKED [E]: index of the row of x after the last row of each local expert */
  struct weft_ep_recv_status *status; /**< *counts of the received dispatch, written after all other buffers */
  uint64_t *lost; /**< *[ceil(capacity/64)] bit r % 64 of word r / 64: the tokens of rank r of the view did not come;
                       written before `status` */
  void *stream;   /**< CUDA: the cudaStream_t of weft_ep_dispatch_recv(), unused by weft_ep_dispatch() and on host
                     memory */
  uint64_t scale_row_stride;    /**< elements (float or uint32_t) from the scales of a row to the scales of the next;
                                     default: the number of scales of a row */
  uint64_t scale_block_stride;  /**< elements from a scale to the next scale of its row; default 1 */
  uint64_t scale_expert_stride; /**< PER_EXPERT: elements from the scales of an expert's first row to those of the next
                                     expert's first row; default: `rows` times the number of scales of a row, whatever
                                     the other strides are */
  enum weft_ep_layout layout;   /**< how the received rows are laid out; default PER_EXPERT */
  /** Room of the buffers, in rows. PER_EXPERT: rows of each expert's part; RANK_MAJOR and PACKED: S. max_tokens times
   *  the number of active ranks is enough for PER_EXPERT and RANK_MAJOR, unless a view with more ranks takes effect
   *  during the operation or a token selects one expert twice; after ROOM, info says how many are needed. At most
   *  INT32_MAX in all parts together */
  uint32_t rows;
  uint32_t alignment;   /**< PACKED: 1 to 256 rows; the part of each expert begins at a multiple of it; default 1 */
  uint32_t status_size; /**< with status: sizeof(struct weft_ep_recv_status) */
  uint32_t flags;       /**< WEFT_EP_RECV_* */
  uint32_t reserved;    /**< 0 */
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
  uint64_t wire_bytes;    /**< bytes sent to other ranks in the dispatch: rows, scales and row headers */
  uint64_t logical_bytes; /**< sum over the valid (token, expert) pairs: 2H + 16 for bf16, H + 16 and the scales for
                               fp8 */
  int32_t *lost;          /**< in: room for `lost_cap` ranks in host memory, or NULL; out: the first lost ranks,
                               ascending */
  uint32_t lost_cap;      /**< in: room of `lost`, in ranks */
  uint32_t num_lost;      /**< ranks of the view whose tokens did not come */
  uint32_t num_ranks;     /**< ranks of that view */
  uint32_t num_rows;      /**< received rows; PER_EXPERT: of all experts together */
  uint32_t rows_needed;   /**< weft_ep_recv_args.rows that is necessary for all of them */
  uint32_t reserved;      /**< 0 */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_INFO_INIT WEFT_SIZED(struct weft_ep_info)
/** Writes WEFT_EP_INFO_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_info_init(struct weft_ep_info *info, size_t size);

/** Bits of weft_ep_combine_args.flags. */
enum weft_ep_combine_flags {
  /** If contributions to a token are missing, scale the token by (all weights) / (weights that came). Each weight
   *  counts as 1 with UNWEIGHTED, and for RANK_MAJOR rows if the dispatch had no topk_weights. */
  WEFT_EP_COMBINE_RENORMALIZE = 1 << 0,
  /** The operation stays open for another combine, which begins with weft_ep_combine_send(). The flag is for the
   *  receiving half. weft_ep_finish(), WEFT_EP_DISPATCH_RECYCLE or a combine without the flag ends the operation. All
   *  ranks of the view have to combine the same number of times. CUDA: both halves need the flag, and operations end in
   *  their order: while an earlier operation is open, a later one can only be combined with this flag. UNSUPPORTED with
   *  LATENCY if a peer is on a host that NVLink does not reach. */
  WEFT_EP_COMBINE_KEEP = 1 << 1,
  /** PER_EXPERT, PACKED: the rows of a token are added without the weights of the dispatch, as RANK_MAJOR rows always
   *  are. Either all ranks set it, or none. CUDA: THROUGHPUT only */
  WEFT_EP_COMBINE_UNWEIGHTED = 1 << 2,
};

/** What to combine, and where to. Initialise with WEFT_EP_COMBINE_ARGS_INIT. A field that is 0 or NULL has its
 *  default. */
struct weft_ep_combine_args {
  size_t size; /**< sizeof(struct weft_ep_combine_args) */
  /** bf16 in rank memory, PER_EXPERT [E][rows][H], RANK_MAJOR and PACKED [rows][H], in the row order of the receive.
   *  Host memory: read until the sending call returns; CUDA: until its kernel has run. Has to be NULL after
   *  weft_ep_combine_rows() */
  const void *y;
  const float *topk_weights; /**< PER_EXPERT, PACKED: [T][K] in rank memory if the dispatch had no weights; otherwise,
                                  and with UNWEIGHTED, NULL. Host memory: read until the sending call returns; CUDA:
                                  until the combine has run */
  /** Weights that are sent back with the rows, for out_weights; default: none. In rank memory: RANK_MAJOR [rows][K], at
   *  their places in the top-k; PACKED [rows] and PER_EXPERT [E][rows], and then only if the dispatch had topk_weights,
   *  or with UNWEIGHTED. Read as long as topk_weights. CUDA: THROUGHPUT only, and on all ranks or none */
  const float *row_weights;
  const void *bias[2]; /**< bf16 [T][H] in rank memory, added one after the other to the sum (after RENORMALIZE) before
                            it is rounded; they must not overlap `out`. The receiving half reads them. Default: none.
                            CUDA: THROUGHPUT only */
  void *out; /**< bf16 [T][H] in rank memory, written by the receiving half; a token without contribution becomes 0, or
                  the sum of its biases. It must not overlap `y` if one call does both halves, because that call reads
                  `y` meanwhile */
  float *out_weights; /**< [T][K] in rank memory, written by the receiving half: the sum of the row_weights of the
                           ranks; each selection has the weight of one rank, or 0 if none came. Default: not written.
                           CUDA: as for row_weights, and only together with row_weights */
  void *stream;       /**< CUDA: the cudaStream_t to launch in; host memory: unused */
  enum weft_ep_combine_dtype dtype; /**< type of the rows that this rank sends; default: the type that the group was
                                         opened for. CUDA: the same for all ranks */
  uint32_t processors;              /**< CUDA: maximum number of streaming multiprocessors of the kernel, as in
                                         weft_ep_dispatch_args. Host memory: unused */
  uint32_t flags;                   /**< WEFT_EP_COMBINE_* */
  uint32_t reserved;                /**< 0 */
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
  uint64_t logical_bytes;          /**< per valid (token, expert) pair of this rank's dispatch, by the type of this
                                      rank's rows: bf16 2H; logfmt10 H * 10 / 8, and 4 for each 128 values */
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
 * Begins an operation, whose number is `*op`: routes this rank's tokens, casts them, and writes them to their ranks.
 * The call may wait for a peer that has not read its rows of two operations ago (THROUGHPUT on CUDA memory: of the
 * operation before). A peer that does not read them in time is lost, which is no error. INVALID names the first wrong
 * argument. UNSUPPORTED names an argument that this memory does not support yet. NOT_CONNECTED: this rank has not been
 * activated. FENCED: it has left or was removed; if it was removed, close it and open it again. BUSY: two operations
 * are open already; THROUGHPUT on CUDA memory: one was sent and has not been received. (If one graph captures two such
 * operations, this is not detected during the capture; when they run, their ranks are lost to each other.) LIMIT, with
 * THROUGHPUT: the rows do not fit into a window all at once; weft_ep_dispatch() sends any number. ROOM: the route to be
 * filled has no room for so many tokens or selections; or more rows came when the route was filled than it has room
 * for. After an error no operation has begun. [owner]
 */
WEFT_API int weft_ep_dispatch_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint64_t *op);

/**
 * Receives operation `op`, in the order of operations: waits for the tokens of every active rank, and lays them out by
 * source rank, then by token. `info` may be NULL. The loss of a rank is no error: see `info->num_lost`. ROOM:
 * `recv->rows` is too small; `info->rows_needed` and `status` say how many rows are needed. On host memory the call
 * then writes nothing else of `info`, adds nothing to expert_total and wait_ns, and the other buffers may contain a
 * part of the received rows: call again with more room. On CUDA memory the call returns ROOM only with `info`,
 * otherwise weft_ep_await() does; rows beyond the room are lost, and the operation continues. INVALID: an argument is
 * wrong, or it is not this operation's turn. THROUGHPUT: if a rank is lost after a part of its rows has come, these
 * rows stay. The places of its other rows are empty: values and scales 0, src_rank that rank, src_token -1,
 * local_expert -1, weights 0, slot -1. Counts and ranges include them, and the rank is in `info->lost`. LIMIT: rows_at
 * is given, and the rows of a rank do not fit into its window all at once; call again with x. UNSUPPORTED names an
 * argument that this memory does not support yet. PROTOCOL, on host memory: a rank dispatches another type or top-k in
 * this operation; the operation has then ended without rows, as it has for the other ranks. CUDA: for waiting, see
 * weft_ep_await(). [owner]
 */
WEFT_API int weft_ep_dispatch_recv(weft_ep_t *ep, uint64_t op, const struct weft_ep_recv_args *recv,
                                   struct weft_ep_info *info);

/**
 * For RANK_MAJOR, after weft_ep_dispatch_recv(), and again after a combine with WEFT_EP_COMBINE_KEEP: writes into
 * rows_at[info->num_rows] (host memory), in the row order of the receive, the address at which the caller has to write
 * the output of each row, bf16 [H]. The caller then calls weft_ep_combine_send() with y NULL, and nothing is copied.
 * For rows of other ranks the address is in the window that the other rank reads. So write each cache line once and
 * completely, preferably with stores that bypass the caches unless both processors share a cache; the previous contents
 * are undefined. All writes have to end before weft_ep_combine_send() is called. Like weft_ep_dispatch_send(), the call
 * may wait for a peer that has not read its rows of two operations ago. A peer that does not read them in time is lost,
 * and its rows share one address. INVALID: PER_EXPERT, a combine of LOGFMT10, or not this operation's turn.
 * UNSUPPORTED: CUDA memory, where kernels read y in place and never copy it before they send it. [owner]
 */
WEFT_API int weft_ep_combine_rows(weft_ep_t *ep, uint64_t op, void **rows_at);

/** Sends the experts' outputs of `op` back: one row for each (rank, token). If the dispatch had no weights, the ranks
 *  exchange them first, and the call waits for them. It may also wait for a peer that has not read its rows of two
 *  operations ago. The loss of a rank is no error. INVALID: an argument is wrong, or the operation was not received.
 *  UNSUPPORTED names an argument that this memory does not support yet. LIMIT: the operation has had
 *  weft_ep_limits.max_combines combines already; or, with THROUGHPUT, the rows of a rank (CUDA: those of a rank with
 *  max_tokens) do not fit into a window all at once; weft_ep_combine() has no such limit. BUSY, with THROUGHPUT on CUDA
 *  memory: another combine was sent and has not been received. [owner] */
WEFT_API int weft_ep_combine_send(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine_args *args);

/** Waits for the contributions to `op` and sums them into `args->out` (the same args as for weft_ep_combine_send()), in
 *  the order of ranks, in fp32, rounded once. It ends the operation, unless WEFT_EP_COMBINE_KEEP is set. `result` may
 *  be NULL. The loss of a rank is no error: see `result->num_missing`. INVALID: an argument is wrong, or nothing was
 *  sent. [owner] */
WEFT_API int weft_ep_combine_recv(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine_args *args,
                                  struct weft_ep_result *result);

/** Ends a received operation without a combine, or an operation that a combine left open. Either every rank of the view
 *  does this, or none. The call does not wait. CUDA: it launches in the stream of the operation's last launch; if the
 *  operation began in a capture that has ended, it launches nothing. INVALID: the operation was not received, or a
 *  combine of it was sent and not received. [owner] */
WEFT_API int weft_ep_finish(weft_ep_t *ep, uint64_t op);

/**
 * Combines weft_ep_dispatch_send() and weft_ep_dispatch_recv(), with the errors of both. CUDA: one kernel, in
 * args->stream. On host memory, the operation `*op` is open after ROOM of the receive: call weft_ep_dispatch_recv()
 * with more room, and keep args->x and args->scales readable until it returns. After LIMIT of the receive do the same,
 * with x. After ROOM of a route or LIMIT of the send, `*op` is unchanged, and no operation has begun. On host memory
 * INVALID also means that an earlier operation was sent and has not been received. A network may send rows to other
 * hosts directly from args->x: the call waits until they were sent or their rank is lost (up to half a second more than
 * op_timeout_ms), and afterwards no network reads memory of the caller. [owner]
 */
WEFT_API int weft_ep_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch_args *args,
                              const struct weft_ep_recv_args *recv, struct weft_ep_info *info, uint64_t *op);

/** Combines weft_ep_combine_send() and weft_ep_combine_recv(), with the errors of both, such as INVALID and CANCELED.
 *  The text of weft_ep_dispatch() about args->x applies to args->y. [owner] */
WEFT_API int weft_ep_combine(weft_ep_t *ep, uint64_t op, const struct weft_ep_combine_args *args,
                             struct weft_ep_result *result);

/**
 * CUDA: waits until the launches of operation `op` so far have run, at most for `timeout_ms`, and fills `info` and
 * `result` (each may be NULL). `op` is one of the newest two. UINT64_MAX: the newest operation that the device has
 * begun, also in a replay of a graph. For a replay the call waits only for the dispatch: the caller has to wait for its
 * stream, and result->missing is not filled. TIMEOUT: the work stays in the stream. ROOM: weft_ep_recv_args.rows was
 * too small, and `info` is filled; rows beyond the room are lost, and the operation continues. ROOM also, but without
 * `info`, if max_rows of the group, or of the route that the operation fills or goes by, is too small. INVALID: `op` is
 * not one of the newest two, or has not reached the requested step yet. A dispatch or combine on CUDA memory that is
 * given `info` or `result` waits in the same way, for longer than its kernel can take. On host memory the call does not
 * wait, and repeats what the calls have reported. [owner]
 */
WEFT_API int weft_ep_await(weft_ep_t *ep, uint64_t op, struct weft_ep_info *info, struct weft_ep_result *result,
                           uint32_t timeout_ms);

/**
 * Runs an operation without tokens: returns when every active rank has reached it. All ranks of the view call it for
 * the same operation. PEER_LOST names the ranks that did not reach it within op_timeout_ms; they are lost. PROTOCOL: a
 * rank dispatches in this operation. NOT_CONNECTED, FENCED, BUSY: as with weft_ep_dispatch_send(). INVALID, on host
 * memory: an operation was sent and has not been received. CUDA: the call launches in the stream of the last launch,
 * and waits; BUSY also means that an operation is open. [owner]
 */
WEFT_API int weft_ep_barrier(weft_ep_t *ep);

/**
 * How to make a route. Initialise with WEFT_EP_ROUTE_OPTIONS_INIT. A field that is 0 has its default.
 */
struct weft_ep_route_options {
  size_t size;         /**< sizeof(struct weft_ep_route_options) */
  uint32_t max_tokens; /**< maximum number of tokens of this rank; default: the group's max_tokens */
  uint32_t max_rows;   /**< maximum number of received rows, one for each (rank, token); default: max_tokens of the
                            group times the capacity. CUDA: the answers to further rows are 0, also in the operation
                            that fills the route, and weft_ep_await() returns ROOM */
  uint32_t topk;       /**< maximum number of experts that a token selects; default: the group's topk */
  uint32_t alignment;  /**< alignment of the parts of experts, in rows (PACKED), 1 to 256; default 1 */
  uint32_t flags;      /**< 0 */
  uint32_t reserved;   /**< 0 */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_ROUTE_OPTIONS_INIT WEFT_SIZED(struct weft_ep_route_options)
/** Writes WEFT_EP_ROUTE_OPTIONS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_route_options_init(struct weft_ep_route_options *options, size_t size);

/** The arrays of a route, in rank memory that the route owns. The arrays up to in_rank are valid after
 *  weft_ep_route_plan() or a dispatch, the others after the receive of that dispatch. T and K are those of the dispatch
 *  (for a plan K is the route's topk), S is weft_ep_route_info.num_rows. Received rows are in the order of source rank,
 *  then token, as in RANK_MAJOR, whatever the layout of the receive was. Initialise with WEFT_EP_ROUTE_ARRAYS_INIT. */
struct weft_ep_route_arrays {
  size_t size;                    /**< sizeof(struct weft_ep_route_arrays) */
  const int32_t *tokens_per_rank; /**< [capacity] tokens of this rank that go to each rank; 0 for a rank that is masked
                                       or not in the view */
  const int32_t
      *tokens_per_expert;    /**< [capacity * E] selections of each expert by this rank, also those that are not sent */
  const uint8_t *in_rank;    /**< [T][capacity] 1: the token goes to that rank, else 0 */
  const int32_t *rank_end;   /**< [capacity] entry r: number of received rows of the ranks 0 to r */
  const int32_t *expert_end; /**< [E] like weft_ep_recv_args.expert_end, with the route's alignment */
  const int32_t *src_rank;   /**< [S] rank that each row came from */
  const int32_t *src_token;  /**< [S] the token's index on that rank */
  const int32_t *slot;       /**< [S][K] like weft_ep_recv_args.slot, with the route's alignment */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_ROUTE_ARRAYS_INIT WEFT_SIZED(struct weft_ep_route_arrays)
/** Writes WEFT_EP_ROUTE_ARRAYS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_route_arrays_init(struct weft_ep_route_arrays *arrays, size_t size);

/** The counts of a route, on the host. Initialise with WEFT_EP_ROUTE_INFO_INIT. */
struct weft_ep_route_info {
  size_t size;          /**< sizeof(struct weft_ep_route_info) */
  uint64_t op;          /**< the operation that filled the route */
  uint64_t epoch;       /**< the view of that operation */
  int32_t *expert_rows; /**< in: room for `expert_cap` numbers in host memory, or NULL; out: number of rows of each of
                             the first local experts */
  uint32_t expert_cap;  /**< in: room of expert_rows */
  uint32_t num_experts; /**< E */
  uint32_t num_rows;    /**< received rows: one for each (rank, token) */
  uint32_t packed_rows; /**< PACKED: rows including the padding after the parts of experts */
  uint32_t num_ranks;   /**< ranks of the view */
  uint32_t num_lost;    /**< number of these ranks whose tokens did not come */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_ROUTE_INFO_INIT WEFT_SIZED(struct weft_ep_route_info)
/** Writes WEFT_EP_ROUTE_INFO_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_route_info_init(struct weft_ep_route_info *info, size_t size);

/**
 * Makes a route: a record of where tokens went, which outlives operations. With it, later dispatches, combines, and
 * dispatches of gradients send rows along the same paths. A dispatch with weft_ep_dispatch_args.route and topk_idx
 * *fills* the route; it is filled when that operation has been received. The caller frees `*route` with
 * weft_ep_route_free().
 *
 * A dispatch with the route and without topk_idx *goes by* the route, and so does weft_ep_combine_route(). Tokens go to
 * the same ranks as in the dispatch that filled the route, with the same weights. No row headers are sent. Rows have
 * the same places, so that equal x gives equal rows, counts and indices, bit by bit. The layout and type of the receive
 * may differ from the first time. All ranks of the view have to go by routes that the same operation filled; otherwise
 * the operation ends for all of them, with PROTOCOL. Several open operations may go by one route; meanwhile no dispatch
 * can fill it (BUSY).
 *
 * A route belongs to the view in which it was filled. If ranks of that view have left or died since, or are masked,
 * their places remain: rows of 0, with src_rank, but -1 in src_token, local_expert and slot, and weights of 0; and
 * selections of their experts are listed as missing. If a rank has joined since, a call that goes by the route returns
 * CONFLICT before anything is sent, on all ranks in the same operation; then fill the route again. After a death, ranks
 * may detect this only during the operation (docs/design/membership.md). The operation has then ended for all of them:
 * with CONFLICT for those that went by the route, with PROTOCOL for others.
 *
 * After weft_ep_close() of its rank the calls of a route return CLOSED. INVALID: an option is greater than the group's.
 *
 * CUDA, THROUGHPUT only: the streams order the launches that use a route, and no call returns BUSY. In a dispatch that
 * goes by a route, rows that are not RANK_MAJOR need the layout, `rows` and alignment of the receive that filled the
 * route, else UNSUPPORTED; the masks are those of the dispatch that filled it. weft_ep_dispatch() and
 * weft_ep_combine_route() cannot return CONFLICT before kernels have run: the operation then moves no rows on any rank,
 * and a call with `info` or `result`, or weft_ep_await(), returns CONFLICT. A rank that goes by a route of another
 * operation is lost to the others. [owner]
 */
WEFT_API int weft_ep_route_create(weft_ep_t *ep, const struct weft_ep_route_options *options, weft_ep_route_t **route);

/** Frees a route, also after its `ep` was closed. NULL is legal. All launches that use the route have to be finished;
 *  on host memory an open operation keeps the parts that it needs. [owner] */
WEFT_API void weft_ep_route_free(weft_ep_route_t *route);

/** Computes, without sending, what this rank will send in the view of its next operation: the arrays up to
 *  weft_ep_route_arrays.in_rank. `topk_idx` is [num_tokens][K] as in weft_ep_dispatch_args, in rank memory, with K the
 *  route's topk. CUDA: the call launches in `stream`. The route loses its earlier contents. ROOM: more tokens than the
 *  route has room for. BUSY: an open operation needs the route. NOT_CONNECTED, FENCED: as with weft_ep_dispatch_send().
 *  [owner] */
WEFT_API int weft_ep_route_plan(weft_ep_route_t *route, const int64_t *topk_idx, uint32_t num_tokens, void *stream);

/** Writes the addresses of a route's arrays. They are valid until the route is freed. Their contents are undefined
 *  before the route is planned or filled, and change with each dispatch that fills it. INVALID: an argument is NULL.
 *  [owner] */
WEFT_API int weft_ep_route_get_arrays(weft_ep_route_t *route, struct weft_ep_route_arrays *arrays);

/** Waits until the dispatch that fills the route has been received, and writes its counts; `info` may be NULL. On host
 *  memory the call does not wait. TIMEOUT: the dispatch has not been received. INVALID: no dispatch fills the route.
 *  ROOM: more rows came than the route has room for; info->num_rows is their number, and no operation can go by the
 *  route. CONFLICT: a rank has joined since, which an operation that goes by this route would omit; the counts are
 *  written. [owner] */
WEFT_API int weft_ep_route_await(weft_ep_route_t *route, struct weft_ep_route_info *info, uint32_t timeout_ms);

/** Runs a combine that goes by a route, as a separate operation, whose number is `*op`: sends the rows of args->y, in
 *  the row order of the receive that filled the route, back to the ranks from which the tokens came. Masks have no
 *  effect. All ranks of the view have to call it. CONFLICT, PROTOCOL: see weft_ep_route_create(). BUSY: two operations
 *  are open already. Other codes come from weft_ep_combine(). With WEFT_EP_COMBINE_KEEP the operation stays open for
 *  weft_ep_combine() with its number. [owner] */
WEFT_API int weft_ep_combine_route(weft_ep_t *ep, weft_ep_route_t *route, const struct weft_ep_combine_args *args,
                                   struct weft_ep_result *result, uint64_t *op);

/** Counters since the rank was opened; bytes are those of `weft_ep_info` and `weft_ep_result`. On CUDA memory bytes,
 *  `missing` and `wait_ns` count only operations that were given info or result, window_bytes includes the engine's
 *  workspace, and bytes are not counted per peer. Initialise with WEFT_EP_STATS_INIT. */
struct weft_ep_stats {
  size_t size;                     /**< sizeof(struct weft_ep_stats) */
  uint64_t operations;             /**< operations that have ended */
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
  uint64_t wait_ns;        /**< time that this rank waited for this peer when it was the last one, in ns */
};
/** Initial value: its size, and 0 for every other field. */
#define WEFT_EP_PEER_STATS_INIT WEFT_SIZED(struct weft_ep_peer_stats)
/** Writes WEFT_EP_PEER_STATS_INIT; for languages without macros. `size` is the caller's sizeof. [any] */
WEFT_API void weft_ep_peer_stats_init(struct weft_ep_peer_stats *stats, size_t size);
/** Writes the counters of one peer. NOT_FOUND: it is not connected. [owner] */
WEFT_API int weft_ep_get_peer_stats(const weft_ep_t *ep, int32_t rank, struct weft_ep_peer_stats *stats);

/** Writes the counters of this rank and of its connected peers, in the OpenMetrics text format 1.0, NUL-terminated,
 *  into `text`, of `cap` bytes of host memory. `*size` is the number of bytes that it needs, including the NUL; with
 *  `cap` 0 the call only reports it. ROOM: `cap` is less, and only `*size` is written. NOMEM: no memory. INVALID: a
 *  pointer is NULL. [owner] */
WEFT_API int weft_ep_metrics(const weft_ep_t *ep, char *text, size_t cap, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
