// The transport over libfabric: EFA, verbs, TCP and all other networks whose provider has RMA between reliable datagram
// endpoints. It uses the best provider of fi_getinfo() (choose.c), among those that `settings` ("provider=shm"),
// FI_PROVIDER and `device` (the name of a domain: a NIC or an interface) allow.
//
// A WRITE requests completion by delivery (FI_DELIVERY_COMPLETE), so the data of an ended operation is visible at the
// peer. If the provider has no such completion, a READ of one byte behind the WRITEs makes the data visible. Then the
// message follows, as a send.
//
// libfabric cannot cancel an operation. A worker has two endpoints: the home, which peers know, receives messages and
// serves their accesses; the source starts operations, and its name is in the worker's address too. ofi_rxm closes its
// connections to a name that is removed from the table of addresses (FI_AV_REMOVE_CLEANUP, which choose.c sets). So a
// cancelled request that is stuck ends with the connection to its peer; and fence() removes the name of the source of
// the peer's operations, which ends those that have arrived in part or are on their way. Closing a region's key does
// not end them, since the provider checks the key when an operation begins, not while its data arrives. If removing a
// name does not end a stuck request, the worker opens another source endpoint for later operations, and closes the old
// one, which ends the stuck operations, as soon as nothing else is under way there. Each endpoint has its own
// completion queue, which is closed with it: ofi_rxm of libfabric 1.17 leaves a closed endpoint in its queue's list of
// things to check before a sleep, and fi_trywait() then reads freed memory.
//
// Some providers notice a peer's end only by a failing operation, so the transport does not have REPORTS_DEATH.
#ifndef TRANSPORT_OFI_OFI_H
#define TRANSPORT_OFI_OFI_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "transport/flow/flow.h"

#define OFI_API FI_VERSION(1, 17) // the requested API version; every newer libfabric supports it

enum { OFI_RECEIVES = 64, OFI_SENDS = 64, OFI_MAX_NAME = 256, OFI_EVENTS = 32, OFI_LOOKS = 64, OFI_PORT_MS = 5000 };

// The target of a completion's context pointer.
enum ofi_what { OFI_OPERATION, OFI_RECEIVE, OFI_PROBE };
struct ofi_context {
  struct fi_context2 libfabric;
  enum ofi_what what;
};

// An endpoint that starts operations.
struct ofi_source {
  struct link sources; // in the worker's list of replaced sources
  struct fid_ep *ep;
  struct fid_cq *cq;
  uint32_t running;
};

struct ofi_op {
  struct flow_op flow;
  struct ofi_context context;
  struct ofi_source *source;
  struct ofi_buffer *buffer; // of a message
};

// Of the slab of registered memory.
struct ofi_buffer {
  struct ofi_context context;
  struct ofi_buffer *next;
  unsigned char *bytes;
};

struct ofi_worker {
  struct flow_worker flow;
  struct fi_info *info;
  struct fid_fabric *fabric;
  struct fid_domain *domain;
  struct fid_av *av;
  struct fid_cq *cq;         // of `home`
  struct fid_ep *home;       // the endpoint that peers know
  struct ofi_source *source; // the endpoint that starts operations now
  struct link sources;
  struct ofi_context probe; // of operations that only begin a connection; nobody waits for their ends
  struct fid_mr *slab_mr;
  unsigned char *slab;
  struct ofi_buffer receives[OFI_RECEIVES], sends[OFI_SENDS];
  struct ofi_buffer *free_sends;
  struct ofi_buffer *unposted; // receives that the provider did not accept yet
  uint64_t host, net;
  uint32_t running, max_running; // operations under way; a completion queue has room for max_running
  uint32_t looks;                // number of reads of the completion queues so far
  bool armed;                    // armed since the last read
  int fd;                        // epoll, with the descriptor of each completion queue; -1: they have none
  bool local_keys;               // local memory has to be registered (FI_MR_LOCAL)
  bool has_left_names;           // the table has names of peers that are gone
};

struct ofi_peer {
  struct flow_peer flow;
  fi_addr_t address;
  uint8_t source[OFI_MAX_NAME]; // name of the source of its operations
  size_t source_size;           // 0: not known
  bool cutting;  // this worker breaks the connection: failing operations then do not mean that the peer is gone
  bool doubtful; // the newest operation to that name found no connection that it could use (see name.c)
  uint64_t port_deadline_ns; // no free port for a connection to it: tried again until then; 0: there was one
};

struct ofi_region {
  struct flow_region flow;
  struct fid_mr *mr;
};

struct ofi_remote {
  struct flow_remote flow;
  uint64_t key;
  uint64_t base; // the provider's address of the first byte
};

extern const struct transport transport_ofi;

// error.c
int ofi_code(int error); // for a positive or negative FI_E*
// fail() with libfabric's text behind the sentence.
int ofi_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// choose.c
int ofi_choose(const struct transport_options *options, struct fi_info **info);

// endpoint.c
int ofi_open(struct ofi_worker *worker, const struct transport_options *options);
void ofi_close(struct ofi_worker *worker);
int ofi_source_open(struct ofi_worker *worker, struct ofi_source **source);
void ofi_source_close(struct ofi_source *source); // the completions in its queue are lost
// Whether the caller may sleep on the descriptor: the queues are empty. Returns libfabric's code.
int ofi_trywait(struct ofi_worker *worker);

// memory.c
int ofi_reg(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
void ofi_unreg(struct transport_region *region);
int ofi_pack(struct transport_region *region, void *bytes, size_t *size);
int ofi_import(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote);
void ofi_free_remote(struct flow_remote *remote);
int ofi_register(struct ofi_worker *worker, const struct transport_memory *memory, uint64_t access, struct fid_mr **mr);

// name.c
// Returns libfabric's code.
int ofi_name_insert(struct ofi_worker *worker, const void *name, size_t size, fi_addr_t *address);
// `doubtful`: see struct ofi_peer.
void ofi_name_remove(struct ofi_worker *worker, fi_addr_t address, bool doubtful);

// peer.c
int ofi_address(struct transport_worker *worker, void *bytes, size_t *size);
int ofi_connect(struct transport_worker *worker, const void *address, size_t size, const char *owner,
                struct transport_peer **peer);
void ofi_sever(struct flow_peer *peer);
void ofi_fence(struct transport_peer *peer);
bool ofi_part(struct flow_peer *peer);
// Closes replaced sources whose operations under way are all to be ended by force.
void ofi_leave_sources(struct ofi_worker *worker);

// break.c Ends the operations under way to that peer by breaking its connection. If another worker of this process is
// connected to the same worker, that connection breaks, too: libfabric does not show which socket belongs to which
// worker.
void ofi_break(struct ofi_worker *worker, struct ofi_peer *peer);

// request.c
int ofi_move(struct flow_request *own, const struct transport_piece *piece, uint64_t offset, struct flow_op *op);
int ofi_settle(struct flow_request *own, struct flow_op *op);
int ofi_send(struct flow_request *own, struct flow_op *op);
// Posts a buffer for the next message, or later if the provider has no room now.
void ofi_receive(struct ofi_worker *worker, struct ofi_buffer *buffer);
// Reads the completion queues; returns the number of events.
uint32_t ofi_complete(struct ofi_worker *worker);
// Reads the queues of all sources only.
uint32_t ofi_complete_sources(struct ofi_worker *worker);
// Reads the queue of a source whose endpoint was closed.
uint32_t ofi_complete_closed(struct ofi_worker *worker, struct ofi_source *source);
// Ends an operation, which has completed, or for which no completion will come.
void ofi_op_ended(struct ofi_op *op, int error, const char *why);

#endif
