// The cost of a change of a group against its number of members: bench_group [--json]
//
// It counts store requests of all members, events of their watches, virtual time until all running members know the
// change and have completed their own requests, and processor time of all members, the store and the simulation
// together. Values are means over several changes. The exponent is the slope of a line through the logarithms: 0 is no
// growth, 1 is linear.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/support/sim.h"

enum change { JOIN, LEAVE, DEATH, FOUR_JOINS, CHANGES };
enum measure { REQUESTS, EVENTS, VIRTUAL_MS, CPU_MS, MEASURES };
enum { SIZES = 4, TTL_S = 10 };

static const uint32_t sizes[SIZES] = {16, 64, 256, 1024};
static const uint32_t repetitions[SIZES] = {100, 50, 20, 4};
static const char *const change_names[CHANGES] = {"join", "leave", "death", "4 joins at once"};
static const char *const measure_names[MEASURES] = {"requests", "events", "virtual_ms", "cpu_ms"};

static double cpu_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void settle(struct sim *sim, uint32_t members) {
  if (sim_until(sim, sim_agreed, 60 * SIM_S))
    return;
  fprintf(stderr, "bench_group: %u members: %s\n", members, sim_broken(sim) ? sim_broken(sim) : "no agreement");
  exit(1);
}

static struct sim_member *anybody(struct sim *sim) {
  return sim_live_at(sim, (uint32_t)sim_dice(sim, sim_live(sim)));
}

static void make(struct sim *sim, enum change change) {
  if (change == LEAVE)
    sim_leave(sim, anybody(sim), false);
  else if (change == DEATH)
    sim_crash(sim, anybody(sim), true);
  else
    for (int i = 0; i < (change == FOUR_JOINS ? 4 : 1); i++)
      sim_join(sim, -1);
}

// Changes of each kind; as many members at the end as at the beginning.
static void measure_round(struct sim *sim, uint32_t members, double sums[CHANGES][MEASURES]) {
  static const enum change order[] = {JOIN, LEAVE, FOUR_JOINS, DEATH, DEATH, DEATH, DEATH};
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    struct sim_counts before = sim_counts(sim);
    uint64_t since = sim_now(sim);
    double cpu = cpu_ms();
    make(sim, order[i]);
    settle(sim, members);
    struct sim_counts after = sim_counts(sim);
    double weight = order[i] == DEATH ? 0.25 : 1;
    double *sum = sums[order[i]];
    sum[REQUESTS] += weight * (double)(after.requests - before.requests);
    sum[EVENTS] += weight * (double)(after.events - before.events);
    sum[VIRTUAL_MS] += weight * (double)(sim_now(sim) - since) / 1e6;
    sum[CPU_MS] += weight * (cpu_ms() - cpu);
  }
}

static double exponent(const double *values) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (int i = 0; i < SIZES; i++) {
    double a = log(sizes[i]), b = log(values[i]);
    x += a;
    y += b;
    xx += a * a;
    xy += a * b;
  }
  return (SIZES * xy - x * y) / (SIZES * xx - x * x);
}

static void report_change(enum change change, double means[SIZES][CHANGES][MEASURES], bool json) {
  for (int m = 0; m < MEASURES; m++) {
    double values[SIZES];
    for (int s = 0; s < SIZES; s++)
      values[s] = means[s][change][m];
    if (json)
      printf("%s\n  {\"change\": \"%s\", \"measure\": \"%s\", \"means\": [%.3f, %.3f, %.3f, %.3f], \"exponent\": %.3f}",
             change + m ? "," : "", change_names[change], measure_names[m], values[0], values[1], values[2], values[3],
             exponent(values));
    else
      printf("%-16s %-11s %10.2f %10.2f %10.2f %10.2f %9.2f\n", m ? "" : change_names[change], measure_names[m],
             values[0], values[1], values[2], values[3], exponent(values));
  }
}

static void report(double means[SIZES][CHANGES][MEASURES], bool json) {
  if (json)
    printf("{\"members\": [%u, %u, %u, %u], \"results\": [", sizes[0], sizes[1], sizes[2], sizes[3]);
  else
    printf("%-16s %-11s %10u %10u %10u %10u %9s\n", "change", "members:", sizes[0], sizes[1], sizes[2], sizes[3],
           "exponent");
  for (int change = 0; change < CHANGES; change++)
    report_change((enum change)change, means, json);
  if (json)
    printf("\n]}\n");
}

int main(int argc, char **argv) {
  bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    fprintf(stderr, "usage: bench_group [--json]\n");
    return 2;
  }
  static double means[SIZES][CHANGES][MEASURES];
  for (int s = 0; s < SIZES; s++) {
    const struct sim_options options = {.seed = 1, .capacity = sizes[s] + 16, .ttl_s = TTL_S};
    struct sim *sim = sim_new(&options);
    sim_found(sim, sizes[s]);
    settle(sim, sizes[s]);
    for (uint32_t i = 0; i < repetitions[s]; i++)
      measure_round(sim, sizes[s], means[s]);
    for (int c = 0; c < CHANGES; c++)
      for (int m = 0; m < MEASURES; m++)
        means[s][c][m] /= repetitions[s];
    sim_free(sim);
  }
  report(means, json);
  return 0;
}
