// What two doctors say to each other: within TLS 1.3 with a key of the token that both have (secure/tls.h). The caller
// sends a message with a nonce; the listener answers with the same nonce at once, tries to connect to the caller's port
// `back_port` (when it is not 0) and says the nonce there too, in clear, and answers a second time with the outcome.
// Then it sends back DOCTOR_BULK bytes as they came.
//
// A message on the wire, big-endian: 8 bytes of magic "weftdoc2", 16 of nonce, u32 mtu, u16 back_port, u16 back.
#ifndef DOCTOR_PEER_WIRE_H
#define DOCTOR_PEER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "doctor/report/facts.h"
#include "secure/tls.h"

#define DOCTOR_PROTOCOL "weft doctor 1"

enum { DOCTOR_NONCE = 16, DOCTOR_MESSAGE = 32, DOCTOR_BULK = 256 * 1024 };

struct doctor_message {
  uint8_t nonce[DOCTOR_NONCE];
  uint32_t mtu;           // of the sender's interface towards the other
  uint16_t back_port;     // of the caller; 0: do not try
  enum doctor_reach back; // of the listener's second answer
};

void doctor_message_pack(const struct doctor_message *message, uint8_t out[DOCTOR_MESSAGE]);
bool doctor_message_unpack(struct doctor_message *message, const uint8_t in[DOCTOR_MESSAGE]); // false: it is none

// All sockets are non-blocking. Deadlines are of clock_ns().

// Connects; *fd on success. Else tells `*error`, an errno.
enum doctor_reach doctor_connect(const struct sockaddr *address, socklen_t size, uint64_t deadline, int *fd,
                                 int *error);
int doctor_accept(int listener, uint64_t deadline); // -1: nobody came

// A connection; without TLS where `tls` is NULL.
struct doctor_line {
  int fd;
  struct tls *tls;
};

// Goes through the handshake over `fd`, which becomes the line's. AUTH: the other does not have the key; TIMEOUT;
// PEER_LOST. It is closed by doctor_line_close() whatever comes of it.
int doctor_line_open(struct doctor_line *line, int fd, bool calls, const uint8_t key[SECRET_KEY_SIZE],
                     uint64_t deadline);
void doctor_line_close(struct doctor_line *line);

bool doctor_send(const struct doctor_line *line, const void *data, size_t size, uint64_t deadline);
bool doctor_receive(const struct doctor_line *line, void *data, size_t size, uint64_t deadline);
bool doctor_send_message(const struct doctor_line *line, const struct doctor_message *message, uint64_t deadline);
bool doctor_receive_message(const struct doctor_line *line, struct doctor_message *message, uint64_t deadline);

bool doctor_same_address(const struct sockaddr *a, const struct sockaddr *b); // whatever the ports

// A socket that listens at the address, of which the port may be 0; -1 with errno.
int doctor_listen_at(const struct sockaddr *address, socklen_t size);
uint16_t doctor_port_of(int fd); // its own

// Name and MTU of the interface that has the socket's own address; 0 when it is not known.
int doctor_interface_of(int fd, char name[TOPOLOGY_NAME]);

#endif
