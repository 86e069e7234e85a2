// The other side of `weft doctor --peer`.
#ifndef DOCTOR_LISTEN_H
#define DOCTOR_LISTEN_H

#include <stdint.h>

#define DOCTOR_PORT "5555" // when none is said

struct doctor_listener {
  int fd;
  uint16_t port;
};

// Listens at the port (0: any free one) of all addresses, IPv6 and IPv4. SYSTEM or BUSY. Close with
// doctor_listener_close().
int doctor_listener_open(struct doctor_listener *listener, uint16_t port);

// Answers callers, up to 64 at once, each for at most `timeout_ms` a step, until `stop` can be read.
void doctor_listener_serve(const struct doctor_listener *listener, int stop, uint32_t timeout_ms);

void doctor_listener_close(struct doctor_listener *listener);

#endif
