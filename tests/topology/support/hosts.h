// Shared parts of the tests on the machines of host_*.xml.
#ifndef TESTS_TOPOLOGY_HOSTS_H
#define TESTS_TOPOLOGY_HOSTS_H

#include "topology/choice/choice.h"

// Makes the choice on such a machine; the caller frees it. `nics` and `root` as in struct topology_choice_options.
struct topology_choice *host_choose(const char *host, const char *nics, const char *root);

// Fails the test unless the GPUs have the NICs that `expected` names: "0:mlx5_0 1:mlx5_1,mlx5_2 2:-".
void host_serves(const struct topology_choice *choice, const char *expected);

const struct topology_nic *host_nic(const struct topology_choice *choice, const char *name);

#endif
