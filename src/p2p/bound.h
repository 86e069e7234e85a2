// What the hardware allows of each row's rates.
#ifndef P2P_BOUND_H
#define P2P_BOUND_H

#include <jansson.h>

#include "p2p/report.h"

// What a target tells of its host, as a member of its answer; and what the initiator learns from that.
void p2p_bound_describe(json_t *ready);
void p2p_bound_compare(const json_t *ready, struct p2p_ends *ends);

// Finds the bound of a row that is measured, and takes its rates away where they cannot be true. A report without a
// table of bounds (NULL) leaves the row as it is.
void p2p_bound_judge(const struct p2p_report *report, struct p2p_result *result);

#endif
