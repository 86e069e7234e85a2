// A link: two incarnations that have mapped each other's windows, and the socket whose hang-up shows that the peer has
// gone.
//
// Either side may dial. The dialler sends a handshake message with its doorbell and the area that it will read; the
// acceptor answers with its own doorbell and area. Descriptors travel beside the messages. If both dial at once, the
// lower rank's call is used. The socket stays open: the kernel closes the end of a dead process, so its hang-up reports
// the death.
#ifndef EP_LINK_LINK_H
#define EP_LINK_LINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "device/device.h"
#include "ep/core/doorbell.h"
#include "ep/core/engine_ops.h"
#include "ep/core/layout.h"
#include "ep/core/window.h"
#include "ep/link/path.h"
#include "ep/link/transport_name.h"
#include "group/group.h"
#include "secure/secret.h"

// Where the rows of one source were placed in this rank's receive buffer, in one operation. The combine needs this.
struct ep_inbox {
  uint8_t *count;   // [M] selections of each row
  uint16_t *places; // [M] bit k: the selection at place k of the token's top-k is one of these
  int32_t *index;   // [M][K] row of the receive buffer (PER_EXPERT: expert * rows + row)
  float *weight;    // [M][K]
};

// How rows are written into the peer's window: by ordinary stores or past the caches (kernels.h). The faster of the two
// between this processor and the peer's is used; see host/rows/row_copy.c.
struct ep_way {
  bool stream;
  bool doubt; // the last trial preferred the other way: try again at once, and change if the next trial agrees
  uint32_t until_trial; // sends until the next trial
  uint32_t pause;       // sends between the last two trials that agreed
};

enum { EP_HOST_SIZE = 160 };

struct ep_neighbour_area;
struct ep_tcp_message;
struct ep_remote;

struct ep_link {
  int32_t rank;
  uint64_t incarnation;
  struct ep_window in;   // we read it, the peer writes it; our memory
  struct ep_window out;  // the peer reads it, we write it
  struct ep_window bell; // the peer's doorbell page
  struct {               // on CUDA memory; `in` and `out` hold only the head of the area there
    struct device_window in, out;
    struct device_window zero_copy; // the peer's memory from which rows are read without a copy; empty: none
    void *host_in, *host_out;       // over the network: the same windows, in host memory; else NULL
    int shown;                      // descriptor of host_in for neighbours, owned by the device; -1: none
    uint8_t name[DEVICE_NAME];      // over NVLink from another host: the name of `in`, for the peer
    uint32_t seat;                  // DEVICE_NO_SEAT: none
    bool written_late;              // `in` over the network: writes that the peer has begun may still arrive
  } device;
  const struct ep_path_ops *path; // how data written to `out` reaches the peer
  struct ep_remote *remote;       // state of the path to another host (remote/remote_link.h); else NULL
  int socket;
  _Atomic int state;        // enum ep_link_state
  _Atomic bool reported;    // the group has been notified that the peer is gone
  bool connected;           // under links.lock: the handshake is over, so the socket is free for other messages
  _Atomic bool unconfirmed; // this rank has answered the peer's call, which the peer may have given up before
  uint64_t confirm_by_ns;   // unconfirmed: how long this rank waits for EP_NOTICE_CONFIRMED. [service]
  uint32_t holds;           // under links.lock: threads that need the link for a moment
  _Atomic bool was_active;  // an operation has included the peer, or waits for it

  // Used by the owner's thread only.
  uint64_t sent_dispatch[EP_DEPTH]; // the peer's `taken` words must reach these values before we overwrite: n + 1
  uint64_t sent_combine[EP_DEPTH];
  uint64_t sent_once[EP_DEPTH]; // links with the same number here were sent rows that their peers share; 0: none
  struct ep_inbox inbox[EP_DEPTH];
  struct ep_way way;
  uint64_t sent_bytes, received_bytes, wait_ns;
  uint64_t awaits;      // last word of a peer that awaits its first operation (view/awaiting.h); 0: it does not
  struct ep_link *next; // in `superseded` or `retired`
};

// All links of a rank, by rank index.
struct ep_links {
  struct ep_link *_Atomic *by_rank; // [capacity]; set by any thread under `lock`, read by any
  uint64_t *dialling;               // [capacity] incarnation that the owner is calling; 0: none; under lock
  // [capacity] incarnation whose call the service thread is accepting, until the caller has confirmed; 0: none; under
  // lock
  uint64_t *answering;
  bool unconfirmed; // there may be answers that no caller has confirmed. [service]
  pthread_mutex_t lock;
  pthread_cond_t changed;                  // there is a new link, or a thread has to check again
  struct ep_link *superseded;              // under lock: replaced by a newer incarnation, for the owner to retire
  struct ep_link *retired;                 // under lock: for the service thread to free
  struct ep_neighbour_area *_Atomic areas; // changed under lock: remote/neighbours.h
  _Atomic uint64_t window_bytes;
  _Atomic uint32_t connected;
  int listener; // abstract socket
  int epoll;
  int wake;  // eventfd: a link was retired, or the thread has to stop
  bool stop; // under lock
  bool running;
  pthread_t thread;
  int tcp_listener;                  // TCP, for other hosts; -1: there is none
  struct lobby *tcp_lobby;           // callers of tcp_listener that have sent nothing yet
  char endpoints[256];               // of tcp_listener
  uint8_t tcp_key[SECRET_KEY_SIZE];  // from the token in the claim: callers have to know it
  char transport[EP_TRANSPORT_NAME]; // to other hosts, as the options ask; "": any
  bool alone;                        // this rank shows its areas to no neighbour, and reads none of theirs
  // The text of the claim: "<host> <socket name>", and with a listener for other hosts " <token> <endpoints>".
  char address[GROUP_ADDRESS_SIZE];
};

static inline bool ep_link_up(const struct ep_link *link) {
  return atomic_load_explicit(&link->state, memory_order_acquire) == EP_LINK_UP;
}

static inline struct ep_doorbell *ep_link_bell(const struct ep_link *link) {
  return link->bell.memory;
}
static inline struct ep_area_head *ep_link_in(const struct ep_link *link) {
  return link->in.memory;
}
static inline struct ep_area_head *ep_link_out(const struct ep_link *link) {
  return link->out.memory;
}

// --- link.c: one link ---

// The descriptors that a handshake message passes.
enum ep_fd { EP_FD_BELL, EP_FD_AREA, EP_FD_DEVICE, EP_FD_ZERO_COPY, EP_FDS };
#define EP_NO_FDS                                                                                                      \
  { -1, -1, -1, -1 }

// Creates the link and the windows that this rank will read. The windows' descriptors in `fds` (-1: none) are for the
// peer; the caller closes them.
int ep_link_new(weft_ep_t *ep, int32_t rank, uint64_t incarnation, enum ep_route route, struct ep_link **link,
                int fds[EP_FDS]);
void ep_link_free(weft_ep_t *ep, struct ep_link *link);
// The peer is gone; `state` says how. Wakes the owner, and notifies the group if the peer is in the view. Only the
// first call has an effect. [any]
void ep_link_down(weft_ep_t *ep, struct ep_link *link, enum ep_link_state state, const char *how);
// Whether the peer has reported that it takes this rank for lost. [any]
bool ep_link_takes_us_for_lost(struct ep_link *link);
// Notifies the peer that the hang-up that follows is no death. [any]
void ep_link_notify_left(struct ep_link *link);
// Reports members of a new view whose links went down before it came. [group]
void ep_links_report(weft_ep_t *ep, const struct group_view *view);
// The live link to that incarnation (0: any), or NULL. [any]
struct ep_link *ep_link_find(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
// The same if both sides know of the link. A caller that has not confirmed may have given its call up, and then never
// had the link. [any]
struct ep_link *ep_link_settled(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
// Puts a new link into the table and watches it; an older link at the same rank is taken down. On failure the caller
// still owns the link. [any]
int ep_link_install(weft_ep_t *ep, struct ep_link *link);
// Removes the link from the table; the service thread frees it. No operation may use it any more. If a newer
// incarnation has superseded the link meanwhile, the next sweep retires it. [owner]
void ep_link_retire(weft_ep_t *ep, struct ep_link *link);
// Retires every superseded link for which `in_use` returns false. True if it returned true for some. [owner]
bool ep_links_sweep(weft_ep_t *ep, bool (*in_use)(weft_ep_t *ep, const struct ep_link *link));

// --- wait.c ---

// Whether the peer waits for another rank, inside one of its operations, or did a moment ago. [owner]
bool ep_link_waits(const weft_ep_t *ep, const struct ep_link *link);
// How a wait for a peer ends. DOWN: the link went down first, or the deadline passed (the link is then marked silent).
enum ep_wait { EP_WAIT_CAME, EP_WAIT_DOWN, EP_WAIT_INTERRUPTED };

// Waits until *word >= value. [owner]
enum ep_wait ep_wait_word(weft_ep_t *ep, struct ep_link *link, const _Atomic uint64_t *word, uint64_t value,
                          uint64_t deadline_ns, const char *what);

// --- watch.c: what the service thread (service/service.h) watches ---

enum {
  EP_TAG_BITS = 3, // of the data of an event, which is a tag, or a link's address (aligned: its low bits are 0)
};

// Makes the service thread watch a socket. [any]
int ep_service_watch_socket(weft_ep_t *ep, int socket, uint64_t tag);
// The same for a link's socket. [any]
int ep_service_watch(weft_ep_t *ep, struct ep_link *link);
// Wakes the service thread: a link was retired, or has failed, or the thread has to stop. [any]
void ep_service_kick(weft_ep_t *ep);

#endif
