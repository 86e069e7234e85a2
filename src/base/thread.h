// Threads of the library. They run with every signal blocked: signals are the program's, and a handler of its own must
// not run in a thread that it knows nothing of.
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

// pthread_create() with every signal blocked in the new thread. `attributes` may be NULL.
int thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);

// Around a call by which another library starts threads, which inherit what is blocked in the caller.
void thread_block_signals(sigset_t *before);
void thread_restore_signals(const sigset_t *before);

#endif
