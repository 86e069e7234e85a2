// The choice of NICs on a recorded machine, and how a test compares it.
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/support/hosts.h"

struct topology_choice *host_choose(const char *host, const char *nics, const char *root) {
  char path[512];
  snprintf(path, sizeof path, "%s/host_%s.xml", HOSTS, host);
  assert_int_equal(setenv("HWLOC_XMLFILE", path, 1), 0);
  struct topology_choice *choice = NULL;
  const struct topology_choice_options options = {.nics = nics, .root = root};
  assert_int_equal(topology_choose(&choice, &options), 0);
  assert_true(choice->known);
  return choice;
}

void host_serves(const struct topology_choice *choice, const char *expected) {
  char text[1024] = "";
  for (size_t g = 0; g < choice->num_gpus; g++) {
    const struct topology_gpu *gpu = &choice->gpus[g];
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%zu:%s", g ? " " : "", g, gpu->num_nics ? "" : "-");
    for (size_t i = 0; i < gpu->num_nics; i++)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? "," : "",
               topology_nic_name(&choice->nics[gpu->nics[i]]));
  }
  assert_string_equal(text, expected);
}

const struct topology_nic *host_nic(const struct topology_choice *choice, const char *name) {
  for (size_t n = 0; n < choice->num_nics; n++)
    if (strcmp(topology_nic_name(&choice->nics[n]), name) == 0)
      return &choice->nics[n];
  fail_msg("no NIC %s", name);
  return NULL;
}
