// TCP connections between two doctors, with or without TLS. All sockets are non-blocking; deadlines are times of
// clock_ns().
#ifndef DOCTOR_PEER_CONNECTION_H
#define DOCTOR_PEER_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "doctor/report/facts.h"
#include "secure/tls.h"

#define DOCTOR_PROTOCOL "weft doctor 1" // both sides use this name to derive their key from the token

struct doctor_connection {
  int fd;
  struct tls *tls; // NULL: not encrypted
};

// Connects; *fd on success. Otherwise `*error` is an errno.
enum doctor_reach doctor_connect(const struct sockaddr *address, socklen_t size, uint64_t deadline, int *fd,
                                 int *error);
int doctor_accept(int listener, uint64_t deadline); // -1: the deadline passed

// Makes the TLS handshake over `fd`, which the connection owns from now on; `calls`: this side is the one that
// connected. AUTH: the other side does not have the key; TIMEOUT; PEER_LOST. Close it with doctor_connection_close()
// even after a failure.
int doctor_connection_open(struct doctor_connection *connection, int fd, bool calls, const uint8_t key[SECRET_KEY_SIZE],
                           uint64_t deadline);
void doctor_connection_close(struct doctor_connection *connection);

// Send or receive all of the bytes. False: the deadline passed, or the connection broke.
bool doctor_connection_send(const struct doctor_connection *connection, const void *data, size_t size,
                            uint64_t deadline);
bool doctor_connection_receive(const struct doctor_connection *connection, void *data, size_t size, uint64_t deadline);

#endif
