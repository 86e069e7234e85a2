// The buffers of a measurement, of each kind of memory, and the pattern that checks them.
#include "p2p/buffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/signal/stop.h"
#include "limits/limits.h"

enum { CHUNK = 1 << 20, PAGE = 4096 };

static int open_device(struct p2p_buffer *buffer, uint32_t gpu) {
  char why[DEVICE_WHY] = "";
  int rc = device_load(&buffer->api);
  if (rc == 0 && (rc = buffer->api->open((int)gpu, &buffer->device, why)) != 0)
    rc = device_fail(rc, "the GPU of --gpu-id", why);
  return rc;
}

static int register_own(struct p2p_buffer *buffer) {
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  size_t size = (buffer->length + PAGE - 1) / PAGE * PAGE;
  buffer->address = aligned_alloc(PAGE, size);
  if (!buffer->address)
    return fail(WEFT_ERR_NOMEM, "no %" PRIu64 " bytes for a buffer", buffer->length);
  memset(buffer->address, 0, size);
  memory.kind = WEFT_MEMORY_HOST;
  memory.address = buffer->address;
  memory.length = buffer->length;
  return weft_agent_register(buffer->agent, &memory, &buffer->region);
}

int p2p_buffer_room(enum p2p_memory memory, uint64_t length, uint32_t number) {
  uint64_t most = memory == P2P_MEMORY_CUDA ? UINT64_MAX : limits_memory_available();
  if (length <= most / number)
    return 0;
  return fail(WEFT_ERR_LIMIT,
              "%u buffer%s of %" PRIu64 " MiB: this host has %" PRIu64
              " MiB of free memory: want smaller --buffer-sizes",
              number, number == 1 ? "" : "s", length >> 20, most >> 20);
}

int p2p_buffer_open(struct p2p_buffer *buffer, weft_agent_t *agent, enum p2p_memory memory, uint32_t gpu,
                    uint64_t length) {
  *buffer = (struct p2p_buffer){.memory = memory, .gpu = gpu, .agent = agent, .length = length};
  int rc = p2p_buffer_room(memory, length, 1);
  if (rc != 0)
    return rc;
  if (memory == P2P_MEMORY_USER) {
    rc = register_own(buffer);
  } else {
    void *address = NULL;
    bool cuda = memory == P2P_MEMORY_CUDA;
    rc = cuda ? open_device(buffer, gpu) : 0;
    if (rc == 0)
      rc = weft_agent_allocate(agent, cuda ? WEFT_MEMORY_CUDA : WEFT_MEMORY_HOST, length, cuda ? (int32_t)gpu : -1,
                               &buffer->region, &address);
    buffer->address = rc == 0 ? address : NULL;
  }
  if (rc != 0)
    p2p_buffer_close(buffer);
  return rc;
}

void p2p_buffer_close(struct p2p_buffer *buffer) {
  // Memory that a transfer still reads or writes is left to the end of the process.
  bool in_use = buffer->region && weft_agent_deregister(buffer->agent, buffer->region) == WEFT_ERR_BUSY;
  if (buffer->memory == P2P_MEMORY_USER && !in_use)
    free(buffer->address);
  if (buffer->device)
    buffer->api->close(buffer->device);
  *buffer = (struct p2p_buffer){0};
}

int p2p_buffer_end(struct p2p_buffer *buffer, weft_peer_t peer, int rc) {
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", weft_last_error());
  if (rc != 0 && peer != 0 && buffer->agent)
    weft_agent_invalidate(buffer->agent, peer);
  p2p_buffer_close(buffer);
  return fail(rc, "%s", why);
}

// Bytes `at` to `at + size` of the contents of `seed`.
static void make(char *out, uint64_t seed, uint64_t at, uint64_t size) {
  for (uint64_t i = 0; i < size; i += sizeof(uint64_t)) {
    uint64_t word = random_mix(seed ^ ((at + i) << 8));
    memcpy(out + i, &word, size - i < sizeof word ? size - i : sizeof word);
  }
}

static int copy(struct p2p_buffer *buffer, void *to, const void *from, uint64_t size) {
  char why[DEVICE_WHY] = "";
  if (!buffer->device) {
    memcpy(to, from, size);
    return 0;
  }
  int rc = buffer->api->copy(buffer->device, to, from, size, NULL, true, why);
  return rc == 0 ? 0 : device_fail(rc, "the buffer's contents", why);
}

int p2p_buffer_fill(struct p2p_buffer *buffer, uint64_t seed, uint64_t bytes) {
  char *chunk = malloc(CHUNK);
  int rc = chunk ? 0 : fail(WEFT_ERR_NOMEM, "no memory for a buffer's contents");
  for (uint64_t at = 0; at < bytes && rc == 0; at += CHUNK) {
    uint64_t size = bytes - at < CHUNK ? bytes - at : CHUNK;
    rc = stop_check();
    if (rc != 0)
      break;
    make(chunk, seed, at, size);
    rc = copy(buffer, buffer->address + at, chunk, size);
  }
  free(chunk);
  return rc;
}

int p2p_buffer_check(struct p2p_buffer *buffer, uint64_t seed, uint64_t bytes) {
  char *wanted = malloc(CHUNK), *found = malloc(CHUNK);
  uint64_t wrong = 0, first = 0;
  int rc = wanted && found ? 0 : fail(WEFT_ERR_NOMEM, "no memory to check a buffer");
  for (uint64_t at = 0; at < bytes && rc == 0; at += CHUNK) {
    uint64_t size = bytes - at < CHUNK ? bytes - at : CHUNK;
    make(wanted, seed, at, size);
    rc = stop_check();
    if (rc == 0)
      rc = copy(buffer, found, buffer->address + at, size);
    if (rc != 0 || memcmp(wanted, found, size) == 0)
      continue;
    for (uint64_t i = 0; i < size; i++)
      if (wanted[i] != found[i] && wrong++ == 0)
        first = at + i;
  }
  free(wanted);
  free(found);
  if (rc == 0 && wrong > 0)
    rc = fail(WEFT_ERR_DATA, "%" PRIu64 " of %" PRIu64 " bytes are wrong, the first of them at offset %" PRIu64, wrong,
              bytes, first);
  return rc;
}
