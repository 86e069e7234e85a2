// The threads of the engine for GPU memory: cuFile's calls wait for the device, and the thread that drives the worker
// must not wait. These threads use nothing of the worker except the operations that they get.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/thread.h"
#include "transport/file/gds.h"

// With the last that uses it.
static void leave(struct file_gds *gds) {
  if (atomic_fetch_sub_explicit(&gds->users, 1, memory_order_acq_rel) > 1)
    return;
  if (gds->owns_ops)
    free(gds->ops);
  if (gds->wake >= 0)
    close(gds->wake);
  sem_destroy(&gds->waiting);
  pthread_mutex_destroy(&gds->takers);
  free(gds->threads);
  free(gds->ring);
  free(gds->whys);
  free(gds);
}

static void give_back(struct file_gds *gds, struct file_op *op) {
  const uint64_t one = 1;
  op->next = atomic_load_explicit(&gds->ended, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&gds->ended, &op->next, op, memory_order_release, memory_order_relaxed))
    continue;
  ssize_t size = write(gds->wake, &one, sizeof one);
  (void)size; // its counter is full: then it is readable
}

// At least as many operations were put as threads have passed the semaphore. Operations are taken one by one in their
// order. So an entry is never reused before it was read: otherwise there would be more waiting operations than the
// worker has.
static struct file_op *take(struct file_gds *gds) {
  pthread_mutex_lock(&gds->takers);
  struct file_op *op = gds->ring[gds->taken++ % gds->depth];
  pthread_mutex_unlock(&gds->takers);
  return op;
}

static void *work(void *arg) {
  struct file_gds *gds = arg;
  _Alignas(FILE_PAGE) char page[FILE_MAX_PAGE];
  for (;;) {
    while (sem_wait(&gds->waiting) != 0)
      continue; // a signal
    if (atomic_load_explicit(&gds->stop, memory_order_acquire))
      break;
    struct file_op *op = take(gds);
    op->result = gds_move(gds, op, page);
    give_back(gds, op);
  }
  leave(gds);
  return NULL;
}

static int make_threads(struct file_gds *gds, uint32_t count) {
  int error = 0;
  for (uint32_t i = 0; i < count && error == 0; i++) {
    atomic_fetch_add_explicit(&gds->users, 1, memory_order_relaxed);
    error = thread_create(&gds->threads[i], NULL, work, gds);
    if (error == 0)
      gds->num_threads++;
    else
      atomic_fetch_sub_explicit(&gds->users, 1, memory_order_relaxed);
  }
  return gds->num_threads > 0 ? 0 : fail_thread(error, "a thread for GPUDirect Storage"); // one suffices
}

int gds_threads_start(struct file_gds *gds, const struct file_worker *worker) {
  if (gds->num_threads > 0)
    return 0;
  gds->depth = worker->depth;
  gds->page = worker->page;
  gds->ops = worker->ops;
  gds->threads = gds->threads ? gds->threads : calloc(worker->gds_threads, sizeof *gds->threads);
  gds->ring = gds->ring ? gds->ring : calloc(gds->depth, sizeof *gds->ring);
  gds->whys = gds->whys ? gds->whys : calloc(gds->depth, sizeof *gds->whys);
  if (!gds->threads || !gds->ring || !gds->whys)
    return fail(WEFT_ERR_NOMEM, "out of memory for the threads of GPUDirect Storage");
  if (gds->wake < 0)
    gds->wake = fcntl(worker->event_fd, F_DUPFD_CLOEXEC, 0); // a thread that hangs may outlive the worker
  if (gds->wake < 0)
    return fail_errno(errno, "cannot duplicate an eventfd");
  return make_threads(gds, (uint32_t)worker->gds_threads);
}

void gds_threads_end(struct file_gds *gds, struct file_worker *worker) {
  uint32_t count = gds->num_threads;
  pthread_t *threads = gds->threads;
  atomic_store_explicit(&gds->stop, true, memory_order_release);
  if (gds->abandoned) {
    gds->owns_ops = true;
    worker->ops = NULL;
    for (uint32_t i = 0; i < count; i++)
      pthread_detach(threads[i]);
  }
  for (uint32_t i = 0; i < count; i++)
    sem_post(&gds->waiting);
  for (uint32_t i = 0; i < count && !gds->abandoned; i++)
    pthread_join(threads[i], NULL);
  leave(gds);
}
