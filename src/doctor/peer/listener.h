// `weft doctor --listen`: the other side of `weft doctor --peer`.
#ifndef DOCTOR_PEER_LISTENER_H
#define DOCTOR_PEER_LISTENER_H

#include <stdint.h>

#include "secure/secret.h"

#define DOCTOR_PORT "5555" // the default

struct lobby;

struct doctor_listener {
  int fd;
  struct lobby *lobby; // callers that have sent nothing yet
  uint16_t port;
  uint8_t key[SECRET_KEY_SIZE];
};

struct doctor_connection;

// Listens at the port (0: any free port) on all IPv6 and IPv4 addresses for callers that have the token. SYSTEM, BUSY,
// NOMEM; INVALID: the token is malformed. Close with doctor_listener_close().
int doctor_listener_open(struct doctor_listener *listener, uint16_t port, const char *token);

// Answers callers that prove that they have the token, until `stop` is readable. It serves up to 16 at once, each for
// at most four times `timeout_ms`; more callers wait. admission.h says how callers without the token are limited.
void doctor_listener_serve(const struct doctor_listener *listener, int stop, uint32_t timeout_ms);

// Answers one caller, without a connection back to it.
void doctor_answer(const struct doctor_connection *connection, uint32_t timeout_ms);

void doctor_listener_close(struct doctor_listener *listener);

#endif
