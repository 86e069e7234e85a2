// Functions that the files of the choice share.
#ifndef TOPOLOGY_CHOICE_PARTS_H
#define TOPOLOGY_CHOICE_PARTS_H

#include "topology/choice/choice.h"

// Fills in the lists and distances of this host, or of the one that HWLOC_XMLFILE names; sets `*this_host` to whether
// it is this one. Nothing in a build without hwloc. NOMEM.
int topology_gather(struct topology_choice *choice, bool *this_host);

// Reads state, speed and layer of the NICs' links from `root`/sys, over what is there.
void topology_read_links(struct topology_choice *choice, const char *root);

// Decides which NICs are usable: sets usable and why. INVALID when a wished name is none of them.
int topology_filter_nics(struct topology_choice *choice, const char *wished);

#endif
