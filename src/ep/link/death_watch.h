// How ranks detect the death of a process before the kernel has freed its memory.
//
// A socket hangs up only after the kernel has freed the memory of its process, which takes some 70 ms per GB, and not
// at all while a forked child holds the socket. But when a thread dies, the kernel handles its list of robust futexes
// first. So each rank has a thread that only holds such a futex and waits on the futexes of its peers. The futex lies
// in the page of the doorbell, which the peers map. The hang-up is the second way: for peers beyond DEATH_WATCH_PEERS,
// and on systems without futex_waitv.
#ifndef EP_LINK_DEATH_WATCH_H
#define EP_LINK_DEATH_WATCH_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

struct ep_link;

enum { DEATH_WATCH_PEERS = 127 }; // on which one thread can wait

struct ep_death_watch {
  pthread_t thread;
  bool running;
  sem_t held;             // posted when the thread holds its futex
  _Atomic uint32_t kicks; // a futex: counts the requests to check the links again, and whether to stop
  _Atomic bool stop;
  bool single; // used by the thread only: the kernel cannot wait on more than one futex
};

// Starts the thread. When this returns, peers may map the doorbell.
int ep_death_watch_start(weft_ep_t *ep);
// Releases the futex without a wake-up, and ends the thread. To be called before the group is closed. Legal if the
// thread was not started.
void ep_death_watch_stop(weft_ep_t *ep);
// There is a new link to watch. [any]
void ep_death_watch_kick(weft_ep_t *ep);

// Whether the peer's process lives, by the state of its futex. When the process ends, this returns false before the
// socket hangs up. Only for a link whose doorbell is mapped. [any]
bool ep_death_watch_alive(const struct ep_link *link);

#endif
