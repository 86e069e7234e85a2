// What two doctors send each other, within TLS 1.3 with a key of the token that both have (secure/tls.h). The caller
// sends a message with a nonce. The listener answers with the same nonce at once, tries to connect to the caller's port
// `back_port` (when it is not 0), sends the nonce there too, in clear, and answers a second time with the outcome. Then
// it sends back DOCTOR_BULK bytes as they came.
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
  enum doctor_reach back; // in the listener's second answer: how far its own connection got
};

void doctor_message_pack(const struct doctor_message *message, uint8_t out[DOCTOR_MESSAGE]);
bool doctor_message_unpack(struct doctor_message *message, const uint8_t in[DOCTOR_MESSAGE]); // false: it is malformed

// False: the deadline passed, the connection broke, or what was received is malformed.
bool doctor_message_send(const struct doctor_connection *connection, const struct doctor_message *message,
                         uint64_t deadline);
bool doctor_message_receive(const struct doctor_connection *connection, struct doctor_message *message,
                            uint64_t deadline);

#endif
