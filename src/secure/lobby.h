// In the lobby, connections to a listener wait until their first message is complete: the first record of TLS, or the
// head of an HTTP request. Only then the listener gets them. So a caller that is silent, slow or sends something else
// costs a descriptor and some hundred bytes here, but no TLS, no thread and none of the listener's own places.
//
// The lobby accepts all callers at once, since the system's queue serves strangers and legitimate callers in their
// order, and admits nobody once it is full: a caller that finds the queue full tries again after 1 s, 3 s and 7 s. If a
// caller sends something else, its connection has to be closed. For a few such callers this happens at once; further
// ones would only connect again, so their connections are closed when their time is over. When all places are taken, a
// new caller gets the place of such a connection, or otherwise of the oldest connection of the address that has most
// places. For a moment after its arrival a connection cannot lose its place in this way; this is longer than the first
// message of a legitimate caller takes.
//
// The cost of strangers is limited by the places, by the time, and by the number of connections that are accepted per
// second. One thread at a time.
#ifndef SECURE_LOBBY_H
#define SECURE_LOBBY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
  LOBBY_PLACES = 16384, // places in a process of Weft's own, if it may have as many descriptors
  LOBBY_FEW = 1024,     // places in another program's process
  LOBBY_TIME_MS = 5000, // for the first message to arrive
  LOBBY_RATE = 20480,   // connections accepted per second
  LOBBY_BUCKETS = 256,  // buckets of addresses, among which places are divided
};

enum lobby_protocol { LOBBY_TLS, LOBBY_HTTP };

struct lobby;

struct lobby_caller {
  int fd; // non-blocking; the caller of lobby_next() owns it
  socklen_t size;
  struct sockaddr_storage address;
};

// The lobby has at most `places` places, and at most an eighth of the descriptors that the process may have, or two
// thirds of those beyond 1,024. `listener` is non-blocking; the caller keeps it and closes it after the lobby. NOMEM,
// SYSTEM.
int lobby_open(struct lobby **lobby, int listener, enum lobby_protocol protocol, uint32_t places);

// Readable while lobby_next() has something to do: for poll() and epoll, level-triggered.
int lobby_fd(const struct lobby *lobby);

// The next connection whose first message is complete. False: there is none at the moment, or the thread has to do
// other work first.
bool lobby_next(struct lobby *lobby, struct lobby_caller *caller);

// Closes all connections in the lobby, and the lobby. NULL is legal.
void lobby_close(struct lobby *lobby);

// Raises this process's limit of descriptors to that of a full lobby plus `besides`, as far as allowed. Only for
// processes of Weft's own, since other programs may call select().
void lobby_raise_limit(uint32_t besides);

// The bucket of an address, by a hash of the IPv4 address, or of the /64 network of an IPv6 address, since one host has
// a whole /64.
uint16_t lobby_bucket(const struct sockaddr_storage *address);

#endif
