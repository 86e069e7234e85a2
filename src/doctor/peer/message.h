// The messages between two doctors, within TLS 1.3 with a key derived from their common token (secure/tls.h). The
// caller sends a message with a nonce. The listener answers at once with the same nonce. If `back_port` is not 0, it
// tries to connect to this port of the caller, and sends the nonce there too, unencrypted. It answers a second time
// with the result. Then it sends DOCTOR_BULK bytes back as it received them.
//
// A message on the wire, big-endian: 8 bytes of magic "weftdoc2", 16 of nonce, u32 mtu, u16 back_port, u16 back.
#ifndef DOCTOR_PEER_MESSAGE_H
#define DOCTOR_PEER_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "doctor/peer/connection.h"

enum { DOCTOR_NONCE = 16, DOCTOR_MESSAGE = 32, DOCTOR_BULK = 256 * 1024 };

struct doctor_message {
  uint8_t nonce[DOCTOR_NONCE];
  uint32_t mtu;           // of the sender's interface towards the other side
  uint16_t back_port;     // of the caller; 0: do not try
  enum doctor_reach back; // in the listener's second answer: the result of its own connection
};

void doctor_message_pack(const struct doctor_message *message, uint8_t out[DOCTOR_MESSAGE]);
bool doctor_message_unpack(struct doctor_message *message, const uint8_t in[DOCTOR_MESSAGE]); // false: it is malformed

// False: the deadline passed, the connection broke, or the received message is malformed.
bool doctor_message_send(const struct doctor_connection *connection, const struct doctor_message *message,
                         uint64_t deadline);
bool doctor_message_receive(const struct doctor_connection *connection, struct doctor_message *message,
                            uint64_t deadline);

#endif
