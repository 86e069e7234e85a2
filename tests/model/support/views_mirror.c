// Runs the same requests on the model's store and the library's, and compares the answers.
#include "model/support/views_mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "model/support/views_state.h"
#include "store/core/core.h"
#include <weft/err.h>

struct mirror {
  struct store store;
  struct core *core;
  struct core_watch watch;
  uint64_t random;
  num newest_lease;
  char *why;
  size_t size;
};

static uint64_t draw(struct mirror *m, uint64_t below) {
  return random_next(&m->random) % below;
}

static int differ(struct mirror *m, const char *what, long mine, long real) {
  snprintf(m->why, m->size, "%s: %ld in the model, %ld in the core", what, mine, real);
  return -1;
}

static struct core_bytes bytes(const char *text) {
  return (struct core_bytes){text, strlen(text)};
}

static num some_lease(struct mirror *m) {
  return (num)draw(m, (uint64_t)m->newest_lease + 1);
}

// Draws a transaction like those of the machines: it compares current or other revisions, and puts and deletes keys.
static struct request draw_txn(struct mirror *m) {
  static const char *const texts[] = {"a", "b", "c"};
  struct request r = {.asked = GROUP_REQUEST_TXN + 1};
  for (uint64_t i = draw(m, 3); i > 0; i--) {
    uint8_t key = (uint8_t)draw(m, KEYS);
    const struct kv *kv = &m->store.keys[key];
    bool create = draw(m, 2);
    num now = create ? kv->create : kv->mod;
    r.compares[r.num_compares].key = key;
    r.compares[r.num_compares].target = create ? STORE_CREATE : STORE_MOD;
    r.compares[r.num_compares++].number = draw(m, 4) ? now : (num)draw(m, (uint64_t)m->store.revision + 2);
  }
  uint8_t first = (uint8_t)draw(m, KEYS);
  for (uint64_t i = draw(m, 4); i > 0; i--) { // no key twice, as in etcd
    r.ops[r.num_ops].key = (uint8_t)((first + i) % KEYS);
    r.ops[r.num_ops].put = draw(m, 3) > 0;
    r.ops[r.num_ops].value = r.ops[r.num_ops].put ? value_of(texts[draw(m, 3)], 1) : 0;
    r.ops[r.num_ops].lease = r.ops[r.num_ops].put ? some_lease(m) : 0;
    r.num_ops++;
  }
  return r;
}

static int run_txn(struct mirror *m) {
  struct request r = draw_txn(m);
  struct core_compare compares[COMPARES];
  struct core_op ops[OPS];
  for (int i = 0; i < r.num_compares; i++)
    compares[i] = (struct core_compare){.range.key = bytes(key_text(r.compares[i].key)),
                                        .target = r.compares[i].target == STORE_CREATE ? CORE_CREATE : CORE_MOD,
                                        .relation = CORE_EQUAL,
                                        .number = r.compares[i].number};
  for (int i = 0; i < r.num_ops; i++)
    ops[i] = (struct core_op){.kind = r.ops[i].put ? CORE_PUT : CORE_DELETE,
                              .range.key = bytes(key_text(r.ops[i].key)),
                              .value = bytes(r.ops[i].put ? value_text(r.ops[i].value) : ""),
                              .lease = r.ops[i].lease};
  struct core_txn txn = {
      .compares = compares, .num_compares = r.num_compares, .success = ops, .num_success = r.num_ops};
  struct core_result result = {0};
  enum core_status status = core_txn(m->core, &txn, &result);
  store_execute(&m->store, &r, 0);
  bool failed = status != CORE_OK;
  if (failed != (r.err != 0) || (failed && core_status_err(status) != r.err))
    return differ(m, "status of a transaction", r.err, failed ? core_status_err(status) : 0);
  if (!failed && (result.succeeded != r.succeeded || result.revision != r.revision))
    return differ(m, "revision after a transaction", r.revision, (long)result.revision);
  core_result_free(&result);
  return 0;
}

static int run_lease(struct mirror *m) {
  uint64_t kind = draw(m, 4);
  int used = 0;
  for (int i = 0; i < LEASES; i++)
    used += m->store.leases[i].id != 0;
  if (kind == 0 && used < LEASES - 1) {
    struct request r = {.asked = GROUP_REQUEST_GRANT + 1, .lease = m->newest_lease};
    store_execute(&m->store, &r, 0);
    m->newest_lease = r.lease;
    int64_t id = r.lease, ttl = 10;
    return core_lease_grant(m->core, 0, &id, &ttl) == CORE_OK ? 0 : differ(m, "grant", 0, 1);
  }
  struct request r = {.asked = kind == 1 ? GROUP_REQUEST_KEEPALIVE + 1 : GROUP_REQUEST_REVOKE + 1,
                      .lease = some_lease(m)};
  int64_t ttl;
  enum core_status status =
      kind == 1 ? core_lease_keepalive(m->core, 0, r.lease, &ttl) : core_lease_revoke(m->core, r.lease);
  store_execute(&m->store, &r, 0);
  return (status == CORE_OK) == (r.err == 0) ? 0 : differ(m, "lease", r.err, (long)status);
}

static int compare_keys(struct mirror *m) {
  if (m->store.revision != core_revision(m->core))
    return differ(m, "revision", m->store.revision, (long)core_revision(m->core));
  for (uint8_t key = 0; key < KEYS; key++) {
    const struct kv *kv = &m->store.keys[key];
    struct core_op op = {.kind = CORE_RANGE, .range.key = bytes(key_text(key))};
    struct core_result result = {0};
    if (core_run(m->core, &op, &result) != CORE_OK)
      return differ(m, "range", 0, 1);
    const struct core_record *record = result.responses[0].num_records ? result.responses[0].records[0] : NULL;
    int rc = 0;
    if ((record != NULL) != (kv->create != 0))
      rc = differ(m, "key is there", kv->create, record != NULL);
    else if (record && (record->create_revision != kv->create || record->mod_revision != kv->mod ||
                        record->lease != kv->lease || strcmp(core_record_value(record), value_text(kv->value)) != 0))
      rc = differ(m, "modified in", kv->mod, (long)record->mod_revision);
    core_result_free(&result);
    if (rc != 0)
      return rc;
  }
  return 0;
}

// Compares the events of the last step. Within one revision the keys may have any order, since the machines depend on
// none.
static int compare_events(struct mirror *m) {
  struct core_events events = {0};
  int rc = core_watch_take(m->core, &m->watch, SIZE_MAX, &events) == CORE_OK ? 0 : differ(m, "watch", 0, 1);
  if (rc == 0 && (size_t)m->store.num_events != events.count)
    rc = differ(m, "events", m->store.num_events, (long)events.count);
  for (size_t i = 0; rc == 0 && i < events.count; i++) {
    const struct core_event *real = &events.items[i];
    const struct core_record *record = real->now ? real->now : real->prev;
    bool found = false;
    for (int e = 0; e < m->store.num_events; e++) {
      const struct event *mine = &m->store.events[e];
      found |= mine->revision == real->revision && mine->put == (real->now != NULL) &&
               strcmp(key_text(mine->key), record->data) == 0;
    }
    if (!found)
      rc = differ(m, "an event of revision", 0, (long)real->revision);
  }
  core_events_clear(&events);
  store_forget(&m->store, m->store.num_events);
  return rc;
}

static void wake(struct core_watch *watch) {
  (void)watch;
}

int views_mirror(uint64_t seed, int steps, char *why, size_t size) {
  struct mirror m = {.store.revision = 1, .core = core_create(CORE_LIMITS_DEFAULT), .random = seed};
  m.why = why;
  m.size = size;
  if (!m.core)
    abort();
  m.watch = (struct core_watch){.range = {.key = bytes(PREFIX), .end = {"", 1}}, .wake = wake};
  core_watch_add(m.core, &m.watch, 0);
  int rc = 0;
  for (int i = 0; i < steps && rc == 0; i++) {
    rc = draw(&m, 3) ? run_txn(&m) : run_lease(&m);
    if (rc == 0)
      rc = compare_keys(&m);
    if (rc == 0)
      rc = compare_events(&m);
  }
  core_watch_remove(m.core, &m.watch);
  core_free(m.core);
  return rc;
}
