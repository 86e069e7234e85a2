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

// A request that is posted to a transport, or waits to be posted. Its owner embeds it.
struct agent_post {
  struct transport_request request; // first member; progress/submit.c uses its done and arg
  struct agent_worker *worker;
  void *owner;
  struct agent_post *next;   // in the worker's queue
  _Atomic bool queued;       // it is in the queue
  _Atomic bool wanted;       // it is to be posted
  _Atomic bool posting;      // inside the transport's post(), outside of the worker's lock
  _Atomic uint64_t number;   // number of its starts
  _Atomic uint64_t canceled; // number of the start that is to be cancelled
  bool prepared;             // guarded by the worker lock
  // Called when the post has ended: `err` is 0 or a code, and request.why has the reason. It runs inside a callback of
  // the transport or in the thread that started the post; nothing touches the post afterwards.
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
  _Atomic uint32_t waiting; // threads that wait for the worker's lock: others that only try it yield
  _Alignas(64) _Atomic(struct agent_post *) queue;
  struct agent_link *failed_links; // links that housekeeping has to handle; guarded by the worker lock
  char nics[TOPOLOGY_SERVED_WHY];  // which NICs it uses and why, in words; "": nothing to report
  struct trace_name traces[2];     // names of its transfers for profilers, by enum weft_transfer_op
  char trace_texts[2][48];
  _Alignas(64) _Atomic(struct agent_note *)
      spare_notes[2]; // small and large; taken with the worker's lock held, given back by any thread
};

enum { AGENT_OWNER = WEFT_AGENT_MAX_NAME + 32 };
// Writes the owner of an agent's workers, for transport_options.owner. [any]
void agent_owner(char owner[AGENT_OWNER], const char *name, uint64_t incarnation);

// Opens the worker after the existing ones. It belongs to the agent once num_workers counts it.
int agent_worker_open(weft_agent_t *agent, const struct transport *transport, bool unasked);
// Closes a worker that num_workers does not count.
void agent_worker_discard(struct agent_worker *worker);
bool agent_worker_is_open(const weft_agent_t *agent, const char *transport);

// The error for a transport that was selected by name and does not open: UNSUPPORTED, with the reason from the last
// error. It is `rc` itself if that says that there is no transport of that name, or that this process lacks a resource.
int agent_worker_missing(int rc, const char *name);

// Opens the transports that options.transports names, all of which have to work; without names, all that work.
int agent_workers_open(weft_agent_t *agent, const struct transport *const *more);
void agent_workers_close(weft_agent_t *agent);

#endif
