// The memory of a worker: host memory, with huge pages if requested, or GPU memory; and contents that can be checked.
#ifndef BENCH_TRANSFER_BUFFER_H
#define BENCH_TRANSFER_BUFFER_H

#include "bench/transfer/transfer.h"
#include "device/device.h"

struct transfer_buffer {
  weft_agent_t *agent;
  weft_region_t region;
  char *address;
  uint64_t length;
  uint32_t gpu;
  bool cuda;
  enum { TRANSFER_AGENTS, TRANSFER_MAPPED, TRANSFER_DEVICES } owner; // who has allocated it
  const struct device_api *api;                                      // of CUDA memory
  struct device *device;
};

struct transfer_memory {
  enum transfer_segment segment;
  bool huge; // huge pages (host)
  bool own;  // registered as a caller's memory, so that it can be registered again
  uint32_t gpu;
  uint64_t length;
};

// UNSUPPORTED: no GPU, or no GPU with this number; LIMIT: not enough memory, or no huge pages; the sentence says how to
// get them.
int transfer_buffer_open(struct transfer_buffer *buffer, weft_agent_t *agent, const struct transfer_memory *memory);
// The agent must be closed before: until then transfers of peers may write to the memory. A buffer that was never
// opened is legal.
void transfer_buffer_close(struct transfer_buffer *buffer);
// Removes the registration and registers the memory again; `region` changes. BUSY: a list uses it.
int transfer_buffer_reregister(struct transfer_buffer *buffer);

// The memory's name as in the figures: "host", "cuda:0".
void transfer_buffer_name(const struct transfer_buffer *buffer, char *out, size_t cap);
// The UUID of the GPU in hexadecimal digits; "" for host memory.
void transfer_buffer_uuid(const struct transfer_buffer *buffer, char out[33]);

// --- contents: each byte is a function of seed, iteration, and its place in what the holder calls `stream` ---

struct transfer_contents {
  uint64_t seed, iteration, stream;
};

// The bytes `at` to `at + size` of the stream, `at` being any number, into `out`.
void transfer_contents_make(const struct transfer_contents *contents, uint64_t at, char *out, uint64_t size);
// Counts the wrong bytes of `found`; `*first` is the place of the first one in the stream, if there are any.
uint64_t transfer_contents_compare(const struct transfer_contents *contents, uint64_t at, const char *found,
                                   uint64_t size, uint64_t *first);
// Writes contents at `offset` of the buffer, or checks them there. DATA: the sentence says with `who` whose bytes are
// wrong.
int transfer_buffer_fill(struct transfer_buffer *buffer, uint64_t offset, const struct transfer_contents *contents,
                         uint64_t at, uint64_t size);
int transfer_buffer_check(struct transfer_buffer *buffer, uint64_t offset, const struct transfer_contents *contents,
                          uint64_t at, uint64_t size, const char *who);

#endif
