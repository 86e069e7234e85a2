// What NVIDIA's management library says of GPUs and their links. It is looked for when the program runs: no header of
// it is needed to build. It wakes no GPU up, and may be asked before a fork.
#ifndef LIMITS_HARDWARE_NVML_H
#define LIMITS_HARDWARE_NVML_H

#include <stdbool.h>
#include <stdint.h>

enum { NVML_MAX_GPUS = 64, NVML_MAX_LINKS = 36, NVML_ADDRESS = 16 };

struct nvml_gpu {
  char address[NVML_ADDRESS]; // PCI, as sysfs has it: 0000:1b:00.0
  double memory_gbps;         // of its memory, reading and writing together; 0: not known
  bool links_known;           // else the driver does not say whether there are any
  uint32_t num_links;         // of NVLink that are up
  double link_gbps;           // of one of them, one direction; 0: not known
  uint32_t to_switch;         // of the links; those to what is no GPU of this host are taken for such
  struct {
    char address[NVML_ADDRESS]; // of the GPU at the other end; "" for a switch
  } links[NVML_MAX_LINKS];
};

// Fills gpus[NVML_MAX_GPUS] and returns how many there are; 0 without a driver. `library`: its file, or NULL.
uint32_t nvml_list(const char *library, struct nvml_gpu *gpus);

#endif
