// A plug-in whose GPUs are host memory, for what can be tested without any: it counts and describes them, allocates,
// copies and tells times; it has no engine. What it is to be comes from the environment:
//   FAKE_GPUS=N         how many there are; none when it is not set
//   FAKE_GPUS_CANNOT=W  what they cannot do: "count", "describe", "compute", "windows" or "peer"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/err.h>

#include "device/device.h"

struct device {
  int index;
};

static bool cannot(const char *what) {
  const char *text = getenv("FAKE_GPUS_CANNOT");
  return text && strcmp(text, what) == 0;
}

static int refuse(char *why, const char *text) {
  snprintf(why, DEVICE_WHY, "%s", text);
  return WEFT_ERR_UNSUPPORTED;
}

static int count_gpus(int *count, char *why) {
  const char *text = getenv("FAKE_GPUS");
  if (cannot("count"))
    return refuse(why, "the driver is of the year of the flood");
  *count = text ? atoi(text) : 0;
  return 0;
}

static int describe(int index, struct device_info *info, char *why) {
  if (cannot("describe"))
    return refuse(why, "it has fallen off the bus");
  *info = (struct device_info){.uuid = {[15] = (uint8_t)index},
                               .major = cannot("compute") ? 7 : 9,
                               .processors = 132,
                               .memory_bytes = UINT64_C(8) << 30,
                               .windows = !cannot("windows")};
  snprintf(info->name, sizeof info->name, "Fake %d", index);
  snprintf(info->pci, sizeof info->pci, "0000:%02x:00.0", index);
  return 0;
}

static int check_peer(int index, int peer, char *why) {
  return cannot("peer") && index != peer ? refuse(why, "they are on different continents") : 0;
}

static int open_device(int index, struct device **device, char *why) {
  *device = malloc(sizeof **device);
  if (!*device)
    return refuse(why, "no memory");
  (*device)->index = index;
  return 0;
}

static void close_device(struct device *device) {
  free(device);
}

static int allocate(struct device *device, size_t size, void **memory, char *why) {
  (void)device;
  *memory = calloc(1, size ? size : 1);
  return *memory ? 0 : refuse(why, "no memory");
}

static void release(struct device *device, void *memory) {
  (void)device;
  free(memory);
}

static int copy(struct device *device, void *to, const void *from, size_t size, void *stream, bool wait, char *why) {
  (void)device, (void)stream, (void)wait, (void)why;
  memcpy(to, from, size);
  return 0;
}

enum { HUGE = 16 << 20 }; // memory that is filled to pass the time

static int fill(struct device *device, void *memory, uint8_t byte, size_t size, void *stream, char *why) {
  (void)device, (void)stream, (void)why;
  memset(memory, byte, size < HUGE ? size : 1);
  return 0;
}

static int stream_open(struct device *device, void **stream, char *why) {
  (void)why;
  *stream = device;
  return 0;
}

static void stream_close(struct device *device, void *stream) {
  (void)device, (void)stream;
}

static int stream_wait(struct device *device, void *stream, uint32_t timeout_ms, char *why) {
  (void)device, (void)stream, (void)timeout_ms, (void)why;
  return 0;
}

static int event_open(struct device *device, void **mark, char *why) {
  (void)device;
  *mark = calloc(1, sizeof(struct timespec));
  return *mark ? 0 : refuse(why, "no memory");
}

static void event_close(struct device *device, void *mark) {
  (void)device;
  free(mark);
}

static int event_record(struct device *device, void *mark, void *stream, char *why) {
  (void)device, (void)stream, (void)why;
  clock_gettime(CLOCK_MONOTONIC, mark);
  return 0;
}

static int event_elapsed(struct device *device, void *begin, void *end, uint64_t *ns, char *why) {
  const struct timespec *from = begin, *to = end;
  (void)device, (void)why;
  *ns = (uint64_t)((to->tv_sec - from->tv_sec) * 1000000000 + to->tv_nsec - from->tv_nsec);
  return 0;
}

static const struct device_api api = {
    .abi = DEVICE_ABI,
    .count = count_gpus,
    .describe = describe,
    .check_peer = check_peer,
    .open = open_device,
    .close = close_device,
    .allocate = allocate,
    .release = release,
    .copy = copy,
    .fill = fill,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .stream_wait = stream_wait,
    .event_open = event_open,
    .event_close = event_close,
    .event_record = event_record,
    .event_elapsed = event_elapsed,
};

__attribute__((visibility("default"))) device_api_fn weft_cuda_api;
const struct device_api *weft_cuda_api(void) {
  return &api;
}
