// What two ranks on different hosts say before there is a link between them: the handshake of TLS (secure/tls.h), by
// which each proves that it knows the called rank's claim, and a greeting each way. Nothing here waits, so that one
// thread holds many conversations; who may wait calls the steps again when the socket is ready.
//
// The steps return 0 when they are done, an enum tls_wants when they have to be called again, else what is wrong.
#ifndef EP_HANDSHAKE_STEPS_H
#define EP_HANDSHAKE_STEPS_H

#include "ep/link/handshake_wire.h"
#include "secure/tls.h"

#define EP_TALK_PROTOCOL "weft ep 1"

// How far a caller has come. Who has come less far makes room first.
enum ep_talk_stage {
  EP_TALK_ENDS,   // it was answered, and is not to be a link
  EP_TALK_SILENT, // it has connected
  EP_TALK_BEGUN,  // it has said something
  EP_TALK_KNOWN,  // its first message was made by somebody who has the key; it may be an old one that is sent again
  EP_TALK_PROVED, // the handshake is over
};

struct ep_talk {
  int socket;      // -1: it is a link's
  struct tls *tls; // NULL until the first bytes come
  enum ep_talk_stage stage;
  struct ep_far_greeting *heard; // once it is proved
  size_t num_heard, num_said;    // bytes
};

// Begins over a connected socket, which belongs to `talk` from here on.
void ep_talk_begin(struct ep_talk *talk, int socket);
// `calls`: this side connected. AUTH: the other does not have the key.
int ep_talk_handshake(struct ep_talk *talk, bool calls, const uint8_t key[SECRET_KEY_SIZE]);
int ep_talk_say(struct ep_talk *talk, const struct ep_far_greeting *greeting);
// Until a whole greeting is there, or the head of one that has another version or size.
int ep_talk_hear(struct ep_talk *talk);
// Gives socket and TLS to the link, which has a remote.
void ep_talk_give(struct ep_talk *talk, struct ep_link *link);
// Takes them back from it.
void ep_talk_take_back(struct ep_talk *talk, struct ep_link *link);
// Closes and frees all that it still has; legal at any time after ep_talk_begin().
void ep_talk_end(struct ep_talk *talk);

#endif
