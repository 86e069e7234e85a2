// What the parts of the transport `file` share. worker.c: the table; memory.c: regions; request.c: checks and posts
// requests; operation.c: which bytes are read or written next, and what becomes of them; uring.c, posix.c and, for
// memory of GPUs, gds.c: the engines that do it.
#ifndef TRANSPORT_FILE_FILE_H
#define TRANSPORT_FILE_FILE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "transport/file/cufile.h"
#include "transport/storage/storage.h"

enum {
  FILE_PAGE = 4096,           // the smallest that a machine has,
  FILE_MAX_PAGE = 65536,      // and the largest, of arm64
  FILE_MAX_FIXED = 256,       // registered buffers of one region: one for each FILE_FIXED_BYTES
  FILE_FIXED_BYTES = 64 << 20 // the kernel's limit of one is 1 GiB
};

struct file_worker;
struct file_op;
struct file_gds;

// Registered with the transport: a file, or memory (then the descriptors are -1).
struct file_region {
  struct storage_region base;
  int buffered, direct; // descriptors: through the page cache, and past it (-1: the file system cannot)
  bool own_buffered;    // to be closed; else it is the caller's
  bool no_direct;       // it said that it can, and then refused
  bool readable, writable;
  bool limited;                   // by RLIMIT_FSIZE: a regular file
  uint32_t memory_align;          // that O_DIRECT wants of addresses
  int slot_buffered, slot_direct; // in the ring's table; -1: none
  uint32_t num_fixed;             // memory: stretches of FILE_FIXED_BYTES, of which some may be registered buffers:
  uint16_t *fixed;                // their numbers, uring.c's; NULL: none was tried
  // gds.c's
  cufile_handle handle; // a file's, for cuFile; NULL: not yet
  int handle_fd;        // the handle's, where there is no `direct`; -1
  int device;           // memory's
  bool pin_tried;       // memory: registering it with cuFile was tried,
  bool pinned;          // and done
};

struct file_request {
  struct storage_request base;
  struct link issue;  // in the worker's list, while there is more to begin
  uint32_t piece;     // the next to begin,
  uint64_t offset;    // from there in it
  uint64_t most;      // RLIMIT_FSIZE at post(): a write beyond it kills the process
  uint32_t in_flight; // operations
  bool syncing;
  uint32_t num_files; // those that a request with sync=data has to flush, and the next of them
  uint32_t next_file;
  struct file_region **files;
};

// An operation, of which a worker has a fixed number.
struct file_op {
  struct file_op *next; // free, or the engine's
  struct file_request *request;
  struct file_region *file;
  struct file_region *memory;
  uint32_t piece;
  uint16_t tries; // without any progress
  bool busy, sync, direct, to_file;
  char *address;
  uint64_t offset;
  uint32_t length;
  // gds.c's
  _Atomic bool stopped; // cancelled: the thread stops before the next call
  ssize_t result;       // of file_op_done()
  const char *why;      // result -EIO: what cuFile or the GPU said; NULL: see errno
};

// How operations are carried out. Functions that return int follow fail.h.
struct file_engine {
  const char *name;
  int (*open)(struct file_worker *worker);
  void (*close)(struct file_worker *worker);
  void (*start)(struct file_worker *worker, struct file_op *op); // it ends in reap(), with file_op_done()
  uint32_t (*reap)(struct file_worker *worker);                  // returns how many ended
  void (*flush)(struct file_worker *worker);                     // what was started is under way
  void (*cancel)(struct file_worker *worker, struct file_op *op);
  void (*attach)(struct file_worker *worker, struct file_region *file); // may do nothing
  void (*detach)(struct file_worker *worker, struct file_region *region);
  // That memory will be used, from `offset` of its region on. Returns how many bytes of host memory it has pinned: no
  // more stretches once it has as many as `most`.
  uint64_t (*pin)(struct file_worker *worker, struct file_region *memory, uint64_t offset, uint64_t length,
                  uint64_t most);
  int (*arm)(struct file_worker *worker);
};

extern const struct file_engine file_gds; // beside one of these:
extern const struct file_engine file_posix;
extern const struct file_engine file_uring; // only with WEFT_HAVE_URING

struct file_worker {
  struct storage_worker base;
  const struct file_engine *engine;
  uint64_t depth; // operations at once
  uint64_t page;  // O_DIRECT begins and ends at multiples of it, so that no page is written both ways
  bool direct, pin, sync, by_gds;
  uint64_t gds_threads, close_s;
  struct file_gds *gds; // NULL: nothing goes to or from GPUs
  int event_fd;         // the engine's, or -1
  struct file_op *ops, *free_ops;
  uint32_t in_flight;
  struct link issue; // requests with something to begin
  void *engine_data;
};

// memory.c
int file_reg(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
void file_unreg(struct transport_region *region);
void file_release(struct transport_remote *remote);
// Gives back what a region holds of the system; its descriptor may be the caller's, who may close it now.
void file_region_close(struct file_region *region);
void file_region_drop(struct storage_region *region); // frees it

// request.c
int file_prepare(struct transport_request *request);
void file_unprepare(struct transport_request *request);
int file_post(struct transport_request *request);

// operation.c
void file_issue(struct file_worker *worker);                                       // begins what can be begun
void file_op_done(struct file_worker *worker, struct file_op *op, ssize_t result); // bytes, or -errno
void file_cancel(struct transport_request *request);

static inline bool file_is_cuda(const struct file_region *region) {
  return region && region->base.base.memory.kind == WEFT_MEMORY_CUDA;
}

// gds.c, beside the engine's functions
int file_gds_reg(struct file_worker *worker, struct file_region *memory, const struct transport_memory *about);
// What the request needs of cuFile; nothing where no piece is a GPU's. UNSUPPORTED, in words.
int file_gds_prepare(struct file_worker *worker, const struct transport_request *request);
// Before close(), when operations do not end: what threads that hang in cuFile use is left as it is.
void file_gds_abandon(struct file_worker *worker);

#endif
