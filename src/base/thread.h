// Threads of the library. They run with every signal blocked: signals belong to the program, and its handlers must not
// run in a thread that it does not know.
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

// pthread_create() with every signal blocked in the new thread. `attributes` may be NULL.
int thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);

// Use these around a call in which another library starts threads, since new threads inherit the caller's blocked
// signals.
void thread_block_signals(sigset_t *before);
void thread_restore_signals(const sigset_t *before);

#endif
