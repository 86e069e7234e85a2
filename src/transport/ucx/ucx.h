// The transport over UCX (libucp): RDMA NICs, TCP, shared memory, whatever UCX finds; NIC and kinds of transport are
// chosen by UCX_* in the environment, `device` and `settings` (which are UCX's own options without "UCX_").
//
// A WRITE is ucp_put_nbx for each piece, then a flush of the endpoint, which UCX ends when the data is visible at the
// peer; then the message, as an active message. A READ is ucp_get_nbx. Where the network has no one-sided access (TCP;
// shared memory that UCX did not allocate itself) UCX emulates both by messages, which the peer serves in its
// progress(): so the transport does not claim ONE_SIDED. UCX does not check the bounds of an emulated access: a peer
// that writes to a region that its owner has unregistered and unmapped makes the owner fault; owners tell peers first.
//
// Nothing that was given to UCX can be taken back: severing a peer is closing its endpoint by force.
//
// A region whose address is NULL is allocated by UCX, for which it has one-sided shared memory.
#ifndef UCX_UCX_H
#define UCX_UCX_H

#include <ucp/api/ucp.h>

#include "transport/flow/flow.h"

enum { UCX_MESSAGE_ID = 7 };

struct ucx_worker {
  struct flow_worker flow;
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_address_t *address;
  size_t address_size;
  size_t request_size; // of UCX's request, which stands before where its pointer points
  int fd;
};

struct ucx_peer {
  struct flow_peer flow;
  ucp_ep_h ep;    // NULL: closed
  void *flushing; // a request of UCX's pool, NULL: none
  void *closing;
  bool flushed;
};

struct ucx_region {
  struct flow_region flow;
  ucp_mem_h memory;
};

struct ucx_remote {
  struct flow_remote flow;
  ucp_rkey_h rkey;
};

extern const struct transport transport_ucx;

// The code of Weft's that fits.
int ucx_code(ucs_status_t status);
// fail() with UCX's text behind the sentence.
int ucx_fail(ucs_status_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// config.c: the environment's options, ours where it has none, then the caller's.
int ucx_config(const struct transport_options *options, ucp_config_t **config);

// memory.c
int ucx_reg(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
void ucx_unreg(struct transport_region *region);
int ucx_pack(struct transport_region *region, void *bytes, size_t *size);
int ucx_import(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote);
void ucx_free_remote(struct flow_remote *remote);
ucs_memory_type_t ucx_memory_type(enum weft_memory_kind kind);

// peer.c
int ucx_address(struct transport_worker *worker, void *bytes, size_t *size);
int ucx_connect(struct transport_worker *worker, const void *address, size_t size, struct transport_peer **peer);
void ucx_sever(struct flow_peer *peer);
bool ucx_part(struct flow_peer *peer);

// move.c
size_t ucx_op_size(const struct ucx_worker *worker);
int ucx_move(struct flow_request *own, const struct transport_piece *piece, uint64_t offset, struct flow_op *op);
int ucx_settle(struct flow_request *own, struct flow_op *op);
int ucx_send(struct flow_request *own, struct flow_op *op);

#endif
