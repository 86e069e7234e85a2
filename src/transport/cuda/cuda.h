// The cuda transport: copies between GPUs of one host, and between a GPU and host memory.
//
// A peer's memory is mapped (NVLink, PCIe): memory of CUDA's allocator by IPC handles, windows by their descriptors,
// and host memory that the transport shm can map by pinning shm's mapping. A request then consists of copies on one
// GPU, which need no work at the peer: the copy engines do large ones or a few, one kernel does thousands of small
// ones. A word in host memory that is written behind the copies shows when they are done; all their data is then
// visible. Started copies cannot be cancelled: they run to their end.
//
// A worker of shm inside this one carries the messages and reports the deaths of peers. It also proves the identity of
// a peer: descriptors are duplicated from the process that shm has verified, and keys end with the seal of that worker.
#ifndef TRANSPORT_CUDA_CUDA_H
#define TRANSPORT_CUDA_CUDA_H

#include "device/device.h"
#include "transport/shm/embed.h"
#include "transport/transport.h"

enum { CUDA_DEVICES = 64 };

struct cuda_worker {
  struct transport_worker base;
  const struct device_api *api;
  struct transport_worker *shm;
  int num_devices;
  struct device_info info[CUDA_DEVICES];
  struct device *devices[CUDA_DEVICES]; // opened when first used
  void *streams[CUDA_DEVICES];
  struct cuda_request *first, **last; // under way, in the order of their posts
  struct cuda_request *prepared;
  struct cuda_peer *peers;
  struct cuda_region *regions;
};

struct cuda_region {
  struct transport_region base;
  struct transport_region *shm; // HOST
  struct shm_grant grant;       // CUDA: its gate, which is closed when the region is deregistered
  bool granted;                 // `grant` is open
  struct device_share share;    // CUDA
  bool shared;                  // `share` was filled in
  bool pinned;                  // this worker pinned it
  char why_not[DEVICE_WHY];     // why no other process can map it
  struct cuda_region *next;
};

struct cuda_peer {
  struct transport_peer base;
  struct transport_peer *shm;
  struct cuda_remote *remotes;
  bool leaving;
  struct cuda_peer *next;
};

struct cuda_remote {
  struct transport_remote base;
  struct device_share share;    // CUDA
  int fd;                       // of a window; -1: none
  void *mapped[CUDA_DEVICES];   // its address on each device
  struct transport_remote *shm; // HOST
  void *host;                   // HOST: its address in this process
  bool pinned, read_only;
  struct cuda_remote *next;
};

enum cuda_stage { CUDA_IDLE, CUDA_COPYING, CUDA_SENDING };

struct cuda_request {
  struct transport_request *request;
  struct cuda_worker *worker; // NULL: it has been closed
  struct cuda_peer *peer;
  int device; // the device that copies
  struct device_copies *copies;
  struct transport_request message; // a request of shm without pieces
  enum cuda_stage stage;
  bool canceled;
  struct cuda_request *next;
  struct cuda_request *sooner, *later; // in the worker's list of prepared requests
};

// --- device.c ---

// Device `index` and its stream, opened at the first call.
int cuda_device_open(struct cuda_worker *worker, int index, struct device **device);
// The index of the device of that uuid, -1: this process does not see it.
int cuda_device_find(const struct cuda_worker *worker, const uint8_t uuid[16]);

// --- peer.c ---

int cuda_transport_address(struct transport_worker *worker, void *bytes, size_t *size);
int cuda_transport_connect(struct transport_worker *worker, const void *address, size_t size, const char *owner,
                           struct transport_peer **peer);
void cuda_transport_disconnect(struct transport_peer *peer);
void cuda_peer_free(struct cuda_worker *worker, struct cuda_peer *peer);
// Frees disconnected peers without requests in flight.
void cuda_peers_free_leaving(struct cuda_worker *worker);

// --- memory.c ---

int cuda_transport_reg(struct transport_worker *worker, const struct transport_memory *memory,
                       struct transport_region **region);
void cuda_transport_unreg(struct transport_region *region);
int cuda_transport_pack(struct transport_region *region, void *bytes, size_t *size);
int cuda_transport_import(struct transport_peer *peer, const void *bytes, size_t size,
                          struct transport_remote **remote);
void cuda_transport_release(struct transport_remote *remote);
// The address of the remote region on device `index`; maps the region if needed.
int cuda_remote_on(struct cuda_remote *remote, int index, void **memory);

// --- request.c ---

int cuda_transport_prepare(struct transport_request *request);
void cuda_transport_unprepare(struct transport_request *request);
int cuda_transport_post(struct transport_request *request);
void cuda_transport_cancel(struct transport_request *request);
// Advances requests; returns the number of steps.
uint32_t cuda_requests_advance(struct cuda_worker *worker);
// Ends the requests to `peer` (NULL: all) without sending their messages.
void cuda_requests_cancel(struct cuda_worker *worker, const struct cuda_peer *peer);
// Releases what prepared requests keep of the worker, because it closes.
void cuda_requests_leave(struct cuda_worker *worker);
bool cuda_requests_of(const struct cuda_worker *worker, const struct cuda_peer *peer);

#endif
