// A fake CUDA in host memory, for the host side of the plug-in: one device, streams that complete all work at once,
// windows that are memfds, and kernels that only record their arguments.
#ifndef TESTS_CUDA_FAKE_CUDA_H
#define TESTS_CUDA_FAKE_CUDA_H

#include "cuda/kernels/launch.h"
#include "cuda/throughput/launch.h"

enum { FAKE_PROCESSORS = 32, FAKE_SHARED = 200 << 10 };

struct fake_cuda {
  bool stuck;                  // streams never complete their work
  int stuck_for;               // they do after so many queries; 0: never
  int freed_early;             // pieces of memory that were freed before
  bool capturing;              // streams are being captured
  bool full;                   // no device memory is left
  bool hidden;                 // the GPU of mapped windows is hidden
  bool mappable;               // windows can be mapped
  bool old_code;               // kernels do not wait for the previous kernel
  bool no_channel;             // there is no IMEX channel, which fabric handles need
  bool own_only;               // only CUDA's own memory can be pinned
  unsigned int registered;     // flags of the newest registration
  int pinned;                  // ranges of host memory that are registered
  cudaError_t query;           // result of the next query of a stream, instead of success
  int drained;                 // waits of a stream for an event
  int graphs;                  // launches of graphs
  int waits_in_capture, depth; // waits for streams that are captured; contexts pushed
  size_t allocated;            // pieces of memory, including pinned ones and windows
  // arguments of the newest launches
  struct cuda_dispatch_args dispatch;
  struct cuda_combine_args combine;
  struct cuda_begin_args begin;
  uint32_t blocks;
  bool early;
  int launches, begins;
  struct cuda_begin found; // result of begin, from the `begins_until_found`th launch on
  int begins_until_found;
  uint32_t memory_per_member; // shared memory that a dispatch needs, for each member
  uint32_t plan_memory;       // shared memory that a plan needs, for each member and expert
  uint32_t combine_memory;    // shared memory that a combine needs with code for Hopper
  void (*copied)(void);       // NULL, or called after each copy
  // groups for throughput: the newest arguments of each kernel, and a letter for each launch
  struct cuda_plan_args plan;
  struct cuda_compare_args compare;
  struct cuda_control_args control;
  struct cuda_rows_args rows;
  struct cuda_answers_args answers;
  struct cuda_end_args end;
  struct cuda_notify_args notify;
  struct cuda_lists_args lists;
  char order[32];
  char fails;      // the letter of the launch that fails, once
  int pushes_left; // the n-th push of a context from now on fails; 0: none
  int copies_left; // the n-th copy from now on fails; 0: none
};
extern struct fake_cuda fake;

// A stream of the device, and a stream of another device.
#define FAKE_STREAM       ((cudaStream_t)0x1000)
#define FAKE_OTHER_STREAM ((cudaStream_t)0x2000)
// Memory of another device, and of the host.
#define FAKE_OTHER_MEMORY ((void *)0x7000)
extern char fake_host_memory[64];

#endif
