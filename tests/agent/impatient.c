// Agents whose calls have next to no time: all at once they meet, publish and fetch, write, read back, cancel, forget
// each other, and close with everything in flight. Whatever was given up before, every call ends, and what a read finds
// in a slot is what the last write put there. Over shared memory, or the transport that the argument names.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "support/sanitized.h"

#include <weft/weft.h>

enum {
  ACTORS = 4,
  LIVES = SUPPORT_SANITIZED ? 8 : 16, // of each actor, one agent after the other
  FLIGHTS = 3,                        // of an actor at a time
  SLOT = 24 << 10,                    // bytes of a flight
  MOST_MS = 4,
  LONGEST_MS = 30000, // of a call, also on a loaded machine
  LEAST = 20,         // writes that all together verify: the last lives are as long as this takes, up to LONGEST_MS
};

static const char *transport = "shm";
static uint32_t most_life_ms = 150;

// A write to a slot of a peer, then a read of it. Each flight of each actor has its own slot in every peer.
struct flight {
  enum { IDLE, WRITES, READS } state;
  weft_peer_t peer;
  weft_dlist_t *written, *read, *remote;
  weft_transfer_t *transfer;
  uint64_t stamp; // that the slot is filled with
};

// A notification: those of one agent arrive in the order of their numbers.
struct news {
  uint64_t actor, number;
};

struct actor {
  uint32_t index;
  pthread_t thread;
  uint64_t random;
  _Atomic uint16_t port; // of its agent; 0: there is none
  weft_agent_t *agent;
  weft_region_t lent, own;
  uint8_t *lent_bytes, *own_bytes; // lent: [ACTORS][FLIGHTS][SLOT], own: [FLIGHTS] slots that are written, and read
  struct flight flights[FLIGHTS];
  uint64_t told; // number of its newest news
  struct {
    weft_peer_t peer;
    uint64_t number;
  } heard[ACTORS];                                         // the newest news of each actor
  uint32_t met, fetched, told_of, verified, failed, ended; // how many
  uint64_t began_ns, longest_ns;                           // of a call, of the longest one
  const char *longest;
  char error[400];
};

static struct actor actors[ACTORS];
static weft_store_t *store;
static atomic_uint verified; // writes, by all

static bool fail_actor(struct actor *actor, const char *what, const char *why) {
  if (!actor->error[0])
    snprintf(actor->error, sizeof actor->error, "%s: %s", what, why);
  return false;
}

static uint32_t draw(struct actor *actor, uint32_t below) {
  return (uint32_t)(random_next(&actor->random) % below);
}

static weft_agent_t *begin(struct actor *actor) {
  actor->began_ns = clock_ns();
  return actor->agent;
}

#define MAY(err) (1u << -(WEFT_ERR_##err))

// Whether the call that has begun ended in time, with 0, 1 or an error that it may have.
static bool is_fine(struct actor *actor, const char *call, int rc, uint32_t may) {
  uint64_t took_ns = clock_ns() - actor->began_ns;
  if (took_ns > actor->longest_ns) {
    actor->longest_ns = took_ns;
    actor->longest = call;
  }
  if (took_ns > LONGEST_MS * 1000000ull)
    return fail_actor(actor, call, "took too long");
  if (rc >= 0 || may >> -rc & 1)
    return true;
  char why[300];
  snprintf(why, sizeof why, "%s: %s", weft_err_name(rc), weft_last_error());
  return fail_actor(actor, call, why);
}

// --- what an actor does ---

static bool lend(struct actor *actor) {
  void *bytes;
  int rc = weft_agent_allocate(begin(actor), WEFT_MEMORY_HOST, ACTORS * FLIGHTS * SLOT, -1, &actor->lent, &bytes);
  actor->lent_bytes = bytes;
  return is_fine(actor, "allocate", rc, 0);
}

static bool open_agent(struct actor *actor) {
  char name[16];
  snprintf(name, sizeof name, "actor %u", actor->index);
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = name;
  options.transports = transport;
  options.heartbeat_ms = 20;
  options.peer_timeout_ms = 20000;
  options.listen = "127.0.0.1:0";
  options.token = "a token of impatient agents";
  options.store = store;
  options.prefix = "impatient/";
  begin(actor);
  if (!is_fine(actor, "open", weft_agent_open(&actor->agent, &options), 0) || !lend(actor))
    return false;
  void *bytes;
  int rc = weft_agent_allocate(begin(actor), WEFT_MEMORY_HOST, 2 * FLIGHTS * SLOT, -1, &actor->own, &bytes);
  uint16_t port = 0;
  if (!is_fine(actor, "allocate", rc, 0) || weft_agent_port(actor->agent, &port))
    return fail_actor(actor, "port", "none");
  actor->own_bytes = bytes;
  atomic_store(&actor->port, port);
  return true;
}

// At times long enough for a handshake, also under a sanitizer.
static uint32_t some_ms(struct actor *actor) {
  return draw(actor, MOST_MS << 3 * draw(actor, 4));
}

static uint32_t another(struct actor *actor) {
  return (actor->index + 1 + draw(actor, ACTORS - 1)) % ACTORS;
}

// EXISTS: an earlier agent of the other actor is still known.
static bool meet(struct actor *actor) {
  uint32_t other = another(actor);
  uint16_t port = atomic_load(&actors[other].port);
  if (port == 0) {
    usleep(100);
    return true;
  }
  char address[32];
  snprintf(address, sizeof address, "127.0.0.1:%u", port);
  weft_peer_t peer;
  int rc = weft_agent_meet(begin(actor), address, some_ms(actor), &peer);
  actor->met += rc == 0;
  return is_fine(actor, "meet", rc, MAY(TIMEOUT) | MAY(UNREACHABLE) | MAY(PEER_LOST) | MAY(EXISTS) | MAY(LIMIT));
}

// EXISTS: an earlier agent of this actor is still in the store.
static bool publish(struct actor *actor) {
  int rc = weft_agent_publish(begin(actor), NULL, NULL, some_ms(actor));
  return is_fine(actor, "publish", rc, MAY(TIMEOUT) | MAY(EXISTS));
}

static bool unpublish(struct actor *actor) {
  int rc = weft_agent_unpublish(begin(actor), NULL, some_ms(actor));
  return is_fine(actor, "unpublish", rc, MAY(TIMEOUT) | MAY(NOT_FOUND));
}

// UNREACHABLE: the other actor's agent has closed, and its key is about to go.
static bool fetch(struct actor *actor) {
  char name[16];
  snprintf(name, sizeof name, "actor %u", another(actor));
  weft_peer_t peer;
  int rc = weft_agent_fetch(begin(actor), name, NULL, some_ms(actor) / 8, &peer);
  actor->fetched += rc == 0;
  return is_fine(actor, "fetch", rc, MAY(TIMEOUT) | MAY(EXISTS) | MAY(UNREACHABLE));
}

// A peer, or 0.
static weft_peer_t some_peer(struct actor *actor) {
  weft_peer_t peers[2 * ACTORS];
  uint32_t count = 0;
  if (weft_agent_peers(actor->agent, peers, 2 * ACTORS, &count) || count == 0)
    return 0;
  return peers[draw(actor, count < 2 * ACTORS ? count : 2 * ACTORS)];
}

static bool tell(struct actor *actor) {
  weft_peer_t peer = some_peer(actor);
  if (!peer)
    return true;
  struct news news = {actor->index, ++actor->told};
  int rc = weft_agent_notify(begin(actor), peer, &news, sizeof news);
  actor->told_of += rc == 0;
  return is_fine(actor, "notify", rc, MAY(BUSY) | MAY(PEER_LOST) | MAY(NOT_FOUND));
}

static bool forget(struct actor *actor) {
  weft_peer_t peer = some_peer(actor);
  return !peer ||
         is_fine(actor, "invalidate", weft_agent_invalidate(begin(actor), peer), MAY(PEER_LOST) | MAY(NOT_FOUND));
}

static bool lend_other_memory(struct actor *actor) {
  return is_fine(actor, "deregister", weft_agent_deregister(begin(actor), actor->lent), 0) && lend(actor);
}

static bool take_news(struct actor *actor) {
  struct weft_notification taken[8];
  uint32_t count;
  if (!is_fine(actor, "notifications", weft_agent_notifications(begin(actor), taken, 8, &count), 0))
    return false;
  for (uint32_t i = 0; i < count; i++) {
    struct news news;
    if (taken[i].size != sizeof news)
      return fail_actor(actor, "notifications", "one of another size");
    memcpy(&news, taken[i].bytes, sizeof news);
    if (news.actor >= ACTORS || news.number == 0)
      continue; // of a transfer
    if (actor->heard[news.actor].peer == taken[i].peer && actor->heard[news.actor].number >= news.number)
      return fail_actor(actor, "notifications", "out of order, or twice");
    actor->heard[news.actor].peer = taken[i].peer;
    actor->heard[news.actor].number = news.number;
  }
  struct weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  while (weft_agent_next_event(actor->agent, &event) == 1)
    actor->ended += event.kind == WEFT_AGENT_EVENT_PEER_LEFT || event.kind == WEFT_AGENT_EVENT_PEER_LOST;
  return true;
}

// --- flights ---

static bool free_transfer(struct actor *actor, struct flight *flight) {
  int rc = weft_transfer_free(flight->transfer);
  flight->transfer = NULL;
  return rc == 0 || fail_actor(actor, "transfer_free", weft_last_error());
}

// The transfer has ended, or its agent has closed.
static bool land(struct actor *actor, struct flight *flight) {
  bool freed = free_transfer(actor, flight);
  if (weft_dlist_free(flight->written) || weft_dlist_free(flight->read) || weft_dlist_free(flight->remote))
    freed = fail_actor(actor, "dlist_free", weft_last_error());
  memset(flight, 0, sizeof *flight);
  return freed;
}

static uint8_t *slot_of(struct actor *actor, const struct flight *flight, bool read) {
  return actor->own_bytes + ((size_t)(flight - actor->flights) * 2 + read) * SLOT;
}

// The slot of a flight in the memory that a peer lends, if it lends any at present.
static bool find_slot(struct actor *actor, const struct flight *flight, struct weft_descriptor *slot) {
  struct weft_region_info info[4];
  uint32_t count = 0;
  if (weft_agent_regions(actor->agent, flight->peer, info, sizeof *info, 4, &count))
    return false;
  for (uint32_t i = 0; i < count && i < 4; i++) {
    if (info[i].length == ACTORS * FLIGHTS * SLOT) {
      uint64_t at = ((uint64_t)actor->index * FLIGHTS + (uint64_t)(flight - actor->flights)) * SLOT;
      *slot = (struct weft_descriptor){info[i].address + at, SLOT, info[i].region};
      return true;
    }
  }
  return false;
}

enum { GONE = MAY(PEER_LOST) | MAY(NOT_FOUND) | MAY(UNREACHABLE) };

// Makes and posts the flight's next transfer. Whatever the peer lacks by now ends the flight.
static bool post(struct actor *actor, struct flight *flight, enum weft_transfer_op op) {
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  struct news none = {0};
  options.timeout_ms = 1 + draw(actor, MOST_MS << 3 * draw(actor, 4));
  if (op == WEFT_TRANSFER_WRITE && draw(actor, 2)) {
    options.notification = &none;
    options.notification_size = sizeof none;
  }
  int rc = weft_transfer_create(begin(actor), op, op == WEFT_TRANSFER_READ ? flight->read : flight->written,
                                flight->remote, &options, &flight->transfer);
  if (!is_fine(actor, "transfer_create", rc, GONE))
    return false;
  if (rc == 0) {
    begin(actor);
    rc = weft_transfer_post(flight->transfer);
    if (!is_fine(actor, "transfer_post", rc, GONE | MAY(BUSY)))
      return false;
  }
  if (rc != 0)
    return land(actor, flight);
  flight->state = op == WEFT_TRANSFER_READ ? READS : WRITES;
  return true;
}

static bool take_off(struct actor *actor, struct flight *flight) {
  struct weft_descriptor slot;
  flight->peer = some_peer(actor);
  if (!flight->peer || !find_slot(actor, flight, &slot))
    return true;
  uint8_t *from = slot_of(actor, flight, false), *into = slot_of(actor, flight, true);
  flight->stamp = random_next(&actor->random);
  for (size_t i = 0; i < SLOT; i += sizeof flight->stamp)
    memcpy(from + i, &flight->stamp, sizeof flight->stamp);
  struct weft_descriptor written = {(uintptr_t)from, SLOT, actor->own}, read = {(uintptr_t)into, SLOT, actor->own};
  int rc = weft_dlist_create(begin(actor), flight->peer, &slot, 1, &flight->remote);
  if (!is_fine(actor, "dlist_create", rc, GONE))
    return false;
  if (rc != 0)
    return true;
  if (weft_dlist_create(actor->agent, WEFT_PEER_SELF, &written, 1, &flight->written) ||
      weft_dlist_create(actor->agent, WEFT_PEER_SELF, &read, 1, &flight->read))
    return fail_actor(actor, "dlist_create", weft_last_error());
  return post(actor, flight, WEFT_TRANSFER_WRITE);
}

static bool verify(struct actor *actor, struct flight *flight) {
  const uint8_t *read = slot_of(actor, flight, true);
  for (size_t i = 0; i < SLOT; i += sizeof flight->stamp)
    if (memcmp(read + i, &flight->stamp, sizeof flight->stamp) != 0)
      return fail_actor(actor, "read", "other bytes than the last write has left");
  actor->verified++;
  atomic_fetch_add(&verified, 1);
  return land(actor, flight);
}

// Waits a little for a flight, or cancels it, and goes on with it once its transfer has ended.
static bool go_on(struct actor *actor, struct flight *flight) {
  begin(actor);
  if (draw(actor, 4) == 0 &&
      !is_fine(actor, "cancel", weft_transfer_cancel(flight->transfer, draw(actor, MOST_MS)), MAY(TIMEOUT)))
    return false;
  int rc = weft_transfer_wait(flight->transfer, draw(actor, MOST_MS));
  if (!is_fine(actor, "wait", rc, GONE | MAY(TIMEOUT) | MAY(CANCELED)))
    return false;
  if (rc == 1)
    return true;
  if (rc != 0) {
    actor->failed++;
    return land(actor, flight);
  }
  if (flight->state == READS)
    return verify(actor, flight);
  return free_transfer(actor, flight) && post(actor, flight, WEFT_TRANSFER_READ);
}

static bool fly(struct actor *actor) {
  struct flight *flight = &actor->flights[draw(actor, FLIGHTS)];
  return flight->state == IDLE ? take_off(actor, flight) : go_on(actor, flight);
}

// --- lives ---

static bool step(struct actor *actor) {
  uint32_t drawn = draw(actor, 100);
  return drawn < 8    ? meet(actor)
         : drawn < 13 ? publish(actor)
         : drawn < 15 ? unpublish(actor)
         : drawn < 20 ? fetch(actor)
         : drawn < 25 ? tell(actor)
         : drawn < 35 ? take_news(actor)
         : drawn < 37 ? forget(actor)
         : drawn < 39 ? lend_other_memory(actor)
                      : fly(actor);
}

static void close_agent(struct actor *actor) {
  atomic_store(&actor->port, 0);
  weft_agent_close(begin(actor));
  is_fine(actor, "close", 0, 0);
  actor->agent = NULL;
  for (uint32_t f = 0; f < FLIGHTS; f++)
    land(actor, &actor->flights[f]);
  memset(actor->heard, 0, sizeof actor->heard);
}

static void *live(void *arg) {
  struct actor *actor = arg;
  bool good = true;
  for (uint32_t life = 1; life <= LIVES && good; life++) {
    good = open_agent(actor);
    uint64_t until = clock_deadline_ms(draw(actor, most_life_ms)), latest = clock_deadline_ms(LONGEST_MS);
    while (good && (!clock_passed(until) || (life == LIVES && atomic_load(&verified) < LEAST && !clock_passed(latest))))
      good = step(actor);
    close_agent(actor);
  }
  return NULL;
}

static void whatever_is_given_up_leaves_nothing_behind(void **state) {
  (void)state;
  uint64_t seed = random_id();
  print_message("seed %llu\n", (unsigned long long)seed);
  assert_int_equal(weft_store_open_local(&store), 0);
  for (uint32_t i = 0; i < ACTORS; i++) {
    actors[i] = (struct actor){.index = i, .random = random_mix(seed + i)};
    assert_int_equal(pthread_create(&actors[i].thread, NULL, live, &actors[i]), 0);
  }
  uint32_t failed = 0;
  bool good = true;
  for (uint32_t i = 0; i < ACTORS; i++) {
    struct actor *actor = &actors[i];
    pthread_join(actor->thread, NULL);
    print_message("actor %u: met %u, fetched %u, told %u, saw %u end; %u writes verified, %u transfers failed; longest "
                  "call: %s, %llu ms\n",
                  i, actor->met, actor->fetched, actor->told_of, actor->ended, actor->verified, actor->failed,
                  actor->longest, (unsigned long long)(actor->longest_ns / 1000000));
    if (actor->error[0])
      print_error("actor %u: %s\n", i, actor->error);
    good &= !actor->error[0];
    failed += actor->failed;
  }
  weft_store_close(store);
  assert_true(good);
  assert_true(atomic_load(&verified) >= LEAST && failed > 0);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    transport = argv[1];
    most_life_ms = 600; // a network takes longer to connect
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_is_given_up_leaves_nothing_behind)};
  return cmocka_run_group_tests_name("agent_impatient", tests, NULL, NULL);
}
