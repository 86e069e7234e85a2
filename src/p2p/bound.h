// The upper bounds that the hardware sets to the rates of each row.
#ifndef P2P_BOUND_H
#define P2P_BOUND_H

#include <jansson.h>

#include "p2p/report.h"

// The target adds the identity of its host to its answer; the initiator finds out from it whether there are two hosts.
void p2p_bound_describe(json_t *ready);
void p2p_bound_compare(const json_t *ready, struct p2p_ends *ends);

// Whether both directions share the hardware that bounds them, so that the bound is that of their sum: they share
// copying processors, but not links.
bool p2p_bound_is_shared(const struct p2p_report *report);

// Notes what the network library of the row's transport uses; warns once if that is TCP unasked.
void p2p_bound_note_uses(struct p2p_report *report, const struct p2p_result *result);

// Finds the bound of a measured row, and removes the row's rates if they cannot be true. If the report has no table of
// bounds (NULL), the row stays unchanged.
void p2p_bound_judge(const struct p2p_report *report, struct p2p_result *result);

#endif
