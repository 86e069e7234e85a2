// The life of an actor: a client, and one random step after the other.
#include "store/impatient/step.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "cmocka_all.h"
#include "store/limit.h"
#include "support/wait.h"
#include <string.h>

enum { CALM_MS = 20000 }; // the time of a request when nothing is disturbed any more

uint32_t step_draw(struct actor *actor, uint32_t below) {
  return (uint32_t)(random_next(&actor->random) % below);
}

weft_store_t *step_begin(struct actor *actor) {
  bool limited = !atomic_load(&actor->world->calm) && step_draw(actor, 2);
  actor->generation = atomic_load(&actor->world->generation);
  atomic_store(&actor->limit_ns, limited ? clock_deadline_ms(step_draw(actor, 10)) : CLOCK_NEVER);
  actor->began_ns = clock_ns();
  return actor->store;
}

bool step_same_server(const struct actor *actor) {
  return actor->generation % 2 == 0 && atomic_load(&actor->world->generation) == actor->generation;
}

bool step_check(struct actor *actor, const char *call, const char *wrong) {
  if (wrong && !actor->error[0])
    snprintf(actor->error, sizeof actor->error, "%s: %s", call, wrong);
  if (wrong)
    atomic_store(&actor->failed, true);
  return !wrong;
}

bool step_is_fine(struct actor *actor, const char *call, int rc, uint32_t may) {
  uint64_t took_ns = clock_ns() - actor->began_ns;
  actor->calls++;
  actor->good += rc == 0;
  if (took_ns > actor->longest_ns) {
    actor->longest_ns = took_ns;
    snprintf(actor->longest, sizeof actor->longest, "%s", call);
  }
  if (took_ns > ACTOR_LONGEST_MS * UINT64_C(1000000))
    return step_check(actor, call, "took too long");
  may |= MAY(TIMEOUT) | MAY(UNREACHABLE);
  if (rc == 0 || may >> -rc & 1)
    return true;
  char why[480];
  snprintf(why, sizeof why, "%s: %s", weft_err_name(rc), weft_last_error());
  return step_check(actor, call, why);
}

void step_own_key(const struct actor *actor, char key[STEP_KEY]) {
  snprintf(key, STEP_KEY, ACTOR_PREFIX "own/%u", actor->index);
}

void step_lease_key(const struct actor *actor, char key[STEP_KEY]) {
  snprintf(key, STEP_KEY, ACTOR_PREFIX "lease/%u", actor->index);
}

// --- watches ---

static bool open_watch(struct actor *actor, struct watched *watched) {
  int64_t from = 0;
  if (step_draw(actor, 2)) {
    watched_begin(watched, &actor->world->generation);
  } else {
    struct weft_store_list *list = NULL;
    int rc = weft_store_range(step_begin(actor), ACTOR_PREFIX, true, 0, &list);
    if (!step_is_fine(actor, "range", rc, 0) || rc)
      return !actor->error[0];
    from = list->revision + 1;
    watched_begin_at(watched, list, &actor->world->generation, step_same_server(actor) ? actor->generation : 1);
    weft_store_list_free(list);
  }
  int rc = weft_store_watch_open(step_begin(actor), ACTOR_PREFIX, from, watched_take, watched, &watched->watch);
  actor->opened += rc == 0;
  return step_is_fine(actor, "watch_open", rc, 0);
}

static bool close_watch(struct actor *actor, struct watched *watched) {
  step_begin(actor);
  weft_store_watch_close(watched->watch);
  atomic_store(&watched->closed, true);
  watched->watch = NULL;
  actor->events += atomic_load(&watched->events);
  actor->losses += atomic_load(&watched->losses);
  actor->resets += atomic_load(&watched->resets);
  step_is_fine(actor, "watch_close", 0, 0);
  char why[200];
  const char *wrong = atomic_load(&watched->wrong);
  snprintf(why, sizeof why, "%s: %s", wrong ? wrong : "", watched->detail);
  return step_check(actor, "watch", wrong ? why : NULL);
}

bool step_watch(struct actor *actor) {
  struct watched *watched = &actor->watches[step_draw(actor, ACTOR_WATCHES)];
  return watched->watch ? close_watch(actor, watched) : open_watch(actor, watched);
}

static bool close_watches(struct actor *actor) {
  bool good = true;
  for (uint32_t i = 0; i < ACTOR_WATCHES; i++)
    if (actor->watches[i].watch)
      good = close_watch(actor, &actor->watches[i]) && good;
  return good;
}

// --- lives ---

static bool open_client(struct actor *actor, uint32_t request_ms) {
  struct world *world = actor->world;
  char endpoints[200];
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  uint32_t drawn = step_draw(actor, 4);
  snprintf(endpoints, sizeof endpoints, "%s%s%s", drawn == 0 ? world->dead : world->relayed, drawn < 2 ? "," : "",
           drawn == 0   ? world->relayed
           : drawn == 1 ? world->direct
                        : "");
  options.endpoints = drawn == 3 ? world->direct : endpoints;
  options.token = world->token;
  options.request_timeout_ms = request_ms;
  step_begin(actor);
  actor->owns = true;
  return step_is_fine(actor, "open", weft_store_open(&actor->store, &options), 0);
}

static bool begin(struct actor *actor) {
  static const uint32_t times_ms[] = {1, 3, 10, 30, 100, 300, 1000, 3000};
  actor->owns = false;
  actor->store = actor->world->shared;
  return step_draw(actor, 3) == 0 || open_client(actor, times_ms[step_draw(actor, 8)]);
}

// The watches before the client, or after it.
static bool end(struct actor *actor) {
  bool first = !actor->owns || step_draw(actor, 2), good = true;
  if (first)
    good = close_watches(actor);
  step_begin(actor);
  if (actor->owns)
    weft_store_close(actor->store);
  actor->store = NULL;
  step_is_fine(actor, "close", 0, 0);
  return close_watches(actor) && good;
}

static bool step(struct actor *actor) {
  uint32_t drawn = step_draw(actor, 100);
  char version[64];
  if (drawn < 3)
    return step_is_fine(actor, "version", weft_store_version(step_begin(actor), version, sizeof version, NULL), 0);
  return drawn < 20   ? step_read_one(actor)
         : drawn < 30 ? step_read_all(actor)
         : drawn < 45 ? step_put_own(actor)
         : drawn < 50 ? step_delete_own(actor)
         : drawn < 56 ? step_scratch(actor)
         : drawn < 71 ? step_count(actor)
         : drawn < 90 ? step_lease(actor)
                      : step_watch(actor);
}

bool actor_live(struct actor *actor, uint32_t life_ms) {
  store_limit_thread(&actor->limit_ns);
  atomic_store(&actor->limit_ns, CLOCK_NEVER);
  uint64_t until_ns = clock_deadline_ms(life_ms);
  bool good = begin(actor);
  while (good && !clock_passed(until_ns))
    good = step(actor);
  if (actor->store)
    good = end(actor) && good;
  store_limit_thread(NULL);
  return good && !actor->error[0];
}

static bool has_seen(void *arg) {
  struct actor *actor = arg;
  return atomic_load(&actor->watches[0].seen) >= actor->own.revision || atomic_load(&actor->watches[0].wrong);
}

static bool lease_is_over(void *arg) {
  struct actor *actor = arg;
  char key[STEP_KEY];
  struct weft_store_list *list = NULL;
  step_lease_key(actor, key);
  if (weft_store_range(step_begin(actor), key, false, 0, &list) != 0)
    return false;
  size_t count = list->count;
  weft_store_list_free(list);
  return count == 0;
}

static bool conclude(struct actor *actor) {
  struct watched *watched = &actor->watches[0];
  watched_begin(watched, &actor->world->generation);
  int rc = weft_store_watch_open(step_begin(actor), ACTOR_PREFIX, 0, watched_take, watched, &watched->watch);
  if (!step_check(actor, "watch_open in the calm", rc ? weft_last_error() : NULL) || !step_put_own(actor))
    return false;
  if (!actor->own.present)
    return step_check(actor, "put in the calm", "it failed");
  if (!support_wait(has_seen, actor, CALM_MS))
    return step_check(actor, "watch in the calm", "no event");
  if (!support_wait(lease_is_over, actor, CALM_MS))
    return step_check(actor, "lease", "a key outlives its lease");
  return step_read_all(actor) && step_whole_lease(actor);
}

bool actor_conclude(struct actor *actor) {
  bool good = !actor->error[0] && open_client(actor, CALM_MS) && conclude(actor);
  if (actor->store)
    good = end(actor) && good;
  return good;
}

// --- all of them ---

void actors_init(struct actor actors[ACTORS], struct world *world, uint64_t seed) {
  memset(actors, 0, ACTORS * sizeof *actors);
  for (uint32_t i = 0; i < ACTORS; i++) {
    actors[i].index = i;
    actors[i].world = world;
    actors[i].random = random_mix(seed + i);
    actors[i].own.generation = 1;
  }
}

bool actors_report(struct actor actors[ACTORS]) {
  bool good = true;
  for (uint32_t i = 0; i < ACTORS; i++) {
    struct actor *actor = &actors[i];
    print_message("actor %u: %u of %u calls succeeded, counted %u, %u leases ended, %u watches with %u events, %u "
                  "losses, %u resets; longest call: %s, %llu ms\n",
                  i, actor->good, actor->calls, actor->counted, actor->expired, actor->opened, actor->events,
                  actor->losses, actor->resets, actor->longest, (unsigned long long)(actor->longest_ns / 1000000));
    if (actor->error[0])
      print_error("actor %u: %s\n", i, actor->error);
    good &= !actor->error[0];
  }
  return good;
}
