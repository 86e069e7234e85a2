// A transport between workers of one process. Its requests end when a test says so.
#include "support/loop.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

struct loop loop;

struct worker {
  struct transport_worker base;
  uint64_t id;
  struct flight *first; // posted requests, oldest first
  struct peer *peers;
  struct region *regions;
  struct letter *letters, **end; // messages that have arrived
  struct worker *next;
  bool kill;
  char why[64];
};

struct letter {
  struct letter *next;
  size_t size;
  uint8_t bytes[];
};

struct region {
  struct transport_region base;
  struct region *next;
};

struct remote {
  struct transport_remote base;
  struct remote *next;
};

struct peer {
  struct transport_peer base;
  uint64_t to;
  struct remote *remotes;
  struct peer *next;
};

struct flight { // request->own
  struct transport_request *request;
  struct flight *next;
  bool posted, canceled;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of everything in this file
static struct worker *workers;
static uint64_t next_id = 1;

void loop_reset(void) {
  memset(&loop, 0, sizeof loop);
}

uint32_t loop_flying(void) {
  uint32_t count = 0;
  pthread_mutex_lock(&lock);
  for (struct worker *worker = workers; worker; worker = worker->next)
    for (struct flight *flight = worker->first; flight; flight = flight->next)
      count++;
  pthread_mutex_unlock(&lock);
  return count;
}

void loop_kill_peers(uint32_t back, const char *why) {
  pthread_mutex_lock(&lock);
  struct worker *worker = workers;
  while (worker && back-- > 0)
    worker = worker->next;
  if (worker) {
    snprintf(worker->why, sizeof worker->why, "%s", why);
    worker->kill = true;
  }
  pthread_mutex_unlock(&lock);
}

static struct worker *find(uint64_t id) {
  struct worker *worker = workers;
  while (worker && worker->id != id)
    worker = worker->next;
  return worker;
}

static int loop_probe(char *why, size_t cap) {
  (void)why, (void)cap;
  return 0;
}

static int open_as(const struct transport *transport, const struct transport_options *options,
                   struct transport_worker **made) {
  struct worker *worker = calloc(1, sizeof *worker);
  if (!worker)
    return fail(WEFT_ERR_NOMEM, "no memory");
  worker->base =
      (struct transport_worker){.transport = transport, .abilities = transport->abilities, .options = *options};
  worker->end = &worker->letters;
  pthread_mutex_lock(&lock);
  worker->id = next_id++;
  worker->next = workers;
  workers = worker;
  pthread_mutex_unlock(&lock);
  *made = &worker->base;
  return 0;
}

static int loop_open(const struct transport_options *options, struct transport_worker **worker) {
  return open_as(&transport_loop, options, worker);
}

static int free_open(const struct transport_options *options, struct transport_worker **worker) {
  return open_as(&transport_loop_free, options, worker);
}

static void unchain(struct worker *worker, struct flight *flight) {
  struct flight **place = &worker->first;
  while (*place && *place != flight)
    place = &(*place)->next;
  if (*place)
    *place = flight->next;
  flight->posted = false;
}

static void end(struct transport_request *request, int state, const char *why) {
  void (*done)(struct transport_request *) = request->done;
  snprintf(request->why, sizeof request->why, "%s", why);
  loop.ends++;
  atomic_store_explicit(&request->state, state, memory_order_release);
  if (done)
    done(request);
}

static void fill_status(struct transport_request *request, int32_t value) {
  for (uint32_t i = 0; request->status && i < request->num_pieces; i++)
    request->status[i] = value;
}

static void deliver(struct worker *to, const void *bytes, size_t size) {
  struct letter *letter = malloc(sizeof *letter + size);
  if (!letter)
    abort();
  letter->next = NULL;
  letter->size = size;
  memcpy(letter->bytes, bytes, size);
  *to->end = letter;
  to->end = &letter->next;
  loop.messages++;
}

// Moves the bytes, delivers the message and ends the request. [no lock]
static void move(struct transport_request *request) {
  int err = atomic_exchange(&loop.fail, 0);
  uint32_t bad = err != 0 ? atomic_load(&loop.fail_piece) : UINT32_MAX;
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    const struct transport_piece *piece = &request->pieces[i];
    void *here = (void *)(uintptr_t)piece->local_address, *there = (void *)(uintptr_t)piece->remote_address;
    bool write = request->op == WEFT_TRANSFER_WRITE;
    if (i != bad)
      memcpy(write ? there : here, write ? here : there, piece->length);
    if (request->status)
      request->status[i] = i == bad ? err : 0;
  }
  if (err == 0 && request->message_size > 0 && !atomic_load(&loop.mute)) {
    pthread_mutex_lock(&lock);
    struct worker *to = find(((struct peer *)request->peer)->to);
    if (to)
      deliver(to, request->message, request->message_size);
    pthread_mutex_unlock(&lock);
  }
  end(request, err, err != 0 ? "told to fail" : "");
}

static int loop_post(struct transport_request *request) {
  struct worker *worker = (struct worker *)request->peer->worker;
  struct flight *flight = request->own;
  int refused = atomic_exchange(&loop.refuse, 0);
  if (refused != 0) {
    atomic_store(&request->state, refused);
    return fail(refused, "told to refuse");
  }
  loop.posts++;
  flight->canceled = false;
  atomic_store(&request->state, TRANSPORT_IN_FLIGHT);
  if (!atomic_load(&loop.hold)) {
    move(request);
    return 0;
  }
  pthread_mutex_lock(&lock);
  flight->posted = true;
  flight->next = NULL;
  struct flight **place = &worker->first;
  while (*place)
    place = &(*place)->next;
  *place = flight;
  pthread_mutex_unlock(&lock);
  return 0;
}

static void loop_cancel(struct transport_request *request) {
  struct flight *flight = request->own;
  loop.cancels++;
  pthread_mutex_lock(&lock);
  flight->canceled = true;
  pthread_mutex_unlock(&lock);
}

// Removes the next request that has to end: a cancelled or a released one. It reads the test's controls once, before
// the list: if they changed in the middle of it, a later request would be released instead. [lock]
static struct flight *take_due(struct worker *worker, bool *canceled) {
  bool all = !atomic_load(&loop.hold), one = atomic_load(&loop.release) > 0, deaf = atomic_load(&loop.deaf);
  for (struct flight *flight = worker->first; flight; flight = flight->next) {
    *canceled = flight->canceled && !deaf;
    if (!*canceled && !all && !one)
      continue;
    if (!*canceled && !all)
      loop.release--;
    unchain(worker, flight);
    return flight;
  }
  return NULL;
}

static void hear_of_deaths(struct worker *worker) {
  pthread_mutex_lock(&lock);
  bool kill = worker->kill;
  worker->kill = false;
  pthread_mutex_unlock(&lock);
  for (struct peer *peer = worker->peers; kill && peer; peer = peer->next)
    if (worker->base.options.on_peer)
      worker->base.options.on_peer(worker->base.options.arg, &peer->base, WEFT_ERR_PEER_LOST, worker->why);
}

static uint32_t loop_progress(struct transport_worker *base) {
  struct worker *worker = (struct worker *)base;
  uint32_t events = 0;
  hear_of_deaths(worker);
  for (;;) {
    bool canceled = false;
    pthread_mutex_lock(&lock);
    struct flight *flight = take_due(worker, &canceled);
    struct letter *letter = flight ? NULL : worker->letters;
    if (letter) {
      worker->letters = letter->next;
      if (!worker->letters)
        worker->end = &worker->letters;
    }
    pthread_mutex_unlock(&lock);
    if (flight && canceled) {
      fill_status(flight->request, WEFT_ERR_CANCELED);
      end(flight->request, WEFT_ERR_CANCELED, "cancelled");
    } else if (flight) {
      move(flight->request);
    } else if (letter) {
      base->options.on_message(base->options.arg, letter->bytes, letter->size);
      loop.heard++;
      free(letter);
    } else {
      return events;
    }
    events++;
  }
}

static void loop_close(struct transport_worker *base) {
  struct worker *worker = (struct worker *)base;
  while (worker->first) {
    struct transport_request *request = worker->first->request;
    unchain(worker, worker->first);
    fill_status(request, WEFT_ERR_CANCELED);
    end(request, WEFT_ERR_CANCELED, "closed");
  }
  pthread_mutex_lock(&lock);
  struct worker **place = &workers;
  while (*place != worker)
    place = &(*place)->next;
  *place = worker->next;
  pthread_mutex_unlock(&lock);
  while (worker->letters) {
    struct letter *letter = worker->letters;
    worker->letters = letter->next;
    free(letter);
  }
  while (worker->peers)
    transport_loop.disconnect(&worker->peers->base);
  while (worker->regions)
    transport_loop.unreg(&worker->regions->base);
  free(worker);
}

static int loop_address(struct transport_worker *base, void *bytes, size_t *size) {
  memcpy(bytes, &((struct worker *)base)->id, 8);
  *size = 8;
  return 0;
}

static int loop_reg(struct transport_worker *base, const struct transport_memory *memory,
                    struct transport_region **made) {
  struct worker *worker = (struct worker *)base;
  struct region *region = calloc(1, sizeof *region);
  if (!region)
    return fail(WEFT_ERR_NOMEM, "no memory");
  region->base = (struct transport_region){.worker = base, .memory = *memory};
  region->next = worker->regions;
  worker->regions = region;
  *made = &region->base;
  return 0;
}

static void loop_unreg(struct transport_region *region) {
  struct region **place = &((struct worker *)region->worker)->regions;
  while (&(*place)->base != region)
    place = &(*place)->next;
  *place = (*place)->next;
  free(region);
}

static int loop_pack(struct transport_region *region, void *bytes, size_t *size) {
  uint64_t key[2] = {(uintptr_t)region->memory.address, region->memory.length};
  memcpy(bytes, key, sizeof key);
  *size = sizeof key;
  return 0;
}

static int loop_connect(struct transport_worker *base, const void *address, size_t size, const char *owner,
                        struct transport_peer **made) {
  (void)owner;
  struct worker *worker = (struct worker *)base;
  struct peer *peer = calloc(1, sizeof *peer);
  if (!peer)
    return fail(WEFT_ERR_NOMEM, "no memory");
  memcpy(&peer->to, address, size < 8 ? size : 8);
  peer->base.worker = base;
  peer->next = worker->peers;
  worker->peers = peer;
  *made = &peer->base;
  return 0;
}

static void loop_release(struct transport_remote *remote) {
  struct remote **place = &((struct peer *)remote->peer)->remotes;
  while (&(*place)->base != remote)
    place = &(*place)->next;
  *place = (*place)->next;
  free(remote);
}

static void loop_disconnect(struct transport_peer *base) {
  struct peer *peer = (struct peer *)base;
  struct peer **place = &((struct worker *)base->worker)->peers;
  while (*place != peer)
    place = &(*place)->next;
  *place = peer->next;
  while (peer->remotes)
    loop_release(&peer->remotes->base);
  free(peer);
}

static int loop_import(struct transport_peer *base, const void *bytes, size_t size, struct transport_remote **made) {
  uint64_t key[2];
  if (size != sizeof key)
    return fail(WEFT_ERR_PROTOCOL, "a key of %zu bytes", size);
  memcpy(key, bytes, size);
  struct remote *remote = calloc(1, sizeof *remote);
  if (!remote)
    return fail(WEFT_ERR_NOMEM, "no memory");
  remote->base = (struct transport_remote){.peer = base, .kind = WEFT_MEMORY_HOST, .address = key[0], .length = key[1]};
  remote->next = ((struct peer *)base)->remotes;
  ((struct peer *)base)->remotes = remote;
  *made = &remote->base;
  return 0;
}

static int loop_prepare(struct transport_request *request) {
  struct flight *flight = calloc(1, sizeof *flight);
  if (!flight)
    return fail(WEFT_ERR_NOMEM, "no memory");
  flight->request = request;
  request->own = flight;
  return 0;
}

static void loop_unprepare(struct transport_request *request) {
  struct flight *flight = request->own;
  if (flight->posted)
    abort(); // the request is in flight
  free(flight);
  request->own = NULL;
}

static int loop_fd(struct transport_worker *worker) {
  (void)worker;
  return -1;
}

static void loop_cost(struct transport_worker *worker, const struct transport_peer *peer, struct transport_cost *cost) {
  (void)worker, (void)peer;
  *cost = (struct transport_cost){.latency_ns = 100, .piece_ns = 10, .bytes_per_s = 1000000000};
}

#define LOOP_TABLE(NAME, OPEN, FLAGS)                                                                                  \
  {                                                                                                                    \
    .name = NAME, .what = "a test's",                                                                                  \
    .abilities = {.local_kinds = 1 << WEFT_MEMORY_HOST,                                                                \
                  .remote_kinds = 1 << WEFT_MEMORY_HOST,                                                               \
                  .max_pieces = 8,                                                                                     \
                  .flags = TRANSPORT_MESSAGES | TRANSPORT_ONE_SIDED | TRANSPORT_REPORTS_DEATH | (FLAGS)},              \
    .probe = loop_probe, .open = OPEN, .close = loop_close, .address = loop_address, .reg = loop_reg,                  \
    .unreg = loop_unreg, .pack = loop_pack, .connect = loop_connect, .disconnect = loop_disconnect,                    \
    .import = loop_import, .release = loop_release, .prepare = loop_prepare, .unprepare = loop_unprepare,              \
    .post = loop_post, .cancel = loop_cancel, .progress = loop_progress, .fd = loop_fd, .cost = loop_cost,             \
  }

const struct transport transport_loop = LOOP_TABLE("loop", loop_open, 0);
const struct transport transport_loop_free = LOOP_TABLE("free", free_open, TRANSPORT_CONCURRENT_POST);
