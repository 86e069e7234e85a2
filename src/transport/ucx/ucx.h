// The transport over UCX (libucp): RDMA NICs and TCP; shared memory, and memory of GPUs of other processes, if it is
// named. NIC and kinds of transport are chosen by UCX_* in the environment, `device` and `settings` (which are UCX's
// own options without "UCX_").
//
// A peer's worker address and keys are checked before libucp sees them (check/check.h).
//
// Where UCX reaches a peer's memory by itself (RDMA; shared memory that it allocated: a region registered with a NULL
// address), a WRITE is ucp_put_nbx for each piece, then a flush of the endpoint, which UCX ends when the data is
// visible at the peer; a READ is ucp_get_nbx. Then the message, as an active message.
//
// Elsewhere (TCP, other memory over shared memory) UCX would emulate both, but its emulation takes any address that a
// peer names, aborts the target's process when the initiator's worker goes at the wrong moment (1.13: "Fatal:
// unexpected error", from ucp_put_handler), and does not always end an operation whose endpoint is closed by force. So
// there the transport serves accesses itself (serve.c): active messages that the target checks against its regions,
// copies and answers. They need the target's progress(), so the transport does not claim ONE_SIDED. Memory of GPUs is
// copied by the CUDA plug-in then (gpu.c), so that it goes to other hosts by any network; by RDMA, UCX takes it as it
// is if it was built with CUDA.
//
// An operation of UCX cannot be cancelled: severing a peer is closing its endpoint by force. A fence refuses accesses
// that are to be served (session.c); RDMA ends with this side's endpoint, where each peer has a queue pair of its own
// (rc). What UCX of a process of this host writes to memory that UCX allocated is not fenced.
#ifndef TRANSPORT_UCX_UCX_H
#define TRANSPORT_UCX_UCX_H

#include <ucp/api/ucp.h>

#include "device/device.h"
#include "transport/flow/flow.h"
#include "transport/ucx/check/check.h"

enum {
  UCX_GPUS = 64,
  UCX_MESSAGES = 4,
  UCX_ASKED = 4096, // served operations under way, of a worker
  UCX_MOST_OWED = 2 * UCX_ASKED,
  UCX_SEGMENT = 256 << 10, // of TCP, unless the environment says otherwise
  UCX_SERVED = 240 << 10,  // bytes of a served operation; with its header it is one segment
  UCX_SERVED_NEAR = 7680,  // over shared memory, whose segments have 8 KiB
  UCX_OURS = 96,           // bytes of an operation, behind UCX's own
};

// The active messages.
enum ucx_id { UCX_MESSAGE = 7, UCX_WRITE, UCX_READ, UCX_ANSWER, UCX_HELLO, UCX_WELCOME };

// An operation that waits for its answer. Its cookie in messages is its index and its generation, so that a late answer
// cannot be taken for another's.
struct ucx_asked {
  struct flow_op *op; // NULL: none
  uint32_t generation, next;
};

// Host memory that UCX sends in place of a GPU's.
struct ucx_bounce {
  struct ucx_bounce *next;
  unsigned char bytes[];
};

struct ucx_gpus {
  const struct device_api *api;
  int count;                        // 0: memory of GPUs is refused
  struct device *devices[UCX_GPUS]; // opened when first used
  void *streams[UCX_GPUS];
  unsigned char *bounces;
  bool pinned;
  struct ucx_bounce *free_bounces;
};

// The number of answers on their way to an initiator.
struct ucx_owed {
  uint32_t all, large;
};
enum { UCX_NO_SESSION = UINT32_MAX };

struct ucx_worker {
  struct flow_worker flow;
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_address_t *address;
  size_t address_size;
  struct ucx_sizes sizes; // of its address
  size_t request_size;    // of UCX's request, which lies before the address that UCX gets
  struct ucx_asked *asked;
  uint32_t free_asked;
  struct ucx_region **served; // by index
  uint32_t num_served;
  struct ucx_known *known; // connections of served accesses
  uint32_t num_known, room_known;
  uint64_t id;                                 // as an initiator
  struct ucx_answer *answers[2], *all_answers; // free ones, small and large; all
  uint32_t large_owed;                         // with data, on their way
  struct ucx_owed owed_strangers;              // to those without a pass
  struct ucx_gpus gpus;
  bool cuda;          // UCX was built with CUDA
  int serve;          // 1: everything, 0: nothing, -1: what UCX does not reach by itself
  bool driving;       // inside ucp_worker_progress()
  uint32_t num_again; // peers that are to be connected again
  int fd;
};

// A message on its way: a copy, so that a stopped peer does not hold the caller's memory.
struct ucx_message {
  struct ucx_message *next; // of those that are free
  struct ucx_peer *peer;
  void *request; // UCX's
  unsigned char *bytes;
  size_t size;
};

struct ucx_peer {
  struct flow_peer flow;
  struct ucx_message messages[UCX_MESSAGES];
  struct ucx_message *free_messages;
  struct ucx_message *unsent, **unsent_end; // given to a connection that was never made, oldest first
  unsigned char *address;                   // UCX's, of its worker
  uint32_t tries;                           // to connect that failed
  uint64_t again_ns;                        // when to try again; 0: it is not to be
  bool direct;                              // UCX reaches all its memory by itself
  bool near;                                // it shares memory with us
  bool own;                                 // it is this process: UCX would touch any address of it without a key
  bool sent;                                // a message has left, and may have arrived
  bool hello_sent;                          // a hello was sent to it
  bool let_in;                              // its welcome has come
  uint32_t held;                            // accesses that wait for the welcome
  uint64_t id;                              // of its worker
  uint64_t hello[2], pass;                  // hello[1] is the random tag of this peer, which its answers carry
  uint32_t session;                         // of the pass
  ucp_ep_h ep;                              // NULL: closed
  void *flushing;                           // a request of UCX's pool, NULL: none
  void *closing;
  bool flushed;
};

struct ucx_region {
  struct flow_region flow;
  ucp_mem_h memory; // NULL: UCX does not know it
  int gpu;          // CUDA: whose it is
  bool allocated;   // by UCX
  uint64_t key;     // for served accesses
  uint32_t index;   // in the worker's table
};

struct ucx_remote {
  struct flow_remote flow;
  ucp_rkey_h rkey; // NULL: served
  uint64_t key;
  uint32_t index;
};

extern const struct transport transport_ucx;

// error.c
// The code of Weft's that fits.
int ucx_code(ucs_status_t status);
// fail() with UCX's text behind the sentence.
int ucx_fail(ucs_status_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// UCX keeps its state of an operation before this address; the UCX_OURS bytes from there on are ours.
static inline void *ucx_place(const struct flow_request *own, struct flow_op *op) {
  return (char *)op + own->worker->wire.op_size - UCX_OURS;
}

static inline ucs_memory_type_t ucx_memory_type(enum weft_memory_kind kind) {
  return kind == WEFT_MEMORY_CUDA ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

// config.c: the environment's options, ours where it has none, then the caller's.
int ucx_config(const struct transport_options *options, ucp_config_t **config);
// Whether UCX may have a way to reach a peer's memory by itself, which is not to be served.
bool ucx_may_reach(const struct transport_options *options, const ucp_config_t *config);

// posix.c: UCX's list of transports (TLS) without POSIX shared memory; false: there is no room.
bool ucx_without_posix(const char *list, char *out, size_t size);

// memory.c
int ucx_reg(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
void ucx_unreg(struct transport_region *region);
int ucx_pack(struct transport_region *region, void *bytes, size_t *size);
int ucx_import(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote);
void ucx_free_remote(struct flow_remote *remote);

// gpu.c
// Without GPUs or the plug-in the worker's abilities lose them, and it says why.
void ucx_gpus_open(struct ucx_worker *worker);
void ucx_gpus_close(struct ucx_worker *worker);
int ucx_gpu_reg(struct ucx_worker *worker, struct ucx_region *region);
// Registers it with UCX, if UCX can.
void ucx_gpu_map(struct ucx_worker *worker, struct ucx_region *region, const ucp_mem_map_params_t *params);
struct ucx_bounce *ucx_bounce_take(struct ucx_gpus *gpus); // NULL: all are under way
void ucx_bounce_give(struct ucx_gpus *gpus, struct ucx_bounce *bounce);
// Between host memory and the region's, whichever it is; waits for it.
int ucx_copy(struct ucx_worker *worker, const struct ucx_region *region, void *to, const void *from, size_t size);

// peer.c
int ucx_address(struct transport_worker *worker, void *bytes, size_t *size);
int ucx_connect(struct transport_worker *worker, const void *address, size_t size, const char *owner,
                struct transport_peer **peer);
void ucx_sever(struct flow_peer *peer);
void ucx_fence(struct transport_peer *peer);
bool ucx_part(struct flow_peer *peer);
ucs_status_t ucx_open_ep(struct ucx_peer *peer); // peer->ep, to peer->address
bool ucx_close_ep(struct ucx_peer *peer);        // by force; called again until UCX has released it

// reconnect.c
// Its connection has failed. False: it is not tried again.
bool ucx_try_again(struct ucx_peer *peer, ucs_status_t status);
bool ucx_give_up(struct ucx_peer *peer);           // returns whether it was to be tried again
bool ucx_keep_unsent(struct ucx_message *message); // false: it will not be sent
// From each progress(): connects those whose time has come.
uint32_t ucx_again(struct ucx_worker *worker);

// request.c
size_t ucx_op_size(const struct ucx_worker *worker);
int ucx_move(struct flow_request *own, const struct transport_piece *piece, uint64_t offset, struct flow_op *op);
int ucx_settle(struct flow_request *own, struct flow_op *op);
int ucx_send(struct flow_request *own, struct flow_op *op);
int ucx_send_message(struct ucx_message *message); // as ucx_send(); it is given back when it has been sent

// session.c
bool ucx_pass_is_good(const struct ucx_worker *worker, uint32_t session, uint64_t pass);
// The answers owed to the initiator of that session, or to all strangers if there is none. Valid until the next hello.
struct ucx_owed *ucx_owed(struct ucx_worker *worker, uint32_t session);
// Makes the passes of this initiator void: accesses that carry one are refused.
void ucx_session_void(struct ucx_worker *worker, uint64_t initiator);
void ucx_session_close(struct ucx_worker *worker);
ucs_status_t ucx_on_hello(void *arg, const void *header, size_t header_size, void *data, size_t size,
                          const ucp_am_recv_param_t *param);
// Asks for a pass.
int ucx_send_hello(struct ucx_peer *peer);
// Reads a welcome: the peer that has given a pass with it; NULL: none has.
struct ucx_peer *ucx_welcomed(struct ucx_worker *worker, const void *header, size_t size);

// serve.c: accesses, at the target
void ucx_serve_close(struct ucx_worker *worker);
int ucx_serve_region(struct ucx_worker *worker, struct ucx_region *region);
void ucx_serve_forget(struct ucx_worker *worker, struct ucx_region *region);
ucs_status_t ucx_on_write(void *arg, const void *header, size_t header_size, void *data, size_t size,
                          const ucp_am_recv_param_t *param);
ucs_status_t ucx_on_read(void *arg, const void *header, size_t header_size, void *data, size_t size,
                         const ucp_am_recv_param_t *param);

// access.c: accesses, at the initiator
int ucx_access_open(struct ucx_worker *worker);
void ucx_access_close(struct ucx_worker *worker);
int ucx_ask(struct flow_request *own, const struct transport_piece *piece, uint64_t offset, struct flow_op *op);
// No answer will come: ends the operations that wait for one. UCX itself ends those that it has not sent yet.
void ucx_access_lost(struct ucx_peer *peer);
ucs_status_t ucx_on_answer(void *arg, const void *header, size_t header_size, void *data, size_t size,
                           const ucp_am_recv_param_t *param);
ucs_status_t ucx_on_welcome(void *arg, const void *header, size_t header_size, void *data, size_t size,
                            const ucp_am_recv_param_t *param);

#endif
