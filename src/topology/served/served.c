// Finds the NICs, among those that this process may open, that serve its GPUs or are near its processors.
#include "topology/served/served.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/affinity.h"
#include "base/text/text.h"

enum { MOST = 64 };

struct picked {
  const struct topology_choice *choice;
  size_t nics[MOST], count;
};

static bool can_be_used(const struct topology_nic *nic) {
  return nic->usable && *nic->rdma;
}

static void take(struct picked *picked, size_t nic) {
  for (size_t i = 0; i < picked->count; i++)
    if (picked->nics[i] == nic)
      return;
  if (*picked->choice->nics[nic].rdma && picked->count < MOST)
    picked->nics[picked->count++] = nic;
}

// False: there is no room for all of them, and a list without its last names would be another one.
static bool name_all(const struct picked *picked, const char *comma, char *out, size_t cap) {
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < picked->count && used < cap; i++)
    used +=
        (size_t)snprintf(out + used, cap - used, "%s%s", i ? comma : "", picked->choice->nics[picked->nics[i]].rdma);
  return used < cap;
}

static void hand_over(const struct picked *picked, struct topology_served *served) {
  if (!name_all(picked, ",", served->nics, sizeof served->nics))
    served->nics[0] = '\0';
}

static bool by_gpus(struct picked *picked, const struct topology_ask *ask, struct topology_served *served) {
  const struct topology_choice *choice = picked->choice;
  size_t known = 0;
  int last = -1;
  for (size_t i = 0; i < ask->num_gpus; i++) {
    int gpu = topology_gpu_at(choice, ask->gpus[i]);
    if (gpu < 0 || choice->gpus[gpu].num_nics == 0)
      continue;
    for (size_t n = 0; n < choice->gpus[gpu].num_nics; n++)
      take(picked, choice->gpus[gpu].nics[n]);
    known++;
    last = gpu;
  }
  if (picked->count == 0)
    return false;
  hand_over(picked, served);
  if (known == 1)
    snprintf(served->why, sizeof served->why, "for the GPU at %s %s", choice->gpus[last].address,
             choice->gpus[last].why);
  else
    snprintf(served->why, sizeof served->why, "for the %zu GPUs that this process sees those that serve them: %.200s",
             known, served->nics);
  return true;
}

static bool is_within(const cpu_set_t *inner, const cpu_set_t *outer) {
  cpu_set_t both;
  CPU_AND(&both, inner, outer);
  return CPU_COUNT(inner) > 0 && CPU_EQUAL(&both, inner);
}

// The node, of several, that has all processors; -1: none.
static int node_of(const struct topology_choice *choice, const cpu_set_t *allowed) {
  cpu_set_t cpus;
  for (size_t i = 0; i < choice->num_nodes && choice->num_nodes > 1; i++)
    if (affinity_parse(choice->nodes[i].cpus, &cpus) && is_within(allowed, &cpus))
      return choice->nodes[i].node;
  return -1;
}

static void by_processors(struct picked *picked, const struct topology_ask *ask, struct topology_served *served) {
  const struct topology_choice *choice = picked->choice;
  int node = node_of(choice, &ask->allowed);
  size_t all = 0;
  for (size_t n = 0; n < choice->num_nics; n++) {
    all += *choice->nics[n].rdma != '\0';
    if (can_be_used(&choice->nics[n]) && node >= 0 && choice->nics[n].numa_node == node)
      take(picked, n);
  }
  bool near = picked->count > 0;
  for (size_t n = 0; n < choice->num_nics && !near; n++)
    if (can_be_used(&choice->nics[n]))
      take(picked, n);
  if (picked->count == all) {
    snprintf(served->why, sizeof served->why, "none is nearer than another, or better");
    return;
  }
  char names[TOPOLOGY_SERVED_WHY / 2];
  hand_over(picked, served);
  if (!name_all(picked, ", ", names, sizeof names))
    snprintf(names, sizeof names, "%zu", picked->count);
  if (near)
    snprintf(served->why, sizeof served->why, "those at NUMA node %d, on which this process runs: %s", node, names);
  else
    snprintf(served->why, sizeof served->why, "those that can be used: %s", names);
}

void topology_served_by(const struct topology_choice *choice, const struct topology_ask *ask,
                        struct topology_served *served) {
  struct picked picked = {.choice = choice};
  size_t usable = 0;
  *served = (struct topology_served){.nics = ""};
  for (size_t n = 0; n < choice->num_nics; n++)
    usable += can_be_used(&choice->nics[n]);
  if (usable < 2)
    snprintf(served->why, sizeof served->why, "%s can be used", usable ? "one NIC with RDMA" : "no NIC with RDMA");
  else if (!by_gpus(&picked, ask, served))
    by_processors(&picked, ask, served);
}

static bool is_in(const char *list, const char *name) {
  size_t size = strlen(name);
  for (size_t length; *list; list += length + (list[length] == ',')) {
    length = strcspn(list, ",");
    if (length == size && strncmp(list, name, size) == 0)
      return true;
  }
  return false;
}

int topology_keep_openable(struct topology_choice *choice, const char *openable) {
  struct text others = {0};
  for (size_t n = 0; n < choice->num_nics; n++)
    if (*choice->nics[n].rdma && !is_in(openable, choice->nics[n].rdma))
      text_add(&others, "%s%s", others.data ? "," : "^", choice->nics[n].rdma);
  int rc = others.failed ? fail(WEFT_ERR_NOMEM, "no memory for the choice of NICs") : 0;
  if (rc == 0 && others.data)
    rc = topology_assign(choice, others.data);
  text_free(&others);
  return rc;
}
