// What bounds a transfer on this host: measured once by `weft bench limits` and kept, else the hardware's own
// description, which of the two is said. And whether a figure can be true at all.
//
// A bound is what the hardware can carry of payload, in 1e9 bytes a second, all pairs of a route together. Nothing that
// was measured rightly is above it, so where something is not known (how large the buffers are, how many processors
// copy), the largest of the possible bounds is given.
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
  const char *host; // NULL: this one. Of two names that differ the ends are taken to be two hosts
};

struct limits_route {
  struct limits_end from, to;
  const char *transport; // "shm", "cuda", "ucx", "ofi", "file", "object": as weft_transfer_info names it; NULL: unknown
  const char *devices;   // NICs on the route, with commas between them; NULL: all that have a link
  uint32_t pairs;        // that move at the same time over the same thing; 0: one
  uint64_t working_set;  // bytes that a pair goes through again and again, both ends together; 0: unknown
  uint32_t copiers;      // processors that copy for one pair at the same time; 0: unknown
};

struct limits_bound {
  char name[LIMITS_NAME];     // "host copy", "nic mlx5_0", "gpu 0-1", ...: the same for the same thing
  double gbps;                // 1e9 bytes a second; negative: nobody knows
  bool measured;              // by `weft bench limits`; else described by the hardware
  char detail[LIMITS_DETAIL]; // how it was found, or why nobody knows
};

struct limits; // this host's table

// Loads what was kept, if it is of this host and this hardware; else the hardware's description serves. NOMEM. It never
// fails for what is wrong with a kept file: limits_origin() says that.
int limits_open(struct limits **limits);
void limits_close(struct limits *limits); // NULL is legal
// Where the bounds come from, in a sentence.
const char *limits_origin(const struct limits *limits);

// Routes with CUDA memory ask the GPUs' driver for their PCI addresses: only a process that does not fork afterwards
// may ask for one.
void limits_route_bound(struct limits *limits, const struct limits_route *route, struct limits_bound *bound);

// The fastest link between two GPUs of this host, whichever they are: asks NVML, and no driver of CUDA.
void limits_gpu_link_bound(struct limits *limits, struct limits_bound *bound);

// A figure, and what is known of how it came to be.
struct limits_claim {
  double gbps;
  double window_s; // that it was measured in; 0: unknown
  bool same_gpu;   // both ends are on one GPU, where a link between two was meant
  bool cached;     // a file that the page cache served
  struct limits_bound bound;
};

// Whether a figure is not to be believed, and why not, as a sentence into why[cap]. Refused are: figures whose ends are
// not two, or no disk (the two marks above), whatever they are; and those that are more than 5 % above a bound that
// is known, of which the sentence says, too, when their window was below 1 ms.
bool limits_refuse(const struct limits_claim *claim, char *why, size_t cap);

// The figure in percent of the bound; negative: the bound is not known.
double limits_percent(const struct limits_bound *bound, double gbps);

// Of the host's memory, what can be had without that of others, in bytes; UINT64_MAX: nobody tells.
uint64_t limits_memory_available(void);

#endif
