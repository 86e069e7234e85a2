/**
 * @file agent.h
 * @brief Transfers: registered memory, peers known by their metadata, one-sided reads and writes with notifications.
 *
 * An *agent* is one process's end of all transfers. It registers *regions* (host memory, CUDA memory, files, objects),
 * tells others of them in a *blob* of metadata, and loads theirs, which makes them *peers*. A *transfer* moves bytes
 * between a list of descriptors of its own regions and one of a peer's (or of its own, by loopback: that is how memory
 * goes to files and objects). A *notification* is a few bytes that the peer's application gets, alone or once the data
 * of a transfer is visible there.
 *
 * Ids are values, never used twice: a region's id counts up, a peer's names one incarnation of one agent. What a dead
 * or invalidated incarnation left behind fails with PEER_LOST or NOT_FOUND at once; it never means its successor.
 *
 * Set-up (register, load, create) may allocate, look up and take locks. weft_transfer_post() and weft_transfer_poll()
 * do not: no allocation, no lock that waits, no look-up by name.
 *
 * Thread rules: [any] any thread at any time. Calls for one transfer come from one thread at a time, but for
 * weft_transfer_cancel(). With WEFT_AGENT_PROGRESS_NONE all calls of an agent come from one thread at a time.
 */
#ifndef WEFT_AGENT_H
#define WEFT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/err.h>
#include <weft/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_agent weft_agent_t;       /**< one end of all transfers of a process */
typedef struct weft_list weft_list_t;         /**< descriptors, checked and looked up once, for many transfers */
typedef struct weft_transfer weft_transfer_t; /**< a transfer that can be posted, many times */

typedef uint64_t weft_region_t; /**< a region of one agent; 0: none */
typedef uint64_t weft_peer_t;   /**< an incarnation of an agent; 0: none, WEFT_PEER_SELF: this one */

/** The agent itself, in the place of a peer: both lists of a transfer are its own (loopback). */
#define WEFT_PEER_SELF UINT64_MAX

enum {
  WEFT_AGENT_MAX_NAME = 128,           /**< bytes of an agent's name, its end included */
  WEFT_AGENT_MAX_NOTIFICATION = 4096,  /**< bytes of a notification */
  WEFT_AGENT_MAX_DESCRIPTORS = 1 << 20 /**< of a list, and of a transfer */
};

/** What a region is. */
enum weft_memory_kind {
  WEFT_MEMORY_HOST = 0,
  WEFT_MEMORY_CUDA = 1,
  WEFT_MEMORY_FILE = 2,
  WEFT_MEMORY_OBJECT = 3, /**< of an S3 store; a transfer that writes to it gives all of it, from byte 0 on */
  WEFT_MEMORY_KINDS = 4,
};

/** What to register. Initialise with WEFT_MEMORY_INIT. */
struct weft_memory {
  size_t size;                /**< sizeof(struct weft_memory) */
  enum weft_memory_kind kind; /**< what is registered */
  void *address;              /**< HOST, CUDA: first byte */
  uint64_t length;  /**< bytes. FILE: of the range from byte 0 that may be used; 0: no limit. OBJECT: likewise */
  int32_t device;   /**< CUDA: index of the GPU; -1 (from WEFT_MEMORY_INIT): the one that the address belongs to */
  int fd;           /**< FILE: an open file, which stays the caller's; -1 (from WEFT_MEMORY_INIT): opens `path` */
  const char *path; /**< FILE: created where missing, unless read_only. OBJECT: "bucket/key" */
  bool read_only;   /**< nobody writes to it: a WRITE to it, or a READ into it, is refused */
  bool no_metadata; /**< peers are not told of it: it serves this agent's own side of transfers only */
};
#ifdef __cplusplus
}
inline weft_memory weft_memory_init() {
  weft_memory memory = weft_sized<weft_memory>();
  memory.device = -1;
  memory.fd = -1;
  return memory;
}
extern "C" {
#define WEFT_MEMORY_INIT weft_memory_init()
#else
/** Initial value: its size, no descriptor, and the GPU that the address belongs to; all else 0. */
#define WEFT_MEMORY_INIT                                                                                               \
  { .size = sizeof(struct weft_memory), .device = -1, .fd = -1 }
#endif

/** A run of bytes in a region. */
struct weft_descriptor {
  uint64_t address;     /**< HOST, CUDA: address of the first byte, in the owner's space. FILE, OBJECT: offset */
  uint64_t length;      /**< bytes; not 0 */
  weft_region_t region; /**< 0 (HOST, CUDA only): the smallest region that holds all of it, the oldest of equals */
};

/** Who drives transfers, notifications and liveness when no call of this agent is running. */
enum weft_agent_progress {
  WEFT_AGENT_PROGRESS_THREAD = 0, /**< a thread of the agent: spins while there is work, then sleeps */
  WEFT_AGENT_PROGRESS_NONE = 1,   /**< the caller, by weft_agent_progress() and weft_transfer_poll() */
};

/** What happened to a peer, for weft_agent_options.on_event. */
enum weft_agent_event_kind {
  WEFT_AGENT_EVENT_PEER_LOADED,  /**< metadata of a new incarnation came (from the store, a socket or a call) */
  WEFT_AGENT_EVENT_PEER_UPDATED, /**< regions came or went */
  WEFT_AGENT_EVENT_PEER_LEFT,    /**< it closed, or its metadata was invalidated */
  WEFT_AGENT_EVENT_PEER_LOST,    /**< found dead or silent; `detail` says how. Over shm, and ofi by TCP, what it was
                                      writing changes no memory any more from this event on, but a MiB at most of a
                                      process that was stopped in mid-copy; design.md, "A host that is cut off" */
};

/** One event of an agent. */
struct weft_agent_event {
  enum weft_agent_event_kind kind; /**< what happened */
  weft_peer_t peer;                /**< the peer concerned */
  const char *name;                /**< the peer's */
  uint64_t time_ns;                /**< CLOCK_MONOTONIC */
  const char *detail;              /**< a few words, or "" */
};

/** [callback] from any thread that is inside this agent; return soon, call nothing of this agent. */
typedef void (*weft_agent_event_fn)(void *arg, const struct weft_agent_event *event);

/** How to open. Initialise with WEFT_AGENT_OPTIONS_INIT; zero means the default of each field. */
struct weft_agent_options {
  size_t size;            /**< sizeof(struct weft_agent_options) */
  const char *name;       /**< required; unique among the agents that meet: a second one of that name is EXISTS */
  const char *transports; /**< names, comma separated, best first: "shm,ucx". Default: all that work here */
  enum weft_agent_progress progress; /**< what drives the agent; default: a thread */
  uint32_t spin_us;                  /**< the thread sleeps after so long without work; default 50 */
  uint32_t heartbeat_ms;             /**< between signs of life to each peer; default 1,000 */
  uint32_t peer_timeout_ms;          /**< a peer silent for so long is lost; default 5,000 */
  uint32_t transfer_timeout_ms;      /**< deadline of a transfer that names none; default 30,000 */
  weft_store_t *store;               /**< for weft_agent_publish() and weft_agent_fetch(); stays the caller's */
  const char *prefix;                /**< of its keys there, ending in '/'; default "/weft/default/" */
  uint32_t lease_ttl_s;         /**< the store forgets this agent so long after its last sign of life; default 10 */
  const char *listen;           /**< "HOST:PORT" or "[IPV6]:PORT" (port 0: any) for weft_agent_meet(); default: none */
  const char *token;            /**< shared secret of the agents that may load each other's metadata; required with
                                     `listen`. Default: none, and metadata is taken as it is given */
  weft_agent_event_fn on_event; /**< may be NULL */
  void *event_arg;              /**< first argument of on_event */
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_AGENT_OPTIONS_INIT WEFT_SIZED(struct weft_agent_options)

/** Opens the transports that work here and starts the thread. UNSUPPORTED: a transport asked for does not work here,
 *  the text says why. [any] */
WEFT_API int weft_agent_open(weft_agent_t **agent, const struct weft_agent_options *options);

/** Cancels what is in flight, tells peers and the store that it leaves, and frees everything, lists and transfers
 *  included. Nothing touches any registered memory afterwards. NULL is legal. */
WEFT_API void weft_agent_close(weft_agent_t *agent);

/* --- memory --- */

/** Registers memory; it stays the caller's and must stay there until it is deregistered. Regions may overlap. [any] */
WEFT_API int weft_agent_register(weft_agent_t *agent, const struct weft_memory *memory, weft_region_t *region);

/** Allocates `length` bytes of zeros that peers can map, and registers them: HOST (a memfd: peers of this host reach it
 *  without any help of this process) or CUDA. Deregistering frees them. [any] */
WEFT_API int weft_agent_allocate(weft_agent_t *agent, enum weft_memory_kind kind, uint64_t length, int32_t device,
                                 weft_region_t *region, void **address);

/** Takes the region back. BUSY: a list or transfer of this agent uses it, the text says which. Peers that have its
 *  metadata learn that it went; what they post to it afterwards fails. [any] */
WEFT_API int weft_agent_deregister(weft_agent_t *agent, weft_region_t region);

/* --- metadata --- */

/**
 * Writes this agent's metadata: name, incarnation, transports' addresses and, of `num_regions` regions (0 and NULL: of
 * all of them), what a peer needs to reach them. Without `with_addresses` the blob is partial: it updates a peer that
 * was loaded before. `*size` is the space on entry and the need on return; LIMIT when it was too little (blob may be
 * NULL to ask). The format is little-endian, versioned and checksummed (docs/design/agent.md). An agent with a
 * token seals it with that. At most 131,072 regions and 64 MiB (LIMIT). [any]
 */
WEFT_API int weft_agent_metadata(weft_agent_t *agent, const weft_region_t *regions, uint32_t num_regions,
                                 bool with_addresses, void *blob, size_t *size);

/** Loads a blob, all of it or nothing. PROTOCOL: damaged, the text says where; VERSION: from another version; EXISTS: a
 *  living agent with this name has another incarnation; AUTH: this agent has a token, and the blob was not sealed with
 *  it; LIMIT: more than an agent holds (131,072 regions of a peer, 1,048,576 of all, 65,536 peers). A newer one of a
 * dead or left peer is a new peer. An agent without a token takes a blob as it is: the caller vouches that it comes
 * from who it should, for its addresses and keys go to the transports and the libraries below them. [any] */
WEFT_API int weft_agent_load(weft_agent_t *agent, const void *blob, size_t size, weft_peer_t *peer);

/** Forgets a peer: its transfers in flight end with PEER_LOST, once nothing can touch memory any more. [any] */
WEFT_API int weft_agent_invalidate(weft_agent_t *agent, weft_peer_t peer);

/** Puts the metadata into the store, leased, and keeps it up to date as regions come and go. [any] */
WEFT_API int weft_agent_publish(weft_agent_t *agent, uint32_t timeout_ms);

/** Waits until the agent `name` is in the store and loads it; it is then watched: updates are loaded, and when its key
 *  goes it has left. As with weft_agent_load(), it has to be sealed if this agent has a token (AUTH); else whoever may
 *  write the store vouches for it. [any] */
WEFT_API int weft_agent_fetch(weft_agent_t *agent, const char *name, uint32_t timeout_ms, weft_peer_t *peer);

/** Exchanges metadata with the agent that listens at `address` ("HOST:PORT", "[IPV6]:PORT"), both ways. AUTH: it does
 *  not share this agent's token. The connection stays: it carries updates, and its end says that the peer went. [any]
 */
WEFT_API int weft_agent_meet(weft_agent_t *agent, const char *address, uint32_t timeout_ms, weft_peer_t *peer);

/** The port that this agent listens at. NOT_FOUND: none. [any] */
WEFT_API int weft_agent_port(weft_agent_t *agent, uint16_t *port);

/** The living peer of that name; one's own name gives WEFT_PEER_SELF. NOT_FOUND. [any] */
WEFT_API int weft_agent_find(weft_agent_t *agent, const char *name, weft_peer_t *peer);

/** What this agent knows of a region. */
struct weft_region_info {
  size_t size;                /**< sizeof(struct weft_region_info) */
  weft_region_t region;       /**< id of the region, with its owner */
  enum weft_memory_kind kind; /**< what it is */
  uint64_t address;           /**< HOST, CUDA: first byte, in the owner's address space */
  uint64_t length;            /**< bytes */
  int32_t device;             /**< CUDA: index of the GPU at its owner */
};

/** The regions of a peer (or of this agent) as far as they are known here, by id; `*count` is the space on entry and
 *  their number on return. `info[0].size` set by the caller. [any] */
WEFT_API int weft_agent_regions(weft_agent_t *agent, weft_peer_t peer, struct weft_region_info *info, uint32_t *count);

/** Whether the peer is alive as far as known: 0, or PEER_LOST with the reason in weft_last_error(). [any] */
WEFT_API int weft_agent_check(weft_agent_t *agent, weft_peer_t peer);

/* --- transfers --- */

/** Direction of a transfer. */
enum weft_op {
  WEFT_READ = 0,  /**< from the peer's descriptors into this agent's */
  WEFT_WRITE = 1, /**< from this agent's descriptors into the peer's */
};

/** Checks `count` descriptors of `peer` (WEFT_PEER_SELF: of this agent) against its regions; all are of one kind.
 *  INVALID: a length of 0; NOT_FOUND, LIMIT: outside any region; the text names the descriptor. [any] */
WEFT_API int weft_list_create(weft_agent_t *agent, weft_peer_t peer, const struct weft_descriptor *descriptors,
                              uint32_t count, weft_list_t **list);

/** BUSY: a transfer uses it. NULL is legal. [any] */
WEFT_API int weft_list_free(weft_list_t *list);

/** `count` pairs of descriptors: local first + i * stride with remote first + i * stride. */
struct weft_run {
  uint32_t local_first,  /**< first index in the local list */
      local_stride;      /**< distance to the next */
  uint32_t remote_first, /**< first index in the remote list */
      remote_stride;     /**< distance to the next */
  uint32_t count;        /**< number of pairs */
};

/** Initialise with WEFT_TRANSFER_OPTIONS_INIT. */
struct weft_transfer_options {
  size_t size;                  /**< sizeof(struct weft_transfer_options) */
  const uint32_t *local_index;  /**< [num_index] chosen descriptors of the local list, in order; NULL: see runs */
  const uint32_t *remote_index; /**< [num_index] paired with local_index */
  uint32_t num_index;           /**< entries of local_index and of remote_index */
  const struct weft_run *runs;  /**< [num_runs]; neither index nor runs: all descriptors, pairwise */
  uint32_t num_runs;            /**< entries of runs */
  const void *notification;     /**< the peer gets it once the data is there, or never; copied */
  uint32_t notification_size;   /**< its bytes, at most WEFT_AGENT_MAX_NOTIFICATION */
  uint32_t timeout_ms;          /**< from each post; default: the agent's */
  const char *transport;        /**< use this one; default: the cheapest that can, see weft_transfer_explain() */
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_TRANSFER_OPTIONS_INIT WEFT_SIZED(struct weft_transfer_options)

/** Makes a transfer between a list of this agent's and one of a peer's (or of its own); the pairs' lengths are equal.
 *  Neighbours on both sides are merged. The lists stay in use until it is freed. [any] */
WEFT_API int weft_transfer_create(weft_agent_t *agent, enum weft_op op, weft_list_t *local, weft_list_t *remote,
                                  const struct weft_transfer_options *options, weft_transfer_t **transfer);

/** Starts it, again when it has ended before. BUSY: it is in flight, or it has a notification and the peer as many
 * unread ones as it takes. Fails at once with PEER_LOST when the incarnation is gone, with NOT_FOUND when the peer has
 * taken a region back. 0: poll it. */
WEFT_API int weft_transfer_post(weft_transfer_t *transfer);

/** 0: it has ended well, all data is visible; 1: in flight; negative: it failed with that code, and nothing touches its
 *  memory any more. Before the first post: INVALID. Drives transports as far as needed. */
WEFT_API int weft_transfer_poll(weft_transfer_t *transfer);

/** Polls, then sleeps, until it has ended; TIMEOUT: not within `timeout_ms`, it goes on. */
WEFT_API int weft_transfer_wait(weft_transfer_t *transfer, uint32_t timeout_ms);

/** Has it end with CANCELED, unless it ended before, and waits for that: then nothing touches its memory. TIMEOUT: it
 *  cannot be stopped so soon; it will end by itself. [any] */
WEFT_API int weft_transfer_cancel(weft_transfer_t *transfer, uint32_t timeout_ms);

/** BUSY: in flight. NULL is legal. */
WEFT_API int weft_transfer_free(weft_transfer_t *transfer);

/** A descriptor that becomes readable when a post has ended, for poll(2) and its kind; read 8 bytes to rearm. It is the
 *  transfer's. Asking for it the first time may allocate. */
WEFT_API int weft_transfer_fd(weft_transfer_t *transfer, int *fd);

/** What became of each pair of descriptors in the last post: 0, or a code; [pairs]. `*count` as in
 *  weft_agent_regions(). */
WEFT_API int weft_transfer_status(weft_transfer_t *transfer, int32_t *status, uint32_t *count);

/** Why the last post failed, in words; "" if it did not. Valid until the next post. */
WEFT_API const char *weft_transfer_error(weft_transfer_t *transfer);

/** Which transport, and why not the others: one line each. Valid as long as the transfer. */
WEFT_API const char *weft_transfer_explain(weft_transfer_t *transfer);

/** Expected nanoseconds of one post, from the transport's costs: latency + bytes / bandwidth + per-piece cost. */
WEFT_API int weft_transfer_estimate(weft_transfer_t *transfer, uint64_t *ns);

/* --- notifications --- */

/** Sends a notification by itself. A peer that does not know this agent, because it has not loaded its metadata, drops
 *  it. BUSY: the peer has as many unread ones as it takes (1,024); it tells each time that it has taken a quarter of
 *  these. [any] */
WEFT_API int weft_agent_notify(weft_agent_t *agent, weft_peer_t peer, const void *bytes, uint32_t size);

/** One notification that this agent received. */
struct weft_notification {
  weft_peer_t peer;  /**< the sender */
  const void *bytes; /**< valid until the next weft_agent_notifications() */
  uint32_t size;     /**< bytes of the notification */
};

/** Takes up to `*count` notifications, each peer's in the order in which they were sent (with a transfer: in which the
 *  data came); `*count` is their number on return. One thread at a time. */
WEFT_API int weft_agent_notifications(weft_agent_t *agent, struct weft_notification *notifications, uint32_t *count);

/* --- progress and telemetry --- */

/** Drives everything once; `*events` (may be NULL) is the number of things that happened. */
WEFT_API int weft_agent_progress(weft_agent_t *agent, uint32_t *events);

/** Readable when there are notifications or events. [any] */
WEFT_API int weft_agent_fd(weft_agent_t *agent, int *fd);

/** Counters and latency histograms by peer and transport in the OpenMetrics text format 1.0; `*size` as in
 *  weft_agent_metadata(). [any] */
WEFT_API int weft_agent_metrics(weft_agent_t *agent, char *text, size_t *size);

/** Serves weft_agent_metrics() over HTTP at "HOST:PORT", path /metrics, until the agent closes. They name its peers: an
 *  agent with a token gives them to who sends weft_agent_metrics_bearer(); one without a token serves at a loopback
 *  address only (INVALID else), where every user of this host may read them. HTTP is not encrypted. [any] */
WEFT_API int weft_agent_serve_metrics(weft_agent_t *agent, const char *address, uint16_t *port);

/** What has to be sent as "Authorization: Bearer TEXT" to read the metrics that an agent with a token serves: 64
 *  hexadecimal digits that its token gives, from which nobody learns the token. All agents with one token have the
 * same.
 *  `*size` as in weft_agent_metadata(). NOT_FOUND: the agent has no token. [any] */
WEFT_API int weft_agent_metrics_bearer(weft_agent_t *agent, char *text, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
