// Windows in host memory, and the thread that moves data between them.
#include "cuda/support/flow_relays.cuh"

#include "cuda/support/devices.cuh"
#include "cuda/support/flow_values.cuh"

extern "C" {
#include "cuda/engine/flow_layout.h"
#include "cuda/relay/relay.h"
}

enum { BATCH = 256 << 10, MOVES = 16 };

flow_relays::flow_relays(const flow_shape &shape, cuda_flow &flow)
    : ranks(shape.ranks), ends((size_t)shape.ranks * shape.ranks) {
  device_ep_options options = {};
  char why[DEVICE_WHY] = "";
  options.max_tokens = shape.tokens;
  options.hidden = shape.hidden;
  options.topk = shape.topk;
  options.experts_per_rank = shape.experts;
  options.dtype = shape.dtype;
  options.throughput = true;
  options.window_bytes = shape.window_bytes;
  cuda_flow_of(&options, &flow, &offset);
  size_t size = offset + flow.bytes;
  for (uint32_t i = 0; i < ranks; i++)
    for (uint32_t j = 0; j < ranks && flow.bytes; j++) {
      end &one = ends[i * ranks + j];
      if (i == j)
        continue;
      for (char **window : {&one.in, &one.out}) {
        OK(cudaHostAlloc((void **)window, size, cudaHostAllocPortable | cudaHostAllocMapped));
        cuda_area_init(*window, size);
      }
      if (cuda_relay_open(&options, one.in, one.out, &one.relay, why) != 0) {
        fprintf(stderr, "a relay does not open: %s\n", why);
        exit(1);
      }
    }
  carrier = std::thread([this] { carry(); });
}

// Between two ranks, the rows of one direction are not in the batches: they are copied from window to window.
size_t flow_relays::collect(uint32_t rank, uint32_t peer, void *bytes, size_t most) {
  end &from = ends[rank * ranks + peer];
  bool moves = (rank + peer + (rank < peer)) % 2;
  device_move list[MOVES];
  device_moves with = {};
  with.list = list;
  with.room = MOVES;
  with.most = BATCH;
  with.number = ++from.batches;
  with.landed = from.batches - 1;
  size_t size = cuda_relay_collect(from.relay, bytes, most, moves ? &with : nullptr, nullptr);
  for (uint32_t i = 0; i < with.count; i++)
    memcpy(at(peer, rank).in + list[i].offset, from.out + list[i].offset, list[i].bytes);
  return size;
}

// Moves batches of different sizes, each with room for a row at least.
void flow_relays::carry() {
  std::vector<uint64_t> room(BATCH / sizeof(uint64_t));
  char *bytes = (char *)room.data(), why[DEVICE_WHY] = "";
  for (uint64_t turn = 0; !over && wrong.empty(); turn++)
    for (uint32_t i = 0; i < ranks; i++)
      for (uint32_t j = 0; j < ranks; j++) {
        if (!at(i, j).relay)
          continue;
        size_t most = BATCH - mix(turn * 64 + j) % (BATCH * 3 / 4) / 16 * 16;
        size_t size = collect(i, j, bytes, most);
        if (size && cuda_relay_deliver(at(j, i).relay, bytes, size, NULL, why) != 0)
          wrong = why;
      }
}

std::string flow_relays::stop() {
  over = true;
  if (carrier.joinable())
    carrier.join();
  return wrong;
}

flow_relays::~flow_relays() {
  stop();
  for (end &one : ends) {
    cuda_relay_close(one.relay);
    cudaFreeHost(one.in);
    cudaFreeHost(one.out);
  }
}
