// The lock of a worker: its holder may call the worker's transport. post and poll only try it; what they want done
// when another thread has it they leave in the worker's queue, which every holder empties before it lets go, and looks
// at once more afterwards. So nothing that was left is forgotten, and no thread waits.
#ifndef AGENT_PROGRESS_SUBMIT_H
#define AGENT_PROGRESS_SUBMIT_H

#include "agent/agent.h"

// Waits for it: set-up only.
void agent_worker_lock(struct agent_worker *worker);
// False: another thread has it, or waits for it.
bool agent_worker_trylock(struct agent_worker *worker);
// Serves the queue, and lets go.
void agent_worker_unlock(struct agent_worker *worker);

// All workers' locks, in their order.
void agent_workers_lock(weft_agent_t *agent);
void agent_workers_unlock(weft_agent_t *agent);

// Sets up a post to the worker's peer; the caller has filled in peer, op, pieces, status and message. [worker lock;
// allocates]
int agent_post_prepare(struct agent_post *post, struct agent_worker *worker, void *owner,
                       void (*ended)(struct agent_post *post, int err));
// Nothing of it is in flight or in the queue any more when this returns, given that it has ended. [worker lock]
void agent_post_unprepare(struct agent_post *post);

// Starts it; it has not been started, or has ended. It may have ended when this returns. [any, without the worker's
// lock]
void agent_post_start(struct agent_post *post, uint32_t number);
// The same for who holds the worker's lock.
void agent_post_start_held(struct agent_post *post, uint32_t number);
// The same from anywhere, callbacks included: whoever holds the worker's lock starts it before it lets go.
void agent_post_leave(struct agent_post *post, uint32_t number);
// Has start `number` of it end soon, unless it has ended. [any]
void agent_post_cancel(struct agent_post *post, uint32_t number);

#endif
