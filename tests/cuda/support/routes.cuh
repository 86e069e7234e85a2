// Shared parts of the tests of groups for throughput on GPUs, in addition to api.cuh: routes, rows by rank, and arrays
// in device memory.
#ifndef TESTS_CUDA_ROUTES_CUH
#define TESTS_CUDA_ROUTES_CUH

#include "cuda/support/api.cuh"

enum { ALIGNMENT = 8, PACKED_ROWS = EXPERTS * ROWS, SHORT_MS = 300 };

template <typename T> std::vector<T> take(const rank &r, const void *from, size_t count) {
  std::vector<T> is(count);
  r.copy(is.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost);
  return is;
}

inline void receive_by_rank(rank &r) {
  r.recv.layout = WEFT_EP_RANK_MAJOR;
  r.recv.local_expert = r.local_expert;
  r.recv.weights = r.local_weights;
  r.recv.flags = WEFT_EP_RECV_KEEP_PLACES;
}

// With this route, packed rows have ALIGNMENT.
inline weft_ep_route_t *make_route(rank &r) {
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  weft_ep_route_t *route = nullptr;
  options.alignment = ALIGNMENT;
  r.must(weft_ep_route_create(r.ep, &options, &route), "weft_ep_route_create");
  return route;
}

// Runs an operation that fills the route, or uses it if `keeps`. Fails the test if any rank was lost.
inline void by_route(rank &r, weft_ep_route_t *route, bool keeps) {
  const float *weights = r.dispatch.topk_weights;
  r.dispatch.route = route;
  r.dispatch.topk_idx = keeps ? nullptr : r.wide;
  r.dispatch.topk_weights = keeps ? nullptr : weights;
  r.pair();
  r.check_whole();
  r.dispatch.route = nullptr;
  r.dispatch.topk_idx = r.wide;
  r.dispatch.topk_weights = weights;
}

#endif
