// A caller, or a called side, that is no agent. It sends any bytes, or any messages after the handshake, like a peer
// that has the token and lies. The output of TLS passes through this program, which may change it.
#ifndef TESTS_AGENT_RAW_H
#define TESTS_AGENT_RAW_H

#include "agent/exchange/socket_connection.h"
#include "agent/support/crowd.h"

struct raw {
  struct tls *tls;
  int inner, outer;    // a pair of sockets: one end gets the output of TLS, the other is read
  int fd;              // connected to the listener; -1: none
  bool flips, repeats; // for the next piece
  bool over;           // the listener has closed
};

int raw_dial(uint16_t port); // 127.0.0.1
// Reads until the other side closes; returns how many bytes arrived. Bytes without room are dropped.
size_t raw_read_out(int fd, uint8_t *bytes, size_t size);

void raw_begin(struct raw *raw, int fd, const char *token);
// Connects and does the handshake as a caller that has the token.
void raw_open(struct raw *raw, uint16_t port);
// Accepts the next connection at this descriptor, and does the handshake as a side that has the token.
int raw_listen(uint16_t *port);
void raw_accept(struct raw *raw, int listener);
void raw_close(struct raw *raw);

// Forwards the bytes that are there.
void raw_pump(struct raw *raw);
// Forwards bytes until the listener sends more.
void raw_await(struct raw *raw);
// Sends bytes, until the listener closes.
void raw_say_bytes(struct raw *raw, const void *bytes, size_t size);
void raw_say(struct raw *raw, enum connection_kind kind, const void *content, size_t size);
// The same with a length that the message claims.
void raw_say_length(struct raw *raw, uint32_t length, enum connection_kind kind, const void *content, size_t size);
// Reads from the listener until it closes; returns how many bytes arrived.
size_t raw_hear(struct raw *raw, uint8_t *in, size_t room);

// Reads one message with its head; returns its size. 0: the other side has closed.
size_t raw_take(struct raw *raw, uint8_t *in, size_t room);

// The proof of this or the other side of the connection, as the agent `as` makes it for `to`.
void raw_prove(struct raw *raw, bool calls, bool of_caller, weft_agent_t *as, weft_agent_t *to,
               uint8_t proof[HMAC_SIZE]);
// Continues like a caller that has sent METADATA of `as`: receives the listener's proof and sends its own.
void raw_say_proof(struct raw *raw, weft_agent_t *as, weft_agent_t *listener);

// The content of METADATA of a caller: versions, and the agent's metadata. The caller frees it.
uint8_t *raw_metadata(weft_agent_t *agent, uint16_t version, uint16_t minimum, size_t *size);

// The time at which the only connection of the listener times out, after the listener has received everything.
uint64_t raw_due(struct crowd_member *listener);

#endif
