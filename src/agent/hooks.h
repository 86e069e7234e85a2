// Functions of higher folders of src/agent that lower folders call; open.c has the table. The order of the folders:
//
//   progress < memory < metadata < metrics, peer < transfer < liveness < exchange < services.c, housekeeping.c < open.c
#ifndef AGENT_HOOKS_H
#define AGENT_HOOKS_H

#include <weft/agent.h>

#include "agent/peer/peer.h"

struct agent_life;
struct transport_peer;

struct agent_hooks {
  // Housekeeping; returns when it is due next (CLOCK_MONOTONIC, ns). [housekeeping]
  uint64_t (*tick)(weft_agent_t *agent, uint64_t now_ns);
  // Callbacks of transports: agent_worker is the argument. [worker lock]
  void (*message)(void *worker, const void *bytes, size_t size);
  void (*link_failed)(void *worker, struct transport_peer *peer, int err, const char *why);
  // A region is deregistered that metadata describes. Peers learn this after regions_changed() has been called. [lock]
  void (*region_gone)(weft_agent_t *agent, weft_region_t region);
  // The published regions have changed. [any thread, no lock]
  void (*regions_changed)(weft_agent_t *agent);
  // Called for the transfers of a peer that has ended. The first stops them [lock]. The second frees what the
  // transports keep of them [lock and all worker locks].
  void (*stop_transfers)(struct agent_peer *peer);
  void (*unprepare_transfers)(struct agent_peer *peer);
  // A peer was loaded (`kind` LOADED: sets peer->life), has changed, or has ended (frees peer->life). [lock: calls
  // nothing that takes a lock]
  void (*peer_changed)(weft_agent_t *agent, struct agent_peer *peer, enum weft_agent_event_kind kind);
  // This agent is about to forget the peer. Notifies the peer, so that it does not take silence for death. [no lock]
  void (*forget_peer)(weft_agent_t *agent, weft_peer_t peer);
  // A GOODBYE or UPDATE has arrived. [housekeeping]
  void (*control_message)(weft_agent_t *agent, weft_peer_t peer, enum agent_message_kind kind, const void *bytes,
                          uint32_t size);
  // A peer has ended: ends its connections, too. [housekeeping]
  void (*life_ended)(struct agent_life *life);
};

#endif
