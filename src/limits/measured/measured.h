// What `weft bench limits` measures. Each part adds its entries to the host's table. A bound is the best of several
// short tries: other work on the host makes a try slower, and nothing makes it faster.
#ifndef LIMITS_MEASURED_MEASURED_H
#define LIMITS_MEASURED_MEASURED_H

#include "limits/host.h"

struct limits_measure {
  const char *path; // a folder on the disk to measure; NULL: no disk is measured
  uint32_t seconds; // time limit of the whole measurement
  // Called before each part with its name and with the progress of the whole in percent. May be NULL.
  void (*progress)(void *arg, const char *what, uint32_t percent);
  bool (*stopped)(void *arg); // called between tries: true ends the measurement with CANCELED. May be NULL
  void *arg;
};

// Measures into the host's table and replaces older entries. Parts that cannot be measured here are left out, and
// `missing` (text[cap]) gets one sentence a line about them. CANCELED; NOMEM; SYSTEM and TIMEOUT for parts that should
// work everywhere; INVALID if `path` is not a folder.
int limits_measure_all(struct limits *limits, const struct limits_measure *measure, char *missing, size_t cap);
// Writes the measurements to the kept file.
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
// TCP within the host, over one connection and over several.
int limits_measure_loopback(const struct limits_try *one);
// The disk, without the page cache. UNSUPPORTED: the file system cannot do that.
int limits_measure_disk(const struct limits_try *one);
// Copies within a GPU, between GPUs, and between GPUs and host memory. UNSUPPORTED: there is no GPU.
int limits_measure_gpus(const struct limits_try *one);

// --- copies by threads (copy.c) ---

struct limits_copiers {
  const int *cpus; // [count] the processor of each thread
  uint32_t count;
  uint64_t bytes; // working set of each thread: it reads one half and writes the other
  int source_cpu; // all threads read memory of the NUMA node of this processor; -1: each reads its own
};

// Measures the best rate of all threads together. NOMEM; LIMIT and SYSTEM: threads cannot be started; TIMEOUT.
int limits_copy_rate(const struct limits_try *one, const struct limits_copiers *copiers, double *gbps);

// Lists the processors of this process in cpus[cap] and returns their number. Processors that share no core with an
// earlier one come first.
uint32_t limits_list_cpus(const struct limits_hardware *hardware, int *cpus, uint32_t cap);

#endif
