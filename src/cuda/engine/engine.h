// One rank's engine: its state on the device, and what the host keeps beside it.
#ifndef CUDA_ENGINE_ENGINE_H
#define CUDA_ENGINE_ENGINE_H

#include <weft/ep.h>

#include "base/ep_limits.h"
#include "cuda/kernels/launch.h"
#include "cuda/plugin.h"

enum { CUDA_KNOWN = 64 }; // arguments that are remembered to be memory of the device

// In pinned host memory, so that copies need no kernel and no thread of the driver.
struct cuda_host {
  struct device_report report; // written by kernels
  _Alignas(CUDA_LINE) struct cuda_begin begin;
  // On their way to the device, under `lock`
  _Alignas(CUDA_LINE) union {
    struct cuda_state state;
    struct cuda_view view;
    struct cuda_control control;
    uint64_t word;
  } out;
  struct device_progress progress; // on its way from it, likewise
  // On their way from it, for the owner
  struct device_record record;
  uint64_t missing[EP_MAX_TOKENS];
};
CUDA_STATIC_ASSERT(sizeof(struct cuda_host) <= CUDA_PINNED, "it is in a piece of pinned memory");

struct device_ep {
  struct device *device;
  struct device_ep_options options;
  struct cuda_layout layout;
  struct cuda_forms forms;
  uint32_t members; // that a view can have
  uint32_t blocks;  // of each kernel
  bool limited;     // to fewer than the device has
  bool early;       // kernels can be launched early: kernels/launch.h
  bool shared;      // has its blocks of the device
  uint64_t bytes;
  struct cuda_state *state;             // on the device
  char *area;                           // likewise: what this rank sends to itself
  void *arrays;                         // likewise: those of the handles
  struct cuda_handle handle[CUDA_LIVE]; // pointers to it
  struct cuda_host *host;
  struct device_report *report; // that of `host`, as kernels see it
  struct cuda_begin *begin;     // likewise
  cudaStream_t control;         // carries what any thread writes for the kernels
  cudaStream_t owner;           // carries what the owner launches and reads
  cudaEvent_t end;
  cudaStream_t last;    // of the newest launch
  uint64_t last_launch; // its number among those of the device, 0: none
  pthread_mutex_t lock;
  uint64_t published[CUDA_PUBLISHED]; // epoch in each place
  uint64_t newest, begun;             // epochs: published last, begun with
  const void *known[CUDA_KNOWN];      // arguments
};

// Checks that the kernels of `ep` can use all arguments: INVALID names one that they cannot use. `align`: of its
// address; `needed`: NULL is an error. Within a guard. [owner]
struct cuda_argument {
  const char *name;
  const void *memory;
  uint32_t align;
  bool needed;
};
int cuda_check_arguments(struct device_ep *ep, const struct cuda_argument *list, size_t count, char *why);
// Checks that the stream is one of the engine's device; before cuda_enter(). [owner]
int cuda_check_stream(const struct device_ep *ep, void *stream, char *why);

#endif
