// Finds when which processes of the program that a test names have to start. Its lead starts those of phase 0 on its
// node; whatever a later phase adds, also a rank that rejoins, is a new process, and takes a slot that no other had.
#include "slurm/expand/launches.h"

static void add(const struct slurm_maker *maker, struct slurm_run *run, uint32_t phase, uint32_t node, uint32_t count) {
  struct slurm_launch *list = slurm_memory_room(maker->memory, run->launches, run->num_launches, sizeof *list);
  if (!list)
    return;
  run->launches = list;
  list[run->num_launches++] = (struct slurm_launch){phase, node, count};
}

void slurm_launches_at_once(const struct slurm_maker *maker, struct slurm_run *run) {
  for (uint32_t i = 0; run->node_processes && i < run->resources.num_nodes; i++)
    add(maker, run, 0, i, run->node_processes[i]);
}

void slurm_launches_by_phase(const struct slurm_maker *maker, struct slurm_run *run, const struct plan *plan,
                             struct toml_place at) {
  uint32_t node = 0, taken = 0, slots = 0; // `taken`: slots of `node`
  const uint32_t nodes = run->resources.num_nodes;
  for (uint32_t i = 0; run->node_processes && i < nodes; i++)
    slots += run->node_processes[i];
  if (plan->num_launches > slots) {
    slurm_fault(
        maker->faults, at,
        "the test's own program needs %u process slots, since a rank that rejoins takes a new one, but there are "
        "%u: want more, or no --as-written",
        plan->num_launches, slots);
    return;
  }
  for (uint32_t p = 0; p < plan->num_phases; p++)
    for (uint32_t left = plan->phases[p].joins.count; left;) {
      uint32_t free = run->node_processes[node] - taken, count = left < free ? left : free;
      if (count)
        add(maker, run, p, node, count);
      left -= count;
      taken += count;
      if (taken == run->node_processes[node]) {
        node++;
        taken = 0;
      }
    }
}
