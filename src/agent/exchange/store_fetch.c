// The keys of other agents: read once, then watched from the revision behind that reading, so that no change and no
// deletion is missed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exchange/store_thread.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "store/limit.h"

static uint64_t ttl_ns(const struct agent_keeper *keeper) {
  return (uint64_t)keeper->agent->options.lease_ttl_s * 1000000000u;
}

static uint32_t chain_of(const char *name) {
  uint64_t hash = 0;
  for (; *name; name++)
    hash = random_mix(hash ^ (unsigned char)*name);
  return (uint32_t)(hash % KEEPER_NAMES);
}

static struct keeper_name *find(struct agent_keeper *keeper, const char *name) {
  struct keeper_name *found;
  SLIST_FOREACH(found, &keeper->names[chain_of(name)], chain)
  if (strcmp(found->name, name) == 0)
    break;
  return found;
}

static void add_todo(struct agent_keeper *keeper, struct keeper_name *name) {
  if (!name->todo)
    STAILQ_INSERT_TAIL(&keeper->todo, name, next);
  name->todo = true;
  keeper_poke(keeper);
}

static void drop_blob(struct keeper_name *name) {
  free(name->blob);
  name->blob = NULL;
}

// News of a key, from the watch or from a reading. NOMEM: it is as if it had not come. [lock]
static int take_value(struct agent_keeper *keeper, struct keeper_name *name, const struct weft_store_kv *kv) {
  size_t size = kv->value_len <= AGENT_MAX_BLOB ? kv->value_len : 0; // nothing of what is too large is kept
  void *blob = malloc(size + 1);
  if (!blob)
    return fail(WEFT_ERR_NOMEM, "no memory for the metadata of %s", name->name);
  memcpy(blob, kv->value, size);
  drop_blob(name);
  name->blob = blob;
  name->size = size;
  name->revision = kv->mod_revision;
  name->absent = false;
  add_todo(keeper, name);
  return 0;
}

static void take_absence(struct agent_keeper *keeper, struct keeper_name *name, int64_t revision) {
  uint64_t now = clock_ns();
  drop_blob(name);
  name->revision = revision;
  name->absent = true;
  name->absent_until = keeper->away || now < keeper->away_until ? now + ttl_ns(keeper) : 0;
  add_todo(keeper, name);
}

// The store was away for a while, so that leases may have run out.
static void is_back(struct agent_keeper *keeper) {
  if (keeper->away)
    keeper->away_until = clock_ns() + ttl_ns(keeper);
  keeper->must_renew |= keeper->away;
  keeper->away = false;
  keeper_poke(keeper);
}

static void forget_revisions(struct agent_keeper *keeper) {
  for (int i = 0; i < KEEPER_NAMES; i++) {
    struct keeper_name *name;
    SLIST_FOREACH(name, &keeper->names[i], chain)
    name->revision = 0;
  }
}

static void on_event(void *arg, const struct weft_store_event *event) {
  struct agent_keeper *keeper = arg;
  bool of_key = event->kind == WEFT_STORE_EVENT_PUT || event->kind == WEFT_STORE_EVENT_DELETE;
  pthread_mutex_lock(&keeper->lock);
  struct keeper_name *name = of_key ? find(keeper, event->kv.key + strlen(keeper->prefix)) : NULL;
  if (name && event->kv.mod_revision > name->revision) {
    bool put = event->kind == WEFT_STORE_EVENT_PUT;
    if (put && take_value(keeper, name, &event->kv) != 0) {
      keeper->must_read = true; // what the watch said once has to be asked for
      keeper_poke(keeper);
    } else if (!put)
      take_absence(keeper, name, event->kv.mod_revision);
  } else if (event->kind == WEFT_STORE_EVENT_LOST) {
    keeper->away = true;
  } else if (event->kind == WEFT_STORE_EVENT_RESUMED) {
    is_back(keeper);
  } else if (event->kind == WEFT_STORE_EVENT_RESET) {
    keeper->away = keeper->must_read = true;
    is_back(keeper);
    forget_revisions(keeper);
  }
  pthread_mutex_unlock(&keeper->lock);
}

// --- the thread ---

static bool lives(weft_agent_t *agent, weft_peer_t id) {
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *peer = id ? agent_peer_get(agent, id) : NULL;
  bool alive = peer && peer->state == AGENT_PEER_ALIVE;
  pthread_mutex_unlock(&agent->lock);
  return alive;
}

// An incarnation that has ended here is not loaded again because its key changes: it was found dead, or invalidated.
static int load(struct agent_keeper *keeper, const struct keeper_name *name, const void *blob, size_t size, bool asked,
                weft_peer_t *peer, uint64_t *incarnation) {
  struct agent_description *description;
  int err = agent_blob_read(blob, size, agent_seal(keeper->agent), &description);
  if (err)
    return err;
  bool alive = lives(keeper->agent, name->peer), same = description->incarnation == name->incarnation;
  *peer = name->peer;
  *incarnation = description->incarnation;
  if (strcmp(description->name, name->name) != 0)
    err = fail(WEFT_ERR_PROTOCOL, "under the name %s stands metadata of %s", name->name, description->name);
  else if (alive && !same)
    agent_peer_end(keeper->agent, name->peer, WEFT_AGENT_EVENT_PEER_LEFT,
                   "another incarnation has its name in the store");
  if (!err && (alive || asked || !same))
    err = agent_adopt(keeper->agent, description, 0, peer);
  free(description);
  return err;
}

// False: it has to be done again, later.
static bool do_value(struct agent_keeper *keeper, struct keeper_name *name) {
  void *blob = name->blob;
  size_t size = name->size;
  bool asked = name->asked;
  name->blob = NULL;
  weft_peer_t peer = 0;
  uint64_t incarnation = 0;
  pthread_mutex_unlock(&keeper->lock); // only this thread changes peer and incarnation
  int err = load(keeper, name, blob, size, asked, &peer, &incarnation);
  pthread_mutex_lock(&keeper->lock);
  bool again = err == WEFT_ERR_NOMEM && !asked && !name->blob && !name->absent;
  if (again)
    name->blob = blob;
  else
    free(blob);
  if (err)
    log_info("agent %s: %s", keeper->agent->name, weft_last_error());
  if (asked) { // who has asked meanwhile has the value read again, and waits for that one
    name->err = err;
    snprintf(name->why, sizeof name->why, "%s", err ? weft_last_error() : "");
    name->asked = err != 0;
    name->answered++;
  }
  if (!err) {
    name->peer = peer;
    name->incarnation = incarnation;
  }
  return !again;
}

static void do_absence(struct agent_keeper *keeper, struct keeper_name *name) {
  weft_peer_t peer = name->peer;
  name->absent = false;
  pthread_mutex_unlock(&keeper->lock);
  if (peer != 0)
    agent_peer_end(keeper->agent, peer, WEFT_AGENT_EVENT_PEER_LEFT, "its key has gone from the store");
  pthread_mutex_lock(&keeper->lock);
}

// Who is not in the store that came back has a lease's time to put its key again.
static int take_list(struct agent_keeper *keeper, const struct weft_store_list *list) {
  int err = 0;
  for (size_t i = 0; i < list->count; i++) {
    struct keeper_name *name = find(keeper, list->kvs[i].key + strlen(keeper->prefix));
    if (name && list->kvs[i].mod_revision > name->revision && take_value(keeper, name, &list->kvs[i]) != 0)
      err = WEFT_ERR_NOMEM;
  }
  if (err)
    return err; // it is read again
  for (int i = 0; i < KEEPER_NAMES; i++) {
    struct keeper_name *name;
    SLIST_FOREACH(name, &keeper->names[i], chain)
    if (name->revision == 0)
      take_absence(keeper, name, 0);
  }
  return 0;
}

static int read_all(struct agent_keeper *keeper) {
  struct weft_store_list list;
  int err = weft_store_range(keeper->store, keeper->prefix, true, 0, &list);
  if (err)
    return err;
  pthread_mutex_lock(&keeper->lock);
  err = take_list(keeper, &list);
  pthread_mutex_unlock(&keeper->lock);
  weft_store_list_free(&list);
  return err;
}

uint64_t fetch_tend(struct agent_keeper *keeper, uint64_t now_ns) {
  uint64_t due = UINT64_MAX, again = now_ns + (uint64_t)KEEPER_RETRY_MS * 1000000u;
  pthread_mutex_lock(&keeper->lock);
  bool read = keeper->must_read;
  keeper->must_read = false;
  pthread_mutex_unlock(&keeper->lock);
  if (read && read_all(keeper) != 0)
    due = again;
  pthread_mutex_lock(&keeper->lock);
  keeper->must_read |= due != UINT64_MAX;
  struct keeper_todo later = STAILQ_HEAD_INITIALIZER(later);
  struct keeper_name *name;
  while ((name = STAILQ_FIRST(&keeper->todo))) {
    STAILQ_REMOVE_HEAD(&keeper->todo, next);
    name->todo = false;
    uint64_t next = UINT64_MAX;
    if (name->blob)
      next = do_value(keeper, name) ? UINT64_MAX : again;
    else if (name->absent && now_ns >= name->absent_until)
      do_absence(keeper, name);
    else if (name->absent)
      next = name->absent_until;
    if (next != UINT64_MAX && !name->todo) {
      name->todo = true;
      STAILQ_INSERT_TAIL(&later, name, next);
    }
    due = next < due ? next : due;
  }
  STAILQ_CONCAT(&keeper->todo, &later);
  pthread_cond_broadcast(&keeper->changed);
  pthread_mutex_unlock(&keeper->lock);
  return due;
}

void fetch_free(struct agent_keeper *keeper) {
  for (int i = 0; i < KEEPER_NAMES; i++) {
    struct keeper_name *name;
    while ((name = SLIST_FIRST(&keeper->names[i]))) {
      SLIST_REMOVE_HEAD(&keeper->names[i], chain);
      drop_blob(name);
      free(name);
    }
  }
}

// --- weft_agent_fetch() ---

// One watch for the names of all agents: a connection for each would be too many.
static int need_watch(struct agent_keeper *keeper) {
  pthread_mutex_lock(&keeper->publishing);
  struct weft_store_list list = {0};
  int err = keeper->watch ? 0 : weft_store_range(keeper->store, keeper->prefix, true, 1, &list);
  if (!err && !keeper->watch)
    err = weft_store_watch_open(keeper->store, keeper->prefix, list.revision + 1, on_event, keeper, &keeper->watch);
  weft_store_list_free(&list);
  pthread_mutex_unlock(&keeper->publishing);
  return err;
}

// The name is known before its key is read: what the watch says meanwhile is newer than the reading.
static int ask(struct agent_keeper *keeper, const char *text, struct keeper_name **out, uint64_t *answered) {
  pthread_mutex_lock(&keeper->lock);
  struct keeper_name *name = find(keeper, text);
  if (!name && (name = calloc(1, sizeof *name))) {
    snprintf(name->name, sizeof name->name, "%s", text);
    SLIST_INSERT_HEAD(&keeper->names[chain_of(text)], name, chain);
  }
  if (name) {
    name->asked = true;
    name->waiting++;
    *answered = name->answered;
  }
  pthread_mutex_unlock(&keeper->lock);
  *out = name;
  return name ? 0 : fail(WEFT_ERR_NOMEM, "no memory to watch for agent %s", text);
}

static int read_one(struct agent_keeper *keeper, struct keeper_name *name) {
  char key[KEEPER_MAX_KEY];
  keeper_key(keeper, name->name, key);
  struct weft_store_list list;
  int err = weft_store_range(keeper->store, key, false, 0, &list);
  if (err)
    return err;
  pthread_mutex_lock(&keeper->lock);
  if (list.count > 0 && list.kvs[0].mod_revision >= name->revision)
    err = take_value(keeper, name, &list.kvs[0]);
  pthread_mutex_unlock(&keeper->lock);
  weft_store_list_free(&list);
  return err;
}

static int read_until(struct agent_keeper *keeper, struct keeper_name *name, uint64_t deadline_ns) {
  for (;;) {
    int err = need_watch(keeper);
    if (!err)
      err = read_one(keeper, name);
    if ((err != WEFT_ERR_UNREACHABLE && err != WEFT_ERR_TIMEOUT) || clock_passed(deadline_ns))
      return err;
    keeper_pause(keeper, deadline_ns);
  }
}

static int await(struct agent_keeper *keeper, struct keeper_name *name, uint64_t answered, uint64_t deadline_ns,
                 weft_peer_t *peer) {
  struct timespec until = clock_timespec(deadline_ns);
  int err = 0;
  pthread_mutex_lock(&keeper->lock);
  while (name->answered == answered && !keeper->stop && !clock_passed(deadline_ns))
    pthread_cond_timedwait(&keeper->changed, &keeper->lock, &until);
  if (name->answered == answered)
    err = fail(WEFT_ERR_TIMEOUT, "it has not put its metadata at %s%s of the store %s", keeper->prefix, name->name,
               weft_store_name(keeper->store));
  else if (name->err)
    err = fail(name->err, "%s", name->why);
  else
    *peer = name->peer;
  pthread_mutex_unlock(&keeper->lock);
  return err;
}

// Who gave up leaves the question to those who still wait.
static void withdraw(struct agent_keeper *keeper, struct keeper_name *name) {
  pthread_mutex_lock(&keeper->lock);
  if (--name->waiting == 0)
    name->asked = false;
  pthread_mutex_unlock(&keeper->lock);
}

int weft_agent_fetch(weft_agent_t *agent, const char *text, uint32_t timeout_ms, weft_peer_t *peer) {
  if (!agent || !text || !peer)
    return fail(WEFT_ERR_INVALID, "%s is NULL", !agent ? "agent" : !text ? "name" : "peer");
  if (!*text || strlen(text) >= WEFT_AGENT_MAX_NAME)
    return fail(WEFT_ERR_INVALID, "an agent's name has 1 to %d bytes", WEFT_AGENT_MAX_NAME - 1);
  if (strcmp(text, agent->name) == 0) {
    *peer = WEFT_PEER_SELF;
    return 0;
  }
  _Atomic uint64_t deadline = clock_deadline_ms(timeout_ms);
  struct agent_keeper *keeper;
  struct keeper_name *name = NULL;
  uint64_t answered = 0;
  int err = keeper_get(agent, &keeper);
  if (!err)
    err = ask(keeper, text, &name, &answered);
  if (err)
    return err;
  store_limit_thread(&deadline);
  err = read_until(keeper, name, deadline);
  store_limit_thread(NULL);
  if (!err)
    err = await(keeper, name, answered, deadline, peer);
  withdraw(keeper, name);
  return err ? fail_context(err, "fetching agent %s", text) : 0;
}
