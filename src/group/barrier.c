// Barriers. A rank has arrived when its key exists. A key stays until the rank's next barrier is complete, so that a
// member that has to read the store again in the meantime still finds it. A second barrier of the same name could
// therefore find the keys of the first one. So a member keeps the hashes of used names: 8 bytes each.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "group/state.h"

static struct group_barrier *find(struct group_machine *m, const char *name, size_t length) {
  for (struct group_barrier *b = m->barriers; b; b = b->next)
    if (strlen(b->name) == length && memcmp(b->name, name, length) == 0)
      return b;
  return NULL;
}

static void free_barrier(struct group_barrier *b) {
  free(b->come);
  free(b);
}

static struct group_barrier *add_barrier(struct group_machine *m, const char *name, size_t length) {
  struct group_barrier *b = calloc(1, sizeof *b + length + 1);
  uint64_t *come = calloc(m->capacity, sizeof *come);
  if (!b || !come) {
    free(b);
    free(come);
    return NULL;
  }
  memcpy(b->name, name, length);
  b->come = come;
  b->next = m->barriers;
  m->barriers = b;
  return b;
}

// FNV-1a (Fowler, Noll, Vo).
static uint64_t hash(const char *name) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (; *name; name++)
    sum = (sum ^ (unsigned char)*name) * 0x100000001b3u;
  return sum;
}

// The index of the name's hash among the used names, or where it would be inserted.
static size_t place_of(const struct group_machine *m, uint64_t wanted) {
  size_t low = 0, high = m->num_served;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (m->served[middle] < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool has_served(const struct group_machine *m, const char *name) {
  uint64_t wanted = hash(name);
  size_t place = place_of(m, wanted);
  return place < m->num_served && m->served[place] == wanted;
}

// Room for one more name, before the barrier begins: no memory at its end would be too late.
static bool reserve_name(struct group_machine *m) {
  if (m->num_served < m->room_served)
    return true;
  size_t room = m->room_served ? 2 * m->room_served : 16;
  uint64_t *served = realloc(m->served, room * sizeof *served);
  if (!served)
    return false;
  m->served = served;
  m->room_served = room;
  return true;
}

static void remember_name(struct group_machine *m, const char *name) {
  if (has_served(m, name) || !reserve_name(m))
    return;
  uint64_t *at = m->served + place_of(m, hash(name));
  memmove(at + 1, at, (size_t)(m->served + m->num_served - at) * sizeof *at);
  *at = hash(name);
  m->num_served++;
}

void group_barriers_free(struct group_machine *m) {
  free(m->served);
  m->served = NULL;
  m->num_served = m->room_served = 0;
  while (m->barriers) {
    struct group_barrier *next = m->barriers->next;
    free_barrier(m->barriers);
    m->barriers = next;
  }
}

void group_barrier_observe(struct group_machine *m, const struct group_key *key, uint64_t incarnation) {
  struct group_barrier *b = find(m, key->name, key->name_length);
  if (!b && incarnation)
    b = add_barrier(m, key->name, key->name_length);
  if (b) {
    b->come[key->rank] = incarnation;
  } else if (incarnation) {
    log_error("group: no memory for barrier '%.*s'", (int)key->name_length, key->name);
    m->synced = false;
  }
}

void group_barrier_forget_keys(struct group_machine *m) {
  for (struct group_barrier *b = m->barriers; b; b = b->next)
    memset(b->come, 0, m->capacity * sizeof *b->come);
}

static bool everybody_came(const struct group_machine *m, const struct group_barrier *b) {
  if (!m->view)
    return false;
  for (uint32_t i = 0; i < m->view->count; i++)
    if (b->come[m->view->members[i].rank] != m->view->members[i].incarnation)
      return false;
  return true;
}

// Whether no rank's key exists and no caller here waits.
static bool is_over(const struct group_machine *m, const struct group_barrier *b) {
  if (b->wanted)
    return false;
  for (uint32_t r = 0; r < m->capacity; r++)
    if (b->come[r])
      return false;
  return true;
}

void group_barriers_settle(struct group_machine *m) {
  for (struct group_barrier *b = m->barriers; b; b = b->next) {
    if (!b->wanted || b->complete || !everybody_came(m, b))
      continue;
    b->complete = true;
    for (struct group_barrier *older = m->barriers; older; older = older->next)
      if (older != b && older->ended)
        older->wanted = false;
  }
  for (struct group_barrier **at = &m->barriers; *at;) {
    struct group_barrier *b = *at;
    if (!is_over(m, b)) {
      at = &b->next;
      continue;
    }
    *at = b->next;
    free_barrier(b);
  }
}

int group_machine_barrier(struct group_machine *m, const char *name) {
  struct group_barrier *b = find(m, name, strlen(name));
  if ((b && b->wanted) || has_served(m, name))
    return fail(WEFT_ERR_EXISTS, "barrier '%s' was used before: want a new name for each barrier", name);
  if (!reserve_name(m) || (!b && !(b = add_barrier(m, name, strlen(name)))))
    return fail(WEFT_ERR_NOMEM, "no memory for barrier '%s'", name);
  b->wanted = true;
  b->complete = b->ended = false;
  group_barriers_settle(m);
  return 0;
}

void group_machine_barrier_end(struct group_machine *m, const char *name) {
  struct group_barrier *b = find(m, name, strlen(name));
  if (!b)
    return;
  b->ended = true;
  if (b->complete)
    remember_name(m, name);
  else
    b->wanted = false;
  group_barriers_settle(m);
}

bool group_machine_barrier_missing(const struct group_machine *m, const char *name, struct text *missing) {
  const struct group_barrier *b = find((struct group_machine *)m, name, strlen(name));
  if (!m->view || !b || b->complete)
    return false;
  bool found = false;
  for (uint32_t i = 0; i < m->view->count; i++) {
    if (b->come[m->view->members[i].rank] == m->view->members[i].incarnation)
      continue;
    found = true;
    text_add_rank(missing, m->view->members[i].rank);
  }
  return found;
}

bool group_barrier_request(struct group_machine *m, struct group_request *request) {
  for (struct group_barrier *b = m->barriers; b; b = b->next) {
    bool present = b->come[m->rank] == m->incarnation;
    if (present == b->wanted)
      continue;
    group_txn_begin(m);
    char *key = group_key_barrier(m->prefix, b->name, m->rank);
    if (b->wanted)
      group_txn_put(m, key, group_incarnation_encode(m->incarnation), m->lease);
    else
      group_txn_delete(m, key);
    return group_txn_end(m, request);
  }
  return false;
}
