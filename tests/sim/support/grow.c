// Changes of the view in one step: requests for them, offers of new members, and the check that each change takes
// effect as a whole.
#include <stdlib.h>

#include "sim/support/state.h"

#define OFFERED_NS (2 * SIM_S) // how long a new member waits to be taken in
#define PATIENT_NS (3 * SIM_S) // the deadline of the change

static bool is_named(const struct sim_grow *grow, int32_t rank) {
  for (uint32_t i = 0; grow && i < grow->change.num_add; i++)
    if (grow->add[i] == rank)
      return true;
  return false;
}

// Whether no member has the rank, and no change waits for it. Such a change would take in any member that offers itself
// with this rank, also a member for another change.
static bool is_free(const struct sim *sim, int32_t rank) {
  for (uint32_t i = 0; i < sim->num_live; i++)
    if (sim->live[i]->rank == rank || is_named(sim->live[i]->grow, rank))
      return false;
  return sim->judge.claims[rank] == 0;
}

static void look_again(struct sim *sim, const struct sim_event *event) {
  if (event->member->machine)
    sim_member_pump(sim, event->member);
}

static void give_up(struct sim *sim, const struct sim_event *event) {
  struct sim_member *m = event->member;
  if (!m->machine || m->grow != event->data)
    return;
  m->grow = NULL;
  group_machine_change(m->machine, NULL, NULL);
  sim_member_pump(sim, m);
}

bool sim_grow(struct sim *sim, struct sim_member *member, uint32_t count, struct sim_member *goes) {
  struct sim_grow *grow = calloc(1, sizeof *grow);
  if (!grow)
    abort();
  for (int32_t r = 0; r < (int32_t)sim->options.capacity && grow->change.num_add < count; r++)
    if (is_free(sim, r))
      grow->add[grow->change.num_add++] = r;
  const struct group_view *view = group_machine_view(member->machine);
  bool may = !member->grow && !member->closing && !member->leaving && member->rank >= 0 &&
             group_view_has(view, member->rank, member->incarnation) && grow->change.num_add == count;
  if (!may) {
    free(grow);
    return false;
  }
  grow->next = sim->grows;
  sim->grows = grow;
  grow->change.add = grow->add;
  grow->change.remove = &grow->goes;
  if (goes && group_view_has(view, goes->rank, goes->incarnation)) {
    grow->goes = goes->rank;
    grow->removed = goes->incarnation;
    grow->change.num_remove = 1;
    goes->accused = true; // it will be put out
  }
  for (uint32_t i = 0; i < count; i++) {
    struct sim_member *m = sim_member_new(sim, grow->add[i], 0);
    grow->incarnation[i] = m->incarnation;
    m->offers_until = sim->now + OFFERED_NS;
    sim_at(sim, m->offers_until, (struct sim_event){.happen = look_again, .member = m});
    sim_member_pump(sim, m);
  }
  member->grow = grow;
  group_machine_change(member->machine, &grow->change, &grow->removed);
  sim_at(sim, sim->now + PATIENT_NS,
         (struct sim_event){.happen = give_up, .member = member, .data = grow, .number = 1});
  sim_member_pump(sim, member);
  return true;
}

bool sim_grow_wish(struct sim *sim, struct sim_member *m) {
  if (m->grow && group_machine_changed(m->machine)) {
    m->grow = NULL;
    sim->counts.grown++;
    group_machine_change(m->machine, NULL, NULL);
  }
  if (sim->now >= m->offers_until)
    return true;
  if (!m->offers) {
    m->offers = true;
    group_machine_offer(m->machine, GROUP_OFFER_COMING);
    group_machine_offer(m->machine, GROUP_OFFER_READY);
  }
  return false;
}

void sim_grow_look(struct sim *sim, int32_t rank, const struct core_record *record) {
  uint64_t incarnation;
  enum group_offer_stage stage;
  if (group_offer_decode(core_record_value(record), record->value_size, &incarnation, &stage) != 0) {
    sim_break(sim, "the offer of rank %d is none: %s", rank, weft_last_error());
    return;
  }
  if (stage != GROUP_OFFER_TAKEN)
    return;
  for (struct sim_grow *grow = sim->grows; grow; grow = grow->next)
    for (uint32_t i = 0; i < grow->change.num_add; i++)
      grow->taken |= grow->incarnation[i] == incarnation;
}

void sim_grow_judge(struct sim *sim) {
  const struct group_view *view = sim_judge_newest(sim);
  for (struct sim_grow *grow = sim->grows; grow; grow = grow->next) {
    for (uint32_t i = 0; grow->taken && i < grow->change.num_add; i++)
      if (!group_view_find(view, grow->add[i]))
        sim_break(sim, "a change takes in others without rank %d", grow->add[i]);
    if (grow->taken && grow->change.num_remove && group_view_has(view, grow->goes, grow->removed))
      sim_break(sim, "a change takes in others, and rank %d, which was to go, stays", grow->goes);
    grow->taken = false;
  }
}

void sim_grows_free(struct sim *sim) {
  while (sim->grows) {
    struct sim_grow *next = sim->grows->next;
    free(sim->grows);
    sim->grows = next;
  }
}
