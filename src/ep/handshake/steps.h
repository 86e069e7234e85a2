// What two ranks on different hosts exchange before there is a link between them: the handshake of TLS (secure/tls.h),
// by which each proves that it knows the called rank's claim, and one handshake message in each direction. Nothing here
// waits, so one thread can handle many handshakes. A caller that may wait calls the steps again when the socket is
// ready.
//
// The steps return 0 when they are done, an enum tls_wants when they have to be called again, else an error.
#ifndef EP_HANDSHAKE_STEPS_H
#define EP_HANDSHAKE_STEPS_H

#include "ep/link/handshake_wire.h"
#include "secure/tls.h"

#define EP_HANDSHAKE_PROTOCOL "weft ep 1"

// How far a handshake has come. If room is needed, those that have come least far are ended first.
enum ep_handshake_stage {
  EP_HANDSHAKE_ENDS,   // it was answered, and will not become a link
  EP_HANDSHAKE_SILENT, // it has connected
  EP_HANDSHAKE_BEGUN,  // it has sent something
  EP_HANDSHAKE_KNOWN,  // its first message was made by a holder of the key, but may be an old message that is replayed
  EP_HANDSHAKE_PROVED, // the handshake is over
};

struct ep_handshake {
  int socket;      // -1: it is a link's
  struct tls *tls; // NULL until the first bytes come
  enum ep_handshake_stage stage;
  struct ep_tcp_message *received; // allocated once the stage is PROVED
  size_t num_received, num_sent;   // bytes
};

// Begins a handshake over a connected socket, which `handshake` owns from here on.
void ep_handshake_begin(struct ep_handshake *handshake, int socket);
// `calls`: this side connected. AUTH: the other does not have the key.
int ep_handshake_prove(struct ep_handshake *handshake, bool calls, const uint8_t key[SECRET_KEY_SIZE]);
int ep_handshake_send(struct ep_handshake *handshake, const struct ep_tcp_message *message);
// Receives until a whole handshake message has arrived, or the head of one with another version or size.
int ep_handshake_recv(struct ep_handshake *handshake);
// Gives socket and TLS to the link, which has a remote.
void ep_handshake_give(struct ep_handshake *handshake, struct ep_link *link);
// Takes socket and TLS back from the link.
void ep_handshake_take_back(struct ep_handshake *handshake, struct ep_link *link);
// Closes and frees all that it still owns; legal at any time after ep_handshake_begin().
void ep_handshake_end(struct ep_handshake *handshake);

#endif
