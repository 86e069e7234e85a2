// Callers of a listening doctor that have not yet shown the token.
//
// A caller that has sent the first message of a handshake (secure/lobby.h) gets one of DOCTOR_ADMISSION_PLACES, and
// DOCTOR_ADMISSION_MS for the rest of it, however slowly it sends. A newcomer that finds no free place takes that of
// the oldest caller that has not proved that it has the token. But each caller keeps its place for a moment, which is
// long enough for the second message of a lawful one. Meanwhile newcomers wait in the lobby, so the rate at which
// strangers are served has a bound too.
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
    struct doctor_connection connection; // without TLS until its handshake begins
    uint64_t begun_ns;
    short events;                     // that its handshake waits for
  } waiting[DOCTOR_ADMISSION_PLACES]; // the oldest first
};

// Waits for a caller that shows the token; the caller of this function then owns `*connection`. False: `stop` can be
// read.
bool doctor_admission_wait(struct doctor_admission *admission, int stop, struct doctor_connection *connection);

// Hangs up on all that wait.
void doctor_admission_close(struct doctor_admission *admission);

#endif
