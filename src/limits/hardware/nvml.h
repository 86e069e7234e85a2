// GPUs and their links as NVIDIA's management library reports them. The library is loaded at run time, so the build
// needs no header of it. It wakes up no GPU, and a process may use it before a fork.
#ifndef LIMITS_HARDWARE_NVML_H
#define LIMITS_HARDWARE_NVML_H

#include <stdbool.h>
#include <stdint.h>

enum { NVML_MAX_GPUS = 64, NVML_MAX_LINKS = 36, NVML_ADDRESS = 16 };

struct nvml_gpu {
  char address[NVML_ADDRESS]; // PCI address as in sysfs: 0000:1b:00.0
  double memory_gbps;         // bandwidth of its memory, reads and writes together; 0: not known
  bool links_known;           // false: the driver does not report whether there are links
  uint32_t num_links;         // NVLink links that are up
  double link_gbps;           // rate of one link in one direction; 0: not known
  uint32_t to_switch;         // links to a switch, including all links to anything that is not a GPU of this host
  struct {
    char address[NVML_ADDRESS]; // of the GPU at the other end; "" for a switch
  } links[NVML_MAX_LINKS];
};

// Fills gpus[NVML_MAX_GPUS] and returns the number of GPUs; 0 without a driver. `library`: the file of NVML, or NULL.
uint32_t nvml_list(const char *library, struct nvml_gpu *gpus);

#endif
