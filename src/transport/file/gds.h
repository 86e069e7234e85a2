// The inside of the engine for GPU memory. gds.c: GPUs and cuFile; gds_move.c: carries out an operation; gds_threads.c:
// the threads that do so.
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
  struct device *devices[GDS_DEVICES]; // devices with registered memory, each with a stream
  void *streams[GDS_DEVICES];
  bool has_files, has_memory; // files, or GPU memory, were registered
  bool ready;                 // the driver is open
  bool abandoned;             // threads hang: nothing that they use is freed

  // Threads, which start when a request needs them. They get operations through a ring with room for all, and return
  // them in a list.
  uint32_t num_threads;
  pthread_t *threads;
  struct file_op **ring;
  uint64_t depth, put, page;
  pthread_mutex_t takers; // guards `taken`; putting an operation does not wait for it
  uint64_t taken;
  sem_t waiting; // counts operations that were put and not taken
  struct file_op *_Atomic ended;
  int wake;            // readable when an operation has ended
  struct file_op *ops; // the worker's, where each operation has its place in `whys`;
  bool owns_ops;       // and freed with this
  char (*whys)[GDS_WHY];
  _Atomic bool stop;
  _Atomic uint32_t users; // threads, and the worker
};

int gds_threads_start(struct file_gds *gds, const struct file_worker *worker);
// Ends the waiting threads; the last user frees `gds`. Threads that are working end afterwards.
void gds_threads_end(struct file_gds *gds, struct file_worker *worker);
// Any thread of the engine: moves as many bytes as possible. Returns their number; 0: end of the file; or -errno, see
// file_op.why.
ssize_t gds_move(struct file_gds *gds, struct file_op *op, char page[FILE_MAX_PAGE]);

#endif
