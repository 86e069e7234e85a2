// Random lives of members.
#include "group/support/machine_suite.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "group/view.h"

// Members come, leave, die, are cut off and suspect each other at random while requests fail. Whatever happens, each
// epoch is one view, and when it is over those who are left agree.
static void random_lives_end_in_agreement(void **state) {
  (void)state;
  for (uint64_t seed = 100; seed < 400; seed++) {
    uint64_t random = seed;
    struct world *w = suite_found(seed, 8);
    world_set_faults(w, 3, 5);
    for (int i = 0; i < 60; i++) {
      struct world_member *m = world_member(w, (uint32_t)(random_next(&random) % world_count(w)));
      uint32_t other = (uint32_t)(random_next(&random) % 16);
      uint64_t what = random_next(&random) % 100;
      if (what < 20 && world_count(w) < WORLD_MEMBERS - 1)
        world_add(w, what < 10 ? -1 : (int32_t)other, 0);
      else if (m->machine && what < 45)
        group_machine_join(m->machine, group_machine_view(m->machine) ? group_machine_view(m->machine)->epoch : 0);
      else if (m->machine && what < 60 && group_view_find(group_machine_view(m->machine), (int32_t)other))
        group_machine_suspect(m->machine, (int32_t)other,
                              group_view_find(group_machine_view(m->machine), (int32_t)other)->incarnation);
      else if (m->machine && what < 65)
        world_kill(w, m);
      else if (what < 75)
        m->cut = true;
      else if (what < 95)
        m->cut = false;
      world_advance(w, random_next(&random) % 400);
    }
    world_set_faults(w, 0, 0);
    for (uint32_t i = 0; i < world_count(w); i++) {
      struct world_member *m = world_member(w, i);
      m->cut = false;
      if (!m->machine)
        continue;
      group_machine_join(m->machine, 0);
      if (!group_view_has(group_machine_view(m->machine), group_machine_rank(m->machine), m->incarnation))
        world_kill(w, m); // who never came in goes, so that agreement is among members
    }
    world_advance(w, 5 * TTL_S * 1000);
    const struct group_view *last = NULL;
    for (uint32_t i = 0; i < world_count(w); i++)
      if (world_member(w, i)->machine && group_machine_standing(world_member(w, i)->machine) == GROUP_CLAIMED)
        last = group_machine_view(world_member(w, i)->machine);
    if (last)
      suite_until_agreed(w, last->count, 0);
    suite_end(w, false);
  }
}

// All members die at once, as those of a job that is killed, and the job begins again, sooner or later: while their
// claims stand, while only their view does, and some of its ranks before that has ended and others behind it.
static void a_group_whose_members_have_all_died_is_founded_anew(void **state) {
  enum { MEMBERS = 3 };
  (void)state;
  for (uint64_t seed = 0; seed < 100; seed++) {
    uint64_t random = seed;
    struct world *w = suite_found(seed, MEMBERS + 1);
    group_machine_remove(world_member(w, MEMBERS)->machine, MEMBERS);
    suite_until_agreed(w, MEMBERS, SOON_MS); // so that its view is not the first, as that of the new one is
    world_expect_fork(w, 1);
    for (uint32_t i = 0; i < MEMBERS; i++)
      world_kill(w, world_member(w, i));
    for (uint64_t i = 0; i < MEMBERS; i++) {
      world_advance(w, random_next(&random) % (TTL_S * 1000));
      group_machine_found(world_add(w, (int32_t)((seed + i) % MEMBERS), MEMBERS)->machine, true);
    }
    suite_until_agreed(w, MEMBERS, 3 * TTL_S * 1000);
    assert_int_equal(suite_fenced(w), 0);
    world_free(w); // its epochs may be those of the dead once more
  }
}

int suite_run_lives(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_group_whose_members_have_all_died_is_founded_anew),
      cmocka_unit_test(random_lives_end_in_agreement),
  };
  return cmocka_run_group_tests_name("lives", tests, NULL, NULL);
}
