// Random lives and random faults, from the simulation's seed.
#include "sim/support/weather.h"

#include "sim/support/state.h"

static struct sim_member *anybody(struct sim *sim) {
  return sim->live[sim_dice(sim, sim->num_live)];
}

static uint64_t up_to_three_leases(struct sim *sim) {
  return sim_dice(sim, 3 * sim->options.ttl_s * SIM_S);
}

// Whether the group can do without this member: at least two others are in the newest view and run. A group whose
// members all go at once has ended, and a member that waits to join it waits in vain.
static bool is_dispensable(struct sim *sim, const struct sim_member *m) {
  uint32_t others = 0;
  for (uint32_t i = 0; i < sim->num_live; i++) {
    const struct sim_member *other = sim->live[i];
    others += other != m && !other->leaving && !other->accused && !other->fenced && sim->now >= other->trouble_until &&
              group_view_has(sim_judge_newest(sim), other->rank, other->incarnation);
  }
  return others >= 2;
}

// A random member; NULL: the group cannot do without it.
static struct sim_member *victim(struct sim *sim) {
  struct sim_member *m = anybody(sim);
  return is_dispensable(sim, m) ? m : NULL;
}

static bool crash_some(struct sim *sim, uint64_t count, bool noticed) {
  bool any = false;
  for (struct sim_member *m; count > 0 && (m = victim(sim)); count--) {
    sim_crash(sim, m, noticed);
    any = true;
  }
  return any;
}

// Adds a member with a random rank, unless a running member has that rank.
static void come_back(struct sim *sim) {
  int32_t rank = (int32_t)sim_dice(sim, sim->options.capacity);
  for (uint32_t i = 0; i < sim->num_live; i++)
    if (sim->live[i]->rank == rank)
      return;
  sim_join(sim, rank);
}

static bool grow(struct sim *sim) {
  struct sim_member *m = anybody(sim), *goes = sim_dice(sim, 2) ? victim(sim) : NULL;
  return sim_grow(sim, m, 1 + (uint32_t)sim_dice(sim, SIM_GROWN), goes == m ? NULL : goes);
}

// False: it did not happen, for instance because the group cannot do without the random member.
static bool happen(struct sim *sim, enum sim_mishap mishap) {
  bool on_one = mishap == SIM_LEAVE || mishap == SIM_ACCUSE || mishap == SIM_PAUSE || mishap == SIM_CUT;
  struct sim_member *one = on_one ? victim(sim) : NULL;
  if (on_one && !one)
    return false;
  if (mishap == SIM_JOIN)
    sim_join(sim, -1);
  else if (mishap == SIM_RETURN)
    come_back(sim);
  else if (mishap == SIM_GROW)
    return grow(sim);
  else if (mishap == SIM_CRASH)
    return crash_some(sim, 1 + sim_dice(sim, 4), true);
  else if (mishap == SIM_SILENCE)
    return crash_some(sim, 1, false);
  else if (mishap == SIM_OUTAGE)
    sim_outage(sim, up_to_three_leases(sim), sim_dice(sim, 2) == 0);
  else if (mishap == SIM_RESTART)
    sim_restart_empty(sim, sim_dice(sim, sim->options.ttl_s * SIM_S));
  else if (mishap == SIM_LEAVE)
    sim_leave(sim, one, sim_dice(sim, 2) == 0);
  else if (mishap == SIM_ACCUSE)
    sim_accuse(sim, anybody(sim), one);
  else if (mishap == SIM_PAUSE)
    sim_pause(sim, one, up_to_three_leases(sim));
  else
    sim_cut(sim, one, up_to_three_leases(sim));
  return true;
}

static enum sim_mishap pick(struct sim *sim, const struct sim_weather *weather) {
  uint64_t sum = 0;
  for (int i = 0; i < SIM_MISHAPS; i++)
    sum += weather->weights[i];
  uint64_t at = sim_dice(sim, sum);
  int i = 0;
  for (; at >= weather->weights[i]; i++)
    at -= weather->weights[i];
  return (enum sim_mishap)i;
}

// The first kind with a weight that has not happened yet; SIM_MISHAPS: all have happened, or need not.
static enum sim_mishap first_missing(const struct sim_weather *weather, const uint32_t happened[SIM_MISHAPS]) {
  int i = 0;
  while (i < SIM_MISHAPS && (!weather->each_first || weather->weights[i] == 0 || happened[i] > 0))
    i++;
  return (enum sim_mishap)i;
}

void sim_endure(struct sim *sim, const struct sim_weather *weather, uint32_t mishaps, uint32_t happened[SIM_MISHAPS]) {
  for (; mishaps > 0 && !sim_broken(sim); mishaps--) {
    sim_run(sim, sim_dice(sim, 2 * weather->gap_ns));
    if (sim->num_live == 0)
      sim_break(sim, "the group is over: all have gone");
    enum sim_mishap mishap = first_missing(weather, happened);
    if (mishap == SIM_MISHAPS)
      mishap = pick(sim, weather);
    bool on_members = mishap >= SIM_LEAVE && mishap <= SIM_CUT; // with few members it may find none to strike
    if (on_members && sim->num_live < weather->members * 3 / 4 + 1)
      mishap = SIM_JOIN;
    if (mishap <= SIM_GROW && sim->num_live > weather->members && !(weather->each_first && happened[mishap] == 0))
      mishap = SIM_CRASH;
    if (!sim_broken(sim))
      happened[mishap] += happen(sim, mishap);
  }
}
