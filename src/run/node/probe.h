// Features that a run would check but the library does not have: found before anything is started.
#ifndef RUN_NODE_PROBE_H
#define RUN_NODE_PROBE_H

#include "run/common/config.h"

enum { NODE_PROBE_WHY = 400 };

struct node_probe {
  char why[RUN_NUM_FEATURES][NODE_PROBE_WHY]; // the library's error, for each feature that is left out
  char no_gpus[NODE_PROBE_WHY]; // why `auto` must choose host memory although there are GPUs; "": it need not
};

extern const char *const node_feature_names[RUN_NUM_FEATURES];

#endif
