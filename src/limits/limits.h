// The upper bounds of transfers on this host, and the check whether a figure can be true. `weft bench limits` measures
// bounds once and keeps them; otherwise they come from the hardware's own description. Each bound has a flag for which
// of the two it is.
//
// A bound is the largest payload rate of the hardware, in 1e9 bytes a second, for all pairs of a route together. No
// correct measurement is above it. So if something is not known (how large the buffers are, how many processors copy),
// the functions return the largest of the possible bounds.
//
// A table is used by one thread at a time.
#ifndef LIMITS_LIMITS_H
#define LIMITS_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LIMITS_NAME = 48, LIMITS_DETAIL = 256 };

enum limits_memory { LIMITS_HOST, LIMITS_CUDA, LIMITS_FILE, LIMITS_OBJECT };

struct limits_end {
  enum limits_memory memory;
  uint32_t gpu;     // CUDA: index as this process counts its GPUs
  const char *path; // FILE: the file, or its folder
  const char *host; // NULL: this one. Ends with two different names count as two hosts
};

struct limits_route {
  struct limits_end from, to;
  const char *transport; // "shm", "cuda", "ucx", "ofi", "file", "object": as weft_transfer_info names it; NULL: unknown
  const char *devices;   // NICs on the route, with commas between them; NULL: all NICs that have a link
  uint32_t pairs;        // pairs that use the same hardware at the same time; 0: one
  uint64_t working_set;  // bytes that a pair uses again and again, both ends together; 0: unknown
  uint32_t copiers;      // processors that copy for one pair at the same time; 0: unknown
};

struct limits_bound {
  char name[LIMITS_NAME];     // "host copy", "nic mlx5_0", "gpu 0-1", ...: always the same for the same hardware
  double gbps;                // 1e9 bytes a second; negative: nobody knows
  bool measured;              // by `weft bench limits`; false: described by the hardware
  char detail[LIMITS_DETAIL]; // how it was found, or why nobody knows
};

struct limits; // this host's table

// Loads the kept measurements, if they are of this host and this hardware; otherwise uses the hardware's description.
// NOMEM. A wrong kept file is no error: limits_origin() reports it.
int limits_open(struct limits **limits);
void limits_close(struct limits *limits); // NULL is legal
// A sentence that says where the bounds come from.
const char *limits_origin(const struct limits *limits);

// Finds the bound of a route. For CUDA memory it asks the GPUs' driver for PCI addresses, so only a process that does
// not fork afterwards may call it with such a route.
void limits_route_bound(struct limits *limits, const struct limits_route *route, struct limits_bound *bound);

// Finds the bound of the fastest link between any two GPUs of this host. It asks NVML, not the CUDA driver.
void limits_gpu_link_bound(struct limits *limits, struct limits_bound *bound);

// A figure, and what is known about its measurement.
struct limits_claim {
  double gbps;
  double window_s; // the time in which it was measured; 0: unknown
  bool same_gpu;   // both ends are on one GPU, though a link between two was to be measured
  bool cached;     // the page cache served the file
  struct limits_bound bound;
};

// Whether a figure cannot be true; writes the reason as a sentence to why[cap]. A figure with `same_gpu` or `cached` is
// always refused. Other figures are refused if they are more than 5 % above a known bound; if the window was below 1
// ms, the sentence says so too.
bool limits_refuse(const struct limits_claim *claim, char *why, size_t cap);

// The figure in percent of the bound; negative: the bound is not known.
double limits_percent(const struct limits_bound *bound, double gbps);

// The bytes of host memory that are available without taking memory from other processes; UINT64_MAX: not known.
uint64_t limits_memory_available(void);

#endif
