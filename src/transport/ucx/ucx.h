// The transport over UCX (libucp): RDMA NICs and TCP; also shared memory, and GPU memory of other processes, if it is
// selected by name. UCX_* in the environment, `device` and `settings` (which are UCX's own options without "UCX_")
// choose the NIC and the kinds of transport.
//
// A peer's worker address and keys are checked before libucp sees them (check/check.h).
//
// If UCX itself reaches a peer's memory (RDMA; shared memory that it allocated: a region registered with a NULL
// address), a WRITE is ucp_put_nbx for each piece, then a flush of the endpoint, which UCX ends when the data is
// visible at the peer; a READ is ucp_get_nbx. Then the message follows, as an active message.
//
// Elsewhere (TCP, other memory over shared memory) UCX would emulate both. But its emulation accepts any address that a
// peer names, aborts the target's process if the initiator's worker ends at the wrong moment (1.13: "Fatal: unexpected
// error", from ucp_put_handler), and does not always end an operation whose endpoint is closed by force. So there the
// transport serves accesses itself (serve.c): it sends active messages, which the target checks against its regions,
// copies and answers. They need the target's progress(), so the transport does not have ONE_SIDED. The CUDA plug-in
// then copies GPU memory (gpu.c), so that it reaches other hosts over any network; over RDMA, UCX accesses GPU memory
// directly if it was built with CUDA.
//
// An operation of UCX cannot be cancelled: to sever a peer, the transport closes its endpoint by force. A fence refuses
// accesses that this side serves (session.c). RDMA ends with this side's endpoint, if each peer has its own queue pair
// (rc). Writes of UCX from a process of this host to memory that UCX allocated are not fenced.
#ifndef TRANSPORT_UCX_UCX_H
#define TRANSPORT_UCX_UCX_H

#include <ucp/api/ucp.h>

#include "device/device.h"
#include "transport/flow/flow.h"
#include "transport/ucx/check/check.h"

enum {
  UCX_GPUS = 64,
  UCX_MESSAGES = 4,
  UCX_ASKED = 4096, // served operations of a worker under way
  UCX_MOST_OWED = 2 * UCX_ASKED,
  UCX_SEGMENT = 256 << 10, // of TCP, unless the environment says otherwise
  UCX_SERVED = 240 << 10,  // bytes of a served operation; with its header it fits into one segment
  UCX_SERVED_NEAR = 7680,  // over shared memory, whose segments have 8 KiB
  UCX_OURS = 96,           // bytes of an operation, behind UCX's own
};

// The active messages.
enum ucx_id { UCX_MESSAGE = 7, UCX_WRITE, UCX_READ, UCX_ANSWER, UCX_HELLO, UCX_WELCOME };

// An operation that waits for its answer. Its cookie in messages is its index and its generation, so that a late answer
// cannot be taken for that of another operation.
struct ucx_asked {
  struct flow_op *op; // NULL: none
  uint32_t generation, next;
};

// Host memory that UCX sends instead of GPU memory.
struct ucx_bounce {
  struct ucx_bounce *next;
  unsigned char bytes[];
};

struct ucx_gpus {
  const struct device_api *api;
  int count;                        // 0: memory of GPUs is refused
  struct device *devices[UCX_GPUS]; // opened at the first use
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
  struct ucx_answer *answers[2], *all_answers; // free answers, small and large; all answers
  uint32_t large_owed;                         // answers with data that are being sent
  struct ucx_owed owed_strangers;              // answers to initiators without a pass
  struct ucx_gpus gpus;
  bool cuda;          // UCX was built with CUDA
  int serve;          // 1: serve all accesses, 0: none, -1: those to memory that UCX itself does not reach
  bool driving;       // inside ucp_worker_progress()
  uint32_t num_again; // number of peers to reconnect
  int fd;
};

// A message that is being sent. It is a copy, so that a stopped peer does not keep the caller's memory in use.
struct ucx_message {
  struct ucx_message *next; // in the list of free messages
  struct ucx_peer *peer;
  void *request; // UCX's
  unsigned char *bytes;
  size_t size;
};

struct ucx_peer {
  struct flow_peer flow;
  struct ucx_message messages[UCX_MESSAGES];
  struct ucx_message *free_messages;
  struct ucx_message *unsent, **unsent_end; // messages for a connection that was never established, oldest first
  unsigned char *address;                   // UCX's, of its worker
  uint32_t tries;                           // number of failed attempts to connect
  uint64_t again_ns;                        // when to try again; 0: not at all
  bool direct;                              // UCX itself reaches all its memory
  bool near;                                // it shares memory with this process
  bool own;                                 // it is this process: UCX would touch any address of it without a key
  bool sent;                                // a message was sent, and may have arrived
  bool hello_sent;                          // a hello was sent to it
  bool let_in;                              // its welcome has arrived
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
  int gpu;          // CUDA: index of the GPU
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

// error.c The corresponding code of Weft.
int ucx_code(ucs_status_t status);
// fail() with UCX's text appended.
int ucx_fail(ucs_status_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// UCX keeps its state of an operation before this address; the transport uses the UCX_OURS bytes from there on.
static inline void *ucx_place(const struct flow_request *own, struct flow_op *op) {
  return (char *)op + own->worker->wire.op_size - UCX_OURS;
}

static inline ucs_memory_type_t ucx_memory_type(enum weft_memory_kind kind) {
  return kind == WEFT_MEMORY_CUDA ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

// config.c: the environment's options, Weft's defaults for options that it does not set, then the caller's.
int ucx_config(const struct transport_options *options, ucp_config_t **config);
// Whether UCX itself may be able to reach a peer's memory, which then need not be served.
bool ucx_may_reach(const struct transport_options *options, const ucp_config_t *config);

// posix.c: UCX's list of transports (TLS) without POSIX shared memory; false: there is no room.
bool ucx_without_posix(const char *list, char *out, size_t size);

// memory.c
int ucx_reg(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
void ucx_unreg(struct transport_region *region);
int ucx_pack(struct transport_region *region, void *bytes, size_t *size);
int ucx_import(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote);
void ucx_free_remote(struct flow_remote *remote);

// gpu.c Without GPUs or the plug-in, removes GPU memory from the worker's abilities, and records why.
void ucx_gpus_open(struct ucx_worker *worker);
void ucx_gpus_close(struct ucx_worker *worker);
int ucx_gpu_reg(struct ucx_worker *worker, struct ucx_region *region);
// Registers the memory with UCX, if UCX supports it.
void ucx_gpu_map(struct ucx_worker *worker, struct ucx_region *region, const ucp_mem_map_params_t *params);
struct ucx_bounce *ucx_bounce_take(struct ucx_gpus *gpus); // NULL: all are under way
void ucx_bounce_give(struct ucx_gpus *gpus, struct ucx_bounce *bounce);
// Copies between host memory and the region's memory of either kind; waits for the end.
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

// lanes.c: UCX's description of an endpoint, which the caller frees; NULL: no memory.
char *ucx_ep_text(ucp_ep_h ep);
void ucx_uses(struct transport_worker *worker, const struct transport_peer *peer, char *text, size_t cap);

// reconnect.c The peer's connection has failed. False: no further attempt is made.
bool ucx_try_again(struct ucx_peer *peer, ucs_status_t status);
bool ucx_give_up(struct ucx_peer *peer);           // returns whether it was to be tried again
bool ucx_keep_unsent(struct ucx_message *message); // false: it will not be sent
// Called from each progress(): connects the peers that are due.
uint32_t ucx_again(struct ucx_worker *worker);

// request.c
size_t ucx_op_size(const struct ucx_worker *worker);
int ucx_move(struct flow_request *own, const struct transport_piece *piece, uint64_t offset, struct flow_op *op);
int ucx_settle(struct flow_request *own, struct flow_op *op);
int ucx_send(struct flow_request *own, struct flow_op *op);
int ucx_send_message(struct ucx_message *message); // as ucx_send(); it is given back when it has been sent

// session.c
bool ucx_pass_is_good(const struct ucx_worker *worker, uint32_t session, uint64_t pass);
// The number of answers owed to the initiator of that session, or to all strangers if there is none. Valid until the
// next hello.
struct ucx_owed *ucx_owed(struct ucx_worker *worker, uint32_t session);
// Invalidates the passes of this initiator: accesses with one of them are refused.
void ucx_session_void(struct ucx_worker *worker, uint64_t initiator);
void ucx_session_close(struct ucx_worker *worker);
ucs_status_t ucx_on_hello(void *arg, const void *header, size_t header_size, void *data, size_t size,
                          const ucp_am_recv_param_t *param);
// Requests a pass.
int ucx_send_hello(struct ucx_peer *peer);
// Reads a welcome; returns the peer that has sent a pass with it; NULL: none has.
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
// No answer will come: ends the operations that wait for one. UCX itself ends operations that it has not sent yet.
void ucx_access_lost(struct ucx_peer *peer);
ucs_status_t ucx_on_answer(void *arg, const void *header, size_t header_size, void *data, size_t size,
                           const ucp_am_recv_param_t *param);
ucs_status_t ucx_on_welcome(void *arg, const void *header, size_t header_size, void *data, size_t size,
                            const ucp_am_recv_param_t *param);

#endif
