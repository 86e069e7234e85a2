// Addresses of sockets: listening at one, comparing two, and the interface that has one.
#ifndef DOCTOR_PEER_ADDRESS_H
#define DOCTOR_PEER_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "topology/choice/choice.h"

bool doctor_same_address(const struct sockaddr *a, const struct sockaddr *b); // ignores the ports

// Opens a socket that listens at the address; port 0 means any free port. -1 with errno.
int doctor_listen_at(const struct sockaddr *address, socklen_t size);
uint16_t doctor_port_of(int fd); // the socket's own port

// Gets the name and the MTU of the interface that has the socket's own address. The MTU is 0 if it is not known.
int doctor_interface_of(int fd, char name[TOPOLOGY_NAME]);

#endif
