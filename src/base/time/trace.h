// Ranges for profilers: their time lines show the time between the post and the end of a transfer, and calls of EP.
// They use NVTX if Weft was built with its header; NVTX loads the profiler. Without a profiler a range costs only the
// read of a variable, without NVTX nothing at all.
#ifndef BASE_TIME_TRACE_H
#define BASE_TIME_TRACE_H

#include <stdatomic.h>
#include <stdint.h>

// The name of ranges. It and its text have to stay valid as long as ranges use it.
struct trace_name {
  const char *text;
  _Atomic(const void *) handle; // the profiler's handle; NULL: the profiler does not know the name yet
};

#ifdef WEFT_NVTX

extern void *trace_domain; // NULL: no profiler is attached

// Call it before any range; the first call loads the profiler. Any thread.
void trace_open(void);

uint64_t trace_start(struct trace_name *name, uint64_t bytes);
void trace_stop(uint64_t range);

// 0: no profiler is attached. Any thread may end the range.
static inline uint64_t trace_begin(struct trace_name *name, uint64_t bytes) {
  return trace_domain ? trace_start(name, bytes) : 0;
}

static inline void trace_end(uint64_t range) {
  if (range)
    trace_stop(range);
}

static inline void trace_leave(const uint64_t *range) {
  trace_end(*range);
}

// A range from here to the end of the block.
#define TRACE_BLOCK(name)                                                                                              \
  static struct trace_name trace_name_ = {.text = name};                                                               \
  __attribute__((cleanup(trace_leave))) const uint64_t trace_range_ = trace_begin(&trace_name_, 0)

#else

static inline void trace_open(void) {}

static inline uint64_t trace_begin(struct trace_name *name, uint64_t bytes) {
  (void)name, (void)bytes;
  return 0;
}

static inline void trace_end(uint64_t range) {
  (void)range;
}

#define TRACE_BLOCK(name) _Static_assert(sizeof(name) > 1, "a range has a name")

#endif

#endif
