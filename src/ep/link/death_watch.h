// How ranks learn of a death before the kernel has taken the dead process apart.
//
// A socket hangs up only when the memory of its process is gone, which takes some 70 ms per GB, and not at all while a
// forked child holds it. But the first that the kernel does for a thread that dies is its list of robust futexes. So
// each rank has a thread that does nothing but hold such a futex, in the page of the doorbell, which its peers map, and
// wait on those of its peers. The hang-up stays as the second way: for peers beyond DEATH_WATCH_PEERS, and where the
// system has no futex_waitv.
#ifndef EP_LINK_DEATH_WATCH_H
#define EP_LINK_DEATH_WATCH_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

struct ep_link;

enum { DEATH_WATCH_PEERS = 127 }; // that one thread can wait on

struct ep_death_watch {
  pthread_t thread;
  bool running;
  sem_t held;             // posted when the thread holds its futex
  _Atomic uint32_t kicks; // a futex: counts the requests to look again which links there are, and whether to stop
  _Atomic bool stop;
  bool single; // the thread's: the kernel has no way to wait on more than one futex
};

// Starts the thread; when it returns, peers may map the doorbell.
int ep_death_watch_start(weft_ep_t *ep);
// Releases the futex without a wake-up, and ends the thread. Before the group is closed. Legal when it has
// not been started.
void ep_death_watch_stop(weft_ep_t *ep);
// There is a new link to wait on. [any]
void ep_death_watch_kick(weft_ep_t *ep);

// Whether the kernel shows that the peer's process lives. When the process ends, that shows before its socket hangs up.
// For a link whose doorbell is mapped. [any]
bool ep_death_watch_alive(const struct ep_link *link);

#endif
