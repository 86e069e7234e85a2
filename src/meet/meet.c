// Opens and closes a meeting, and has the calls that do not wait.
#include "meet/meet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "meet/state.h"
#include "run/common/own_address.h"
#include "store/limit.h"

enum {
  CLOSE_MS = MEET_TTL_S * 1000, // a slow store keeps nobody longer: then the lease ends without it
  CLOSE_AWAY_MS = 1500,         // nor for a store that does not answer
  CLOSE_PROBE_MS = 200,         // limit of probes of workers still in the store after a benchmark that fails
};

// The time limit for the calls to the store when the worker leaves. With the lock.
static void limit_leaving(struct meet *meet) {
  uint64_t limit_ns = clock_deadline_ms(meet->away_ns ? CLOSE_AWAY_MS : CLOSE_MS);
  if (meet->leaving && limit_ns < atomic_load(&meet->limit_ns))
    atomic_store(&meet->limit_ns, limit_ns);
}

static void on_watch(void *arg, const struct weft_store_event *event) {
  struct meet *meet = arg;
  pthread_mutex_lock(&meet->lock);
  if (event->kind == WEFT_STORE_EVENT_PUT)
    meet_state_put(meet, event->kv);
  else if (event->kind == WEFT_STORE_EVENT_DELETE)
    meet_state_delete(meet, event->kv->key);
  else if (event->kind == WEFT_STORE_EVENT_RESET)
    meet->reread = true;
  if (event->kind != WEFT_STORE_EVENT_LOST && event->kind != WEFT_STORE_EVENT_RESUMED)
    meet->revision = event->revision; // a lower one too: RESET may come from a store that was restarted empty
  if (event->kind == WEFT_STORE_EVENT_LOST && !meet->away_ns)
    meet->away_ns = clock_ns();
  else if (event->kind != WEFT_STORE_EVENT_LOST)
    meet->away_ns = 0;
  limit_leaving(meet);
  meet->changes++;
  meet_state_changed(meet);
  pthread_mutex_unlock(&meet->lock);
}

// Where a call that is refused was one to the dead, and to no other network.
static void describe_place(struct meet *meet) {
  char boot[BOOT_ID_SIZE];
  struct stat network = {0};
  boot_id_read(boot);
  stat("/proc/self/ns/net", &network);
  snprintf(meet->place, sizeof meet->place, "%s %llu", boot, (unsigned long long)network.st_ino);
}

static int check_options(const struct meet_options *options) {
  size_t size = options->prefix ? strlen(options->prefix) : 0;
  if (size == 0 || options->prefix[size - 1] != '/' || size > MEET_KEY_SIZE / 2)
    return fail(WEFT_ERR_INVALID,
                "the prefix of a benchmark's keys is \"%.80s\": want one that ends in '/', of at most "
                "%d characters",
                size ? options->prefix : "", MEET_KEY_SIZE / 2);
  if (options->size == 0 || options->size > MEET_MAX_WORKERS)
    return fail(WEFT_ERR_INVALID, "a benchmark has %u workers: want 1 to %d", options->size, MEET_MAX_WORKERS);
  return 0;
}

static void init_locks(struct meet *meet) {
  pthread_condattr_t monotonic;
  pthread_mutex_init(&meet->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&meet->changed, &monotonic);
  pthread_cond_init(&meet->work, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static int make(struct meet **out, const struct meet_options *options) {
  struct meet *meet = calloc(1, sizeof *meet);
  if (!meet)
    return fail(WEFT_ERR_NOMEM, "no memory for a meeting");
  init_locks(meet);
  meet->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  atomic_store(&meet->limit_ns, CLOCK_NEVER);
  meet->store = options->store;
  meet->size = options->size;
  meet->follows = options->follows;
  meet->interrupted = options->interrupted;
  meet->waiting = options->waiting;
  meet->arg = options->arg;
  meet->other = MEET_MAX_WORKERS;
  meet->rank = MEET_MAX_WORKERS; // none
  meet->prefix = strdup(options->prefix);
  meet->host = strdup(options->host ? options->host : "");
  // Their number is a setting like the others, and the first to be looked at.
  meet->settings = json_pack("{s:I}", "workers", (json_int_t)options->size);
  snprintf(meet->id, sizeof meet->id, "%016llx", (unsigned long long)random_id());
  describe_place(meet);
  *out = meet;
  if (meet->waker < 0)
    return fail_errno(errno, "cannot make the connections of a benchmark");
  bool whole = meet->prefix && meet->host && meet->settings &&
               (!options->settings || json_object_update_missing(meet->settings, (json_t *)options->settings) == 0);
  return whole ? 0 : fail(WEFT_ERR_NOMEM, "no memory for a meeting");
}

// The address at which the others call this worker.
static const char *choose_address(const struct meet *meet, const struct meet_options *options, char *own, size_t cap) {
  const char *store = weft_store_name(meet->store);
  if (options->address)
    return options->address;
  return strcmp(store, "local") == 0 || run_url_is_loopback(store) || !run_host_address(own, cap) ? "127.0.0.1" : own;
}

static int begin(struct meet *meet, const struct meet_options *options) {
  char own[MEET_ADDRESS_SIZE];
  struct weft_store_list *list = NULL;
  int err = meet_linker_start(meet, choose_address(meet, options, own, sizeof own));
  if (!err)
    err = weft_store_lease_grant(meet->store, MEET_TTL_S, &meet->lease, NULL);
  if (!err)
    err = meet_keeper_start(meet);
  if (!err)
    err = weft_store_range(meet->store, meet->prefix, true, 0, &list);
  if (err)
    return err;
  pthread_mutex_lock(&meet->lock);
  meet_state_read(meet, list);
  pthread_mutex_unlock(&meet->lock);
  err = weft_store_watch_open(meet->store, meet->prefix, list->revision + 1, on_watch, meet, &meet->watch);
  weft_store_list_free(list);
  return err;
}

int meet_open(struct meet **out, const struct meet_options *options) {
  struct meet *meet = NULL;
  uint64_t deadline_ns = clock_wait_deadline(options->timeout_ms);
  int err = check_options(options);
  if (!err)
    err = make(&meet, options);
  if (!err)
    err = begin(meet, options);
  if (!err) {
    pthread_mutex_lock(&meet->lock);
    err = meet_join(meet, deadline_ns);
    pthread_mutex_unlock(&meet->lock);
  }
  if (!err) {
    *out = meet;
    return 0;
  }
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", weft_last_error());
  meet_close(meet);
  return fail(err, "%s", why);
}

// Ends the leases of dead workers. After a death others may have died unnoticed, so each is probed.
static void clear_dead(struct meet *meet) {
  for (uint32_t rank = 0; rank < MEET_MAX_WORKERS && atomic_load(&meet->lost); rank++) {
    const struct meet_worker *worker = &meet->workers[rank];
    pthread_mutex_lock(&meet->lock);
    struct meet_worker copy = *worker; // its strings are not looked at
    pthread_mutex_unlock(&meet->lock);
    if (!copy.there || rank == meet->rank || strcmp(copy.meeting, meet->meeting) != 0)
      continue;
    if (copy.end == MEET_LOST ||
        meet_probe(copy.address, copy.id, strcmp(copy.place, meet->place) == 0, CLOSE_PROBE_MS) == MEET_DEAD)
      weft_store_lease_revoke(meet->store, copy.lease);
  }
}

static bool any_suspect(const struct meet *meet) {
  for (uint32_t rank = 0; rank < meet->size; rank++)
    if (meet->workers[rank].suspect)
      return true;
  return false;
}

// A worker that leaves because of a death names the dead worker, so the keeper first has to have checked the workers
// that seem dead. With the lock.
static void await_judgement(struct meet *meet) {
  while (meet->keeps && any_suspect(meet) && !clock_passed(atomic_load(&meet->limit_ns)))
    meet_sleep(meet, atomic_load(&meet->limit_ns));
}

static void leave(struct meet *meet) {
  char why[FAIL_DETAIL_SIZE]; // the caller may still want to say why it leaves
  snprintf(why, sizeof why, "%s", weft_last_error());
  store_limit_thread(&meet->limit_ns);
  pthread_mutex_lock(&meet->lock);
  meet->leaving = true;
  limit_leaving(meet);
  if (meet->joined)
    await_judgement(meet);
  bool joined = meet->joined, publishes = joined ? meet->workers[meet->rank].end == MEET_GOING : meet->claimed;
  uint32_t rank = meet->rank; // if this worker has not joined, the watch may still set it
  pthread_mutex_unlock(&meet->lock);
  if (publishes)
    meet_put_end(meet, rank, meet->id, "left", 0, "");
  if (joined)
    clear_dead(meet);
  meet_linker_stop(meet);
  meet_keeper_stop(meet);
  weft_store_watch_close(meet->watch);
  if (meet->lease)
    weft_store_lease_revoke(meet->store, meet->lease);
  store_limit_thread(NULL);
  fail(0, "%s", why);
}

void meet_close(struct meet *meet) {
  if (!meet)
    return;
  leave(meet);
  for (uint32_t i = 0; i < MEET_MAX_WORKERS; i++)
    meet_worker_free(&meet->workers[i]);
  if (meet->waker >= 0)
    close(meet->waker);
  pthread_cond_destroy(&meet->changed);
  pthread_cond_destroy(&meet->work);
  pthread_mutex_destroy(&meet->lock);
  json_decref(meet->settings);
  free(meet->difference);
  free(meet->prefix);
  free(meet->host);
  free(meet);
}

uint32_t meet_rank(const struct meet *meet) {
  return meet->rank;
}

uint32_t meet_size(const struct meet *meet) {
  return meet->size;
}

const char *meet_host(const struct meet *meet, uint32_t rank) {
  const char *host = rank < meet->size ? meet->workers[rank].host : NULL;
  return host ? host : "";
}

// A place begins with the boot id.
bool meet_same_machine(const struct meet *meet, uint32_t a, uint32_t b) {
  const char *one = meet->workers[a].place, *other = meet->workers[b].place;
  size_t size = strcspn(one, " "), others = strcspn(other, " ");
  if (size == 0 || others == 0)
    return strcmp(meet_host(meet, a), meet_host(meet, b)) == 0;
  return size == others && memcmp(one, other, size) == 0;
}

bool meet_same_host(const struct meet *meet, uint32_t a, uint32_t b) {
  return meet_same_machine(meet, a, b) && strcmp(meet_host(meet, a), meet_host(meet, b)) == 0;
}

bool meet_lost(const struct meet *given, uint32_t *rank, char *why, size_t cap) {
  struct meet *meet = (struct meet *)given; // its lock is taken
  if (!atomic_load_explicit(&meet->lost, memory_order_relaxed))
    return false;
  pthread_mutex_lock(&meet->lock);
  const struct meet_worker *worker = &meet->workers[meet->first];
  struct text who = {0};
  meet_add_name(meet, meet->first, &who);
  if (rank)
    *rank = meet->first;
  if (why)
    snprintf(why, cap, "%s %s: %s", who.data ? who.data : "a worker", worker->end == MEET_FAILED ? "failed" : "is lost",
             worker->why ? worker->why : "?");
  text_free(&who);
  pthread_mutex_unlock(&meet->lock);
  return true;
}

void meet_fail(struct meet *meet, int err, const char *sentence) {
  pthread_mutex_lock(&meet->lock);
  bool publishes = meet->joined && meet->workers[meet->rank].end == MEET_GOING;
  if (publishes) {
    meet->workers[meet->rank].end = MEET_FAILED;
    meet->workers[meet->rank].in_store = true;
  }
  pthread_mutex_unlock(&meet->lock);
  if (publishes)
    meet_put_end(meet, meet->rank, meet->id, "failed", err, sentence);
}
