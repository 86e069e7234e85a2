// Starts threads in which every signal is blocked.
#include "base/thread.h"

#include <stddef.h>

void thread_block_signals(sigset_t *before) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, before);
}

void thread_restore_signals(const sigset_t *before) {
  pthread_sigmask(SIG_SETMASK, before, NULL);
}

int thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg) {
  sigset_t before;
  thread_block_signals(&before);
  int error = pthread_create(thread, attributes, run, arg);
  thread_restore_signals(&before);
  return error;
}
