// The connections of an embedded server that have not shown its token: how many there are, and how long they may stay.
//
// Clients without a token hold GATE_PLACES connections at most, each for GATE_TIME_S. When the places are full, a new
// connection takes that of the oldest: of its own address where that holds more than its share, else of all. So
// strangers who are silent or slow push out each other, and whoever shows the token soon after connecting is served.
//
// All calls with the server's lock held.
#ifndef STORE_SERVER_GATE_H
#define STORE_SERVER_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

enum {
  GATE_PLACES = 1024,
  GATE_SHARE = GATE_PLACES / 4, // of one address, before it gives way to others
  GATE_TIME_S = 10,             // for the handshake of TLS and a request with the token
};

// A connection, from its beginning to its end.
struct gate_entry {
  TAILQ_ENTRY(gate_entry) link;
  int fd;
  uint64_t due_ns;
  unsigned char address[16]; // IPv6, or IPv4 as a mapped one
  bool waits;                // it is in the list
  bool known;                // it has shown the token
};

struct server_gate {
  TAILQ_HEAD(, gate_entry) waiting; // oldest first
  size_t places, num_waiting, num_known;
};

void server_gate_init(struct server_gate *gate);

// A new connection. NULL: no memory. `*first`: none waited before it, so who minds the gate has to look again.
struct gate_entry *server_gate_enter(struct server_gate *gate, int fd, const struct sockaddr *address, uint64_t now_ns,
                                     bool *first);

// The connection has shown the token. False: as many have as may.
bool server_gate_admit(struct server_gate *gate, struct gate_entry *entry, size_t most);

// The connection ends: its socket is still open.
void server_gate_leave(struct server_gate *gate, struct gate_entry *entry);

// Cuts those whose time has passed; returns when to do so again, UINT64_MAX for never.
uint64_t server_gate_expire(struct server_gate *gate, uint64_t now_ns);

#endif
