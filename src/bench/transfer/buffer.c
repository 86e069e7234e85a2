// The memory of a worker.
#include "bench/transfer/buffer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fail.h"

enum { HUGE_PAGE = 2 << 20 };

static int find_gpu(struct transfer_buffer *buffer) {
  char why[DEVICE_WHY] = "";
  int count = 0;
  int err = device_load(&buffer->api);
  if (!err && (err = buffer->api->count(&count, why)) != 0)
    err = device_fail(err, "VRAM", why);
  if (err)
    return fail_context(err, "a segment of type VRAM needs a GPU");
  if (count < 1)
    return fail(WEFT_ERR_UNSUPPORTED, "a segment of type VRAM needs a GPU, but this process may use none");
  buffer->gpu %= (uint32_t)count; // with fewer GPUs than buffers some buffers share a GPU; the report names this
  if ((err = buffer->api->open((int)buffer->gpu, &buffer->device, why)) != 0)
    return device_fail(err, "VRAM", why);
  return 0;
}

static int register_own(struct transfer_buffer *buffer) {
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  memory.kind = buffer->cuda ? WEFT_MEMORY_CUDA : WEFT_MEMORY_HOST;
  memory.flags = buffer->cuda ? WEFT_MEMORY_DEVICE : 0;
  memory.device = buffer->cuda ? (int32_t)buffer->gpu : 0;
  memory.address = buffer->address;
  memory.length = buffer->length;
  return weft_agent_register(buffer->agent, &memory, &buffer->region);
}

// Memory that other processes of this host can map.
static int allocate_by_agent(struct transfer_buffer *buffer) {
  void *address = NULL;
  int err = weft_agent_allocate(buffer->agent, buffer->cuda ? WEFT_MEMORY_CUDA : WEFT_MEMORY_HOST, buffer->length,
                                buffer->cuda ? (int32_t)buffer->gpu : -1, &buffer->region, &address);
  if (err)
    return err;
  buffer->owner = TRANSFER_AGENTS;
  buffer->address = address;
  if (!buffer->cuda)
    memset(address, 0, buffer->length); // touches all pages before anything is timed
  return 0;
}

static int allocate_plain(struct transfer_buffer *buffer) {
  char why[DEVICE_WHY] = "";
  void *address = NULL;
  int err = buffer->api->allocate(buffer->device, buffer->length, &address, why);
  if (err)
    return device_fail(err, "VRAM", why);
  buffer->owner = TRANSFER_DEVICES;
  buffer->address = address;
  return register_own(buffer);
}

static int allocate_mapped(struct transfer_buffer *buffer, bool huge) {
  uint64_t length = (buffer->length + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | (huge ? MAP_HUGETLB : 0);
  void *address = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (address == MAP_FAILED && !huge)
    return fail_errno(errno, "no memory for a buffer of %" PRIu64 " bytes", length);
  if (address == MAP_FAILED)
    return fail(WEFT_ERR_LIMIT,
                "--use_hugepages: this host has no %" PRIu64 " free huge pages of 2 MiB (%s); write the number to "
                "/proc/sys/vm/nr_hugepages",
                length / HUGE_PAGE, strerror(errno));
  buffer->owner = TRANSFER_MAPPED;
  buffer->address = address;
  buffer->length = length;
  return register_own(buffer);
}

// What the host can give without taking it from others, as its kernel says. If the kernel says nothing, any size is
// accepted.
static int check_room(uint64_t length) {
  char line[128];
  unsigned long long kib, most = UINT64_MAX;
  FILE *file = fopen("/proc/meminfo", "re");
  while (file && most == UINT64_MAX && fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
      most = kib * 1024;
  if (file)
    fclose(file);
  if (length <= most)
    return 0;
  return fail(WEFT_ERR_LIMIT,
              "a buffer of %" PRIu64 " MiB: this host has %llu MiB of free memory: want smaller blocks, batches or "
              "pipelines",
              length >> 20, most >> 20);
}

int transfer_buffer_open(struct transfer_buffer *buffer, weft_agent_t *agent, const struct transfer_memory *memory) {
  bool cuda = memory->segment == TRANSFER_VRAM;
  *buffer = (struct transfer_buffer){.agent = agent, .length = memory->length, .gpu = memory->gpu, .cuda = cuda};
  int err = cuda ? find_gpu(buffer) : 0;
  if (!err && !cuda)
    err = check_room(memory->length);
  // The agent allocates GPU memory that other processes can map: memory from the pool of the plug-in cannot be mapped.
  if (!err && cuda)
    err = memory->own ? allocate_plain(buffer) : allocate_by_agent(buffer);
  else if (!err)
    err = memory->huge || memory->own ? allocate_mapped(buffer, memory->huge) : allocate_by_agent(buffer);
  if (err)
    transfer_buffer_close(buffer);
  return err;
}

void transfer_buffer_close(struct transfer_buffer *buffer) {
  if (buffer->address && buffer->owner == TRANSFER_MAPPED)
    munmap(buffer->address, buffer->length);
  if (buffer->address && buffer->owner == TRANSFER_DEVICES)
    buffer->api->release(buffer->device, buffer->address);
  if (buffer->device)
    buffer->api->close(buffer->device);
  *buffer = (struct transfer_buffer){0};
}

int transfer_buffer_reregister(struct transfer_buffer *buffer) {
  if (buffer->owner == TRANSFER_AGENTS)
    return fail(WEFT_ERR_UNSUPPORTED,
                "this memory was registered when it was allocated, and is deregistered when it is freed");
  int err = buffer->region ? weft_agent_deregister(buffer->agent, buffer->region) : 0;
  if (err)
    return err;
  buffer->region = 0;
  return register_own(buffer);
}

void transfer_buffer_name(const struct transfer_buffer *buffer, char *out, size_t cap) {
  if (buffer->cuda)
    snprintf(out, cap, "cuda:%u", buffer->gpu);
  else
    snprintf(out, cap, "host");
}

void transfer_buffer_uuid(const struct transfer_buffer *buffer, char out[33]) {
  struct device_info info = {0};
  char why[DEVICE_WHY];
  out[0] = '\0';
  if (!buffer->device || buffer->api->describe((int)buffer->gpu, &info, why) != 0)
    return;
  for (size_t i = 0; i < sizeof info.uuid; i++)
    snprintf(out + 2 * i, 3, "%02x", info.uuid[i]);
}
