// The common part of transports to storage: the only peer is the worker itself, its regions are found by number, and a
// request completes in progress(). A back end embeds these structs as the first member of its own.
#ifndef TRANSPORT_STORAGE_STORAGE_H
#define TRANSPORT_STORAGE_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/link.h"
#include "transport/transport.h"

struct storage_worker {
  struct transport_worker base;
  uint64_t id; // in addresses and keys, which are therefore valid for this worker only
  uint64_t num_regions;
  struct link regions, peers;
  struct link active;  // requests in flight, oldest first
  struct link ended;   // requests that progress() has to complete
  uint32_t num_active; // number of requests in both lists
  bool closing;
};

struct storage_region {
  struct transport_region base;
  struct link link;
  uint64_t number; // number in the worker; never used twice
  uint32_t refs;   // the owner's reference, and one for each remote
  bool gone;       // it was deregistered: posts to it fail
};

struct storage_peer {
  struct transport_peer base;
  struct link link, remotes;
  uint32_t num_active;
  bool closing;
};

struct storage_remote {
  struct transport_remote base;
  struct link link;
  struct storage_region *region;
};

// The target of transport_request.own.
struct storage_request {
  struct link link;
  struct transport_request *request;
  struct storage_peer *peer;
  uint64_t *left; // [num_pieces] bytes still to move
  int err;        // error of the piece that failed first
  bool canceled;
};

// --- worker, regions, peers: the table's functions, or what they call: worker.c ---

// Fills in a zeroed worker.
void storage_worker_init(struct storage_worker *worker, const struct transport *transport,
                         const struct transport_options *options);
// Frees peers and remotes, and passes every region to `drop`, which frees it. Nothing may be in flight.
void storage_worker_clear(struct storage_worker *worker, void (*drop)(struct storage_region *region));

int storage_address(struct transport_worker *worker, void *bytes, size_t *size);
int storage_connect(struct transport_worker *worker, const void *address, size_t size, const char *owner,
                    struct transport_peer **peer);
int storage_pack(struct transport_region *region, void *bytes, size_t *size);
int storage_import(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote);

// The common parts of reg(), unreg(), release() and disconnect(). Each put returns whether it was the last reference;
// then the caller has to free the region.
void storage_region_add(struct storage_worker *worker, const struct transport_memory *memory,
                        struct storage_region *region);
bool storage_region_put(struct storage_region *region);
struct storage_region *storage_remote_free(struct transport_remote *remote); // the region, to be put

// --- requests: request.c ---

// prepare(): checks the pieces against the local and remote regions, and sets up a zeroed `own`.
int storage_request_init(struct transport_request *request, struct storage_request *own);
void storage_request_free(struct storage_request *own); // frees what init allocated

// post(): BUSY, CLOSED or the error of the peer; else the request is in flight.
int storage_request_begin(struct transport_request *request);
// Bytes of a piece have arrived.
void storage_request_moved(struct storage_request *own, uint32_t piece, uint64_t bytes);
// A piece failed with the code `err`; the text is the calling thread's last error.
void storage_request_failed(struct storage_request *own, uint32_t piece, int err);
// Nothing uses the request's memory any more. Pieces that have not been moved are CANCELED, or get the request's error.
// The text of a cancelled request is the caller's, if it has set one.
void storage_request_end(struct storage_request *own);
// Completes a request that has ended: message, state, done(). The request is not used afterwards.
void storage_request_complete(struct storage_request *own);

// --- the ends of requests and peers: worker.c ---

// Completes the requests that have ended. Returns their number. Peers whose last request ended are freed, their regions
// dropped as in storage_worker_clear().
uint32_t storage_worker_complete(struct storage_worker *worker, void (*drop)(struct storage_region *region));

// disconnect(): `cancel` is the table's.
void storage_disconnect(struct transport_peer *peer, void (*cancel)(struct transport_request *request),
                        void (*drop)(struct storage_region *region));

#endif
