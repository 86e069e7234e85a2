// An agent: its handle, and the objects that it keeps alive for the library.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/buffer.h"
#include "core/errors.h"
#include "core/gate.h"
#include "core/gil.h"
#include "core/wait.h"
#include "store/store.h"

struct ListState;

// A transfer without references that is still in flight.
struct Orphan {
  weft_transfer_t *transfer;
  std::shared_ptr<ListState> local, remote;
};

// All but `agent` and `store` is read and written with the GIL held.
struct AgentState : Gate {
  AgentState() : Gate("the agent") {}
  ~AgentState() { weft_agent_close(agent); }
  weft_agent_t *agent = nullptr; // NULL once it is closed
  std::shared_ptr<StoreState> store;
  bool driven = false;                  // its caller drives it: one call at a time
  int exports = 0;                      // views of allocated memory
  bool dropped = false;                 // no reference to the agent is left: the last view closes it
  std::map<weft_region_t, Buffer> kept; // the memory of regions
  std::vector<Orphan> orphans;
  std::vector<weft_dlist_t *> old_lists; // that were dropped while the agent was closing

  Entered::Kind kind() const { return driven ? Entered::ALONE : Entered::SHARED; }
  void check_free() const { // for a call that keeps the GIL
    if (driven)
      check_alone();
    else
      check_open();
  }
  bool closing() const { return closed.load() && agent; }
  void free_orphans();
  void shut();
  // Whether there are views of allocated memory, the last of which closes the agent from now on.
  bool drop() { return dropped = exports > 0 && !forked() && !closed.load(); }
  // Closes an agent without references, or leaves that to its last view; the GIL is held.
  static void shut_dropped(const std::shared_ptr<AgentState> &state);
};

class Agent {
public:
  explicit Agent(std::shared_ptr<AgentState> made) : state(std::move(made)) {}
  ~Agent();
  std::shared_ptr<AgentState> state;
};

// Runs a call without the GIL, counted; raises for a negative code.
template <class F> int agent_call(const std::shared_ptr<AgentState> &state, F call) {
  int rc;
  Failure failure;
  {
    Entered entered(*state, state->kind());
    WithoutGil release;
    rc = call(state->agent);
    if (rc < 0)
      failure.sentence = weft_last_error();
  }
  failure.code = rc;
  if (rc < 0)
    raise_failure(failure);
  return rc;
}

// The same for a call with a deadline, during which signals are handled. `call` owns everything that it uses.
int agent_wait(const std::shared_ptr<AgentState> &state, uint32_t timeout_ms, uint32_t attempt_ms,
               std::function<int(weft_agent_t *, uint32_t)> call);

void bind_agent(nb::module_ &m);
void bind_memory(nb::class_<Agent> &agent, nb::module_ &m);
void bind_metadata(nb::class_<Agent> &agent);
void bind_telemetry(nb::class_<Agent> &agent);
void bind_transfer(nb::class_<Agent> &agent, nb::module_ &m);
