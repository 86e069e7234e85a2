// Processes that have connected to a rank and are no link yet: how many there may be, how long each has for its
// handshake message, and how much processor time strangers may use. Only the service thread uses this.
#ifndef EP_SERVICE_CALLERS_H
#define EP_SERVICE_CALLERS_H

#include "ep/core/engine.h"
#include "ep/handshake/steps.h"

enum {
  // Callers of this host that have connected and sent nothing yet. A new one takes the place of the oldest.
  LOCAL_CALLERS = 64,
  // Callers from other hosts that have sent something (secure/lobby.h) and have not proved yet that they know the
  // claim.
  TCP_CALLERS = 64,
  PROVED_CALLERS = 32, // callers from other hosts that have proved it
};

enum {
  TAG_LISTENER = 1, // data of an event: a tag, or a link's address (aligned: its low bits are 0)
  TAG_WAKE = 2,
  TAG_CALLER = 3, // with the socket in the bits above it
  TAG_TCP_LISTENER = 4,
};

struct caller {
  int socket;
  bool tcp;
  uint64_t deadline_ns;
  uint64_t spent_ns;             // tcp: processor time used for it
  struct ep_handshake handshake; // tcp
};

// A listener, or the lobby of the listener for other hosts, and the cost of its callers.
struct listener {
  uint64_t muted_until_ns; // 0: it is watched
  uint64_t strangers_ns;   // processor time that strangers have cost since the last mute
};

struct callers {
  // There may be one too many new or proved callers until another one is disconnected.
  struct caller entry[LOCAL_CALLERS + TCP_CALLERS + PROVED_CALLERS + 2];
  int count;
  struct listener local, tcp;
  uint64_t strangers; // refused so far
};

// Accepts waiting calls, some at once, and disconnects callers for which there is no room.
void ep_callers_accept(weft_ep_t *ep, struct callers *callers, bool tcp);
// Handles what a caller has sent, or its hang-up. A handshake message makes the caller a link, or gets an answer.
void ep_callers_receive(weft_ep_t *ep, struct callers *callers, int socket);
// Disconnects callers that send no handshake message in time, and watches muted listeners again when their time is
// over. Returns the milliseconds to the next such deadline; -1: none.
int ep_callers_expire(weft_ep_t *ep, struct callers *callers);
// Disconnects all callers.
void ep_callers_end(weft_ep_t *ep, struct callers *callers);

#endif
