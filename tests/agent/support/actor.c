// What an actor does: one random step after the other. What each call returns is checked.
#include "agent/support/actor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"

enum {
  SLOT = 24 << 10, // bytes of a round trip
  LENT = ACTORS * ACTOR_TRIPS * SLOT,
  MOST_MS = 4,
};

// ThreadSanitizer does not see the system calls by which liburing maps and unmaps rings. So two rings that were at one
// address, one after the other, look like a race.
#ifdef __SANITIZE_THREAD__
enum { HAS_FILE = false };
#else
enum { HAS_FILE = true };
#endif

// A notification: those of one agent arrive in the order of their numbers.
struct numbered {
  uint64_t actor, number;
};

static bool fail_actor(struct actor *actor, const char *what, const char *why) {
  if (!actor->error[0])
    snprintf(actor->error, sizeof actor->error, "%s: %s", what, why);
  return false;
}

uint32_t actor_draw(struct actor *actor, uint32_t below) {
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
    snprintf(actor->longest, sizeof actor->longest, "%s", call);
  }
  if (took_ns > ACTOR_LONGEST_MS * 1000000ull)
    return fail_actor(actor, call, "took too long");
  if (rc >= 0 || may >> -rc & 1)
    return true;
  char why[300];
  snprintf(why, sizeof why, "%s: %s", weft_err_name(rc), weft_last_error());
  return fail_actor(actor, call, why);
}

// --- what an actor does ---

static bool lend(struct actors *actors, struct actor *actor) {
  void *bytes;
  int rc = weft_agent_allocate(begin(actor), actors->lent, LENT, 0, &actor->lent, &bytes);
  return is_fine(actor, "allocate", rc, 0);
}

// A file that only this agent uses, and that never has a name: an actor that is killed leaves none behind.
static bool open_file(struct actor *actor) {
  if (!HAS_FILE)
    return true;
  const char *folder = getenv("TMPDIR");
  actor->fd = open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (actor->fd < 0) // a file system without such files
    actor->fd = memfd_create("actor", MFD_CLOEXEC);
  if (actor->fd < 0)
    return fail_actor(actor, "open", strerror(errno));
  struct weft_agent_memory file = WEFT_AGENT_MEMORY_INIT;
  file.kind = WEFT_MEMORY_FILE;
  file.flags = WEFT_MEMORY_FD | WEFT_MEMORY_NO_METADATA;
  file.fd = actor->fd;
  return is_fine(actor, "register", weft_agent_register(begin(actor), &file, &actor->file), 0);
}

static bool open_agent(struct actors *actors, struct actor *actor) {
  char name[16];
  snprintf(name, sizeof name, "actor %u", actor->index);
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = name;
  char transports[32];
  snprintf(transports, sizeof transports, "%s%s%s", actors->lent == WEFT_MEMORY_CUDA ? "shm," : "", actors->transport,
           HAS_FILE ? ",file" : "");
  options.transports = transports;
  options.progress = actor_draw(actor, 4) ? WEFT_AGENT_PROGRESS_THREAD : WEFT_AGENT_PROGRESS_NONE;
  options.heartbeat_ms = 20;
  options.peer_timeout_ms = 20000;
  options.listen = "127.0.0.1:0";
  options.token = "a token of impatient agents";
  options.store = actors->store;
  options.prefix = "impatient/";
  begin(actor);
  if (!is_fine(actor, "open", weft_agent_open(&actor->agent, &options), 0) || !lend(actors, actor) || !open_file(actor))
    return false;
  void *bytes;
  int rc = weft_agent_allocate(begin(actor), WEFT_MEMORY_HOST, 2 * ACTOR_TRIPS * SLOT, -1, &actor->own, &bytes);
  uint16_t port = 0;
  if (!is_fine(actor, "allocate", rc, 0) || weft_agent_port(actor->agent, &port))
    return fail_actor(actor, "port", "none");
  actor->own_bytes = bytes;
  atomic_store(&actor->port, port);
  return true;
}

// At times long enough for a handshake, also under a sanitizer.
static uint32_t some_ms(struct actor *actor) {
  return actor_draw(actor, MOST_MS << 3 * actor_draw(actor, 4));
}

static uint32_t another(struct actor *actor) {
  return (actor->index + 1 + actor_draw(actor, ACTORS - 1)) % ACTORS;
}

// EXISTS: an earlier agent of the other actor is still known.
static bool meet(struct actors *actors, struct actor *actor) {
  uint32_t other = another(actor);
  uint16_t port = atomic_load(&actors->list[other].port);
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
  return peers[actor_draw(actor, count < 2 * ACTORS ? count : 2 * ACTORS)];
}

static bool notify(struct actor *actor) {
  weft_peer_t peer = some_peer(actor);
  if (!peer)
    return true;
  struct numbered content = {actor->index, ++actor->last_sent};
  int rc = weft_agent_notify(begin(actor), peer, &content, sizeof content);
  return is_fine(actor, "notify", rc, MAY(BUSY) | MAY(PEER_LOST) | MAY(NOT_FOUND));
}

static bool connect_to(struct actor *actor) {
  weft_peer_t peer = some_peer(actor);
  if (!peer)
    return true;
  int rc = weft_agent_connect(begin(actor), peer, actor_draw(actor, MOST_MS));
  return is_fine(actor, "connect", rc, MAY(TIMEOUT) | MAY(PEER_LOST) | MAY(NOT_FOUND) | MAY(NOT_CONNECTED));
}

// What the agent knows of a peer, or of all of them.
static bool look(struct actor *actor) {
  weft_peer_t peer = some_peer(actor);
  struct weft_peer_info info = WEFT_PEER_INFO_INIT;
  struct weft_agent_stats stats = WEFT_AGENT_STATS_INIT;
  size_t size = 0;
  if (!peer)
    return is_fine(actor, "metrics", weft_agent_metrics(begin(actor), NULL, 0, &size), 0);
  return is_fine(actor, "peer", weft_agent_peer(begin(actor), peer, &info), MAY(NOT_FOUND)) &&
         is_fine(actor, "stats", weft_agent_get_stats(begin(actor), peer, &stats), MAY(PEER_LOST) | MAY(NOT_FOUND)) &&
         is_fine(actor, "check", weft_agent_check(begin(actor), peer), MAY(PEER_LOST) | MAY(NOT_FOUND));
}

static bool invalidate(struct actor *actor) {
  weft_peer_t peer = some_peer(actor);
  return !peer ||
         is_fine(actor, "invalidate", weft_agent_invalidate(begin(actor), peer), MAY(PEER_LOST) | MAY(NOT_FOUND));
}

static bool lend_anew(struct actors *actors, struct actor *actor) {
  return is_fine(actor, "deregister", weft_agent_deregister(begin(actor), actor->lent), 0) && lend(actors, actor);
}

// Each completion is of a post whose transfer has not been freed, and comes once.
static bool take_completions(struct actor *actor) {
  struct weft_completion done[8];
  uint32_t count;
  if (!is_fine(actor, "completions", weft_agent_completions(begin(actor), done, 8, &count), 0))
    return false;
  for (uint32_t i = 0; i < count; i++) {
    struct round_trip *trip = actor->trips, *end = actor->trips + ACTOR_TRIPS;
    while (trip < end && (trip->tag != done[i].tag || trip->transfer != done[i].transfer))
      trip++;
    if (trip == end)
      return fail_actor(actor, "completions", "one of no post, or twice");
    trip->tag = 0;
  }
  return true;
}

static bool take_notifications(struct actor *actor) {
  struct weft_notification taken[8];
  uint32_t count;
  if (!is_fine(actor, "notifications", weft_agent_notifications(begin(actor), taken, 8, &count), 0))
    return false;
  for (uint32_t i = 0; i < count; i++) {
    struct numbered content;
    if (taken[i].size != sizeof content)
      return fail_actor(actor, "notifications", "one of another size");
    memcpy(&content, taken[i].bytes, sizeof content);
    if (content.actor >= ACTORS || content.number == 0)
      continue; // of a transfer
    if (actor->received[content.actor].peer == taken[i].peer && actor->received[content.actor].number >= content.number)
      return fail_actor(actor, "notifications", "out of order, or twice");
    actor->received[content.actor].peer = taken[i].peer;
    actor->received[content.actor].number = content.number;
  }
  return true;
}

static bool take_events(struct actor *actor) {
  struct weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  while (weft_agent_next_event(actor->agent, &event) == 1)
    actor->ended += event.kind == WEFT_AGENT_EVENT_PEER_LEFT || event.kind == WEFT_AGENT_EVENT_PEER_LOST;
  return true;
}

static bool take_all(struct actor *actor) {
  return is_fine(actor, "progress", weft_agent_progress(begin(actor), NULL), 0) && take_notifications(actor) &&
         take_completions(actor) && take_events(actor);
}

// --- round trips ---

static bool free_transfer(struct actor *actor, struct round_trip *trip) {
  int rc = weft_transfer_free(trip->transfer);
  trip->transfer = NULL;
  trip->tag = 0;
  return rc == 0 || fail_actor(actor, "transfer_free", weft_last_error());
}

// The transfer has ended, or its agent has closed.
static bool end_trip(struct actor *actor, struct round_trip *trip) {
  bool freed = free_transfer(actor, trip);
  if (weft_dlist_free(trip->written) || weft_dlist_free(trip->read) || weft_dlist_free(trip->remote))
    freed = fail_actor(actor, "dlist_free", weft_last_error());
  memset(trip, 0, sizeof *trip);
  return freed;
}

static uint8_t *slot_of(struct actor *actor, const struct round_trip *trip, bool read) {
  return actor->own_bytes + ((size_t)(trip - actor->trips) * 2 + read) * SLOT;
}

// The slot of a trip in this agent's file, or in the memory that a peer lends, if it lends any at present.
static bool find_slot(struct actor *actor, const struct round_trip *trip, struct weft_descriptor *slot) {
  struct weft_region_info info[4];
  uint32_t count = 0;
  if (trip->peer == WEFT_PEER_SELF) {
    *slot = (struct weft_descriptor){(uint64_t)(trip - actor->trips) * SLOT, SLOT, actor->file};
    return true;
  }
  if (weft_agent_regions(actor->agent, trip->peer, info, sizeof *info, 4, &count))
    return false;
  for (uint32_t i = 0; i < count && i < 4; i++) {
    if (info[i].length == LENT) {
      uint64_t at = ((uint64_t)actor->index * ACTOR_TRIPS + (uint64_t)(trip - actor->trips)) * SLOT;
      *slot = (struct weft_descriptor){info[i].address + at, SLOT, info[i].region};
      return true;
    }
  }
  return false;
}

enum { GONE = MAY(PEER_LOST) | MAY(NOT_FOUND) | MAY(UNREACHABLE) };

// Makes and posts the trip's next transfer. Whatever the peer lacks by now ends the trip.
static bool post(struct actor *actor, struct round_trip *trip, enum weft_transfer_op op) {
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  struct numbered none = {0};
  options.timeout_ms = 1 + actor_draw(actor, MOST_MS << 3 * actor_draw(actor, 4));
  if (op == WEFT_TRANSFER_WRITE && trip->peer != WEFT_PEER_SELF && actor_draw(actor, 2)) {
    options.notification = &none;
    options.notification_size = sizeof none;
  }
  int rc = weft_transfer_create(begin(actor), op, op == WEFT_TRANSFER_READ ? trip->read : trip->written, trip->remote,
                                &options, &trip->transfer);
  if (!is_fine(actor, "transfer_create", rc, GONE))
    return false;
  if (rc == 0) {
    struct weft_post completed = WEFT_POST_INIT;
    completed.flags = WEFT_POST_COMPLETION;
    completed.tag = actor_draw(actor, 2) ? ++actor->last_tag : 0;
    begin(actor);
    rc = completed.tag ? weft_transfer_post_with(trip->transfer, &completed) : weft_transfer_post(trip->transfer);
    trip->tag = rc == 0 ? completed.tag : 0;
    if (!is_fine(actor, "transfer_post", rc, GONE | MAY(BUSY)))
      return false;
  }
  if (rc != 0)
    return end_trip(actor, trip);
  trip->state = op == WEFT_TRANSFER_READ ? TRIP_READS : TRIP_WRITES;
  return true;
}

static bool begin_trip(struct actor *actor, struct round_trip *trip) {
  struct weft_descriptor slot;
  trip->peer = HAS_FILE && actor_draw(actor, 4) == 0 ? WEFT_PEER_SELF : some_peer(actor);
  if (!trip->peer || !find_slot(actor, trip, &slot))
    return true;
  uint8_t *from = slot_of(actor, trip, false), *into = slot_of(actor, trip, true);
  trip->stamp = random_next(&actor->random);
  for (size_t i = 0; i < SLOT; i += sizeof trip->stamp)
    memcpy(from + i, &trip->stamp, sizeof trip->stamp);
  struct weft_descriptor written = {(uintptr_t)from, SLOT, actor->own}, read = {(uintptr_t)into, SLOT, actor->own};
  int rc = weft_dlist_create(begin(actor), trip->peer, &slot, 1, &trip->remote);
  if (!is_fine(actor, "dlist_create", rc, GONE))
    return false;
  if (rc != 0)
    return true;
  if (weft_dlist_create(actor->agent, WEFT_PEER_SELF, &written, 1, &trip->written) ||
      weft_dlist_create(actor->agent, WEFT_PEER_SELF, &read, 1, &trip->read))
    return fail_actor(actor, "dlist_create", weft_last_error());
  return post(actor, trip, WEFT_TRANSFER_WRITE);
}

static bool verify(struct actors *actors, struct actor *actor, struct round_trip *trip) {
  const uint8_t *read = slot_of(actor, trip, true);
  for (size_t i = 0; i < SLOT; i += sizeof trip->stamp)
    if (memcmp(read + i, &trip->stamp, sizeof trip->stamp) != 0)
      return fail_actor(actor, "read", "other bytes than the last write has left");
  actor->verified++;
  if (trip->peer != WEFT_PEER_SELF)
    atomic_fetch_add(&actors->verified, 1);
  return end_trip(actor, trip);
}

// Waits a little for a trip, or cancels it, and goes on with it once its transfer has ended.
static bool continue_trip(struct actors *actors, struct actor *actor, struct round_trip *trip) {
  begin(actor);
  if (actor_draw(actor, 4) == 0 &&
      !is_fine(actor, "cancel", weft_transfer_cancel(trip->transfer, actor_draw(actor, MOST_MS)), MAY(TIMEOUT)))
    return false;
  int rc = weft_transfer_wait(trip->transfer, actor_draw(actor, MOST_MS));
  if (!is_fine(actor, "wait", rc, GONE | MAY(TIMEOUT) | MAY(CANCELED)))
    return false;
  if (rc == 1)
    return true;
  if (rc != 0) {
    actor->failed++;
    return end_trip(actor, trip);
  }
  if (trip->state == TRIP_READS)
    return verify(actors, actor, trip);
  return free_transfer(actor, trip) && post(actor, trip, WEFT_TRANSFER_READ);
}

static bool advance_trip(struct actors *actors, struct actor *actor) {
  struct round_trip *trip = &actor->trips[actor_draw(actor, ACTOR_TRIPS)];
  return trip->state == TRIP_NONE ? begin_trip(actor, trip) : continue_trip(actors, actor, trip);
}

// --- lives ---

static bool step(struct actors *actors, struct actor *actor) {
  uint32_t drawn = actor_draw(actor, 100);
  if (drawn < 10 && actors->store)
    return drawn < 4 ? publish(actor) : drawn < 6 ? unpublish(actor) : fetch(actor);
  return drawn < 17   ? meet(actors, actor)
         : drawn < 23 ? notify(actor)
         : drawn < 35 ? take_all(actor)
         : drawn < 37 ? invalidate(actor)
         : drawn < 38 ? connect_to(actor)
         : drawn < 40 ? look(actor)
         : drawn < 42 ? lend_anew(actors, actor)
                      : advance_trip(actors, actor);
}

static void close_agent(struct actor *actor) {
  atomic_store(&actor->port, 0);
  weft_agent_close(begin(actor));
  is_fine(actor, "close", 0, 0);
  for (uint32_t f = 0; f < ACTOR_TRIPS; f++)
    end_trip(actor, &actor->trips[f]);
  if (actor->fd >= 0)
    close(actor->fd);
}

bool actor_live(struct actors *actors, struct actor *actor, uint32_t life_ms, uint32_t least) {
  actor->agent = NULL;
  actor->fd = -1;
  memset(actor->trips, 0, sizeof actor->trips);
  memset(actor->received, 0, sizeof actor->received);
  bool good = open_agent(actors, actor);
  uint64_t until_ns = clock_deadline_ms(life_ms), latest_ns = clock_deadline_ms(ACTOR_LONGEST_MS);
  while (good && (!clock_passed(until_ns) || (atomic_load(&actors->verified) < least && !clock_passed(latest_ns))))
    good = step(actors, actor);
  close_agent(actor);
  return good && !actor->error[0];
}

// --- all of them ---

void actors_init(struct actors *actors, const char *transport, uint64_t seed) {
  print_message("seed %llu\n", (unsigned long long)seed);
  memset(actors, 0, sizeof *actors);
  actors->transport = transport;
  actors->lent = strcmp(transport, "cuda") == 0 ? WEFT_MEMORY_CUDA : WEFT_MEMORY_HOST;
  for (uint32_t i = 0; i < ACTORS; i++) {
    actors->list[i].index = i;
    actors->list[i].random = random_mix(seed + i);
  }
}

bool actors_report(struct actors *actors) {
  bool good = true;
  for (uint32_t i = 0; i < ACTORS; i++) {
    struct actor *actor = &actors->list[i];
    print_message(
        "actor %u: met %u, fetched %u, saw %u end; %u writes verified, %u transfers failed; longest call: %s, "
        "%llu ms\n",
        i, actor->met, actor->fetched, actor->ended, actor->verified, actor->failed, actor->longest,
        (unsigned long long)(actor->longest_ns / 1000000));
    if (actor->error[0])
      print_error("actor %u: %s\n", i, actor->error);
    good &= !actor->error[0];
  }
  return good;
}
