// Workers of the transport fault.
#ifndef TRANSPORT_FAULT_WORKER_H
#define TRANSPORT_FAULT_WORKER_H

#include "transport/fault/fault.h"

// Fills in the set-up's table, except name, probe and open.
void fault_table(struct fault_setup *setup);
int fault_open(const struct fault_setup *setup, const struct transport_options *options,
               struct transport_worker **worker);

#endif
