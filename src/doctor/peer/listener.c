// Callers of a listening doctor, until they have shown the token.
#include "doctor/peer/listener.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "secure/lobby.h"

enum {
  MOMENT_MS = 25,   // nobody is sent away before
  PROVED_MS = 1000, // likewise, who has shown the token in its first message
};

static void drop(struct doctor_door *door, int i) {
  doctor_line_close(&door->waiting[i].line);
  door->count--;
  memmove(&door->waiting[i], &door->waiting[i + 1], (size_t)(door->count - i) * sizeof door->waiting[0]);
}

static uint64_t age_ms(const struct doctor_waiting *one, uint64_t now_ns) {
  return (now_ns - one->begun_ns) / 1000000;
}

static bool has_proved(const struct doctor_waiting *one) {
  return one->line.tls && tls_is_proved(one->line.tls);
}

// Which one a newcomer takes the place of; -1: none, at this moment.
static int find_next(const struct doctor_door *door, uint64_t now_ns) {
  for (int i = 0; i < door->count; i++)
    if (!has_proved(&door->waiting[i]) && age_ms(&door->waiting[i], now_ns) >= MOMENT_MS)
      return i;
  return door->count > 0 && age_ms(&door->waiting[0], now_ns) >= PROVED_MS ? 0 : -1;
}

static bool has_room(const struct doctor_door *door, uint64_t now_ns) {
  return door->count < DOCTOR_DOOR || find_next(door, now_ns) >= 0;
}

static void let_stand(struct doctor_door *door, uint64_t now_ns) {
  struct lobby_caller caller;
  if (!lobby_next(door->lobby, &caller))
    return;
  if (door->count == DOCTOR_DOOR)
    drop(door, find_next(door, now_ns));
  door->waiting[door->count++] = (struct doctor_waiting){.line.fd = caller.fd, .begun_ns = now_ns, .events = POLLIN};
}

// Goes on with a handshake: 0 when it is over; enum tls_wants; a failure.
static int go_on(struct doctor_waiting *one, const uint8_t *key) {
  int rc = one->line.tls ? 0 : tls_open(&one->line.tls, one->line.fd, false, DOCTOR_PROTOCOL, key);
  if (rc == 0)
    rc = tls_handshake(one->line.tls);
  if (rc > 0)
    one->events = rc == TLS_WANTS_WRITE ? POLLOUT : POLLIN;
  return rc;
}

// Looks at all that stand there. True: one of them is `*line`.
static bool serve(struct doctor_door *door, const struct pollfd *ready, uint64_t now_ns, struct doctor_line *line) {
  for (int i = door->count - 1; i >= 0; i--) {
    struct doctor_waiting *one = &door->waiting[i];
    int rc = age_ms(one, now_ns) >= DOCTOR_DOOR_MS ? WEFT_ERR_TIMEOUT
             : ready[i].revents                    ? go_on(one, door->key)
                                                   : TLS_WANTS_READ;
    if (rc == 0) {
      *line = one->line;
      one->line = (struct doctor_line){.fd = -1};
    }
    if (rc <= 0)
      drop(door, i);
    if (rc == 0)
      return true;
  }
  return false;
}

bool doctor_door_wait(struct doctor_door *door, int stop, struct doctor_line *line) {
  for (;;) {
    struct pollfd ready[2 + DOCTOR_DOOR] = {{.fd = stop, .events = POLLIN}};
    bool room = has_room(door, clock_ns());
    ready[1] = (struct pollfd){.fd = room && door->lobby ? lobby_fd(door->lobby) : -1, .events = POLLIN};
    for (int i = 0; i < door->count; i++)
      ready[2 + i] = (struct pollfd){.fd = door->waiting[i].line.fd, .events = door->waiting[i].events};
    int most = !room ? MOMENT_MS : door->count > 0 ? DOCTOR_DOOR_MS : -1;
    if ((poll(ready, 2 + (nfds_t)door->count, most) < 0 && errno != EINTR) || ready[0].revents)
      return false;
    uint64_t now = clock_ns();
    if (serve(door, ready + 2, now, line))
      return true;
    if (ready[1].revents && has_room(door, now))
      let_stand(door, now);
  }
}

void doctor_door_close(struct doctor_door *door) {
  while (door->count > 0)
    drop(door, door->count - 1);
}
