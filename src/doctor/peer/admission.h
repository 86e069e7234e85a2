// Callers of a listening doctor that have not yet proved that they have the token.
//
// A caller that has sent the first message of a handshake (secure/lobby.h) gets one of DOCTOR_ADMISSION_PLACES, and
// DOCTOR_ADMISSION_MS for the rest of it, however slowly it sends. If no place is free, a newcomer takes the place of
// the oldest caller that has not yet proved that it has the token. But each caller keeps its place for a minimum time,
// which is long enough for the second message of a caller that has the token. Meanwhile newcomers wait in the lobby. So
// the rate at which callers without the token are served is bounded too.
#ifndef DOCTOR_PEER_ADMISSION_H
#define DOCTOR_PEER_ADMISSION_H

#include "doctor/peer/connection.h"

struct lobby;

enum { DOCTOR_ADMISSION_PLACES = 64, DOCTOR_ADMISSION_MS = 5000 };

struct doctor_admission {
  struct lobby *lobby; // NULL: no more callers come
  const uint8_t *key;
  int count;
  struct doctor_waiting {
    struct doctor_connection connection; // has no TLS until its handshake begins
    uint64_t begun_ns;
    short events;                     // poll() events that its handshake waits for
  } waiting[DOCTOR_ADMISSION_PLACES]; // the oldest first
};

// Waits for a caller that proves that it has the token; the caller of this function then owns `*connection`. False:
// `stop` is readable.
bool doctor_admission_wait(struct doctor_admission *admission, int stop, struct doctor_connection *connection);

// Closes the connections of all that wait.
void doctor_admission_close(struct doctor_admission *admission);

#endif
