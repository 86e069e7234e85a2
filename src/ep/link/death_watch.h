// How ranks learn of a death before the kernel has taken the dead process apart.
//
// A socket hangs up only when the memory of its process is gone, which takes some 70 ms per GB, and not at all while a
// forked child holds it. But the first that the kernel does for a thread that dies is its list of robust futexes. So
// each rank has a thread that does nothing but hold one, in the page of the doorbell, which its peers map, and wait on
// theirs. The hang-up stays as the second way: for peers beyond LIFE_PEERS, and where the system has no futex_waitv.
#ifndef EP_LINK_DEATH_WATCH_H
#define EP_LINK_DEATH_WATCH_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

struct ep_link;

enum { LIFE_PEERS = 127 }; // that one thread can wait on

struct ep_life {
  pthread_t thread;
  bool running;
  sem_t held;             // posted when the thread holds its futex
  _Atomic uint32_t kicks; // a futex: look again, who is there and whether to stop
  _Atomic bool stop;
  bool single; // the thread's: it cannot wait on more than one
};

// Starts the thread; when it returns, peers may map the doorbell.
int ep_life_start(weft_ep_t *ep);
// Releases the futex without a wake-up, and ends the thread. Before the group is closed. Legal when it has
// not been started.
void ep_life_stop(weft_ep_t *ep);
// There is a new link to wait on. [any]
void ep_life_kick(weft_ep_t *ep);

// Whether the kernel says that the peer's process lives. When one ends, its socket hangs up after that is known. Of a
// link whose doorbell is mapped. [any]
bool ep_life_goes_on(const struct ep_link *link);

#endif
