// Windows between ranks of one process, like windows between hosts that NVLink does not join: there is one in host
// memory on each side, and the library's relays and a thread move the data between the two.
#ifndef TESTS_CUDA_FLOW_RELAYS_CUH
#define TESTS_CUDA_FLOW_RELAYS_CUH

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cuda/support/flow_shape.cuh"
#include "cuda/throughput/flow.h"

struct device_relay;

class flow_relays {
public:
  // Sets `flow` to the layout of the streams.
  flow_relays(const flow_shape &shape, cuda_flow &flow);
  ~flow_relays();
  flow_relays(const flow_relays &) = delete;

  // The streams that rank `of` reads and rank `by` writes: read() is their address for `of`, written() for `by`.
  char *read(uint32_t of, uint32_t by) const { return at(of, by).in + offset; }
  char *written(uint32_t of, uint32_t by) const { return at(by, of).out + offset; }
  // Stops the thread. Returns the error of a relay, or "" without one.
  std::string stop();

private:
  struct end {
    char *in = nullptr, *out = nullptr;
    device_relay *relay = nullptr;
    uint64_t batches = 0; // sent
  };
  uint32_t ranks;
  uint64_t offset;
  std::vector<end> ends; // [rank][peer]
  std::atomic<bool> over{false};
  std::thread carrier;
  std::string wrong;

  const end &at(uint32_t rank, uint32_t peer) const { return ends[rank * ranks + peer]; }
  size_t collect(uint32_t rank, uint32_t peer, void *bytes, size_t most);
  void carry();
};

#endif
