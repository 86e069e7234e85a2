// A load in both directions at once, of which only counts what lies in the time in which both ran.
//
//   initiator                                target
//   "load": what, and where to         ->    prepares its transfers, and warms up
//   prepares its own, and warms up     <-    "warm"
//   "clock", some times                <->   "clock": its time, in ns
//   "go": least ns; begins             ->    begins
//   its counted part begins            <-    "running"; its counted part has begun
//   its counted part ends: "enough"    <->   its counted part ends: "enough"
//
// A counted part is the load's iterations, and not shorter than that least time. Each side goes on until both parts
// have ended, so each counted transfer runs beside the other's load. Then the initiator takes the time in which both
// ran:
//
//   from the later begin to the        <-    "loaded": begun and ended, by its clock
//   earlier end: "count" from, until   ->
//   divides both by the same window    <-    "counted": transfers in that time
#ifndef P2P_BOTH_H
#define P2P_BOTH_H

#include "p2p/measure.h"

// The initiator's part, and what it comes to: gbps, peer_gbps and window_s, or `refused`. `load` goes from `local` to
// `remote`, and the peer's, which is another one's but for that, to `local`. TIMEOUT, PEER_LOST, PROTOCOL: the peer.
int p2p_both_lead(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                  const struct p2p_remote *remote, struct p2p_result *result);

// The target's, after "load".
int p2p_both_follow(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                    const struct p2p_remote *remote);

#endif
