// The parts of the transport `file`. worker.c: the table; memory.c: regions; request.c: checks and posts requests;
// operation.c: chooses the bytes to read or write next, and handles the results; uring.c, posix.c and, for GPU memory,
// gds.c: the engines that read and write.
#ifndef TRANSPORT_FILE_FILE_H
#define TRANSPORT_FILE_FILE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "transport/file/cufile.h"
#include "transport/storage/storage.h"

enum {
  FILE_PAGE = 4096,           // the smallest page size of any machine
  FILE_MAX_PAGE = 65536,      // the largest page size, of arm64
  FILE_MAX_FIXED = 256,       // registered buffers of one region: one for each FILE_FIXED_BYTES
  FILE_FIXED_BYTES = 64 << 20 // the kernel's limit of one is 1 GiB
};

struct file_worker;
struct file_op;
struct file_gds;

// A region: a file, or memory (then the descriptors are -1).
struct file_region {
  struct storage_region base;
  int buffered, direct; // descriptors: through the page cache, and past it (-1: the file system cannot)
  bool own_buffered;    // to be closed; else it is the caller's
  bool no_direct;       // the file system accepted O_DIRECT, and then refused a request
  bool readable, writable;
  bool limited;                   // RLIMIT_FSIZE applies: a regular file
  uint32_t memory_align;          // alignment of addresses that O_DIRECT needs
  int slot_buffered, slot_direct; // in the ring's table; -1: none
  uint32_t num_fixed; // memory: number of parts of FILE_FIXED_BYTES, of which some may be registered buffers
  uint16_t *fixed;    // numbers of the buffers in uring.c; NULL: none was tried
  // gds.c's
  cufile_handle handle; // cuFile's handle of a file; NULL: none yet
  int handle_fd;        // descriptor of the handle if there is no `direct`; -1
  int device;           // memory's
  bool pin_tried;       // memory: registering it with cuFile was tried
  bool pinned;          // and succeeded
};

struct file_request {
  struct storage_request base;
  struct link issue;  // in the worker's list, while some operations are not started
  uint32_t piece;     // the next piece to begin
  uint64_t offset;    // the next offset in that piece
  uint64_t most;      // RLIMIT_FSIZE at post(): a write beyond it kills the process
  uint32_t in_flight; // operations
  bool syncing;
  uint32_t num_files; // number of files that a request with sync=data has to flush, and the next one
  uint32_t next_file;
  uint32_t num_flushed; // of them
  struct file_region **files;
};

// An operation, of which a worker has a fixed number.
struct file_op {
  struct file_op *next; // in the list of free operations, or in the engine's list
  struct file_request *request;
  struct file_region *file;
  struct file_region *memory;
  uint32_t piece;
  uint16_t tries; // attempts without progress
  bool busy, sync, direct, to_file;
  char *address;
  uint64_t offset;
  uint32_t length;
  // gds.c's
  _Atomic bool stopped; // cancelled: the thread stops before the next call
  ssize_t result;       // of file_op_done()
  const char *why;      // result -EIO: the text of cuFile or of the GPU; NULL: see errno
};

// An engine, which carries out operations. Functions that return int follow fail.h.
struct file_engine {
  const char *name;
  int (*open)(struct file_worker *worker);
  void (*close)(struct file_worker *worker);
  void (*start)(struct file_worker *worker, struct file_op *op); // the operation ends in reap(), with file_op_done()
  uint32_t (*reap)(struct file_worker *worker);                  // returns the number of ended operations
  void (*flush)(struct file_worker *worker);                     // submits all started operations
  void (*cancel)(struct file_worker *worker, struct file_op *op);
  void (*attach)(struct file_worker *worker, struct file_region *file); // may do nothing
  void (*detach)(struct file_worker *worker, struct file_region *region);
  // Announces that the memory from `offset` of its region on will be used. Returns the number of bytes of host memory
  // that were pinned; it pins no more parts once there are `most` bytes.
  uint64_t (*pin)(struct file_worker *worker, struct file_region *memory, uint64_t offset, uint64_t length,
                  uint64_t most);
  int (*arm)(struct file_worker *worker);
};

extern const struct file_engine file_gds; // in addition to one of the next two
extern const struct file_engine file_posix;
extern const struct file_engine file_uring; // only with WEFT_HAVE_URING

struct file_worker {
  struct storage_worker base;
  const struct file_engine *engine;
  uint64_t depth; // operations at once
  uint64_t page;  // O_DIRECT starts and ends at its multiples: no page is written with and without it
  bool direct, pin, sync, by_gds;
  uint64_t gds_threads, close_s;
  struct file_gds *gds; // NULL: no transfers to or from GPU memory
  int event_fd;         // the engine's, or -1
  struct file_op *ops, *free_ops;
  uint32_t in_flight;
  struct link issue; // requests with operations that are not started
  void *engine_data;
};

// memory.c
int file_reg(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
void file_unreg(struct transport_region *region);
void file_release(struct transport_remote *remote);
// Releases the system resources of a region; if its descriptor belongs to the caller, the caller may close it now.
void file_region_close(struct file_region *region);
void file_region_drop(struct storage_region *region); // frees it

// request.c
int file_prepare(struct transport_request *request);
void file_unprepare(struct transport_request *request);
int file_post(struct transport_request *request);

// operation.c
void file_issue(struct file_worker *worker); // starts as many operations as possible
void file_op_done(struct file_worker *worker, struct file_op *op, ssize_t result); // bytes, or -errno
void file_cancel(struct transport_request *request);
// No operation of the request is under way any more.
void file_request_end(struct file_request *own);

static inline bool file_is_cuda(const struct file_region *region) {
  return region && region->base.base.memory.kind == WEFT_MEMORY_CUDA;
}

// gds.c, beside the engine's functions
int file_gds_reg(struct file_worker *worker, struct file_region *memory, const struct transport_memory *about);
// Prepares what the request needs of cuFile; does nothing if no piece is GPU memory. UNSUPPORTED, with the reason.
int file_gds_prepare(struct file_worker *worker, const struct transport_request *request);
// Called before close() if operations do not end: the memory that threads hanging in cuFile use is not freed.
void file_gds_abandon(struct file_worker *worker);

#endif
