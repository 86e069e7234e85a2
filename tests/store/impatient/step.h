// The steps of an actor, and what they share. Each returns false if something was wrong.
#ifndef STORE_IMPATIENT_STEP_H
#define STORE_IMPATIENT_STEP_H

#include "store/impatient/actor.h"
#include <stdio.h>

enum { STEP_KEY = WATCHED_KEY };

#define MAY(err) (1u << -(WEFT_ERR_##err))

uint32_t step_draw(struct actor *actor, uint32_t below);

// Before each call: draws a time limit for it, and notes the server's generation. Returns the client.
weft_store_t *step_begin(struct actor *actor);

// After it: whether it ended in time, with 0 or an error that it may have. Every call may time out, or not reach the
// server.
bool step_is_fine(struct actor *actor, const char *call, int rc, uint32_t may);

// Whether the server was the same, with its keys, from the call's begin until now.
bool step_same_server(const struct actor *actor);

// Records what was wrong. NULL: nothing was.
bool step_check(struct actor *actor, const char *call, const char *wrong);

void step_own_key(const struct actor *actor, char key[STEP_KEY]);
void step_lease_key(const struct actor *actor, char key[STEP_KEY]);

// values.c
bool step_read_one(struct actor *actor);
bool step_read_all(struct actor *actor);
bool step_put_own(struct actor *actor);
bool step_delete_own(struct actor *actor);
bool step_scratch(struct actor *actor);
bool step_count(struct actor *actor);

// leases.c
bool step_lease(struct actor *actor);
bool step_whole_lease(struct actor *actor); // from the grant to the end
const char *step_check_leased(struct actor *actor, const struct weft_store_kv *kv);

// actor.c
bool step_watch(struct actor *actor);

#endif
