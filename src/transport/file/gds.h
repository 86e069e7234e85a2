// Inside the engine for memory of GPUs. gds.c: what it knows of GPUs and cuFile; gds_move.c: how an operation is
// carried out; gds_threads.c: the threads that do so.
#ifndef TRANSPORT_FILE_GDS_H
#define TRANSPORT_FILE_GDS_H

#include <pthread.h>
#include <semaphore.h>

#include "device/device.h"
#include "transport/file/file.h"

enum { GDS_DEVICES = 64, GDS_WHY = DEVICE_WHY };

struct file_gds {
  const struct cufile *cufile;
  const struct device_api *api;
  int num_devices;
  struct device *devices[GDS_DEVICES]; // those with memory of ours, and a stream on each
  void *streams[GDS_DEVICES];
  bool has_files, has_memory; // there have been some
  bool ready;                 // the driver is open
  bool abandoned;             // threads hang: nothing that they use is freed or taken back

  // Threads, once a request needs them. Operations go to them in a ring with room for all, and come back in a list.
  uint32_t num_threads;
  pthread_t *threads;
  struct file_op **ring;
  uint64_t depth, put, page;
  pthread_mutex_t takers; // of `taken`: who puts does not wait for it
  uint64_t taken;
  sem_t waiting; // put and not taken
  struct file_op *_Atomic ended;
  int wake;            // readable when something ended
  struct file_op *ops; // the worker's, where each operation has its place in `whys`;
  bool owns_ops;       // and freed with this
  char (*whys)[GDS_WHY];
  _Atomic bool stop;
  _Atomic uint32_t users; // threads, and the worker
};

int gds_threads_start(struct file_gds *gds, const struct file_worker *worker);
// Ends those that wait, and frees `gds` with the last; all of them, unless some are at work.
void gds_threads_end(struct file_gds *gds, struct file_worker *worker);
// Any thread of the engine: moves what can be moved. Bytes; 0: at the end of the file; or -errno, see file_op.why.
ssize_t gds_move(struct file_gds *gds, struct file_op *op, char page[FILE_MAX_PAGE]);

#endif
