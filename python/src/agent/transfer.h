// Lists and transfers of an agent.
#pragma once

#include <memory>

#include "agent/agent.h"

struct ListState {
  std::shared_ptr<AgentState> agent;
  weft_dlist_t *list = nullptr;
  uint32_t count = 0;
  ~ListState() {
    if (agent && agent->closing() && !agent->forked())
      agent->old_lists.push_back(list);
    else
      weft_dlist_free(list);
  }
};

struct TransferState : Gate {
  TransferState() : Gate("the transfer") {}
  ~TransferState();
  std::shared_ptr<AgentState> agent;
  std::shared_ptr<ListState> local, remote;
  weft_transfer_t *transfer = nullptr;
  bool brief = false; // a post copies so little that the GIL is kept
};
