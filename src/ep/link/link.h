// A link: two incarnations that have mapped each other's windows, and the socket whose hang-up shows that the other has
// gone.
//
// Either side may dial. The dialler sends a handshake message with its doorbell and the area that it will read, the
// acceptor answers with its own; descriptors travel beside the messages. When both dial at once the lower rank's call
// stands. The socket stays open: the kernel closes a dead process's end, so its hang-up is the news of a death.
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

// Where the rows of one source came to stand in this rank's receive buffer, in one operation: what the combine needs.
struct ep_inbox {
  uint8_t *count; // [M] selections of each row
  int32_t *index; // [M][K] row of the receive buffer (PER_EXPERT: expert * rows + row)
  float *weight;  // [M][K]
};

// How rows are written into the peer's window: by ordinary stores or past the caches (kernels.h), whichever is faster
// from this processor to the peer's; see host/rows/row_copy.c.
struct ep_way {
  bool stream;
  bool doubt;           // the last trial found otherwise: try again at once, and change if the next one agrees
  uint32_t until_trial; // sendings
  uint32_t pause;       // between the last two trials that agreed
};

enum { EP_HOST_SIZE = 160 };

struct ep_neighbour_area;
struct ep_tcp_message;
struct ep_remote;

struct ep_link {
  int32_t rank;
  uint64_t incarnation;
  struct ep_window in;   // we read, the peer writes; our memory
  struct ep_window out;  // the peer reads, we write
  struct ep_window bell; // the peer's doorbell page
  struct {               // on CUDA memory, where `in` and `out` hold the area's head only
    struct device_window in, out;
    struct device_window zero_copy; // the peer's memory whose rows are read where they lie; without memory: none
    void *host_in, *host_out;       // by the network: the same windows, which are in host memory; else NULL
    int shown;                      // descriptor of host_in, for neighbours, the device's; -1: there is none
    uint8_t name[DEVICE_NAME];      // by NVLink from another host: of `in`, for the peer
    uint32_t seat;                  // DEVICE_NO_SEAT: none
    bool written_late;              // `in` by the network: what the peer had begun may still come
  } device;
  const struct ep_path_ops *path; // how what is written to `out` gets to the peer
  struct ep_remote *remote;       // the path to another host has it (remote/remote_link.h); else NULL
  int socket;
  _Atomic int state;       // enum ep_link_state
  _Atomic bool reported;   // the group has been notified that the peer is gone
  bool connected;          // under links.lock: the handshake is over, so its socket is free for other messages
  uint32_t holds;          // under links.lock: by threads that would have it stay for a moment
  _Atomic bool was_active; // an operation has counted the peer, or waits for it

  // The owner's thread's.
  uint64_t sent_dispatch[EP_DEPTH]; // what the peer's `taken` words must have reached before we overwrite: n + 1
  uint64_t sent_combine[EP_DEPTH];
  uint64_t sent_once[EP_DEPTH]; // links with the same number here were sent rows that their peers share; 0: none
  struct ep_inbox inbox[EP_DEPTH];
  struct ep_way way;
  uint64_t sent_bytes, received_bytes, wait_ns;
  uint64_t awaits; // the peer's word, as last read: it awaits its first operation (view/awaiting.h). 0: it does not
  struct ep_link *next; // in `superseded` or `retired`
};

// All links of a rank, by rank index.
struct ep_links {
  struct ep_link *_Atomic *by_rank; // [capacity]; set by any thread under `lock`, read by any
  uint64_t *dialling;               // [capacity] incarnation that the owner is calling, 0: none; under lock
  uint64_t *answering; // [capacity] incarnation whose call the service thread is taking, 0: none; under lock
  pthread_mutex_t lock;
  pthread_cond_t changed;                  // a link came, or a thread should look again
  struct ep_link *superseded;              // under lock: replaced by a newer incarnation, for the owner to retire
  struct ep_link *retired;                 // under lock: for the service thread to free
  struct ep_neighbour_area *_Atomic areas; // changed under lock: remote/neighbours.h
  _Atomic uint64_t window_bytes;
  _Atomic uint32_t connected;
  int listener; // abstract socket
  int epoll;
  int wake;  // eventfd: something retired, or stop
  bool stop; // under lock
  bool running;
  pthread_t thread;
  int tcp_listener;                  // TCP, for other hosts; -1: there is none
  struct lobby *tcp_lobby;           // who has called it and not spoken
  char endpoints[256];               // of it
  uint8_t tcp_key[SECRET_KEY_SIZE];  // of the token in the claim: who calls there has to have it
  char transport[EP_TRANSPORT_NAME]; // to other hosts, as asked for; "": any
  bool alone;                        // this rank shows no neighbour what comes, and reads nothing of theirs
  // What the claim says: "<host> <socket name>", and with a listener for other hosts " <token> <endpoints>".
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

// The descriptors that a handshake message brings.
enum ep_fd { EP_FD_BELL, EP_FD_AREA, EP_FD_DEVICE, EP_FD_ZERO_COPY, EP_FDS };
#define EP_NO_FDS                                                                                                      \
  { -1, -1, -1, -1 }

// Creates the link and the windows that this rank will read. Their descriptors in `fds` (-1: there is none) are for the
// peer; the caller closes them.
int ep_link_new(weft_ep_t *ep, int32_t rank, uint64_t incarnation, enum ep_route route, struct ep_link **link,
                int fds[EP_FDS]);
void ep_link_free(weft_ep_t *ep, struct ep_link *link);
// The peer is gone, `state` says how: wakes the owner, notifies the group if the peer is in the view. First caller
// wins. [any]
void ep_link_down(weft_ep_t *ep, struct ep_link *link, enum ep_link_state state, const char *how);
// Whether the peer has reported that it takes this rank for lost. [any]
bool ep_link_takes_us_for_lost(struct ep_link *link);
// Tells the peer that what follows is no death. [any]
void ep_link_notify_left(struct ep_link *link);
// Reports members of a new view whose links went down before it came. [group]
void ep_links_report(weft_ep_t *ep, const struct group_view *view);
// The live link to that incarnation (0: any), or NULL. [any]
struct ep_link *ep_link_find(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
// Puts a new link in its place and under watch; an older one at the same rank is put down. On failure the link is still
// the caller's. [any]
int ep_link_install(weft_ep_t *ep, struct ep_link *link);
// Takes the link out of the table; the service thread frees it. No operation may use it any more. One that a newer
// incarnation has superseded meanwhile is left to the next sweep. [owner]
void ep_link_retire(weft_ep_t *ep, struct ep_link *link);
// Retires every superseded link that `in_use` does not claim; true when it claimed some. [owner]
bool ep_links_sweep(weft_ep_t *ep, bool (*in_use)(weft_ep_t *ep, const struct ep_link *link));

// --- wait.c ---

// Whether the peer waits for another rank, inside one of its operations, or did a moment ago. [owner]
bool ep_link_waits(const weft_ep_t *ep, const struct ep_link *link);
// How a wait for a peer ends. DOWN: the link went down first, or the deadline passed (then the link is marked silent).
enum ep_wait { EP_WAIT_CAME, EP_WAIT_DOWN, EP_WAIT_INTERRUPTED };

// Waits until *word >= value. [owner]
enum ep_wait ep_wait_word(weft_ep_t *ep, struct ep_link *link, const _Atomic uint64_t *word, uint64_t value,
                          uint64_t deadline_ns, const char *what);

// --- watch.c: what the service thread (service/service.h) looks at ---

enum {
  EP_TAG_BITS = 3, // of the data of an event: a tag, or a link's address (aligned: its low bits are 0)
};

// Has it look at a socket. [any]
int ep_service_watch_socket(weft_ep_t *ep, int socket, uint64_t tag);
// And at a link's. [any]
int ep_service_watch(weft_ep_t *ep, struct ep_link *link);
// Wakes it: a link was retired, or has failed, or it is to stop. [any]
void ep_service_kick(weft_ep_t *ep);

#endif
