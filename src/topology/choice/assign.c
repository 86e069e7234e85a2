// The choice itself: each GPU gets one of its nearest NICs, and GPUs with the same nearest NICs share them evenly. The
// NICs that are left over are divided in the same way, as long as there is one for each of these GPUs.
#include "topology/choice/parts.h"

#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct work {
  struct topology_choice *choice;
  size_t *load;  // [NICs] GPUs that a NIC serves
  size_t *order; // [GPUs] in which they choose
};

// Whether the NIC is one of the GPU's nearest.
static bool is_near(const struct topology_choice *choice, size_t gpu, size_t nic) {
  return choice->nics[nic].usable && topology_distance_of(choice, gpu, nic) == choice->gpus[gpu].distance;
}

static size_t count_near(const struct topology_choice *choice, size_t gpu) {
  size_t count = 0;
  for (size_t n = 0; n < choice->num_nics; n++)
    count += is_near(choice, gpu, n);
  return count;
}

static void find_least_distance(struct topology_choice *choice, size_t gpu) {
  choice->gpus[gpu].distance = TOPOLOGY_SYS;
  for (size_t n = 0; n < choice->num_nics; n++)
    if (choice->nics[n].usable && topology_distance_of(choice, gpu, n) < choice->gpus[gpu].distance)
      choice->gpus[gpu].distance = topology_distance_of(choice, gpu, n);
}

static bool chooses_before(const struct topology_choice *choice, size_t a, size_t b) {
  if (choice->gpus[a].distance != choice->gpus[b].distance)
    return choice->gpus[a].distance < choice->gpus[b].distance;
  return count_near(choice, a) < count_near(choice, b);
}

// The GPU that has a nearer NIC, or fewer to choose from, chooses first; else the one with the lower address.
static void sort_gpus(struct work *work) {
  for (size_t i = 0; i < work->choice->num_gpus; i++) {
    size_t at = i;
    for (; at > 0 && chooses_before(work->choice, i, work->order[at - 1]); at--)
      work->order[at] = work->order[at - 1];
    work->order[at] = i;
  }
}

static void give(struct work *work, size_t gpu, size_t nic) {
  struct topology_gpu *to = &work->choice->gpus[gpu];
  to->nics[to->num_nics++] = (uint16_t)nic;
  work->choice->nics[nic].chosen = true;
  work->load[nic]++;
}

static void give_first(struct work *work, size_t gpu) {
  const struct topology_choice *choice = work->choice;
  size_t best = SIZE_MAX;
  for (size_t n = 0; n < choice->num_nics; n++)
    if (is_near(choice, gpu, n) &&
        (best == SIZE_MAX || work->load[n] < work->load[best] ||
         (work->load[n] == work->load[best] && choice->nics[n].mbit_s > choice->nics[best].mbit_s)))
      best = n;
  if (best != SIZE_MAX)
    give(work, gpu, best);
}

static bool near_the_same(const struct topology_choice *choice, size_t a, size_t b) {
  for (size_t g = 0; g < choice->num_gpus; g++)
    if (is_near(choice, g, a) != is_near(choice, g, b))
      return false;
  return true;
}

static bool is_spare(const struct topology_choice *choice, size_t nic) {
  return choice->nics[nic].usable && !choice->nics[nic].chosen && !*choice->nics[nic].why;
}

static void say(char why[TOPOLOGY_WHY], const char *format, ...) __attribute__((format(printf, 2, 3)));

// Appends to the reason; text that does not fit is cut off.
static void say(char why[TOPOLOGY_WHY], const char *format, ...) {
  size_t used = strlen(why);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why + used, TOPOLOGY_WHY - used, format, arguments);
  va_end(arguments);
}

// Sets the reason for the left-over NICs that are near the same GPUs as the first.
static void explain_spares(struct topology_choice *choice, size_t first, size_t sharers) {
  for (size_t n = first; n < choice->num_nics; n++) {
    if (!is_spare(choice, n) || !near_the_same(choice, first, n))
      continue;
    if (choice->num_gpus == 0)
      say(choice->nics[n].why, "there is no GPU");
    else if (sharers == 0)
      say(choice->nics[n].why, "each GPU has a nearer one");
    else
      say(choice->nics[n].why, "it is left over when the %zu GPUs near it have the same number each", sharers);
  }
}

// Gives the left-over NIC, and the others near the same GPUs, to these GPUs in rounds, as long as there is one for
// each.
static void give_spares(struct work *work, size_t first) {
  struct topology_choice *choice = work->choice;
  size_t spares = 0, sharers = 0;
  for (size_t n = first; n < choice->num_nics; n++)
    spares += is_spare(choice, n) && near_the_same(choice, first, n);
  for (size_t g = 0; g < choice->num_gpus; g++)
    sharers += is_near(choice, g, first);
  size_t rounds = sharers ? spares / sharers : 0, nic = first;
  for (size_t round = 0; round < rounds; round++)
    for (size_t g = 0; g < choice->num_gpus; g++) {
      if (!is_near(choice, g, first) || choice->gpus[g].num_nics == TOPOLOGY_GPU_NICS)
        continue;
      while (nic < choice->num_nics && !(is_spare(choice, nic) && near_the_same(choice, first, nic)))
        nic++;
      if (nic < choice->num_nics)
        give(work, g, nic);
    }
  explain_spares(choice, first, sharers);
}

static void explain_none(struct topology_choice *choice, size_t gpu) {
  char *why = choice->gpus[gpu].why;
  if (choice->num_nics == 0)
    say(why, "this host has no NIC");
  for (size_t n = 0; n < choice->num_nics; n++)
    say(why, "%s%s: %s", n ? "; " : "no NIC can be used: ", topology_nic_name(&choice->nics[n]), choice->nics[n].why);
}

static void explain(const struct work *work, size_t gpu) {
  struct topology_choice *choice = work->choice;
  struct topology_gpu *to = &choice->gpus[gpu];
  if (to->num_nics == 0) {
    explain_none(choice, gpu);
    return;
  }
  for (size_t i = 0; i < to->num_nics; i++)
    say(to->why, "%s%s", i ? ", " : "", topology_nic_name(&choice->nics[to->nics[i]]));
  size_t near = count_near(choice, gpu);
  if (near > to->num_nics)
    say(to->why, ": of %zu NICs %s (%s), shared out evenly", near, topology_distance_meaning(to->distance),
        topology_distance_name(to->distance));
  else
    say(to->why, ": %s (%s)", topology_distance_meaning(to->distance), topology_distance_name(to->distance));
  if (to->distance == TOPOLOGY_SYS)
    say(to->why, "; none is nearer");
  const char *comma = "; serves GPU ";
  for (size_t g = 0; g < choice->num_gpus && work->load[to->nics[0]] > 1; g++)
    if (g != gpu && choice->gpus[g].num_nics > 0 && choice->gpus[g].nics[0] == to->nics[0]) {
      say(to->why, "%s%zu", comma, g);
      comma = ", ";
    }
  if (comma[0] == ',')
    say(to->why, " too");
}

static void assign(struct work *work) {
  struct topology_choice *choice = work->choice;
  for (size_t n = 0; n < choice->num_nics; n++)
    choice->nics[n].chosen = false;
  for (size_t g = 0; g < choice->num_gpus; g++) {
    choice->gpus[g].num_nics = 0;
    choice->gpus[g].why[0] = '\0';
    find_least_distance(choice, g);
  }
  sort_gpus(work);
  for (size_t i = 0; i < choice->num_gpus; i++)
    give_first(work, work->order[i]);
  for (size_t n = 0; n < choice->num_nics; n++)
    if (is_spare(choice, n))
      give_spares(work, n);
  for (size_t g = 0; g < choice->num_gpus; g++)
    explain(work, g);
}

int topology_assign(struct topology_choice *choice, const char *wished) {
  int err = topology_filter_nics(choice, wished);
  if (err)
    return err;
  struct work work = {.choice = choice};
  work.load = calloc(choice->num_nics + 1, sizeof *work.load);
  work.order = calloc(choice->num_gpus + 1, sizeof *work.order);
  if (work.load && work.order)
    assign(&work);
  else
    err = fail(WEFT_ERR_NOMEM, "no memory for the choice of NICs");
  free(work.load);
  free(work.order);
  return err;
}
