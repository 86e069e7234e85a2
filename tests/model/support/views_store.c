// A store of thirteen keys that follows etcd's rules.
#include <stdlib.h>
#include <string.h>

#include "model/support/views_state.h"
#include <weft/err.h>

static struct lease *find_lease(struct store *s, num id) {
  for (int i = 0; id && i < LEASES; i++)
    if (s->leases[i].id == id)
      return &s->leases[i];
  return NULL;
}

bool store_has_lease(const struct store *s, num id) {
  return find_lease((struct store *)s, id) != NULL;
}

static void add_event(struct store *s, uint8_t key, bool put) {
  if (s->num_events == EVENTS)
    abort();
  s->events[s->num_events++] =
      (struct event){.revision = s->revision, .key = key, .put = put, .kv = put ? s->keys[key] : (struct kv){0}};
}

static void put(struct store *s, uint8_t key, num value, num lease) {
  struct kv *kv = &s->keys[key];
  kv->create = kv->create ? kv->create : s->revision;
  kv->mod = s->revision;
  kv->value = value;
  kv->lease = lease;
  add_event(s, key, true);
}

static bool delete (struct store *s, uint8_t key) {
  if (!s->keys[key].create)
    return false;
  s->keys[key] = (struct kv){0};
  add_event(s, key, false);
  return true;
}

void store_expire(struct store *s, num id) {
  struct lease *lease = find_lease(s, id);
  if (!lease)
    return;
  *lease = (struct lease){0};
  s->revision++;
  bool any = false;
  for (uint8_t key = 0; key < KEYS; key++)
    if (s->keys[key].create && s->keys[key].lease == id)
      any |= delete (s, key);
  s->revision -= !any;
}

static void grant(struct store *s, struct request *r, uint8_t owner) {
  num newest = 0;
  struct lease *spare = NULL;
  for (int i = 0; i < LEASES; i++) {
    newest = s->leases[i].id > newest ? s->leases[i].id : newest;
    spare = s->leases[i].id ? spare : &s->leases[i];
  }
  if (!spare)
    abort();
  num id = r->lease > newest ? r->lease : newest; // `lease`: the highest number in the world
  *spare = (struct lease){.id = ++id, .owner = owner, .of_view = r->of_view};
  r->lease = id;
}

static bool holds(const struct store *s, const struct request *r) {
  for (int i = 0; i < r->num_compares; i++) {
    const struct kv *kv = &s->keys[r->compares[i].key];
    if ((r->compares[i].target == STORE_CREATE ? kv->create : kv->mod) != r->compares[i].number)
      return false;
  }
  return true;
}

static void run_txn(struct store *s, struct request *r) {
  r->succeeded = holds(s, r);
  r->revision = s->revision;
  for (int i = 0; r->succeeded && i < r->num_ops; i++)
    if (r->ops[i].put && r->ops[i].lease && !find_lease(s, r->ops[i].lease)) {
      r->succeeded = 0;
      r->err = WEFT_ERR_NOT_FOUND;
      return;
    }
  if (!r->succeeded)
    return;
  s->revision++;
  bool any = false;
  for (int i = 0; i < r->num_ops; i++) {
    if (r->ops[i].put)
      put(s, r->ops[i].key, r->ops[i].value, r->ops[i].lease);
    any |= r->ops[i].put || delete (s, r->ops[i].key);
  }
  s->revision -= !any;
  r->revision = s->revision;
}

void store_execute(struct store *s, struct request *r, uint8_t owner) {
  r->executed = 1;
  r->err = 0;
  switch ((enum group_request_kind)(r->asked - 1)) {
  case GROUP_REQUEST_GRANT:
    grant(s, r, owner);
    break;
  case GROUP_REQUEST_KEEPALIVE:
    r->err = find_lease(s, r->lease) ? 0 : WEFT_ERR_NOT_FOUND;
    break;
  case GROUP_REQUEST_REVOKE:
    r->err = find_lease(s, r->lease) ? 0 : WEFT_ERR_NOT_FOUND;
    store_expire(s, r->lease);
    break;
  case GROUP_REQUEST_TXN:
    run_txn(s, r);
    break;
  case GROUP_REQUEST_READ:
  case GROUP_REQUEST_WATCH:
    break;
  }
}

void store_forget(struct store *s, num events) {
  memmove(s->events, s->events + events, (size_t)(s->num_events - events) * sizeof *s->events);
  s->num_events -= events;
  memset(s->events + s->num_events, 0, (size_t)events * sizeof *s->events);
}
