// Where connections to a listener wait until their first message is complete: the first record of TLS, or the
// head of a request of HTTP. Only then the listener hears of them, so that who is silent, slow or says something else
// costs a descriptor and some hundred bytes here, and no TLS, no thread and none of the listener's own places.
//
// All that call are accepted at once, since the system's queue serves strangers and others in their order, and lets
// nobody in once it is full: a caller that finds no place in it tries again after 1 s, 3 s and 7 s. A caller that says
// something else is hung up on, a few at once, and more of them when their time is over, since they would only come
// again. When all places are taken, a newcomer takes that of such a one, or else of the one that came first, of the
// address that has most places. It has a moment in which that does not happen, longer than a lawful caller's first
// message takes.
//
// What strangers cost has bounds: the places, the time, and the number that is accepted in a second. One thread at a
// time.
#ifndef SECURE_LOBBY_H
#define SECURE_LOBBY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
  LOBBY_PLACES = 16384, // of a process of Weft's own, where it may have as many descriptors
  LOBBY_FEW = 1024,     // of somebody else's
  LOBBY_TIME_MS = 5000, // for the first message
  LOBBY_RATE = 20480,   // that are accepted in a second
  LOBBY_BUCKETS = 256,  // of addresses, among which places are shared out
};

enum lobby_protocol { LOBBY_TLS, LOBBY_HTTP };

struct lobby;

struct lobby_caller {
  int fd; // non-blocking; the taker's
  socklen_t size;
  struct sockaddr_storage address;
};

// `places` at most, and an eighth of the descriptors that the process may have, or two thirds of those beyond 1,024.
// `listener` is non-blocking and stays the caller's, who closes it after the lobby. NOMEM, SYSTEM.
int lobby_open(struct lobby **lobby, int listener, enum lobby_protocol protocol, uint32_t places);

// Readable while lobby_next() has something to do: for poll() and epoll, level-triggered.
int lobby_fd(const struct lobby *lobby);

// The next connection whose first message is complete. False: none is at this moment, or the thread has to serve others
// first.
bool lobby_next(struct lobby *lobby, struct lobby_caller *caller);

// Hangs up on all who are there. NULL is legal.
void lobby_close(struct lobby *lobby);

// Has the system allow this process the descriptors of a full lobby and `besides`, as far as it may be raised. For
// processes that are Weft's own: others may call select().
void lobby_raise_limit(uint32_t besides);

// The bucket of an address, by a hash: of an address of IPv4, and of a network of IPv6, as one host has the whole of a
// /64.
uint16_t lobby_bucket(const struct sockaddr_storage *address);

#endif
