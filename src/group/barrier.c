// Barriers. A rank has come when its key is there. A key stays until the rank's next barrier is complete: who has to
// read the store again in the meantime still finds it.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "group/state.h"

struct group_barrier *group_barrier_find(struct group_machine *m, const char *name, size_t length) {
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

void group_barriers_free(struct group_machine *m) {
  while (m->barriers) {
    struct group_barrier *next = m->barriers->next;
    free_barrier(m->barriers);
    m->barriers = next;
  }
}

void group_barrier_observe(struct group_machine *m, const struct group_key *key, uint64_t incarnation) {
  struct group_barrier *b = group_barrier_find(m, key->name, key->name_length);
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

// Whether nobody's key is there and nobody here cares.
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
  struct group_barrier *b = group_barrier_find(m, name, strlen(name));
  if (b && b->wanted)
    return fail(WEFT_ERR_EXISTS, "barrier '%s' is under way or has been: a name serves once", name);
  if (!b && !(b = add_barrier(m, name, strlen(name))))
    return fail(WEFT_ERR_NOMEM, "no memory for barrier '%s'", name);
  b->wanted = true;
  b->complete = b->ended = false;
  group_barriers_settle(m);
  return 0;
}

void group_machine_barrier_end(struct group_machine *m, const char *name) {
  struct group_barrier *b = group_barrier_find(m, name, strlen(name));
  if (!b)
    return;
  b->ended = true;
  if (!b->complete)
    b->wanted = false;
  group_barriers_settle(m);
}

bool group_machine_barrier_missing(const struct group_machine *m, const char *name, struct text *missing) {
  const struct group_barrier *b = group_barrier_find((struct group_machine *)m, name, strlen(name));
  if (!m->view || !b || b->complete)
    return false;
  for (uint32_t i = 0; i < m->view->count; i++)
    if (b->come[m->view->members[i].rank] != m->view->members[i].incarnation)
      text_add(missing, "%s%" PRId32, missing->size ? ", " : "", m->view->members[i].rank);
  return missing->size > 0;
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
