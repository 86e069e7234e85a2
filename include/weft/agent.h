/**
 * @file agent.h
 * @brief Transfers: registered memory, peers known by their metadata, one-sided reads and writes with notifications.
 *
 * An *agent* is one process's end of all transfers. It registers *regions* (host memory, CUDA memory, files, objects)
 * and describes them to others in its *metadata*. An agent that loads the metadata of another one has it as a *peer*. A
 * *transfer* moves bytes between a list of descriptors of the agent's own regions and a list of a peer's regions. Both
 * lists may be its own (loopback): that is how memory goes to files and objects. A *notification* is a few bytes for
 * the peer's application, sent alone or once the data of a transfer is visible there.
 *
 * The smallest example, without error handling; examples/transfer is a whole program, with both sides:
 *
 *     struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
 *     struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
 *     options.name = "writer";
 *     options.token = token; // the same as the peer's
 *     memory.address = bytes;
 *     memory.length = length;
 *     weft_agent_open(&agent, &options);
 *     weft_agent_register(agent, &memory, &region);
 *     weft_agent_meet(agent, "10.0.0.1:5555", 10000, &peer);
 *     // `there` is in the peer's address space, for instance from weft_agent_regions(). 0: the region that holds it.
 *     struct weft_descriptor from = {(uintptr_t)bytes, length, 0}, to = {there, length, 0};
 *     weft_dlist_create(agent, WEFT_PEER_SELF, &from, 1, &local);
 *     weft_dlist_create(agent, peer, &to, 1, &remote);
 *     weft_transfer_create(agent, WEFT_TRANSFER_WRITE, local, remote, NULL, &transfer);
 *     weft_transfer_post(transfer);
 *     weft_transfer_wait(transfer, 10000);
 *     weft_agent_close(agent);
 *
 * Ids are values and are never used twice: a region's id counts up, a peer's names one incarnation of one agent. An id
 * of an incarnation that has ended fails with PEER_LOST or NOT_FOUND at once; it never means a successor.
 *
 * **Threads.** [any]: any thread may call it at any time, several at once. [transfer]: one thread at a time for each
 * transfer; different transfers are independent. With WEFT_AGENT_PROGRESS_NONE all calls for one agent, its lists and
 * its transfers come from one thread at a time. No other call may use an agent, a list or a transfer while it is closed
 * or freed, or afterwards; lists and transfers of a closed agent return CLOSED until they are freed. In a forked child
 * all of them do.
 *
 * **Time.** weft_transfer_post() and weft_transfer_poll() do not wait: they allocate nothing, take no lock that waits,
 * and look nothing up by name (with WEFT_AGENT_PROGRESS_NONE a poll now and then runs the agent's housekeeping). Of the
 * others those with a `timeout_ms` block until their work is done or the time has passed; they may need up to about a
 * second more when a store does not answer. The rest may allocate, look up and wait for another thread inside this
 * agent.
 *
 * **Errors.** Every call may return INVALID (an argument is wrong), NOMEM, SYSTEM (the operating system refuses) and
 * LIMIT (no more descriptors, threads, or what the call says). A call that takes a peer may return PEER_LOST (this
 * incarnation has left or is lost; the sentence says why) and NOT_FOUND (there was no such peer). The texts of the
 * calls name only further ones, and what an error means there.
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
typedef struct weft_dlist weft_dlist_t;       /**< descriptors, checked and looked up once, for many transfers */
typedef struct weft_transfer weft_transfer_t; /**< a transfer that can be posted many times */

typedef uint64_t weft_region_t; /**< a region of one agent; 0: none */
typedef uint64_t weft_peer_t;   /**< an incarnation of an agent; 0: none, WEFT_PEER_SELF: this one */

/** The agent itself, in the place of a peer: both lists of a transfer are its own (loopback). */
#define WEFT_PEER_SELF UINT64_MAX

enum {
  WEFT_AGENT_MAX_NAME = 128,           /**< bytes of an agent's name, its final NUL included */
  WEFT_AGENT_MAX_LABEL = 64,           /**< bytes of a label of metadata in the store, its final NUL included */
  WEFT_AGENT_MAX_DETAIL = 160,         /**< bytes of a reason in words, its final NUL included */
  WEFT_AGENT_MAX_NOTIFICATION = 4096,  /**< bytes of a notification */
  WEFT_AGENT_MAX_DESCRIPTORS = 1 << 20 /**< descriptors of a list, and pairs of a transfer */
};

/** What a region is. Later versions may add kinds at the end. */
enum weft_memory_kind {
  WEFT_MEMORY_HOST = 0,   /**< memory of this process */
  WEFT_MEMORY_CUDA = 1,   /**< memory of a GPU */
  WEFT_MEMORY_FILE = 2,   /**< a file */
  WEFT_MEMORY_OBJECT = 3, /**< of an S3 store; a transfer that writes to it gives all of it, from byte 0 on */
};

/** Bits of weft_agent_memory.flags and weft_region_info.flags. */
enum weft_memory_flag {
  WEFT_MEMORY_READ_ONLY = 1 << 0,   /**< nobody writes to it: no transfer can be made that would (INVALID) */
  WEFT_MEMORY_NO_METADATA = 1 << 1, /**< it is in no metadata: it serves this agent's own side of transfers only */
  WEFT_MEMORY_FD = 1 << 2,          /**< FILE: `fd` is given; without it the library opens `path` */
  WEFT_MEMORY_DEVICE = 1 << 3,      /**< CUDA: `device` is given; without it, the GPU that the address belongs to */
};

/** What to register. Initialise with WEFT_AGENT_MEMORY_INIT. */
struct weft_agent_memory {
  size_t size;                /**< sizeof(struct weft_agent_memory) */
  enum weft_memory_kind kind; /**< what is registered */
  uint32_t flags;             /**< bits of enum weft_memory_flag */
  void *address;              /**< HOST, CUDA: first byte, in host or device memory */
  uint64_t length; /**< bytes. HOST, CUDA: not 0. FILE, OBJECT: the range from byte 0 that may be used; 0: no limit */
  int32_t device;  /**< CUDA, with WEFT_MEMORY_DEVICE: index of the GPU; else 0 */
  int32_t fd;      /**< FILE, with WEFT_MEMORY_FD: an open file, which stays the caller's and has to stay open until the
                        region is deregistered; else 0 */
  const char *path;       /**< FILE: created where missing, unless it is read-only. OBJECT: "bucket/key". Copied */
  const char *transports; /**< those of the agent that may have it, comma-separated: "shm,ucx"; NULL: all that can */
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_AGENT_MEMORY_INIT WEFT_SIZED(struct weft_agent_memory)
/** WEFT_AGENT_MEMORY_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_agent_memory_init(struct weft_agent_memory *memory, size_t size);

/** A run of bytes within one region. Its shape is fixed. */
struct weft_descriptor {
  uint64_t address; /**< HOST, CUDA: address of the first byte, in the owner's address space. FILE, OBJECT: offset */
  uint64_t length;  /**< bytes; not 0 */
  weft_region_t region; /**< the region. 0 (HOST, CUDA only): the smallest that holds all of it, of equals the oldest */
};

/** What drives transfers, notifications and liveness when no call of this agent is running. */
enum weft_agent_progress {
  WEFT_AGENT_PROGRESS_THREAD = 0, /**< a thread of the agent: it spins while there is work, then sleeps */
  /** Nothing: the caller does, by weft_agent_arm(), weft_agent_progress(), weft_transfer_poll() and
   *  weft_transfer_wait(). An agent that is not driven sends no heartbeats, so its peers may take it for lost. */
  WEFT_AGENT_PROGRESS_NONE = 1,
};

/** Bits of weft_transport_info.flags. */
enum weft_transport_flag {
  WEFT_TRANSPORT_WORKS = 1 << 0,       /**< it works here */
  WEFT_TRANSPORT_MESSAGES = 1 << 1,    /**< it carries notifications */
  WEFT_TRANSPORT_OTHER_HOSTS = 1 << 2, /**< it reaches other hosts */
  WEFT_TRANSPORT_STORAGE = 1 << 3,     /**< it serves an agent's own transfers only */
};

/** A transport that this version knows of. */
struct weft_transport_info {
  char name[16];         /**< as weft_agent_options.transports has it */
  uint32_t flags;        /**< bits of enum weft_transport_flag */
  uint32_t local_kinds;  /**< what this agent's side of a transfer may be: bits 1 << enum weft_memory_kind */
  uint32_t remote_kinds; /**< likewise the peer's side */
  uint32_t reserved;     /**< 0 */
  char what[64];         /**< what it uses, in a few words; "": it is not in this build */
  char why[224];         /**< why it does not work here, in words, with "..." at its end where it is cut; "" */
  char version[32]; /**< of the library below it, as loaded here, such as "1.18.1"; "": it has none, or no number */
};

/** Writes the transports that this version knows of into info[cap], the preferred ones first; `each` is the caller's
 *  sizeof(struct weft_transport_info). `*count` is how many there are, also when that is more than `cap`. It loads
 *  their libraries and asks them whether they work here, which may take some milliseconds for each. INVALID: `count`
 *  is NULL, or `each` is no size of that struct. [any] */
WEFT_API int weft_transport_list(struct weft_transport_info *info, size_t each, uint32_t cap, uint32_t *count);

/** How to open an agent. Initialise with WEFT_AGENT_OPTIONS_INIT; a field that is 0 or NULL has its default. The
 *  library copies all strings. */
struct weft_agent_options {
  size_t size;      /**< sizeof(struct weft_agent_options) */
  const char *name; /**< required, without control characters; unique among the agents that know each other: loading a
                         second agent of that name is EXISTS */
  const char *transports; /**< names, comma-separated: "shm,ucx". Of transports with equal costs an agent takes the one
                             named first; notifications go by the first that can carry them. Default: all that work
                             here; they are shm, cuda, ucx, ofi, file, object. By default ucx has RDMA only: UCX's TCP,
                             which lets whoever reaches its port write to this process's memory, wants a name here,
                             or UCX_TLS or UCX_NET_DEVICES in the environment */
  enum weft_agent_progress progress; /**< what drives the agent; default: a thread */
  uint32_t spin_us;      /**< after so long without work the thread, or weft_transfer_wait(), sleeps; default 50 */
  uint32_t heartbeat_ms; /**< time between heartbeats to each peer; default 1,000 */
  /** A peer is lost when nothing came from it for so long, or for three of its own heartbeats if that is longer;
   *  default 5,000. */
  uint32_t peer_timeout_ms;
  uint32_t transfer_timeout_ms; /**< deadline of a transfer whose options name none; default 30,000 */
  uint32_t lease_ttl_s;         /**< the store deletes this agent's key so long after the last renewal; default 10 */
  weft_store_t *store;          /**< for weft_agent_publish() and weft_agent_fetch(). It stays the caller's and has to
                                     outlive the agent; default: none */
  const char *prefix;           /**< of the agents' keys in the store, ending in '/', the same for all agents of a job;
                                     may be NULL without a store and with one inside this process */
  const char *listen;           /**< "HOST:PORT" or "[IPV6]:PORT" (port 0: any free one) at which other agents can call
                                     weft_agent_meet(); default: none */
  /** Secret that all agents share which may load each other's metadata; required with `listen` and for
   *  weft_agent_meet(). Default: none, and the agent loads any metadata. */
  const char *token;
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_AGENT_OPTIONS_INIT WEFT_SIZED(struct weft_agent_options)
/** WEFT_AGENT_OPTIONS_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_agent_options_init(struct weft_agent_options *options, size_t size);

/**
 * Opens an agent: its transports, its listening socket, its thread. The caller closes `*agent` with weft_agent_close().
 * UNSUPPORTED: a transport asked for does not work here, the sentence says why. NOT_FOUND: there is no transport of
 * that name. LIMIT: the name is too long, or no more descriptors or threads. BUSY: the port of `listen` is in use.
 * UNREACHABLE: the host of `listen` has no address. [any]
 */
WEFT_API int weft_agent_open(weft_agent_t **agent, const struct weft_agent_options *options);

/**
 * Opens a further transport for an agent that is open, by its name. It comes last in the order of preference. Regions
 * that were registered without `transports` are registered with it too; one that it refuses stays with the others.
 * Peers that fetched or met this agent learn of it by themselves; others, and this agent of peers that it has loaded by
 * hand, with the next metadata that has ADDRESSES. A transfer keeps the transport that it was made with. It may take
 * some milliseconds, in which other calls that are not [transfer] wait. EXISTS: the agent has it. NOT_FOUND: there is
 * no transport of that name. UNSUPPORTED: it does not work here, the sentence says why. LIMIT: an agent has at most 7
 * transports. INVALID: it is not one name. [any]
 */
WEFT_API int weft_agent_add_transport(weft_agent_t *agent, const char *transport);

/**
 * Leaves, and frees the agent with its regions. It cancels the transfers in flight, takes its key out of the store, and
 * sends its peers a goodbye. After it has returned nothing touches any registered memory. Lists and transfers stay
 * their owner's: calls with them return CLOSED, and weft_transfer_free() and weft_dlist_free() free them. In a forked
 * child it frees memory and does nothing else; what the transports hold stays until exec() or the end. It blocks:
 * usually for milliseconds, for up to a second while transfers in flight or messages do not end, up to two more while
 * the store does not answer, and some while a transport ends what is left. NULL is legal.
 *
 * Closing does not wait until notifications are delivered. One that the peer's application has not taken yet may be
 * lost, also one that was sent with a transfer that has ended with 0, and one for which weft_agent_notify() has
 * returned 0. To be sure that a notification was received, wait for an answer of the peer's application before
 * closing. The data of a transfer that has ended with 0 is at the peer. [owner]
 */
WEFT_API void weft_agent_close(weft_agent_t *agent);

/* --- memory --- */

/**
 * Registers memory, a file or an object with all transports that can use it; `*region` is its id. The memory stays the
 * caller's and has to stay mapped until the region is deregistered or the agent closed. Regions may overlap. Peers that
 * fetched or met this agent get the new region by themselves, others with the next metadata. It takes as long as the
 * transports need, which is seconds where a network pins very much memory. Meanwhile calls of this agent that are not
 * [transfer] wait, transfers may stand still, and peers get no heartbeat: one whose `peer_timeout_ms` passes takes this
 * agent for lost. Such memory is registered before there are peers, or in parts. UNSUPPORTED: no transport of this
 * agent handles this kind of memory, or it has not opened one of `transports`. INVALID: host memory is not mapped, the
 * sentence names the first address that is not. SYSTEM, LIMIT: a file cannot be opened, or memory cannot be pinned.
 * Other codes are those of the transport that refuses. [any]
 */
WEFT_API int weft_agent_register(weft_agent_t *agent, const struct weft_agent_memory *memory, weft_region_t *region);

/** Bits of weft_memory_status.flags. */
enum weft_memory_status_flag {
  WEFT_MEMORY_THERE = 1 << 0, /**< there is such memory, or such a file or object */
};

/** What there is of memory, a file or an object. Initialise with WEFT_MEMORY_STATUS_INIT. */
struct weft_memory_status {
  size_t size;    /**< sizeof(struct weft_memory_status) */
  uint32_t flags; /**< bits of enum weft_memory_status_flag */
  int32_t device; /**< CUDA: index of the GPU that it is on; else -1 */
  uint64_t
      length; /**< bytes. HOST, CUDA: from the address on, at most those asked for; FILE, OBJECT: all that it has */
  weft_region_t region; /**< HOST, CUDA: the region that holds all of it; FILE, OBJECT: the oldest region of that path;
                             0: none */
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_MEMORY_STATUS_INIT WEFT_SIZED(struct weft_memory_status)
/** WEFT_MEMORY_STATUS_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_memory_status_init(struct weft_memory_status *status, size_t size);

/**
 * Asks what there is of `memory`, which need not be registered: how much of it is mapped, which GPU it is on, how long
 * the file or the object is. It changes nothing. What is not there is no error: THERE is missing then. OBJECT:
 * asks the server, at most for `timeout_ms`; the others do not wait. UNSUPPORTED: no transport of this agent knows
 * objects, or there is no usable GPU. TIMEOUT, UNREACHABLE, AUTH, PROTOCOL: the server does not answer, or refuses.
 * INVALID: `status` was not initialised. [any]
 */
WEFT_API int weft_agent_query_memory(weft_agent_t *agent, const struct weft_agent_memory *memory, uint32_t timeout_ms,
                                     struct weft_memory_status *status);

/**
 * Allocates `length` bytes of zeros that peers of this host can map, at `*address`, and registers them as `*region`.
 * HOST: a memfd, which such peers reach without any work of this process; `device` is ignored. CUDA: memory of GPU
 * `device`, of GPU 0 if it is negative. weft_agent_deregister() and weft_agent_close() free the memory. UNSUPPORTED:
 * another kind, or no usable GPU. NOMEM, LIMIT: there is not so much memory, or the limit of file sizes is less. [any]
 */
WEFT_API int weft_agent_allocate(weft_agent_t *agent, enum weft_memory_kind kind, uint64_t length, int32_t device,
                                 weft_region_t *region, void **address);

/**
 * Deregisters a region: no transfer of this agent or of a peer can begin to use it any more, and memory of
 * weft_agent_allocate() is freed. Peers that know the region get a message about it; what they post to it afterwards
 * ends with NOT_FOUND, or with an error of the transport until the message has come. It waits until a peer's shm
 * transfer under way has left the region; over another transport such a transfer may still be writing, so agree with
 * the peers before you free the memory. BUSY: a list of this agent holds the region, the sentence counts the lists and
 * transfers. NOT_FOUND: there is no such region. [any]
 */
WEFT_API int weft_agent_deregister(weft_agent_t *agent, weft_region_t region);

/* --- metadata --- */

/** Bits of weft_metadata_options.flags. */
enum weft_metadata_flag {
  WEFT_METADATA_ADDRESSES = 1 << 0, /**< with the addresses of the transports; without them the metadata is partial: it
                                         updates a peer that was loaded before */
  WEFT_METADATA_ALL_REGIONS = 1 << 1, /**< all regions but those with WEFT_MEMORY_NO_METADATA; num_regions is then 0 */
};

/** What is to be in metadata. Initialise with WEFT_METADATA_OPTIONS_INIT: addresses and all regions. */
struct weft_metadata_options {
  size_t size;                  /**< sizeof(struct weft_metadata_options) */
  uint32_t flags;               /**< bits of enum weft_metadata_flag */
  uint32_t num_regions;         /**< entries of `regions`; 0 without ALL_REGIONS: no region is in it */
  const weft_region_t *regions; /**< [num_regions] the regions that are in it. Not kept */
};
#ifdef __cplusplus
}
namespace {
inline weft_metadata_options weft_initial_metadata_options() {
  weft_metadata_options options = weft_sized<weft_metadata_options>();
  options.flags = WEFT_METADATA_ADDRESSES | WEFT_METADATA_ALL_REGIONS;
  return options;
}
} // namespace
extern "C" {
#define WEFT_METADATA_OPTIONS_INIT (weft_initial_metadata_options())
#else
/** Initial value: its size, addresses, and all regions. */
#define WEFT_METADATA_OPTIONS_INIT                                                                                     \
  ((struct weft_metadata_options){.size = sizeof(struct weft_metadata_options),                                        \
                                  .flags = WEFT_METADATA_ADDRESSES | WEFT_METADATA_ALL_REGIONS})
#endif
/** WEFT_METADATA_OPTIONS_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_metadata_options_init(struct weft_metadata_options *options, size_t size);

/**
 * Writes this agent's metadata into `blob`, of `cap` bytes: name, incarnation, and what `options` (NULL: addresses and
 * all regions) ask for. `*size` is the bytes that it takes; a `cap` of 0 asks for them. ROOM: `cap` is less, and
 * nothing is written but `*size`. LIMIT: the metadata has more than 131,072 regions or 64 MiB. NOT_FOUND: there is no
 * such region. INVALID: a region has WEFT_MEMORY_NO_METADATA, or regions are named beside ALL_REGIONS. An agent with a
 * token seals its metadata with it. The format is little-endian, versioned and checksummed (docs/design/agent.md).
 * [any]
 */
WEFT_API int weft_agent_metadata(weft_agent_t *agent, const struct weft_metadata_options *options, void *blob,
                                 size_t cap, size_t *size);

/**
 * Loads the metadata of another agent, all of it or nothing; `*peer` is its id. Metadata of a known incarnation updates
 * that peer. Metadata of a new incarnation of a peer that has ended makes a new peer. This agent's own gives
 * WEFT_PEER_SELF. The bytes at `blob` are the caller's and are not kept.
 *
 * PROTOCOL: the metadata is damaged, the sentence says where. VERSION: it is of another version. EXISTS: a living peer,
 * or this agent, has this name and another incarnation. AUTH: this agent has a token, and the metadata was not sealed
 * with it. NOT_FOUND: it is partial, and no peer of this name is known. UNREACHABLE: no transport of both agents
 * reaches the peer. LIMIT: more than 131,072 regions of a peer, 1,048,576 regions of all peers, or 65,536 peers.
 *
 * An agent without a token loads any metadata, and passes its addresses and keys on to the transports and the libraries
 * below them: the caller has to know where the metadata comes from. [any]
 */
WEFT_API int weft_agent_load(weft_agent_t *agent, const void *blob, size_t size, weft_peer_t *peer);

/** Ends a peer on this side, with the event PEER_LEFT. It returns at once: transfers in flight end with PEER_LOST, each
 *  once nothing touches its memory any more. The other side keeps this agent, but where the two are connected by the
 *  transport ucx or have met by socket: then it has PEER_LOST or PEER_LEFT, too. INVALID: WEFT_PEER_SELF. [any] */
WEFT_API int weft_agent_invalidate(weft_agent_t *agent, weft_peer_t peer);

/**
 * Puts metadata of this agent into the store on a lease, and keeps it there: a thread, which the first publish or fetch
 * starts whatever the options' progress, renews the lease and puts the keys again when regions change or the store has
 * lost them. `options` (NULL: addresses and all regions) choose what is in it; it is copied, and regions that go later
 * are left out. `label` NULL: the agent's own, at PREFIXagents/NAME, by which it is alive for others; else another
 * selection, of 1 to WEFT_AGENT_MAX_LABEL - 1 bytes without control characters, beside it. The same label again
 * replaces what was there.
 *
 * Blocks until the key is there, at most for `timeout_ms`, also while the lease of an agent of the same name that has
 * died runs out. INVALID: the agent was opened without a store, its prefix is too long, or the options or the label are
 * wrong. EXISTS: a living agent of this name is in the store. UNREACHABLE, TIMEOUT, AUTH and others are those of the
 * store. [any]
 */
WEFT_API int weft_agent_publish(weft_agent_t *agent, const char *label, const struct weft_metadata_options *options,
                                uint32_t timeout_ms);

/** Takes back what weft_agent_publish() put under `label`; with NULL peers that fetched this agent see it leave. What
 *  another agent of this name has put there since, as this one's lease had run out, stays. NOT_FOUND: nothing is
 *  published there. CONFLICT: others change the key all the time. Others are those of the store. [any] */
WEFT_API int weft_agent_unpublish(weft_agent_t *agent, const char *label, uint32_t timeout_ms);

/**
 * Waits until the agent `name` is in the store, at most for `timeout_ms`, and loads its metadata; `*peer` is its id,
 * for this agent's own name WEFT_PEER_SELF. `label` NULL: its own metadata, else what it published under that label,
 * which adds to what is known of it. From then on the store is watched: changes are loaded, and when the agent's own
 * key goes the peer has left. INVALID: the agent was opened without a store. TIMEOUT: it is not there. Others are those
 * of weft_agent_load() and of the store. With a token the metadata has to be sealed with it (AUTH); without one this
 * agent trusts everybody who can write to the store. [any]
 */
WEFT_API int weft_agent_fetch(weft_agent_t *agent, const char *name, const char *label, uint32_t timeout_ms,
                              weft_peer_t *peer);

/**
 * Connects to the agent that listens at `address` ("HOST:PORT", "[IPV6]:PORT") and exchanges metadata in both
 * directions;
 * `*peer` is its id. Blocks for at most `timeout_ms`, and for the look-up of HOST. With WEFT_AGENT_PROGRESS_NONE it
 * drives this agent meanwhile. The connection stays: it carries updates, and its end means that the peer has left or is
 * lost. INVALID: this agent has no token, or the address is malformed. AUTH: the other one does not share the token.
 * UNREACHABLE: nobody listens there. TIMEOUT: it did not answer. PEER_LOST: it ended the connection. Others are those
 * of weft_agent_load(), of either side. [any]
 */
WEFT_API int weft_agent_meet(weft_agent_t *agent, const char *address, uint32_t timeout_ms, weft_peer_t *peer);

/** `*port` is the port at which this agent listens. NOT_FOUND: it does not listen. [any] */
WEFT_API int weft_agent_port(weft_agent_t *agent, uint16_t *port);

/** `*peer` is the living peer of that name; this agent's own name gives WEFT_PEER_SELF. NOT_FOUND: there is none. [any]
 */
WEFT_API int weft_agent_find(weft_agent_t *agent, const char *name, weft_peer_t *peer);

/** What this agent knows of a region. */
struct weft_region_info {
  weft_region_t region;       /**< id of the region, with its owner */
  uint64_t address;           /**< HOST, CUDA: first byte, in the owner's address space; else 0 */
  uint64_t length;            /**< bytes; FILE, OBJECT: 0 for no limit */
  enum weft_memory_kind kind; /**< what it is */
  int32_t device;             /**< CUDA: the GPU's index with its owner; -1: not known */
  uint32_t flags;             /**< WEFT_MEMORY_READ_ONLY; of this agent's own, WEFT_MEMORY_NO_METADATA too */
  uint32_t reserved;          /**< 0 */
};

/** Writes what is known here of the regions of `peer` (WEFT_PEER_SELF: of this agent) into info[cap], by ascending id;
 *  `each` is the caller's sizeof(struct weft_region_info). `*count` is how many regions there are, also when that is
 *  more than `cap`. INVALID: a pointer is NULL. [any] */
WEFT_API int weft_agent_regions(weft_agent_t *agent, weft_peer_t peer, struct weft_region_info *info, size_t each,
                                uint32_t cap, uint32_t *count);

/** How a peer stands. */
enum weft_peer_state {
  WEFT_PEER_ALIVE = 1, /**< as far as this agent knows */
  WEFT_PEER_LEFT = 2,  /**< PEER_LEFT was told of it */
  WEFT_PEER_LOST = 3,  /**< PEER_LOST was told of it */
};

/** What this agent knows of a peer; its texts are copies. Initialise with WEFT_PEER_INFO_INIT. */
struct weft_peer_info {
  size_t size;                            /**< sizeof(struct weft_peer_info) */
  weft_peer_t peer;                       /**< its id */
  uint64_t incarnation;                   /**< which life of the agent of that name it is */
  uint64_t received_ns;                   /**< when something came from it last, or it was loaded; CLOCK_MONOTONIC */
  enum weft_peer_state state;             /**< how it stands */
  uint32_t num_regions;                   /**< its regions that are known here; 0 when it has ended */
  char name[WEFT_AGENT_MAX_NAME];         /**< its name */
  char reason[WEFT_AGENT_MAX_DETAIL];     /**< why it has ended; "" */
  char transports[WEFT_AGENT_MAX_DETAIL]; /**< those that reach it, comma-separated, in the order of preference */
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_PEER_INFO_INIT WEFT_SIZED(struct weft_peer_info)
/** WEFT_PEER_INFO_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_peer_info_init(struct weft_peer_info *info, size_t size);

/** What is known of a peer (WEFT_PEER_SELF: of this agent), also of one that has ended: the last 256 of these are
 *  remembered. INVALID: `info` was not initialised. NOT_FOUND: there was no such peer. [any] */
WEFT_API int weft_agent_peer(weft_agent_t *agent, weft_peer_t peer, struct weft_peer_info *info);

/** Writes the ids of the living peers into peers[cap]; `*count` is how many there are, also when that is more than
 *  `cap`. INVALID: a pointer is NULL. [any] */
WEFT_API int weft_agent_peers(weft_agent_t *agent, weft_peer_t *peers, uint32_t cap, uint32_t *count);

/** Makes the connection over which messages go to the peer, before the first post needs it, and waits until a message
 *  has left by it, at most for `timeout_ms`. With WEFT_AGENT_PROGRESS_NONE it drives this agent meanwhile. Other
 *  transports connect with their first transfer. TIMEOUT: nothing could be sent so soon. NOT_CONNECTED: no transport
 *  carries messages to the peer. Others are those of the transport. [any] */
WEFT_API int weft_agent_connect(weft_agent_t *agent, weft_peer_t peer, uint32_t timeout_ms);

/** Whether the peer is alive, as far as this agent knows: 0, or PEER_LOST with the reason in weft_last_error(). It does
 *  not ask the peer. [any] */
WEFT_API int weft_agent_check(weft_agent_t *agent, weft_peer_t peer);

/* --- events --- */

/** What happened to a peer. */
enum weft_agent_event_kind {
  WEFT_AGENT_EVENT_PEER_LOADED =
      1, /**< metadata of a new incarnation was loaded (from the store, a socket or a call) */
  WEFT_AGENT_EVENT_PEER_UPDATED = 2, /**< its regions changed */
  WEFT_AGENT_EVENT_PEER_LEFT = 3,    /**< it closed, its key went from the store, or this agent invalidated it */
  /** It was found dead or silent; `detail` says how. From this event on nothing that it was writing changes memory of
   *  this agent, over shm (but for at most one MiB of a process that was stopped in mid-copy), over ucx where Weft
   *  serves the access, and over ofi by TCP. docs/design/agent.md, "A host that is cut off", lists all transports. */
  WEFT_AGENT_EVENT_PEER_LOST = 4,
};

/** One event of an agent; its texts are copies. Initialise with WEFT_AGENT_EVENT_INIT. */
struct weft_agent_event {
  size_t size;                        /**< sizeof(struct weft_agent_event) */
  enum weft_agent_event_kind kind;    /**< what happened */
  uint32_t dropped;                   /**< events that went unseen since the one that was taken before */
  weft_peer_t peer;                   /**< the peer concerned */
  uint64_t time_ns;                   /**< when, by CLOCK_MONOTONIC */
  char name[WEFT_AGENT_MAX_NAME];     /**< the peer's name */
  char detail[WEFT_AGENT_MAX_DETAIL]; /**< a few words, or "" */
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_AGENT_EVENT_INIT WEFT_SIZED(struct weft_agent_event)
/** WEFT_AGENT_EVENT_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_agent_event_init(struct weft_agent_event *event, size_t size);

/** Takes the oldest event that nobody has taken. 1: `*event` has it. 0: there is none. It waits for nothing, and
 * the agent calls nothing of the application, so the caller may hold its own locks. At most 1,024 PEER_LOADED and
 * PEER_UPDATED wait; beyond that the oldest of these go, and `dropped` counts them. PEER_LEFT and PEER_LOST wait for
 * ever; but an agent whose application has never called this keeps the last 1,024 of them. [any] */
WEFT_API int weft_agent_next_event(weft_agent_t *agent, struct weft_agent_event *event);

/* --- transfers --- */

/** Direction of a transfer. */
enum weft_transfer_op {
  WEFT_TRANSFER_READ = 0,  /**< from the peer's descriptors into this agent's */
  WEFT_TRANSFER_WRITE = 1, /**< from this agent's descriptors into the peer's */
};

/**
 * Makes a list of descriptors[count] of `peer` (WEFT_PEER_SELF: of this agent), for any number of transfers; all are of
 * one kind of memory. It looks their regions up once. The array is not kept. The caller frees `*list` with
 * weft_dlist_free(), also after the agent has closed. INVALID: no descriptor, a length of 0, two kinds, or a range
 * that is not within the region that it names. NOT_FOUND: no region of this id, or none that holds the range. LIMIT:
 * `count` is more than WEFT_AGENT_MAX_DESCRIPTORS. The sentence names the descriptor. [any]
 */
WEFT_API int weft_dlist_create(weft_agent_t *agent, weft_peer_t peer, const struct weft_descriptor *descriptors,
                               uint32_t count, weft_dlist_t **list);

/** Frees a list. BUSY: a transfer uses it, and nothing is freed. NULL is legal. [any] */
WEFT_API int weft_dlist_free(weft_dlist_t *list);

/** `count` pairs of descriptors, in a shape that is fixed: the i-th joins local_first + i * local_stride and
 * remote_first + i * remote_stride. */
struct weft_transfer_run {
  uint32_t local_first,  /**< first index in the local list */
      local_stride;      /**< distance to the next */
  uint32_t remote_first, /**< first index in the remote list */
      remote_stride;     /**< distance to the next */
  uint32_t count;        /**< number of pairs */
};

/** How to make a transfer. Initialise with WEFT_TRANSFER_OPTIONS_INIT; a field that is 0 or NULL has its default. The
 *  library keeps no pointer of it. */
struct weft_transfer_options {
  size_t size;                  /**< sizeof(struct weft_transfer_options) */
  const uint32_t *local_index;  /**< [num_index] chosen descriptors of the local list, in order; NULL: see runs */
  const uint32_t *remote_index; /**< [num_index] descriptors of the remote list that local_index is paired with */
  const struct weft_transfer_run *runs; /**< [num_runs] pairs, not together with an index. Neither: all descriptors, the
                                             i-th local one with the i-th remote one */
  uint32_t num_index;                   /**< entries of local_index and of remote_index */
  uint32_t num_runs;                    /**< entries of runs */
  const void *notification; /**< sent to the peer once the data is visible there, with each post that ends well, and not
                                 otherwise; default: none. See weft_agent_close() for its delivery */
  uint32_t notification_size; /**< its bytes, at most WEFT_AGENT_MAX_NOTIFICATION */
  uint32_t timeout_ms;        /**< deadline, counted from each post; default: weft_agent_options.transfer_timeout_ms */
  uint32_t max_notification;  /**< the most bytes of a notification that weft_transfer_post_with() may bring; default:
                                   posts bring `notification` and no other */
  uint32_t reserved;          /**< 0 */
  const char *transport;      /**< the transport to use; default: the cheapest that can, see weft_transfer_explain() */
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_TRANSFER_OPTIONS_INIT WEFT_SIZED(struct weft_transfer_options)
/** WEFT_TRANSFER_OPTIONS_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_transfer_options_init(struct weft_transfer_options *options, size_t size);

/**
 * Makes a transfer between `local`, a list of this agent's own descriptors, and `remote`, a list of a peer's or of its
 * own. Both descriptors of a pair have the same length. Pairs that are neighbours on both sides are merged. It chooses
 * the transport and prepares the requests, so that a post costs little. `options` may be NULL for the defaults. The
 * lists stay in use until the transfer is freed. The caller frees `*transfer` with weft_transfer_free(), also after the
 * agent has closed.
 *
 * INVALID: lengths or numbers of descriptors differ, an index is beyond its list, a region that would be written is
 * read-only, or `local` is no list of this agent's own. LIMIT: more than WEFT_AGENT_MAX_DESCRIPTORS pairs, or the
 * notification is too long. UNREACHABLE: no transport can carry it; the sentence has a line for each. UNSUPPORTED: this
 * agent has not opened `transport`. NOT_CONNECTED: no transport carries notifications to the peer. [any]
 */
WEFT_API int weft_transfer_create(weft_agent_t *agent, enum weft_transfer_op op, weft_dlist_t *local,
                                  weft_dlist_t *remote, const struct weft_transfer_options *options,
                                  weft_transfer_t **transfer);

/**
 * Starts the transfer, for the first time or again after it has ended, and returns at once, though it may copy up to
 * 256 KiB by itself. From now on until it has ended the memory of both sides belongs to it: a source must not change,
 * nor overlap what is written (in loopback), else what is written is undefined. 0: it is in flight or has ended
 * already: poll it. BUSY: it is in flight from an earlier post, or it has a notification and the peer has as many
 * unread ones as it takes (1,024): post again later. PEER_LOST: the incarnation has ended. NOT_FOUND: the peer has
 * deregistered a region. On an error nothing was started. [transfer]
 */
WEFT_API int weft_transfer_post(weft_transfer_t *transfer);

/** Bits of weft_post.flags. */
enum weft_post_flag {
  WEFT_POST_COMPLETION = 1 << 0, /**< weft_agent_completions() tells the end of the post */
};

/** What one post has of its own. Initialise with WEFT_POST_INIT; with nothing else set it is a weft_transfer_post(). */
struct weft_post {
  size_t size;                /**< sizeof(struct weft_post) */
  const void *notification;   /**< sent with this post, in the place of the transfer's own if that has one; default: the
                                   transfer's own. Copied */
  uint32_t notification_size; /**< its bytes, at most weft_transfer_options.max_notification */
  uint32_t flags;             /**< bits of enum weft_post_flag */
  uint32_t timeout_ms;        /**< deadline of this post; default: the transfer's */
  uint32_t reserved;          /**< 0 */
  uint64_t tag;               /**< the caller's, for the completion */
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_POST_INIT WEFT_SIZED(struct weft_post)
/** WEFT_POST_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_post_init(struct weft_post *post, size_t size);

/**
 * weft_transfer_post() with a notification, a deadline or a completion of its own; like that one it allocates nothing
 * and waits for nothing. Nothing of `post` is kept; the next weft_transfer_post() is as the transfer was made. BUSY is
 * also: the completion of an earlier post of this transfer has not been taken. INVALID: the notification is larger than
 * weft_transfer_options.max_notification, or a flag is unknown. [transfer]
 */
WEFT_API int weft_transfer_post_with(weft_transfer_t *transfer, const struct weft_post *post);

/** The end of a post with WEFT_POST_COMPLETION. Its shape is fixed. */
struct weft_completion {
  uint64_t tag;              /**< weft_post.tag */
  weft_transfer_t *transfer; /**< the transfer, unless it was freed since */
  int32_t err;               /**< how it ended: 0, or what weft_transfer_poll() returns */
  uint32_t reserved;         /**< 0 */
};

/** Takes up to `cap` completions that nobody has taken into `done`, in the order of the ends; `*count` is how many it
 *  took, 0 if there are none. It does not wait, and does not drive the agent. Each post that asked for it gives one,
 *  how ever it ended, unless its transfer was freed before. INVALID: a pointer is NULL. [any] */
WEFT_API int weft_agent_completions(weft_agent_t *agent, struct weft_completion *done, uint32_t cap, uint32_t *count);

/**
 * Asks how the last post stands, drives its transport once, and does not wait. 0: it has ended well and all data is
 * visible; a notification with it was sent, not necessarily taken. 1: it is in flight. Negative: it failed with that
 * code, and nothing touches its memory any more: TIMEOUT (its own deadline passed), PEER_LOST, CANCELED, or the
 * transport's. What a failed transfer was to write holds any mixture of old and new bytes. INVALID: it was never
 * posted. [transfer]
 */
WEFT_API int weft_transfer_poll(weft_transfer_t *transfer);

/** Waits until the last post has ended, at most for `timeout_ms`: it polls, spins for weft_agent_options.spin_us, then
 *  sleeps. It returns what weft_transfer_poll() returns at the end. 1: `timeout_ms` has passed, and the transfer goes
 * on: its memory belongs to it still. TIMEOUT: its own deadline has ended it, and nothing touches its memory any more.
 *  [transfer] */
WEFT_API int weft_transfer_wait(weft_transfer_t *transfer, uint32_t timeout_ms);

/** Makes the post in flight end with CANCELED, unless it ends otherwise first, and waits for that, at most for
 *  `timeout_ms`. 0: it is not in flight any more, and nothing touches its memory; weft_transfer_poll() says how it
 *  ended. TIMEOUT: it could not be stopped so soon; it will end by itself. [any], but not while the transfer is being
 *  freed. */
WEFT_API int weft_transfer_cancel(weft_transfer_t *transfer, uint32_t timeout_ms);

/** Frees a transfer, and its descriptor of weft_transfer_fd(). BUSY: it is in flight, and nothing is freed. NULL is
 *  legal. [transfer] */
WEFT_API int weft_transfer_free(weft_transfer_t *transfer);

/** `*fd` becomes readable when a post has ended, for poll(2) and the like; read 8 bytes from it to rearm it. It is an
 *  eventfd of the transfer's: do not close it. The first call makes it, and a post that has ended before is not shown.
 *  With WEFT_AGENT_PROGRESS_NONE something has to drive the agent meanwhile. LIMIT: there are no more descriptors.
 *  [transfer] */
WEFT_API int weft_transfer_fd(weft_transfer_t *transfer, int *fd);

/** Writes what became of each pair of descriptors in the last post into status[cap], in their order: 0, or an error
 *  code. `*count` is the number of pairs, also when that is more than `cap`. BUSY: the post is in flight. INVALID:
 * there was none. [transfer] */
WEFT_API int weft_transfer_status(weft_transfer_t *transfer, int32_t *status, uint32_t cap, uint32_t *count);

/** Why the last post failed, in words; "" if it did not fail or is in flight. Valid until the next post. [transfer] */
WEFT_API const char *weft_transfer_error(weft_transfer_t *transfer);

/** Which transport carries the transfer, with its expected costs, and why the others do not: one line each. Valid as
 *  long as the transfer. [any] */
WEFT_API const char *weft_transfer_explain(weft_transfer_t *transfer);

/** `*ns` is how many nanoseconds one post is expected to take, by the transport's own costs: latency + further pieces
 *  * cost of a piece + bytes / bandwidth. It was computed when the transfer was made. INVALID: `ns` is NULL. [any] */
WEFT_API int weft_transfer_estimate(weft_transfer_t *transfer, uint64_t *ns);

/** What there is to say of a transfer. Initialise with WEFT_TRANSFER_INFO_INIT. */
struct weft_transfer_info {
  size_t size;          /**< sizeof(struct weft_transfer_info) */
  uint64_t bytes;       /**< of one post */
  uint64_t posts;       /**< how often it was started */
  uint64_t start_ns;    /**< when the last post began, by CLOCK_MONOTONIC; 0: there was none */
  uint64_t end_ns;      /**< when it ended; 0: it is in flight */
  uint64_t estimate_ns; /**< as weft_transfer_estimate() */
  uint32_t pairs;       /**< of descriptors */
  uint32_t pieces;      /**< that the pairs were merged to */
  char transport[16];   /**< the name of the transport that carries it */
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_TRANSFER_INFO_INIT WEFT_SIZED(struct weft_transfer_info)
/** WEFT_TRANSFER_INFO_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_transfer_info_init(struct weft_transfer_info *info, size_t size);

/** Writes what there is to say of the transfer and of its last post. INVALID: `info` was not initialised. [transfer] */
WEFT_API int weft_transfer_get_info(weft_transfer_t *transfer, struct weft_transfer_info *info);

/* --- notifications --- */

/**
 * Sends `size` bytes, at most WEFT_AGENT_MAX_NOTIFICATION, to the application of `peer`. They are copied. It may wait
 * for another thread inside this agent, not for the peer. 0: it is on its way, not necessarily taken. A peer that has
 * not loaded this agent's metadata drops it. BUSY: the peer has as many unread ones of this agent as it takes (1,024);
 * the peer acknowledges them in steps of 256. NOT_CONNECTED: no transport carries messages to the peer. LIMIT: `size`
 * is too large. [any]
 */
WEFT_API int weft_agent_notify(weft_agent_t *agent, weft_peer_t peer, const void *bytes, uint32_t size);

/** One notification that this agent received. Its shape is fixed. */
struct weft_notification {
  weft_peer_t peer;  /**< the sender, which may have left or been lost since */
  const void *bytes; /**< the agent's host memory; valid until the next weft_agent_notifications() */
  uint32_t size;     /**< bytes of the notification */
  uint32_t reserved; /**< 0 */
};

/** Takes up to `cap` received notifications into `notifications`; `*count` is how many it took, 0 if there are none.
 *  It does not wait. Those of one peer come in the order in which they were sent (with a transfer: in which its data
 *  became visible). One thread at a time for each agent. INVALID: a pointer is NULL. [owner] */
WEFT_API int weft_agent_notifications(weft_agent_t *agent, struct weft_notification *notifications, uint32_t cap,
                                      uint32_t *count);

/* --- progress and telemetry --- */

/** Drives all transports once, and liveness and deadlines if they are due, without waiting. `*events` (may be NULL) is
 *  how many requests and messages moved on. Needed with WEFT_AGENT_PROGRESS_NONE, legal with the thread. INVALID:
 *  `agent` is NULL. [any] */
WEFT_API int weft_agent_progress(weft_agent_t *agent, uint32_t *events);

/** `*fd` is readable when there is something that the application has not taken: notifications, events (once it has
 *  called weft_agent_next_event()) and completions. It is the agent's: do not read or close it, but take each kind
 *  that you use until there is no more, which makes it unreadable again. It may be readable for nothing. With
 *  WEFT_AGENT_PROGRESS_NONE it is readable also when the agent is to be driven; call weft_agent_arm() before each
 *  sleep. INVALID: `fd` is NULL. [any] */
WEFT_API int weft_agent_fd(weft_agent_t *agent, int *fd);

/**
 * Asks whether the caller may sleep on weft_agent_fd(). 0: for at most `*timeout_ms` (WEFT_WAIT_FOREVER, which as an
 * int is poll(2)'s -1: for any time); whatever comes from now on makes the descriptor readable. 1: there is something
 * to do or to take: take it, look at the transfers, and call again. With WEFT_AGENT_PROGRESS_NONE it drives the agent
 * as its thread would, so a loop without the thread is this, and nothing is missed:
 *
 *     struct pollfd news;
 *     news.fd = fd; // of weft_agent_fd()
 *     news.events = POLLIN;
 *     for (;;) {
 *       int rc = weft_agent_arm(agent, &timeout_ms);
 *       if (rc == 0)
 *         poll(&news, 1, (int)timeout_ms);
 *       // weft_agent_notifications(), weft_agent_completions(), weft_agent_next_event(), each until there is no more
 *     }
 *
 * INVALID: `timeout_ms` is NULL. [any]; with WEFT_AGENT_PROGRESS_NONE the one thread that calls the agent
 */
WEFT_API int weft_agent_arm(weft_agent_t *agent, uint32_t *timeout_ms);

/** Writes counters and latency histograms by peer and transport, in the OpenMetrics text format 1.0, NUL-terminated,
 * into `text`, of `cap` bytes. `*size` is the bytes that it takes, its NUL included; a `cap` of 0 asks for them. ROOM:
 * `cap` is less, and nothing is written but `*size`. [any] */
WEFT_API int weft_agent_metrics(weft_agent_t *agent, char *text, size_t cap, size_t *size);

/** The counters of transfers and notifications. Initialise with WEFT_AGENT_STATS_INIT. Transfers count when they end.
 */
struct weft_agent_stats {
  size_t size;                  /**< sizeof(struct weft_agent_stats) */
  uint64_t reads;               /**< transfers of that direction that ended well */
  uint64_t read_bytes;          /**< their bytes */
  uint64_t read_errors;         /**< that failed */
  uint64_t read_cancels;        /**< that were cancelled */
  uint64_t read_ns;             /**< the sum of their times from post to end, of those that ended well */
  uint64_t writes;              /**< as reads */
  uint64_t write_bytes;         /**< as read_bytes */
  uint64_t write_errors;        /**< as read_errors */
  uint64_t write_cancels;       /**< as read_cancels */
  uint64_t write_ns;            /**< as read_ns */
  uint64_t notifications_sent;  /**< to peers that live or are remembered */
  uint64_t notifications_taken; /**< of these peers, by the application */
  uint64_t messages_dropped;    /**< of unknown senders, and beyond what a peer may leave unread; of one peer: 0 */
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_AGENT_STATS_INIT WEFT_SIZED(struct weft_agent_stats)
/** WEFT_AGENT_STATS_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_agent_stats_init(struct weft_agent_stats *stats, size_t size);

/** The counters of transfers with one living peer (WEFT_PEER_SELF: of this agent with itself), or with 0 of all, those
 *  that have gone too. INVALID: `stats` was not initialised. NOT_FOUND, PEER_LOST: there is no such peer. [any] */
WEFT_API int weft_agent_get_stats(weft_agent_t *agent, weft_peer_t peer, struct weft_agent_stats *stats);

/**
 * Serves weft_agent_metrics() over HTTP at `address` ("HOST:PORT", port 0: any free one), path /metrics, on threads of
 * its own, until the agent closes; `*port` (may be NULL) is the port. Metrics name the peers. So an agent with a token
 * serves clients that send weft_agent_metrics_bearer(), and an agent without one serves at a loopback address only
 * (else INVALID), where every user of this host may read them. HTTP is not encrypted. EXISTS: the agent serves them
 * already. BUSY: the port is in use. UNREACHABLE: HOST has no address. UNSUPPORTED: this build has no libmicrohttpd.
 * [any]
 */
WEFT_API int weft_agent_serve_metrics(weft_agent_t *agent, const char *address, uint16_t *port);

/**
 * Writes what a client has to send as "Authorization: Bearer TEXT" to read the metrics that an agent with a token
 * serves: 64 hexadecimal digits and a NUL. They follow from the token, and the token cannot be found from them. All
 * agents with the same token have the same bearer. `cap`, `*size` and ROOM are as with weft_agent_metrics(). NOT_FOUND:
 * the agent has no token. UNSUPPORTED: this build has no libmicrohttpd. [any]
 */
WEFT_API int weft_agent_metrics_bearer(weft_agent_t *agent, char *text, size_t cap, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
