// The lock of a worker: its holder may call the worker's transport. post and poll only try to take it. If another
// thread has it, they put their work into the worker's queue. Every holder empties the queue before it unlocks, and
// checks it once more afterwards. So no work is forgotten, and no thread waits.
#ifndef AGENT_PROGRESS_SUBMIT_H
#define AGENT_PROGRESS_SUBMIT_H

#include "agent/agent.h"

// Waits for the lock: for set-up only.
void agent_worker_lock(struct agent_worker *worker);
// False: another thread has the lock, or waits for it.
bool agent_worker_trylock(struct agent_worker *worker);
// Does the work in the queue, and unlocks.
void agent_worker_unlock(struct agent_worker *worker);

// Take and release the locks of all workers, in their order.
void agent_workers_lock(weft_agent_t *agent);
void agent_workers_unlock(weft_agent_t *agent);

// Sets up a post to the worker's peer; the caller has filled in peer, op, pieces, status and message. [worker lock;
// allocates]
int agent_post_prepare(struct agent_post *post, struct agent_worker *worker, void *owner,
                       void (*ended)(struct agent_post *post, int err));
// The post has ended. When this returns, nothing of it is in flight or in the queue any more. [worker lock]
void agent_post_unprepare(struct agent_post *post);

// Starts the post, which has not been started yet, or has ended. It may have ended when this returns. [any, without the
// worker's lock]
void agent_post_start(struct agent_post *post, uint64_t number);
// The same for a holder of the worker's lock.
void agent_post_start_held(struct agent_post *post, uint64_t number);
// The same from anywhere, also from callbacks: the holder of the worker's lock starts the post before it unlocks.
void agent_post_leave(struct agent_post *post, uint64_t number);
// Makes start `number` of the post end soon, unless it has ended. [any]
void agent_post_cancel(struct agent_post *post, uint64_t number);

#endif
