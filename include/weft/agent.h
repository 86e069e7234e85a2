/**
 * @file agent.h
 * @brief Transfers: registered memory, peers known by their metadata, one-sided reads and writes with notifications.
 *
 * An *agent* is one process's end of all transfers. It registers *regions* (host memory, CUDA memory, files, objects)
 * and describes them to others in its *metadata*. After an agent has loaded the metadata of another agent, that agent
 * is its *peer*. A *transfer* moves bytes between a list of descriptors of the agent's own regions and a list of
 * descriptors of a peer's regions. Both lists may describe the agent's own regions (loopback): this is how memory is
 * copied to and from files and objects. A *notification* is a few bytes for the peer's application, sent alone, or with
 * a transfer once its data is visible there.
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
 * Ids are numbers and are never used twice: region ids are counted up, and a peer id identifies one incarnation of one
 * agent. A call with the id of an incarnation that has ended fails with PEER_LOST or NOT_FOUND at once; the id never
 * refers to a successor.
 *
 * **Threads.** [any]: any thread may call it at any time, several at once. [transfer]: one thread at a time for each
 * transfer; different transfers are independent. With WEFT_AGENT_PROGRESS_NONE only one thread at a time may call
 * functions for one agent, its lists and its transfers. No other call may use an agent, a list or a transfer while it
 * is being closed or freed, or afterwards. Calls with lists and transfers of a closed agent return CLOSED until they
 * are freed. In a forked child all calls with handles of the parent return CLOSED.
 *
 * **Time.** weft_transfer_post() and weft_transfer_poll() do not wait: they allocate nothing, take no lock that waits,
 * and look nothing up by name (with WEFT_AGENT_PROGRESS_NONE some polls also run the agent's housekeeping). Calls with
 * a `timeout_ms` block until their work is done or the time has passed; they may need up to about a second more when a
 * store does not answer. All other calls may allocate, look up names and wait for another thread inside this agent.
 *
 * **Errors.** Every call may return INVALID (an argument is wrong), NOMEM, SYSTEM (the operating system refuses) and
 * LIMIT (no more descriptors, threads, or what the call says). A call that takes a peer may return PEER_LOST (this
 * incarnation has left or is lost; the sentence says why) and NOT_FOUND (there was no such peer). The texts of the
 * calls name only further errors, and what an error means there.
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

typedef struct weft_agent weft_agent_t;       /**< an agent: one process's end of its transfers */
typedef struct weft_dlist weft_dlist_t;       /**< descriptors, checked and looked up once, for many transfers */
typedef struct weft_transfer weft_transfer_t; /**< a transfer that can be posted many times */

typedef uint64_t weft_region_t; /**< a region of one agent; 0: none */
typedef uint64_t weft_peer_t;   /**< an incarnation of an agent; 0: none, WEFT_PEER_SELF: this one */

/** The agent itself, as its own peer: both lists of a transfer describe its own regions (loopback). */
#define WEFT_PEER_SELF UINT64_MAX

enum {
  WEFT_AGENT_MAX_NAME = 128,           /**< bytes of an agent's name, its final NUL included */
  WEFT_AGENT_MAX_LABEL = 64,           /**< bytes of a label of metadata in the store, its final NUL included */
  WEFT_AGENT_MAX_DETAIL = 160,         /**< bytes of a reason in words, its final NUL included */
  WEFT_AGENT_MAX_NOTIFICATION = 4096,  /**< bytes of a notification */
  WEFT_AGENT_MAX_DESCRIPTORS = 1 << 20 /**< descriptors of a list, and pairs of a transfer */
};

/** The kind of a region. Later versions may add kinds at the end. */
enum weft_memory_kind {
  WEFT_MEMORY_HOST = 0,   /**< memory of this process */
  WEFT_MEMORY_CUDA = 1,   /**< memory of a GPU */
  WEFT_MEMORY_FILE = 2,   /**< a file */
  WEFT_MEMORY_OBJECT = 3, /**< an object in an S3 store; a transfer that writes to it has to write the whole object,
                               from byte 0 on */
};

/** Bits of weft_agent_memory.flags and weft_region_info.flags. */
enum weft_memory_flag {
  WEFT_MEMORY_READ_ONLY = 1 << 0,   /**< no agent writes to it: a transfer that would write to it cannot be made
                                         (INVALID) */
  WEFT_MEMORY_NO_METADATA = 1 << 1, /**< no metadata contains it: only this agent's own side of transfers can use it */
  WEFT_MEMORY_FD = 1 << 2,          /**< FILE: `fd` is given; without this flag the library opens `path` */
  WEFT_MEMORY_DEVICE = 1 << 3,      /**< CUDA: `device` is given; without this flag the GPU is the one to which the
                                         address belongs */
};

/** What to register. Initialise with WEFT_AGENT_MEMORY_INIT. */
struct weft_agent_memory {
  size_t size;                /**< sizeof(struct weft_agent_memory) */
  enum weft_memory_kind kind; /**< kind of the memory to register */
  uint32_t flags;             /**< bits of enum weft_memory_flag */
  void *address;              /**< HOST, CUDA: first byte, in host or device memory */
  uint64_t length;  /**< bytes. HOST, CUDA: not 0. FILE, OBJECT: the range from byte 0 that may be used; 0: no limit */
  int32_t device;   /**< CUDA, with WEFT_MEMORY_DEVICE: index of the GPU; else 0 */
  int32_t fd;       /**< FILE, with WEFT_MEMORY_FD: an open file. It still belongs to the caller, and has to stay open
                         until the region is deregistered. Else 0 */
  const char *path; /**< FILE: the library creates it if it is missing, except with READ_ONLY. OBJECT:
                         "bucket/key". The library copies it */
  const char *transports; /**< transports of the agent that may use it, comma-separated: "shm,ucx"; NULL: all that
                               can */
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_AGENT_MEMORY_INIT WEFT_SIZED(struct weft_agent_memory)
/** WEFT_AGENT_MEMORY_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_agent_memory_init(struct weft_agent_memory *memory, size_t size);

/** Consecutive bytes within one region. The struct's layout is fixed. */
struct weft_descriptor {
  uint64_t address; /**< HOST, CUDA: address of the first byte, in the owner's address space. FILE, OBJECT: offset */
  uint64_t length;  /**< bytes; not 0 */
  weft_region_t region; /**< the region. 0 (HOST, CUDA only): the smallest region that contains the bytes; the oldest of
                             equally small ones */
};

/** What drives transfers, notifications and liveness when no call of this agent is running. */
enum weft_agent_progress {
  WEFT_AGENT_PROGRESS_THREAD = 0, /**< a thread of the agent, which spins while there is work, then sleeps */
  /** Nothing: the caller drives the agent with weft_agent_arm(), weft_agent_progress(), weft_transfer_poll() and
   *  weft_transfer_wait(). An agent that is not driven sends no heartbeats, so its peers may consider it lost. */
  WEFT_AGENT_PROGRESS_NONE = 1,
};

/** Bits of weft_transport_info.flags. */
enum weft_transport_flag {
  WEFT_TRANSPORT_WORKS = 1 << 0,       /**< it works here */
  WEFT_TRANSPORT_MESSAGES = 1 << 1,    /**< it carries notifications */
  WEFT_TRANSPORT_OTHER_HOSTS = 1 << 2, /**< it reaches other hosts */
  WEFT_TRANSPORT_STORAGE = 1 << 3,     /**< it is only for transfers of an agent with itself */
};

/** A transport that this version knows. */
struct weft_transport_info {
  char name[16];         /**< its name in weft_agent_options.transports */
  uint32_t flags;        /**< bits of enum weft_transport_flag */
  uint32_t local_kinds;  /**< memory of this agent's side of a transfer: bits 1 << enum weft_memory_kind */
  uint32_t remote_kinds; /**< memory of the peer's side: the same bits */
  uint32_t reserved;     /**< 0 */
  char what[64];         /**< what it uses, in a few words; "": this build does not contain it */
  char why[224];         /**< why it does not work here, in words; ends with "..." if it is cut; "" if it works */
  char version[32]; /**< of the library that it uses, as loaded here, such as "1.18.1"; "": no library, or no version
                         number */
};

/** Writes the transports that this version knows into info[cap], in order of preference; `each` is the caller's
 *  sizeof(struct weft_transport_info). `*count` is the number of transports, also if that is more than `cap`. The call
 *  loads their libraries and checks whether they work here, which may take some milliseconds for each. INVALID: `count`
 *  is NULL, or `each` is not the size of that struct in any version. [any] */
WEFT_API int weft_transport_list(struct weft_transport_info *info, size_t each, uint32_t cap, uint32_t *count);

/** How to open an agent. Initialise with WEFT_AGENT_OPTIONS_INIT; a field that is 0 or NULL has its default. The
 *  library copies all strings. */
struct weft_agent_options {
  size_t size;      /**< sizeof(struct weft_agent_options) */
  const char *name; /**< required, without control characters; unique among the agents that know each other: loading a
                         second agent of that name returns EXISTS */
  const char *transports; /**< names, comma-separated: "shm,ucx". If transports have equal costs, an agent uses the one
                               named first; the first that can carry notifications sends them. Default: all of shm,
                               cuda, ucx, ofi, file and object that work here. By default ucx uses only RDMA. It uses
                               TCP, with which any process that can connect to its port may write to this process's
                               memory, only if ucx is named here, or UCX_TLS or UCX_NET_DEVICES is set in the
                               environment */
  enum weft_agent_progress progress; /**< what drives the agent; default: a thread */
  uint32_t spin_us;      /**< after this time without work the thread, or weft_transfer_wait(), sleeps; default 50 */
  uint32_t heartbeat_ms; /**< time between heartbeats to each peer; default 1,000 */
  /** A peer is lost if nothing came from it for this time, or for three of its own heartbeats if that is longer;
   *  default 5,000. */
  uint32_t peer_timeout_ms;
  uint32_t transfer_timeout_ms; /**< deadline of a transfer whose options name none; default 30,000 */
  uint32_t lease_ttl_s;         /**< the store deletes this agent's key this time after the last renewal; default 10 */
  weft_store_t *store;          /**< for weft_agent_publish() and weft_agent_fetch(). It still belongs to the caller,
                                     and has to outlive the agent; default: none */
  const char *prefix;           /**< prefix of the agents' keys in the store, ending in '/', the same for all agents of
                                     a job; may be NULL without a store, and with a store inside this process */
  const char *listen;           /**< "HOST:PORT" or "[IPV6]:PORT" (port 0: any free one) to which other agents can
                                     connect with weft_agent_meet(); default: none */
  /** Secret of all agents that may load each other's metadata; required with `listen` and for weft_agent_meet().
   *  Default: none, and the agent loads any metadata. */
  const char *token;
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_AGENT_OPTIONS_INIT WEFT_SIZED(struct weft_agent_options)
/** WEFT_AGENT_OPTIONS_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_agent_options_init(struct weft_agent_options *options, size_t size);

/**
 * Opens an agent: its transports, its listening socket, its thread. The caller closes `*agent` with weft_agent_close().
 * UNSUPPORTED: a requested transport does not work here; the sentence says why. NOT_FOUND: there is no transport of
 * that name. LIMIT: the name is too long, or no more descriptors or threads. BUSY: the port of `listen` is in use.
 * UNREACHABLE: the host of `listen` has no address. [any]
 */
WEFT_API int weft_agent_open(weft_agent_t **agent, const struct weft_agent_options *options);

/**
 * Opens another transport for an open agent, by its name. The new transport is the last in the order of preference.
 * Regions that were registered without `transports` are registered with it too; if it refuses a region, the region
 * stays with the other transports. Peers that fetched or met this agent are informed automatically. Other peers get the
 * new transport with the next metadata that has ADDRESSES; in the same way this agent gets the addresses of peers that
 * it has loaded by hand. A transfer keeps the transport that it was made with. The call may take some milliseconds, in
 * which other calls that are not [transfer] wait. EXISTS: the agent has this transport. NOT_FOUND: there is no
 * transport of that name. UNSUPPORTED: it does not work here; the sentence says why. LIMIT: an agent has at most 7
 * transports. INVALID: `transport` is not one name. [any]
 */
WEFT_API int weft_agent_add_transport(weft_agent_t *agent, const char *transport);

/**
 * Closes the agent and frees it with its regions. The call cancels the transfers in flight, deletes the agent's key in
 * the store, and tells its peers that it leaves. After the call has returned nothing accesses registered memory. The
 * caller still has to free lists and transfers, with weft_dlist_free() and weft_transfer_free(); all other calls with
 * them return CLOSED. In a forked child the call only frees memory; resources of the transports remain until exec() or
 * the end of the process. The call blocks: usually for milliseconds; for up to a second if transfers in flight or
 * messages do not end; for up to two more seconds if the store does not answer; and for the time that a transport needs
 * to end the remaining work. NULL is legal.
 *
 * Closing does not wait until notifications are delivered. A notification that the peer's application has not taken yet
 * may be lost, even if its transfer has ended with 0 or weft_agent_notify() has returned 0. To be sure that a
 * notification was received, wait for an answer of the peer's application before closing. The data of a transfer that
 * has ended with 0 has reached the peer. [owner]
 */
WEFT_API void weft_agent_close(weft_agent_t *agent);

/* --- memory --- */

/**
 * Registers memory, a file or an object with all transports that can use it; `*region` is its id. The memory still
 * belongs to the caller, and has to stay mapped until the region is deregistered or the agent is closed. Regions may
 * overlap. Peers that fetched or met this agent get the new region automatically, others with the next metadata. The
 * call takes as long as the transports need: seconds if a network pins very much memory. Meanwhile calls of this agent
 * that are not [transfer] wait, transfers may make no progress, and peers get no heartbeat: a peer whose
 * `peer_timeout_ms` passes considers this agent lost. So register very much memory before there are peers, or in parts.
 * FILE: the library opens the file once more, also with WEFT_MEMORY_FD, and closes it again. By POSIX, each such close
 * takes away all record locks that this process has on the file by F_SETLK; locks by F_OFD_SETLK and flock(2) stay.
 * UNSUPPORTED: no transport of this agent handles this kind of memory, or the agent has not opened one of `transports`.
 * INVALID: host memory is not mapped; the sentence names the first address that is not. SYSTEM, LIMIT: a file cannot be
 * opened, or memory cannot be pinned. Other codes come from the transport that refuses. [any]
 */
WEFT_API int weft_agent_register(weft_agent_t *agent, const struct weft_agent_memory *memory, weft_region_t *region);

/** Bits of weft_memory_status.flags. */
enum weft_memory_status_flag {
  WEFT_MEMORY_THERE = 1 << 0, /**< the memory, the file or the object exists */
};

/** Whether memory, a file or an object exists, and its properties. Initialise with WEFT_MEMORY_STATUS_INIT. */
struct weft_memory_status {
  size_t size;     /**< sizeof(struct weft_memory_status) */
  uint32_t flags;  /**< bits of enum weft_memory_status_flag */
  int32_t device;  /**< CUDA: index of the GPU that it is on; else -1 */
  uint64_t length; /**< bytes. HOST, CUDA: mapped from the address on, at most `memory.length`; FILE, OBJECT: the whole
                        length */
  weft_region_t region; /**< HOST, CUDA: the region that contains all of the memory; FILE, OBJECT: the oldest region of
                             that path; 0: none */
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_MEMORY_STATUS_INIT WEFT_SIZED(struct weft_memory_status)
/** WEFT_MEMORY_STATUS_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_memory_status_init(struct weft_memory_status *status, size_t size);

/**
 * Finds out how much of `memory` is mapped, on which GPU it is, or how long the file or the object is. `memory` need
 * not be registered. The call changes nothing. If it does not exist, this is no error: THERE is not set. OBJECT: the
 * call asks the server, and waits at most for `timeout_ms`; for other kinds it does not wait. UNSUPPORTED: no transport
 * of this agent supports objects, or there is no usable GPU. TIMEOUT, UNREACHABLE, AUTH, PROTOCOL: the server does not
 * answer, or refuses. INVALID: `status` was not initialised. [any]
 */
WEFT_API int weft_agent_query_memory(weft_agent_t *agent, const struct weft_agent_memory *memory, uint32_t timeout_ms,
                                     struct weft_memory_status *status);

/**
 * Allocates `length` bytes of zeros that peers of this host can map, at `*address`, and registers them as `*region`.
 * HOST: a memfd, which such peers access without any work of this process; `device` is ignored. CUDA: memory of GPU
 * `device`, of GPU 0 if it is negative. weft_agent_deregister() and weft_agent_close() free the memory. UNSUPPORTED:
 * another kind, or no usable GPU. NOMEM, LIMIT: there is not enough memory, or the limit of file sizes is lower. [any]
 */
WEFT_API int weft_agent_allocate(weft_agent_t *agent, enum weft_memory_kind kind, uint64_t length, int32_t device,
                                 weft_region_t *region, void **address);

/**
 * Deregisters a region: no transfer of this agent or of a peer can begin to use it any more, and memory from
 * weft_agent_allocate() is freed. Peers that know the region get a message about this. Their later posts to the region
 * end with NOT_FOUND, or with an error of the transport as long as the message has not arrived. The call waits until a
 * peer's running shm transfer no longer uses the region. A running transfer over another transport may still write to
 * it, so agree with the peers before you free the memory. BUSY: a list of this agent uses the region; the sentence says
 * how many lists and transfers do. NOT_FOUND: there is no such region. [any]
 */
WEFT_API int weft_agent_deregister(weft_agent_t *agent, weft_region_t region);

/* --- metadata --- */

/** Bits of weft_metadata_options.flags. */
enum weft_metadata_flag {
  WEFT_METADATA_ADDRESSES = 1 << 0, /**< with the addresses of the transports; without them the metadata is partial: it
                                         only updates a peer that was loaded before */
  WEFT_METADATA_ALL_REGIONS = 1 << 1, /**< all regions except those with WEFT_MEMORY_NO_METADATA; num_regions is then
                                           0 */
};

/** What metadata shall contain. Initialise with WEFT_METADATA_OPTIONS_INIT: addresses and all regions. */
struct weft_metadata_options {
  size_t size;                  /**< sizeof(struct weft_metadata_options) */
  uint32_t flags;               /**< bits of enum weft_metadata_flag */
  uint32_t num_regions;         /**< entries of `regions`; 0 without ALL_REGIONS: the metadata contains no region */
  const weft_region_t *regions; /**< [num_regions] the regions that it contains. The call keeps no pointer */
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
 * all regions) request. `*size` is the number of bytes that it needs; with `cap` 0 the call only reports it. ROOM:
 * `cap` is less, and only `*size` is written. LIMIT: the metadata has more than 131,072 regions or 64 MiB. NOT_FOUND:
 * there is no such region. INVALID: a region has WEFT_MEMORY_NO_METADATA, or regions are named together with
 * ALL_REGIONS. An agent with a token seals its metadata with the token. The format is little-endian, versioned and
 * checksummed (docs/design/agent.md). [any]
 */
WEFT_API int weft_agent_metadata(weft_agent_t *agent, const struct weft_metadata_options *options, void *blob,
                                 size_t cap, size_t *size);

/**
 * Loads the metadata of another agent, as a whole or not at all; `*peer` is the agent's id. Metadata of a known
 * incarnation updates that peer. If a peer has ended, metadata of a new incarnation of it makes a new peer. This
 * agent's own metadata gives WEFT_PEER_SELF. The bytes at `blob` belong to the caller; the call keeps no pointer.
 *
 * PROTOCOL: the metadata is damaged; the sentence says where. VERSION: it is of another version. EXISTS: a living peer,
 * or this agent, has this name and another incarnation. AUTH: this agent has a token, and the metadata was not sealed
 * with it. NOT_FOUND: the metadata is partial, and no peer of this name is known. UNREACHABLE: no transport of both
 * agents reaches the peer. LIMIT: more than 131,072 regions of a peer, 1,048,576 regions of all peers, or 65,536 peers.
 *
 * An agent without a token loads any metadata, and passes its addresses and keys to the transports and their libraries.
 * The caller therefore has to know where the metadata comes from. [any]
 */
WEFT_API int weft_agent_load(weft_agent_t *agent, const void *blob, size_t size, weft_peer_t *peer);

/** Ends a peer on this side, with the event PEER_LEFT. The call returns at once. Each transfer in flight ends with
 *  PEER_LOST as soon as nothing accesses its memory any more. The other side keeps this agent as a peer, except if the
 *  two are connected by the transport ucx or have met by socket: then it gets PEER_LOST or PEER_LEFT, too. INVALID:
 *  WEFT_PEER_SELF. [any] */
WEFT_API int weft_agent_invalidate(weft_agent_t *agent, weft_peer_t peer);

/**
 * Puts metadata of this agent into the store with a lease, and keeps it there. A thread renews the lease, and puts the
 * keys again when regions change or the store has lost them. The first publish or fetch starts this thread, whatever
 * the agent's `progress` is. `options` (NULL: addresses and all regions) choose what the metadata contains; they are
 * copied, and regions that are deregistered later are omitted. With `label` NULL the call publishes the agent's own
 * metadata, at PREFIXagents/NAME; by this key other agents see that the agent is alive. Any other label, of 1 to
 * WEFT_AGENT_MAX_LABEL - 1 bytes without control characters, publishes a further selection. A second call with the same
 * label replaces the metadata there.
 *
 * Blocks until the key is in the store, at most for `timeout_ms`; if an agent of the same name has died, the call also
 * waits until its lease has ended. INVALID: the agent was opened without a store, its prefix is too long, or the
 * options or the label are wrong. EXISTS: a living agent of this name is in the store. UNREACHABLE, TIMEOUT, AUTH and
 * other codes come from the store. [any]
 */
WEFT_API int weft_agent_publish(weft_agent_t *agent, const char *label, const struct weft_metadata_options *options,
                                uint32_t timeout_ms);

/** Deletes what weft_agent_publish() put under `label`. With NULL, peers that fetched this agent see it leave. If this
 *  agent's lease had ended and another agent of this name has put the key since, the key stays. NOT_FOUND: nothing is
 *  published there. CONFLICT: others change the key all the time. Other codes come from the store. [any] */
WEFT_API int weft_agent_unpublish(weft_agent_t *agent, const char *label, uint32_t timeout_ms);

/**
 * Waits until the agent `name` is in the store, at most for `timeout_ms`, and loads its metadata; `*peer` is its id, or
 * WEFT_PEER_SELF for this agent's own name. With `label` NULL the call loads the agent's own metadata, otherwise what
 * the agent published under that label, in addition to what is known of it. From then on this agent watches the store:
 * it loads changes, and when the peer's own key is deleted, the peer has left. INVALID: the agent was opened without a
 * store. TIMEOUT: `name` is not in the store. Other codes come from weft_agent_load() and from the store. If this agent
 * has a token, the metadata has to be sealed with it (AUTH); without a token this agent trusts every process that can
 * write to the store. [any]
 */
WEFT_API int weft_agent_fetch(weft_agent_t *agent, const char *name, const char *label, uint32_t timeout_ms,
                              weft_peer_t *peer);

/**
 * Connects to the agent that listens at `address` ("HOST:PORT", "[IPV6]:PORT") and exchanges metadata in both
 * directions; `*peer` is that agent's id. The call blocks for at most `timeout_ms`, and for the look-up of HOST. If
 * HOST has several addresses, the call tries one after the other; an address that nothing answers from takes an equal
 * share of the time that is left. With WEFT_AGENT_PROGRESS_NONE the call drives this agent meanwhile. The connection
 * stays open: it carries updates, and its end means that the peer has left or is lost. INVALID: this agent has no
 * token, or the address is malformed. AUTH: the other agent has another token. UNREACHABLE: nothing listens at the
 * address. TIMEOUT: the other agent did not answer. PEER_LOST: it ended the connection, or the peer ended as soon as
 * the two had met. LIMIT: the two have eight connections already. Other codes come from weft_agent_load(), of either
 * side. [any]
 */
WEFT_API int weft_agent_meet(weft_agent_t *agent, const char *address, uint32_t timeout_ms, weft_peer_t *peer);

/** `*port` is the port at which this agent listens. NOT_FOUND: it does not listen. [any] */
WEFT_API int weft_agent_port(weft_agent_t *agent, uint16_t *port);

/** `*peer` is the living peer of that name; this agent's own name gives WEFT_PEER_SELF. NOT_FOUND: there is none. [any]
 */
WEFT_API int weft_agent_find(weft_agent_t *agent, const char *name, weft_peer_t *peer);

/** What this agent knows of a region. */
struct weft_region_info {
  weft_region_t region;       /**< the owner's id of the region */
  uint64_t address;           /**< HOST, CUDA: first byte, in the owner's address space; else 0 */
  uint64_t length;            /**< bytes; FILE, OBJECT: 0 for no limit */
  enum weft_memory_kind kind; /**< kind of the region */
  int32_t device;             /**< CUDA: index of the GPU in the owner's process; -1: not known */
  uint32_t flags;             /**< WEFT_MEMORY_READ_ONLY; for this agent's own regions WEFT_MEMORY_NO_METADATA too */
  uint32_t reserved;          /**< 0 */
};

/** Writes what this agent knows of the regions of `peer` (WEFT_PEER_SELF: of this agent) into info[cap], by ascending
 *  id; `each` is the caller's sizeof(struct weft_region_info). `*count` is the number of regions, also if that is more
 *  than `cap`. INVALID: a pointer is NULL. [any] */
WEFT_API int weft_agent_regions(weft_agent_t *agent, weft_peer_t peer, struct weft_region_info *info, size_t each,
                                uint32_t cap, uint32_t *count);

/** State of a peer. */
enum weft_peer_state {
  WEFT_PEER_ALIVE = 1, /**< it lives, as far as this agent knows */
  WEFT_PEER_LEFT = 2,  /**< it had the event PEER_LEFT */
  WEFT_PEER_LOST = 3,  /**< it had the event PEER_LOST */
};

/** What this agent knows of a peer; its texts are copies. Initialise with WEFT_PEER_INFO_INIT. */
struct weft_peer_info {
  size_t size;                            /**< sizeof(struct weft_peer_info) */
  weft_peer_t peer;                       /**< its id */
  uint64_t incarnation;                   /**< incarnation of the agent of that name */
  uint64_t received_ns;                   /**< when this agent last received something from it, or loaded it;
                                               CLOCK_MONOTONIC */
  enum weft_peer_state state;             /**< its state */
  uint32_t num_regions;                   /**< number of its regions that this agent knows; 0 if it has ended */
  char name[WEFT_AGENT_MAX_NAME];         /**< its name */
  char reason[WEFT_AGENT_MAX_DETAIL];     /**< why it has ended; "" if it lives */
  char transports[WEFT_AGENT_MAX_DETAIL]; /**< transports that reach it, comma-separated, in the order of preference */
  /** For each of `transports` over libfabric or UCX: its name, then what that library has chosen for this peer. For ofi
   *  this is the provider and the domain; for ucx UCX's own transports and devices. Example: "ofi tcp eth0; ucx rc_mlx5
   *  mlx5_0:1". A network that falls back to TCP shows here. The text is for people: its format may change. "": no such
   *  transport reaches the peer */
  char uses[WEFT_AGENT_MAX_DETAIL];
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_PEER_INFO_INIT WEFT_SIZED(struct weft_peer_info)
/** WEFT_PEER_INFO_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_peer_info_init(struct weft_peer_info *info, size_t size);

/** Writes what is known of a peer (WEFT_PEER_SELF: of this agent), also of a peer that has ended: the agent remembers
 *  the last 256 of these. INVALID: `info` was not initialised. NOT_FOUND: there was no such peer. [any] */
WEFT_API int weft_agent_peer(weft_agent_t *agent, weft_peer_t peer, struct weft_peer_info *info);

/** Writes the ids of the living peers into peers[cap]; `*count` is their number, also if that is more than `cap`.
 *  INVALID: a pointer is NULL. [any] */
WEFT_API int weft_agent_peers(weft_agent_t *agent, weft_peer_t *peers, uint32_t cap, uint32_t *count);

/** Makes the connection that carries messages to the peer before the first post needs it, and waits until it has sent a
 *  message, at most for `timeout_ms`. With WEFT_AGENT_PROGRESS_NONE the call drives this agent meanwhile. Other
 *  transports connect with their first transfer. TIMEOUT: nothing could be sent in this time. NOT_CONNECTED: no
 *  transport carries messages to the peer. Other codes come from the transport. [any] */
WEFT_API int weft_agent_connect(weft_agent_t *agent, weft_peer_t peer, uint32_t timeout_ms);

/** Whether the peer lives, as far as this agent knows: 0, or PEER_LOST with the reason in weft_last_error(). The call
 *  sends nothing to the peer. [any] */
WEFT_API int weft_agent_check(weft_agent_t *agent, weft_peer_t peer);

/* --- events --- */

/** What happened to a peer. */
enum weft_agent_event_kind {
  WEFT_AGENT_EVENT_PEER_LOADED =
      1, /**< metadata of a new incarnation was loaded (from the store, a socket or a call) */
  WEFT_AGENT_EVENT_PEER_UPDATED = 2, /**< its regions changed */
  WEFT_AGENT_EVENT_PEER_LEFT = 3,    /**< it closed, its key in the store was deleted, or this agent invalidated it */
  /** It was found dead or silent; `detail` says how. From this event on its transfers no longer change memory of this
   *  agent over shm (except for at most one MiB of a process that was stopped during a copy), over ucx where Weft
   *  serves the access, and over ofi by TCP. docs/design/agent.md, "A host that is cut off", lists all transports. */
  WEFT_AGENT_EVENT_PEER_LOST = 4,
};

/** One event of an agent; its texts are copies. Initialise with WEFT_AGENT_EVENT_INIT. */
struct weft_agent_event {
  size_t size;                        /**< sizeof(struct weft_agent_event) */
  enum weft_agent_event_kind kind;    /**< what happened */
  uint32_t dropped;                   /**< events that were discarded since the event that was taken before */
  weft_peer_t peer;                   /**< the peer concerned */
  uint64_t time_ns;                   /**< when it happened, by CLOCK_MONOTONIC */
  char name[WEFT_AGENT_MAX_NAME];     /**< the peer's name */
  char detail[WEFT_AGENT_MAX_DETAIL]; /**< a few words, or "" */
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_AGENT_EVENT_INIT WEFT_SIZED(struct weft_agent_event)
/** WEFT_AGENT_EVENT_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_agent_event_init(struct weft_agent_event *event, size_t size);

/** Takes the oldest event that has not been taken. 1: it is in `*event`. 0: there is none. The call does not wait, and
 *  the agent calls no function of the application, so the caller may hold its own locks. The agent keeps at most 1,024
 *  PEER_LOADED and PEER_UPDATED; it discards the oldest of these when there are more, and `dropped` counts them. It
 *  keeps all PEER_LEFT and PEER_LOST until they are taken; but as long as the application has never called this
 *  function, only the last 1,024 of them. [any] */
WEFT_API int weft_agent_next_event(weft_agent_t *agent, struct weft_agent_event *event);

/* --- transfers --- */

/** Direction of a transfer. */
enum weft_transfer_op {
  WEFT_TRANSFER_READ = 0,  /**< from the peer's descriptors into this agent's */
  WEFT_TRANSFER_WRITE = 1, /**< from this agent's descriptors into the peer's */
};

/**
 * Makes a list of descriptors[count] of `peer` (WEFT_PEER_SELF: of this agent), for any number of transfers; all
 * descriptors are of one kind of memory. The call looks up their regions once. It keeps no pointer to the array. The
 * caller frees `*list` with weft_dlist_free(), also after the agent has closed. INVALID: no descriptor, a length of 0,
 * two kinds of memory, or a range that is not within the region that the descriptor names. NOT_FOUND: no region has
 * this id, or no region contains the range. LIMIT: `count` is more than WEFT_AGENT_MAX_DESCRIPTORS. The sentence names
 * the descriptor. [any]
 */
WEFT_API int weft_dlist_create(weft_agent_t *agent, weft_peer_t peer, const struct weft_descriptor *descriptors,
                               uint32_t count, weft_dlist_t **list);

/** Frees a list. BUSY: a transfer uses it, and nothing is freed. NULL is legal. [any] */
WEFT_API int weft_dlist_free(weft_dlist_t *list);

/** `count` pairs of descriptors: pair i has the local descriptor local_first + i * local_stride and the remote
 *  descriptor remote_first + i * remote_stride. The struct's layout is fixed. */
struct weft_transfer_run {
  uint32_t local_first,  /**< first index in the local list */
      local_stride;      /**< distance to the next index */
  uint32_t remote_first, /**< first index in the remote list */
      remote_stride;     /**< distance to the next index */
  uint32_t count;        /**< number of pairs */
};

/** How to make a transfer. Initialise with WEFT_TRANSFER_OPTIONS_INIT; a field that is 0 or NULL has its default. The
 *  library keeps none of the pointers. */
struct weft_transfer_options {
  size_t size;                  /**< sizeof(struct weft_transfer_options) */
  const uint32_t *local_index;  /**< [num_index] indices of descriptors of the local list, in order; NULL: see runs */
  const uint32_t *remote_index; /**< [num_index] indices of the remote descriptors that are paired with local_index */
  const struct weft_transfer_run *runs; /**< [num_runs] pairs, not together with indices. Without both: all descriptors,
                                             the i-th local one with the i-th remote one */
  uint32_t num_index;                   /**< entries of local_index and of remote_index */
  uint32_t num_runs;                    /**< entries of runs */
  const void *notification; /**< sent to the peer once the data is visible there, with each post that succeeds, and only
                                 then; default: none. See weft_agent_close() for its delivery */
  uint32_t notification_size; /**< its bytes, at most WEFT_AGENT_MAX_NOTIFICATION */
  uint32_t timeout_ms;        /**< deadline, counted from each post; default: weft_agent_options.transfer_timeout_ms */
  uint32_t max_notification;  /**< the maximum size of a notification of weft_transfer_post_with(), in bytes; default:
                                   posts send `notification` and no other */
  uint32_t reserved;          /**< 0 */
  const char *transport;      /**< the transport to use; default: the cheapest possible one, see
                                   weft_transfer_explain() */
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_TRANSFER_OPTIONS_INIT WEFT_SIZED(struct weft_transfer_options)
/** WEFT_TRANSFER_OPTIONS_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_transfer_options_init(struct weft_transfer_options *options, size_t size);

/**
 * Makes a transfer between `local`, a list of this agent's own descriptors, and `remote`, a list of a peer's or of its
 * own. Both descriptors of a pair have the same length. Pairs that are adjacent on both sides are merged. The call
 * chooses the transport and prepares the requests, so that a post costs little. `options` may be NULL for the defaults.
 * The lists stay in use until the transfer is freed. The caller frees `*transfer` with weft_transfer_free(), also after
 * the agent has closed.
 *
 * INVALID: lengths or numbers of descriptors differ, an index is beyond its list, a region that would be written is
 * read-only, or `local` is no list of this agent's own. LIMIT: more than WEFT_AGENT_MAX_DESCRIPTORS pairs, or the
 * notification is too long. UNREACHABLE: no transport can carry the transfer; the sentence has a line for each
 * transport. UNSUPPORTED: this agent has not opened `transport`. NOT_CONNECTED: no transport carries notifications to
 * the peer. [any]
 */
WEFT_API int weft_transfer_create(weft_agent_t *agent, enum weft_transfer_op op, weft_dlist_t *local,
                                  weft_dlist_t *remote, const struct weft_transfer_options *options,
                                  weft_transfer_t **transfer);

/**
 * Starts the transfer, for the first time or again after it has ended, and returns at once; the call itself may copy up
 * to 256 KiB. Until the transfer has ended, the memory of both sides belongs to it. The source must not change and (in
 * loopback) must not overlap the destination; otherwise the written data is undefined. 0: the transfer is in flight or
 * has ended already: poll it. BUSY: it is in flight from an earlier post, or it has a notification and the peer has the
 * maximum of 1,024 unread ones: post again later. PEER_LOST: the incarnation has ended. NOT_FOUND: the peer has
 * deregistered a region. After an error nothing was started. [transfer]
 */
WEFT_API int weft_transfer_post(weft_transfer_t *transfer);

/** Bits of weft_post.flags. */
enum weft_post_flag {
  WEFT_POST_COMPLETION = 1 << 0, /**< weft_agent_completions() reports the end of the post */
};

/** Options of one post. Initialise with WEFT_POST_INIT; if no field is set, the post is like weft_transfer_post(). */
struct weft_post {
  size_t size;                /**< sizeof(struct weft_post) */
  const void *notification;   /**< sent with this post instead of the transfer's own notification; default: the
                                   transfer's own, if it has one. The call copies it */
  uint32_t notification_size; /**< its bytes, at most weft_transfer_options.max_notification */
  uint32_t flags;             /**< bits of enum weft_post_flag */
  uint32_t timeout_ms;        /**< deadline of this post; default: the transfer's */
  uint32_t reserved;          /**< 0 */
  uint64_t tag;               /**< any value of the caller, for weft_completion.tag */
};
/** Initial value: its size, and 0, the default, for every other field. */
#define WEFT_POST_INIT WEFT_SIZED(struct weft_post)
/** WEFT_POST_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_post_init(struct weft_post *post, size_t size);

/**
 * Like weft_transfer_post(), with a notification, a deadline or a completion for this post only. It also allocates
 * nothing and does not wait. The call keeps no pointer of `post`, and the next weft_transfer_post() uses the transfer's
 * own options. Errors are those of weft_transfer_post(). BUSY also means that the completion of an earlier post of this
 * transfer has not been taken. INVALID: the notification is larger than weft_transfer_options.max_notification, or a
 * flag is unknown. [transfer]
 */
WEFT_API int weft_transfer_post_with(weft_transfer_t *transfer, const struct weft_post *post);

/** The end of a post with WEFT_POST_COMPLETION. The struct's layout is fixed. */
struct weft_completion {
  uint64_t tag;              /**< weft_post.tag */
  weft_transfer_t *transfer; /**< the transfer; not valid if it was freed since */
  int32_t err;               /**< how it ended: the code that weft_transfer_poll() returns */
  uint32_t reserved;         /**< 0 */
};

/** Takes up to `cap` completions into done[cap], in the order in which the posts ended. `*count` is the number of
 *  completions that it took, 0 if there are none. The call does not wait, and does not drive the agent. Each post with
 *  WEFT_POST_COMPLETION has one completion, whether it succeeded or failed, unless its transfer was freed before.
 *  INVALID: a pointer is NULL. [any] */
WEFT_API int weft_agent_completions(weft_agent_t *agent, struct weft_completion *done, uint32_t cap, uint32_t *count);

/**
 * Returns the state of the last post, drives its transport once, and does not wait. 0: the post has succeeded and all
 * data is visible; its notification, if it has one, was sent, but not necessarily taken. 1: it is in flight. Negative:
 * it failed with that code, and nothing accesses its memory any more: TIMEOUT (its own deadline passed), PEER_LOST,
 * CANCELED, or a code of the transport. After a failed transfer its destination contains any mixture of old and new
 * bytes. INVALID: the transfer was never posted. [transfer]
 */
WEFT_API int weft_transfer_poll(weft_transfer_t *transfer);

/** Waits until the last post has ended, at most for `timeout_ms`: the call polls, spins for weft_agent_options.spin_us,
 *  then sleeps. It returns what weft_transfer_poll() returns at the end. 1: `timeout_ms` has passed, and the transfer
 *  continues: its memory still belongs to it. TIMEOUT: the transfer's own deadline has ended it, and nothing accesses
 *  its memory any more. [transfer] */
WEFT_API int weft_transfer_wait(weft_transfer_t *transfer, uint32_t timeout_ms);

/** Cancels the post in flight, and waits until it has ended, at most for `timeout_ms`. The post ends with CANCELED,
 *  unless it ends with another code first. 0: it is not in flight any more, and nothing accesses its memory;
 *  weft_transfer_poll() says how it ended. TIMEOUT: it could not be stopped in this time; it will end by itself. [any],
 *  but not while the transfer is being freed. */
WEFT_API int weft_transfer_cancel(weft_transfer_t *transfer, uint32_t timeout_ms);

/** Frees a transfer, and closes its descriptor from weft_transfer_fd(). BUSY: it is in flight, and nothing is freed.
 *  NULL is legal. [transfer] */
WEFT_API int weft_transfer_free(weft_transfer_t *transfer);

/** `*fd` becomes readable when a post has ended, for poll(2) and the like; read 8 bytes from it to rearm it. It is an
 *  eventfd that belongs to the transfer: do not close it. The first call makes it; it does not report a post that has
 *  ended before. With WEFT_AGENT_PROGRESS_NONE the caller has to drive the agent meanwhile. LIMIT: there are no more
 *  descriptors. [transfer] */
WEFT_API int weft_transfer_fd(weft_transfer_t *transfer, int *fd);

/** Writes the result of each pair of descriptors in the last post into status[cap], in the order of the pairs: 0, or an
 *  error code. `*count` is the number of pairs, also if that is more than `cap`. BUSY: the post is in flight. INVALID:
 *  there was no post. [transfer] */
WEFT_API int weft_transfer_status(weft_transfer_t *transfer, int32_t *status, uint32_t cap, uint32_t *count);

/** Why the last post failed, in words; "" if it did not fail or is in flight. Valid until the next post. [transfer] */
WEFT_API const char *weft_transfer_error(weft_transfer_t *transfer);

/** Which transport carries the transfer, with its expected costs, and why the others do not: one line each. Valid as
 *  long as the transfer. [any] */
WEFT_API const char *weft_transfer_explain(weft_transfer_t *transfer);

/** `*ns` is the expected time of one post in nanoseconds, from the transport's own costs: latency + further pieces x
 *  cost of a piece + bytes / bandwidth. It was computed when the transfer was made. INVALID: `ns` is NULL. [any] */
WEFT_API int weft_transfer_estimate(weft_transfer_t *transfer, uint64_t *ns);

/** Properties of a transfer and of its last post. Initialise with WEFT_TRANSFER_INFO_INIT. */
struct weft_transfer_info {
  size_t size;          /**< sizeof(struct weft_transfer_info) */
  uint64_t bytes;       /**< bytes of one post */
  uint64_t posts;       /**< number of posts so far */
  uint64_t start_ns;    /**< when the last post began, by CLOCK_MONOTONIC; 0: there was none */
  uint64_t end_ns;      /**< when the last post ended; 0: it is in flight */
  uint64_t estimate_ns; /**< as weft_transfer_estimate() writes it */
  uint32_t pairs;       /**< pairs of descriptors */
  uint32_t pieces;      /**< pieces into which adjacent pairs were merged */
  char transport[16];   /**< the name of the transport that carries it */
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_TRANSFER_INFO_INIT WEFT_SIZED(struct weft_transfer_info)
/** WEFT_TRANSFER_INFO_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_transfer_info_init(struct weft_transfer_info *info, size_t size);

/** Writes the properties of the transfer and of its last post. INVALID: `info` was not initialised. [transfer] */
WEFT_API int weft_transfer_get_info(weft_transfer_t *transfer, struct weft_transfer_info *info);

/* --- notifications --- */

/**
 * Sends `size` bytes, at most WEFT_AGENT_MAX_NOTIFICATION, to the application of `peer`. The call copies them. It may
 * wait for another thread inside this agent, not for the peer. 0: the notification was sent, but not necessarily taken.
 * A peer that has not loaded this agent's metadata discards it. BUSY: the peer has the maximum of 1,024 unread
 * notifications of this agent; it acknowledges them in steps of 256. NOT_CONNECTED: no transport carries messages to
 * the peer. LIMIT: `size` is too large. [any]
 */
WEFT_API int weft_agent_notify(weft_agent_t *agent, weft_peer_t peer, const void *bytes, uint32_t size);

/** One notification that this agent received. The struct's layout is fixed. */
struct weft_notification {
  weft_peer_t peer;  /**< the sender, which may have left or may be lost since */
  const void *bytes; /**< host memory of the agent; valid until the next weft_agent_notifications() */
  uint32_t size;     /**< bytes of the notification */
  uint32_t reserved; /**< 0 */
};

/** Takes up to `cap` received notifications into `notifications`; `*count` is the number that it took, 0 if there are
 *  none. The call does not wait. Notifications of one peer are in the order in which they were sent; for one that was
 *  sent with a transfer this is the order in which the data became visible. One thread at a time for each agent.
 *  INVALID: a pointer is NULL. [owner] */
WEFT_API int weft_agent_notifications(weft_agent_t *agent, struct weft_notification *notifications, uint32_t cap,
                                      uint32_t *count);

/* --- progress and telemetry --- */

/** Drives all transports once, and checks liveness and deadlines if that is due. The call does not wait. `*events` (may
 *  be NULL) is the number of requests and messages that made progress. The call is necessary with
 *  WEFT_AGENT_PROGRESS_NONE, and legal with WEFT_AGENT_PROGRESS_THREAD. INVALID: `agent` is NULL. [any] */
WEFT_API int weft_agent_progress(weft_agent_t *agent, uint32_t *events);

/** `*fd` is readable while there are notifications, events (once the application has called weft_agent_next_event()) or
 *  completions that the application has not taken. It belongs to the agent: do not read or close it. To make it
 *  unreadable again, take each kind that you use until there are no more. It may also be readable without a reason.
 *  With WEFT_AGENT_PROGRESS_NONE it is also readable if the agent has to be driven; call weft_agent_arm() before each
 *  sleep. INVALID: `fd` is NULL. [any] */
WEFT_API int weft_agent_fd(weft_agent_t *agent, int *fd);

/**
 * Returns whether the caller may sleep on weft_agent_fd(). 0: it may, for at most `*timeout_ms` (WEFT_WAIT_FOREVER,
 * which as an int is the -1 of poll(2): for any time); everything that arrives from now on makes the descriptor
 * readable. 1: there is something to do or to take: take it, poll the transfers, and call again. With
 * WEFT_AGENT_PROGRESS_NONE the call drives the agent as the agent's thread would. So the following loop needs no
 * thread, and misses nothing:
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
 * INVALID: `timeout_ms` is NULL. [any]; with WEFT_AGENT_PROGRESS_NONE only the thread that calls the agent's functions
 */
WEFT_API int weft_agent_arm(weft_agent_t *agent, uint32_t *timeout_ms);

/** Writes counters and latency histograms by peer and transport, in the OpenMetrics text format 1.0, NUL-terminated,
 *  into `text`, of `cap` bytes. `*size` is the number of bytes that it needs, including the NUL; with `cap` 0 the call
 *  only reports it. ROOM: `cap` is less, and only `*size` is written. [any] */
WEFT_API int weft_agent_metrics(weft_agent_t *agent, char *text, size_t cap, size_t *size);

/** The counters of transfers and notifications. Initialise with WEFT_AGENT_STATS_INIT. Transfers count when they end.
 */
struct weft_agent_stats {
  size_t size;                  /**< sizeof(struct weft_agent_stats) */
  uint64_t reads;               /**< read transfers that succeeded */
  uint64_t read_bytes;          /**< bytes of the read transfers that succeeded */
  uint64_t read_errors;         /**< read transfers that failed */
  uint64_t read_cancels;        /**< read transfers that were cancelled */
  uint64_t read_ns;             /**< sum of the times from post to end of the read transfers that succeeded */
  uint64_t writes;              /**< as reads, for write transfers */
  uint64_t write_bytes;         /**< as read_bytes, for write transfers */
  uint64_t write_errors;        /**< as read_errors, for write transfers */
  uint64_t write_cancels;       /**< as read_cancels, for write transfers */
  uint64_t write_ns;            /**< as read_ns, for write transfers */
  uint64_t notifications_sent;  /**< notifications sent to peers that live or are remembered */
  uint64_t notifications_taken; /**< notifications of these peers that the application has taken */
  uint64_t messages_dropped;    /**< messages of unknown senders, and those above the limit of unread ones; for one
                                     peer: 0 */
};
/** Initial value: its size, and 0 for all else. */
#define WEFT_AGENT_STATS_INIT WEFT_SIZED(struct weft_agent_stats)
/** WEFT_AGENT_STATS_INIT for languages without macros; `size` is the caller's sizeof. [any] */
WEFT_API void weft_agent_stats_init(struct weft_agent_stats *stats, size_t size);

/** Writes the counters of transfers with one living peer (WEFT_PEER_SELF: of this agent with itself). `peer` 0: with
 *  all peers, including those that have ended. INVALID: `stats` was not initialised. NOT_FOUND, PEER_LOST: there is no
 *  such peer. [any] */
WEFT_API int weft_agent_get_stats(weft_agent_t *agent, weft_peer_t peer, struct weft_agent_stats *stats);

/**
 * Serves weft_agent_metrics() over HTTP at `address` ("HOST:PORT", port 0: any free one), path /metrics, on its own
 * threads, until the agent closes; `*port` (may be NULL) is the port. Since metrics name the peers, an agent with a
 * token serves only clients that send weft_agent_metrics_bearer(). An agent without a token serves only at a loopback
 * address (else INVALID), where every user of this host may read the metrics. HTTP is not encrypted. EXISTS: the agent
 * serves metrics already. BUSY: the port is in use. UNREACHABLE: HOST has no address. UNSUPPORTED: this build has no
 * libmicrohttpd. [any]
 */
WEFT_API int weft_agent_serve_metrics(weft_agent_t *agent, const char *address, uint16_t *port);

/**
 * Writes what a client has to send as "Authorization: Bearer TEXT" to read the metrics that an agent with a token
 * serves: 64 hexadecimal digits and a NUL. They are derived from the token; the token cannot be derived from them. All
 * agents with the same token have the same bearer. `cap`, `*size` and ROOM are as in weft_agent_metrics(). NOT_FOUND:
 * the agent has no token. UNSUPPORTED: this build has no libmicrohttpd. [any]
 */
WEFT_API int weft_agent_metrics_bearer(weft_agent_t *agent, char *text, size_t cap, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
