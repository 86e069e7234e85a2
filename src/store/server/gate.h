// Limits the number and the duration of connections to an embedded server that have not presented its token.
//
// Clients without a token hold GATE_PLACES connections at most, each for GATE_TIME_S. When the places are full, a new
// connection takes the place of the oldest connection from its own address if that address has more than its share,
// otherwise that of the oldest of all. So strangers that are silent or slow displace each other, and a client that
// presents the token soon after connecting is served.
//
// All functions are called with the server's lock held.
#ifndef STORE_SERVER_GATE_H
#define STORE_SERVER_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

enum {
  GATE_PLACES = 1024,
  GATE_SHARE = GATE_PLACES / 4, // places of one address, before it has to give way to others
  GATE_TIME_S = 10,             // time limit for the TLS handshake and a request with the token
};

// A connection, from its beginning to its end.
struct gate_entry {
  TAILQ_ENTRY(gate_entry) link;
  int fd;
  uint64_t due_ns;
  unsigned char address[16]; // the /64 network of IPv6, or IPv4 as a mapped address
  bool waits;                // it is in the list
  bool known;                // it has presented the token
};

struct server_gate {
  TAILQ_HEAD(, gate_entry) waiting; // oldest first
  size_t places, num_waiting, num_known;
};

void server_gate_init(struct server_gate *gate);

// Registers a new connection. NULL: no memory. `*first`: no connection waited before it, so the caller of
// server_gate_expire() has to call it again.
struct gate_entry *server_gate_enter(struct server_gate *gate, int fd, const struct sockaddr *address, uint64_t now_ns,
                                     bool *first);

// The connection has presented the token. False: the limit of such connections is reached.
bool server_gate_admit(struct server_gate *gate, struct gate_entry *entry, size_t most);

// The connection ends; its socket is still open.
void server_gate_leave(struct server_gate *gate, struct gate_entry *entry);

// Closes connections whose time has passed. Returns when to call it again; UINT64_MAX: never.
uint64_t server_gate_expire(struct server_gate *gate, uint64_t now_ns);

#endif
