// Finds the GPU of a rank, for `weft env`.
#include "cli/commands/env_gpu.h"

#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_cuda(const struct topology_choice *choice, uint32_t rank, char how[CLI_ENV_WHY]) {
  const struct device_api *api = NULL;
  struct device_info info = {0};
  char why[DEVICE_WHY];
  int count = 0;
  if (device_load(&api) || api->count(&count, why) || count <= 0)
    return -1;
  int index = (int)(rank % (uint32_t)count);
  if (api->describe(index, &info, why))
    return -1;
  int gpu = topology_gpu_at(choice, info.pci);
  if (gpu >= 0)
    snprintf(how, CLI_ENV_WHY, "device %d of %d that CUDA shows%s", index, count,
             rank >= (uint32_t)count ? ", shared as there are more ranks than GPUs" : "");
  return gpu;
}

// The rank-th number of a list of GPUs; -1 if a word before it is not a number of a GPU. CUDA ends the list at such a
// word.
static int nth_number(const char *list, uint32_t rank, size_t limit) {
  uint32_t count = 1;
  for (const char *at = list; *at; at++)
    count += *at == ',';
  for (uint32_t skip = rank % count; skip > 0; skip--)
    list = strchr(list, ',') + 1;
  char *end;
  unsigned long number = strtoul(list, &end, 10);
  return end > list && (*end == '\0' || *end == ',') && number < limit ? (int)number : -1;
}

// Without CUDA: `visible` is CUDA_VISIBLE_DEVICES, NULL when unset.
static int gpu_by_numbers(const struct topology_choice *choice, uint32_t rank, const char *visible,
                          char how[CLI_ENV_WHY]) {
  if (choice->num_gpus == 0) {
    snprintf(how, CLI_ENV_WHY, "there is no GPU on the PCI bus");
    return -1;
  }
  int gpu = visible ? nth_number(visible, rank, choice->num_gpus) : (int)(rank % choice->num_gpus);
  if (gpu >= 0)
    snprintf(how, CLI_ENV_WHY, "counted as nvidia-smi does%s, as CUDA does not answer",
             visible ? ", from CUDA_VISIBLE_DEVICES" : "");
  else
    snprintf(how, CLI_ENV_WHY, "CUDA_VISIBLE_DEVICES is \"%.200s\", which only CUDA can resolve", visible);
  return gpu;
}

int cli_env_gpu(const struct topology_choice *choice, uint32_t rank, char how[CLI_ENV_WHY]) {
  int gpu = by_cuda(choice, rank, how);
  return gpu >= 0 ? gpu : gpu_by_numbers(choice, rank, getenv("CUDA_VISIBLE_DEVICES"), how);
}
