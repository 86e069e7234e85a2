// Access to the embedded server: tokens, and limits for clients without one.
#include "store/server/gate.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { NETWORK = 8 }; // bytes of an IPv6 address that name the /64 network: one host has all addresses of it

void server_gate_init(struct server_gate *gate) {
  struct rlimit limit;
  *gate = (struct server_gate){.places = GATE_PLACES};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max / 4 < GATE_PLACES)
    gate->places = limit.rlim_max < 16 ? 4 : limit.rlim_max / 4;
  TAILQ_INIT(&gate->waiting);
}

static void note_address(struct gate_entry *entry, const struct sockaddr *address) {
  if (address && address->sa_family == AF_INET6) {
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    memcpy(entry->address, six, IN6_IS_ADDR_V4MAPPED(six) ? sizeof entry->address : NETWORK);
  } else if (address && address->sa_family == AF_INET) {
    entry->address[10] = entry->address[11] = 0xff;
    memcpy(entry->address + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
  }
}

static void take_out(struct server_gate *gate, struct gate_entry *entry) {
  if (!entry->waits)
    return;
  TAILQ_REMOVE(&gate->waiting, entry, link);
  gate->num_waiting--;
  entry->waits = false;
}

// libmicrohttpd closes the socket as soon as it sees that it is at its end.
static void cut(struct server_gate *gate, struct gate_entry *entry) {
  take_out(gate, entry);
  shutdown(entry->fd, SHUT_RDWR);
}

static void make_place(struct server_gate *gate, const struct gate_entry *newcomer) {
  struct gate_entry *entry, *oldest_of_its_own = NULL;
  size_t of_its_own = 0;
  TAILQ_FOREACH(entry, &gate->waiting, link) {
    if (memcmp(entry->address, newcomer->address, sizeof entry->address) != 0)
      continue;
    of_its_own++;
    if (!oldest_of_its_own)
      oldest_of_its_own = entry;
    if (of_its_own > gate->places / (GATE_PLACES / GATE_SHARE))
      break;
  }
  bool too_many = of_its_own > gate->places / (GATE_PLACES / GATE_SHARE);
  cut(gate, too_many ? oldest_of_its_own : TAILQ_FIRST(&gate->waiting));
}

struct gate_entry *server_gate_enter(struct server_gate *gate, int fd, const struct sockaddr *address, uint64_t now_ns,
                                     bool *first) {
  struct gate_entry *entry = calloc(1, sizeof *entry);
  if (!entry)
    return NULL;
  *entry = (struct gate_entry){.fd = fd, .due_ns = now_ns + GATE_TIME_S * UINT64_C(1000000000), .waits = true};
  note_address(entry, address);
  if (gate->num_waiting >= gate->places)
    make_place(gate, entry);
  *first = TAILQ_EMPTY(&gate->waiting);
  TAILQ_INSERT_TAIL(&gate->waiting, entry, link);
  gate->num_waiting++;
  return entry;
}

bool server_gate_admit(struct server_gate *gate, struct gate_entry *entry, size_t most) {
  if (entry->known)
    return true;
  if (gate->num_known >= most)
    return false;
  take_out(gate, entry);
  entry->known = true;
  gate->num_known++;
  return true;
}

void server_gate_leave(struct server_gate *gate, struct gate_entry *entry) {
  take_out(gate, entry);
  gate->num_known -= entry->known;
  free(entry);
}

uint64_t server_gate_expire(struct server_gate *gate, uint64_t now_ns) {
  struct gate_entry *entry;
  while ((entry = TAILQ_FIRST(&gate->waiting)) && entry->due_ns <= now_ns)
    cut(gate, entry);
  return entry ? entry->due_ns : UINT64_MAX;
}
