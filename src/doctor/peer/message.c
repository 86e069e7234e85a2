// Messages of two doctors: to and from bytes, and over a connection.
#include "doctor/peer/message.h"

#include <arpa/inet.h>
#include <string.h>

static const uint8_t magic[8] = {'w', 'e', 'f', 't', 'd', 'o', 'c', '2'};

void doctor_message_pack(const struct doctor_message *message, uint8_t out[DOCTOR_MESSAGE]) {
  uint32_t mtu = htonl(message->mtu);
  uint16_t port = htons(message->back_port), back = htons((uint16_t)message->back);
  memcpy(out, magic, 8);
  memcpy(out + 8, message->nonce, DOCTOR_NONCE);
  memcpy(out + 24, &mtu, 4);
  memcpy(out + 28, &port, 2);
  memcpy(out + 30, &back, 2);
}

bool doctor_message_unpack(struct doctor_message *message, const uint8_t in[DOCTOR_MESSAGE]) {
  uint32_t mtu;
  uint16_t port, back;
  memcpy(&mtu, in + 24, 4);
  memcpy(&port, in + 28, 2);
  memcpy(&back, in + 30, 2);
  if (memcmp(in, magic, 8) != 0 || ntohs(back) > DOCTOR_UNREACHABLE || ntohl(mtu) > INT32_MAX)
    return false;
  memcpy(message->nonce, in + 8, DOCTOR_NONCE);
  message->mtu = ntohl(mtu);
  message->back_port = ntohs(port);
  message->back = (enum doctor_reach)ntohs(back);
  return true;
}

bool doctor_message_send(const struct doctor_connection *connection, const struct doctor_message *message,
                         uint64_t deadline) {
  uint8_t bytes[DOCTOR_MESSAGE];
  doctor_message_pack(message, bytes);
  return doctor_connection_send(connection, bytes, sizeof bytes, deadline);
}

bool doctor_message_receive(const struct doctor_connection *connection, struct doctor_message *message,
                            uint64_t deadline) {
  uint8_t bytes[DOCTOR_MESSAGE];
  return doctor_connection_receive(connection, bytes, sizeof bytes, deadline) && doctor_message_unpack(message, bytes);
}
