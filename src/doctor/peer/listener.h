// The door of a listening doctor: callers stand there until they have shown the token.
//
// Who has said the first message of a handshake (secure/lobby.h) gets one of DOCTOR_DOOR places, and DOCTOR_DOOR_MS for
// the rest, however slowly it speaks. A newcomer for whom there is no place takes that of the one that came first, of
// those that have proved nothing; but everybody has a moment in which that does not happen, enough for a lawful
// caller's second message. Callers wait in the lobby meanwhile, so the rate at which strangers are heard has a bound
// too.
#ifndef DOCTOR_PEER_LISTENER_H
#define DOCTOR_PEER_LISTENER_H

#include "doctor/peer/wire.h"

enum { DOCTOR_DOOR = 64, DOCTOR_DOOR_MS = 5000 };

struct doctor_door {
  struct lobby *lobby; // NULL: nobody comes
  const uint8_t *key;
  int count;
  struct doctor_waiting {
    struct doctor_line line; // without TLS until it is looked at
    uint64_t begun_ns;
    short events;         // that its handshake waits for
  } waiting[DOCTOR_DOOR]; // the oldest first
};

// Waits for a caller that shows the token. False: `stop` can be read. The line is the caller's of this.
bool doctor_door_wait(struct doctor_door *door, int stop, struct doctor_line *line);
// Hangs up on all that stand there.
void doctor_door_close(struct doctor_door *door);

#endif
