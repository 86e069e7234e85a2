// A caller, or one that is called, that is no agent: whatever bytes, or whatever messages behind the handshake, as one
// says them who has the token and lies. What TLS writes passes through this program, which may change it on its way.
#ifndef TESTS_AGENT_RAW_H
#define TESTS_AGENT_RAW_H

#include "agent/exchange/socket_connection.h"
#include "agent/support/crowd.h"

struct raw {
  struct tls *tls;
  int inner, outer;    // a pair: what TLS writes into the one is read from the other
  int fd;              // to the listener; -1: none
  bool flips, repeats; // the next piece that passes
  bool over;           // the listener has hung up
};

int raw_dial(uint16_t port); // 127.0.0.1
// Reads until the other side closes; returns how many bytes came. What does not fit is passed over.
size_t raw_read_out(int fd, uint8_t *bytes, size_t size);

void raw_begin(struct raw *raw, int fd, const char *token);
// Calls and goes through the handshake, as one that has the token.
void raw_open(struct raw *raw, uint16_t port);
// Accepts the next one that calls at this descriptor, likewise.
int raw_listen(uint16_t *port);
void raw_accept(struct raw *raw, int listener);
void raw_close(struct raw *raw);

// Passes on what is there.
void raw_pump(struct raw *raw);
// Passes on, until the listener says more.
void raw_await(struct raw *raw);
// Says bytes, as far as the listener takes them before it hangs up.
void raw_say_bytes(struct raw *raw, const void *bytes, size_t size);
void raw_say(struct raw *raw, enum connection_kind kind, const void *content, size_t size);
// The same with the length that a message claims.
void raw_say_length(struct raw *raw, uint32_t length, enum connection_kind kind, const void *content, size_t size);
// Reads what the listener says until it hangs up; returns how many bytes came.
size_t raw_hear(struct raw *raw, uint8_t *in, size_t room);

// Reads one message, its head included; returns its size. 0: the other has hung up.
size_t raw_take(struct raw *raw, uint8_t *in, size_t room);

// The proof of this side of the connection, or of the other, as the agent `as` makes it towards `to`.
void raw_prove(struct raw *raw, bool calls, bool of_caller, weft_agent_t *as, weft_agent_t *to,
               uint8_t proof[HMAC_SIZE]);
// Goes on as a caller that has said METADATA of `as` does: hears the listener's and says its own proof.
void raw_say_proof(struct raw *raw, weft_agent_t *as, weft_agent_t *listener);

// The content of METADATA of a caller: versions, and the agent's metadata. To be freed.
uint8_t *raw_metadata(weft_agent_t *agent, uint16_t version, uint16_t minimum, size_t *size);

// When the time of the only connection that the listener has is over, once it is there and has taken what came.
uint64_t raw_due(struct crowd_member *listener);

#endif
