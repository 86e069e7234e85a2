// What the library refuses of what a run would check: asked before anything is started.
#ifndef RUN_NODE_PROBE_H
#define RUN_NODE_PROBE_H

#include "run/common/config.h"

enum { NODE_PROBE_WHY = 400 };

struct node_probe {
  char why[RUN_NUM_FEATURES][NODE_PROBE_WHY]; // the library's sentence, where a feature is left out
  char no_gpus[NODE_PROBE_WHY];               // why `auto` is host memory where there are GPUs; "": it need not be
};

extern const char *const node_feature_names[RUN_NUM_FEATURES];

#endif
