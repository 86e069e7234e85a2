// Shared parts of the tests of the state machine. The tests run members of a group on a store in virtual time:
// everything that members do together, and every way in which the store can fail.
#ifndef GROUP_MACHINE_SUITE_H
#define GROUP_MACHINE_SUITE_H

#include "cmocka_all.h"
#include "group/support/world.h"

enum { TTL_S = 10, SOON_MS = 1000, SEEDS = 50 };

// Whether all running members that have neither left nor been removed see the same view. The view has to contain all of
// them, and has to have the expected number of members.
bool suite_agreed(struct world *w);
void suite_expect(uint32_t members);
void suite_until_agreed(struct world *w, uint32_t members, uint64_t ms); // ms 0: now

bool suite_all_claimed(struct world *w);
bool suite_first_is_fenced(struct world *w);
uint32_t suite_fenced(struct world *w); // number of FENCED events of all members

struct world *suite_found(uint64_t seed, uint32_t count);
void suite_end(struct world *w, bool whole); // checks the order of views

int suite_run_views(void);
int suite_run_closing(void);
int suite_run_store(void);
int suite_run_barriers(void);
int suite_run_offers(void);
int suite_run_lives(void);

#endif
