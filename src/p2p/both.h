// A load in both directions at once. Only the time in which both directions ran is counted.
//
//   initiator                                target
//   "load": what, and where to         ->    prepares its transfers, and warms up
//   prepares its own, and warms up     <-    "warm"
//   "clock", some times                <->   "clock": its time, in ns
//   "go": least ns; begins             ->    begins
//   its counted part begins            <-    "running"; its counted part has begun
//   its counted part ends: "enough"    <->   its counted part ends: "enough"
//
// A counted part has at least the load's iterations, and takes at least the time that "go" gives. Each side goes on
// until both parts have ended, so each counted transfer runs beside the other's load. Then the initiator finds the time
// in which both ran:
//
//   from the later begin to the        <-    "loaded": begun and ended, by its clock
//   earlier end: "count" from, until   ->
//   divides both by the same window    <-    "counted": transfers in that time
#ifndef P2P_BOTH_H
#define P2P_BOTH_H

#include "p2p/measure.h"

// Runs the initiator's part and fills in gbps, peer_gbps and window_s, or `refused`. This side's load goes from `local`
// to `remote`; at the same time the peer runs the same load from its own buffer to `local`. TIMEOUT, PEER_LOST and
// PROTOCOL are failures of the peer.
int p2p_both_lead(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                  const struct p2p_remote *remote, struct p2p_result *result);

// Runs the target's part after it has received "load".
int p2p_both_follow(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                    const struct p2p_remote *remote);

#endif
