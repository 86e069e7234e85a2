// The other side of `weft doctor --peer`.
#ifndef DOCTOR_PEER_LISTEN_H
#define DOCTOR_PEER_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "secure/secret.h"

#define DOCTOR_PORT "5555" // when none is said

struct lobby;

struct doctor_listener {
  int fd;
  struct lobby *lobby; // who has called and not spoken
  uint16_t port;
  uint8_t key[SECRET_KEY_SIZE];
};

struct doctor_line;

// Listens at the port (0: any free one) of all addresses, IPv6 and IPv4, for callers that have the token. SYSTEM, BUSY,
// NOMEM; INVALID: it is no token. Close with doctor_listener_close().
int doctor_listener_open(struct doctor_listener *listener, uint16_t port, const char *token);

// Answers callers that show the token, up to 16 at once, each for at most four times `timeout_ms`, until `stop` can be
// read. What strangers cost: listener.h.
void doctor_listener_serve(const struct doctor_listener *listener, int stop, uint32_t timeout_ms);

// Answers one of them. `may_call`: it is called back.
void doctor_answer(const struct doctor_line *line, bool may_call, uint32_t timeout_ms);

void doctor_listener_close(struct doctor_listener *listener);

#endif
