// One end of a transport, for the tests of the suite.
#include "conformance/suite.h"

#include <poll.h>
#include <string.h>

#include "base/time/clock.h"

static void take_message(void *arg, const void *bytes, size_t size) {
  struct end *end = arg;
  end->messages++;
  if (end->hook)
    end->hook(end, bytes, size);
}

static void take_peer(void *arg, struct transport_peer *peer, int err, const char *why) {
  struct end *end = arg;
  assert_true(err < 0);
  assert_non_null(why);
  if (end->peer_events < MAX_PEER_EVENTS) {
    end->told[end->peer_events].peer = peer;
    end->told[end->peer_events].err = err;
    end->told[end->peer_events].messages = end->messages;
  }
  end->peer_events++;
}

void end_open(struct end *end) {
  memset(end, 0, sizeof *end);
  struct transport_options options = {.size = sizeof options,
                                      .on_message = take_message,
                                      .on_peer = take_peer,
                                      .arg = end,
                                      .settings = suite.settings,
                                      .owner = suite.owner};
  end->owner = suite.owner;
  assert_works(suite.transport->open(&options, &end->worker));
  assert_ptr_equal(end->worker->transport, suite.transport);
}

void end_close(struct end *end) {
  if (end->worker)
    suite.transport->close(end->worker);
  end->worker = NULL;
}

struct transport_peer *end_connect(struct end *from, struct end *to) {
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address;
  struct transport_peer *peer = NULL;
  assert_works(suite.transport->address(to->worker, address, &size));
  assert_true(size <= sizeof address);
  assert_works(suite.transport->connect(from->worker, address, size, to->owner, &peer));
  assert_non_null(peer);
  assert_ptr_equal(peer->worker, from->worker);
  return peer;
}

void pair_open(struct pair *pair, bool loopback) {
  memset(pair, 0, sizeof *pair);
  pair->a = &pair->ends[0];
  end_open(pair->a);
  if (loopback || HAS(SELF_ONLY)) {
    pair->b = pair->a;
    pair->to_a = pair->to_b = end_connect(pair->a, pair->a);
    return;
  }
  pair->b = &pair->ends[1];
  end_open(pair->b);
  pair->to_b = end_connect(pair->a, pair->b);
  pair->to_a = end_connect(pair->b, pair->a);
}

void pair_close(struct pair *pair) {
  end_close(pair->a);
  if (pair->b != pair->a)
    end_close(pair->b);
}

// Whether nothing is left to do for the end; if so, what tells that there is something again.
static bool end_sleeps(struct end *end, struct pollfd *wakes) {
  *wakes = (struct pollfd){.fd = -1, .events = POLLIN};
  if (!end || !end->worker)
    return true;
  wakes->fd = suite.transport->fd(end->worker);
  return !suite.transport->arm || suite.transport->arm(end->worker) == 0;
}

void ends_rest(struct end *a, struct end *b, int socket, uint32_t events, uint32_t *idle) {
  enum { SPIN_ROUNDS = 50, NAP_MS = 1 };
  *idle = events ? 0 : *idle + 1;
  struct pollfd wakes[3] = {{.fd = socket, .events = POLLIN}};
  if (*idle > SPIN_ROUNDS && end_sleeps(a, &wakes[1]) && end_sleeps(b == a ? NULL : b, &wakes[2]))
    poll(wakes, 3, NAP_MS);
}

uint32_t end_drive(struct end *end) {
  return end && end->worker ? suite.transport->progress(end->worker) : 0;
}

uint32_t pair_drive(struct pair *pair) {
  return end_drive(pair->a) + (pair->b != pair->a ? end_drive(pair->b) : 0);
}

void pair_drive_on(struct pair *pair, int times) {
  for (int i = 0; i < times; i++)
    pair_drive(pair);
}

void pair_sleep(struct pair *pair) {
  struct transport_worker *worker = pair->a->worker;
  if (suite.kind == WEFT_MEMORY_OBJECT && worker && suite.transport->arm(worker) == 0)
    poll(&(struct pollfd){.fd = suite.transport->fd(worker), .events = POLLIN}, 1, 10);
}

void pair_wait(struct pair *pair, bool (*condition)(void *arg), void *arg, const char *what) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  uint32_t idle = 0;
  while (!condition(arg)) {
    ends_rest(pair->a, pair->b, -1, pair_drive(pair), &idle);
    if (clock_passed(deadline_ns))
      fail_msg("waited in vain for %s", what);
  }
}
