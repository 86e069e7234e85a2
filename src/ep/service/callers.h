// Processes that have connected to a rank and are no link yet: how many there may be, how long each has for its
// handshake message, and what strangers may cost. The service thread has them to itself.
#ifndef EP_SERVICE_CALLERS_H
#define EP_SERVICE_CALLERS_H

#include "ep/core/engine.h"
#include "ep/handshake/steps.h"

enum {
  LOCAL_CALLERS = 64,  // of this host that have connected and sent nothing yet: a new one has the oldest cut off
  TCP_CALLERS = 64,    // from other hosts: that have spoken (secure/lobby.h), until they have proved to know the claim
  PROVED_CALLERS = 32, // and from then on
};

enum {
  TAG_LISTENER = 1, // data of an event: a tag, or a link's address (aligned: its low bits are 0)
  TAG_WAKE = 2,
  TAG_CALLER = 3, // and the socket above it
  TAG_TCP_LISTENER = 4,
};

struct caller {
  int socket;
  bool tcp;
  uint64_t deadline_ns;
  uint64_t spent_ns;             // processor time, so tcp
  struct ep_handshake handshake; // tcp
};

// A listener, or the lobby of the one for other hosts, and those that it has brought.
struct door {
  uint64_t muted_until_ns; // 0: it is looked at
  uint64_t wasted_ns;      // on those that proved to be strangers, since the last mute
};

struct callers {
  // One too many of those that have just come, or proved what they know, until another is cut off.
  struct caller entry[LOCAL_CALLERS + TCP_CALLERS + PROVED_CALLERS + 2];
  int count;
  struct door local, tcp;
  uint64_t strangers; // so tcp
};

// Takes calls that have come, some at once, and cuts off callers that there is no room for.
void ep_callers_accept(weft_ep_t *ep, struct callers *callers, bool tcp);
// The caller has sent something, or hung up: a handshake message becomes a link, or is answered.
void ep_callers_receive(weft_ep_t *ep, struct callers *callers, int socket);
// Cuts off callers that send no handshake message in time, and looks at muted listeners again; the milliseconds to the
// next such deadline, -1 for none.
int ep_callers_expire(weft_ep_t *ep, struct callers *callers);
// Cuts all off.
void ep_callers_end(weft_ep_t *ep, struct callers *callers);

#endif
