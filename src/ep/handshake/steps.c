// The steps of a handshake over TCP, none of which waits.
#include "ep/handshake/steps.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/fail.h"
#include "ep/remote/remote_link.h"

void ep_handshake_begin(struct ep_handshake *handshake, int socket) {
  *handshake = (struct ep_handshake){.socket = socket, .stage = EP_HANDSHAKE_SILENT};
}

int ep_handshake_prove(struct ep_handshake *handshake, bool calls, const uint8_t key[SECRET_KEY_SIZE]) {
  int rc = handshake->tls ? 0 : tls_open(&handshake->tls, handshake->socket, calls, EP_HANDSHAKE_PROTOCOL, key);
  if (rc != 0)
    return rc;
  handshake->stage = EP_HANDSHAKE_BEGUN;
  rc = tls_handshake(handshake->tls);
  if (rc > 0 && tls_is_proved(handshake->tls))
    handshake->stage = EP_HANDSHAKE_KNOWN;
  if (rc != 0)
    return rc;
  handshake->received = calloc(1, sizeof *handshake->received);
  if (!handshake->received)
    return fail(WEFT_ERR_NOMEM, "no memory for a handshake message");
  handshake->stage = EP_HANDSHAKE_PROVED;
  return 0;
}

int ep_handshake_send(struct ep_handshake *handshake, const struct ep_tcp_message *message) {
  while (handshake->num_sent < sizeof *message) {
    size_t sent = 0;
    int rc = tls_write(handshake->tls, (const char *)message + handshake->num_sent,
                       sizeof *message - handshake->num_sent, &sent);
    if (rc != 0)
      return rc;
    handshake->num_sent += sent;
  }
  return 0;
}

int ep_handshake_recv(struct ep_handshake *handshake) {
  while (!ep_tcp_message_is_whole(handshake->received, handshake->num_received)) {
    size_t got = 0;
    int rc = tls_read(handshake->tls, (char *)handshake->received + handshake->num_received,
                      sizeof *handshake->received - handshake->num_received, &got);
    if (rc != 0)
      return rc;
    handshake->num_received += got;
  }
  return 0;
}

void ep_handshake_give(struct ep_handshake *handshake, struct ep_link *link) {
  link->socket = handshake->socket;
  link->remote->tls = handshake->tls;
  handshake->socket = -1;
  handshake->tls = NULL;
}

void ep_handshake_take_back(struct ep_handshake *handshake, struct ep_link *link) {
  handshake->socket = link->socket;
  handshake->tls = link->remote->tls;
  link->socket = -1;
  link->remote->tls = NULL;
}

void ep_handshake_end(struct ep_handshake *handshake) {
  tls_close(handshake->tls);
  free(handshake->received);
  if (handshake->socket >= 0)
    close(handshake->socket);
  *handshake = (struct ep_handshake){.socket = -1};
}
