// A link: two incarnations that have mapped each other's windows, and the socket that tells when the other has gone.
//
// Either side may dial. The dialler sends a greeting with its doorbell and the area that it will read, the acceptor
// answers with its own; descriptors travel beside the messages. When both dial at once the lower rank's call stands.
// The socket stays open: the kernel closes a dead process's end, so its hang-up is the news of a death.
#ifndef EP_LINK_LINK_H
#define EP_LINK_LINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "device/device.h"
#include "ep/core/doorbell.h"
#include "ep/core/layout.h"
#include "ep/core/window.h"
#include "group/group.h"
#include "secure/secret.h"

// Where the rows of one source came to stand in this rank's receive buffer, in one operation: what the combine needs.
struct ep_inbox {
  uint8_t *count; // [M] selections of each row
  int32_t *index; // [M][K] row of the receive buffer (PER_EXPERT: expert * rows + row)
  float *weight;  // [M][K]
};

// How rows are written into the peer's window: by ordinary stores or past the caches (kernels.h), whichever is faster
// from this processor to the peer's; see host/row_copy.c.
struct ep_way {
  bool stream;
  bool doubt;           // the last trial said otherwise: try again at once, and change if the next one says so too
  uint32_t until_trial; // sendings
  uint32_t pause;       // between the last two trials that agreed
};

enum { EP_TRANSPORT_NAME = 32, EP_HOST_SIZE = 160 };

enum ep_link_state {
  EP_LINK_UP,
  EP_LINK_LEFT,    // the peer closed, cleanly
  EP_LINK_DEAD,    // the peer's end hung up
  EP_LINK_SILENT,  // a deadline passed
  EP_LINK_BROKEN,  // it wrote what it must not
  EP_LINK_DOUBTED, // a deadline passed, but it is more likely that this rank is the one astray; or the peer says so
};

struct ep_talk;

struct ep_link {
  int32_t rank;
  uint64_t incarnation;
  struct ep_window in;   // we read, the peer writes; our memory
  struct ep_window out;  // the peer reads, we write
  struct ep_window bell; // the peer's doorbell page
  struct {               // on CUDA memory, where `in` and `out` hold the area's head only
    struct device_window in, out;
    void *host_in, *host_out;  // by the network: the same windows, which are in host memory; else NULL
    uint8_t name[DEVICE_NAME]; // by NVLink from another host: of `in`, for the peer
    uint32_t seat;             // DEVICE_NO_SEAT: none
  } device;
  struct ep_remote *remote; // to a rank on another host: `out` and `bell` are only here; NULL: `out` is the peer's
  int socket;
  _Atomic int state;     // enum ep_link_state
  _Atomic bool reported; // the group has been told that the peer is gone
  uint32_t holds;        // under links.lock: by the life thread, which would have it stay for a moment

  // The owner's thread's.
  uint64_t sent_dispatch[WEFT_EP_DEPTH]; // what the peer's `taken` words must have reached before we overwrite: n + 1
  uint64_t sent_combine[WEFT_EP_DEPTH];
  struct ep_inbox inbox[WEFT_EP_DEPTH];
  struct ep_way way;
  bool was_active;
  uint64_t sent_bytes, received_bytes, wait_ns;
  struct ep_link *next; // in `superseded` or `retired`
};

// All links of a rank, by rank index.
struct ep_links {
  struct ep_link *_Atomic *by_rank; // [capacity]; set by any thread under `lock`, read by any
  uint64_t *dialling;               // [capacity] incarnation that the owner is calling, 0: none; under lock
  uint64_t *answering; // [capacity] incarnation whose call the service thread is taking, 0: none; under lock
  pthread_mutex_t lock;
  pthread_cond_t changed;     // a link came, or a thread should look again
  struct ep_link *superseded; // under lock: replaced by a newer incarnation, for the owner to retire
  struct ep_link *retired;    // under lock: for the service thread to free
  _Atomic uint64_t window_bytes;
  _Atomic uint32_t connected;
  int listener; // abstract socket
  int epoll;
  int wake;  // eventfd: something retired, or stop
  bool stop; // under lock
  bool running;
  pthread_t thread;
  int far_listener;                  // TCP, for other hosts; -1: there is none
  struct lobby *far_lobby;           // who has called it and not spoken
  char endpoints[256];               // of it
  uint8_t far_key[SECRET_KEY_SIZE];  // of the token in the claim: who calls there has to have it
  char transport[EP_TRANSPORT_NAME]; // to other hosts, as asked for; "": any
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

// The descriptors that a greeting brings.
enum ep_fd { EP_FD_BELL, EP_FD_AREA, EP_FD_DEVICE, EP_FDS };

// How the peer's memory is reached.
enum ep_route {
  EP_ROUTE_NEAR,   // on this host: it is mapped by descriptors
  EP_ROUTE_FABRIC, // GPUs on another host, or in another container: mapped by name, over NVLink
  EP_ROUTE_FAR,    // on another host: by a transport
};

// Creates the link and the windows that this rank will read. Their descriptors in `fds` (-1: there is none) are for the
// peer; the caller closes them.
int ep_link_new(weft_ep_t *ep, int32_t rank, uint64_t incarnation, enum ep_route route, struct ep_link **link,
                int fds[EP_FDS]);
void ep_link_free(weft_ep_t *ep, struct ep_link *link);
// The peer is gone, `state` says how: wakes the owner, tells the group if the peer is in the view. First caller wins.
// [any]
void ep_link_down(weft_ep_t *ep, struct ep_link *link, enum ep_link_state state, const char *how);
// Whether the peer has said that it takes this rank for lost. [any]
bool ep_link_takes_us_for_lost(struct ep_link *link);
// Tells the peer that what follows is no death. [any]
void ep_link_say_left(struct ep_link *link);
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

// --- handshake.c: the handshake ---

// Connects to that incarnation, unless it is connected. TIMEOUT, VERSION, UNSUPPORTED (no way to its host), AUTH,
// UNREACHABLE. [owner]
int ep_dial(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *address, uint64_t deadline_ns);
// Answers a greeting that has arrived on `socket`; the socket is the link's, or closed, afterwards. [service]
void ep_answer(weft_ep_t *ep, int socket);
// Decides whose call stands. False: the caller's does not, or it has a link already. [service]
bool ep_answer_begin(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
void ep_answer_end(weft_ep_t *ep, int32_t rank);

// Waits until the called rank has answered on `socket` (POLLIN), or takes more (POLLOUT). TIMEOUT. [owner]
int ep_await_answer(int socket, short events, int32_t rank, uint64_t deadline_ns);

// --- remote/handshake_tcp.c: the same between hosts ---

// Calls the rank at the token and endpoints of its claim, until one of them is its own. `*yield`: its call stands
// instead. [owner]
int ep_far_call(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *claimed, uint64_t deadline_ns,
                bool *yield);
// Goes on with a call from another host. An enum tls_wants: call again when its socket is ready; 0: it has become a
// link, or has ended; else it has to be ended, for that reason. [service]
int ep_far_answer(weft_ep_t *ep, struct ep_talk *talk);

// --- reactor.c: the thread ---

// Opens the listeners and fills links.address. Calls wait in their queues until the thread starts.
int ep_service_listen(weft_ep_t *ep, const struct weft_ep_options *options);
int ep_service_start(weft_ep_t *ep);
// Closes the listener, ends the thread. Links stay as they are.
void ep_service_stop(weft_ep_t *ep);
// Frees every link, after ep_service_stop.
void ep_links_free(weft_ep_t *ep);
void ep_service_kick(weft_ep_t *ep);
// Watches a link's socket. [any]
int ep_service_watch(weft_ep_t *ep, struct ep_link *link);

#endif
