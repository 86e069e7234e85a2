// When phases began and ended, and when changes took effect: in seconds from the start of the run, by the lead's clock.
#include <string.h>

#include "run/lead/lead.h"

// Negative: the time is before the run, or not known.
static double seconds(const struct node *node, uint64_t ns) {
  return ns >= node->lead->started_ns ? (double)(ns - node->lead->started_ns) / 1e9 : -1;
}

void lead_fill_phase_times(const struct node *node, struct results_phase *phase) {
  const struct phase_times *times = &node->lead->phases[phase->index];
  phase->begin_s = seconds(node, times->begin_ns);
  phase->end_s = seconds(node, times->end_ns);
}

// The time that a process saw by its host's clock, if the lead has the same clock; otherwise the time at which the lead
// learned of it.
static double either(const struct node *node, uint64_t seen_ns, const char *boot, uint64_t heard_ns) {
  bool same = seen_ns != 0 && strcmp(boot, node->boot) == 0;
  return seconds(node, same ? seen_ns : heard_ns);
}

double lead_change_time(const struct node *node, const struct results_transition *change, const struct run_view *view,
                        const char *boot) {
  uint64_t seen_ns = view ? view->time_ns : 0;
  const struct seat *seat = lead_seat(node, change->phase, change->rank);
  if (change->change == RESULTS_JOIN)
    return either(node, seen_ns, boot, seat->started_ns);
  if (change->change == RESULTS_LEAVE)
    return either(node, seen_ns, boot, seat->record_ns);
  const struct seat *victim = lead_seat(node, lead_launch_phase(node, change->phase, change->rank), change->rank);
  return either(node, victim->kill_ns, victim->boot, victim->ended_ns);
}
