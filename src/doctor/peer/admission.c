// Makes the handshakes of callers that have not yet proved that they have the token.
#include "doctor/peer/admission.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "secure/lobby.h"

enum {
  MOMENT_MS = 25,   // no caller loses its place before this
  PROVED_MS = 1000, // a caller whose first message has proved the token keeps its place until this
};

static void drop(struct doctor_admission *admission, int i) {
  doctor_connection_close(&admission->waiting[i].connection);
  admission->count--;
  memmove(&admission->waiting[i], &admission->waiting[i + 1],
          (size_t)(admission->count - i) * sizeof admission->waiting[0]);
}

static uint64_t age_ms(const struct doctor_waiting *one, uint64_t now_ns) {
  return (now_ns - one->begun_ns) / 1000000;
}

static bool has_proved(const struct doctor_waiting *one) {
  return one->connection.tls && tls_is_proved(one->connection.tls);
}

// The index of the caller whose place a newcomer takes; -1: none at this moment.
static int find_next(const struct doctor_admission *admission, uint64_t now_ns) {
  for (int i = 0; i < admission->count; i++)
    if (!has_proved(&admission->waiting[i]) && age_ms(&admission->waiting[i], now_ns) >= MOMENT_MS)
      return i;
  return admission->count > 0 && age_ms(&admission->waiting[0], now_ns) >= PROVED_MS ? 0 : -1;
}

static bool has_room(const struct doctor_admission *admission, uint64_t now_ns) {
  return admission->count < DOCTOR_ADMISSION_PLACES || find_next(admission, now_ns) >= 0;
}

static void accept_caller(struct doctor_admission *admission, uint64_t now_ns) {
  struct lobby_caller caller;
  if (!lobby_next(admission->lobby, &caller))
    return;
  if (admission->count == DOCTOR_ADMISSION_PLACES)
    drop(admission, find_next(admission, now_ns));
  admission->waiting[admission->count++] =
      (struct doctor_waiting){.connection.fd = caller.fd, .begun_ns = now_ns, .events = POLLIN};
}

// Continues a handshake: 0 when it is complete, an enum tls_wants while it waits, or an error.
static int go_on(struct doctor_waiting *one, const uint8_t *key) {
  int rc = one->connection.tls ? 0 : tls_open(&one->connection.tls, one->connection.fd, false, DOCTOR_PROTOCOL, key);
  if (rc == 0)
    rc = tls_handshake(one->connection.tls);
  if (rc > 0)
    one->events = rc == TLS_WANTS_WRITE ? POLLOUT : POLLIN;
  return rc;
}

// Continues every handshake that is ready. True: one is complete, and `*connection` is its connection.
static bool serve(struct doctor_admission *admission, const struct pollfd *ready, uint64_t now_ns,
                  struct doctor_connection *connection) {
  for (int i = admission->count - 1; i >= 0; i--) {
    struct doctor_waiting *one = &admission->waiting[i];
    int rc = age_ms(one, now_ns) >= DOCTOR_ADMISSION_MS ? WEFT_ERR_TIMEOUT
             : ready[i].revents                         ? go_on(one, admission->key)
                                                        : TLS_WANTS_READ;
    if (rc == 0) {
      *connection = one->connection;
      one->connection = (struct doctor_connection){.fd = -1};
    }
    if (rc <= 0)
      drop(admission, i);
    if (rc == 0)
      return true;
  }
  return false;
}

bool doctor_admission_wait(struct doctor_admission *admission, int stop, struct doctor_connection *connection) {
  for (;;) {
    struct pollfd ready[2 + DOCTOR_ADMISSION_PLACES] = {{.fd = stop, .events = POLLIN}};
    bool room = has_room(admission, clock_ns());
    ready[1] = (struct pollfd){.fd = room && admission->lobby ? lobby_fd(admission->lobby) : -1, .events = POLLIN};
    for (int i = 0; i < admission->count; i++)
      ready[2 + i] = (struct pollfd){.fd = admission->waiting[i].connection.fd, .events = admission->waiting[i].events};
    int most = !room ? MOMENT_MS : admission->count > 0 ? DOCTOR_ADMISSION_MS : -1;
    if ((poll(ready, 2 + (nfds_t)admission->count, most) < 0 && errno != EINTR) || ready[0].revents)
      return false;
    uint64_t now = clock_ns();
    if (serve(admission, ready + 2, now, connection))
      return true;
    if (ready[1].revents && has_room(admission, now))
      accept_caller(admission, now);
  }
}

void doctor_admission_close(struct doctor_admission *admission) {
  while (admission->count > 0)
    drop(admission, admission->count - 1);
}
