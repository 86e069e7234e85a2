// Workers: one for each transport that an agent has opened.
#ifndef AGENT_PROGRESS_WORKER_H
#define AGENT_PROGRESS_WORKER_H

#include <stdatomic.h>

#include <weft/agent.h>

#include "agent/limits.h"
#include "base/time/trace.h"
#include "topology/served/serve.h"
#include "transport/transport.h"

struct agent_link;
struct agent_note;

// A request of a transport, on its way there. Its owner embeds it.
struct agent_post {
  struct transport_request request; // first; done and arg are progress/submit.c's
  struct agent_worker *worker;
  void *owner;
  struct agent_post *next;   // in the worker's queue
  _Atomic bool queued;       // in it
  _Atomic bool wanted;       // to be posted
  _Atomic bool posting;      // inside the transport's post(), outside of the worker's lock
  _Atomic uint32_t number;   // counts its starts
  _Atomic uint32_t canceled; // the start that is to be cancelled
  bool prepared;             // worker lock
  // It has ended: `err` is 0 or a code, and request.why says more. Inside a callback of the transport or in the thread
  // that started it; nothing touches the post afterwards.
  void (*ended)(struct agent_post *post, int err);
};

struct agent_worker {
  const struct transport *transport;
  struct transport_worker *worker;
  weft_agent_t *agent;
  uint32_t index;
  bool concurrent; // TRANSPORT_CONCURRENT_POST
  int fd;          // the transport's, to sleep on; -1: none
  _Atomic uint32_t lock;
  _Atomic uint32_t waiting; // for the worker's lock: who spins on it steps back
  _Alignas(64) _Atomic(struct agent_post *) queue;
  struct agent_link *failed_links; // worker lock: for housekeeping
  char nics[TOPOLOGY_SERVED_WHY];  // which it uses and why, in words; "": there is nothing to say
  struct trace_name traces[2];     // by enum weft_transfer_op: what profilers call its transfers
  char trace_texts[2][48];
  _Alignas(64) _Atomic(struct agent_note *)
      spare_notes[2]; // small and large; taken with the worker's lock, given back by any
};

enum { AGENT_OWNER = WEFT_AGENT_MAX_NAME + 32 };
// Whose worker of a transport it is, as transport_options.owner has it. [any]
void agent_owner(char owner[AGENT_OWNER], const char *name, uint64_t incarnation);

// Opens the worker that follows the others. It belongs to the agent once num_workers counts it.
int agent_worker_open(weft_agent_t *agent, const struct transport *transport, bool unasked);
// Closes one that num_workers does not count.
void agent_worker_discard(struct agent_worker *worker);
bool agent_worker_is_open(const weft_agent_t *agent, const char *transport);

// What a transport that was asked for by name and does not open fails with: UNSUPPORTED, with the reason that stands in
// the last error, unless `rc` says that there is none of that name, or what this process has no more of.
int agent_worker_missing(int rc, const char *name);

// Opens those that options.transports names, all of which have to work; or all that do.
int agent_workers_open(weft_agent_t *agent, const struct transport *const *more);
void agent_workers_close(weft_agent_t *agent);

#endif
