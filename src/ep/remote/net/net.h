// A rank's access to other hosts: one worker of a transport, which is opened when the first peer on another host needs
// it, and the thread that drives it.
//
// Only one thread at a time may use a transport: the one that holds the *net lock*. The owner tries to take it while it
// waits, and when it has something to post. Otherwise the net thread drives, and sleeps on the transport's descriptor
// while nothing arrives. Posts of the owner go into a lock-free queue, which the holder of the net lock empties. So the
// owner never waits for the lock.
//
// open.c opens and closes the worker, lock.c has the lock and the queue, and thread.c has the net thread.
#ifndef EP_REMOTE_NET_NET_H
#define EP_REMOTE_NET_NET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "ep/core/window.h"
#include "transport/transport.h"

enum {
  EP_NET_QUARANTINE = 64, // see ep_net_quarantine
  EP_NET_OWNER = 48,
};

struct ep_net;
struct ep_remote;

// A request to post: prepared once, posted many times.
struct ep_post {
  struct transport_request request;
  struct ep_remote *remote;
  void (*ended)(struct ep_post *post, int err); // [net lock] err: 0 or the error. It may post others
  struct ep_post *next;                         // in the queue
  void *part;                                   // the publication to which it belongs
  bool in_flight;                               // [net lock]
  bool zero_copy; // it reads the caller's memory; [owner] until it is posted, then [net lock]
  bool prepared;
};

// How the links handle the transport's events. [net lock]
struct ep_net_events {
  void (*message)(struct ep_net *net, const void *bytes, size_t size);
  void (*failed)(struct ep_remote *remote, int err, const char *why); // the transport cannot reach its peer any more
  void (*closing)(struct ep_remote *remote);                          // the worker closes, with all peers and regions
  void (*heartbeat)(weft_ep_t *ep, uint64_t now_ns); // sends heartbeats to peers: this rank waits; [owner]
};

struct ep_net {
  weft_ep_t *ep;
  const struct ep_net_events *events;
  const struct transport *transport;
  struct transport_worker *worker; // [net lock] NULL: it was closed
  _Atomic bool doubted;            // a peer that answered cannot reach it: see ep_net_doubt()
  uint8_t address[TRANSPORT_MAX_ADDRESS];
  size_t address_size;

  _Atomic bool locked;
  _Atomic uint32_t wanted;      // threads that wait for the net lock
  _Atomic uint32_t zero_copies; // posts that may read the caller's memory
  struct ep_post *_Atomic queue;
  uint64_t num_posts;         // posts so far; [net lock]
  struct ep_remote **remotes; // [num_remotes] by the low bits of their ids; [net lock]
  uint32_t num_remotes;
  struct ep_window quarantine[EP_NET_QUARANTINE];
  uint32_t num_quarantined;

  pthread_t thread;
  bool running;
  int kick; // eventfd
  _Atomic bool stop;
  _Atomic bool asleep;   // the thread sleeps, and needs a kick when there is something to drive
  _Atomic bool driving;  // the owner drives, so the thread need not
  _Atomic bool failures; // the transport of a link has failed: the service thread checks which
  _Atomic bool regroup;  // groups that share rows may change: links came or went, or a peer reads one window more
};

// Returns the rank's access to other hosts; opens it if it is not open, with the transport of that name; NULL: this
// rank chooses. UNSUPPORTED: no transport works here, or another one is in use; the text says which. [owner, service]
int ep_net_open(weft_ep_t *ep, const char *name, const struct ep_net_events *events, struct ep_net **net);
// A peer that answered a call cannot reach this rank's worker. The worker may have been opened while a network was
// down, so that its address is not valid now. If no link uses the worker, the next ep_net_open() opens another one.
// [owner]
void ep_net_doubt(weft_ep_t *ep);
// To be called after all links were freed. NULL is legal.
void ep_net_close(struct ep_net *net);

// The text that identifies the worker of that rank to the transport (transport_options.owner). [any]
void ep_net_owner(char owner[EP_NET_OWNER], int32_t rank, uint64_t incarnation);

// Takes the net lock, and releases it. Only for rare actions. [any]
void ep_net_lock(struct ep_net *net);
void ep_net_unlock(struct ep_net *net);
// Makes progress on everything; returns how much happened. [net lock]
uint32_t ep_net_progress(struct ep_net *net);
// Posts, now or as soon as a thread has the net lock. [any]
void ep_net_post(struct ep_net *net, struct ep_post *post);
// Posts now. [net lock]
void ep_net_post_now(struct ep_net *net, struct ep_post *post);
// To be called before posting: `post` will read the caller's memory, and is counted until it has read it. [owner]
void ep_net_zero_copy(struct ep_net *net, struct ep_post *post);
// Closes the worker, which ends all requests in flight. No link to another host can be used any more. [net lock]
void ep_net_shut(struct ep_net *net);
// Keeps the address range of a window that peers could write to, without its memory. So a late write of a peer that was
// removed overwrites no other data. (A software transport writes to the address in the message.) [net lock]
void ep_net_quarantine(struct ep_net *net, struct ep_window *window);

// The owner waits, and drives the transport if no other thread does. [owner]
void ep_net_drive_once(struct ep_net *net);

#endif
