// Members' state machines and a store in virtual time, with failures that a test asks for.
#include "group/support/world.h"

#include "base/random.h"
#include "cmocka_all.h"
#include "group/view.h"
#include "store/list.h"
#include <stdlib.h>
#include <string.h>

#define TICK_NS 500000u

enum { MAX_KEYS = 512, MAX_LEASES = 512 };

struct key {
  char *name, *value;
  int64_t create, mod, lease;
};

struct lease {
  int64_t id;
  uint64_t ttl_ns, ends_at;
};

struct entry { // of the log
  enum weft_store_event_kind kind;
  struct key key;
};

struct world {
  uint64_t random, now;
  uint32_t capacity, ttl_s, fail_percent, lose_answer_percent;
  int64_t revision, next_lease;
  struct key keys[MAX_KEYS];
  uint32_t num_keys;
  struct lease leases[MAX_LEASES];
  uint32_t num_leases;
  struct entry *log;
  size_t log_size, log_room;
  struct world_member members[WORLD_MEMBERS];
  uint32_t num_members;
  uint64_t fork;                                // epoch of which two views are expected, 0 for none
  bool quiet;                                   // nothing has happened in this step, and nothing is under way
  const struct group_view *views[WORLD_EPOCHS]; // by epoch, as the first member saw it
};

static uint64_t dice(struct world *w, uint64_t sides) {
  return random_next(&w->random) % sides;
}

static char *copy(const char *text) {
  char *out = text ? strdup(text) : NULL;
  assert_true(out || !text);
  return out;
}

static void append(struct world *w, enum weft_store_event_kind kind, const struct key *key) {
  if (w->log_size == w->log_room) {
    w->log_room = w->log_room ? 2 * w->log_room : 256;
    w->log = realloc(w->log, w->log_room * sizeof *w->log);
    assert_non_null(w->log);
  }
  struct entry *entry = &w->log[w->log_size++];
  *entry = (struct entry){.kind = kind, .key = *key};
  entry->key.name = copy(key->name);
  entry->key.value = copy(key->value);
}

static struct key *find(struct world *w, const char *name) {
  for (uint32_t i = 0; i < w->num_keys; i++)
    if (strcmp(w->keys[i].name, name) == 0)
      return &w->keys[i];
  return NULL;
}

static void put(struct world *w, const char *name, const char *value, int64_t lease) {
  struct key *key = find(w, name);
  if (!key) {
    assert_true(w->num_keys < MAX_KEYS);
    key = &w->keys[w->num_keys++];
    *key = (struct key){.name = copy(name), .create = w->revision};
  }
  free(key->value);
  key->value = copy(value);
  key->mod = w->revision;
  key->lease = lease;
  append(w, WEFT_STORE_EVENT_PUT, key);
}

static void drop(struct world *w, struct key *key) {
  struct key gone = {.name = key->name, .mod = w->revision};
  append(w, WEFT_STORE_EVENT_DELETE, &gone);
  free(key->name);
  free(key->value);
  *key = w->keys[--w->num_keys];
}

void world_write(struct world *w, const char *name, const char *value) {
  w->revision++;
  if (value)
    put(w, name, value, 0);
  else if (find(w, name))
    drop(w, find(w, name));
}

static struct lease *find_lease(struct world *w, int64_t id) {
  for (uint32_t i = 0; i < w->num_leases; i++)
    if (w->leases[i].id == id)
      return &w->leases[i];
  return NULL;
}

static void end_lease(struct world *w, struct lease *lease) {
  int64_t id = lease->id;
  *lease = w->leases[--w->num_leases];
  bool first = true;
  for (uint32_t i = 0; i < w->num_keys;) {
    if (w->keys[i].lease != id) {
      i++;
      continue;
    }
    w->revision += first;
    first = false;
    drop(w, &w->keys[i]);
  }
}

static int txn(struct world *w, const struct weft_store_txn *t, struct group_answer *answer) {
  answer->succeeded = true;
  for (size_t i = 0; i < t->num_compares; i++) {
    const struct weft_store_compare *c = &t->compares[i];
    const struct key *key = find(w, c->key);
    assert_int_equal(c->relation, WEFT_STORE_EQUAL);
    answer->succeeded &= (key ? (c->target == WEFT_STORE_CREATE ? key->create : key->mod) : 0) == c->number;
  }
  for (size_t i = 0; answer->succeeded && i < t->num_success; i++)
    if (t->success[i].kind == WEFT_STORE_PUT && !find_lease(w, t->success[i].lease))
      return WEFT_ERR_NOT_FOUND;
  w->revision += answer->succeeded;
  for (size_t i = 0; answer->succeeded && i < t->num_success; i++) {
    const struct weft_store_op *op = &t->success[i];
    if (op->kind == WEFT_STORE_PUT)
      put(w, op->key, op->value, op->lease);
    else if (find(w, op->key))
      drop(w, find(w, op->key));
  }
  answer->revision = w->revision;
  return 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(struct weft_store_kv *const *)a)->key, (*(struct weft_store_kv *const *)b)->key);
}

static struct weft_store_kv as_kv(const struct key *key) {
  return (struct weft_store_kv){.key = key->name,
                                .key_len = strlen(key->name),
                                .value = key->value,
                                .value_len = key->value ? strlen(key->value) : 0,
                                .create_revision = key->create,
                                .mod_revision = key->mod,
                                .lease = key->lease};
}

static void free_list(struct world_member *m) {
  weft_store_list_free(m->list);
  m->list = NULL;
}

static void read_all(struct world *w, struct world_member *m) {
  m->list = store_list_create();
  assert_non_null(m->list);
  for (uint32_t i = 0; i < w->num_keys; i++) {
    struct weft_store_kv kv = as_kv(&w->keys[i]);
    assert_int_equal(store_list_add(m->list, &kv), 0);
  }
  if (m->list->count > 0) // else there is no array
    qsort(m->list->kvs, m->list->count, sizeof *m->list->kvs, by_name);
  m->list->revision = w->revision;
  m->answer.list = m->list;
}

static int keep_alive(struct world *w, int64_t id) {
  struct lease *lease = find_lease(w, id);
  if (!lease)
    return WEFT_ERR_NOT_FOUND;
  lease->ends_at = w->now + lease->ttl_ns;
  return 0;
}

static int64_t grant(struct world *w, int64_t ttl_s) {
  assert_true(w->num_leases < MAX_LEASES);
  uint64_t ttl_ns = (uint64_t)ttl_s * 1000000000u;
  w->leases[w->num_leases++] = (struct lease){.id = ++w->next_lease, .ttl_ns = ttl_ns, .ends_at = w->now + ttl_ns};
  return w->next_lease;
}

static void start_watch(struct world *w, struct world_member *m) {
  m->watching = true;
  m->position = 0;
  while (m->position < w->log_size && w->log[m->position].key.mod < m->request.revision)
    m->position++;
}

static int execute(struct world *w, struct world_member *m) {
  switch (m->request.kind) {
  case GROUP_REQUEST_READ:
    m->watching = m->reset = false;
    read_all(w, m);
    return 0;
  case GROUP_REQUEST_WATCH:
    start_watch(w, m);
    return 0;
  case GROUP_REQUEST_GRANT:
    m->answer.lease = grant(w, m->request.ttl_s);
    return 0;
  case GROUP_REQUEST_KEEPALIVE:
    return keep_alive(w, m->request.lease);
  case GROUP_REQUEST_REVOKE:
    if (!find_lease(w, m->request.lease))
      return WEFT_ERR_NOT_FOUND;
    end_lease(w, find_lease(w, m->request.lease));
    return 0;
  case GROUP_REQUEST_TXN:
    return txn(w, m->request.txn, &m->answer);
  }
  return WEFT_ERR_INVALID;
}

static void step_request(struct world *w, struct world_member *m) {
  if (!m->busy && group_machine_request(m->machine, w->now, &m->request, &m->wake)) {
    m->busy = true;
    m->executed = false;
    m->answer = (struct group_answer){0};
    m->execute_at = w->now + dice(w, 2000000);
    m->answer_at = m->execute_at + dice(w, 2000000);
    m->num_requests++;
  }
  if (m->busy && !m->executed && w->now >= m->execute_at) {
    m->executed = true;
    if (m->cut || dice(w, 100) < w->fail_percent)
      m->answer.err = WEFT_ERR_UNREACHABLE;
    else
      m->answer.err = execute(w, m);
    if (!m->answer.err && m->request.kind == GROUP_REQUEST_TXN && dice(w, 100) < w->lose_answer_percent)
      m->answer.err = WEFT_ERR_TIMEOUT;
  }
  if (m->busy && m->executed && w->now >= m->answer_at) {
    m->busy = false;
    group_machine_answer(m->machine, w->now, &m->answer);
    free_list(m);
    w->quiet = false;
  }
  w->quiet &= !m->busy;
}

static void deliver(struct world *w, struct world_member *m, enum weft_store_event_kind kind) {
  w->quiet = false;
  group_machine_watch(m->machine, w->now, &(struct weft_store_event){.kind = kind});
}

static void step_watch(struct world *w, struct world_member *m) {
  if (!m->watching)
    return;
  if (m->cut != m->told_lost) {
    m->told_lost = m->cut;
    deliver(w, m, m->cut ? WEFT_STORE_EVENT_LOST : WEFT_STORE_EVENT_RESUMED);
  }
  if (m->cut)
    return;
  if (m->reset) {
    m->watching = m->reset = false;
    deliver(w, m, WEFT_STORE_EVENT_RESET);
    return;
  }
  w->quiet &= m->position == w->log_size;
  while (m->position < w->log_size && dice(w, 3) > 0) {
    const struct entry *entry = &w->log[m->position];
    struct weft_store_kv kv = as_kv(&entry->key);
    struct weft_store_event event = {.kind = entry->kind, .kv = &kv, .revision = entry->key.mod};
    group_machine_watch(m->machine, w->now, &event);
    if (dice(w, 20) == 0)
      group_machine_watch(m->machine, w->now, &event); // an event that is delivered twice must make no difference
    m->position++;
  }
}

static void record_view(struct world *w, struct world_member *m, const struct group_view *view) {
  assert_true(view->epoch < WORLD_EPOCHS && m->num_views < WORLD_EPOCHS);
  if (!w->views[view->epoch])
    w->views[view->epoch] = group_view_ref(view);
  assert_true(view->epoch == w->fork || group_view_equal(w->views[view->epoch], view));
  m->epochs[m->num_views++] = view->epoch;
}

static void step_events(struct world *w, struct world_member *m) {
  struct group_event event;
  while (group_machine_event(m->machine, &event)) {
    if (event.kind == GROUP_EVENT_VIEW)
      record_view(w, m, event.view);
    m->num_fenced += event.kind == GROUP_EVENT_FENCED;
    m->num_lost += event.kind == GROUP_EVENT_STORE_LOST;
    m->num_back += event.kind == GROUP_EVENT_STORE_BACK;
    m->num_gone += event.kind == GROUP_EVENT_GONE;
    group_view_unref(event.view);
  }
}

// The time of the next timer or end of a lease. It counts only if nothing is under way.
static uint64_t next_due(const struct world *w) {
  uint64_t due = UINT64_MAX;
  for (uint32_t i = 0; i < w->num_leases; i++)
    due = w->leases[i].ends_at < due ? w->leases[i].ends_at : due;
  for (uint32_t i = 0; i < w->num_members; i++)
    if (w->members[i].machine && !w->members[i].stopped && w->members[i].wake < due)
      due = w->members[i].wake;
  return due;
}

// Advances by one tick, or, if nothing is under way, to the time at which something is due, but not past `end`.
static void step(struct world *w, uint64_t end) {
  w->now += TICK_NS;
  uint64_t due = w->quiet ? next_due(w) : 0;
  if (due > w->now)
    w->now = due < end ? due : end;
  w->quiet = true;
  for (uint32_t i = 0; i < w->num_leases;)
    if (w->now >= w->leases[i].ends_at)
      end_lease(w, &w->leases[i]);
    else
      i++;
  uint32_t start = w->num_members ? (uint32_t)dice(w, w->num_members) : 0;
  for (uint32_t i = 0; i < w->num_members; i++) {
    struct world_member *m = &w->members[(start + i) % w->num_members];
    if (!m->machine || m->stopped)
      continue;
    if (dice(w, 2) == 0) {
      step_watch(w, m);
      step_request(w, m);
    } else {
      step_request(w, m);
      step_watch(w, m);
    }
    step_events(w, m);
  }
}

void world_advance(struct world *w, uint64_t ms) {
  w->quiet = false; // the test may have changed something
  for (uint64_t end = w->now + ms * 1000000; w->now < end;)
    step(w, end);
}

void world_until(struct world *w, bool (*condition)(struct world *), uint64_t ms, const char *what) {
  uint64_t end = w->now + ms * 1000000;
  w->quiet = false; // the test may have changed something
  while (!condition(w)) {
    if (w->now >= end)
      fail_msg("not within %llu ms of virtual time: %s", (unsigned long long)ms, what);
    step(w, end);
  }
}

struct world *world_new(uint64_t seed, uint32_t capacity, uint32_t ttl_s) {
  struct world *w = calloc(1, sizeof *w);
  assert_non_null(w);
  w->random = seed;
  w->now = 1000000000;
  w->capacity = capacity;
  w->ttl_s = ttl_s;
  w->revision = 1;
  return w;
}

static struct world_member *add(struct world *w, int32_t rank, uint32_t founders, bool join_only) {
  assert_true(w->num_members < WORLD_MEMBERS);
  struct world_member *m = &w->members[w->num_members++];
  int32_t ranks[WORLD_MEMBERS];
  for (uint32_t i = 0; i < founders; i++)
    ranks[i] = (int32_t)i;
  m->incarnation = random_next(&w->random) | 1;
  const struct group_machine_options options = {.prefix = "/g/",
                                                .rank = rank,
                                                .capacity = w->capacity,
                                                .founders = ranks,
                                                .num_founders = founders,
                                                .join_only = join_only,
                                                .lease_ttl_s = w->ttl_s,
                                                .address = "somewhere",
                                                .incarnation = m->incarnation,
                                                .seed = random_next(&w->random)};
  assert_int_equal(group_machine_new(&m->machine, &options), 0);
  return m;
}

struct world_member *world_add(struct world *w, int32_t rank, uint32_t founders) {
  return add(w, rank, founders, false);
}

struct world_member *world_add_joiner(struct world *w, int32_t rank) {
  return add(w, rank, 0, true);
}

struct world_member *world_member(struct world *w, uint32_t index) {
  return &w->members[index];
}

uint32_t world_count(const struct world *w) {
  return w->num_members;
}

uint64_t world_now(const struct world *w) {
  return w->now;
}

void world_kill(struct world *w, struct world_member *m) {
  (void)w;
  step_events(w, m);
  group_machine_free(m->machine);
  m->machine = NULL;
  free_list(m);
}

void world_restart_empty(struct world *w) {
  while (w->num_keys > 0) {
    struct key *key = &w->keys[--w->num_keys];
    free(key->name);
    free(key->value);
  }
  for (size_t i = 0; i < w->log_size; i++) {
    free(w->log[i].key.name);
    free(w->log[i].key.value);
  }
  w->log_size = 0;
  w->num_leases = 0;
  w->revision = 1;
  for (uint32_t i = 0; i < w->num_members; i++)
    w->members[i].reset = w->members[i].watching;
}

void world_expire_leases(struct world *w) {
  while (w->num_leases > 0)
    end_lease(w, &w->leases[0]);
}

void world_expect_fork(struct world *w, uint64_t epoch) {
  w->fork = epoch;
}

void world_set_faults(struct world *w, uint32_t fail_percent, uint32_t lose_answer_percent) {
  w->fail_percent = fail_percent;
  w->lose_answer_percent = lose_answer_percent;
}

void world_check_views(const struct world *w, bool whole) {
  for (uint32_t i = 0; i < w->num_members; i++) {
    const struct world_member *m = &w->members[i];
    for (uint32_t j = 1; j < m->num_views; j++) {
      assert_true(m->epochs[j] > m->epochs[j - 1]);
      if (whole)
        assert_int_equal(m->epochs[j], m->epochs[j - 1] + 1);
    }
  }
}

uint32_t world_keys(const struct world *w, const char *prefix) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < w->num_keys; i++)
    count += strncmp(w->keys[i].name, prefix, strlen(prefix)) == 0;
  return count;
}

uint32_t world_leases(const struct world *w) {
  return w->num_leases;
}

void world_free(struct world *w) {
  for (uint32_t i = 0; i < w->num_members; i++)
    if (w->members[i].machine)
      world_kill(w, &w->members[i]);
  world_restart_empty(w);
  for (uint32_t e = 0; e < WORLD_EPOCHS; e++)
    group_view_unref(w->views[e]);
  free(w->log);
  free(w);
}
