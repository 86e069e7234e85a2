// What `weft bench limits` measures. Each part adds its entries to the host's table. A bound is the best of several
// short tries: what else runs on the host makes a try slower, and nothing makes it faster.
#ifndef LIMITS_MEASURED_MEASURED_H
#define LIMITS_MEASURED_MEASURED_H

#include "limits/host.h"

struct limits_measure {
  const char *path; // a folder on the disk that is measured; NULL: none is
  uint32_t seconds; // that all of it may take
  // Told before each part: what it is, and how far the whole has come, in percent. May be NULL.
  void (*progress)(void *arg, const char *what, uint32_t percent);
  bool (*stopped)(void *arg); // asked between tries: true ends it with CANCELED. May be NULL
  void *arg;
};

// Into the host's table, what was there before is replaced. Parts that cannot be measured here are left out, and said
// to `missing` (text[cap]), one sentence a line. CANCELED; NOMEM; SYSTEM and TIMEOUT for what ought to work everywhere;
// INVALID where `path` is no folder.
int limits_measure_all(struct limits *limits, const struct limits_measure *measure, char *missing, size_t cap);
// Keeps what was measured.
int limits_keep(struct limits *limits);

// --- the parts ---

struct limits_try {
  struct limits *limits;
  const struct limits_measure *measure;
  uint64_t slice_ns; // of one try
};

int limits_check_stopped(const struct limits_try *one);

// Copies of host memory: by 1, 2, 4, ... and all processors, within each cache and beyond them; and between NUMA nodes.
int limits_measure_copies(const struct limits_try *one);
// TCP within the host, by one connection and several.
int limits_measure_loopback(const struct limits_try *one);
// Past the page cache. UNSUPPORTED: the file system cannot do that.
int limits_measure_disk(const struct limits_try *one);
// Copies within, between and from and to GPUs. UNSUPPORTED: there is none.
int limits_measure_gpus(const struct limits_try *one);

// --- copies by threads (copy.c) ---

struct limits_copiers {
  const int *cpus; // [count] where each runs
  uint32_t count;
  uint64_t bytes; // of each one's working set: half of it is read, half is written
  int source_cpu; // from whose node's memory all read; -1: each from its own
};

// The best rate of all together. NOMEM; LIMIT and SYSTEM: no threads; TIMEOUT.
int limits_copy_rate(const struct limits_try *one, const struct limits_copiers *copiers, double *gbps);

// Processors of this process, those first that share no core with one before. Into cpus[cap]; returns how many.
uint32_t limits_list_cpus(const struct limits_hardware *hardware, int *cpus, uint32_t cap);

#endif
