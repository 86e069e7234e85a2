// Closes an agent of a test, and frees its transfers and descriptor lists. They outlive their agent until the caller
// frees them.
#ifndef TESTS_AGENT_OWNED_H
#define TESTS_AGENT_OWNED_H

#include <pthread.h>
#include <stdlib.h>

#include "agent/agent.h"

struct owned {
  weft_transfer_t **transfers;
  weft_dlist_t **lists;
  size_t num_transfers, num_lists;
};

static inline void owned_add_lists(struct owned *owned, weft_dlist_t *first) {
  for (weft_dlist_t *list = first; list; list = list->next) {
    owned->lists = realloc(owned->lists, (owned->num_lists + 1) * sizeof(weft_dlist_t *));
    owned->lists[owned->num_lists++] = list;
  }
}

static inline void owned_close(weft_agent_t *agent) {
  struct owned owned = {0};
  if (!agent)
    return;
  pthread_mutex_lock(&agent->lock); // a thread of the agent may be adding a peer
  for (weft_transfer_t *transfer = agent->transfers; transfer; transfer = transfer->next) {
    owned.transfers = realloc(owned.transfers, (owned.num_transfers + 1) * sizeof(weft_transfer_t *));
    owned.transfers[owned.num_transfers++] = transfer;
  }
  owned_add_lists(&owned, agent->self.lists);
  for (uint32_t i = 0; i < agent->peers.count; i++)
    owned_add_lists(&owned, agent->peers.slots[i]->lists);
  pthread_mutex_unlock(&agent->lock);
  weft_agent_close(agent);
  while (owned.num_transfers > 0)
    weft_transfer_free(owned.transfers[--owned.num_transfers]);
  while (owned.num_lists > 0)
    weft_dlist_free(owned.lists[--owned.num_lists]);
  free(owned.transfers);
  free(owned.lists);
}

#endif
