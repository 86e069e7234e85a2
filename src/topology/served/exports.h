// Environment variables that configure other libraries for this host, from the same choice of NICs as ours.
#ifndef TOPOLOGY_SERVED_EXPORTS_H
#define TOPOLOGY_SERVED_EXPORTS_H

#include "topology/choice/choice.h"

enum { TOPOLOGY_VALUE = 1024, TOPOLOGY_EXPORTS = 16 };

// What the exports follow from.
struct topology_exports_facts {
  const struct topology_choice *choice;
  bool ranked;                   // for one rank: only then do variables of one process make sense
  int gpu;                       // of that rank; -1: none, or it is not known which
  char interface[TOPOLOGY_NAME]; // that leads to other hosts, "" when none is known
  bool cma_refused;              // processes may not read each other's memory
};

struct topology_export {
  const char *name;
  bool set; // else there is no value, and `why` says why
  char value[TOPOLOGY_VALUE];
  char why[TOPOLOGY_WHY];
};

// Fills `out` and returns how many there are, those that are not set among them; always the same names in the same
// order.
size_t topology_exports(const struct topology_exports_facts *facts, struct topology_export out[TOPOLOGY_EXPORTS]);

// The interface of the default route (IPv4, else IPv6) with the least metric, as root/proc/net has it. False: none.
bool topology_default_route(const char *root, char interface[TOPOLOGY_NAME]);

#endif
