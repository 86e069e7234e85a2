// The keys of other agents: read once, then watched from the revision behind that reading, so that no change and no
// deletion is missed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/exchange/store_thread.h"
#include "agent/metadata/describe.h"
#include "agent/peer/load.h"
#include "agent/peer/table.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "store/limit.h"

static uint64_t ttl_ns(const struct agent_store_thread *store_thread) {
  return (uint64_t)store_thread->agent->options.lease_ttl_s * 1000000000u;
}

static uint32_t chain_of(const char *name) {
  return (uint32_t)(random_mix_text(0, name) % STORE_THREAD_NAMES);
}

static struct store_name *find(struct agent_store_thread *store_thread, const char *name) {
  struct store_name *found;
  SLIST_FOREACH(found, &store_thread->names[chain_of(name)], chain)
  if (strcmp(found->name, name) == 0)
    break;
  return found;
}

// The name that the key belongs to; NULL: none that was fetched. A store may return other keys than were asked for.
static struct store_name *name_of(struct agent_store_thread *store_thread, const struct weft_store_kv *kv) {
  size_t size = strlen(store_thread->prefix);
  bool within = strncmp(kv->key, store_thread->prefix, size) == 0;
  return within ? find(store_thread, kv->key + size) : NULL;
}

static void add_todo(struct agent_store_thread *store_thread, struct store_name *name) {
  if (!name->todo)
    STAILQ_INSERT_TAIL(&store_thread->todo, name, next);
  name->todo = true;
  store_thread_wake(store_thread);
}

static void drop_blob(struct store_name *name) {
  free(name->blob);
  name->blob = NULL;
}

// Handles the new state of a key, from the watch or from a read. NOMEM: the state is ignored. [lock]
static int take_value(struct agent_store_thread *store_thread, struct store_name *name,
                      const struct weft_store_kv *kv) {
  size_t size = kv->value_len <= AGENT_MAX_BLOB ? kv->value_len : 0; // a value that is too large is not kept
  void *blob = malloc(size + 1);
  if (!blob)
    return fail(WEFT_ERR_NOMEM, "no memory for the metadata of %s", name->name);
  memcpy(blob, kv->value, size);
  drop_blob(name);
  name->blob = blob;
  name->size = size;
  name->revision = kv->mod_revision;
  name->absent = false;
  add_todo(store_thread, name);
  return 0;
}

static void take_absence(struct agent_store_thread *store_thread, struct store_name *name, int64_t revision) {
  uint64_t now = clock_ns();
  drop_blob(name);
  name->revision = revision;
  name->absent = true;
  name->absent_until = store_thread->away || now < store_thread->away_until ? now + ttl_ns(store_thread) : 0;
  add_todo(store_thread, name);
}

// The store was away for a while, so that leases may have run out.
static void is_back(struct agent_store_thread *store_thread) {
  if (store_thread->away)
    store_thread->away_until = clock_ns() + ttl_ns(store_thread);
  store_thread->must_renew |= store_thread->away;
  store_thread->away = false;
  store_thread_wake(store_thread);
}

static void forget_revisions(struct agent_store_thread *store_thread) {
  for (int i = 0; i < STORE_THREAD_NAMES; i++) {
    struct store_name *name;
    SLIST_FOREACH(name, &store_thread->names[i], chain)
    name->revision = 0;
  }
}

static void on_event(void *arg, const struct weft_store_event *event) {
  struct agent_store_thread *store_thread = arg;
  bool of_key = event->kind == WEFT_STORE_EVENT_PUT || event->kind == WEFT_STORE_EVENT_DELETE;
  pthread_mutex_lock(&store_thread->lock);
  struct store_name *name = of_key ? name_of(store_thread, event->kv) : NULL;
  if (name && event->kv->mod_revision > name->revision) {
    bool put = event->kind == WEFT_STORE_EVENT_PUT;
    if (put && take_value(store_thread, name, event->kv) != 0) {
      store_thread->must_read = true; // the event of the watch is lost, so the key has to be read
      store_thread_wake(store_thread);
    } else if (!put)
      take_absence(store_thread, name, event->kv->mod_revision);
  } else if (event->kind == WEFT_STORE_EVENT_LOST) {
    store_thread->away = true;
  } else if (event->kind == WEFT_STORE_EVENT_RESUMED) {
    is_back(store_thread);
  } else if (event->kind == WEFT_STORE_EVENT_RESET) {
    store_thread->away = store_thread->must_read = true;
    is_back(store_thread);
    forget_revisions(store_thread);
  }
  pthread_mutex_unlock(&store_thread->lock);
}

// --- the thread ---

// An incarnation that has ended here is not loaded again because its key changes: it was found dead, or invalidated.
static int load(struct agent_store_thread *store_thread, const struct store_name *name, const void *blob, size_t size,
                bool asked, weft_peer_t *peer, uint64_t *incarnation) {
  struct agent_description *description;
  int err = agent_blob_read(blob, size, agent_seal(store_thread->agent), &description);
  if (err)
    return err;
  bool alive = agent_peer_lives(store_thread->agent, name->peer), same = description->incarnation == name->incarnation;
  *peer = name->peer;
  *incarnation = description->incarnation;
  size_t length = strlen(description->name); // the key's name may have a label behind it
  char behind = strncmp(description->name, name->name, length) == 0 ? name->name[length] : ' ';
  if ((behind != '\0' && behind != STORE_THREAD_SEPARATOR) || strchr(description->name, STORE_THREAD_SEPARATOR))
    err = fail(WEFT_ERR_PROTOCOL, "the store has metadata of %s under the name %s", name->name, description->name);
  else if (alive && !same)
    agent_peer_end(store_thread->agent, name->peer, WEFT_AGENT_EVENT_PEER_LEFT,
                   "another incarnation has its name in the store");
  weft_peer_t only = alive && same && !asked ? name->peer : 0;
  if (!err && (alive || asked || !same))
    err = agent_adopt(store_thread->agent, description, only, peer);
  if (err && only && !agent_peer_lives(store_thread->agent, only))
    err = 0; // it has ended just now
  free(description);
  return err;
}

// False: it has to be done again, later.
static bool do_value(struct agent_store_thread *store_thread, struct store_name *name) {
  void *blob = name->blob;
  size_t size = name->size;
  bool asked = name->asked;
  name->blob = NULL;
  weft_peer_t peer = 0;
  uint64_t incarnation = 0;
  pthread_mutex_unlock(&store_thread->lock); // only this thread changes peer and incarnation
  int err = load(store_thread, name, blob, size, asked, &peer, &incarnation);
  pthread_mutex_lock(&store_thread->lock);
  bool again = err == WEFT_ERR_NOMEM && !asked && !name->blob && !name->absent;
  if (again)
    name->blob = blob;
  else
    free(blob);
  if (err)
    log_info("agent %s: %s", store_thread->agent->name, weft_last_error());
  if (asked) { // for callers that have asked meanwhile the value is read again
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

static void do_absence(struct agent_store_thread *store_thread, struct store_name *name) {
  weft_peer_t peer = name->peer;
  bool labelled = strchr(name->name, STORE_THREAD_SEPARATOR) != NULL; // then only a selection has gone, not the agent
  name->absent = false;
  pthread_mutex_unlock(&store_thread->lock);
  if (peer != 0 && !labelled)
    agent_peer_end(store_thread->agent, peer, WEFT_AGENT_EVENT_PEER_LEFT, "its key has gone from the store");
  pthread_mutex_lock(&store_thread->lock);
}

// When the store answers again and an agent is not in it, the agent has a lease's time to put its key again.
static int take_list(struct agent_store_thread *store_thread, const struct weft_store_list *list) {
  int err = 0;
  for (size_t i = 0; i < list->count; i++) {
    struct store_name *name = name_of(store_thread, list->kvs[i]);
    if (name && list->kvs[i]->mod_revision > name->revision && take_value(store_thread, name, list->kvs[i]) != 0)
      err = WEFT_ERR_NOMEM;
  }
  if (err)
    return err; // it is read again
  for (int i = 0; i < STORE_THREAD_NAMES; i++) {
    struct store_name *name;
    SLIST_FOREACH(name, &store_thread->names[i], chain)
    if (name->revision == 0)
      take_absence(store_thread, name, 0);
  }
  return 0;
}

static int read_all(struct agent_store_thread *store_thread) {
  struct weft_store_list *list;
  int err = weft_store_range(store_thread->store, store_thread->prefix, true, 0, &list);
  if (err)
    return err;
  pthread_mutex_lock(&store_thread->lock);
  err = take_list(store_thread, list);
  pthread_mutex_unlock(&store_thread->lock);
  weft_store_list_free(list);
  return err;
}

uint64_t fetch_progress(struct agent_store_thread *store_thread, uint64_t now_ns) {
  uint64_t due = UINT64_MAX, again = now_ns + (uint64_t)STORE_THREAD_RETRY_MS * 1000000u;
  pthread_mutex_lock(&store_thread->lock);
  bool read = store_thread->must_read;
  store_thread->must_read = false;
  pthread_mutex_unlock(&store_thread->lock);
  if (read && read_all(store_thread) != 0)
    due = again;
  pthread_mutex_lock(&store_thread->lock);
  store_thread->must_read |= due != UINT64_MAX;
  struct store_todo later = STAILQ_HEAD_INITIALIZER(later);
  struct store_name *name;
  while ((name = STAILQ_FIRST(&store_thread->todo))) {
    STAILQ_REMOVE_HEAD(&store_thread->todo, next);
    name->todo = false;
    uint64_t next = UINT64_MAX;
    if (name->blob)
      next = do_value(store_thread, name) ? UINT64_MAX : again;
    else if (name->absent && now_ns >= name->absent_until)
      do_absence(store_thread, name);
    else if (name->absent)
      next = name->absent_until;
    if (next != UINT64_MAX && !name->todo) {
      name->todo = true;
      STAILQ_INSERT_TAIL(&later, name, next);
    }
    due = next < due ? next : due;
  }
  STAILQ_CONCAT(&store_thread->todo, &later);
  pthread_cond_broadcast(&store_thread->changed);
  pthread_mutex_unlock(&store_thread->lock);
  return due;
}

void fetch_free(struct agent_store_thread *store_thread) {
  for (int i = 0; i < STORE_THREAD_NAMES; i++) {
    struct store_name *name;
    while ((name = SLIST_FIRST(&store_thread->names[i]))) {
      SLIST_REMOVE_HEAD(&store_thread->names[i], chain);
      drop_blob(name);
      free(name);
    }
  }
}

// --- weft_agent_fetch() ---

// One watch for the names of all agents: a connection for each would be too many.
static int need_watch(struct agent_store_thread *store_thread, uint64_t deadline_ns) {
  int err = store_thread_lock(store_thread, deadline_ns);
  if (err)
    return err;
  struct weft_store_list *list = NULL;
  err = store_thread->watch ? 0 : weft_store_range(store_thread->store, store_thread->prefix, true, 1, &list);
  if (!err && !store_thread->watch)
    err = weft_store_watch_open(store_thread->store, store_thread->prefix, list->revision + 1, on_event, store_thread,
                                &store_thread->watch);
  weft_store_list_free(list);
  store_thread_unlock(store_thread);
  return err;
}

// The name is entered before its key is read: events of the watch meanwhile are newer than the read.
static int ask(struct agent_store_thread *store_thread, const char *text, struct store_name **out, uint64_t *answered) {
  pthread_mutex_lock(&store_thread->lock);
  struct store_name *name = find(store_thread, text);
  if (!name && (name = calloc(1, sizeof *name))) {
    snprintf(name->name, sizeof name->name, "%s", text);
    SLIST_INSERT_HEAD(&store_thread->names[chain_of(text)], name, chain);
  }
  if (name) {
    name->asked = true;
    name->waiting++;
    *answered = name->answered;
  }
  pthread_mutex_unlock(&store_thread->lock);
  *out = name;
  return name ? 0 : fail(WEFT_ERR_NOMEM, "no memory to watch for agent %s", text);
}

static int read_one(struct agent_store_thread *store_thread, struct store_name *name) {
  char key[STORE_THREAD_MAX_KEY];
  store_thread_key(store_thread, name->name, key);
  struct weft_store_list *list;
  int err = weft_store_range(store_thread->store, key, false, 0, &list);
  if (err)
    return err;
  pthread_mutex_lock(&store_thread->lock);
  if (list->count > 0 && list->kvs[0]->mod_revision >= name->revision)
    err = take_value(store_thread, name, list->kvs[0]);
  pthread_mutex_unlock(&store_thread->lock);
  weft_store_list_free(list);
  return err;
}

static int read_until(struct agent_store_thread *store_thread, struct store_name *name, uint64_t deadline_ns) {
  for (;;) {
    int err = need_watch(store_thread, deadline_ns);
    if (!err)
      err = read_one(store_thread, name);
    if ((err != WEFT_ERR_UNREACHABLE && err != WEFT_ERR_TIMEOUT) || clock_passed(deadline_ns))
      return err;
    store_thread_pause(store_thread, deadline_ns);
  }
}

static int await(struct agent_store_thread *store_thread, struct store_name *name, uint64_t answered,
                 uint64_t deadline_ns, weft_peer_t *peer) {
  struct timespec until = clock_timespec(deadline_ns);
  int err = 0;
  pthread_mutex_lock(&store_thread->lock);
  while (name->answered == answered && !store_thread->stop && !clock_passed(deadline_ns))
    pthread_cond_timedwait(&store_thread->changed, &store_thread->lock, &until);
  const char *label = strchr(name->name, STORE_THREAD_SEPARATOR);
  if (name->answered == answered)
    err = fail(WEFT_ERR_TIMEOUT, "it has not put its metadata at %s%.*s of the store %s%s%s", store_thread->prefix,
               label ? (int)(label - name->name) : (int)strlen(name->name), name->name,
               weft_store_name(store_thread->store), label ? " under the label " : "", label ? label + 1 : "");
  else if (name->err)
    err = fail(name->err, "%s", name->why);
  else
    *peer = name->peer;
  pthread_mutex_unlock(&store_thread->lock);
  return err;
}

// If a caller has given up, the request stays for the callers that still wait.
static void withdraw(struct agent_store_thread *store_thread, struct store_name *name) {
  pthread_mutex_lock(&store_thread->lock);
  if (--name->waiting == 0)
    name->asked = false;
  pthread_mutex_unlock(&store_thread->lock);
}

int weft_agent_fetch(weft_agent_t *agent, const char *text, const char *label, uint32_t timeout_ms, weft_peer_t *peer) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!text || !peer)
    return fail(WEFT_ERR_INVALID, "%s is NULL", !text ? "name" : "peer");
  if (!*text || strlen(text) >= WEFT_AGENT_MAX_NAME)
    return fail(WEFT_ERR_INVALID, "an agent's name has 1 to %d bytes", WEFT_AGENT_MAX_NAME - 1);
  if (strcmp(text, agent->name) == 0) {
    *peer = WEFT_PEER_SELF;
    return 0;
  }
  _Atomic uint64_t deadline = clock_wait_deadline(timeout_ms);
  struct agent_store_thread *store_thread;
  struct store_name *name = NULL;
  uint64_t answered = 0;
  char wanted[STORE_THREAD_MAX_NAME];
  int err = store_thread_get(agent, &store_thread);
  if (!err)
    err = store_thread_name(text, label, wanted);
  if (!err)
    err = ask(store_thread, wanted, &name, &answered);
  if (err)
    return err;
  store_limit_thread(&deadline);
  err = read_until(store_thread, name, deadline);
  store_limit_thread(NULL);
  if (!err)
    err = await(store_thread, name, answered, deadline, peer);
  withdraw(store_thread, name);
  return err ? fail_context(err, "fetching agent %s", text) : 0;
}
