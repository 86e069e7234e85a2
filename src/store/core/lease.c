// Leases: grants, renewals, and the end of the keys that are attached to them.
#include "store/core/parts.h"

#include "base/random.h"
#include <stdlib.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

// Index of the first lease whose id is not below `id`.
static size_t seek(const struct core *core, int64_t id) {
  size_t low = 0, high = core->num_leases;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (core->leases[middle]->id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

struct core_lease *core_lease_find(const struct core *core, int64_t id) {
  size_t index = seek(core, id);
  return index < core->num_leases && core->leases[index]->id == id ? core->leases[index] : NULL;
}

void core_lease_attach(struct core_lease *lease, struct core_node *node) {
  node->lease = lease;
  node->lease_prev = NULL;
  node->lease_next = lease ? lease->keys : NULL;
  if (node->lease_next)
    node->lease_next->lease_prev = node;
  if (lease)
    lease->keys = node;
}

void core_lease_detach(struct core_node *node) {
  if (!node->lease)
    return;
  if (node->lease_prev)
    node->lease_prev->lease_next = node->lease_next;
  else
    node->lease->keys = node->lease_next;
  if (node->lease_next)
    node->lease_next->lease_prev = node->lease_prev;
  node->lease = NULL;
}

static bool insert(struct core *core, struct core_lease *lease) {
  if (core->num_leases == core->max_leases) {
    size_t max = core->max_leases ? 2 * core->max_leases : 16;
    struct core_lease **leases = realloc(core->leases, max * sizeof(struct core_lease *));
    if (!leases)
      return false;
    core->leases = leases;
    core->max_leases = max;
  }
  size_t index = seek(core, lease->id);
  struct core_lease **place = core->leases + index;
  memmove(place + 1, place, (core->num_leases - index) * sizeof(struct core_lease *));
  *place = lease;
  core->num_leases++;
  return true;
}

static int64_t unused_id(const struct core *core) {
  int64_t id;
  do
    id = (int64_t)(random_id() >> 1); // positive, like etcd's
  while (id == 0 || core_lease_find(core, id));
  return id;
}

static uint64_t deadline(uint64_t now_ns, int64_t ttl_s) {
  return now_ns + (uint64_t)ttl_s * NS_PER_S;
}

enum core_status core_lease_grant(struct core *core, uint64_t now_ns, int64_t *id, int64_t *ttl_s) {
  if (*ttl_s > CORE_MAX_TTL_S)
    return CORE_LEASE_TTL_TOO_LARGE;
  if (*id != 0 && core_lease_find(core, *id))
    return CORE_LEASE_EXISTS;
  if (core->limits.leases && core->num_leases >= core->limits.leases)
    return CORE_TOO_MANY_LEASES;
  struct core_lease *lease = calloc(1, sizeof *lease);
  if (!lease)
    return CORE_NO_MEMORY;
  lease->id = *id != 0 ? *id : unused_id(core);
  lease->ttl_s = *ttl_s < CORE_MIN_TTL_S ? CORE_MIN_TTL_S : *ttl_s;
  lease->deadline_ns = deadline(now_ns, lease->ttl_s);
  if (!insert(core, lease)) {
    free(lease);
    return CORE_NO_MEMORY;
  }
  if (core->check_ns == 0) // the owner has not come to plan a check yet
    core->check_ns = now_ns + NS_PER_S;
  *id = lease->id;
  *ttl_s = lease->ttl_s;
  return CORE_OK;
}

static int by_key(const void *a, const void *b) {
  const struct core_record *x = *(struct core_record *const *)a, *y = *(struct core_record *const *)b;
  return core_bytes_order(x->data, x->key_size, y->data, y->key_size);
}

// References to the records of the lease's keys, sorted. False: no memory.
static bool sorted_keys(const struct core_lease *lease, struct core_record ***out, size_t *count) {
  size_t total = 0;
  for (const struct core_node *node = lease->keys; node; node = node->lease_next)
    total++;
  struct core_record **records = malloc((total + 1) * sizeof(struct core_record *));
  if (!records)
    return false;
  total = 0;
  for (const struct core_node *node = lease->keys; node; node = node->lease_next)
    records[total++] = core_record_ref(node->record);
  qsort(records, total, sizeof(struct core_record *), by_key);
  *out = records;
  *count = total;
  return true;
}

static enum core_status revoke(struct core *core, size_t index) {
  struct core_lease *lease = core->leases[index];
  struct core_record **keys = NULL;
  size_t count = 0;
  if (!sorted_keys(lease, &keys, &count))
    return CORE_NO_MEMORY;
  enum core_status status = CORE_NO_MEMORY;
  if (core_history_reserve(&core->history, count)) {
    uint64_t begin = core->history.end;
    for (size_t i = 0; i < count; i++)
      core_change_delete(core, core_keys_find(&core->keys, (struct core_bytes){keys[i]->data, keys[i]->key_size}));
    core->num_leases--;
    memmove(core->leases + index, core->leases + index + 1, (core->num_leases - index) * sizeof(struct core_lease *));
    free(lease);
    core_commit(core, begin);
    status = CORE_OK;
  }
  core_records_free(keys, count);
  return status;
}

// Finds a lease whose time has not passed. The keys of another are deleted here, if the owner has not come to it yet:
// whoever learns that a lease has ended reads none of its keys afterwards.
static enum core_status find_alive(struct core *core, uint64_t now_ns, int64_t id, struct core_lease **lease) {
  size_t index = seek(core, id);
  if (index == core->num_leases || core->leases[index]->id != id)
    return CORE_LEASE_NOT_FOUND;
  if (now_ns < core->leases[index]->deadline_ns) {
    *lease = core->leases[index];
    return CORE_OK;
  }
  enum core_status status = revoke(core, index);
  return status == CORE_OK ? CORE_LEASE_NOT_FOUND : status;
}

enum core_status core_lease_keepalive(struct core *core, uint64_t now_ns, int64_t id, int64_t *ttl_s) {
  struct core_lease *lease;
  enum core_status status = find_alive(core, now_ns, id, &lease);
  if (status != CORE_OK)
    return status;
  lease->deadline_ns = deadline(now_ns, lease->ttl_s);
  *ttl_s = lease->ttl_s;
  return CORE_OK;
}

enum core_status core_lease_state(struct core *core, uint64_t now_ns, int64_t id, bool with_keys,
                                  struct core_lease_state *out) {
  struct core_lease *lease;
  enum core_status status = find_alive(core, now_ns, id, &lease);
  if (status != CORE_OK)
    return status;
  struct core_lease_state state = {
      .left_s = (int64_t)((lease->deadline_ns - now_ns) / NS_PER_S),
      .granted_s = lease->ttl_s,
  };
  if (with_keys && !sorted_keys(lease, &state.keys, &state.num_keys))
    return CORE_NO_MEMORY;
  *out = state;
  return CORE_OK;
}

enum core_status core_lease_revoke(struct core *core, int64_t id) {
  size_t index = seek(core, id);
  if (index == core->num_leases || core->leases[index]->id != id)
    return CORE_LEASE_NOT_FOUND;
  return revoke(core, index);
}

uint64_t core_lease_note_pause(struct core *core, uint64_t now_ns) {
  if (core->check_ns == 0 || now_ns <= core->check_ns + NS_PER_S)
    return 0;
  uint64_t late_ns = now_ns - core->check_ns;
  for (size_t i = 0; i < core->num_leases; i++)
    core->leases[i]->deadline_ns += late_ns;
  core->check_ns = now_ns;
  return late_ns;
}

uint64_t core_lease_next_check(struct core *core, uint64_t now_ns) {
  uint64_t expiry = core_lease_next_expiry(core), latest = now_ns + NS_PER_S;
  core->check_ns = core->num_leases == 0 ? 0 : expiry < latest ? expiry : latest;
  return core->check_ns ? core->check_ns : UINT64_MAX;
}

enum core_status core_lease_expire(struct core *core, uint64_t now_ns) {
  for (size_t i = core->num_leases; i-- > 0;) {
    if (core->leases[i]->deadline_ns > now_ns)
      continue;
    enum core_status status = revoke(core, i);
    if (status != CORE_OK)
      return status;
  }
  return CORE_OK;
}

uint64_t core_lease_next_expiry(const struct core *core) {
  uint64_t next = UINT64_MAX;
  for (size_t i = 0; i < core->num_leases; i++)
    if (core->leases[i]->deadline_ns < next)
      next = core->leases[i]->deadline_ns;
  return next;
}

size_t core_lease_count(const struct core *core) {
  return core->num_leases;
}
int64_t core_lease_id(const struct core *core, size_t index) {
  return core->leases[index]->id;
}
